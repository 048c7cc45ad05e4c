mod accepted_actions;
mod accepted_conditions;
mod accepted_people;
mod accepted_repetitions;
mod accepted_waits;
mod ambiguous_lines;
mod errors;
mod forms;
mod hostile;
mod hostile_texts;
mod properties;
mod refused;

use serde_json::{Value, json};

use crate::{INSTRUCTIONS_BYTES_MAX, InstructionError, compile, write_step};

/// The steps of a text that compiles.
fn steps(text: &str) -> Vec<Value> {
    let steps = compile(text).unwrap_or_else(|errors| panic!("{text}\n{errors:#?}"));
    steps
        .into_iter()
        .map(|step| Value::Object(step.fields))
        .collect()
}

/// The step of one line. Its words must give the same step.
fn step(line: &str) -> Value {
    let found = steps(line);
    let [step] = found.as_slice() else {
        panic!("{line}: {found:?}");
    };
    let fields = step.as_object().unwrap();
    let words = write_step(fields).unwrap_or_else(|| panic!("{line}: {step} has no words"));
    assert_eq!(steps(&words), found, "{line}: {words}");
    step.clone()
}

/// Checks that all lines give the same step.
#[track_caller]
fn assert_step(expected: &Value, lines: &[&str]) {
    for line in lines {
        assert_eq!(&step(line), expected, "{line}");
    }
}

/// The only error of one line.
fn refusal(line: &str) -> InstructionError {
    match compile(line) {
        Ok(steps) => panic!("{line}: {:?}", steps.first().map(|step| &step.fields)),
        Err(errors) => {
            assert_eq!(errors.len(), 1, "{line}: {errors:#?}");
            errors.into_iter().next().unwrap()
        }
    }
}

#[test]
fn the_sample_of_the_documentation_compiles() {
    let text = r#"
  Send email "Introduction" to contact
  Wait 5 days
  If no reply, send email "Follow-up" to contact
  If contact replied positively, hand off to @user.salesRep as warm lead, timeout 3 days
"#;
    let no_reply = "!(has(contact.replied) && contact.replied == true)";
    let positive = "has(contact.replied) && contact.replied == true && has(contact.sentiment) && contact.sentiment == \"positive\"";
    let email = |template: &str| json!({ "to": "{{ contact.email }}", "template": template });
    assert_eq!(
        steps(text),
        [
            json!({ "tool": "send_email", "args": email("Introduction") }),
            json!({ "wait": "5 days" }),
            json!({ "when": no_reply, "tool": "send_email", "args": email("Follow-up") }),
            json!({ "when": positive, "handoff": { "to": "@user.salesRep", "timeout": "3 days", "warm_lead": true } }),
        ]
    );
    let words: Vec<String> = compile(text)
        .unwrap()
        .iter()
        .map(|step| write_step(&step.fields).unwrap())
        .collect();
    let lines: Vec<&str> = text.trim().lines().map(str::trim).collect();
    assert_eq!(words, lines);
}

#[test]
fn a_step_has_its_line_and_text() {
    let text = "# A comment\r\n\r\n  1. Wait 5 days.\r\n\t* Finish\r\n2) Wait 1 hour\n- wait 1 hour\n• wait 2 hours";
    let found = compile(text).unwrap();
    let lines: Vec<(usize, &str)> = found
        .iter()
        .map(|step| (step.line, step.text.as_str()))
        .collect();
    assert_eq!(
        lines,
        [
            (3, "Wait 5 days."),
            (4, "Finish"),
            (5, "Wait 1 hour"),
            (6, "wait 1 hour"),
            (7, "wait 2 hours")
        ]
    );
}
