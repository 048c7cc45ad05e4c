//! `/holds`: an approval, an answer, a handoff or a wait without an agent (M-6).

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use holdpoint_auth::Right;
use holdpoint_contracts::handoff::{OpenHold, RequestStatus, RequestView, WithdrawHold};
use holdpoint_contracts::hold::{Assign, HoldSpec, OnTimeout, Policy, Priority, Rung, RungAct};
use holdpoint_contracts::link::Link;
use holdpoint_contracts::run::HoldKind;
use holdpoint_contracts::{Problem, duration};
use holdpoint_ids::{HoldId, PolicyName};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::requests::actions::VersionBody;
use super::requests::wait;
use crate::app::App;
use crate::auth::caller::Caller;
use crate::body::{Body, invalid_field, parse_duration_ms};
use crate::command_outcome::CommandOutcome;
use crate::params::{Params, invalid};
use crate::path::PathId;
use crate::problem::ApiError;

/// An input's time unless said (S3-R1).
const INPUT_TIMEOUT: Duration = Duration::from_mins(5);
/// Everybody else's (S0-T1).
const TIMEOUT: Duration = Duration::from_hours(7 * 24);
/// A handoff may wait without an automatic end (S0-T1).
const NO_END: Duration = Duration::ZERO;
/// Shorter is refused (S3-R7).
const TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// Longest question, in characters.
const QUESTION_MAX: usize = 10_000;
/// Largest `data`, in bytes of JSON.
const DATA_MAX: usize = 128 * 1024;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/holds", post(open))
        .route("/holds/{id}", get(wait::show).delete(withdraw))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct HoldBody {
    kind: Option<HoldKind>,
    question: Option<String>,
    #[serde(default, deserialize_with = "holdpoint_contracts::form::words")]
    options: Vec<String>,
    #[serde(default)]
    to: Option<OneOrMany>,
    wait: Option<String>,
    #[serde(default, deserialize_with = "text_or_zero")]
    timeout: Option<String>,
    on_timeout: Option<OnTimeout>,
    default: Option<Value>,
    #[serde(default)]
    data: Value,
    callback: Option<String>,
    schema: Option<Value>,
    link: Option<Link>,
    title: Option<String>,
    #[serde(default)]
    priority: Priority,
    #[serde(default)]
    assign: Assign,
    policy: Option<Value>,
    #[serde(default)]
    ladder: Vec<RungBody>,
    requester: Option<String>,
    asks_again: Option<HoldId>,
}

/// A duration has a unit; only 0 needs none, and may be a number.
fn text_or_zero<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    match Option::<Value>::deserialize(from)? {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(Value::Number(zero)) if zero.as_u64() == Some(0) => Ok(Some("0".to_owned())),
        Some(other) => Err(D::Error::custom(format!(
            "invalid duration `{other}`; expected a text such as \"5 days\", or 0"
        ))),
    }
}

/// `{after: "30m", do: "notify", to: ["@role.ops"]}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RungBody {
    after: String,
    #[serde(rename = "do")]
    act: RungAct,
    #[serde(default)]
    to: Option<OneOrMany>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    pub(super) fn all(it: Option<Self>) -> Vec<String> {
        match it {
            None => Vec::new(),
            Some(Self::One(one)) => vec![one],
            Some(Self::Many(many)) => many,
        }
    }
}

#[derive(Debug, Serialize)]
struct OpenedHold {
    id: HoldId,
    kind: HoldKind,
    status: RequestStatus,
    #[serde(with = "holdpoint_contracts::instant::option")]
    deadline: Option<DateTime<Utc>>,
}

async fn open(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    caller.may(Right::Ask)?;
    params.only(&[])?;
    let command = read(body.json()?)?;
    let answered = app.command(&caller, body.key, command).await;
    Ok(opened(answered.map_err(in_our_words)?))
}

/// A hold that was opened, or will be.
pub(super) fn opened(answered: CommandOutcome<RequestView>) -> Response {
    answered.respond(|request: RequestView| {
        let opened = OpenedHold {
            id: request.id,
            kind: request.kind,
            // A hold that was just opened is open, whatever its kind calls that later.
            status: match request.status.is_open() {
                true => RequestStatus::Open,
                false => request.status,
            },
            deadline: request.deadline,
        };
        (StatusCode::CREATED, Json(opened)).into_response()
    })
}

/// Takes one back, as it was seen: `?version=3`, or `{version}` as the other routes take it.
async fn withdraw(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId<HoldId>,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    caller.may(Right::Ask)?;
    let in_query = params.only(&["version"])?.read_as("version")?;
    let VersionBody { version: in_body } = body.json_or_empty()?;
    if in_query.is_some() && in_body.is_some() {
        return Err(ApiError(invalid("`version` is given twice")));
    }
    let version = in_query.or(in_body);
    let command = WithdrawHold { id, version };
    let answered = app.command(&caller, body.key, command).await?;
    Ok(answered.with_status(StatusCode::OK))
}

/// The owner of holds points into its command; whoever asked knows only this body.
pub(super) fn in_our_words(mut problem: Problem) -> Problem {
    for error in &mut problem.errors {
        if let Some(pointer) = &mut error.pointer {
            *pointer = ours(pointer);
        }
    }
    problem
}

fn ours(theirs: &str) -> String {
    let inner = theirs.strip_prefix("/spec").unwrap_or(theirs);
    if inner.starts_with("/policies") {
        return "/policy".to_owned();
    }
    let inner = inner.strip_suffix("_ms").unwrap_or(inner);
    match inner.strip_prefix("/context") {
        Some(rest) => format!("/data{rest}"),
        None => inner.to_owned(),
    }
}

/// Translates; whether the audience exists, and what else holds of a kind, its owner knows.
fn read(body: HoldBody) -> Result<OpenHold, Problem> {
    let kind = body
        .kind
        .ok_or_else(|| invalid_field("/kind", "one of timer, approval, input, handoff"))?;
    let timeout = timeout(kind, body.wait.as_deref(), body.timeout.as_deref())?;
    let on_timeout = body.on_timeout.unwrap_or(OnTimeout::of(kind));
    let is_used = |rung: &RungBody| rung.act == RungAct::AnswerDefault;
    let is_used = on_timeout == OnTimeout::Default || body.ladder.iter().any(is_used);
    if is_used != body.default.is_some() {
        let message = "`on_timeout: default` and `default` go together";
        return Err(invalid_field("/default", message));
    }
    if body.data.to_string().len() > DATA_MAX {
        let message = format!("it is {DATA_MAX} bytes at most");
        return Err(invalid_field("/data", &message));
    }
    let (policy, policies) = named(body.policy)?;
    // What its policies may say, its owner knows.
    let says_nothing = body.timeout.is_none() && !policies.is_empty();
    let spec = HoldSpec {
        options: body.options,
        to: OneOrMany::all(body.to),
        on_timeout,
        default: body.default,
        context: body.data,
        schema: body.schema,
        link: body.link,
        priority: body.priority,
        title: body.title,
        assign: body.assign,
        policy,
        policies,
        requester: body.requester,
        ladder: rungs(body.ladder)?,
        asks_again: body.asks_again,
        callback: body.callback,
        time_by_policy: says_nothing && kind == HoldKind::Handoff,
        ..HoldSpec::asking(kind, question(kind, body.question, timeout)?)
    };
    let timeout_ms = match says_nothing && kind != HoldKind::Timer {
        true => 0,
        false => u64::try_from(timeout.as_millis())
            .map_err(|error| invalid_field("/timeout", &error.to_string()))?,
    };
    Ok(OpenHold {
        id: HoldId::standalone(),
        spec,
        timeout_ms,
    })
}

/// `policy: {need, not_requester}`, or the name of a policy, or names.
fn named(policy: Option<Value>) -> Result<(Policy, Vec<PolicyName>), Problem> {
    let names = match policy {
        None | Some(Value::Null) => return Ok((Policy::default(), Vec::new())),
        Some(rules @ Value::Object(_)) => {
            let rules = serde_json::from_value(rules);
            let rules = rules.map_err(|error| invalid_field("/policy", &error.to_string()))?;
            return Ok((rules, Vec::new()));
        }
        Some(Value::Array(names)) => names,
        Some(one @ (Value::String(_) | Value::Number(_) | Value::Bool(_))) => vec![one],
    };
    let name = |name: &Value| {
        let text = name.as_str().unwrap_or_default();
        text.parse().map_err(|_no_name: holdpoint_ids::IdError| {
            let message = "the name of a policy, names, or `{need, not_requester}`";
            invalid_field("/policy", message)
        })
    };
    let names = names.iter().map(name).collect::<Result<_, _>>()?;
    Ok((Policy::default(), names))
}

fn rungs(rungs: Vec<RungBody>) -> Result<Vec<Rung>, Problem> {
    let rung = |(place, rung): (usize, RungBody)| {
        Ok(Rung {
            after_ms: parse_duration_ms(&format!("/ladder/{place}/after"), &rung.after)?,
            act: rung.act,
            to: OneOrMany::all(rung.to),
        })
    };
    rungs.into_iter().enumerate().map(rung).collect()
}

fn question(kind: HoldKind, text: Option<String>, time: Duration) -> Result<String, Problem> {
    let text = match (kind, text) {
        (HoldKind::Timer, None) => format!("Wait {}", duration::describe(time)),
        (_, text) => text.unwrap_or_default(),
    };
    if text.trim().is_empty() {
        return Err(invalid_field("/question", "say what is asked"));
    }
    if text.chars().count() > QUESTION_MAX {
        let message = format!("it is {QUESTION_MAX} characters at most");
        return Err(invalid_field("/question", &message));
    }
    Ok(text)
}

/// A timer has `wait`, everything else may have `timeout`.
fn timeout(kind: HoldKind, wait: Option<&str>, most: Option<&str>) -> Result<Duration, Problem> {
    let (pointer, text) = match (kind, wait, most) {
        (HoldKind::Timer, Some(wait), None) => ("/wait", wait),
        (HoldKind::Timer, _, _) => {
            return Err(invalid_field(
                "/wait",
                "a timer takes `wait`, and no `timeout`",
            ));
        }
        (_, Some(_), _) => {
            return Err(invalid_field(
                "/wait",
                "`wait` is for timers; give `timeout`",
            ));
        }
        (HoldKind::Handoff, None, Some("0")) => return Ok(NO_END),
        (_, None, Some(most)) => ("/timeout", most),
        (HoldKind::Input, None, None) => return Ok(INPUT_TIMEOUT),
        (HoldKind::Approval | HoldKind::Handoff, None, None) => return Ok(TIMEOUT),
    };
    let time = duration::parse(text).map_err(|error| invalid_field(pointer, &error.to_string()))?;
    let is_endless = kind == HoldKind::Handoff && time == NO_END;
    if is_endless || (TIMEOUT_MIN..=duration::MAX_WAIT).contains(&time) {
        return Ok(time);
    }
    let message = match kind {
        HoldKind::Handoff => "it is from 1 second to 90 days, or 0 for no automatic end",
        HoldKind::Timer | HoldKind::Approval | HoldKind::Input => "it is from 1 second to 90 days",
    };
    Err(invalid_field(pointer, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::from_json;

    fn read_as(body: &str) -> Result<OpenHold, Problem> {
        read(from_json(body.as_bytes())?)
    }

    /// Mend C-8: a handoff takes 0, as a number or a text.
    #[test]
    fn a_handoff_may_have_no_automatic_end() {
        for zero in ["0", r#""0""#, r#""0s""#] {
            let body =
                |kind| format!(r#"{{"kind": "{kind}", "question": "Now?", "timeout": {zero}}}"#);
            let endless = read_as(&body("handoff")).unwrap();
            assert_eq!(
                (endless.timeout_ms, endless.spec.time_by_policy),
                (0, false)
            );
            let refused = read_as(&body("input")).unwrap_err();
            assert_eq!(
                refused.errors[0].pointer.as_deref(),
                Some("/timeout"),
                "{zero}"
            );
        }
        let named = r#"{"kind": "handoff", "question": "Now?", "policy": "day"}"#;
        assert!(
            read_as(named).unwrap().spec.time_by_policy,
            "the policy says how long"
        );
        let number = read_as(r#"{"kind": "handoff", "question": "Now?", "timeout": 5}"#);
        assert!(number.is_err(), "5 of which unit?");
    }

    /// M-6, S3-R7, S0-AC8
    #[test]
    fn a_hold_has_a_time_from_a_second_to_ninety_days() {
        let timer = read_as(r#"{"kind": "timer", "wait": "90d"}"#).unwrap();
        assert_eq!(timer.timeout_ms, 7_776_000_000);
        assert_eq!(timer.spec.question, "Wait 90 days");
        let ask = read_as(r#"{"kind": "input", "question": "Now?"}"#).unwrap();
        assert_eq!(ask.timeout_ms, 300_000);
        for (body, at) in [
            (r#"{"kind": "timer", "wait": "0s"}"#, "/wait"),
            (r#"{"kind": "timer", "wait": "90d1ms"}"#, "/wait"),
            (r#"{"kind": "timer"}"#, "/wait"),
            (
                r#"{"kind": "timer", "wait": "1s", "timeout": "1s"}"#,
                "/wait",
            ),
            (
                r#"{"kind": "approval", "question": "?", "wait": "1s"}"#,
                "/wait",
            ),
            (
                r#"{"kind": "approval", "question": "?", "timeout": "1"}"#,
                "/timeout",
            ),
            (r#"{"kind": "approval"}"#, "/question"),
            (r#"{"question": "?"}"#, "/kind"),
            (
                r#"{"kind": "input", "question": "?", "default": 1}"#,
                "/default",
            ),
        ] {
            let problem = read_as(body).unwrap_err();
            assert_eq!(
                (problem.status, &*problem.code),
                (422, "invalid_body"),
                "{body}"
            );
            assert_eq!(problem.errors[0].pointer.as_deref(), Some(at), "{body}");
        }
        assert!(read_as(r#"{"kind": "timer", "wait": "1s", "lenght": 1}"#).is_err());
    }

    /// The owner of holds points into its own command.
    #[test]
    fn what_is_wrong_is_said_in_the_words_of_the_body() {
        for (theirs, wanted) in [
            ("/spec/policies/0", "/policy"),
            ("/spec/policy/need", "/policy/need"),
            ("/spec/context/a_ms/b", "/data/a_ms/b"),
            ("/spec/ladder/2/after_ms", "/ladder/2/after"),
            ("/spec/schema/properties/a", "/schema/properties/a"),
            ("/timeout_ms", "/timeout"),
            ("", ""),
        ] {
            assert_eq!(ours(theirs), wanted);
        }
    }

    /// API, `/policies`: a hold names policies, or says what one would.
    #[test]
    fn a_policy_is_named_or_said() {
        for (policy, names, need, timeout_ms) in [
            (r#""two-managers""#, 1, 1, 0),
            (r#"["two-managers", "on-call"]"#, 2, 1, 0),
            (r#"{"need": 2}"#, 0, 2, 604_800_000),
        ] {
            let body = format!(r#"{{"kind": "approval", "question": "Go?", "policy": {policy}}}"#);
            let opened = read_as(&body).unwrap();
            let said = (opened.spec.policies.len(), opened.spec.policy.need);
            assert_eq!(
                (said, opened.timeout_ms),
                ((names, need), timeout_ms),
                "{body}"
            );
        }
        for policy in ["7", r#""a b""#, r#"{"needs": 2}"#] {
            let body = format!(r#"{{"kind": "approval", "question": "Go?", "policy": {policy}}}"#);
            let problem = read_as(&body).unwrap_err();
            assert_eq!(
                problem.errors[0].pointer.as_deref(),
                Some("/policy"),
                "{body}"
            );
        }
    }

    #[test]
    fn to_is_one_or_many() {
        for (to, many) in [(r#""@role.ops""#, 1), (r#"["@user.a", "@user.b"]"#, 2)] {
            let body = format!(r#"{{"kind": "approval", "question": "Deploy?", "to": {to}}}"#);
            assert_eq!(read_as(&body).unwrap().spec.to.len(), many);
        }
    }
}
