//! Drafts of an input that the tests of every door share.

use serde_json::{Map, Value, json};

/// A draft and the errors with which every door refuses it; none: every door accepts it.
#[derive(Debug)]
pub struct Draft {
    /// Fields as in a tool question: `question`, `options`, `to`, `timeout_ms` and so on.
    pub fields: Map<String, Value>,
    pub messages: Vec<&'static str>,
}

impl Draft {
    /// The fields with a text `timeout` instead of `timeout_ms`, as in a REST body and an agent.
    #[must_use]
    pub fn with_text_timeout(&self) -> Map<String, Value> {
        let mut fields = self.fields.clone();
        if let Some(ms) = fields.remove("timeout_ms") {
            fields.insert("timeout".to_owned(), json!(format!("{ms} ms")));
        }
        fields
    }
}

const QUESTION: &str = "expected 1 to 10000 characters";
const OPTIONS: &str = "expected no options, or 2 to 100 different ones of 1 to 200 characters";
const RECIPIENT: &str = "expected `@user.<name>` or `@role.<name>`";
const TIMEOUT: &str = "expected 1 second to 90 days";
const DEFAULT: &str = "`default` is required with `on_timeout: default` or a rung \
                       `answer_default`, and refused otherwise";

fn options(count: usize, length: usize) -> Value {
    let options = (0..count).map(|place| format!("{place:0length$}"));
    options.collect()
}

fn roles(count: usize) -> Value {
    (0..count).map(|place| format!("@role.r{place}")).collect()
}

fn form(fields: usize) -> Value {
    let field = |place| (format!("f{place}"), json!({ "type": "string" }));
    let properties: Map<String, Value> = (0..fields).map(field).collect();
    json!({ "type": "object", "properties": properties })
}

/// All shared drafts: each limit, and the first value beyond it.
#[must_use]
pub fn drafts() -> Vec<Draft> {
    const DAYS_90: u64 = 90 * 86_400_000;
    let table: Vec<(Value, Vec<&'static str>)> = vec![
        (json!({}), vec![]),
        (json!({ "question": "ä".repeat(10_000) }), vec![]),
        (json!({ "question": "ä".repeat(10_001) }), vec![QUESTION]),
        (json!({ "question": " " }), vec![QUESTION]),
        (json!({ "options": options(2, 1) }), vec![]),
        (json!({ "options": options(100, 200) }), vec![]),
        (json!({ "options": options(1, 1) }), vec![OPTIONS]),
        (json!({ "options": options(101, 3) }), vec![OPTIONS]),
        (json!({ "options": options(2, 201) }), vec![OPTIONS]),
        (json!({ "options": ["a", "a"] }), vec![OPTIONS]),
        (json!({ "options": ["a", ""] }), vec![OPTIONS]),
        (json!({ "to": roles(50) }), vec![]),
        (
            json!({ "to": roles(51) }),
            vec!["expected at most 50 recipients"],
        ),
        (json!({ "to": ["@role.ops", "ada"] }), vec![RECIPIENT]),
        (json!({ "schema": form(50) }), vec![]),
        (
            json!({ "schema": form(51) }),
            vec!["a form has 1 to 50 fields"],
        ),
        (
            json!({ "schema": form(1), "options": ["a", "b"] }),
            vec!["expected options or a schema, not both"],
        ),
        (json!({ "timeout_ms": 1_000 }), vec![]),
        (json!({ "timeout_ms": DAYS_90 }), vec![]),
        (json!({ "timeout_ms": 0 }), vec![TIMEOUT]),
        (json!({ "timeout_ms": 999 }), vec![TIMEOUT]),
        (json!({ "timeout_ms": DAYS_90 + 1 }), vec![TIMEOUT]),
        (
            json!({ "options": ["a", "b"], "on_timeout": "default", "default": "a" }),
            vec![],
        ),
        (
            json!({ "options": ["a", "b"], "on_timeout": "default", "default": "c" }),
            vec!["answer with one of: a, b"],
        ),
        (json!({ "on_timeout": "default" }), vec![DEFAULT]),
        (json!({ "default": "a" }), vec![DEFAULT]),
    ];
    let complete = |(changes, messages): (Value, Vec<&'static str>)| {
        let mut fields = Map::new();
        fields.insert("question".to_owned(), json!("Now?"));
        fields.insert("timeout_ms".to_owned(), json!(300_000));
        if let Value::Object(changes) = changes {
            fields.extend(changes);
        }
        Draft { fields, messages }
    };
    table.into_iter().map(complete).collect()
}
