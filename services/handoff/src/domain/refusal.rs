//! Rules that reject an input, and the problems that callers get.

use holdpoint_auth::AuthError;
use holdpoint_contracts::Problem;
use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_contracts::instant;
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::{HoldId, PolicyName, StandingApprovalId, UserName};
use serde_json::{Value, json};

use super::model::limits::{
    EARLY_APPROVALS_MAX, STANDING_APPROVALS_MAX, STANDING_APPROVALS_PER_CALL_MAX,
};
use super::model::progress::AuditStamp;
use super::model::request::End;
use super::model::standing_approval::CallKind;

/// Why an input was rejected. The text is the detail of the caller's problem.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The assertion is forged, expired or of another workspace: sign in again.
    #[error("{0}")]
    Unproven(AuthError),
    /// The caller's roles do not grant the right.
    #[error("{0}")]
    NotAllowed(Box<Problem>),
    #[error("`{0}` is not an active user of this workspace")]
    NoActiveUser(UserName),
    #[error("`{0}` is not a recipient of this request; only recipients and operators may act")]
    NotAddressed(UserName),
    #[error("unknown request `{0}`")]
    NoRequest(HoldId),
    #[error("unknown user `{0}`")]
    NoUser(UserName),
    #[error("{}", describe_end(*id, winner, *is_kept))]
    AlreadyDecided {
        id: HoldId,
        winner: Box<End>,
        /// Whether the late decision was kept.
        is_kept: bool,
    },
    /// Another person has accepted the request or taken the run over.
    #[error("`{id}` was {} by {} at {}", what.replace('_', " "), stamp.by, instant::write(stamp.at))]
    HasAssignee {
        id: HoldId,
        /// `accepted` or `taken_over`.
        what: &'static str,
        stamp: AuditStamp,
    },
    /// The requester may not decide it ([`holdpoint_contracts::hold::Policy::not_requester`]).
    #[error("`{0}` is the requester, and another person must decide")]
    IsRequester(UserName),
    /// This kind has no such decision or action.
    #[error("`{id}` is of kind `{kind}`, which has no `{action}`")]
    WrongKind {
        id: HoldId,
        kind: HoldKind,
        action: &'static str,
    },
    #[error("no step can make the arguments of `{0}` again; approve, reject or edit them")]
    NotRevisable(HoldId),
    /// The person has seen other arguments than those that are asked now.
    #[error("the arguments have the digest {digest} now; read the request again")]
    DigestMismatch { id: HoldId, digest: String },
    #[error("the version is {version}, not {seen}; read the request again")]
    VersionConflict { seen: u64, version: u64 },
    /// The answer does not fit the options or the form.
    #[error("{}", join_messages(.0))]
    InvalidAnswer(Vec<FieldError>),
    /// A field of the hold, the action, the policy or the user is invalid.
    #[error("{}", join_messages(.0))]
    InvalidFields(Vec<FieldError>),
    #[error("unknown policy `{0}`")]
    NoPolicy(PolicyName),
    #[error("`{0}` is built in; choose a name without the prefix `default-`")]
    BuiltIn(PolicyName),
    #[error("`{0}` exists with other content; choose a new id")]
    Taken(HoldId),
    #[error("`{0}` belongs to a run; cancel the run instead")]
    OfRun(HoldId),
    /// No service sends desired states for a standalone hold.
    #[error("`{0}` is a standalone hold and takes no desired state")]
    StandsAlone(HoldId),
    #[error("`{0}`: the executor keeps timers of runs itself")]
    TimerOfRun(HoldId),
    #[error("another caller opened `{id}`; only the opener or an operator may {action}")]
    NotYours { id: HoldId, action: &'static str },
    #[error("`{0}` belongs to a run, which does not wait for it any more; start a new run instead")]
    AskAgainOfRun(HoldId),
    #[error("`{0}` is still open; reassign it, or withdraw it before you ask again")]
    StillOpen(HoldId),
    /// A person has decided the request that the caller asks again.
    #[error(
        "`{id}` was {} by {} at {}, and a decision is final; open a new hold to ask something else",
        winner.outcome.as_str(), winner.by, instant::write(winner.at)
    )]
    DecisionIsFinal { id: HoldId, winner: Box<End> },
    #[error("`{id}` was asked again as `{next}`, which has ended too; ask `{next}` again")]
    AskedAgainAndEnded { id: HoldId, next: HoldId },
    #[error(
        "`{id}` was asked again as `{next}` with other recipients or another timeout; reassign \
         `{next}`, or withdraw it and ask it again"
    )]
    AskedAgainDifferently { id: HoldId, next: HoldId },
    #[error("unknown standing approval `{0}`")]
    NoStandingApproval(StandingApprovalId),
    #[error("`{0}` exists with other terms; choose a new id")]
    StandingApprovalTaken(StandingApprovalId),
    #[error("another person created `{0}`; only its creator or an operator may revoke it")]
    NotYourStandingApproval(StandingApprovalId),
    #[error(
        "a workspace has at most {STANDING_APPROVALS_MAX} standing approvals; revoke one, or wait until one expires"
    )]
    TooManyStandingApprovals,
    #[error(
        "a workspace has at most {EARLY_APPROVALS_MAX} early approvals; revoke one, or wait until one expires"
    )]
    TooManyEarlyApprovals,
    #[error(
        "`{}` has {STANDING_APPROVALS_PER_CALL_MAX} standing approvals for calls of `{}`, and no more are allowed; revoke one, or wait until one expires",
        .0.agent, .0.tool
    )]
    TooManyOfOneCall(CallKind),
    #[error("`{0}` is the last active owner; give another user the role `owner` first")]
    LastOwner(UserName),
}

impl Refusal {
    /// A late decision, and whether it was kept.
    pub(crate) fn already_decided(id: HoldId, end: End, is_kept: bool) -> Self {
        let winner = Box::new(end);
        Self::AlreadyDecided {
            id,
            winner,
            is_kept,
        }
    }

    pub(crate) fn invalid_answer(pointer: &str, message: impl Into<String>) -> Self {
        Self::InvalidAnswer(vec![FieldError::at(pointer, message)])
    }

    pub(crate) fn invalid_field(pointer: &str, message: impl Into<String>) -> Self {
        Self::InvalidFields(vec![FieldError::at(pointer, message)])
    }

    /// The problem that the caller gets.
    #[must_use]
    pub fn problem(&self) -> Problem {
        let detail = self.to_string();
        let conflict = |code: &str| Problem::new(409, code, &*detail);
        match self {
            Self::Unproven(error) => error.problem(),
            Self::NotAllowed(problem) => (**problem).clone(),
            Self::NoActiveUser(_) | Self::NotAddressed(_) | Self::NotYours { .. } | Self::NotYourStandingApproval(_) => {
                Problem::new(403, "forbidden", detail)
            }
            Self::IsRequester(_) => Problem::new(403, "not_requester", detail),
            Self::NoRequest(_)
            | Self::NoUser(_)
            | Self::NoPolicy(_)
            | Self::NoStandingApproval(_) => Problem::not_found(detail),
            Self::AlreadyDecided {
                winner, is_kept, ..
            } => conflict("already_decided").with_data(winner_data(winner, *is_kept)),
            Self::DecisionIsFinal { winner, .. } => {
                conflict("already_decided").with_data(winner_data(winner, false))
            }
            Self::HasAssignee { what, stamp, .. } => {
                conflict(&format!("already_{what}")).with_data(json!({
                    "winner": { "by": stamp.by, "at": instant::write(stamp.at), "outcome": what, "data": null },
                    "late": false,
                }))
            }
            Self::WrongKind { .. } => conflict("wrong_kind"),
            Self::NotRevisable(_) => conflict("not_revisable"),
            Self::VersionConflict { version, .. } => {
                conflict("version_conflict").with_data(json!({ "version": version }))
            }
            Self::DigestMismatch { id, digest } => {
                conflict("digest_mismatch").with_data(json!({ "id": id, "digest": digest }))
            }
            Self::InvalidAnswer(errors) => {
                Problem::new(422, "invalid_answer", detail).with_errors(errors.clone())
            }
            Self::InvalidFields(errors) => {
                Problem::invalid_body(detail).with_errors(errors.clone())
            }
            Self::TimerOfRun(_) => Problem::invalid_body(detail),
            Self::BuiltIn(_) => conflict("built_in_policy"),
            Self::Taken(_) | Self::StandingApprovalTaken(_) => conflict("already_exists"),
            Self::TooManyStandingApprovals
            | Self::TooManyEarlyApprovals
            | Self::TooManyOfOneCall(_) => conflict("too_many_standing_approvals"),
            Self::OfRun(_) | Self::AskAgainOfRun(_) => conflict("not_standalone"),
            Self::StandsAlone(_) => conflict("stands_alone"),
            Self::StillOpen(_) => conflict("still_open"),
            Self::AskedAgainAndEnded { next, .. } | Self::AskedAgainDifferently { next, .. } => {
                conflict("asked_again").with_data(json!({ "id": next }))
            }
            Self::LastOwner(_) => conflict("last_owner"),
        }
    }
}

fn join_messages(errors: &[FieldError]) -> String {
    let messages: Vec<_> = errors.iter().map(|one| one.message.as_str()).collect();
    messages.join("; ")
}

fn describe_end(id: HoldId, end: &End, is_kept: bool) -> String {
    let at = instant::write(end.at);
    let kept = if is_kept {
        "your decision is kept as late"
    } else {
        "your decision is not kept"
    };
    if end.outcome == HoldOutcome::Timeout {
        format!("`{id}` timed out at {at}; {kept}")
    } else {
        format!(
            "`{id}` was {} by {} at {at}; {kept}",
            end.outcome.as_str(),
            end.by
        )
    }
}

fn winner_data(end: &End, is_late: bool) -> Value {
    json!({
        "winner": {
            "by": end.by,
            "at": instant::write(end.at),
            "outcome": end.outcome.as_str(),
            "data": end.data,
        },
        "late": is_late,
    })
}
