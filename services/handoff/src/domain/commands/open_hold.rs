//! `handoff.open_hold`: any program opens a hold without a run (M-6).

use chrono::TimeDelta;
use holdpoint_auth::Right;
use holdpoint_contracts::handoff::AskAgain;
use holdpoint_contracts::hold::{HoldSpec, Rung};
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::HoldKind;
use holdpoint_holds::deadline::default_timeout_ms;
use holdpoint_holds::resolved_policies::ResolvedPolicies;
use holdpoint_holds::{HoldDraft, inactive_text, sanitized};

use crate::domain::decision::{Outcome, Undecided};
use crate::domain::effect::Reply;
use crate::domain::input::Caller;
use crate::domain::lookup::{DecisionContext, load_together};
use crate::domain::model::progress::RequestProgress;
use crate::domain::model::request::{ExcludedDeciders, Phase, Request};
use crate::domain::refusal::Refusal;
use crate::domain::rules::audience::{self, AssignmentRules, find_inactive_users};
use crate::domain::rules::authorization::require_right;
use crate::domain::rules::initial_assignment::assign_new_request;
use crate::domain::rules::quorum::check_quorum;
use crate::domain::rules::resolved_policies::resolve_policies;
use crate::domain::transition::RequestTransition;

#[derive(Debug)]
pub(crate) struct Opening<'a> {
    pub(crate) spec: &'a HoldSpec,
    /// Time until the hold times out, in milliseconds; 0 means the policies' time, or no automatic end.
    pub(crate) timeout_ms: u64,
    /// The command that asks an earlier request again.
    pub(crate) again: Option<&'a AskAgain>,
    /// Openers of the requests that this one asks again; they are excluded like its opener.
    pub(crate) earlier_openers: Vec<String>,
}

/// Opens a hold. The same id with the same content opens nothing twice.
pub(crate) fn open_hold(
    request: Option<&Request>,
    caller: &Caller,
    opening: &Opening<'_>,
    context: &DecisionContext<'_>,
) -> Result<Outcome, Undecided> {
    let spec = sanitized(opening.spec);
    let authorize = || require_right(caller, Right::Ask, context.facts).map(drop);
    let by = caller.name();
    // The kernel allows four rounds of needs, so everything is asked for ahead, before the policies are known.
    load_together([
        authorize(),
        resolve_policies(&spec, context).map(drop),
        load_people(&spec, opening.openers(&by), context),
        opening.check_requester(&spec, context).map(drop),
    ])?;
    authorize()?;
    if let Some(request) = request {
        let resolved = request.progress.resolved_policies.apply(spec);
        let is_same = request.owner.is_none()
            && request.spec.as_ref() == Some(&resolved)
            && request.opened_by.as_ref() == Some(&by);
        if is_same {
            return Ok(Outcome::Unchanged(Reply::of_request(request)));
        }
        return Err(Refusal::Taken(context.id).into());
    }
    let (policies, mut errors) = resolve_policies(&spec, context)?;
    let timeout_ms = resolve_timeout(&spec, opening.timeout_ms, &policies);
    let spec = policies.apply(spec);
    load_together([
        load_people(&spec, opening.openers(&by), context),
        opening.check_requester(&spec, context).map(drop),
    ])?;
    let invalid = validate(&spec, timeout_ms, context).into_iter();
    errors.extend(invalid.filter(|error| opening.is_stated(error)));
    errors.extend(find_inactive_users(&spec.to, "/spec/to", context.facts)?);
    for (place, rung) in spec.ladder.iter().enumerate() {
        let pointer = format!("/spec/ladder/{place}/to");
        errors.extend(find_inactive_users(&rung.to, &pointer, context.facts)?);
    }
    errors.extend(opening.check_requester(&spec, context)?);
    if errors.is_empty() {
        let excluded = ExcludedDeciders::of(&spec, opening.openers(&by));
        let shortfall = check_quorum(&spec, &excluded, context)?;
        errors.extend(shortfall.map(|shortfall| shortfall.error(policies.votes.is_some())));
    }
    if !errors.is_empty() {
        return Err(Refusal::InvalidFields(errors).into());
    }
    let timeout = TimeDelta::milliseconds(i64::try_from(timeout_ms).unwrap_or(i64::MAX));
    let request = Request {
        spec: Some(spec),
        phase: Phase::Open {
            deadline: (timeout_ms > 0).then(|| context.now + timeout),
        },
        opened_by: Some(by),
        earlier_openers: opening.earlier_openers.clone(),
        timeout_ms,
        progress: RequestProgress {
            resolved_policies: policies,
            ..RequestProgress::default()
        },
        ..Request::new(context.facts.workspace, context.id, None, context.now)
    };
    let mut transition = RequestTransition::new(request, context.now);
    assign_new_request(&mut transition, context)?;
    Ok(transition.finish(Reply::of_request))
}

/// 0 means no automatic end for a handoff that does not leave its time to policies. Elsewhere, with policies,
/// it means the policies' time.
fn resolve_timeout(spec: &HoldSpec, timeout_ms: u64, policies: &ResolvedPolicies) -> u64 {
    let is_endless = spec.kind == HoldKind::Handoff && !spec.time_by_policy;
    if timeout_ms != 0 || spec.policies.is_empty() || is_endless {
        return timeout_ms;
    }
    let by_policy = policies.decide_within_ms;
    by_policy.unwrap_or_else(|| default_timeout_ms(spec.kind))
}

/// The shared validation, with pointers into the command, and what only a standalone hold must keep.
fn validate(spec: &HoldSpec, timeout_ms: u64, context: &DecisionContext<'_>) -> Vec<FieldError> {
    let draft = HoldDraft {
        spec,
        timeout_ms: Some(timeout_ms),
    };
    let in_command = |error: FieldError| match error.pointer.as_deref() {
        Some("/timeout_ms") => error,
        Some(_) | None => error.under("/spec"),
    };
    let mut errors: Vec<_> = draft.validate().into_iter().map(in_command).collect();
    if !context.id.is_standalone() {
        let message = "the id of a standalone hold must have the number 0";
        errors.push(FieldError::at("/id", message));
    }
    if spec.step.is_some() || spec.reason.is_some() {
        let message = "a standalone hold must not have `step` or `reason`";
        errors.push(FieldError::at("/spec", message));
    }
    errors
}

/// Asks for all users and roles that a hold names, in one round.
pub(super) fn load_people<'n>(
    spec: &'n HoldSpec,
    openers: impl IntoIterator<Item = &'n str>,
    context: &DecisionContext<'_>,
) -> Result<(), Undecided> {
    let rules = AssignmentRules {
        assign: spec.assign,
        excluded: ExcludedDeciders::default(),
    };
    let of_rung = |rung: &Rung| find_inactive_users(&rung.to, "", context.facts).map(drop);
    let others = [
        audience::assign(&spec.to, &rules, context).map(drop),
        check_quorum(spec, &ExcludedDeciders::of(spec, openers), context).map(drop),
    ];
    load_together(spec.ladder.iter().map(of_rung).chain(others))
}

impl Opening<'_> {
    /// The opener, and the openers of the requests that this one asks again.
    fn openers<'n>(&'n self, by: &'n str) -> impl Iterator<Item = &'n str> {
        let earlier = self.earlier_openers.iter().map(String::as_str);
        std::iter::once(by).chain(earlier)
    }

    /// Whether an error is in a field that the caller states. A request is asked again as it was, even if
    /// today's limits are lower, because nobody can edit it.
    fn is_stated(&self, error: &FieldError) -> bool {
        let Some(again) = self.again else {
            return true;
        };
        match error.pointer.as_deref() {
            Some("/timeout_ms") => again.timeout_ms.is_some(),
            Some(pointer) if pointer == "/spec/to" || pointer.starts_with("/spec/to/") => {
                again.to.is_some()
            }
            Some(_) | None => false,
        }
    }

    /// An excluded requester must exist: excluding an unknown name would exclude nobody. The requester of an
    /// earlier request was valid then, and stays excluded even if disabled since.
    fn check_requester(
        &self,
        spec: &HoldSpec,
        context: &DecisionContext<'_>,
    ) -> Result<Option<FieldError>, Undecided> {
        let is_checked = self.again.is_none() && spec.policy.not_requester;
        let Some(requester) = spec.requester.as_ref().filter(|_| is_checked) else {
            return Ok(None);
        };
        let user = match requester.parse() {
            Ok(name) => context.facts.active_user(&name)?,
            Err(_) => None,
        };
        let text = || inactive_text(&requester);
        Ok(user
            .is_none()
            .then(|| FieldError::at("/spec/requester", text())))
    }
}
