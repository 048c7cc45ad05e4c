//! The pure core: requests (holds on people, and holds that stand alone) and users.
//!
//! It knows no clock, database or bus. What it lacks it names as a [`Need`].

mod acting;
mod again;
mod asked;
mod audience;
mod caller;
mod deciding;
mod few;
mod handling;
mod hours;
mod ladder;
mod limits;
mod meet;
mod need;
mod policy;
mod refusal;
mod request;
mod settled;
mod standalone;
mod turn;
mod user;
mod wish;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::TimerAnswer;
use holdpoint_contracts::handoff::{
    AskAgain, Decided, DecidedOne, Decision, PolicyRules, PolicyView, RequestAction, RequestView,
    UserView,
};
use holdpoint_contracts::hold::{
    ClosedAnswer, HoldClosed, HoldHandled, HoldSpec, Want, WishAnswer,
};
use holdpoint_contracts::notification::RequestFact;
use holdpoint_ids::{HoldId, PolicyName, RoleName, UserName, Workspace};
use serde::Serialize;

pub use audience::Party;
pub use caller::{Caller, Proof};
pub use handling::{Handling, Ladder, Mark, RungEnd, Untold};
pub use meet::{Cell, OwnerState, meet};
pub(crate) use need::Look;
pub use need::{Fact, Found, Need};
pub use policy::{Policy, all_built_in};
pub use refusal::Refusal;
pub use request::{Alarm, Owner, Phase, Request};
pub use settled::Settled;
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
        /// Whose.
        workspace: Workspace,
        /// Which.
        id: HoldId,
        /// What.
        input: RequestInput,
    },
    /// To a user.
    User {
        /// Whose.
        workspace: Workspace,
        /// Who.
        name: UserName,
        /// Who wants it.
        caller: Caller,
        /// What.
        input: UserInput,
    },
    /// To a policy.
    Policy {
        /// Whose.
        workspace: Workspace,
        /// Which.
        name: PolicyName,
        /// Who wants it.
        caller: Caller,
        /// What.
        input: PolicyInput,
    },
}

/// Everything that can happen to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum RequestInput {
    /// The executor says which state it wants: level, not edge.
    Wish {
        /// Rises with every wish; lower or equal changes nothing.
        rev: u64,
        /// The state that is wanted.
        want: Want,
    },
    /// The scheduler says that the alarm has come due.
    TimerFired {
        /// As it was set; another one means that it was moved meanwhile.
        rev: u64,
        /// When it was due.
        due: DateTime<Utc>,
    },
    /// The executor's word on a close.
    Told {
        /// Of the close that it speaks of; an older one says nothing.
        rev: u64,
        /// The word.
        answer: ClosedAnswer,
    },
    /// The executor knows what was done with a handoff.
    DeedsHeard {
        /// Up to this version.
        rev: u64,
    },
    /// Any program opens a hold that stands alone (M-6).
    Open {
        /// Who asks.
        caller: Caller,
        /// What is asked.
        spec: Box<HoldSpec>,
        /// How long until time is up, in milliseconds.
        timeout_ms: u64,
    },
    /// Whoever asked what ended without an answer asks it again; this is the new one
    /// ([`HoldId::asked_again`]).
    AskAgain {
        /// Who asks.
        caller: Caller,
        /// What, and of whom.
        wanted: AskAgain,
    },
    /// Whoever opened a hold that stands alone takes it back.
    Withdraw {
        /// Who asks.
        caller: Caller,
        /// The version that they have seen, if it matters to them.
        version: Option<u64>,
    },
    /// A person decides.
    Decide {
        /// Who.
        caller: Caller,
        /// What.
        decision: Decision,
        /// The version that the person has seen, if it matters to them.
        version: Option<u64>,
    },
    /// A person decides several alike, all or none; this is one of them.
    DecideTogether {
        /// Who.
        caller: Caller,
        /// What.
        decision: Decision,
        /// The version that the person has seen, if it matters to them.
        version: Option<u64>,
    },
    /// A person does something with it short of deciding.
    Act {
        /// Who.
        caller: Caller,
        /// What.
        action: RequestAction,
        /// The version that the person has seen, if it matters to them.
        version: Option<u64>,
    },
    /// A user was disabled, or the last active one of a role has left it, and this may be put to
    /// them; from our own sweep.
    Orphaned {
        /// Who.
        gone: Party,
    },
    /// The scheduler has confirmed the alarm.
    AlarmSet {
        /// Of that alarm.
        rev: u64,
    },
}

/// Everything that can happen to a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserInput {
    /// Made, changed, or enabled again.
    Put {
        /// Where mails go.
        email: Option<String>,
        /// All of them.
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
    Put(PolicyRules),
    /// Cannot be named any more.
    Delete,
}

/// What is to be stored beside the state, wished, or both.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// The alarm that is wanted: a wish to the scheduler.
    Timer {
        /// Whose.
        workspace: Workspace,
        /// Of which request.
        id: HoldId,
        /// Rises with every wish.
        rev: u64,
        /// When to fire; none: not at all.
        due: Option<DateTime<Utc>>,
    },
    /// The hold has ended: a wish to the executor.
    Close {
        /// Whose.
        workspace: Workspace,
        /// How.
        closed: HoldClosed,
    },
    /// Something was done with a run's handoff that stands: a wish to the executor.
    Handled {
        /// Whose.
        workspace: Workspace,
        /// What.
        handled: HoldHandled,
    },
    /// Something that people are told of: a wish to the notification service.
    Fact {
        /// Whose.
        workspace: Workspace,
        /// What happened.
        fact: RequestFact,
    },
    /// It has changed: whoever watches is nudged.
    Changed {
        /// Whose.
        workspace: Workspace,
        /// Which.
        id: HoldId,
        /// The version it is at now.
        version: u64,
    },
    /// A numbered fact for those who keep copies of users.
    UserChanged {
        /// Whose.
        workspace: Workspace,
        /// As the user now is.
        user: UserView,
    },
}

/// What the caller is told.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// To [`RequestInput::Wish`].
    Wish(WishAnswer),
    /// To [`RequestInput::TimerFired`].
    Timer(TimerAnswer),
    /// To what is said of wishes, and to our own sweeps; nobody waits for it.
    Noted,
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

/// What a decision came to.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    /// The state changes.
    Changed(Box<Change>),
    /// Nothing changes, and the caller is told so: a repetition, or a no-op.
    Same(Answer),
}

/// The next state of an aggregate and what goes with it.
#[derive(Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) state: Aggregate,
    pub(crate) effects: Vec<Effect>,
    pub(crate) facts: Vec<(Need, Fact)>,
    pub(crate) answer: Answer,
}

/// Why there is no decision; nothing changes.
#[derive(Debug, PartialEq)]
pub(crate) enum Stop {
    /// Not without these.
    Need(Vec<Need>),
    /// The rules say no.
    Refused(Refusal),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
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

/// Decides what an input does. Total and pure: same arguments, same answer. A key names one kind of
/// aggregate: the kernel never brings an input together with a state of another.
pub(crate) fn decide(
    state: Option<&Aggregate>,
    input: &Input,
    look: Look<'_>,
    now: DateTime<Utc>,
) -> Result<Step, Stop> {
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
            user::decide(user, &place, caller, input, look)
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
            policy::decide(policy, &place, caller, input, look)
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
            let scene = Scene {
                workspace,
                id: *id,
                look,
                now,
            };
            decide_request(request, input, &scene)
        }
    }
}

/// Where and when a request is decided on.
pub(crate) struct Scene<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) id: HoldId,
    pub(crate) look: Look<'a>,
    pub(crate) now: DateTime<Utc>,
}

fn decide_request(
    request: Option<&Request>,
    input: &RequestInput,
    scene: &Scene<'_>,
) -> Result<Step, Stop> {
    match input {
        RequestInput::Wish { rev, want } => wish::wish(request, *rev, want, scene),
        RequestInput::TimerFired { rev, due } => wish::timer_fired(request, *rev, *due, scene),
        RequestInput::Told { rev, answer } => Ok(wish::told(request, *rev, *answer, scene)),
        RequestInput::DeedsHeard { rev } => Ok(wish::deeds_heard(request, *rev)),
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
            standalone::open(request, caller, &opening, scene)
        }
        RequestInput::AskAgain { caller, wanted } => again::ask(request, caller, wanted, scene),
        RequestInput::Withdraw { caller, version } => {
            standalone::withdraw(request, caller, *version, scene)
        }
        RequestInput::Decide {
            caller,
            decision,
            version,
        } => deciding::decide(request, caller, decision, *version, scene),
        RequestInput::DecideTogether {
            caller,
            decision,
            version,
        } => deciding::together(request, caller, decision, *version, scene),
        RequestInput::Act {
            caller,
            action,
            version,
        } => acting::act(request, caller, action, *version, scene),
        RequestInput::Orphaned { gone } => acting::orphaned(request, gone, scene),
        RequestInput::AlarmSet { rev } => Ok(wish::alarm_set(request, *rev)),
    }
}
