//! The rows that services store beside their states, as far as decisions and sweeps read them, without a database.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use holdpoint_executor::Executor;
use holdpoint_executor::domain::need::{KnownUser, Places};
use holdpoint_executor::domain::run::LimitRow;
use holdpoint_executor::domain::time::after;
use holdpoint_executor::domain::{Aggregate, Effect, Fact, Key, Lease, Need};
use holdpoint_handoff::Handoff;
use holdpoint_handoff::domain::{
    Aggregate as HandoffAggregate, CountedStandingApproval, Effect as HandoffEffect,
    Fact as HandoffFact, Need as HandoffNeed, StandingApproval,
};
use holdpoint_ids::{OperationId, RunId, StandingApprovalId};
use holdpoint_kernel::{EffectOf, FactOf, KeyOf, NeedOf, Service, StateOf};
use holdpoint_scheduler::Scheduler;
use holdpoint_scheduler::domain::{Fact::Schedules as ScheduleNames, Need::Schedules};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::people::PEOPLE;

/// A service whose rows are kept in memory.
pub(crate) trait Tables: Service {
    /// All rows.
    type Rows: Default;

    /// Stores the rows of effects.
    fn keep_rows(rows: &mut Self::Rows, effects: &[EffectOf<Self>], now: DateTime<Utc>);

    /// Notes a commit before its states are stored, for checks at the end.
    fn observe(
        _: &mut Self::Rows,
        _before: &HashMap<KeyOf<Self>, StateOf<Self>>,
        _after: &[(KeyOf<Self>, StateOf<Self>)],
    ) {
    }

    /// The value of a need that is read from rows.
    fn look_up(
        rows: &Self::Rows,
        states: &HashMap<KeyOf<Self>, StateOf<Self>>,
        need: &NeedOf<Self>,
    ) -> Option<FactOf<Self>>;

    /// Creates the states that effects imply.
    fn make_states(
        _: &mut HashMap<KeyOf<Self>, StateOf<Self>>,
        _: &[EffectOf<Self>],
        _: DateTime<Utc>,
    ) {
    }

    /// A state after it was written to its row and read again.
    fn stored(state: StateOf<Self>) -> StateOf<Self>;
}

/// Writes a state as JSON and reads it again. Nothing may be lost.
pub(crate) fn through_json<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(
    state: &T,
) -> T {
    let text = serde_json::to_string(state).unwrap();
    let read = serde_json::from_str(&text).unwrap();
    assert_eq!(*state, read, "the row loses a part of the state");
    read
}

/// The copy of the users that the executor has.
pub(crate) struct UserCopy {
    pub(crate) users: BTreeMap<String, KnownUser>,
    /// Since the handoff service has confirmed it.
    pub(crate) age: Duration,
}

impl Default for UserCopy {
    /// All people are owners until the handoff service says otherwise.
    fn default() -> Self {
        let owner = KnownUser {
            is_active: true,
            roles: vec!["owner".parse().unwrap()],
        };
        let users = PEOPLE.map(|name| (name.to_owned(), owner.clone()));
        Self {
            users: users.into(),
            age: Duration::ZERO,
        }
    }
}

type StepKey = (RunId, String);

/// Rows of the executor.
#[derive(Default)]
pub(crate) struct ExecutorRows {
    /// The tool and the arguments of each step.
    pub(crate) called: BTreeMap<StepKey, (String, Value)>,
    pub(crate) leases: BTreeMap<StepKey, Lease>,
    /// The runs that have the result of an operation.
    results: BTreeSet<(OperationId, RunId)>,
    limits: BTreeMap<RunId, LimitRow>,
    pub(crate) users: UserCopy,
    /// A mutation: the users have all rights for ever.
    pub(crate) ignores_lost_rights: bool,
}

impl ExecutorRows {
    /// Who holds the places of a key, and who waits for one, in order.
    pub(crate) fn places(&self, key: &str) -> Places {
        let mut places = Places::default();
        let mut queue = Vec::new();
        for row in self.limits.values() {
            let Some(place) = row.place.as_ref().filter(|place| place.key == key) else {
                continue;
            };
            match place.number {
                Some(number) => {
                    let other = places.taken.insert(number, row.run);
                    assert_eq!(other, None, "two runs have place {number} of {key}");
                }
                None => queue.push((place.since, row.run)),
            }
        }
        queue.sort();
        places.queue = queue.into_iter().map(|(_, run)| run).collect();
        places
    }

    /// Keys with a queue.
    pub(crate) fn queued_keys(&self) -> BTreeSet<String> {
        let places = self.limits.values().filter_map(|row| row.place.as_ref());
        let queued = places.filter(|place| place.number.is_none());
        queued.map(|place| place.key.clone()).collect()
    }

    /// The starts of a key, newest first.
    fn starts(&self, key: &str) -> Vec<(u64, DateTime<Utc>)> {
        let starts = self.limits.values().filter_map(|row| row.start.as_ref());
        let starts = starts.filter(|(of, ..)| of == key);
        let mut starts: Vec<_> = starts.map(|(_, number, due)| (*number, *due)).collect();
        starts.sort_by(|one, other| other.cmp(one));
        let is_unique = starts.windows(2).all(|two| two[0].0 != two[1].0);
        assert!(is_unique, "two starts of {key} have one number");
        starts
    }

    /// Expired leases, and all leases of nodes that are down.
    pub(crate) fn due(&self, now: DateTime<Utc>, is_down: impl Fn(&Lease) -> bool) -> Vec<&Lease> {
        let leases = self.leases.values();
        leases
            .filter(|one| after(one.heartbeat_at, one.lease_ms) <= now || is_down(one))
            .collect()
    }
}

impl Tables for Executor {
    type Rows = ExecutorRows;

    fn keep_rows(rows: &mut ExecutorRows, effects: &[Effect], now: DateTime<Utc>) {
        for effect in effects {
            match effect {
                Effect::Step(row) => {
                    if let (Some(tool), Some(request)) = (&row.tool, &row.request) {
                        let key = (row.run, row.step.clone());
                        rows.called.insert(key, (tool.clone(), request.clone()));
                    }
                }
                Effect::Lease(lease) => {
                    let key = (lease.run, lease.step.clone());
                    rows.leases.insert(key, (**lease).clone());
                }
                Effect::LeaseEnded { run, step } => {
                    rows.leases.remove(&(*run, step.clone()));
                }
                Effect::Limits { row, .. } => {
                    rows.limits.insert(row.run, (**row).clone());
                }
                Effect::OperationResult(it) => {
                    let is_first = rows.results.insert((it.operation, it.run));
                    assert!(is_first, "{it:?}: a second result");
                }
                _ => {}
            }
        }
        for effect in effects {
            let Effect::LeasesRenewed { working } = effect else {
                continue;
            };
            for claimed in working {
                let key = (claimed.run, claimed.step.clone());
                if let Some(lease) = rows.leases.get_mut(&key) {
                    lease.heartbeat_at = now;
                }
            }
        }
    }

    fn look_up(rows: &ExecutorRows, states: &HashMap<Key, Aggregate>, need: &Need) -> Option<Fact> {
        if let Need::RunningOperations(workspace) = need {
            let operations = states.values().filter_map(Aggregate::try_as_operation_ref);
            let running = operations.filter(|it| it.workspace == *workspace && it.is_running());
            return Some(Fact::Count(running.count() as u64));
        }
        if let Need::OperationResult(operation, run) = need {
            let has_result = rows.results.contains(&(*operation, *run));
            return has_result.then_some(Fact::Count(1));
        }
        if let Need::Places(key) = need {
            return Some(Fact::Places(Arc::new(rows.places(key))));
        }
        if let Need::Starts(key) = need {
            return Some(Fact::Starts(Arc::new(rows.starts(key))));
        }
        if let Need::DirectoryAge = need {
            return Some(Fact::DirectoryAge(rows.users.age));
        }
        if let Need::User(_, name) = need {
            let first = UserCopy::default();
            let copy = match rows.ignores_lost_rights {
                true => &first,
                false => &rows.users,
            };
            let user = copy.users.get(name.as_str());
            return user.map(|user| Fact::User(Arc::new(user.clone())));
        }
        let Need::Request(run, step) = need else {
            return None;
        };
        let (_, request) = rows.called.get(&(*run, step.clone()))?;
        Some(Fact::Value(Arc::new(request.clone())))
    }

    fn stored(state: Aggregate) -> Aggregate {
        match state {
            Aggregate::Agent(it) => Aggregate::Agent(through_json(&it)),
            Aggregate::Contact(it) => Aggregate::Contact(through_json(&it)),
            Aggregate::Run(it) => Aggregate::Run(through_json(&it)),
            Aggregate::Workspace(it) => Aggregate::Workspace(through_json(&it)),
            Aggregate::Node(it) => Aggregate::Node(through_json(&it)),
            Aggregate::Tool(it) => Aggregate::Tool(through_json(&it)),
            Aggregate::Library(it) => Aggregate::Library(through_json(&it)),
            Aggregate::Operation(it) => Aggregate::Operation(through_json(&it)),
            Aggregate::Stateless => Aggregate::Stateless,
        }
    }
}

impl Tables for Scheduler {
    type Rows = ();

    fn keep_rows((): &mut (), _: &[EffectOf<Self>], _: DateTime<Utc>) {}

    fn look_up(
        (): &(),
        states: &HashMap<KeyOf<Self>, StateOf<Self>>,
        Schedules(workspace): &NeedOf<Self>,
    ) -> Option<FactOf<Self>> {
        let schedules = states.values().filter_map(|timer| timer.schedule.as_ref());
        let names = schedules
            .filter(|schedule| schedule.workspace == *workspace)
            .map(|schedule| schedule.spec.name.clone());
        Some(ScheduleNames(names.collect()))
    }

    /// Its rows have columns, and JSON of schedules only.
    fn stored(state: StateOf<Self>) -> StateOf<Self> {
        StateOf::<Self> {
            schedule: state.schedule.as_ref().map(through_json),
            ..state
        }
    }
}

/// Rows of the handoff service.
#[derive(Default)]
pub(crate) struct HandoffRows {
    /// How often each standing approval was used.
    uses: BTreeMap<StandingApprovalId, u32>,
    /// A mutation: no use is counted.
    pub(crate) ignores_uses: bool,
}

impl HandoffRows {
    fn counted(&self, approval: &StandingApproval) -> CountedStandingApproval {
        let used = self.uses.get(&approval.id).copied().unwrap_or(0);
        CountedStandingApproval {
            approval: approval.clone(),
            used: if self.ignores_uses { 0 } else { used },
        }
    }
}

impl Tables for Handoff {
    type Rows = HandoffRows;

    fn keep_rows(rows: &mut HandoffRows, effects: &[EffectOf<Self>], _: DateTime<Utc>) {
        for effect in effects {
            if let HandoffEffect::StandingApprovalUsed { id, number, .. } = effect {
                rows.uses.insert(*id, *number);
            }
        }
    }

    /// Decisions that change owners and members give them as facts.
    fn look_up(
        rows: &HandoffRows,
        states: &HashMap<KeyOf<Self>, StateOf<Self>>,
        need: &NeedOf<Self>,
    ) -> Option<FactOf<Self>> {
        let all = states.values();
        let all = all.filter_map(HandoffAggregate::try_as_standing_approval_ref);
        let active = |now: DateTime<Utc>| {
            all.filter(move |one| one.revoked.is_none() && now < one.expires_at())
        };
        match need {
            HandoffNeed::StandingApprovals(_, kind, now) => {
                let of_kind = active(*now).filter(|one| one.call_kind() == *kind);
                let mut of_kind: Vec<_> = of_kind.map(|one| rows.counted(one)).collect();
                of_kind.sort_by_key(|one| one.approval.id);
                Some(HandoffFact::StandingApprovals(of_kind))
            }
            HandoffNeed::StandingApprovalCount { is_early, now, .. } => {
                let of_sort = active(*now).filter(|one| one.terms.call.is_some() == *is_early);
                let count = u64::try_from(of_sort.count()).unwrap();
                Some(HandoffFact::StandingApprovalCount(count))
            }
            _ => None,
        }
    }

    fn stored(state: HandoffAggregate) -> HandoffAggregate {
        match state {
            HandoffAggregate::Request(it) => HandoffAggregate::Request(through_json(&it)),
            HandoffAggregate::User(it) => HandoffAggregate::User(through_json(&it)),
            HandoffAggregate::Policy(it) => HandoffAggregate::Policy(through_json(&it)),
            HandoffAggregate::StandingApproval(it) => {
                HandoffAggregate::StandingApproval(through_json(&it))
            }
            HandoffAggregate::Expired => HandoffAggregate::Expired,
        }
    }
}
