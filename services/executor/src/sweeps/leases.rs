//! Finds leases that have ended, and nodes that were asked and have not answered (S4-R4, S4-R12).

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

use crate::Executor;
use crate::domain::{Input, Lease, LeaseStatus, Node, NodeInput, RunInput, lease_status};
use crate::store;

/// Leases of one page.
const PAGE: u64 = 1_000;

/// Real time that a node has to answer when it is asked to beat: no clock that a user moves.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// Real time after the bus is back within which live nodes have beaten: they try each second.
pub(super) const HEARD_AGAIN_WITHIN: Duration = Duration::from_secs(5);

/// How long a node that is down is remembered, how often such ones are looked for, and how many at once.
const KEPT_WHEN_DOWN: TimeDelta = TimeDelta::days(1);
const FORGET_EVERY: Duration = Duration::from_secs(60);
const FORGET_PAGE: u64 = 100;

/// The sweep of leases.
#[derive(Debug)]
pub(super) struct Leases {
    clock: Clock,
    /// The last lease of the page before; empty at the beginning of a pass.
    after: String,
    /// Nodes that are being asked: which version of theirs, and since when this process knows.
    asked: HashMap<NodeName, (u64, Instant)>,
    /// While the bus is away no node can be heard; after it they have this long to be.
    bus: Bus,
    deaf_until: Option<Instant>,
    /// When nodes that are long down are looked for again.
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
            asked: HashMap::new(),
        }
    }

    /// Nodes that had their second. A process that has just started gives them another one.
    fn unheard(&mut self, suspects: &[Node], now: Instant) -> Vec<Input> {
        let before = std::mem::take(&mut self.asked);
        let mut inputs = Vec::new();
        for node in suspects {
            let known = before.get(&node.name);
            let known = known.filter(|(rev, _)| *rev == node.version);
            let since = known.map_or(now, |(_, since)| *since);
            if now.duration_since(since) >= ANSWER_WITHIN {
                inputs.push(Input::Node {
                    node: node.name.clone(),
                    input: NodeInput::ProbeTimedOut { rev: node.version },
                });
            }
            self.asked.insert(node.name.clone(), (node.version, since));
        }
        inputs
    }

    /// Whether a silence says nothing of a node, because nobody could be heard.
    pub(super) fn is_deaf(&mut self, now: Instant) -> bool {
        if !self.bus.is_connected() {
            self.deaf_until = Some(now + HEARD_AGAIN_WITHIN);
        }
        let is_deaf = self.deaf_until.is_some_and(|until| now < until);
        if is_deaf {
            self.asked.clear();
        }
        is_deaf
    }

    /// Nodes that were down for a day: a worker has a new name at each start.
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

    async fn lookup(&mut self, db: &DatabaseConnection) -> Result<SweepPage<Executor>, StoreError> {
        if self.is_deaf(Instant::now()) {
            return Ok(SweepPage {
                inputs: Vec::new(),
                messages: Vec::new(),
                more: false,
            });
        }
        let mut inputs = Vec::new();
        if self.after.is_empty() {
            let suspects = store::suspects(db, PAGE).await?;
            inputs = self.unheard(&suspects, Instant::now());
        }
        let now = self.clock.now();
        inputs.extend(self.forget(db, now).await?);
        let leases = store::due_leases(db, now, (&self.after, PAGE)).await?;
        let names: BTreeSet<&str> = leases.iter().map(|lease| lease.node.as_str()).collect();
        let names: Vec<_> = names.into_iter().collect();
        let nodes = store::nodes(db, &names).await?;
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
        self.after = match leases.last() {
            Some(last) if more => store::lease_id(last.run, &last.step),
            Some(_) | None => String::new(),
        };
        Ok(SweepPage {
            inputs,
            messages: Vec::new(),
            more,
        })
    }
}

impl Sweep<Executor> for Leases {
    const NAME: &'static str = "leases";
    const EVERY: Duration = Duration::from_secs(1);

    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<Executor>, StoreError>> {
        self.lookup(db).boxed()
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
