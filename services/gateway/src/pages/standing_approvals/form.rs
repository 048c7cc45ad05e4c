//! The form that creates a standing approval: its inputs, and the terms that they mean.

use std::fmt::Display;

use holdpoint_contracts::handoff::{RequestView, StandingApprovalTerms};
use holdpoint_contracts::{FieldError, duration, value_limits};
use holdpoint_ids::StandingApprovalId;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::super::inputs::{Input, error_hint, field_error};
use super::super::session::{Fields, SignedInUser};
use super::entry::{PATH, json_text};

/// The form with these values, and the errors of the last attempt.
pub(in crate::pages) fn render(
    user: &SignedInUser,
    fields: &Fields,
    errors: &[FieldError],
) -> Markup {
    let typed = |name: &str| fields.get(name).unwrap_or_default();
    let text = |name: &'static str, pointer: &str| {
        Input::text(name, typed(name), field_error(errors, pointer))
    };
    let agent = Input {
        required: true,
        ..text("agent", "/agent")
    };
    let tool = Input {
        required: true,
        ..text("tool", "/tool")
    };
    let version = text("version", "/version");
    let uses = Input {
        kind: "number",
        required: true,
        ..text("max_uses", "/max_uses")
    };
    let expires = Input {
        placeholder: Some("7 days"),
        required: true,
        ..text("expires_in", "/expires_in")
    };
    let reason = text("reason", "/reason");
    let optional = |hint: &str| html! { span.muted { "(" (hint) ")" } };
    let inside = html! {
        h1 { "Create a standing approval" }
        p.muted { "Calls within these terms are approved in your name, without asking. A request that you may not decide is asked as usual." }
        div.field { (agent.render(&html! { "Agent" })) }
        div.field { (tool.render(&html! { "Tool" })) }
        div.field { (version.render(&html! { "Version of the tool " (optional("as its approval requests show it, such as 1.2+3")) })) }
        div.field { (schema_input(typed("args_schema"), field_error(errors, "/args_schema").as_ref())) }
        div.field { (uses.render(&html! { "Maximum number of uses" })) }
        div.field { (expires.render(&html! { "Expires in " (optional("at most 90 days")) })) }
        div.field { (reason.render(&html! { "Reason " (optional("optional, for people who read the list")) })) }
        div.row { button.primary { "Create the standing approval" } }
    };
    // After a refusal the form has a new id too: the old one may belong to other terms.
    let id = StandingApprovalId::fresh().to_string();
    user.form(PATH, "panel settings", &[("id", &id)], &inside)
}

fn schema_input(typed: &str, error: Option<&String>) -> Markup {
    html! {
        label for="args_schema" { "Limits on arguments " span.muted { "(JSON Schema)" } }
        p.hint #args_schema-about {
            "A call with other arguments is asked as usual. Further arguments are allowed unless the schema has "
            code { "\"additionalProperties\": false" } ". " code { "{}" } " allows all arguments."
        }
        textarea #args_schema name="args_schema" rows="12" required spellcheck="false" autocomplete="off"
            aria-describedby="args_schema-about args_schema-wrong" autofocus[error.is_some()]
            aria-invalid=[error.map(|_| "true")] { (typed) }
        (error_hint("args_schema-wrong", error))
    }
}

/// The form for later calls like that of a request. Its schema allows exactly the arguments of this call, so that a
/// person widens the limits and never has to narrow them. Absent if the request is not about one call of an agent.
pub(in crate::pages) fn fields_like(request: &RequestView) -> Option<Fields> {
    let ([item], Some(agent)) = (request.items.as_slice(), &request.agent) else {
        return None;
    };
    let fields = [
        ("agent", agent.to_string()),
        ("tool", item.tool.to_string()),
        ("version", item.version.clone().unwrap_or_default()),
        ("args_schema", json_text(&exact_schema(&item.args))),
    ];
    let named = fields.map(|(name, value)| (name.to_owned(), value));
    Some(Fields(named.into()))
}

fn exact_schema(args: &Value) -> Value {
    let none = Map::new();
    let args = args.as_object().unwrap_or(&none);
    let exact = |(name, value): (&String, &Value)| (name.clone(), json!({ "const": value }));
    let properties: Map<_, _> = args.iter().map(exact).collect();
    let required: Vec<_> = args.keys().collect();
    json!({ "properties": properties, "required": required, "additionalProperties": false })
}

/// The terms of a submitted form, or the errors of all fields that cannot be read.
pub(in crate::pages) fn read(fields: &Fields) -> Result<StandingApprovalTerms, Vec<FieldError>> {
    let typed = |name: &str| fields.get_text(name).unwrap_or_default();
    let mut errors = Vec::new();
    let agent = keep(&mut errors, "/agent", typed("agent").parse());
    let tool = keep(&mut errors, "/tool", typed("tool").parse());
    let args_schema = read_schema(typed("args_schema"));
    let args_schema = keep(&mut errors, "/args_schema", args_schema);
    let max_uses = keep(&mut errors, "/max_uses", read_uses(typed("max_uses")));
    let expires_in = duration::parse(typed("expires_in"));
    let expires_in = keep(&mut errors, "/expires_in", expires_in);
    let (Some(agent), Some(tool), Some(args_schema), Some(max_uses), Some(expires_in)) =
        (agent, tool, args_schema, max_uses, expires_in)
    else {
        return Err(errors);
    };
    Ok(StandingApprovalTerms {
        agent,
        tool,
        version: fields.get_text("version").map(str::to_owned),
        args_schema,
        max_uses,
        // The service refuses a time that is too long.
        expires_in: u64::try_from(expires_in.as_millis()).unwrap_or(u64::MAX),
        reason: fields.get_text("reason").map(str::to_owned),
        call: None,
    })
}

fn keep<T, E: Display>(
    errors: &mut Vec<FieldError>,
    pointer: &str,
    read: Result<T, E>,
) -> Option<T> {
    let add = |error: E| errors.push(FieldError::at(pointer, error.to_string()));
    read.map_err(add).ok()
}

fn read_schema(text: &str) -> Result<Value, String> {
    if text.is_empty() {
        return Err("enter a JSON Schema".to_owned());
    }
    let schema = serde_json::from_str(text);
    let schema = schema.map_err(|error| format!("the text is not valid JSON: {error}"))?;
    value_limits::check(&schema).map_err(|exceeded| exceeded.to_string())?;
    Ok(schema)
}

/// The service refuses a number that is too large.
fn read_uses(text: &str) -> Result<u32, &'static str> {
    let uses: u64 = text
        .parse()
        .map_err(|_invalid| "expected a whole number, such as 10")?;
    Ok(u32::try_from(uses).unwrap_or(u32::MAX))
}
