//! Rules that reject an input, and the problems that callers get.

use holdpoint_auth::AuthError;
use holdpoint_contracts::Problem;
use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_contracts::instant;
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::{HoldId, PolicyName, UserName};
use serde_json::json;

use super::model::progress::AuditStamp;
use super::model::request::End;

/// Why an input was rejected.
#[derive(Debug, Clone, PartialEq)]
pub enum Refusal {
    /// The assertion is forged, expired or of another workspace: sign in again.
    Unproven(AuthError),
    /// The caller's roles do not grant the right.
    NotAllowed(Box<Problem>),
    /// The caller is unknown or disabled.
    NoActiveUser(UserName),
    /// The caller is not a recipient of the request.
    NotAddressed(UserName),
    NoRequest(HoldId),
    NoUser(UserName),
    /// The request has ended.
    AlreadyDecided {
        id: HoldId,
        winner: Box<Winner>,
        /// Whether the late decision was kept.
        is_kept: bool,
    },
    /// Another person has accepted the request or taken the run over.
    HasAssignee {
        id: HoldId,
        /// `accepted` or `taken_over`.
        what: &'static str,
        stamp: AuditStamp,
    },
    /// The requester may not decide it ([`holdpoint_contracts::hold::Policy::not_requester`]).
    IsRequester(UserName),
    /// This kind has no such decision or action.
    WrongKind {
        id: HoldId,
        kind: HoldKind,
        action: &'static str,
    },
    /// The caller has seen an older version.
    VersionConflict {
        seen: u64,
        version: u64,
    },
    /// The answer does not fit the options or the form.
    InvalidAnswer(Vec<FieldError>),
    /// A field of the hold, the action or the policy is invalid.
    InvalidHold(Vec<FieldError>),
    NoPolicy(PolicyName),
    /// Built-in policies cannot be changed.
    BuiltIn(PolicyName),
    /// The request cannot be asked again.
    NotAgain(HoldId, AskAgainRefusal),
    /// Another hold has this id.
    Taken(HoldId),
    /// The hold belongs to a run, which has to be cancelled instead.
    OfRun(HoldId),
    /// The hold is standalone, so that no service sends desired states for it.
    StandsAlone(HoldId),
    /// The executor keeps the timers of runs itself.
    TimerOfRun(HoldId),
    /// Only the opener or an operator withdraws a hold.
    NotYours(HoldId),
    /// A field of the user is invalid.
    InvalidUser(Vec<FieldError>),
    /// The workspace would have no owner.
    LastOwner(UserName),
}

/// Why a request cannot be asked again.
#[derive(Debug, Clone, PartialEq)]
pub enum AskAgainRefusal {
    /// Only the opener or an operator asks again.
    NotYours,
    /// The request belongs to a run, which does not wait for it any more.
    OfRun,
    StillOpen,
    Decided(Box<Winner>),
    /// It was asked again before, with other recipients or another timeout, or the new request has ended too.
    AskedBefore {
        id: HoldId,
        /// It has ended without an answer, so that it may be asked again.
        is_over: bool,
    },
}

/// How a request ended, for a late caller.
#[derive(Debug, Clone, PartialEq)]
pub struct Winner(pub(crate) End);

impl Refusal {
    /// A late decision, and whether it was kept.
    pub(crate) fn already_decided(id: HoldId, end: End, is_kept: bool) -> Self {
        let winner = Box::new(Winner(end));
        Self::AlreadyDecided {
            id,
            winner,
            is_kept,
        }
    }

    /// The problem that the caller gets.
    #[must_use]
    pub fn problem(&self) -> Problem {
        match self {
            Self::Unproven(error) => error.problem(),
            Self::NotAllowed(problem) => (**problem).clone(),
            Self::NoActiveUser(name) => {
                forbidden(format!("`{name}` is not an active user of this workspace"))
            }
            Self::NotAddressed(name) => forbidden(format!(
                "`{name}` is not a recipient of this request; only recipients and operators may act"
            )),
            Self::NoRequest(id) => Problem::not_found(format!("unknown request `{id}`")),
            Self::NoUser(name) => Problem::not_found(format!("unknown user `{name}`")),
            Self::AlreadyDecided {
                id,
                winner,
                is_kept,
            } => already_decided(*id, &winner.0, *is_kept),
            Self::HasAssignee { id, what, stamp } => has_assignee(*id, what, stamp),
            Self::IsRequester(name) => Problem::new(
                403,
                "not_requester",
                format!("`{name}` is the requester, and another person must decide"),
            ),
            Self::WrongKind { id, kind, action } => conflict(
                "wrong_kind",
                format!("`{id}` is of kind `{kind}`, which has no `{action}`"),
            ),
            Self::VersionConflict { seen, version } => conflict(
                "version_conflict",
                format!("the version is {version}, not {seen}; read the request again"),
            )
            .with_data(json!({ "version": version })),
            Self::InvalidAnswer(errors) => {
                Problem::new(422, "invalid_answer", texts(errors)).with_errors(errors.clone())
            }
            Self::InvalidHold(errors) | Self::InvalidUser(errors) => {
                Problem::invalid_body(texts(errors)).with_errors(errors.clone())
            }
            Self::NoPolicy(name) => Problem::not_found(format!("unknown policy `{name}`")),
            Self::BuiltIn(name) => conflict(
                "built_in_policy",
                format!("`{name}` is built in; choose a name without the prefix `default-`"),
            ),
            Self::Taken(id) => conflict(
                "already_exists",
                format!("`{id}` exists with other content; choose a new id"),
            ),
            Self::OfRun(id) => conflict(
                "not_standalone",
                format!("`{id}` belongs to a run; cancel the run instead"),
            ),
            Self::StandsAlone(id) => conflict(
                "stands_alone",
                format!("`{id}` is a standalone hold and takes no desired state"),
            ),
            Self::TimerOfRun(id) => {
                Problem::invalid_body(format!("`{id}`: the executor keeps timers of runs itself"))
            }
            Self::NotYours(id) => forbidden(format!(
                "another caller opened `{id}`; only the opener or an operator may withdraw it"
            )),
            Self::NotAgain(id, why) => why.problem(*id),
            Self::LastOwner(name) => conflict(
                "last_owner",
                format!(
                    "`{name}` is the last active owner; give another user the role `owner` first"
                ),
            ),
        }
    }
}

impl AskAgainRefusal {
    fn problem(&self, id: HoldId) -> Problem {
        match self {
            Self::NotYours => forbidden(format!(
                "another caller opened `{id}`; only the opener or an operator may ask it again"
            )),
            Self::OfRun => conflict(
                "not_standalone",
                format!(
                    "`{id}` belongs to a run, which does not wait for it any more; start a new run instead"
                ),
            ),
            Self::StillOpen => conflict(
                "still_open",
                format!("`{id}` is still open; reassign it, or withdraw it before you ask again"),
            ),
            Self::AskedBefore {
                id: next,
                is_over: true,
            } => conflict(
                "asked_again",
                format!("`{id}` was asked again as `{next}`, which has ended too; ask `{next}` again"),
            )
            .with_data(json!({ "id": next })),
            Self::AskedBefore {
                id: next,
                is_over: false,
            } => conflict(
                "asked_again",
                format!(
                    "`{id}` was asked again as `{next}` with other recipients or another timeout; reassign \
                     `{next}`, or withdraw it and ask it again"
                ),
            )
            .with_data(json!({ "id": next })),
            Self::Decided(winner) => {
                let Winner(end) = &**winner;
                let (at, outcome) = (instant::write(end.at), end.outcome.as_str());
                let detail = format!(
                    "`{id}` was {outcome} by {} at {at}, and a decision is final; open a new hold to ask \
                     something else",
                    end.by
                );
                conflict("already_decided", detail).with_data(json!({
                    "winner": { "by": end.by, "at": at, "outcome": outcome, "data": end.data },
                    "late": false,
                }))
            }
        }
    }
}

fn has_assignee(id: HoldId, what: &str, stamp: &AuditStamp) -> Problem {
    let (by, at) = (&stamp.by, instant::write(stamp.at));
    let words = what.replace('_', " ");
    let detail = format!("`{id}` was {words} by {by} at {at}");
    conflict(&format!("already_{what}"), detail).with_data(json!({
        "winner": { "by": by, "at": at, "outcome": what, "data": null },
        "late": false,
    }))
}

fn conflict(code: &str, detail: String) -> Problem {
    Problem::new(409, code, detail)
}

fn forbidden(detail: String) -> Problem {
    Problem::new(403, "forbidden", detail)
}

fn texts(errors: &[FieldError]) -> String {
    let texts: Vec<_> = errors.iter().map(|one| one.message.as_str()).collect();
    texts.join("; ")
}

fn already_decided(id: HoldId, end: &End, is_kept: bool) -> Problem {
    let (at, outcome) = (instant::write(end.at), end.outcome.as_str());
    let kept = if is_kept {
        "your decision is kept as late"
    } else {
        "your decision is not kept"
    };
    let detail = if end.outcome == HoldOutcome::Timeout {
        format!("`{id}` timed out at {at}; {kept}")
    } else {
        format!("`{id}` was {outcome} by {} at {at}; {kept}", end.by)
    };
    conflict("already_decided", detail).with_data(json!({
        "winner": { "by": end.by, "at": at, "outcome": outcome, "data": end.data },
        "late": is_kept,
    }))
}
