//! One request, some users, and a clock that a test moves.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test names what it expects; anything else fails it"
)]
#![expect(
    clippy::unwrap_in_result,
    reason = "what a test builds itself is well formed"
)]

mod check;

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_auth::Claims;
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::TimerReply;
use holdpoint_contracts::handoff::{
    ActOnRequest, DecideRequest, Decided, Decision, Effect as DecisionEffect, OpenHold,
    RequestAction, RequestHistoryEntry, RequestView, WithdrawHold,
};
use holdpoint_contracts::hold::{
    CloseReply, HandoffUpdate, HoldClosed, HoldSpec, HoldState, OnTimeout, SetHoldReply,
};
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_contracts::run::HoldKind;
use holdpoint_decision::Decider;
use holdpoint_ids::{HoldId, PolicyName, RunId, UserName, Workspace};
use serde_json::json;

use crate::domain::{
    Aggregate, Caller, CountedStandingApproval, Effect, Fact, HandoffDomain, Input, Lookup, Need,
    Outcome, Phase, Policy, Proof, Reply, Request, RequestInput, Undecided, User, UserInput,
};
use check::check;

pub(super) fn acme() -> Workspace {
    "acme".parse().unwrap()
}

pub(super) fn minute(count: i64) -> DateTime<Utc> {
    let start: DateTime<Utc> = "2026-01-01T00:00:00Z".parse().unwrap();
    start + TimeDelta::minutes(count)
}

pub(super) fn hold(number: u32) -> HoldId {
    HoldId {
        run: RunId::from_uuid("0193aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee".parse().unwrap()),
        number,
    }
}

pub(super) fn spec(kind: HoldKind) -> HoldSpec {
    HoldSpec {
        options: match kind {
            HoldKind::Input => vec!["yes".to_owned(), "no".to_owned()],
            HoldKind::Timer
            | HoldKind::Approval
            | HoldKind::Handoff
            | HoldKind::Signal
            | HoldKind::ChildRun => Vec::new(),
        },
        to: vec!["@user.ada".to_owned(), "@role.ops".to_owned()],
        on_timeout: OnTimeout::Fail,
        ..HoldSpec::asking(kind, "Did it happen?")
    }
}

pub(super) fn input_spec() -> HoldSpec {
    spec(HoldKind::Input)
}

/// Open until a minute.
pub(super) fn open(deadline: i64) -> HoldState {
    HoldState::Open {
        spec: Box::new(input_spec()),
        deadline: Some(minute(deadline)),
    }
}

/// Frozen since a minute.
pub(super) fn frozen(since: i64, remaining_ms: u64) -> HoldState {
    HoldState::Frozen {
        spec: Box::new(input_spec()),
        since: minute(since),
        remaining_ms: Some(remaining_ms),
    }
}

pub(super) fn gone() -> HoldState {
    HoldState::Withdrawn {
        reason: "the run was cancelled".to_owned(),
        by: None,
    }
}

pub(super) fn erased() -> HoldState {
    HoldState::Erased {
        contact: "c-ada".parse().unwrap(),
    }
}

pub(super) fn respond(answer: &str) -> Decision {
    Decision::Respond {
        answer: json!(answer),
    }
}

pub(super) fn signed(name: &str, roles: &[&str]) -> Caller {
    let user: UserName = name.parse().unwrap();
    Caller {
        actor: Actor(name.to_owned()),
        proof: Proof::Good(Claims {
            workspace: acme(),
            user,
            roles: roles.iter().map(|role| role.parse().unwrap()).collect(),
            expires_at: minute(1_000_000),
        }),
    }
}

pub(super) fn unsigned(name: &str) -> Caller {
    Caller {
        actor: Actor(name.to_owned()),
        proof: Proof::Absent,
    }
}

/// How often one decision may need more facts; the kernel gives up soon after.
const ROUNDS_MAX: usize = 3;

/// A request that ada and oscar (of ops) may answer, and bob may not.
#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) id: HoldId,
    pub(super) request: Option<Request>,
    /// Other requests.
    pub(super) others: BTreeMap<HoldId, Request>,
    pub(super) users: BTreeMap<String, User>,
    pub(super) now: DateTime<Utc>,
    /// The number of open requests of each user.
    pub(super) loads: BTreeMap<UserName, u64>,
    /// The policies that requests may name.
    pub(super) policies: BTreeMap<PolicyName, Policy>,
    /// Standing approvals of all calls.
    pub(super) standing: Vec<CountedStandingApproval>,
    /// All effects except nudges.
    pub(super) effects: Vec<Effect>,
}

impl World {
    pub(super) fn new() -> Self {
        let mut world = Self {
            id: hold(1),
            request: None,
            users: BTreeMap::new(),
            now: minute(0),
            others: BTreeMap::new(),
            loads: BTreeMap::new(),
            policies: BTreeMap::new(),
            standing: Vec::new(),
            effects: Vec::new(),
        };
        world.user("ada", &["member"]);
        world.user("oscar", &["member", "ops"]);
        world.user("bob", &["member"]);
        world.user("olga", &["owner"]);
        world
    }

    /// The same with a standalone hold.
    pub(super) fn alone() -> Self {
        Self {
            id: hold(0),
            ..Self::new()
        }
    }

    pub(super) fn user(&mut self, name: &str, roles: &[&str]) {
        let user = User {
            workspace: acme(),
            name: name.parse().unwrap(),
            email: None,
            roles: roles.iter().map(|role| role.parse().unwrap()).collect(),
            active: true,
            version: 1,
            is_leaving: false,
            left_roles: BTreeSet::new(),
        };
        self.users.insert(name.to_owned(), user);
    }

    /// A caller whose row and assertion have the same roles.
    pub(super) fn caller(&self, name: &str) -> Caller {
        let roles = self.users.get(name).map(|user| &user.roles);
        let roles: Vec<_> = roles
            .into_iter()
            .flatten()
            .map(|one| one.as_str())
            .collect();
        signed(name, &roles)
    }

    pub(super) fn lookup(&self, need: &Need) -> Lookup {
        match need {
            Need::User(_, name) => self
                .users
                .get(name.as_str())
                .map_or(Lookup::Missing, |user| {
                    Lookup::Found(Fact::User(user.clone()))
                }),
            Need::Owners(_) => {
                let owners = self.users.values().filter(|user| user.is_active_owner());
                let names: BTreeSet<_> = owners.map(|user| user.name.clone()).collect();
                Lookup::Found(Fact::Owners(names))
            }
            Need::Members(_) => Lookup::Found(Fact::Members(!self.users.is_empty())),
            Need::Role(_, role) => {
                let members = self
                    .users
                    .values()
                    .filter(|user| user.active && user.roles.contains(role));
                Lookup::Found(Fact::Role(members.map(|user| user.name.clone()).collect()))
            }
            Need::Loads(_) => Lookup::Found(Fact::Loads(self.loads.clone())),
            Need::Policy(_, name) => {
                let policy = self.policies.get(name);
                policy.map_or(Lookup::Missing, |one| {
                    Lookup::Found(Fact::Policy(Box::new(one.clone())))
                })
            }
            Need::Request(_, id) => self.others.get(id).map_or(Lookup::Missing, |one| {
                Lookup::Found(Fact::Request(Box::new(one.clone())))
            }),
            Need::Policies(_) => {
                let live = self.policies.values().filter(|one| !one.deleted);
                let names = live.map(|one| one.name.clone()).collect();
                Lookup::Found(Fact::Policies(names))
            }
            Need::StandingApprovals(_, kind, _) => {
                let of_call = self.standing.iter();
                let of_call = of_call.filter(|one| one.approval.call_kind() == *kind);
                Lookup::Found(Fact::StandingApprovals(of_call.cloned().collect()))
            }
            Need::StandingApprovalCount { is_early, .. } => {
                let of_kind = self.standing.iter();
                let of_kind = of_kind.filter(|one| one.approval.terms.call.is_some() == *is_early);
                Lookup::Found(Fact::StandingApprovalCount(of_kind.count() as u64))
            }
        }
    }

    /// Decides like the kernel: a fact is loaded only after it was needed, and rounds are few.
    pub(super) fn decide(
        &self,
        state: Option<&Aggregate>,
        input: &Input,
    ) -> Result<Outcome, Undecided> {
        let mut known = BTreeSet::new();
        for _ in 0..=ROUNDS_MAX {
            let lookup = |need: &Need| match known.contains(need) {
                true => self.lookup(need),
                false => Lookup::NotLoaded,
            };
            match HandoffDomain::decide(state, input, &lookup, self.now) {
                Err(Undecided::NeedsMore(more)) => known.extend(more),
                decided => return decided,
            }
        }
        panic!("{input:?} asks for more again and again: {known:?}");
    }

    /// Decides an input on the request, checks the invariants, and keeps the new state and its effects.
    pub(super) fn put(&mut self, input: RequestInput) -> Result<Reply, Problem> {
        let input = Input::Request {
            workspace: acme(),
            id: self.id,
            input,
        };
        let before = self.request.clone();
        let state = before.clone().map(|it| Aggregate::Request(Box::new(it)));
        match self.decide(state.as_ref(), &input) {
            Ok(Outcome::Decided(change)) => {
                let Aggregate::Request(next) = change.state else {
                    panic!("a request became a user")
                };
                check(before.as_ref(), &next, &change.effects);
                self.request = Some(*next);
                let is_nudge = |one: &Effect| matches!(one, Effect::Changed { .. });
                let desired = change.effects.into_iter().filter(|one| !is_nudge(one));
                self.effects.extend(desired);
                match change.reply {
                    Reply::Late(problem) => Err(*problem),
                    answer => Ok(answer),
                }
            }
            Ok(Outcome::Unchanged(answer)) => Ok(answer),
            Err(Undecided::Refused(refusal)) => Err(refusal.problem()),
            Err(Undecided::NeedsMore(needs)) => panic!("nobody has {needs:?}"),
        }
    }

    pub(super) fn desired_state(&mut self, rev: u64, state: HoldState) -> SetHoldReply {
        match self.put(RequestInput::SetDesired { rev, state }).unwrap() {
            Reply::DesiredState(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn decide_as(&mut self, name: &str, decision: Decision) -> Result<Decided, Problem> {
        let caller = self.caller(name);
        self.decide_with(caller, decision, None)
    }

    pub(super) fn decide_with(
        &mut self,
        caller: Caller,
        decision: Decision,
        version: Option<u64>,
    ) -> Result<Decided, Problem> {
        let id = self.id;
        let command = DecideRequest {
            id,
            decision,
            version,
            silent: false,
        };
        self.put(RequestInput::Decide(caller, command))
            .map(|answer| match answer {
                Reply::Decided(decided) => *decided,
                other => panic!("{other:?}"),
            })
    }

    pub(super) fn open_as(
        &mut self,
        caller: Caller,
        spec: HoldSpec,
        timeout_ms: u64,
    ) -> Result<Reply, Problem> {
        let id = self.id;
        let command = OpenHold {
            id,
            spec,
            timeout_ms,
        };
        self.put(RequestInput::Open(caller, Box::new(command)))
    }

    pub(super) fn withdraw_as(
        &mut self,
        caller: Caller,
        version: Option<u64>,
    ) -> Result<Reply, Problem> {
        let id = self.id;
        let command = WithdrawHold { id, version };
        self.put(RequestInput::Withdraw(caller, command))
    }

    /// Fires the newest timer now.
    pub(super) fn fire(&mut self) -> TimerReply {
        let timer = self.request.as_ref().unwrap().timer;
        self.fire_rev(timer.rev)
    }

    pub(super) fn fire_rev(&mut self, rev: u64) -> TimerReply {
        let due = self.now;
        match self.put(RequestInput::TimerFired { rev, due }).unwrap() {
            Reply::Timer(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    /// The executor's reply to the newest close.
    pub(super) fn acknowledge_close(&mut self, reply: CloseReply) {
        let rev = self.closed().last().unwrap().rev;
        self.put(RequestInput::CloseAcked { rev, reply }).unwrap();
    }

    pub(super) fn act(
        &mut self,
        name: &str,
        action: RequestAction,
    ) -> Result<RequestView, Problem> {
        let caller = self.caller(name);
        let command = ActOnRequest {
            id: self.id,
            action,
            version: None,
        };
        self.put(RequestInput::Act(caller, command))
            .map(|answer| match answer {
                Reply::Request(view) => *view,
                other => panic!("{other:?}"),
            })
    }

    /// The kind and the recipients of each request event, in order.
    pub(super) fn request_events(&self) -> Vec<(RequestEventKind, Vec<String>)> {
        let facts = self.effects.iter().filter_map(|effect| match effect {
            Effect::RequestEvent(_, fact) => Some((fact.kind, fact.to.clone())),
            _ => None,
        });
        facts.collect()
    }

    /// Actions and their actors, in order.
    pub(super) fn history(&self) -> Vec<(String, String)> {
        let history = self.view().history.into_iter();
        history.map(|one| (one.action, one.by)).collect()
    }

    pub(super) fn phase(&self) -> &Phase {
        &self.request.as_ref().unwrap().phase
    }

    pub(super) fn view(&self) -> RequestView {
        self.request.as_ref().unwrap().view().unwrap()
    }

    /// The closes that the executor got, in order.
    pub(super) fn closed(&self) -> Vec<&HoldClosed> {
        let closed = self.effects.iter().filter_map(|effect| match effect {
            Effect::Close(_, closed) => Some(closed),
            _ => None,
        });
        closed.collect()
    }

    /// The handoff updates that the executor got, in order.
    pub(super) fn handoff_updates(&self) -> Vec<&HandoffUpdate> {
        let handled = self.effects.iter().filter_map(|effect| match effect {
            Effect::HandoffUpdate(_, handled) => Some(handled),
            _ => None,
        });
        handled.collect()
    }

    /// The due time of the newest timer.
    pub(super) fn due(&self) -> Option<DateTime<Utc>> {
        let due = self.effects.iter().rev().find_map(|effect| match effect {
            Effect::Timer(_, timer) => Some(timer.due),
            _ => None,
        });
        due.flatten()
    }

    pub(super) fn user_input(
        &mut self,
        name: &str,
        caller: &Caller,
        input: UserInput,
    ) -> Result<bool, Problem> {
        let input = Input::User {
            workspace: acme(),
            name: name.parse().unwrap(),
            caller: caller.clone(),
            input,
        };
        let state = self.users.get(name).cloned().map(Aggregate::User);
        match self.decide(state.as_ref(), &input) {
            Ok(Outcome::Decided(change)) => {
                let Aggregate::User(user) = change.state else {
                    panic!("a user became a request")
                };
                assert_eq!(change.reply, Reply::User(user.view()));
                self.users.insert(name.to_owned(), user);
                Ok(true)
            }
            Ok(Outcome::Unchanged(_)) => Ok(false),
            Err(Undecided::Refused(refusal)) => Err(refusal.problem()),
            Err(Undecided::NeedsMore(needs)) => panic!("nobody has {needs:?}"),
        }
    }
}
