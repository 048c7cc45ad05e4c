//! What is a form, and what is an answer to it.

use serde_json::{Value, json};

use super::{ANSWER_BYTES_MAX, Form, answer_errors, plain, plain_value};

fn form() -> Form {
    let schema = json!({
        "type": "object",
        "title": "Refund",
        "properties": {
            "amount": { "type": "number", "minimum": 0, "maximum": 100 },
            "count": { "type": "integer" },
            "mail": { "type": "string", "format": "email" },
            "note": { "type": "string", "minLength": 2, "maxLength": 5 },
            "sure": { "type": "boolean" },
            "when": { "type": "string", "format": "date-time" },
            "day": { "type": "string", "format": "date" },
            "page": { "type": "string", "format": "uri" },
            "way": { "type": "string", "enum": ["card", "cash"], "enumNames": ["Card", "Cash"] },
        },
        "required": ["amount"],
    });
    Form::parse(&schema).unwrap()
}

/// Mend D-11: the author's order, through every text that the form is kept in.
#[test]
fn fields_are_in_the_order_of_the_author() {
    let text = r#"{"type": "object", "properties": {
        "company": {"type": "string"}, "budget": {"type": "number"}, "approved": {"type": "boolean"}}}"#;
    let schema: Value = serde_json::from_str(text).unwrap();
    let kept: Value = serde_json::from_str(&schema.to_string()).unwrap();
    let form = Form::parse(&kept).unwrap();
    let names: Vec<_> = form.fields.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["company", "budget", "approved"]);
}

/// S3-R3: 422 with `errors [{pointer, message}]`.
#[test]
fn each_invalid_field_has_an_error() {
    let wrong = |answer: Value| -> Vec<String> {
        let errors = form().check(&answer);
        errors.into_iter().map(|one| one.pointer.unwrap()).collect()
    };
    assert_eq!(wrong(json!({ "amount": 1, "way": "cash" })), [""; 0]);
    for (answer, at) in [
        (json!("yes"), vec![""]),
        (json!({}), vec!["/amount"]),
        (json!({ "amount": null }), vec!["/amount"]),
        (json!({ "amount": 101 }), vec!["/amount"]),
        (json!({ "amount": "1" }), vec!["/amount"]),
        (json!({ "amount": 1, "count": 1.5 }), vec!["/count"]),
        (json!({ "amount": 1, "mail": "a b@c" }), vec!["/mail"]),
        (json!({ "amount": 1, "note": "x" }), vec!["/note"]),
        (json!({ "amount": 1, "note": "äöüäöü" }), vec!["/note"]),
        (json!({ "amount": 1, "sure": "true" }), vec!["/sure"]),
        (json!({ "amount": 1, "when": "now" }), vec!["/when"]),
        (json!({ "amount": 1, "day": "2026-02-30" }), vec!["/day"]),
        (json!({ "amount": 1, "page": "x" }), vec!["/page"]),
        (json!({ "amount": 1, "way": "Cash" }), vec!["/way"]),
        (json!({ "amount": 1, "a/b": 1 }), vec!["/a~1b"]),
        (
            json!({ "count": 0.5, "sure": 1 }),
            vec!["/amount", "/count", "/sure"],
        ),
    ] {
        assert_eq!(wrong(answer.clone()), at, "{answer}");
    }
}

#[test]
fn invalid_schemas_are_refused() {
    let field = |field: Value| json!({ "type": "object", "properties": { "x": field } });
    for (schema, at) in [
        (json!(1), ""),
        (json!({ "type": "array" }), ""),
        (json!({ "type": "object", "properties": {} }), "/properties"),
        (field(json!({ "type": "object" })), "/properties/x"),
        (
            field(json!({ "type": "array", "items": {} })),
            "/properties/x",
        ),
        (
            field(json!({ "type": "string", "pattern": "x" })),
            "/properties/x",
        ),
        (
            field(json!({ "type": "string", "format": "ipv4" })),
            "/properties/x",
        ),
        (
            field(json!({ "type": "string", "enum": [] })),
            "/properties/x",
        ),
        (
            field(json!({ "type": "string", "enum": [true] })),
            "/properties/x",
        ),
        // An answer loses control characters, so that this choice could never be given.
        (
            field(json!({ "type": "string", "enum": ["yes\u{7}", "no"] })),
            "/properties/x",
        ),
        (
            field(json!({ "type": "string", "minimum": 1 })),
            "/properties/x",
        ),
        (
            field(json!({ "type": "integer", "minimum": 2, "maximum": 1 })),
            "/properties/x",
        ),
        (
            field(json!({ "type": "boolean", "default": "yes" })),
            "/properties/x",
        ),
    ] {
        let errors = Form::parse(&schema).unwrap_err();
        assert_eq!(
            errors[0].pointer.as_deref(),
            Some(at),
            "{schema}: {errors:?}"
        );
    }
    let schema =
        json!({ "type": "object", "properties": { "x": { "type": "string" } }, "required": ["y"] });
    let errors = Form::parse(&schema).unwrap_err();
    assert_eq!(errors[0].pointer.as_deref(), Some("/required/0"));
}

/// Bad input: `options: [yes, no]` read as booleans.
#[test]
fn a_boolean_among_options_is_refused_with_a_suggestion() {
    #[derive(Debug, serde::Deserialize)]
    struct IdempotencyKey {
        #[serde(deserialize_with = "super::words")]
        options: Vec<String>,
    }
    let read = |text: &str| serde_json::from_str::<IdempotencyKey>(text);
    assert_eq!(
        read(r#"{"options": ["yes", "no"]}"#).unwrap().options.len(),
        2
    );
    let error = read(r#"{"options": [true, false]}"#)
        .unwrap_err()
        .to_string();
    assert!(error.contains("put the word in quotes"), "{error}");
}

#[test]
fn control_characters_are_removed_except_line_breaks() {
    assert_eq!(plain("a\u{0}b\u{1b}[31m\n\tc\u{7f}\r\n"), "ab[31m\n\tc\n");
    let value = json!({ "k\u{7}": ["\u{8}x", 1, null] });
    assert_eq!(plain_value(&value), json!({ "k": ["x", 1, null] }));
}

#[test]
fn an_answer_must_match_the_options_or_the_form() {
    let options = ["1".to_owned(), "2".to_owned()];
    let form = Form::parse(&json!({
        "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"],
    }))
    .unwrap();
    assert_eq!(answer_errors(&json!("2"), &options, None), []);
    assert_eq!(answer_errors(&json!("any"), &[], None), []);
    assert_eq!(answer_errors(&json!({ "a": "b" }), &[], Some(&form)), []);
    let number = answer_errors(&json!(1), &options, None);
    assert_eq!(
        number[0].nearest, options,
        "a number is no option, however it looks"
    );
    let said = |answer| answer_errors(&answer, &[], Some(&form))[0].pointer.clone();
    assert_eq!(said(json!("no")).as_deref(), Some(""));
    assert_eq!(said(json!({})).as_deref(), Some("/a"));
    let huge = json!("x".repeat(ANSWER_BYTES_MAX));
    assert_eq!(answer_errors(&huge, &[], None).len(), 1);
}

/// People, deliverable 3: secrets by link. A form's answers are stored, so it asks for none.
#[test]
fn a_form_must_not_ask_for_a_secret() {
    let of = |field: Value| json!({"type": "object", "properties": {"key": field}});
    for field in [
        json!({"type": "string", "format": "password"}),
        json!({"type": "string", "writeOnly": true}),
        json!({"type": "string", "secret": true}),
        json!({"type": "string", "x-secret": true}),
        json!({"type": "integer", "sensitive": true}),
    ] {
        let errors = Form::parse(&of(field.clone())).unwrap_err();
        assert_eq!(errors[0].pointer.as_deref(), Some("/properties/key"));
        let message = &errors[0].message;
        assert!(
            message.contains("`link: { url, label }`"),
            "{field}: {message}"
        );
    }
    let mut whole = of(json!({"type": "string"}));
    whole["writeOnly"] = json!(true);
    let errors = Form::parse(&whole).unwrap_err();
    assert!(errors[0].message.contains("`link:"), "{errors:?}");
}
