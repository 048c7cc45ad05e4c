//! What a decision returns beside the new state.

use chrono::{DateTime, Utc};
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::TimerReply;
use holdpoint_contracts::handoff::{
    Decided, DecidedOne, PolicyView, RequestView, StandingApprovalView, UserView,
};
use holdpoint_contracts::hold::{HandoffUpdate, HoldClosed, SetHoldReply};
use holdpoint_contracts::notification::RequestEvent;
use holdpoint_contracts::scheduler::SetTimer;
use holdpoint_ids::{ContactId, HoldId, StandingApprovalId, Workspace};
use serde::Serialize;
use strum::EnumTryAs;

use super::model::request::Request;

/// A value that the service carries out after the decision.
#[derive(Debug, Clone, PartialEq, EnumTryAs)]
pub enum Effect {
    /// The desired timer, for the scheduler.
    Timer(Workspace, SetTimer),
    /// The hold has ended: a desired state for the executor.
    Close(Workspace, HoldClosed),
    /// A user acted on an open handoff of a run: a desired state for the executor.
    HandoffUpdate(Workspace, HandoffUpdate),
    /// A change that users are notified of: a desired state for the notification service.
    RequestEvent(Workspace, RequestEvent),
    /// The request has changed: watchers get a nudge.
    Changed {
        workspace: Workspace,
        id: HoldId,
        version: u64,
    },
    /// A numbered change for user directories.
    UserChanged(Workspace, UserView),
    /// A standing approval has voted for a request. The number is one above that of its use before; two requests
    /// cannot have the same one.
    StandingApprovalUsed {
        workspace: Workspace,
        id: StandingApprovalId,
        number: u32,
        request: HoldId,
    },
    /// Deletes the replies and dead letters that name an erased hold, or the contact of its run.
    Erased {
        workspace: Workspace,
        id: HoldId,
        contact: ContactId,
    },
    /// Deletes one page of the requests that asked no person and ended before this instant.
    DeleteExpired { before: DateTime<Utc> },
}

#[derive(Debug, Clone, PartialEq, Serialize, EnumTryAs)]
#[serde(untagged)]
pub enum Reply {
    DesiredState(SetHoldReply),
    Timer(TimerReply),
    /// To acknowledgements and sweeps, which wait for no reply.
    EventRecorded,
    Request(Box<RequestView>),
    /// To a decision that counts.
    Decided(Box<Decided>),
    /// To one of several decisions that count together.
    One(DecidedOne),
    /// To a decision that came too late and was kept. The caller gets it as a problem.
    Late(Box<Problem>),
    User(UserView),
    Policy(Box<PolicyView>),
    StandingApproval(Box<StandingApprovalView>),
}

impl Reply {
    /// The request as the API shows it.
    pub(crate) fn of_request(request: &Request) -> Self {
        let view = request.view();
        view.map_or(Self::EventRecorded, |view| Self::Request(Box::new(view)))
    }
}
