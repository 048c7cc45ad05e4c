//! Runs what nobody takes: queued steps of idempotent built-in tools, inside the executor (S2-R7).
//!
//! Through the same step row and grant as everybody else: the executor asks its own kernel to start
//! and reports to it, under the name of a node of its own. With the bus away it goes on round after
//! round: its commits do not wait for the bus, what they have to tell waits in the outbox.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, join_all};
use holdpoint_contracts::run::ActionResult;
use holdpoint_contracts::steps::StepDispatch;
use holdpoint_ids::{NodeName, RunId, ToolName};
use holdpoint_kernel::Handle;
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::domain::tool::BUILT_IN;
use crate::domain::view::INLINE_NODE;
use crate::domain::{Input, RunInput, StepRow};
use crate::sweeps::step_dispatches;
use crate::{Executor, outbound, store, vital};

/// How often it is looked for steps that nobody takes.
const EVERY: Duration = Duration::from_secs(1);

/// How long a step is left to the workers.
const LEFT_TO_WORKERS: Duration = Duration::from_secs(5);

/// Queued steps of one round; the next one goes on behind them.
const PAGE: u64 = 1_000;

/// Hand-outs of which it is known how long they have been left; those of further ones are looked at later.
const LEFT_MAX: usize = 100_000;

/// Steps that run at the same time.
const AT_ONCE_MAX: usize = 16;

/// Tools that can run inside the executor. The crate that has them is given in by whoever puts the
/// process together: the executor does not depend on the worker's tools.
pub trait InlineTools: Send + Sync + 'static {
    /// Whether it has such a tool.
    fn knows(&self, tool: &ToolName) -> bool;

    /// Calls it: what came of it, and the stable code of a failure.
    fn call<'c>(
        &'c self,
        step_dispatch: &'c StepDispatch,
    ) -> BoxFuture<'c, (ActionResult, Option<String>)>;
}

impl std::fmt::Debug for dyn InlineTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InlineTools")
    }
}

/// Names one dispatch.
type Place = (RunId, String, u64);

/// What runs steps inside the executor.
pub(crate) struct Inline {
    pub(crate) service: Executor,
    pub(crate) handle: Handle<Executor>,
    pub(crate) db: DatabaseConnection,
    pub(crate) tools: Arc<dyn InlineTools>,
    /// Since when a dispatch is known to be left, and the pass that has seen it last.
    left: HashMap<Place, (Instant, u64)>,
    /// The last step of the round before; none: a pass begins.
    after: Option<(RunId, String)>,
    pass: u64,
}

impl Inline {
    pub(crate) fn new(
        service: &Executor,
        handle: &Handle<Executor>,
        db: &DatabaseConnection,
        tools: Arc<dyn InlineTools>,
    ) -> Self {
        Self {
            service: service.clone(),
            handle: handle.clone(),
            db: db.clone(),
            tools,
            left: HashMap::new(),
            after: None,
            pass: 0,
        }
    }

    /// Looks for what is left, until it is told to stop.
    pub(crate) fn start(mut self, stop: CancellationToken, tracker: &TaskTracker) {
        // A name of its own for every process: the same one is taken for the same asker.
        let id = RunId::fresh().to_string();
        let nonce: String = id.chars().rev().take(8).collect();
        let Ok(node) = format!("{INLINE_NODE}-{nonce}").parse::<NodeName>() else {
            return;
        };
        tracker.spawn(vital("inline steps").run(async move {
            // What it was granted and did not report is given out again when the lease ends.
            stop.run_until_cancelled(self.rounds(&node)).await;
        }));
    }

    async fn rounds(&mut self, node: &NodeName) {
        loop {
            if let Err(error) = self.round(node).await {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "cannot look for steps that nobody takes");
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    async fn round(&mut self, node: &NodeName) -> Result<(), StoreError> {
        let found = self.left_over().await?;
        if found.is_empty() {
            return Ok(());
        }
        let starts = found.iter().map(|out| start_step(node, out)).collect();
        if !self.handle.submit(starts).await {
            return Ok(());
        }
        let ids: Vec<_> = found
            .iter()
            .map(|out| store::lease_id(out.run, &out.step))
            .collect();
        let leases = store::leases(&self.db, &ids).await?;
        // The grant is a row: whoever was faster has it.
        let is_ours = |out: &StepDispatch| {
            leases.iter().any(|lease| {
                (lease.run, &lease.step, lease.dispatch) == (out.run, &out.step, out.dispatch)
                    && lease.node == *node
            })
        };
        let mut granted = found;
        granted.retain(is_ours);
        let results = join_all(granted.iter().map(|out| self.run(node, out))).await;
        let results: Vec<_> = results.into_iter().flatten().collect();
        if !results.is_empty() && !self.handle.submit(results).await {
            tracing::warn!("results of inline steps were not committed; their leases will end");
        }
        Ok(())
    }

    /// Steps that have been queued for long and that may run here. Pages follow each other, so that those
    /// that may not run here hold up no others.
    async fn left_over(&mut self) -> Result<Vec<StepDispatch>, StoreError> {
        let now = Instant::now();
        let after = self.after.as_ref().map(|(run, step)| (*run, step.as_str()));
        let rows = store::queued_steps(&self.db, after, &BUILT_IN, PAGE).await?;
        let is_full = u64::try_from(rows.len()).is_ok_and(|found| found >= PAGE);
        let mut next = rows.last().map(|row| (row.run, row.step.clone()));
        let mut long = Vec::new();
        for row in rows {
            let name = row.tool.as_deref().and_then(|tool| tool.parse().ok());
            if name.is_some_and(|name| self.tools.knows(&name)) && self.is_left(&row, now) {
                long.push(row);
            }
        }
        let mut found = step_dispatches(&self.db, long).await?;
        found.retain(|out| out.idempotent);
        if found.len() > AT_ONCE_MAX {
            // The next round begins with the first one that had no place.
            found.truncate(AT_ONCE_MAX);
            next = found.last().map(|out| (out.run, out.step.clone()));
        } else if !is_full {
            next = None;
            self.left.retain(|_, (_, pass)| *pass == self.pass);
            self.pass += 1;
        }
        self.after = next;
        Ok(found)
    }

    /// Whether the workers have had their time with a step.
    fn is_left(&mut self, row: &StepRow, now: Instant) -> bool {
        let place = (row.run, row.step.clone(), row.dispatch);
        if self.left.len() >= LEFT_MAX && !self.left.contains_key(&place) {
            return false;
        }
        let (since, pass) = self.left.entry(place).or_insert((now, self.pass));
        *pass = self.pass;
        now.duration_since(*since) >= LEFT_TO_WORKERS
    }

    /// Calls the tool for as long as the lease lasts: nobody beats for it.
    async fn run(&self, node: &NodeName, out: &StepDispatch) -> Option<Input> {
        let signed = outbound::signed(out, &self.service.keys.steps, self.service.clock.now());
        let within = Duration::from_millis(out.claim_timeout_ms);
        let called = tokio::time::timeout(within, self.tools.call(&signed)).await;
        let Ok((result, error_code)) = called else {
            tracing::warn!(run = %out.run, step = out.step, "an inline step took longer than its lease");
            return None;
        };
        let input = RunInput::StepResult {
            node: node.clone(),
            step: out.step.clone(),
            dispatch: out.dispatch,
            result,
            error_code,
        };
        Some(about(out, input))
    }
}

fn start_step(node: &NodeName, out: &StepDispatch) -> Input {
    let input = RunInput::StartStep {
        node: node.clone(),
        step: out.step.clone(),
        dispatch: out.dispatch,
        delivery: 1,
        without_lease: false,
    };
    about(out, input)
}

fn about(out: &StepDispatch, input: RunInput) -> Input {
    Input::Run {
        workspace: out.workspace.clone(),
        run: out.run,
        input,
    }
}
