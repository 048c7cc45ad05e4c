use serde_json::json;

use super::{assert_step, step, steps};
use crate::compile;

const REPLIED: &str = "has(contact.replied) && contact.replied == true";

/// The condition of a line that finishes under it.
fn when(condition: &str) -> String {
    let step = step(&format!("If {condition}, finish"));
    step["when"].as_str().unwrap().to_owned()
}

#[track_caller]
fn assert_when(expected: &str, conditions: &[&str]) {
    for condition in conditions {
        assert_eq!(when(condition), expected, "{condition}");
    }
}

#[test]
fn replies() {
    assert_when(
        &format!("!({REPLIED})"),
        &[
            "no reply",
            "there is no reply",
            "there was no reply",
            "there has been no reply",
            "no reply came",
            "contact did not reply",
            "the contact did not reply",
            "contact didn't reply",
            "contact didn’t reply",
            "contact has not replied",
            "the contact hasn't replied",
            "not replied",
            "contact has never replied",
            "no response",
            "contact did not respond",
            "no reply yet",
            "contact has not replied yet",
            "No Reply",
            "there is no response",
            "no reply arrived",
            "contact has not responded so far",
        ],
    );
    assert_when(
        REPLIED,
        &[
            "contact replied",
            "the contact replied",
            "replied",
            "contact has replied",
            "the contact has replied",
            "there is a reply",
            "there was a reply",
            "a reply came",
            "a reply arrived",
            "contact responded",
            "there has been a reply",
            "a response came in",
        ],
    );
}

#[test]
fn tones_of_replies() {
    let positive =
        format!("{REPLIED} && has(contact.sentiment) && contact.sentiment == \"positive\"");
    assert_when(
        &positive,
        &[
            "contact replied positively",
            "the contact has replied positively",
            "replied positively",
            "reply is positive",
            "the reply is positive",
            "the reply was positive",
            "there is a positive reply",
            "a positive reply came",
        ],
    );
    assert_when(
        &format!("!({positive})"),
        &[
            "contact did not reply positively",
            "contact has not replied positively",
            "no positive reply",
            "there is no positive reply",
        ],
    );
    assert_when(
        &format!("{REPLIED} && has(contact.sentiment) && contact.sentiment == \"negative\""),
        &[
            "contact replied negatively",
            "the reply is negative",
            "there was a negative reply",
        ],
    );
}

#[test]
fn comparisons() {
    let plan = "has(contact.plan) && contact.plan == \"pro\"";
    assert_when(
        plan,
        &[
            "contact.plan is \"pro\"",
            "the contact's plan is \"pro\"",
            "contact's plan is “pro”",
            "the contact’s plan equals \"pro\"",
            "contact.plan = \"pro\"",
            "contact.plan == \"pro\"",
            "contact.plan is equal to \"pro\"",
            "$contact.plan is \"pro\"",
        ],
    );
    assert_when(
        &format!("!({plan})"),
        &[
            "contact.plan is not \"pro\"",
            "the contact's plan isn't \"pro\"",
            "contact.plan != \"pro\"",
            "contact.plan does not equal \"pro\"",
        ],
    );
}

#[test]
fn comparisons_of_numbers() {
    for (words, operator) in [
        ("is above", ">"),
        ("is over", ">"),
        ("is more than", ">"),
        ("is greater than", ">"),
        (">", ">"),
        ("is below", "<"),
        ("is under", "<"),
        ("is less than", "<"),
        ("<", "<"),
        ("is at least", ">="),
        (">=", ">="),
        ("≥", ">="),
        ("is at most", "<="),
        ("<=", "<="),
    ] {
        assert_when(
            &format!("has(contact.score) && contact.score {operator} 5"),
            &[&format!("contact.score {words} 5")],
        );
        assert_when(
            &format!("input.amount {operator} 99.5"),
            &[
                &format!("$input.amount {words} 99.5"),
                &format!("input.amount {words} 99.5"),
            ],
        );
    }
}

#[test]
fn values_and_operators() {
    for (words, cel) in [
        (
            "contact.a.b is 1",
            "has(contact.a) && has(contact.a.b) && contact.a.b == 1",
        ),
        (
            "contact.vip is yes",
            "has(contact.vip) && contact.vip == true",
        ),
        (
            "contact.vip is false",
            "has(contact.vip) && contact.vip == false",
        ),
        ("contact.x is null", "has(contact.x) && contact.x == null"),
        (
            "contact.x is \"a\\\"b\\\\c\\n\"",
            "has(contact.x) && contact.x == \"a\\\"b\\\\c\\n\"",
        ),
        (
            "contact.notes contains \"x\"",
            "has(contact.notes) && contact.notes.contains(\"x\")",
        ),
        (
            "contact.notes does not contain \"x\"",
            "!(has(contact.notes) && contact.notes.contains(\"x\"))",
        ),
        (
            "contact.notes starts with \"x\"",
            "has(contact.notes) && contact.notes.startsWith(\"x\")",
        ),
        (
            "contact.notes ends with \"x\"",
            "has(contact.notes) && contact.notes.endsWith(\"x\")",
        ),
        ("$find.total is not 0", "$find.total != 0"),
        (
            "$find.orders[0].total is above 10",
            "$find.orders[0].total > 10",
        ),
        ("$step-03.answer is yes", "$step-03.answer == \"yes\""),
        ("the answer of step-03 is no", "$step-03.answer == \"no\""),
        (
            "answer of tell is \"a pilot\"",
            "$tell.answer == \"a pilot\"",
        ),
        ("$ask.answer is true", "$ask.answer == true"),
        (
            "$input.x is set",
            "has(input.x) && input.x != null && input.x != \"\"",
        ),
        (
            "$find.x is set",
            "has($find.x) && $find.x != null && $find.x != \"\"",
        ),
    ] {
        assert_eq!(when(words), cel, "{words}");
    }
}

#[test]
fn missing_values() {
    let is_set = "has(contact.phone) && contact.phone != null && contact.phone != \"\"";
    assert_when(
        is_set,
        &[
            "contact.phone is set",
            "contact.phone exists",
            "the contact's phone is not empty",
            "contact.phone is not missing",
        ],
    );
    assert_when(
        &format!("!({is_set})"),
        &[
            "contact.phone is missing",
            "contact.phone is not set",
            "contact.phone is empty",
            "contact.phone does not exist",
            "the contact's phone isn't set",
        ],
    );
}

#[test]
fn several_conditions() {
    let plan = "has(contact.plan) && contact.plan == \"pro\"";
    assert_when(
        &format!("!({REPLIED}) && {plan}"),
        &["no reply and contact.plan is \"pro\""],
    );
    assert_when(
        &format!("(!({REPLIED})) || ({plan}) || (input.x == 1)"),
        &["no reply or the contact's plan is \"pro\" or $input.x is 1"],
    );
    assert_when(
        &format!("!({REPLIED} && {plan})"),
        &["it is not so that contact replied and contact.plan is \"pro\""],
    );
    assert_when(
        "size($find.orders) > 0 || {'a': {'b': 1}}.a.b == 2",
        &["{{ size($find.orders) > 0 || {'a': {'b': 1}}.a.b == 2 }}"],
    );
}

#[test]
fn places_of_a_condition() {
    let expected = json!({ "when": REPLIED, "wait": "5 days" });
    assert_step(
        &expected,
        &[
            "If contact replied, wait 5 days",
            "When contact replied, wait 5 days",
            "If contact replied then wait 5 days",
            "If contact replied, then wait 5 days",
            "Wait 5 days if contact replied",
            "Wait 5 days when contact replied",
            "Wait 5 days, if contact replied.",
            "Then, if contact replied, wait 5 days",
        ],
    );
    assert_step(
        &json!({ "when": format!("!({REPLIED})"), "finish": "Finished." }),
        &[
            "Finish unless contact replied",
            "Unless contact replied, finish",
        ],
    );
}

#[test]
fn otherwise_is_the_opposite_of_the_line_before() {
    for word in ["Otherwise,", "Otherwise", "Else,", "Else", "If not,"] {
        let text = format!("If contact.a is 1, finish\n{word} wait 1 day\n{word} wait 2 days");
        let cel = "has(contact.a) && contact.a == 1";
        let expected = [
            json!({ "when": cel, "finish": "Finished." }),
            json!({ "when": format!("$step-01 == null && !({cel})"), "wait": "1 day" }),
            json!({ "when": format!("$step-01 == null && !({cel})"), "wait": "2 days" }),
        ];
        assert_eq!(steps(&text), expected, "{word}");
    }
    // An input does not change, so its opposite is enough. A step has the name of its line.
    let text = "If input.a is 1, wait 1 day\nOtherwise, finish\nIf no reply, wait 1 day as pause\nOtherwise, finish";
    let found = steps(text);
    assert_eq!(found[1]["when"], "!(input.a == 1)");
    let opposite = format!("$pause == null && !(!({REPLIED}))");
    assert_eq!(found[3]["when"], opposite);
}

#[test]
fn the_answer_is_that_of_the_nearest_question() {
    let text = "Ask \"A?\"\nAsk \"B?\" as b\nWait 1 day\nIf the answer is yes, finish\nAsk \"C?\"\nFinish if the answer is \"x\"";
    let found = steps(text);
    assert_eq!(found[3]["when"], "$b.answer == \"yes\"");
    assert_eq!(found[5]["when"], "$step-05.answer == \"x\"");
}

/// S0-AC5: a missing reply after a time is a wait for the reply, and then the step.
#[test]
fn a_missing_reply_after_a_time_waits_first() {
    let wait = json!({ "wait_for": { "signal": "contact.reply", "timeout": "5 days", "on_timeout": "skip" } });
    let mail = json!({ "when": format!("!({REPLIED})"), "tool": "send_email", "args": { "to": "{{ contact.email }}", "template": "follow-up" } });
    let lines = [
        "If no reply after 5 days, send follow-up",
        "If no reply after 5 days, send the follow-up.",
        "If no reply after 5 days, send a follow-up to contact",
        "If no reply after 5 days, send follow-up email",
        "If no reply after five days, send the follow-up email to the contact",
        "If no reply within 5 days, send email \"follow-up\" to contact",
        "If no reply in 5 days, then email contact \"follow-up\"",
        "If there is no reply after 5 days, send follow-up",
        "If there was no reply within 5 days, send follow-up",
        "If there has been no response after 5 days, send follow-up",
        "If contact did not reply within 5 days, send follow-up",
        "If the contact hasn't replied after 5 days, send follow-up",
        "If contact has not responded in 5 days, send follow-up",
        "If not replied after 5 days, send follow-up",
        "When no reply came after 5 days, send follow-up",
        "In case no response arrived within 5 days, send follow-up",
        "IF NO REPLY AFTER 5 days THEN SEND follow-up",
        "Then, if no reply after 5 days, send follow-up",
        "- If no reply after 5 days, send follow-up",
        "Send follow-up if no reply after 5 days",
        "Send follow-up, when no reply within 5 days",
    ];
    for line in lines {
        let found: Vec<_> = compile(line).unwrap();
        let fields: Vec<_> = found.iter().map(|step| json!(step.fields)).collect();
        let expected = json!(fields)
            .to_string()
            .replace("5d", "5 days")
            .replace("five days", "5 days");
        assert_eq!(expected, json!([wait, mail]).to_string(), "{line}");
        let texts: Vec<_> = found.iter().map(|step| step.text.as_str()).collect();
        assert_eq!(texts[1], "# If there is still no reply");
    }
    // The steps after it have their places, and `Otherwise` is about the reply.
    let text = "If no reply after 5 days, ask @user.nina \"Call?\"\nOtherwise, log \"x\"\nIf the answer of step-02 is \"yes\", finish";
    let fields: Vec<_> = steps(text);
    assert_eq!(fields.len(), 4);
    assert_eq!(
        fields[2]["when"],
        format!("$step-02 == null && !(!({REPLIED}))")
    );
    assert_eq!(fields[3]["when"], "$step-02.answer == \"yes\"");
}

#[test]
fn a_time_after_another_condition_is_refused() {
    for (line, column) in [
        ("If no reply after 5, log \"x\"", 20),
        ("If no reply after days, log \"x\"", 19),
        ("If no reply after 0 days, log \"x\"", 19),
        ("If no reply after 91 days, log \"x\"", 19),
        ("If no reply after 5 business days, log \"x\"", 21),
        ("If no reply after Monday, log \"x\"", 19),
        ("If no reply after a while, log \"x\"", 21),
        ("If no reply 5 days, log \"x\"", 13),
        ("If no reply for 5 days, log \"x\"", 13),
        (
            "If no reply after 5 days and contact.vip is true, log \"x\"",
            30,
        ),
        (
            "If contact.vip is true and no reply after 5 days, log \"x\"",
            37,
        ),
        ("If contact replied after 5 days, log \"x\"", 20),
        ("If contact replied positively after 5 days, log \"x\"", 31),
        ("If no positive reply after 5 days, log \"x\"", 22),
        ("Unless no reply after 5 days, log \"x\"", 17),
        ("Unless contact replied after 5 days, log \"x\"", 24),
        ("If no reply after 5 days, log \"x\" if no reply", 35),
        (
            "If no reply after 5 days, log \"x\" every 2 days until contact replies, at most 3 times",
            35,
        ),
        ("If no reply after 5 days after 2 days, log \"x\"", 26),
        ("If no reply after 5 days log \"x\"", 26),
        ("Otherwise after 5 days, log \"x\"", 1),
    ] {
        let error = super::refusal(line);
        assert_eq!(error.column, column, "{line}: {}", error.message);
    }
}

#[test]
fn a_line_of_two_steps_keeps_the_limit_of_steps() {
    let waits = "If no reply after 1 day, log \"x\"\n";
    let full = format!("{}{waits}", "Log \"a\"\n".repeat(crate::STEPS_MAX - 2));
    assert_eq!(compile(&full).unwrap().len(), crate::STEPS_MAX);
    for text in [
        format!("Log \"b\"\n{full}"),
        format!("Log \"b\"\n{}", waits.repeat(1_000)),
    ] {
        let errors = compile(&text).unwrap_err();
        let message = &errors[0].message;
        assert!(message.contains("at most 1000 steps"), "{message}");
    }
}

#[test]
fn a_wait_under_a_missing_reply_is_refused() {
    for line in [
        "Wait 5 days if no reply after 2 days",
        "If no reply after 2 days, wait until contact replies",
        "If no reply after 2 days, wait for signal payment",
    ] {
        let error = super::refusal(line);
        assert!(
            error.message.contains("two times"),
            "{line}: {}",
            error.message
        );
    }
}
