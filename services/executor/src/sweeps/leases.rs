//! Finds expired leases, and probed nodes that have not replied (S4-R4, S4-R12).

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_bus::Bus;
use holdpoint_clock::Clock;
use holdpoint_ids::NodeName;
use holdpoint_kernel::{Sweep, SweepPage};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;

use crate::domain::{Input, Lease, LeaseStatus, Node, NodeInput, RunInput, lease_status};
use crate::executor::Executor;
use crate::store;

const PAGE: u64 = 1_000;

/// Real time that a probed node has to send a heartbeat. A moved test clock does not shorten it.
const REPLY_WITHIN: Duration = Duration::from_secs(1);

/// Real time after a reconnect within which live nodes have sent a heartbeat: they try each second.
pub(super) const RECONNECT_GRACE: Duration = Duration::from_secs(5);

/// How long the row of a node that is down is kept, how often such rows are searched for, and the size of
/// a page.
const KEPT_WHEN_DOWN: TimeDelta = TimeDelta::days(1);
const FORGET_EVERY: Duration = Duration::from_secs(60);
const FORGET_PAGE: u64 = 100;

#[derive(Debug)]
pub(super) struct Leases {
    clock: Clock,
    /// The last lease of the previous page; empty at the beginning of a pass.
    after: String,
    /// Probed nodes, with the version of the probe and when this process first saw it.
    probed: HashMap<NodeName, (u64, Instant)>,
    /// Without the bus no heartbeat arrives, so silence proves nothing until this instant.
    bus: Bus,
    deaf_until: Option<Instant>,
    /// When rows of nodes that are down are searched for again.
    forget_at: Instant,
}

impl Leases {
    pub(super) fn new(clock: Clock, bus: Bus) -> Self {
        Self {
            bus,
            deaf_until: None,
            forget_at: Instant::now(),
            clock,
            after: String::new(),
            probed: HashMap::new(),
        }
    }

    /// Nodes whose second has passed. A process that has just started gives them another second, because
    /// it may have missed the reply.
    fn unanswered_probes(&mut self, suspects: &[Node], now: Instant) -> Vec<Input> {
        let before = std::mem::take(&mut self.probed);
        let mut inputs = Vec::new();
        for node in suspects {
            let known = before.get(&node.name);
            let known = known.filter(|(rev, _)| *rev == node.version);
            let since = known.map_or(now, |(_, since)| *since);
            if now.duration_since(since) >= REPLY_WITHIN {
                inputs.push(Input::Node {
                    node: node.name.clone(),
                    input: NodeInput::ProbeTimedOut { rev: node.version },
                });
            }
            self.probed.insert(node.name.clone(), (node.version, since));
        }
        inputs
    }

    /// Whether heartbeats could not arrive, so that silence proves nothing.
    pub(super) fn is_deaf(&mut self, now: Instant) -> bool {
        if !self.bus.is_connected() {
            self.deaf_until = Some(now + RECONNECT_GRACE);
        }
        let is_deaf = self.deaf_until.is_some_and(|until| now < until);
        if is_deaf {
            self.probed.clear();
        }
        is_deaf
    }

    /// Nodes that were down for a day. A worker has a new name at each start, so their rows never return.
    async fn forget(
        &mut self,
        db: &DatabaseConnection,
        now: DateTime<Utc>,
    ) -> Result<Vec<Input>, StoreError> {
        if Instant::now() < self.forget_at {
            return Ok(Vec::new());
        }
        let nodes = store::forgettable_nodes(db, now - KEPT_WHEN_DOWN, FORGET_PAGE).await?;
        // A full page is followed by the next one at once.
        if nodes.len() < usize::try_from(FORGET_PAGE).unwrap_or(usize::MAX) {
            self.forget_at = Instant::now() + FORGET_EVERY;
        }
        let inputs = nodes.into_iter().map(|node| Input::Node {
            node: node.name,
            input: NodeInput::Forget { rev: node.version },
        });
        Ok(inputs.collect())
    }

    async fn read_page(
        &mut self,
        db: &DatabaseConnection,
    ) -> Result<SweepPage<Executor>, StoreError> {
        if self.is_deaf(Instant::now()) {
            return Ok(SweepPage::of_inputs([], false));
        }
        let mut inputs = Vec::new();
        if self.after.is_empty() {
            let suspects = store::suspects(db, PAGE).await?;
            inputs = self.unanswered_probes(&suspects, Instant::now());
        }
        let now = self.clock.now();
        inputs.extend(self.forget(db, now).await?);
        let leases = store::due_leases(db, now, (&self.after, PAGE)).await?;
        let names: BTreeSet<_> = leases.iter().map(|lease| &lease.node).collect();
        let nodes = store::nodes(db, names).await?;
        let nodes: HashMap<_, _> = nodes.iter().map(|node| (&node.name, node)).collect();
        let mut silent = BTreeSet::new();
        for lease in &leases {
            match lease_status(lease, nodes.get(&lease.node).copied(), now) {
                LeaseStatus::Valid => {}
                LeaseStatus::ProbeNode(rev) => {
                    silent.insert((lease.node.clone(), rev));
                }
                LeaseStatus::Ended => inputs.push(ended(lease)),
            }
        }
        inputs.extend(silent.into_iter().map(|(node, rev)| Input::Node {
            node,
            input: NodeInput::HeartbeatMissed { rev },
        }));
        let more = leases.len() >= usize::try_from(PAGE).unwrap_or(usize::MAX);
        let last = leases.last().filter(|_| more);
        self.after = last.map_or_else(String::new, |last| store::lease_id(last.run, &last.step));
        Ok(SweepPage::of_inputs(inputs, more))
    }
}

impl Sweep<Executor> for Leases {
    const NAME: &'static str = "leases";
    const EVERY: Duration = Duration::from_secs(1);

    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<Executor>, StoreError>> {
        self.read_page(db).boxed()
    }
}

fn ended(lease: &Lease) -> Input {
    Input::Run {
        workspace: lease.workspace.clone(),
        run: lease.run,
        input: RunInput::LeaseEnded {
            step: lease.step.clone(),
            dispatch: lease.dispatch,
            node: lease.node.clone(),
        },
    }
}
