//! Holds that belong to no run: any program opens one by one call (M-6).

use chrono::TimeDelta;
use holdpoint_auth::Right;
use holdpoint_contracts::hold::{HoldSpec, OnTimeout};
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::{RoleName, UserName};

use super::caller::{Caller, Proof, active_user, allow, has};
use super::limits::{
    ANSWER_BYTES_MAX, CONTEXT_BYTES_MAX, OPTION_BYTES_MAX, OPTIONS_MAX, QUESTION_BYTES_MAX,
    TIMEOUT_MS, TO_MAX, bytes, fault,
};
use super::refusal::{Refusal, Winner};
use super::request::{Alarm, Phase, Request};
use super::turn::Turn;
use super::{Answer, Scene, Step, Stop};

/// Opens one; asking again with the same id and content opens nothing twice.
pub(crate) fn open(
    request: Option<&Request>,
    caller: &Caller,
    spec: &HoldSpec,
    timeout_ms: u64,
    scene: &Scene<'_>,
) -> Result<Step, Stop> {
    allow(caller, scene.workspace, Right::Ask, scene.look)?;
    let by = caller.name();
    if let Some(request) = request {
        let is_same = request.owner.is_none()
            && request.spec.as_ref() == Some(spec)
            && request.opened_by.as_ref() == Some(&by);
        if is_same {
            return Ok(Step::Same(shown(request)));
        }
        return Err(Refusal::Taken(scene.id).into());
    }
    let mut errors = faults(spec, timeout_ms, scene)?;
    errors.extend(unknown_people(spec, scene)?);
    if !errors.is_empty() {
        return Err(Refusal::InvalidHold(errors).into());
    }
    let timeout = TimeDelta::milliseconds(i64::try_from(timeout_ms).unwrap_or(i64::MAX));
    let turn = Turn::of(Request {
        workspace: scene.workspace.clone(),
        id: scene.id,
        version: 1,
        owner: None,
        rev: 0,
        spec: Some(spec.clone()),
        phase: Phase::Open {
            deadline: Some(scene.now + timeout),
        },
        escalated_at: None,
        alarm: Alarm::default(),
        closed_rev: None,
        effect: None,
        late: Vec::new(),
        opened_by: Some(by),
        created_at: scene.now,
    });
    Ok(turn.end(shown))
}

/// Takes one back; twice is once.
pub(crate) fn withdraw(
    request: Option<&Request>,
    caller: &Caller,
    scene: &Scene<'_>,
) -> Result<Step, Stop> {
    let user = allow(caller, scene.workspace, Right::Ask, scene.look)?;
    let request = request
        .filter(|request| request.spec.is_some())
        .ok_or(Refusal::NoRequest(scene.id))?;
    if request.owner.is_some() {
        return Err(Refusal::OfRun(scene.id).into());
    }
    let by = caller.name();
    let operates = match (&caller.proof, &user) {
        (Proof::Good(claims), Some(user)) => has(claims, user, Right::Operate),
        // What nobody signed has the rights of its subject, and that is one of them.
        (Proof::Absent, _) => true,
        (Proof::Good(_), None) | (Proof::Bad(_), _) => false,
    };
    if !operates && request.opened_by.as_ref() != Some(&by) {
        return Err(Refusal::NotYours(scene.id).into());
    }
    match &request.phase {
        Phase::Gone { .. } => Ok(Step::Same(shown(request))),
        Phase::Decided { .. } | Phase::TimedOut { .. } => {
            let end = request.end().ok_or(Refusal::NoRequest(scene.id))?;
            Err(Refusal::AlreadyDecided {
                id: scene.id,
                winner: Box::new(Winner(end)),
                is_kept: false,
            }
            .into())
        }
        Phase::Open { .. } | Phase::Frozen { .. } => {
            let mut turn = Turn::on(request);
            turn.request.phase = Phase::Gone {
                reason: format!("withdrawn by {by}"),
                at: scene.now,
            };
            turn.close();
            Ok(turn.end(shown))
        }
    }
}

fn shown(request: &Request) -> Answer {
    request
        .view()
        .map_or(Answer::Noted, |view| Answer::Request(Box::new(view)))
}

/// Everything that is wrong with what is asked.
fn faults(spec: &HoldSpec, timeout_ms: u64, scene: &Scene<'_>) -> Result<Vec<FieldError>, Refusal> {
    let mut errors = Vec::new();
    let mut wrong = |is_wrong: bool, pointer: &str, message: String| {
        if is_wrong {
            errors.push(fault(pointer, message));
        }
    };
    let asks = match spec.kind {
        HoldKind::Handoff => return Err(Refusal::NotYet(spec.kind)),
        HoldKind::Timer => false,
        HoldKind::Approval | HoldKind::Input => true,
    };
    wrong(
        !scene.id.is_standalone(),
        "/id",
        "a hold that stands alone has the number 0".to_owned(),
    );
    wrong(
        !TIMEOUT_MS.contains(&timeout_ms),
        "/timeout_ms",
        "1 second to 90 days".to_owned(),
    );
    wrong(
        spec.step.is_some() || spec.reason.is_some(),
        "/spec",
        "a hold that stands alone has neither `step` nor `reason`".to_owned(),
    );
    let question = spec.question.len();
    wrong(
        question > QUESTION_BYTES_MAX || (asks && spec.question.trim().is_empty()),
        "/spec/question",
        format!("a question of 1 to {QUESTION_BYTES_MAX} bytes"),
    );
    let is_bad = |text: &String| text.is_empty() || text.len() > OPTION_BYTES_MAX;
    wrong(
        spec.options.len() > OPTIONS_MAX || spec.options.iter().any(is_bad),
        "/spec/options",
        format!("at most {OPTIONS_MAX} options of 1 to {OPTION_BYTES_MAX} bytes"),
    );
    wrong(
        spec.kind != HoldKind::Input && !spec.options.is_empty(),
        "/spec/options",
        format!("a hold of kind `{}` has no options", spec.kind),
    );
    wrong(
        spec.to.len() > TO_MAX,
        "/spec/to",
        format!("at most {TO_MAX} people and roles"),
    );
    wrong(
        bytes(&spec.context) > CONTEXT_BYTES_MAX,
        "/spec/context",
        format!("at most {CONTEXT_BYTES_MAX} bytes as JSON"),
    );
    errors.extend(default_fault(spec));
    Ok(errors)
}

fn default_fault(spec: &HoldSpec) -> Option<FieldError> {
    let is_wanted = spec.on_timeout == OnTimeout::Default;
    let message = match &spec.default {
        None if is_wanted => "`on_timeout: default` needs a default answer".to_owned(),
        None => return None,
        Some(answer) if bytes(answer) > ANSWER_BYTES_MAX => {
            format!("an answer has at most {ANSWER_BYTES_MAX} bytes as JSON")
        }
        Some(answer) => {
            let is_option = |text: &str| spec.options.iter().any(|option| option == text);
            if spec.options.is_empty() || answer.as_str().is_some_and(is_option) {
                return None;
            }
            format!("the default is one of: {}", spec.options.join(", "))
        }
    };
    Some(fault("/spec/default", message))
}

/// S0-R1: whoever is asked by name is there and active.
fn unknown_people(spec: &HoldSpec, scene: &Scene<'_>) -> Result<Vec<FieldError>, Stop> {
    let mut errors = Vec::new();
    let mut needs = Vec::new();
    for (place, to) in spec.to.iter().enumerate().take(TO_MAX) {
        let pointer = format!("/spec/to/{place}");
        let user = to
            .strip_prefix("@user.")
            .map(str::parse::<UserName>)
            .transpose();
        let role = to
            .strip_prefix("@role.")
            .map(str::parse::<RoleName>)
            .transpose();
        match (user, role) {
            (Ok(Some(name)), _) => match active_user(scene.workspace, &name, scene.look) {
                Ok(Some(_)) => {}
                Ok(None) => errors.push(fault(
                    &pointer,
                    format!("User {name} not found or inactive in workspace"),
                )),
                Err(Stop::Need(more)) => needs.extend(more),
                Err(stop @ Stop::Refused(_)) => return Err(stop),
            },
            (_, Ok(Some(_))) => {}
            (Ok(None), Ok(None)) | (Err(_), _) | (_, Err(_)) => {
                errors.push(fault(&pointer, "write `@user.<name>` or `@role.<name>`"));
            }
        }
    }
    if needs.is_empty() {
        Ok(errors)
    } else {
        Err(Stop::Need(needs))
    }
}
