//! Every way to say no, and how it is told.

use holdpoint_auth::AuthError;
use holdpoint_contracts::Problem;
use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_contracts::instant;
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::{HoldId, PolicyName, UserName};
use serde_json::json;

use super::progress::AuditStamp;
use super::request::End;

/// Why something was not done. Each says what the caller can do.
#[derive(Debug, Clone, PartialEq)]
pub enum Refusal {
    /// The assertion is forged, expired or of another workspace: sign in again.
    Unproven(AuthError),
    /// The roles do not grant it.
    NotAllowed(Box<Problem>),
    /// The caller is not known here, or disabled.
    NoActiveUser(UserName),
    /// The request is put to others.
    NotAddressed(UserName),
    /// There is no such request.
    NoRequest(HoldId),
    /// There is no such user.
    NoUser(UserName),
    /// Somebody was first.
    AlreadyDecided {
        id: HoldId,
        /// Who won, and how.
        winner: Box<Winner>,
        /// Whether what the loser said was kept.
        is_kept: bool,
    },
    /// Somebody has accepted it, or taken the run over.
    IsSomebodys {
        id: HoldId,
        /// `accepted` or `taken_over`.
        what: &'static str,
        /// Who was first, and when.
        mark: AuditStamp,
    },
    /// Whoever wanted it may not decide it ([`holdpoint_contracts::hold::Policy::not_requester`]).
    IsRequester(UserName),
    /// That is not how this kind is decided.
    WrongKind {
        id: HoldId,
        kind: HoldKind,
        action: &'static str,
    },
    /// The person has seen an older state.
    VersionConflict { seen: u64, version: u64 },
    /// The answer is none of those that there are.
    InvalidAnswer(Vec<FieldError>),
    /// The hold cannot be opened so.
    InvalidHold(Vec<FieldError>),
    /// There is no such policy.
    NoPolicy(PolicyName),
    /// The policy is built in.
    BuiltIn(PolicyName),
    /// It is not asked again.
    NotAgain(HoldId, AskAgainRefusal),
    /// Something else was opened under this id.
    Taken(HoldId),
    /// The hold is a run's: it goes with the run.
    OfRun(HoldId),
    /// The hold is no run's: no desired state is for it.
    StandsAlone(HoldId),
    /// Timers of runs are the executor's own.
    TimerOfRun(HoldId),
    /// Only whoever opened it, or an operator, takes it back.
    NotYours(HoldId),
    /// The user cannot be so.
    InvalidUser(Vec<FieldError>),
    /// The workspace would have no owner.
    LastOwner(UserName),
}

/// Why a request is not asked again.
#[derive(Debug, Clone, PartialEq)]
pub enum AskAgainRefusal {
    /// Only whoever asked it, or an operator, asks again.
    NotYours,
    /// It is a run's, which goes its way: asking again would reach nobody.
    OfRun,
    /// It has not ended.
    StillOpen,
    /// A person has decided it.
    Decided(Box<Winner>),
    /// Somebody has asked it again before: of others, or for another time, or that one is over, too.
    AskedBefore {
        /// What was opened then.
        id: HoldId,
        /// It has ended without an answer: that one may be asked again.
        is_over: bool,
    },
}

/// How a request ended, for who comes late.
#[derive(Debug, Clone, PartialEq)]
pub struct Winner(pub(crate) End);

impl Refusal {
    /// How it is told.
    #[must_use]
    pub fn problem(&self) -> Problem {
        match self {
            Self::Unproven(error) => error.problem(),
            Self::NotAllowed(problem) => (**problem).clone(),
            Self::NoActiveUser(name) => {
                forbidden(format!("`{name}` is no active user of this workspace"))
            }
            Self::NotAddressed(name) => forbidden(format!(
                "this request is not put to `{name}`; an operator may decide any"
            )),
            Self::NoRequest(id) => Problem::not_found(format!("there is no request `{id}`")),
            Self::NoUser(name) => Problem::not_found(format!("there is no user `{name}`")),
            Self::AlreadyDecided {
                id,
                winner,
                is_kept,
            } => already_decided(*id, &winner.0, *is_kept),
            Self::IsSomebodys { id, what, mark } => is_somebodys(*id, what, mark),
            Self::IsRequester(name) => Problem::new(
                403,
                "not_requester",
                format!("`{name}` has asked for this, and somebody else must decide it"),
            ),
            Self::WrongKind { id, kind, action } => conflict(
                "wrong_kind",
                format!("`{id}` is of kind `{kind}`, which has no `{action}`"),
            ),
            Self::VersionConflict { seen, version } => conflict(
                "version_conflict",
                format!("you have seen version {seen}, it is at {version}: look again"),
            )
            .with_data(json!({ "version": version })),
            Self::InvalidAnswer(errors) => {
                Problem::new(422, "invalid_answer", texts(errors)).with_errors(errors.clone())
            }
            Self::InvalidHold(errors) | Self::InvalidUser(errors) => {
                Problem::invalid_body(texts(errors)).with_errors(errors.clone())
            }
            Self::NoPolicy(name) => Problem::not_found(format!("there is no policy `{name}`")),
            Self::BuiltIn(name) => conflict(
                "built_in_policy",
                format!("`{name}` is built in: take a name that does not begin with `default-`"),
            ),
            Self::Taken(id) => conflict(
                "already_exists",
                format!("`{id}` was opened with something else: take a fresh id"),
            ),
            Self::OfRun(id) => conflict(
                "not_standalone",
                format!("`{id}` belongs to a run: cancel the run instead"),
            ),
            Self::StandsAlone(id) => conflict(
                "stands_alone",
                format!("`{id}` belongs to no run: no service has a say in it"),
            ),
            Self::TimerOfRun(id) => {
                Problem::invalid_body(format!("`{id}`: timers of runs are the executor's own"))
            }
            Self::NotYours(id) => forbidden(format!(
                "`{id}` was opened by somebody else: they or an operator may take it back"
            )),
            Self::NotAgain(id, why) => why.problem(*id),
            Self::LastOwner(name) => conflict(
                "last_owner",
                format!("`{name}` is the last active owner: make somebody else an owner first"),
            ),
        }
    }
}

impl AskAgainRefusal {
    fn problem(&self, id: HoldId) -> Problem {
        match self {
            Self::NotYours => forbidden(format!(
                "`{id}` was asked by somebody else: they or an operator may ask it again"
            )),
            Self::OfRun => conflict(
                "not_standalone",
                format!(
                    "`{id}` belongs to a run, which goes on by its own plan or has ended: to have it \
                     asked again, start the agent again"
                ),
            ),
            Self::StillOpen => conflict(
                "still_open",
                format!("`{id}` is still open: reassign it, or take it back before you ask again"),
            ),
            Self::AskedBefore {
                id: next,
                is_over: true,
            } => conflict(
                "asked_again",
                format!("`{id}` was asked again as `{next}`, which has ended, too: ask that one again"),
            )
            .with_data(json!({ "id": next })),
            Self::AskedBefore {
                id: next,
                is_over: false,
            } => conflict(
                "asked_again",
                format!(
                    "`{id}` was asked again as `{next}`, of others or for another time: look at that one, and \
                     reassign it, or take it back and ask it again"
                ),
            )
            .with_data(json!({ "id": next })),
            Self::Decided(winner) => {
                let Winner(end) = &**winner;
                let (at, outcome) = (instant::write(end.at), end.outcome.as_str());
                let detail = format!(
                    "`{id}` was {outcome} by {} at {at}, and a decision stands: to ask something else, open \
                     a new hold",
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

fn is_somebodys(id: HoldId, what: &str, mark: &AuditStamp) -> Problem {
    let (by, at) = (&mark.by, instant::write(mark.at));
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
        "what you said is kept as late"
    } else {
        "what you said is not kept"
    };
    let detail = if end.outcome == HoldOutcome::Timeout {
        format!("time was up for `{id}` at {at}; {kept}")
    } else {
        format!("`{id}` was {outcome} by {} at {at}; {kept}", end.by)
    };
    conflict("already_decided", detail).with_data(json!({
        "winner": { "by": end.by, "at": at, "outcome": outcome, "data": end.data },
        "late": is_kept,
    }))
}
