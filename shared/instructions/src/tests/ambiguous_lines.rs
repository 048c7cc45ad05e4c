//! Lines that a reader could take for something else.

use serde_json::json;

use crate::{compile, write_step};

fn refused(text: &str) -> String {
    let errors = compile(text).expect_err(text);
    errors
        .last()
        .map(|error| error.message.clone())
        .unwrap_or_default()
}

fn fields(text: &str) -> serde_json::Value {
    let steps = compile(text).unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
    json!(steps.last().map(|step| &step.fields))
}

#[test]
fn a_second_step_is_not_an_argument() {
    for line in [
        "Call crm.update with stage \"won\" and log \"Done.\"",
        "Update contact: stage \"won\", finish \"Done.\"",
        "Call x with a 1 and send \"Introduction\"",
        "Run agent summary with topic \"x\" and wait 5",
        "Call x with a 1, otherwise \"b\"",
    ] {
        assert!(refused(line).starts_with("A line has one step"), "{line}");
    }
    assert_eq!(
        fields("Call x with a 1, email: \"b\"")["args"],
        json!({ "a": 1, "email": "b" })
    );
}

#[test]
fn a_value_that_its_tool_refuses_is_refused() {
    for line in [
        "Create task \"x\" due 2026-12-24 09:00",
        "Update contact: contact.stage \"won\"",
    ] {
        assert!(compile(line).is_err(), "{line}");
    }
    assert!(compile("Create task \"x\" due 2026-12-24").is_ok());
    assert!(compile("Create task \"x\" due 2026-12-24T09:00:00Z").is_ok());
}

#[test]
fn approvers_are_joined_by_or() {
    let line = "Call pay, after approval by @role.manager and @role.boss";
    assert!(refused(line).contains("each of them must agree"));
    let line = "Call pay, after approval by @role.manager or @role.boss";
    assert_eq!(
        fields(line)["approval"],
        json!({ "from": ["@role.manager", "@role.boss"] })
    );
}

#[test]
fn the_time_to_decide_has_no_comma() {
    let line = "Call pay, after approval by @role.manager, within 2 days";
    assert!(refused(line).contains("the time to decide"));
    for clear in [
        "Call pay, after approval by @role.manager, timeout 30 seconds",
        "After approval by @role.manager, call pay, timeout 30 seconds",
    ] {
        assert_eq!(fields(clear)["timeout"], "30 seconds", "{clear}");
    }
    let both = "Call pay, timeout 30 seconds, after approval by @role.manager within 2 days";
    assert_eq!(fields(both)["timeout"], "30 seconds");
    assert_eq!(fields(both)["approval"]["decide_within"], "2 days");
}

#[test]
fn an_answer_is_one_of_the_options() {
    let ask = "Ask \"Pay?\" with options \"Yes\", \"No\"\n";
    let line = |condition: &str| format!("{ask}If the answer is {condition}, log \"x\"");
    for right in ["yes", "\"Yes\"", "\"yes\"", "\"YES\""] {
        assert_eq!(
            fields(&line(right))["when"],
            "$step-01.answer == \"Yes\"",
            "{right}"
        );
    }
    let other = "Ask \"What?\" with options \"a Pilot\", \"A pilot\"\nIf the answer is \"A pilot\", log \"x\"";
    assert_eq!(fields(other)["when"], "$step-01.answer == \"A pilot\"");
    for wrong in ["\"maybe\"", "5", "true", "above 5"] {
        let message = refused(&line(wrong));
        assert!(
            message.contains("no such option") || message.contains("An answer is a text"),
            "{wrong}: {message}"
        );
    }
}

#[test]
fn the_answer_of_a_conditional_question_is_named() {
    let text = "Ask \"Q?\"\nIf the answer is yes, ask \"R?\"\nIf the answer is no, log \"x\"";
    assert!(refused(text).starts_with("The nearest question above has a condition"));
}

#[test]
fn a_deeper_line_is_refused() {
    let text = "- If no reply, log \"a\"\n  - Wait 5 days";
    assert!(refused(text).starts_with("This line is indented deeper"));
    assert!(compile("  Wait 5 days\n\n  Wait 6 days\nWait 7 days").is_ok());
}

#[test]
fn a_step_with_approvers_and_a_timeout_has_words() {
    let step = json!({
        "tool": "pay", "timeout": "30 seconds",
        "approval": { "from": ["@role.a", "@role.b"], "decide_within": "2 days" },
    });
    let words = step.as_object().and_then(write_step).unwrap();
    assert_eq!(
        words,
        "Call tool pay, timeout 30 seconds, after approval by @role.a or @role.b within 2 days"
    );
}
