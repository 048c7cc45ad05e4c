//! `/holds`: an approval, an input, a handoff or a timer without a run (M-6).

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use holdpoint_contracts::Problem;
use holdpoint_contracts::duration::{self, describe};
use holdpoint_contracts::handoff::{OpenHold, RequestStatus, RequestView, WithdrawHold};
use holdpoint_contracts::hold::{Assign, HoldSpec, OnTimeout, Policy, Priority, Rung, RungAct};
use holdpoint_contracts::link::Link;
use holdpoint_contracts::run::HoldKind;
use holdpoint_holds::deadline::{NO_END, default_timeout_ms, timeout_error};
use holdpoint_holds::{HoldDraft, invalid_hold};
use holdpoint_ids::{HoldId, PolicyName};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::requests::wait;
use crate::app::App;
use crate::auth::may::Ask;
use crate::body::{invalid_field, parse_duration_ms, rewrite_pointers};
use crate::call::{Call, JsonBody, OptionalJson};
use crate::command_outcome::CommandResult;
use crate::params::{Params, invalid};
use crate::path::NoId;
use crate::problem::{ApiError, ApiResult};

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/holds", post(open))
        .route("/holds/{id}", get(wait::show).delete(withdraw))
}

/// The version of a request that the caller has seen.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VersionBody {
    pub(super) version: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct HoldBody {
    kind: Option<HoldKind>,
    question: Option<String>,
    #[serde(default, deserialize_with = "holdpoint_contracts::form::words")]
    options: Vec<String>,
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

async fn open(call: Call<Ask, NoId, JsonBody<HoldBody>>) -> ApiResult<Response> {
    let command = read_hold(call.body)?;
    respond_opened(call.caller.command(call.key, command).await)
}

/// The reply to opening a hold, also if the command is only stored yet.
pub(super) fn respond_opened(outcome: CommandResult<RequestView>) -> ApiResult<Response> {
    let outcome = outcome.map_err(|ApiError(problem)| rewrite_pointers(problem, body_pointer))?;
    Ok(outcome.respond(|request| {
        let opened = OpenedHold {
            id: request.id,
            kind: request.kind,
            // A new handoff is `open` here and `offered` later.
            status: if request.status.is_open() {
                RequestStatus::Open
            } else {
                request.status
            },
            deadline: request.deadline,
        };
        (StatusCode::CREATED, Json(opened)).into_response()
    }))
}

/// Withdraws a hold. The version is `?version=3`, or `{version}` as on other routes.
async fn withdraw(
    call: Call<Ask, HoldId, OptionalJson<VersionBody>, Params>,
) -> CommandResult<RequestView> {
    let in_query = call.params.only(&["version"])?.read_as("version")?;
    let in_body = call.body.version;
    if in_query.is_some() && in_body.is_some() {
        return Err(ApiError(invalid(
            "`version` must be either in the query or in the body",
        )));
    }
    let command = WithdrawHold {
        id: call.id,
        version: in_query.or(in_body),
    };
    call.caller.command(call.key, command).await
}

/// The pointer into this body for one into the command of the handoff service.
fn body_pointer(of_command: &str) -> String {
    let inner = of_command.strip_prefix("/spec").unwrap_or(of_command);
    if inner.starts_with("/policies") {
        return "/policy".to_owned();
    }
    let inner = inner.strip_suffix("_ms").unwrap_or(inner);
    match inner.strip_prefix("/context") {
        Some(rest) => format!("/data{rest}"),
        None => inner.to_owned(),
    }
}

/// Translates and validates the body. Whether recipients and policies exist is checked by the handoff
/// service.
fn read_hold(body: HoldBody) -> Result<OpenHold, Problem> {
    let kind = body
        .kind
        .ok_or_else(|| invalid_field("/kind", "expected timer, approval, input or handoff"))?;
    let timeout_ms = timeout_ms(kind, body.wait.as_deref(), body.timeout.as_deref())?;
    let (policy, policies) = read_policy(body.policy)?;
    let time_by_policy = body.timeout.is_none() && !policies.is_empty();
    let question = match (kind, body.question) {
        (HoldKind::Timer, None) => format!("Wait {}", describe(Duration::from_millis(timeout_ms))),
        (_, text) => text.unwrap_or_default(),
    };
    let spec = HoldSpec {
        options: body.options,
        to: OneOrMany::all(body.to),
        on_timeout: body.on_timeout.unwrap_or(OnTimeout::of(kind)),
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
        ladder: read_rungs(body.ladder)?,
        asks_again: body.asks_again,
        callback: body.callback,
        time_by_policy: time_by_policy && kind == HoldKind::Handoff,
        ..HoldSpec::asking(kind, question)
    };
    let draft = HoldDraft {
        spec: &spec,
        timeout_ms: Some(timeout_ms),
    };
    let errors = draft.validate();
    if !errors.is_empty() {
        return Err(rewrite_pointers(invalid_hold(errors), body_pointer));
    }
    let leaves_time = time_by_policy && kind != HoldKind::Timer;
    Ok(OpenHold {
        id: HoldId::standalone(),
        spec,
        timeout_ms: if leaves_time { NO_END } else { timeout_ms },
    })
}

/// `policy: {need, not_requester}`, or the name of a policy, or names.
fn read_policy(policy: Option<Value>) -> Result<(Policy, Vec<PolicyName>), Problem> {
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
            let message = "expected a policy name, a list of names, or `{need, not_requester}`";
            invalid_field("/policy", message)
        })
    };
    let names = names.iter().map(name).collect::<Result<_, _>>()?;
    Ok((Policy::default(), names))
}

fn read_rungs(rungs: Vec<RungBody>) -> Result<Vec<Rung>, Problem> {
    let rung = |(place, rung): (usize, RungBody)| {
        Ok(Rung {
            after_ms: parse_duration_ms(&format!("/ladder/{place}/after"), &rung.after)?,
            act: rung.act,
            to: OneOrMany::all(rung.to),
        })
    };
    rungs.into_iter().enumerate().map(rung).collect()
}

/// A timer takes `wait`, and all others take `timeout`. In milliseconds.
fn timeout_ms(kind: HoldKind, wait: Option<&str>, timeout: Option<&str>) -> Result<u64, Problem> {
    let (pointer, text) = match (kind, wait, timeout) {
        (HoldKind::Timer, Some(wait), None) => ("/wait", wait),
        (HoldKind::Timer, _, _) => {
            return Err(invalid_field(
                "/wait",
                "a timer takes `wait` and not `timeout`",
            ));
        }
        (_, Some(_), _) => {
            return Err(invalid_field(
                "/wait",
                "only a timer takes `wait`; use `timeout`",
            ));
        }
        // Only a handoff takes 0; the validation refuses it for others.
        (_, None, Some("0")) => return Ok(NO_END),
        (_, None, Some(timeout)) => ("/timeout", timeout),
        (_, None, None) => return Ok(default_timeout_ms(kind)),
    };
    let time = duration::parse(text).map_err(|error| invalid_field(pointer, &error.to_string()))?;
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    match timeout_error(kind, ms) {
        // Named here, because a timer calls it `wait`.
        Some(message) => Err(invalid_field(pointer, message)),
        None => Ok(ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::from_json;

    fn read_as(body: &str) -> Result<OpenHold, Problem> {
        read_hold(from_json(body.as_bytes())?)
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

    /// The handoff service points into its command.
    #[test]
    fn errors_of_the_command_point_into_the_body() {
        for (of_command, expected) in [
            ("/spec/policies/0", "/policy"),
            ("/spec/policy/need", "/policy/need"),
            ("/spec/context/a_ms/b", "/data/a_ms/b"),
            ("/spec/ladder/2/after_ms", "/ladder/2/after"),
            ("/spec/schema/properties/a", "/schema/properties/a"),
            ("/timeout_ms", "/timeout"),
            ("", ""),
        ] {
            assert_eq!(body_pointer(of_command), expected);
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

    /// REST refuses what the other doors refuse.
    #[test]
    fn every_door_refuses_the_same_drafts_with_the_same_words() {
        for draft in holdpoint_holds::fixtures::drafts() {
            let mut body = draft.with_text_timeout();
            body.insert("kind".to_owned(), "input".into());
            let text = Value::Object(body).to_string();
            let opened = read_as(&text);
            let errors = opened.map_or_else(|problem| problem.errors, |_| Vec::new());
            let messages: Vec<_> = errors.iter().map(|error| &*error.message).collect();
            assert_eq!(messages, draft.messages, "{text:.300}");
        }
    }
}
