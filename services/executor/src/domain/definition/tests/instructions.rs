//! Agents whose steps are instructions in plain words.

use serde_json::json;

use crate::domain::model::plan::{Action, Plan};

const OUTREACH: &str = "agent: outreach
templates:
  Introduction: Hello {{ contact.name }}!
  Follow-up: { subject: Did you see my mail?, body: \"Hello again, {{ contact.name }}.\" }
instructions: |
  Send email \"Introduction\" to contact
  Wait 5 days
  If no reply, send email \"Follow-up\" to contact
  If contact replied positively, hand off to @user.salesRep as warm lead, timeout 3 days
on_pause: hold
";

/// What the steps do, without the words in which they were written.
fn steps_of(text: &str) -> serde_json::Value {
    let plan = Plan::compile(text).unwrap_or_else(|errors| panic!("{errors:?}"));
    serde_json::to_value(&plan.steps).unwrap()
}

/// S0-AC1, S0-AC5, S0-AC6: the four lines of the sources are exactly the steps that an engineer writes.
#[test]
fn instructions_are_the_steps_that_an_engineer_writes() {
    let written = "agent: outreach
steps:
  - tool: send_email
    args: { to: \"{{ contact.email }}\", subject: Introduction, body: \"Hello {{ contact.name }}!\" }
  - wait: 5 days
  - tool: send_email
    when: \"!(has(contact.replied) && contact.replied == true)\"
    args: { to: \"{{ contact.email }}\", subject: Did you see my mail?, body: \"Hello again, {{ contact.name }}.\" }
  - handoff: { to: \"@user.salesRep\", timeout: 3 days, warm_lead: true }
    when: has(contact.replied) && contact.replied == true && has(contact.sentiment) && contact.sentiment == \"positive\"
";
    assert_eq!(steps_of(OUTREACH), steps_of(written));
    let plan = Plan::compile(OUTREACH).unwrap();
    assert_eq!(plan.words[1], "Wait 5 days");
    assert_eq!(
        plan.words[3],
        "If contact replied positively, hand off to @user.salesRep as warm lead, timeout 3 days"
    );
    assert_eq!(plan.digest(), Plan::compile(written).unwrap().digest());
}

/// Words 1: short forms have words too, and the words are the same steps.
#[test]
fn short_forms_have_words() {
    for (step, words) in [
        ("wait: 2 business days", "Wait 2 business days"),
        ("wait: 1d", "Wait 1 day"),
        ("wait_for: payment", "Wait for signal payment"),
        (
            "wait_for: { signal: payment, timeout: 3d }",
            "Wait for signal payment, timeout 3 days",
        ),
        ("run: billing", "Run agent billing"),
        (
            "handoff: { to: \"@role.sales\", timeout: 2d }",
            "Hand off to @role.sales, timeout 2 days",
        ),
        (
            "ask: { question: \"Go on?\", timeout: 1h }",
            "Ask \"Go on?\", timeout 1 hour",
        ),
        (
            "{ tool: crm.find, timeout: 90s }",
            "Call tool crm.find, timeout 1 minute 30 seconds",
        ),
    ] {
        let of_step = Plan::compile(&format!("agent: a\nsteps:\n  - {step}\n")).unwrap();
        assert_eq!(of_step.words, [words], "{step}");
        let text = format!("agent: a\ninstructions: |\n  {words}\n");
        let of_words = Plan::compile(&text).unwrap_or_else(|errors| panic!("{words}: {errors:?}"));
        assert_eq!(of_step.steps, of_words.steps, "{step}");
    }
}

/// Words 1: steps can be shown in words, and those without words are empty.
#[test]
fn steps_have_words() {
    let text = "agent: a
steps:
  - { id: step-01, wait: 5d }
  - { tool: echo, claim_timeout: 1 minute }
  - { tool: log, args: { message: Done. } }
";
    let plan = Plan::compile(text).unwrap();
    assert_eq!(plan.words, ["Wait 5 days", "", "Log \"Done.\""]);
    let without = Plan::compile("agent: a\nsteps:\n  - { tool: echo, claim_timeout: 1 minute }\n");
    assert!(without.unwrap().words.is_empty());
}

/// Words 1: an error has the line of the file and the column of the instruction.
#[test]
fn an_unknown_line_has_its_place() {
    let text =
        "agent: a\ninstructions: |\n  Wait 5 days\n\n  Wait 5 bananas\n  Frobnicate the contact\n";
    let errors = Plan::compile(text).unwrap_err();
    let places: Vec<_> = errors
        .iter()
        .map(|error| (error.line, error.column))
        .collect();
    assert_eq!(
        places,
        [(Some(5), Some(10)), (Some(6), Some(3))],
        "{errors:?}"
    );
    // A text in quotes does not show its lines.
    let quoted = "{\"agent\": \"a\", \"instructions\": \"Wait 5 days\\nWait 5 bananas\"}";
    let errors = Plan::compile(quoted).unwrap_err();
    assert_eq!((errors[0].line, errors[0].column), (None, Some(8)));
    assert!(
        errors[0].message.starts_with("Line 2 of `instructions`: "),
        "{errors:?}"
    );
}

/// An error that the grammar does not see has the line of its instruction, too.
#[test]
fn a_wrong_step_has_the_line_of_its_instruction() {
    let text =
        "agent: a\ninstructions: |\n  # the first\n  Wait 5 days\n  Log \"{{ contcat.name }}\"\n";
    let errors = Plan::compile(text).unwrap_err();
    assert_eq!(errors[0].line, Some(5), "{errors:?}");
    assert_eq!(errors[0].step.as_deref(), Some("step-02"));
}

/// A line that repeats its step is shown beside the first one. The others have comments, so that the words together are
/// the same steps.
#[test]
fn a_repeated_line_is_shown_once() {
    let text = "agent: a
instructions: |
  Wait 1 day
  Log \"x\" every 2 days until contact replies, at most 3 times
  Finish
";
    let plan = Plan::compile(text).unwrap();
    assert_eq!(
        plan.words,
        [
            "Wait 1 day",
            "Log \"x\" every 2 days until contact replies, at most 3 times",
            "# Pause before time 2 of 3",
            "# Time 2 of 3",
            "# Pause before time 3 of 3",
            "# Time 3 of 3",
            "Finish",
        ]
    );
    let words = format!("agent: a\ninstructions: |\n  {}\n", plan.words.join("\n  "));
    assert_eq!(steps_of(&words), steps_of(text));
    let written = "agent: a
steps:
  - wait: 1 day
  - { tool: log, args: { message: x }, when: \"!(has(contact.replied) && contact.replied == true)\" }
  - wait_for: { signal: contact.reply, timeout: 2 days, on_timeout: skip }
    when: \"!(has(contact.replied) && contact.replied == true)\"
  - { tool: log, args: { message: x }, when: \"$step-03 == null && !(has(contact.replied) && contact.replied == true)\" }
  - wait_for: { signal: contact.reply, timeout: 2 days, on_timeout: skip }
    when: \"$step-03 == null && !(has(contact.replied) && contact.replied == true)\"
  - { tool: log, args: { message: x }, when: \"$step-03 == null && $step-05 == null && !(has(contact.replied) && contact.replied == true)\" }
  - finish: Finished.
";
    assert_eq!(steps_of(written), steps_of(text));
    // Written back, each step has words of its own, and they are the same steps.
    let words = Plan::compile(written).unwrap().words.join("\n  ");
    assert_eq!(
        steps_of(&format!("agent: a\ninstructions: |\n  {words}\n")),
        steps_of(text)
    );
}

/// An error of a repeated line is reported once, at its line.
#[test]
fn an_error_of_a_repeated_line_is_reported_once() {
    for (line, said) in [
        (
            "Send email \"Nope\" to contact every 1 day until contact replies, at most 50 times",
            "nor its workspace has a template `Nope`.",
        ),
        (
            "Call x with a $nope.b every 1 day until contact replies, at most 50 times",
            "names a step that this agent does not have",
        ),
        (
            "Log \"{{ contcat.a }}\" every 1 day until {{ contact.a > 1 }}, at most 50 times",
            "contcat",
        ),
        (
            "Log \"a\" every 1 day until {{ contcat.a > 1 }}, at most 50 times",
            "contcat",
        ),
    ] {
        let text = format!("agent: a\ninstructions: |\n  Wait 5 days\n  {line}\n  Finish\n");
        let errors = Plan::compile(&text).unwrap_err();
        assert_eq!(errors.len(), 1, "{line}: {errors:?}");
        assert_eq!(errors[0].line, Some(4), "{errors:?}");
        assert!(errors[0].message.contains(said), "{errors:?}");
    }
    // A later time has another name than a step of the author.
    let text = "agent: a\ninstructions: |\n  Call x as find every 1 day until contact replies, at most 2 times\n  Log \"x\" as find-2\n";
    let errors = Plan::compile(text).unwrap_err();
    assert_eq!(errors[0].line, Some(4), "{errors:?}");
}

/// A path that names nothing would be sent as a text.
#[test]
fn an_unknown_path_is_refused() {
    let compile = |line: &str| {
        let text = format!("agent: a\ninstructions: |\n  Call orders.find as find\n  {line}\n");
        Plan::compile(&text)
    };
    for line in [
        "Set contact.stage to $nope.stage",
        "Hand off to $foo.bar",
        "Call x with a [1, {\"b\": $nope}]",
        "Log \"$nope.x\"",
    ] {
        let errors = compile(line).unwrap_err();
        assert_eq!(errors[0].line, Some(4), "{errors:?}");
        assert!(
            errors[0]
                .message
                .contains("names a step that this agent does not have"),
            "{line}: {errors:?}"
        );
    }
    for line in [
        "Set contact.stage to $find.stage",
        "Log \"$5.00\"",
        "Log \"$$nope.x\"",
        "Log \"$Budget is approved\"",
        "Call x with a $find.b and c $input.d",
    ] {
        let found = compile(line);
        let is_known = found.as_ref().err().is_none_or(|errors| {
            !errors
                .iter()
                .any(|error| error.message.contains("names a step"))
        });
        assert!(is_known, "{line}: {found:?}");
    }
}

/// A reply has a limit, and the arguments have the text already.
#[test]
fn long_words_are_left_out() {
    let text = format!(
        "agent: a\ninstructions: |\n  Wait 5 days\n  Log \"{}\"\n",
        "x".repeat(2_000)
    );
    assert_eq!(Plan::compile(&text).unwrap().words, ["Wait 5 days", ""]);
}

#[test]
fn steps_and_instructions_exclude_each_other() {
    for (text, said) in [
        ("agent: a\n", "An agent needs `steps` or `instructions`."),
        (
            "agent: a\ninstructions: Wait 5 days\nsteps: [{ wait: 5 days }]\n",
            "An agent has either `steps` or `instructions`.",
        ),
        (
            "agent: a\ninstructions: [Wait 5 days]\n",
            "`instructions` is a text with one step on each line.",
        ),
        (
            "agent: a\ninstructions: \"\"\n",
            "The instructions have no steps",
        ),
    ] {
        let errors = Plan::compile(text).unwrap_err();
        assert!(errors[0].message.contains(said), "{errors:?}");
    }
}

/// Words 5: an unknown template is a plan error.
#[test]
fn a_template_is_put_into_the_mail() {
    let step = |templates: &str, args: &str| {
        let text = format!(
            "agent: a\ntemplates: {templates}\nsteps:\n  - tool: send_email\n    args: {args}\n"
        );
        Plan::compile(&text)
    };
    let plan = step(
        "{ Hello: { body: B, html: \"<p>B</p>\" } }",
        "{ to: a@x.example, subject: Mine, template: Hello }",
    );
    let Action::Tool { args, .. } = &plan.unwrap().steps[0].action else {
        panic!("a tool");
    };
    let expected =
        json!({ "to": "a@x.example", "subject": "Mine", "body": "B", "html": "<p>B</p>" });
    assert_eq!(*args, expected);
    let long = format!("{{ Hello: {} }}", "x".repeat(64 * 1024 + 1));
    for (templates, args, said) in [
        (
            "{ Hello: B }",
            "{ template: Helo }",
            "Neither the agent nor its workspace has a template `Helo`.",
        ),
        (
            "{ Hello: B }",
            "{ template: 5 }",
            "Neither the agent nor its workspace has a template `5`.",
        ),
        (
            "null",
            "{ template: Hello }",
            "Neither the agent nor its workspace has a template `Hello`.",
        ),
        (
            "{ Hello: B }",
            "{ template: Hello, body: C }",
            "A mail has either a `template` or a `body`.",
        ),
        (
            "{ Hello: { subject: S } }",
            "{}",
            "The template `Hello` needs a `body`.",
        ),
        (
            "{ Hello: { body: B, bcc: x } }",
            "{}",
            "`templates` has no field `bcc`",
        ),
        (
            "{ Hello: { subject: \"a\\nb\", body: B } }",
            "{}",
            "The subject of a template is one line of at most 998 characters.",
        ),
        (
            "{ \"\": B }",
            "{}",
            "The name of a template has 1 to 100 characters.",
        ),
        (&long, "{}", "is a text of 1 to 65536 bytes"),
        ("[Hello]", "{}", "`templates` is an object"),
    ] {
        let errors = step(templates, args).unwrap_err();
        let found = errors.iter().any(|error| error.message.contains(said));
        assert!(found, "{said}: {errors:?}");
    }
}

/// A short text must not become a plan that fills the memory.
#[test]
fn the_mails_of_all_steps_have_a_bound() {
    let mail = "x".repeat(60_000);
    let steps = "  Send email \"Long\" to contact\n".repeat(512 * 1024 / 60_000 + 1);
    let text = format!("agent: a\ntemplates: {{ Long: {mail} }}\ninstructions: |\n{steps}");
    let errors = Plan::compile(&text).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(
        errors[0]
            .message
            .contains("The mails of all steps together have at most 524288 bytes of JSON."),
        "{errors:?}"
    );
}

/// A plan shows all that decides whether and how often a step is done.
#[test]
fn a_step_is_described_with_its_limits() {
    let plan = Plan::compile(
        "agent: a
instructions: |
  Call pay, timeout 30 seconds, at most 3 attempts, if it fails skip the rest, after approval by @role.boss
  Hand off to @user.nina as warm lead
  For each $input.orders, call pay, after approval, at most 5 at a time
",
    );
    let plan = plan.unwrap();
    let described: Vec<_> = plan.steps.iter().map(|step| step.describe()).collect();
    assert_eq!(
        described,
        [
            "Call pay, after approval by @role.boss, timeout 30 seconds, at most 3 attempts, on error skip rest",
            "Hand off to @user.nina as warm lead",
            "Call pay for each of $input.orders, 5 at a time, after approval by the workspace's owners",
        ]
    );
}
