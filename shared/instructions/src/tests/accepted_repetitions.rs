//! Lines that repeat their step, and the steps that they give.

use serde_json::{Value, json};

use super::steps;
use crate::{compile, write_step};

const NO_REPLY: &str = "!(has(contact.replied) && contact.replied == true)";
const NOT_WON: &str = "!(has(contact.stage) && contact.stage == \"won\")";

/// Checks that all lines give the same steps, and that the words of these steps give them too.
#[track_caller]
fn assert_steps(expected: &[Value], lines: &[&str]) {
    for line in lines {
        assert_eq!(steps(line), expected, "{line}");
    }
    let words: Vec<String> = expected
        .iter()
        .map(|step| write_step(step.as_object().unwrap()).unwrap())
        .collect();
    assert_eq!(steps(&words.join("\n")), expected, "{words:#?}");
}

fn mail(when: &str) -> Value {
    let args = json!({ "to": "{{ contact.email }}", "template": "Follow-up" });
    json!({ "when": when, "tool": "send_email", "args": args })
}

fn reply(when: &str) -> Value {
    let wait = json!({ "signal": "contact.reply", "timeout": "2 days", "on_timeout": "skip" });
    json!({ "when": when, "wait_for": wait })
}

/// A reply ends the pause at once. It is the result of the pause, which counts also if the contact changes again.
#[test]
fn a_mail_is_repeated_until_the_contact_replies() {
    let after_one = format!("$step-02 == null && {NO_REPLY}");
    let after_two = format!("$step-02 == null && $step-04 == null && {NO_REPLY}");
    assert_steps(
        &[
            mail(NO_REPLY),
            reply(NO_REPLY),
            mail(&after_one),
            reply(&after_one),
            mail(&after_two),
        ],
        &[
            "Send email \"Follow-up\" to contact every 2 days until contact replies, at most 3 times",
            "Send email \"Follow-up\" to contact, every 2 days, until the contact replies, at most 3 times.",
            "Send email \"Follow-up\" to contact every 2d till contact responds at most three times",
            "Send email \"Follow-up\" to contact every two days, at most 3 times, until the contact has replied",
            "Send email \"Follow-up\" to contact at most 3 times, every 2 days, until contact replied",
            "Send email \"Follow-up\" to contact up to 3 times every 2 days until a reply comes",
            "Send email \"Follow-up\" to contact until contact replies, every 2 days, but at most 3 times",
            "Send email \"Follow-up\" to contact once every 2 days until there is a reply, no more than 3 times",
            "Send email \"Follow-up\" to contact with a pause of 2 days until contact replies, for at most 3 times",
            "SEND EMAIL \"Follow-up\" TO CONTACT EVERY 2 DAYS UNTIL CONTACT REPLIES, AT MOST 3 TIMES",
            "Every 2 days, at most 3 times, send email \"Follow-up\" to contact until contact replies",
            "Every 2 days send email \"Follow-up\" to contact until contact replies, at most 3 times",
            "Every 2 days, send email \"Follow-up\" to contact, at most 3 times, until a reply arrives",
            "Every 2 days until contact replies, at most 3 times: send email \"Follow-up\" to contact",
            "Every 2 days until contact replies, send email \"Follow-up\" to contact, a maximum of 3 times",
            "Until contact replies, send email \"Follow-up\" to contact every 2 days, at most 3 times",
            "Up to 3 times, every 2 days, until contact replies, then send email \"Follow-up\" to contact",
            "Repeat every 2 days until contact replies, at most 3 times: send email \"Follow-up\" to contact",
            "Repeat at most 3 times, every 2 days, until contact replies, email contact \"Follow-up\"",
            "Then repeat, every 2 days, up to 3 times, until the contact responds: email contact \"Follow-up\"",
            "- Please send the \"Follow-up\" email to contact every 2 days until contact replies, at most 3 times",
        ],
    );
}

/// A pause that was skipped says that the condition has held.
#[test]
fn a_call_is_repeated_until_the_contact_changes() {
    let call = |when: &str| json!({ "when": when, "tool": "crm.check" });
    let pause = |when: &str| json!({ "when": when, "wait": "1 day" });
    let after_one = format!("$step-02 != null && {NOT_WON}");
    let after_two = format!("$step-04 != null && {NOT_WON}");
    assert_steps(
        &[
            call(NOT_WON),
            pause(NOT_WON),
            call(&after_one),
            pause(&after_one),
            call(&after_two),
        ],
        &[
            "Repeat at most 3 times, every 1 day, until contact.stage is \"won\": call crm.check",
            "Repeat at most 3 times every day until contact.stage is \"won\": call crm.check",
            "Call crm.check every day until contact.stage is \"won\", at most 3 times",
            "Use crm.check every 1 day until the contact's stage equals \"won\", up to 3 times",
            "Until contact.stage is \"won\", call crm.check every day, at most 3 times",
        ],
    );
}

/// Each time has its own result. One that was skipped ends the repetition.
#[test]
fn a_call_is_repeated_until_its_result_fits() {
    let find = |id: &str, when: Option<&str>| {
        let mut step =
            json!({ "id": id, "tool": "orders.find", "args": { "customer": "$input.customer" } });
        if let Some(when) = when {
            step["when"] = json!(when);
        }
        step
    };
    let pause = |when: &str| json!({ "when": when, "wait": "1 hour" });
    assert_steps(
        &[
            find("find", None),
            pause("$find != null && !($find.status == \"paid\")"),
            find(
                "find-2",
                Some("$step-02 != null && !($find.status == \"paid\")"),
            ),
            pause("$find-2 != null && !($find-2.status == \"paid\")"),
            find(
                "find-3",
                Some("$step-04 != null && !($find-2.status == \"paid\")"),
            ),
        ],
        &[
            "Call orders.find with customer $input.customer as find every 1 hour until $find.status is \"paid\", at most 3 times",
            "Call orders.find with customer $input.customer every hour until $find.status is \"paid\", at most 3 times, as find",
            "Every hour, at most 3 times, call orders.find with customer $input.customer as find until $find.status is \"paid\"",
            "Repeat every hour until $find.status is \"paid\", at most 3 times: call orders.find with customer $input.customer named find",
        ],
    );
    // Without a name, the step is meant by its position.
    assert_eq!(
        steps("Wait 1 day\nCall x every hour until $step-02.done is true, at most 2 times")[1..],
        [
            json!({ "tool": "x" }),
            json!({ "when": "$step-02 != null && !($step-02.done == true)", "wait": "1 hour" }),
            json!({ "when": "$step-03 != null && !($step-02.done == true)", "tool": "x" }),
        ]
    );
}

/// Lines of other actions and other ends, and how often they do their step.
const OTHER_LINES: [(&str, usize); 15] = [
    (
        "Create task \"Call\" for @user.nina due in 2 days every 1 week until contact.stage is \"won\", at most 2 times",
        2,
    ),
    (
        "Log \"Still waiting\" every 90 minutes until contact.plan is set, at most twice",
        2,
    ),
    (
        "Set contact.stage to \"asked\" every 3 days until contact.replied is true, at most 4 times",
        4,
    ),
    (
        "Update contact: stage \"asked\", score 5, every 3 days until contact replies, at most 4 times",
        4,
    ),
    (
        "Add tag \"vip\" every day until contact.tags is missing, at most 5 times",
        5,
    ),
    (
        "Remove the tags \"vip\" and \"eu\" every day until contact replies, at most 5 times",
        5,
    ),
    (
        "Call x, timeout 30 seconds, at most 3 attempts, every 1 hour until contact.a is 1, at most 50 times",
        50,
    ),
    (
        "Call x every 1 hour until contact.a is 1, at most 50 times, timeout 30 seconds, if it fails continue",
        50,
    ),
    (
        "Call x with limit 5 every 90 days until contact.count is at most 5, at most 12 times",
        12,
    ),
    (
        "Call x every 1 second until contact replies positively, at most 2 times",
        2,
    ),
    (
        "Call x every 1 hour until a positive reply comes or contact.stage is \"lost\", at most 3 times",
        3,
    ),
    (
        "Call x every 1 hour until {{ size(contact.tags) > 2 }}, at most 3 times",
        3,
    ),
    (
        "Call x as a every 1 hour until $a.n is above 3 and contact replied, at most 3 times",
        3,
    ),
    (
        "Call x as a every 1 hour until it is not so that $a.n is 3, at most 3 times",
        3,
    ),
    (
        "After approval by @role.boss, call x every 1 day until contact.ok is yes, at most 3 times",
        3,
    ),
];

#[test]
fn other_actions_and_conditions_are_repeated() {
    for (line, times) in OTHER_LINES {
        let found = compile(line).unwrap_or_else(|errors| panic!("{line}: {errors:#?}"));
        assert_eq!(found.len(), 2 * times - 1, "{line}");
        let words: Vec<String> = found
            .iter()
            .map(|step| write_step(&step.fields).unwrap_or_else(|| panic!("{:?}", step.fields)))
            .collect();
        let fields: Vec<Value> = found.into_iter().map(|step| step.fields.into()).collect();
        assert_eq!(steps(&words.join("\n")), fields, "{line}");
        // A wait for a reply would end at once after a negative one.
        let is_wait = fields[1].get("wait").is_some();
        let is_plain_reply = line.contains("contact replies,");
        assert_eq!(is_wait, !is_plain_reply, "{line}");
    }
}

#[test]
fn a_line_is_shown_beside_its_first_step() {
    let text = "Wait 1 day\nLog \"x\" every 2 days until contact replies, at most 3 times\nFinish";
    let found = compile(text).unwrap();
    let shown: Vec<(usize, &str)> = found
        .iter()
        .map(|step| (step.line, step.text.as_str()))
        .collect();
    assert_eq!(
        shown,
        [
            (1, "Wait 1 day"),
            (
                2,
                "Log \"x\" every 2 days until contact replies, at most 3 times"
            ),
            (2, "# Pause before time 2 of 3"),
            (2, "# Time 2 of 3"),
            (2, "# Pause before time 3 of 3"),
            (2, "# Time 3 of 3"),
            (3, "Finish"),
        ]
    );
    // The texts together are instructions for the same steps.
    let again: Vec<&str> = found.iter().map(|step| step.text.as_str()).collect();
    assert_eq!(steps(&again.join("\n")), steps(text));
}

/// The steps of a repetition count for the positions of later lines.
#[test]
fn later_lines_know_their_position() {
    let text = "Log \"x\" every 2 days until contact replies, at most 3 times\nAsk \"Go?\"\nIf the answer is \"yes\", finish";
    assert_eq!(steps(text)[6]["when"], "$step-06.answer == \"yes\"");
}

/// The name of a repeated step means the last time that gave a result.
#[test]
fn later_lines_read_the_last_result() {
    let line =
        "Call orders.find as find every 1 hour until $find.status is \"paid\", at most 3 times\n";
    let last = "($find-3 != null ? $find-3 : $find-2 != null ? $find-2 : $find)";
    let later = |later: &str| {
        let found =
            compile(&format!("{line}{later}")).unwrap_or_else(|errors| panic!("{errors:?}"));
        let step = found.last().unwrap().fields.clone();
        let words = write_step(&step).unwrap();
        assert_eq!(steps(&words), [Value::Object(step.clone())], "{words}");
        Value::Object(step)
    };
    let message = |message: &str| json!(message.replace("LAST", last));
    for (text, written) in [
        ("$find.total", "{{ LAST.total }}"),
        ("\"$find.total\"", "{{ LAST.total }}"),
        ("$find[\"a b\"]", "{{ LAST[\"a b\"] }}"),
        ("$find.b-c[0].in", "{{ LAST[\"b-c\"][0][\"in\"] }}"),
        ("$find[0].a", "{{ LAST[0].a }}"),
        ("$find", "{{ LAST }}"),
        (
            "\"Total: {{ $find.total }} of {{ $find-2.total }}.\"",
            "Total: {{ LAST.total }} of {{ $find-2.total }}.",
        ),
        (
            "\"{{ '$find' + $find.a + \\\"'$find\\\" }}\"",
            "{{ '$find' + LAST.a + \"'$find\" }}",
        ),
        ("\"I $find it\"", "I $find it"),
        ("\"$$find\"", "$$find"),
        ("$finder.total", "$finder.total"),
        ("$find-2.total", "$find-2.total"),
    ] {
        assert_eq!(
            later(&format!("Log {text}"))["args"]["message"],
            message(written),
            "{text}"
        );
    }
    assert_eq!(
        later("If $find.status is \"paid\", call x with a [1, {\"b\": $find.n}]"),
        json!({ "when": message("LAST.status == \"paid\""), "tool": "x",
            "args": { "a": [1, { "b": message("{{ LAST.n }}") }] } })
    );
    assert_eq!(
        later("For each $find.orders, call x with order $item.id")["for_each"],
        message("{{ LAST.orders }}")
    );
    assert_eq!(
        later("If $find.orders[0].id is set, finish\nOtherwise, log \"x\"")["when"],
        message("!(LAST.orders[0].id != null && LAST.orders[0].id != \"\")")
    );
    assert_eq!(
        later("Call x every 1 hour until $find.n is 1 or contact replied, at most 2 times")["when"],
        message(
            "$step-07 != null && !((LAST.n == 1) || (has(contact.replied) && contact.replied == true))"
        )
    );
}

#[test]
fn a_last_result_that_is_too_long_is_refused() {
    let line = "Call x as find every 1 hour until contact replies, at most 50 times\n";
    let twice = format!("{line}If {{{{ $find.a == 1 || $find.b == 1 }}}}, finish");
    let errors = compile(&twice).unwrap_err();
    assert_eq!((errors[0].line, errors[0].column), (2, 4));
    assert_eq!(
        errors[0].message,
        "The step `find` is repeated, and the results of all its times make this expression too long; name one time, such as `$find-2`."
    );
    assert!(compile(&format!("{line}Log $find.a")).is_ok());
    let many = format!("{line}Call y with a [{}]", vec!["$find"; 60].join(", "));
    assert!(compile(&many).is_err());
    let raw = format!("{line}If {{{{ r'a' == $find.a }}}}, finish");
    assert!(
        compile(&raw).unwrap_err()[0]
            .message
            .contains("has a raw text")
    );
}
