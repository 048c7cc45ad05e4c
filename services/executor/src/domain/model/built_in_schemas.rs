//! JSON Schemas of the arguments of built-in tools, and the fields of their results. `docs/tools.md` describes the tools.

use serde_json::{Value, json};

/// The schema of the arguments. `None`: any arguments, or the tool is not built in.
///
/// The worker reads the arguments by itself. This schema is for people who write agents, so it may accept more.
pub(crate) fn built_in_args_schema(tool: &str) -> Option<Value> {
    let text = || json!({ "type": "string" });
    let optional = || json!({ "type": ["string", "null"] });
    let texts = || json!({ "type": "array", "items": { "type": "string" } });
    let (properties, required) = match tool {
        "log" => {
            let level = json!({ "enum": ["debug", "info", "warn", "error"] });
            (
                json!({ "message": text(), "level": level }),
                json!(["message"]),
            )
        }
        "http_request" => (
            json!({ "method": text(), "url": text(), "headers": { "type": "object", "additionalProperties": text() }, "body": {} }),
            json!(["url"]),
        ),
        "send_email" => (
            json!({ "to": text(), "subject": text(), "body": text(), "html": optional(), "reply_to": optional() }),
            json!(["to", "subject", "body"]),
        ),
        "add_tag" | "remove_tag" => (
            json!({ "tag": optional(), "tags": texts(), "contact": optional() }),
            json!([]),
        ),
        "update_contact" => (
            json!({ "set": { "type": "object" }, "contact": optional() }),
            json!(["set"]),
        ),
        "search_contacts" => {
            let limit = json!({ "type": "integer", "minimum": 1, "maximum": 100 });
            let fields = json!({ "type": "object", "maxProperties": 20 });
            (
                json!({ "fields": fields, "tag": optional(), "text": optional(), "limit": limit }),
                json!([]),
            )
        }
        "create_task" => {
            let priority =
                json!({ "enum": ["low", "normal", "medium", "high", "urgent", "critical"] });
            (
                json!({ "title": text(), "description": text(), "assignee": optional(), "contact": optional(),
                    "due": optional(), "priority": priority, "tags": texts() }),
                json!(["title"]),
            )
        }
        _ => return None,
    };
    let mut schema = json!({
        "type": "object", "properties": properties, "required": required, "additionalProperties": false,
    });
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert("idempotent".to_owned(), json!({ "type": "boolean" }));
    }
    Some(schema)
}

/// The fields of the result of a call with these arguments. `None`: the tool is not built in.
pub(crate) fn built_in_result_fields<'a>(tool: &str, args: &'a Value) -> Option<Vec<&'a str>> {
    Some(match tool {
        "log" => vec!["message"],
        "set" => args.as_object()?.keys().map(String::as_str).collect(),
        "http_request" => vec!["status", "headers", "body"],
        "send_email" => vec!["message_id", "to", "subject", "text"],
        "update_contact" => vec!["contact", "set"],
        "add_tag" | "remove_tag" => vec!["contact", "tags"],
        "search_contacts" => vec!["contacts", "has_more"],
        "create_task" => vec!["task_id", "assignee", "due", "action_url"],
        _ => return None,
    })
}
