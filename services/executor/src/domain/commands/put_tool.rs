//! `executor.put_tool`, `delete_tool`: an operator registers an HTTP tool, or states what counts for a tool of nodes.
//!
//! Only here a risk falls or a schema is replaced. Each change is recorded with its actor (S2-R2). An operator lowers
//! only what it has looked at: nodes may register a definition between the look and the put.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::secret::{ADDRESS_ERROR, is_secret_name, read_references};
use holdpoint_contracts::subject::SYSTEM_WORKSPACE;
use holdpoint_contracts::tool::{HttpCall, ToolChange, ToolRetry, ToolSpec, ToolView, time_error};
use holdpoint_holds::json_schema::schema_error;
use holdpoint_holds::redaction::paths_error;
use holdpoint_ids::{ToolName, Workspace};

use crate::domain::decision::{Decision, Lookup, LookupFn, Outcome, Undecided, decided};
use crate::domain::effect::Reply;
use crate::domain::input::ToolPut;
use crate::domain::model::tool::{Tool, is_built_in};
use crate::domain::need::{Aggregate, Fact, Key, Need};
use crate::domain::refusal::Refusal;

/// Largest tool, in bytes of JSON; also the largest header value.
const TOOL_BYTES_MAX: usize = 64 * 1024;

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// Changes of operators that an entry keeps.
const CHANGES_KEPT: usize = 50;

pub(crate) fn put_tool(
    known: Option<&Tool>,
    workspace: &Workspace,
    put: &ToolPut,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    let ToolPut { spec, by, .. } = put;
    if let Some(refusal) = spec_refusal(spec) {
        return Err(refusal.into());
    }
    // Nodes state them. What is shown of a tool can be sent back.
    let spec = &ToolSpec {
        secrets: Vec::new(),
        ..spec.clone()
    };
    let live = known.filter(|tool| !tool.deleted);
    let seen = put.seen.or(live.map(|tool| tool.seen)).unwrap_or(0);
    let nodes = entry_of_nodes(&spec.name, lookup)?;
    let is_unseen = nodes.as_deref().map_or(0, Tool::revision) != seen;
    let is_below = nodes.is_some_and(|nodes| is_below(spec, &nodes.spec));
    if is_unseen && (is_below || put.seen.is_some()) {
        return Err(Refusal::ToolChanged(spec.name.clone()).into());
    }
    if let Some(tool) = live.filter(|tool| tool.spec == *spec && tool.seen == seen) {
        return Ok(Outcome::Unchanged(put_reply(tool, false)));
    }
    let change = describe_change(live.map(|tool| &tool.spec), spec);
    let tool = Tool {
        workspace: workspace.clone(),
        spec: spec.clone(),
        version: known.map_or(0, |tool| tool.version) + 1,
        deleted: false,
        seen,
        changes: with_change(known, by, change, now),
        offers: Vec::new(),
        unchanged: 0,
        risk_revision: 0,
    };
    let answer = put_reply(&tool, true);
    decided(Aggregate::Tool(tool), Vec::new(), answer)
}

pub(crate) fn delete_tool(
    known: Option<&Tool>,
    name: &ToolName,
    by: &Actor,
    now: DateTime<Utc>,
) -> Decision {
    let Some(tool) = known.filter(|tool| !tool.deleted) else {
        return Err(Refusal::ToolNotFound(name.clone()).into());
    };
    let gone = Tool {
        version: tool.version + 1,
        deleted: true,
        changes: with_change(known, by, "deleted".to_owned(), now),
        ..tool.clone()
    };
    decided(Aggregate::Tool(gone), Vec::new(), Reply::Nothing(()))
}

fn put_reply(tool: &Tool, changed: bool) -> Reply {
    Reply::Tool(Box::new(ToolView {
        seen: tool.seen,
        changed,
        ..ToolView::new(tool.spec.clone(), tool.spec.source(), tool.version)
    }))
}

/// What nodes have registered until now.
fn entry_of_nodes(name: &ToolName, lookup: LookupFn<'_>) -> Result<Option<Arc<Tool>>, Undecided> {
    let Ok(system) = SYSTEM_WORKSPACE.parse() else {
        return Ok(None);
    };
    let need = Need::State(Key::Tool(system, name.clone()));
    match lookup(&need) {
        Lookup::NotLoaded => Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::Tool(nodes)) => Ok(Some(nodes)),
        Lookup::Found(_) | Lookup::Missing => Ok(None),
    }
}

/// Whether an operator permits more than the nodes say of their tool.
fn is_below(spec: &ToolSpec, nodes: &ToolSpec) -> bool {
    let is_promise = spec.http.is_none() && spec.idempotent && !nodes.idempotent;
    let shows = |hidden: &Vec<String>| {
        let stated = spec.redaction.as_ref();
        let covers = |stated: &String, path: &str| {
            path.strip_prefix(stated.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let is_stated = |stated: &Vec<String>, path| stated.iter().any(|it| covers(it, path));
        stated.is_some_and(|stated| !hidden.iter().all(|path| is_stated(stated, path)))
    };
    let is_shown = spec.http.is_none() && nodes.redaction.as_ref().is_some_and(shows);
    spec.risk < nodes.risk || is_promise || is_shown
}

fn with_change(
    known: Option<&Tool>,
    by: &Actor,
    change: String,
    at: DateTime<Utc>,
) -> Vec<ToolChange> {
    let by = by.clone();
    let earlier = known.into_iter().flat_map(|tool| tool.changes.clone());
    let changes = std::iter::once(ToolChange { at, by, change }).chain(earlier);
    changes.take(CHANGES_KEPT).collect()
}

/// What a put changes, in words and without values that may be secret.
fn describe_change(before: Option<&ToolSpec>, after: &ToolSpec) -> String {
    let Some(before) = before else {
        let (risk, idempotent) = (after.risk, after.idempotent);
        return format!("registered with risk {risk}, idempotent {idempotent}");
    };
    let mut changes = Vec::new();
    if before.risk != after.risk {
        changes.push(format!("risk {} → {}", before.risk, after.risk));
    }
    if before.idempotent != after.idempotent {
        changes.push(format!(
            "idempotent {} → {}",
            before.idempotent, after.idempotent
        ));
    }
    let replaced = [
        ("version", before.version != after.version),
        ("args_schema", before.args_schema != after.args_schema),
        ("result_schema", before.result_schema != after.result_schema),
        ("timeout", before.timeout != after.timeout),
        ("retry", before.retry != after.retry),
        ("redaction", before.redaction != after.redaction),
        ("http", before.http != after.http),
    ];
    let replaced = replaced.iter().filter(|(_, is_changed)| *is_changed);
    changes.extend(replaced.map(|(field, _)| format!("{field} replaced")));
    if changes.is_empty() {
        return "confirmed after new registrations".to_owned();
    }
    changes.join(", ")
}

/// Why a tool cannot be registered, by an operator or by a node.
pub(crate) fn spec_refusal(spec: &ToolSpec) -> Option<Refusal> {
    if is_built_in(spec.name.as_str()) {
        return Some(Refusal::ToolReserved(spec.name.clone()));
    }
    let said = |text: String| Some(Refusal::InvalidTool(text));
    let bytes = serde_json::to_string(spec).map_or(usize::MAX, |text| text.len());
    if bytes > TOOL_BYTES_MAX {
        return said(format!(
            "the tool is {bytes} bytes of JSON; at most {TOOL_BYTES_MAX} are allowed"
        ));
    }
    if let Some(message) = spec.http.as_ref().and_then(call_error) {
        return said(message);
    }
    let schemas = [
        ("args_schema", &spec.args_schema),
        ("result_schema", &spec.result_schema),
    ];
    for (field, schema) in schemas {
        if let Some(message) = schema.as_ref().and_then(schema_error) {
            return said(format!("`{field}`: {message}"));
        }
    }
    let wrong = spec.timeout.and_then(|ms| time_error("timeout", ms));
    let wrong = wrong
        .or_else(|| spec.retry.as_ref().and_then(ToolRetry::error))
        .or_else(|| secrets_error(&spec.secrets))
        .or_else(|| spec.redaction.as_deref().and_then(paths_error));
    wrong.map(Refusal::InvalidTool)
}

fn secrets_error(names: &[String]) -> Option<String> {
    let is_ordered = names.is_sorted_by(|one, next| one < next);
    let is_wrong = !is_ordered || !names.iter().all(|name| is_secret_name(name));
    is_wrong.then(|| "`secrets` is a sorted list of different names of secrets".to_owned())
}

fn call_error(call: &HttpCall) -> Option<String> {
    if !METHODS.contains(&call.method.as_str()) {
        return Some(format!(
            "`http.method` is one of {}, not `{}`",
            METHODS.join(", "),
            call.method
        ));
    }
    if call.url.contains("{{") {
        return Some(ADDRESS_ERROR.to_owned());
    }
    if !is_url(&call.url) {
        return Some(format!(
            "`http.url` starts with `http://` or `https://` and names a host, unlike `{}`",
            call.url
        ));
    }
    header_error(&call.headers)
}

/// Scheme and host, without white space: the call itself finds out the rest.
fn is_url(url: &str) -> bool {
    let rest = url
        .strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"));
    // An empty port usually comes from an unset variable.
    let has_host = |rest: &str| {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        !authority.is_empty() && !authority.starts_with(':') && !authority.ends_with(':')
    };
    rest.is_some_and(has_host) && !url.chars().any(|c| c.is_whitespace() || c.is_control())
}

/// RFC 9110: a name is a token, a value is visible text, blanks and tabs.
fn header_error(headers: &BTreeMap<String, String>) -> Option<String> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let is_text = |c: char| c == '\t' || (' '..='~').contains(&c);
    headers.iter().find_map(|(name, value)| {
        if name.is_empty() || !name.chars().all(is_token) {
            return Some(format!("`{name}` is not a valid HTTP header name"));
        }
        if !value.chars().all(is_text) {
            return Some(format!(
                "the value of header `{name}` has characters that HTTP does not allow"
            ));
        }
        let error = read_references(value).err()?;
        Some(format!("the value of header `{name}`: {error}"))
    })
}
