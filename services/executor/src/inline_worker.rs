//! Runs queued steps of idempotent built-in tools that no worker takes, inside the executor (S2-R7).
//!
//! It uses the same step row and grant as a worker: it submits the start and the result to the kernel,
//! under a node name of this process. Without the bus it continues, because commits do not wait for the
//! bus and their messages wait in the outbox.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, join_all};
use holdpoint_contracts::duration::describe;
use holdpoint_contracts::run::ActionResult;
use holdpoint_contracts::steps::{StepDispatch, TIMEOUT_CODE};
use holdpoint_ids::{NodeName, RunId, ToolName};
use holdpoint_kernel::Handle;
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::domain::tool::BUILT_IN;
use crate::domain::view::INLINE_NODE;
use crate::domain::{DeliveredStep, Input, RunInput, StepReport, StepRow};
use crate::executor::{Executor, vital};
use crate::sweeps::{Place, place_of, step_dispatches};
use crate::{outbound, store};

/// How often it searches for steps that no worker takes.
const EVERY: Duration = Duration::from_secs(1);

/// How long a queued step is reserved for workers.
const WORKERS_FIRST: Duration = Duration::from_secs(5);

/// Queued steps of one round; the next round continues after them.
const PAGE: u64 = 1_000;

/// Dispatches whose waiting time is measured at the same time; further ones are measured later.
const QUEUED_MAX: usize = 100_000;

/// Steps that run at the same time.
const AT_ONCE_MAX: usize = 16;

/// Tools that can run inside the executor. The binary passes them in, so that the executor does not
/// depend on the crate of the worker's tools.
pub trait InlineTools: Send + Sync + 'static {
    fn knows(&self, tool: &ToolName) -> bool;

    /// Calls the tool; returns its result and the stable code of a failure.
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

pub(crate) struct InlineWorker {
    pub(crate) service: Executor,
    pub(crate) handle: Handle<Executor>,
    pub(crate) db: DatabaseConnection,
    pub(crate) tools: Arc<dyn InlineTools>,
    /// When a dispatch was first seen queued, and the last pass that saw it.
    queued: HashMap<Place, (Instant, u64)>,
    /// The last step of the previous round; absent: a pass begins.
    after: Option<(RunId, String)>,
    pass: u64,
}

impl InlineWorker {
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
            queued: HashMap::new(),
            after: None,
            pass: 0,
        }
    }

    /// Runs rounds until `stop`.
    pub(crate) fn start(mut self, stop: CancellationToken, tracker: &TaskTracker) {
        // A grant is repeated for the same node name, so each process needs another name.
        let id = RunId::fresh().to_string();
        let nonce: String = id.chars().rev().take(8).collect();
        let Ok(node) = format!("{INLINE_NODE}-{nonce}").parse::<NodeName>() else {
            return;
        };
        tracker.spawn(vital("inline steps").run(async move {
            // A granted step without a report is dispatched again when its lease ends.
            stop.run_until_cancelled(self.rounds(&node)).await;
        }));
    }

    async fn rounds(&mut self, node: &NodeName) {
        loop {
            if let Err(error) = self.round(node).await {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(
                    error,
                    "queued steps cannot be read; inline steps wait for the next round"
                );
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    async fn round(&mut self, node: &NodeName) -> Result<(), StoreError> {
        let found = self.find_waiting().await?;
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
        // The lease row shows whether this process or a worker got the grant.
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
            tracing::warn!(
                "results of inline steps were not committed; the steps are repeated when their leases end"
            );
        }
        Ok(())
    }

    /// Steps that have waited long enough and may run here. Each round reads the next page, so that steps
    /// that may not run here delay no others.
    async fn find_waiting(&mut self) -> Result<Vec<StepDispatch>, StoreError> {
        let now = Instant::now();
        let after = self.after.as_ref().map(|(run, step)| (*run, step.as_str()));
        let rows = store::queued_steps(&self.db, after, &BUILT_IN, PAGE).await?;
        let is_full = u64::try_from(rows.len()).is_ok_and(|found| found >= PAGE);
        let mut next = rows.last().map(|row| (row.run, row.step.clone()));
        let mut waiting = Vec::new();
        for row in rows {
            let name = row.tool.as_deref().and_then(|tool| tool.parse().ok());
            if name.is_some_and(|name| self.tools.knows(&name)) && self.has_waited(&row, now) {
                waiting.push(row);
            }
        }
        let found = step_dispatches(&self.db, waiting).await?;
        let found = found.into_iter().filter(|call| call.is_idempotent);
        let mut found: Vec<_> = found.map(|call| call.out).collect();
        if found.len() > AT_ONCE_MAX {
            // The next round begins with the first step beyond the limit.
            found.truncate(AT_ONCE_MAX);
            next = found.last().map(|out| (out.run, out.step.clone()));
        } else if !is_full {
            next = None;
            self.queued.retain(|_, (_, pass)| *pass == self.pass);
            self.pass += 1;
        }
        self.after = next;
        Ok(found)
    }

    /// Whether workers had enough time to take a step.
    fn has_waited(&mut self, row: &StepRow, now: Instant) -> bool {
        let place = place_of(row);
        if self.queued.len() >= QUEUED_MAX && !self.queued.contains_key(&place) {
            return false;
        }
        let (since, pass) = self.queued.entry(place).or_insert((now, self.pass));
        *pass = self.pass;
        now.duration_since(*since) >= WORKERS_FIRST
    }

    /// Calls the tool within the time of the lease, which no heartbeat renews.
    async fn run(&self, node: &NodeName, out: &StepDispatch) -> Option<Input> {
        let signed = outbound::signed(out, &self.service.keys.steps, self.service.clock.now());
        let lease_ms = out.claim_timeout_ms;
        let limit_ms = out.timeout_ms.filter(|limit_ms| *limit_ms < lease_ms);
        let within = Duration::from_millis(limit_ms.unwrap_or(lease_ms));
        let called = tokio::time::timeout(within, self.tools.call(&signed)).await;
        let (result, error_code) = match (called, limit_ms) {
            (Ok(called), _) => called,
            (Err(_), Some(_)) => timed_out(out, within),
            (Err(_), None) => {
                tracing::warn!(run = %out.run, step = out.step, "inline step took longer than its lease; it is dispatched again");
                return None;
            }
        };
        let input = RunInput::StepResult(StepReport {
            node: node.clone(),
            step: out.step.clone(),
            dispatch: out.dispatch,
            result,
            error_code,
            cost: None,
        });
        Some(about(out, input))
    }
}

fn timed_out(out: &StepDispatch, within: Duration) -> (ActionResult, Option<String>) {
    let text = format!(
        "{} was stopped: no end within {}.",
        out.tool,
        describe(within)
    );
    let result = ActionResult {
        success: false,
        description: text.clone(),
        error: Some(text),
        data: Value::Null,
        duration_ms: u64::try_from(within.as_millis()).unwrap_or(u64::MAX),
    };
    (result, Some(TIMEOUT_CODE.to_owned()))
}

fn start_step(node: &NodeName, out: &StepDispatch) -> Input {
    let input = RunInput::StartStep(DeliveredStep {
        node: node.clone(),
        step: out.step.clone(),
        dispatch: out.dispatch,
        delivery: 1,
        without_lease: false,
        is_high_risk: false,
        is_idempotent: false,
    });
    about(out, input)
}

fn about(out: &StepDispatch, input: RunInput) -> Input {
    Input::Run {
        workspace: out.workspace.clone(),
        run: out.run,
        input,
    }
}
