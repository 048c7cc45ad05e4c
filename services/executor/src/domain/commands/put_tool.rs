//! `executor.put_tool`, `delete_tool`: an operator registers an HTTP tool, changes it, or deletes it.

use std::collections::BTreeMap;

use holdpoint_contracts::tool::ToolSpec;
use holdpoint_holds::json_schema::schema_error;
use holdpoint_ids::{ToolName, Workspace};

use crate::domain::decision::{Decision, Outcome, Undecided, decided};
use crate::domain::effect::Reply;
use crate::domain::input::ToolInput;
use crate::domain::model::tool::{Tool, is_built_in};
use crate::domain::need::Aggregate;
use crate::domain::refusal::Refusal;

/// Largest tool, in bytes of JSON; also the largest header value.
const TOOL_BYTES_MAX: usize = 64 * 1024;

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

pub(crate) fn change_tool(
    known: Option<&Tool>,
    workspace: &Workspace,
    name: &ToolName,
    input: &ToolInput,
) -> Decision {
    let version = known.map_or(0, |tool| tool.version) + 1;
    let live = known.filter(|tool| !tool.deleted);
    match input {
        ToolInput::Put(spec) => {
            if let Some(refusal) = tool_refusal(spec) {
                return Err(Undecided::Refused(refusal));
            }
            if let Some(tool) = live.filter(|tool| tool.spec == **spec) {
                return Ok(Outcome::Unchanged(Reply::Tool(Box::new(tool.view(false)))));
            }
            let tool = Tool {
                workspace: workspace.clone(),
                spec: (**spec).clone(),
                version,
                deleted: false,
            };
            let answer = Reply::Tool(Box::new(tool.view(true)));
            decided(Aggregate::Tool(tool), Vec::new(), answer)
        }
        ToolInput::Delete => match live {
            None => Err(Refusal::ToolNotFound(name.clone()).into()),
            Some(tool) => {
                let gone = Tool {
                    version,
                    deleted: true,
                    ..tool.clone()
                };
                decided(Aggregate::Tool(gone), Vec::new(), Reply::Nothing(()))
            }
        },
    }
}

fn tool_refusal(spec: &ToolSpec) -> Option<Refusal> {
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
    let call = &spec.http;
    if !METHODS.contains(&call.method.as_str()) {
        return said(format!(
            "`http.method` is one of {}, not `{}`",
            METHODS.join(", "),
            call.method
        ));
    }
    if !is_url(&call.url) {
        return said(format!(
            "`http.url` starts with `http://` or `https://` and names a host, unlike `{}`",
            call.url
        ));
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
    header_error(&call.headers).and_then(said)
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
        (!value.chars().all(is_text)).then(|| {
            format!("the value of header `{name}` has characters that HTTP does not allow")
        })
    })
}
