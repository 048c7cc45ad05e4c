//! Forms: a schema becomes fields, and filled fields become an answer.

use serde_json::{Value, json};

use super::super::attempt::RequestAttempt;
use super::super::card::card;
use super::super::schema::FormSchema;
use super::super::session::Fields;
use super::{owner, reads, request};

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "amount": {"type": "number", "title": "Amount in EUR", "minimum": 0, "maximum": 500},
            "parts": {"type": "integer", "description": "How many times"},
            "channel": {"type": "string", "enum": ["bank", "card"], "enumNames": ["Bank transfer", "Card"]},
            "receipt": {"type": "boolean"},
            "mail": {"type": "string", "format": "email"},
            "note": {"type": "string", "maxLength": 1000},
        },
        "required": ["amount", "channel", "receipt"],
    })
}

fn filled(pairs: &[(&str, &str)]) -> Fields {
    let own = |(name, value): &(&str, &str)| (format!("answer.{name}"), (*value).to_owned());
    Fields(pairs.iter().map(own).collect())
}

/// The form language is the flat JSON-Schema subset of MCP elicitation.
#[test]
fn a_schema_becomes_fields() {
    let asked = request(json!({"kind": "input", "actions": ["respond"], "schema": schema()}));
    let html = card(&owner(), &asked, None);
    reads(
        &html,
        &[
            "Amount in EUR",
            "Parts (optional)",
            "How many times",
            "Bank transfer",
            "Yes",
            "Send answer",
        ],
    );
    let html = html.into_string();
    for control in [
        "type=\"number\"",
        "max=\"500\"",
        "step=\"1\"",
        "type=\"email\"",
        "type=\"radio\"",
        "<textarea",
        "required",
    ] {
        assert!(html.contains(control), "{control} in {html}");
    }
}

/// Mend D-11: fields are in the order of the author, also if a later field is required and an earlier is not.
#[test]
fn a_form_is_in_the_order_of_its_author() {
    let schema = r#"{"type": "object", "required": ["budget"], "properties": {
        "company": {"type": "string"}, "budget": {"type": "number"}, "approved": {"type": "boolean"}}}"#;
    let schema: Value = serde_json::from_str(schema).unwrap();
    let asked = request(json!({"kind": "input", "actions": ["respond"], "schema": schema}));
    let html = card(&owner(), &asked, None).into_string();
    let places = ["answer.company", "answer.budget", "answer.approved"]
        .map(|name| html.find(&format!("name=\"{name}\"")).unwrap());
    assert!(places.is_sorted(), "{places:?}: {html}");
}

#[test]
fn filled_fields_become_an_answer_with_the_types_of_the_form() {
    let form = FormSchema::read(&schema()).unwrap();
    let fields = filled(&[
        ("amount", "12.50"),
        ("parts", "3"),
        ("channel", "bank"),
        ("receipt", "false"),
        ("mail", ""),
        ("note", "a\r\nb"),
    ]);
    assert_eq!(
        form.answer(&fields).unwrap(),
        json!({"amount": 12.5, "parts": 3, "channel": "bank", "receipt": false, "note": "a\nb"})
    );
    let errors = form
        .answer(&filled(&[
            ("amount", "much"),
            ("parts", "1.5"),
            ("channel", "bank"),
        ]))
        .unwrap_err();
    let names: Vec<_> = errors.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["amount", "parts", "receipt"]);
}

#[test]
fn a_question_without_an_object_is_answered_with_a_single_value() {
    let schema = json!({"type": "string", "enum": ["yes", "no"]});
    let form = FormSchema::read(&schema).unwrap();
    assert_eq!(form.answer(&filled(&[("value", "no")])).unwrap(), "no");
    for nested in [
        json!({"type": "object", "properties": {"a": {"type": "object"}}}),
        json!({"type": "array"}),
    ] {
        assert_eq!(FormSchema::read(&nested), None, "{nested}");
        let asked = request(json!({"kind": "input", "actions": ["respond"], "schema": nested}));
        reads(&card(&owner(), &asked, None), &["Answer as JSON"]);
    }
}

/// Input is kept after a mistake.
#[test]
fn an_invalid_form_keeps_its_input() {
    let asked = request(json!({"kind": "input", "actions": ["respond"], "schema": schema()}));
    let attempt = RequestAttempt {
        fields: filled(&[("mail", "ada@example.org"), ("amount", "much")]),
        errors: vec![("amount".to_owned(), "write a number".to_owned())],
        ..RequestAttempt::default()
    };
    let html = card(&owner(), &asked, Some(&attempt));
    reads(&html, &["write a number"]);
    assert!(html.into_string().contains("value=\"ada@example.org\""));
}

/// Options are shown as given, and the options of an uncertain step as words.
#[test]
fn a_few_options_are_buttons_and_many_are_a_list() {
    let asked = |options: Value, reason: Value| {
        let changes = json!({
            "kind": "input", "actions": ["respond"], "options": options, "reason": reason,
        });
        card(&owner(), &request(changes), None)
    };
    let html = asked(json!(["yes", "no"]), json!(null)).into_string();
    assert!(html.contains("name=\"answer\" value=\"yes\"") && html.contains("value=\"no\""));
    let uncertain = asked(json!(["it_happened", "run_again"]), json!("uncertain"));
    reads(&uncertain, &["It happened", "Run again", "never reported"]);
    let many: Vec<_> = (0..9).map(|n| format!("option {n}")).collect();
    assert!(
        asked(json!(many), json!(null))
            .into_string()
            .contains("<select")
    );
    assert!(
        asked(json!([]), json!(null))
            .into_string()
            .contains("<textarea")
    );
}
