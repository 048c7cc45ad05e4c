//! The pure core: requests (holds on people, and holds that stand alone) and users.
//!
//! It knows no clock, database or bus. What it lacks it names as a [`Need`].

mod acting;
mod again;
mod asked;
mod audience;
mod caller;
mod deciding;
mod decision;
mod hours;
mod ladder;
mod limits;
mod merge_desired_state;
mod need;
mod policy;
mod progress;
mod quorum;
mod refusal;
mod request;
mod set_hold;
mod settled;
mod standalone;
mod transition;
mod user;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::TimerReply;
use holdpoint_contracts::handoff::{
    AskAgain, Decided, DecidedOne, Decision, PolicyRules, PolicyView, RequestAction, RequestView,
    UserView,
};
use holdpoint_contracts::hold::{
    CloseReply, HandoffUpdate, HoldClosed, HoldSpec, HoldState, SetHoldReply,
};
use holdpoint_contracts::notification::RequestEvent;
use holdpoint_decision::Decider;
use holdpoint_ids::{HoldId, PolicyName, RoleName, UserName, Workspace};
use serde::Serialize;

pub use audience::Recipient;
pub use caller::{Caller, Proof};
pub use decision::{Change, HandoffDomain, Lookup, LookupFn, Outcome, Undecided};
pub use merge_desired_state::{MergeAction, OwnerState, merge_desired_state};
pub use need::{Fact, Need};
pub use policy::{Policy, all_built_in};
pub use progress::{AuditStamp, Ladder, PendingHandoffEvents, RequestProgress, RungEnd};
pub use refusal::Refusal;
pub use request::{Owner, Phase, Request, Timer};
pub use settled::ResolvedPolicies;
pub use user::User;

/// Names one aggregate. The workspace is part of it, so that none reaches into another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// A hold, by its id.
    Request(Workspace, HoldId),
    /// A person, or a program with rights of its own.
    User(Workspace, UserName),
    /// Rules that requests name.
    Policy(Workspace, PolicyName),
}

/// An aggregate's state.
#[derive(Debug, Clone, PartialEq)]
pub enum Aggregate {
    /// What is asked, and what became of it.
    Request(Box<Request>),
    /// Who somebody is.
    User(User),
    /// What requests that name it keep.
    Policy(Box<Policy>),
}

/// Everything that can happen to one aggregate.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// To a request.
    Request {
        workspace: Workspace,
        id: HoldId,
        input: RequestInput,
    },
    /// To a user.
    User {
        workspace: Workspace,
        name: UserName,
        caller: Caller,
        input: UserInput,
    },
    /// To a policy.
    Policy {
        workspace: Workspace,
        name: PolicyName,
        caller: Caller,
        input: PolicyInput,
    },
}

/// Everything that can happen to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum RequestInput {
    /// The executor says which state it wants: level, not edge.
    SetDesired {
        /// Rises with every desired state; lower or equal changes nothing.
        rev: u64,
        /// The state that is wanted.
        state: HoldState,
    },
    /// The scheduler says that the timer has come due.
    TimerFired {
        /// As it was set; another one means that it was moved meanwhile.
        rev: u64,
        /// When it was due.
        due: DateTime<Utc>,
    },
    /// The executor's word on a close.
    CloseAcked {
        /// Of the close that it speaks of; an older one says nothing.
        rev: u64,
        answer: CloseReply,
    },
    /// The executor knows what was done with a handoff.
    HandoffEventsAcked {
        /// Up to this version.
        rev: u64,
    },
    /// Any program opens a hold that stands alone (M-6).
    Open {
        caller: Caller,
        spec: Box<HoldSpec>,
        /// How long until time is up, in milliseconds.
        timeout_ms: u64,
    },
    /// Whoever asked what ended without an answer asks it again; this is the new one
    /// ([`HoldId::asked_again`]).
    AskAgain {
        caller: Caller,
        /// What, and of whom.
        wanted: AskAgain,
    },
    /// Whoever opened a hold that stands alone takes it back.
    Withdraw {
        caller: Caller,
        /// The version that they have seen, if it matters to them.
        version: Option<u64>,
    },
    /// A person decides.
    Decide {
        caller: Caller,
        decision: Decision,
        /// The version that the person has seen, if it matters to them.
        version: Option<u64>,
    },
    /// A person decides several alike, all or none; this is one of them.
    DecideRequests {
        caller: Caller,
        decision: Decision,
        /// The version that the person has seen, if it matters to them.
        version: Option<u64>,
    },
    /// A person does something with it short of deciding.
    Act {
        caller: Caller,
        action: RequestAction,
        /// The version that the person has seen, if it matters to them.
        version: Option<u64>,
    },
    /// A user was disabled, or the last active one of a role has left it, and this may be put to
    /// them; from our own sweep.
    Orphaned { gone: Recipient },
    /// The scheduler has confirmed the timer.
    TimerAcked { rev: u64 },
}

/// Everything that can happen to a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserInput {
    /// Made, changed, or enabled again.
    Assigned {
        email: Option<String>,
        roles: BTreeSet<RoleName>,
    },
    /// Decides nothing any more, and is asked nothing any more.
    Disable,
    /// All that was put to a disabled user, and to roles that were left, is with others; from our own
    /// sweep.
    Left {
        /// The roles that were looked at.
        roles: BTreeSet<RoleName>,
    },
}

/// Everything that can happen to a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyInput {
    /// Made or changed.
    Assigned(PolicyRules),
    /// Cannot be named any more.
    Delete,
}

/// What is to be stored beside the state, desired, or both.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// The timer that is wanted: a desired state to the scheduler.
    Timer {
        workspace: Workspace,
        id: HoldId,
        /// Rises with every desired state.
        rev: u64,
        /// When to fire; none: not at all.
        due: Option<DateTime<Utc>>,
    },
    /// The hold has ended: a desired state to the executor.
    Close {
        workspace: Workspace,
        closed: HoldClosed,
    },
    /// Something was done with a run's handoff that stands: a desired state to the executor.
    RequestHistoryEntry {
        workspace: Workspace,
        handled: HandoffUpdate,
    },
    /// Something that people are told of: a desired state to the notification service.
    Fact {
        workspace: Workspace,
        fact: RequestEvent,
    },
    /// It has changed: whoever watches is nudged.
    Changed {
        workspace: Workspace,
        id: HoldId,
        /// The version it is at now.
        version: u64,
    },
    /// A numbered fact for those who keep copies of users.
    UserChanged {
        workspace: Workspace,
        /// As the user now is.
        user: UserView,
    },
}

/// What the caller is told.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Reply {
    /// To [`RequestInput::SetDesired`].
    DesiredState(SetHoldReply),
    /// To [`RequestInput::TimerFired`].
    Timer(TimerReply),
    /// To what is said of desired states, and to our own sweeps; nobody waits for it.
    EventRecorded,
    /// To opening and withdrawing.
    Request(Box<RequestView>),
    /// To a decision that stands.
    Decided(Box<Decided>),
    /// To one of several decisions that stand together.
    One(DecidedOne),
    /// To a decision that came too late and was kept: told as the problem that it is.
    Late(Box<Problem>),
    /// To a change of a user.
    User(UserView),
    /// To a change of a policy.
    Policy(Box<PolicyView>),
}

impl Input {
    /// The aggregate that it is for.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Self::Request { workspace, id, .. } => Key::Request(workspace.clone(), *id),
            Self::User {
                workspace, name, ..
            } => Key::User(workspace.clone(), name.clone()),
            Self::Policy {
                workspace, name, ..
            } => Key::Policy(workspace.clone(), name.clone()),
        }
    }
}

impl Decider for HandoffDomain {
    type Key = Key;
    type State = Aggregate;
    type Input = Input;
    type Need = Need;
    type Fact = Fact;
    type Effect = Effect;
    type Refusal = Refusal;
    type Reply = Reply;

    fn key(input: &Input) -> Key {
        input.key()
    }

    fn decide(
        state: Option<&Aggregate>,
        input: &Input,
        lookup: LookupFn<'_>,
        now: DateTime<Utc>,
    ) -> Result<Outcome, Undecided> {
        decide(state, input, lookup, now)
    }

    fn aggregate(need: &Need) -> Option<Key> {
        match need {
            Need::User(workspace, name) => Some(Key::User(workspace.clone(), name.clone())),
            Need::Policy(workspace, name) => Some(Key::Policy(workspace.clone(), name.clone())),
            Need::Request(workspace, id) => Some(Key::Request(workspace.clone(), *id)),
            Need::Owners(_)
            | Need::Members(_)
            | Need::Role(..)
            | Need::Loads(_)
            | Need::Policies(_) => None,
        }
    }

    fn fact(state: &Aggregate) -> Option<Fact> {
        Some(match state {
            Aggregate::User(user) => Fact::User(user.clone()),
            Aggregate::Policy(policy) => Fact::Policy(policy.clone()),
            Aggregate::Request(request) => Fact::Request(request.clone()),
        })
    }

    fn version(state: &Aggregate) -> u64 {
        match state {
            Aggregate::Request(request) => request.version,
            Aggregate::User(user) => user.version,
            Aggregate::Policy(policy) => policy.version,
        }
    }

    /// A request waits for hours; users and policies are few.
    fn is_hot(state: &Aggregate) -> bool {
        match state {
            Aggregate::Request(_) => false,
            Aggregate::User(_) | Aggregate::Policy(_) => true,
        }
    }

    fn problem(refusal: &Refusal) -> Problem {
        refusal.problem()
    }

    fn problem_after_commit(answer: &Reply) -> Option<Problem> {
        match answer {
            Reply::Late(problem) => Some((**problem).clone()),
            Reply::DesiredState(_)
            | Reply::Timer(_)
            | Reply::EventRecorded
            | Reply::Request(_)
            | Reply::Decided(_)
            | Reply::One(_)
            | Reply::User(_)
            | Reply::Policy(_) => None,
        }
    }
}

/// Decides what an input does. Total and pure: same arguments, same answer. A key names one kind of
/// aggregate: the kernel never brings an input together with a state of another.
pub(crate) fn decide(
    state: Option<&Aggregate>,
    input: &Input,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Result<Outcome, Undecided> {
    match input {
        Input::User {
            workspace,
            name,
            caller,
            input,
        } => {
            let user = match state {
                Some(Aggregate::User(user)) => Some(user),
                Some(Aggregate::Request(_) | Aggregate::Policy(_)) | None => None,
            };
            let place = user::Place { workspace, name };
            user::decide(user, &place, caller, input, lookup)
        }
        Input::Policy {
            workspace,
            name,
            caller,
            input,
        } => {
            let policy = match state {
                Some(Aggregate::Policy(policy)) => Some(&**policy),
                Some(Aggregate::Request(_) | Aggregate::User(_)) | None => None,
            };
            let place = policy::Place { workspace, name };
            policy::decide(policy, &place, caller, input, lookup)
        }
        Input::Request {
            workspace,
            id,
            input,
        } => {
            let request = match state {
                Some(Aggregate::Request(request)) => Some(&**request),
                Some(Aggregate::User(_) | Aggregate::Policy(_)) | None => None,
            };
            let context = DecisionContext {
                workspace,
                id: *id,
                lookup,
                now,
            };
            decide_request(request, input, &context)
        }
    }
}

/// Where and when a request is decided on.
pub(crate) struct DecisionContext<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) id: HoldId,
    pub(crate) lookup: LookupFn<'a>,
    pub(crate) now: DateTime<Utc>,
}

fn decide_request(
    request: Option<&Request>,
    input: &RequestInput,
    context: &DecisionContext<'_>,
) -> Result<Outcome, Undecided> {
    match input {
        RequestInput::SetDesired { rev, state } => {
            set_hold::set_hold(request, *rev, state, context)
        }
        RequestInput::TimerFired { rev, due } => {
            set_hold::timer_fired(request, *rev, *due, context)
        }
        RequestInput::CloseAcked { rev, answer } => {
            Ok(set_hold::close_acked(request, *rev, *answer, context))
        }
        RequestInput::HandoffEventsAcked { rev } => {
            Ok(set_hold::handoff_events_acked(request, *rev))
        }
        RequestInput::Open {
            caller,
            spec,
            timeout_ms,
        } => {
            let opening = standalone::Opening {
                spec,
                timeout_ms: *timeout_ms,
                is_again: false,
                earlier_openers: Vec::new(),
            };
            standalone::open(request, caller, &opening, context)
        }
        RequestInput::AskAgain { caller, wanted } => again::ask(request, caller, wanted, context),
        RequestInput::Withdraw { caller, version } => {
            standalone::withdraw(request, caller, *version, context)
        }
        RequestInput::Decide {
            caller,
            decision,
            version,
        } => deciding::decide(request, caller, decision, *version, context),
        RequestInput::DecideRequests {
            caller,
            decision,
            version,
        } => deciding::together(request, caller, decision, *version, context),
        RequestInput::Act {
            caller,
            action,
            version,
        } => acting::act(request, caller, action, *version, context),
        RequestInput::Orphaned { gone } => acting::orphaned(request, gone, context),
        RequestInput::TimerAcked { rev } => Ok(set_hold::timer_acked(request, *rev)),
    }
}
