//! Selects the command for an input.

use chrono::{DateTime, Utc};
use holdpoint_contracts::Problem;
use holdpoint_decision::Decider;

use super::commands::act_on_request::act_on_request;
use super::commands::ask_again::ask_again;
use super::commands::close_acked::{acknowledge_close, acknowledge_handoff_events};
use super::commands::create_standing_approval::create_standing_approval;
use super::commands::decide_request::{decide_one_of_requests, decide_request, reply_decided};
use super::commands::delete_policy::delete_policy;
use super::commands::disable_user::{disable_user, finish_reassignment};
use super::commands::open_hold::{Opening, open_hold};
use super::commands::put_policy::put_policy;
use super::commands::put_user::{UserProfile, put_user};
use super::commands::reassign_orphaned::reassign_orphaned;
use super::commands::revoke_standing_approval::revoke_standing_approval;
use super::commands::set_holds::set_hold;
use super::commands::timers_fired::{acknowledge_timer, fire_timer};
use super::commands::withdraw_hold::withdraw_hold;
use super::decision::{Change, Fact, HandoffDomain, LookupFn, Need, Outcome, Undecided};
use super::effect::{Effect, Reply};
use super::input::{Input, PolicyInput, RequestInput, StandingApprovalInput, UserInput};
use super::lookup::{DecisionContext, Facts};
use super::model::aggregate::{Aggregate, Key};
use super::model::request::Request;
use super::refusal::Refusal;

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

    /// A key names one kind of aggregate, so that a state of another kind never comes with an input.
    fn decide(
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
                let facts = Facts { workspace, lookup };
                let user = state.and_then(Aggregate::try_as_user_ref);
                match input {
                    UserInput::Put { email, roles } => {
                        let wanted = UserProfile { name, email, roles };
                        put_user(user, &wanted, caller, facts)
                    }
                    UserInput::Disable => disable_user(user, name, caller, facts),
                    UserInput::RequestsReassigned { roles } => Ok(finish_reassignment(user, roles)),
                }
            }
            Input::Policy {
                workspace,
                name,
                caller,
                input,
            } => {
                let facts = Facts { workspace, lookup };
                let policy = state.and_then(Aggregate::try_as_policy_ref);
                let policy = policy.map(Box::as_ref);
                match input {
                    PolicyInput::Put(rules) => put_policy(policy, name, rules, caller, facts),
                    PolicyInput::Delete => delete_policy(policy, name, caller, facts),
                }
            }
            Input::StandingApproval {
                workspace,
                id,
                caller,
                input,
            } => {
                let facts = Facts { workspace, lookup };
                let known = state.and_then(Aggregate::try_as_standing_approval_ref);
                let known = known.map(Box::as_ref);
                match input {
                    StandingApprovalInput::Create(it) => {
                        create_standing_approval(known, it, caller, facts, now)
                    }
                    StandingApprovalInput::Revoke => {
                        revoke_standing_approval(known, *id, caller, facts, now)
                    }
                }
            }
            Input::Request {
                workspace,
                id,
                input,
            } => {
                let (id, facts) = (*id, Facts { workspace, lookup });
                let context = DecisionContext { facts, id, now };
                let request = state.and_then(Aggregate::try_as_request_ref);
                let request = request.map(Box::as_ref);
                decide_on_request(request, input, &context)
            }
            Input::DeleteExpired { before } => Ok(Outcome::Decided(Box::new(Change {
                state: Aggregate::Expired,
                effects: vec![Effect::DeleteExpired { before: *before }],
                facts: Vec::new(),
                reply: Reply::EventRecorded,
            }))),
        }
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
            | Need::Policies(_)
            | Need::StandingApprovals(..)
            | Need::StandingApprovalCount { .. } => None,
        }
    }

    fn fact(state: &Aggregate) -> Option<Fact> {
        Some(match state {
            Aggregate::User(user) => Fact::User(user.clone()),
            Aggregate::Policy(policy) => Fact::Policy(policy.clone()),
            Aggregate::Request(request) => Fact::Request(request.clone()),
            Aggregate::StandingApproval(_) | Aggregate::Expired => return None,
        })
    }

    fn version(state: &Aggregate) -> u64 {
        match state {
            Aggregate::Request(request) => request.version,
            Aggregate::User(user) => user.version,
            Aggregate::Policy(policy) => policy.version,
            Aggregate::StandingApproval(one) => one.version,
            Aggregate::Expired => 1,
        }
    }

    /// Users and policies are few and read often. A request waits for hours, and then for some milliseconds for the
    /// acknowledgements of its end. While another service is away there may be many, so a large one is read again.
    fn is_hot(state: &Aggregate) -> bool {
        match state {
            Aggregate::User(_) | Aggregate::Policy(_) => true,
            Aggregate::Request(request) => request.awaits_acknowledgement() && request.is_small(),
            Aggregate::StandingApproval(_) | Aggregate::Expired => false,
        }
    }

    fn problem(refusal: &Refusal) -> Problem {
        refusal.problem()
    }

    fn problem_after_commit(reply: &Reply) -> Option<Problem> {
        reply.try_as_late_ref().map(|late| (**late).clone())
    }

    fn is_incomplete(reply: &Reply) -> bool {
        let decided = reply.try_as_decided_ref();
        decided.is_some_and(|decided| decided.awaits_effect())
    }

    fn updated_reply(reply: Reply, state: &Aggregate) -> Reply {
        match (&reply, state) {
            (Reply::Decided(_), Aggregate::Request(request)) => reply_decided(request),
            _ => reply,
        }
    }
}

fn decide_on_request(
    request: Option<&Request>,
    input: &RequestInput,
    context: &DecisionContext<'_>,
) -> Result<Outcome, Undecided> {
    match input {
        RequestInput::SetDesired { rev, state } => set_hold(request, *rev, state, context),
        RequestInput::TimerFired { rev, due } => fire_timer(request, *rev, *due, context),
        RequestInput::TimerAcked { rev } => Ok(acknowledge_timer(request, *rev, context)),
        RequestInput::CloseAcked { rev, reply } => {
            Ok(acknowledge_close(request, *rev, *reply, context))
        }
        RequestInput::HandoffEventsAcked { rev } => {
            Ok(acknowledge_handoff_events(request, *rev, context))
        }
        RequestInput::Open(caller, command) => {
            let opening = Opening {
                spec: &command.spec,
                timeout_ms: command.timeout_ms,
                again: None,
                earlier_openers: Vec::new(),
            };
            open_hold(request, caller, &opening, context)
        }
        RequestInput::AskAgain(caller, wanted) => ask_again(request, caller, wanted, context),
        RequestInput::Withdraw(caller, command) => {
            withdraw_hold(request, caller, command.version, context)
        }
        RequestInput::Decide(caller, command) => decide_request(request, caller, command, context),
        RequestInput::DecideRequests(caller, command) => {
            decide_one_of_requests(request, caller, command, context)
        }
        RequestInput::Act(caller, command) => act_on_request(request, caller, command, context),
        RequestInput::RecipientLost { recipient } => reassign_orphaned(request, recipient, context),
    }
}
