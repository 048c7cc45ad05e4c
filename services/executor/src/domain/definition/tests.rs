//! Agents as authors write them, and what they are told.

mod for_each;
mod instructions;
mod people;
mod planner;
mod run_steps;
mod secrets;
mod tool_failures;
mod waits_and_signals;

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn errors(text: &str) -> Vec<FieldError> {
    Plan::compile(text).unwrap_err()
}

/// Each error as `line step text | message | nearest`, which is what an author reads.
fn sent(text: &str) -> Vec<String> {
    let show = |error: FieldError| {
        let line = error
            .line
            .map_or_else(|| "-".to_owned(), |line| line.to_string());
        let step = error.step.unwrap_or_else(|| "-".to_owned());
        format!(
            "{line} {step} {} | {} | {}",
            error.text,
            error.message,
            error.nearest.join(",")
        )
    };
    errors(text).into_iter().map(show).collect()
}

fn one_step(step: &str) -> Vec<String> {
    sent(&format!(
        "agent: a\nsteps:\n  - {}\n",
        step.replace('\n', "\n    ")
    ))
}

#[test]
fn every_fault_is_told_at_once_with_its_line() {
    let text = "\
agent: my agent
on_puase: hold
steps:
  - tool: send_email
    when: contcat.replied == false
    arg: {}
  # a comment
  - id: step-01
    wait: 91 days
  - wait: 0s
    needs: [stpe-01, step-03]
";
    assert_eq!(
        sent(text),
        [
            "2 - on_puase | An agent has no field `on_puase`; this release knows `agent`, `description`, `on_pause`, `inputs`, `ask_missing_inputs`, `limits`, `calendar`, `templates`, `instructions`, `steps`, `planner`. | on_pause",
            "1 - my agent | The name of an agent has 1 to 100 letters, digits, dots, underscores or hyphens and starts with a letter or digit. | ",
            "6 step-01 arg | A step has no field `arg`; this release knows `id`, `tool`, `args`, `wait`, `wait_for`, `ask`, `handoff`, `run`, `finish`, `when`, `needs`, `claim_timeout`, `approval`, `retry`, `timeout`, `on_error`, `for_each`, `parallel`. | args",
            "8 step-02 step-01 | `step-01` is the id of another position; here write `step-02`, a name, or nothing. | ",
            "9 step-02 91 days | `wait` is at most 90 days. | ",
            "10 step-03 0s | `wait` cannot be 0; the shortest is 1 second. | ",
            "11 step-03 stpe-01 | This agent has no step `stpe-01`. | step-01,step-02,step-03",
            "11 step-03 step-03 | A step cannot need itself. | ",
            "5 step-01 contcat | `contcat` is not known here; an expression may use `input`, `contact`, `run` and the results of earlier steps, such as `$step-01`. | contact",
        ]
    );
}

/// S2-R4: who approves a step, how many, and for how long.
#[test]
fn an_approval_says_who_and_how_long() {
    let of = |approval: &str| one_step(&format!("tool: pay\napproval: {approval}"));
    for fine in [
        "{}",
        "{ from: \"@role.manager\", need: 2, not_requester: true, decide_within: 2d, valid_for: 1h }",
        "{ from: [\"@user.ada\", \"@role.ops\"] }",
        "{ policy: four-eyes }",
    ] {
        let text = format!("agent: a\nsteps:\n  - tool: pay\n    approval: {fine}\n");
        assert!(Plan::compile(&text).is_ok(), "{fine}");
    }
    for (wrong, expected) in [
        ("yes please", "`approval` is an object, such as"),
        ("{ from: manager }", "`from/0`: expected"),
        ("{ from: \"{{ input.manager }}\" }", "`from/0`: expected"),
        ("{ from: $input.manager }", "`from/0`: expected"),
        ("{ from: 3 }", "`from` must be `@user.<name>`"),
        ("{ need: 0 }", "`need"),
        ("{ need: 21 }", "`need"),
        (
            "{ need: many }",
            "`need` is a number of people from 1 to 20.",
        ),
        (
            "{ not_requester: 1 }",
            "`not_requester` is `true` or `false`.",
        ),
        ("{ valid_for: 91d }", "`valid_for` is at most 90 days."),
        ("{ decide_within: 0s }", "`decide_within` cannot be 0"),
        ("{ of: \"@user.ada\" }", "`approval` has no field `of`"),
    ] {
        let said = of(wrong);
        assert!(
            said.iter().any(|one| one.contains(expected)),
            "{wrong}: {said:?}"
        );
    }
    let waits = one_step("wait: 1d\napproval: {}");
    assert!(waits[0].contains("`approval` gates a `tool`"), "{waits:?}");
}

#[test]
fn documented_fields_of_later_releases_are_refused_as_such() {
    let said = one_step("wait: 1d\ndelegate: {}");
    assert_eq!(
        said,
        ["4 step-01 delegate | This release does not have `delegate` yet. | "]
    );
    assert_eq!(
        one_step("delegate: {}"),
        ["3 step-01 delegate | This release does not have `delegate` yet. | "]
    );
}

/// S0-AC8, S3-R7
#[test]
fn waits_are_between_a_second_and_ninety_days() {
    for (wait, ms) in [
        ("5 days", 432_000_000),
        ("90 days", 7_776_000_000),
        ("1s", 1_000),
        ("1d12h", 129_600_000),
    ] {
        let plan = Plan::compile(&format!("agent: a\nsteps:\n  - wait: {wait}\n")).unwrap();
        assert_eq!(plan.steps[0].action, Action::Wait { duration_ms: ms });
    }
    for (wait, said) in [
        ("7776000001ms", "`wait` is at most 90 days."),
        ("0 days", "`wait` cannot be 0; the shortest is 1 second."),
        ("999ms", "`wait` is at least 1 second."),
        (
            "5",
            "`wait` is a duration with a unit, such as `5 days` or `1d12h`.",
        ),
        (
            "2026-12-32",
            "The end of a wait is a date such as `2026-12-24`, a time such as `2026-12-24T09:00`, or a placeholder.",
        ),
        (
            "5 fortnights",
            "Invalid unit `fortnights`; expected ms, s, m, h, d, w or milliseconds, seconds, minutes, hours, days, weeks.",
        ),
    ] {
        assert_eq!(
            one_step(&format!("wait: {wait}")),
            [format!("3 step-01 {wait} | {said} | ")]
        );
    }
    assert_eq!(
        one_step("wait: 1s\nclaim_timeout: 500ms"),
        ["4 step-01 500ms | `claim_timeout` is at least 1 second. | "]
    );
}

#[test]
fn a_step_does_exactly_one_thing() {
    assert_eq!(
        one_step("id: x"),
        [
            "3 x  | A step says what it does: `tool: NAME`, `wait: DURATION`, `wait_for: SIGNAL`, `ask: …`, `handoff: …`, `run: AGENT` or `finish: SUMMARY`. | "
        ]
    );
    assert_eq!(
        one_step("tool: t\nwait: 1d"),
        ["4 step-01 wait | A step is either a `tool` or a `wait`; make it two steps. | "]
    );
    assert_eq!(
        one_step("wait: 1d\nargs: {}"),
        ["4 step-01 args | `args` belongs to a `tool`; a `wait` has none. | "]
    );
    assert_eq!(
        one_step("tool: t\nargs: [1]"),
        ["4 step-01 [1] | `args` is an object with a field for each argument. | "]
    );
    assert_eq!(
        one_step("wait: 1d\nwhen: \"{{ true }}\""),
        ["4 step-01 {{ true }} | A condition is CEL already; write it without `{{ }}`. | "]
    );
    assert_eq!(
        sent("agent: a\nsteps: [5]\n"),
        ["- step-01 5 | A step is an object, such as `tool: send_email` with `args`. | "]
    );
}

/// S2-R1
#[test]
fn ids_are_unique_and_mean_one_thing() {
    let said = |ids: [&str; 2]| {
        sent(&format!(
            "agent: a\nsteps:\n- {{id: {}, wait: 1d}}\n- {{id: {}, wait: 1d}}\n",
            ids[0], ids[1]
        ))
    };
    assert_eq!(
        said(["x", "x"]),
        ["4 x x | The id `x` is used by another step before; ids are unique. | "]
    );
    assert_eq!(
        said(["x", "x.y"]),
        ["4 x.y x.y | `$x.y` could also be a field of the step `x`; use another id. | "]
    );
    assert_eq!(
        said(["x", "input"]),
        ["4 step-02 input | `$input` means something else in placeholders; use another id. | "]
    );
    assert_eq!(said(["x", "step-07"]).len(), 1);
    assert!(
        Plan::compile("agent: a\nsteps: [{id: step-01, wait: 1d}, {id: step-2, wait: 1d}]").is_ok()
    );
}

#[test]
fn steps_that_need_each_other_are_refused() {
    let text = "agent: a\nsteps:\n- {id: a, wait: 1d, needs: [c]}\n- {id: b, wait: 1d}\n- {id: c, wait: 1d}\n";
    assert_eq!(
        sent(text),
        ["3 a a | These steps need each other in a circle: a needs c needs b needs a. | "]
    );
}

/// S2-R8
#[test]
fn placeholders_are_checked_when_the_plan_is_made() {
    let said = sent(
        "agent: a
steps:
  - id: one
    tool: t
  - id: two
    tool: t
    needs: []
    args:
      a: $one.x
      b: [\"$step-09.x\", \"Hi {{ contcat.name }}\", \"{{ input.x\", \"$inptu.x\", \"$input is it\", \"$5.00\", \"$$one.x\"]
",
    );
    assert_eq!(
        said,
        [
            "8 two $one | `$one` is not done before this step, so its result cannot be used here; add `one` to `needs`. | ",
            "8 two $step-09 | This agent has no step `step-09`. | ",
            "8 two contcat | `contcat` is not known here; an expression may use `input`, `contact`, `run` and the results of earlier steps, such as `$step-01`. | contact",
            "8 two {{ input.x | A `{{` is not closed by `}}`. | ",
            "8 two $inptu.x | This looks like a placeholder and names nothing that is known here; if it is meant as plain text, write `$$` for the `$`. | $input",
            "8 two $input is it | A text that starts with a placeholder must be that placeholder alone; inside text write `{{ }}`, and for a plain `$` write `$$`. | ",
        ]
    );
}

#[test]
fn syntax_errors_tell_their_line() {
    assert_eq!(
        sent("agent: a\nsteps:\n  - wait: [1\n"),
        ["3 - - wait: [1 | The text is not valid YAML: unclosed bracket '['. | "]
    );
    assert_eq!(
        sent("{\"agent\": \"a\",\n \"steps\": [}"),
        ["2 - \"steps\": [} | The text is not valid JSON: expected value at line 2 column 12. | "]
    );
    assert!(sent("agent: a\nagent: b\n")[0].contains("duplicate mapping key"));
    let json = "{\"agent\": \"a\", \"agent\": \"b\"}";
    assert!(sent(json)[0].contains("the field `agent` is there twice"));
    assert_eq!(
        sent("just text"),
        [
            "- - just text | An agent is an object with `agent: NAME`, and `steps` or `instructions`. | "
        ]
    );
    assert!(sent("agent: !x y\n")[0].contains("tag"));
    assert_eq!(sent(""), sent("~"));
}

#[test]
fn a_small_text_cannot_become_a_large_agent() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        writeln!(text, "a{level}: &a{level} [{aliases}]").unwrap();
    }
    assert!(
        sent(&text)[0].contains("alias replay limit exceeded"),
        "{:?}",
        sent(&text)
    );
    let deep = format!("agent: a\nsteps: {}{}", "[".repeat(100), "]".repeat(100));
    assert!(
        sent(&deep)[0].contains("it is nested deeper than 32"),
        "{:?}",
        sent(&deep)
    );
    assert_eq!(
        errors(&" ".repeat(MAX_TEXT + 1))[0].message,
        "An agent has at most 1048576 bytes; this one has 1048577."
    );
}

#[test]
fn the_number_of_steps_and_of_faults_is_limited() {
    let agent = |n: usize, step: &str| format!("agent: a\nsteps:\n{}", step.repeat(n));
    assert_eq!(
        Plan::compile(&agent(1_000, "- wait: 1d\n")).unwrap().steps[999].id,
        "step-1000"
    );
    assert_eq!(
        errors(&agent(1_001, "- wait: 1d\n"))[0].message,
        "An agent has at most 1000 steps; this one has 1001."
    );
    assert_eq!(
        sent("agent: a\nsteps: []\n"),
        ["2 - steps | An agent has at least one step. | "]
    );
    let many = errors(&agent(1_000, "- wait: 0s\n"));
    assert_eq!(
        (many.len(), many[100].message.as_str()),
        (
            101,
            "The agent has more errors. Only the first 100 are listed."
        )
    );
}

#[test]
fn faults_are_answered_in_the_documented_form() {
    let error = &errors("agent: a\nsteps:\n  - wiat: 1d\n")[0];
    assert_eq!(
        serde_json::to_value(error).unwrap(),
        json!({"line": 3, "step": "step-01", "text": "wiat", "nearest": ["wait"],
            "message": "A step has no field `wiat`; this release knows `id`, `tool`, `args`, `wait`, `wait_for`, `ask`, `handoff`, `run`, `finish`, `when`, `needs`, `claim_timeout`, `approval`, `retry`, `timeout`, `on_error`, `for_each`, `parallel`."})
    );
}

/// A-C2: what took all memory or minutes is refused in a moment.
#[test]
fn hostile_texts_are_refused_in_a_moment() {
    let long = "x".repeat(500_000);
    let aliases = format!("a: &a '{long}'\nsteps: [{}]\n", "*a, ".repeat(50_000));
    let small = format!("a: &a '{long}'\nsteps: [{}]\n", "*a, ".repeat(20));
    let keys = |n: usize| (0..n).map(|k| format!("k{k}: 1\n")).collect::<String>();
    let needs = (0..90_000).map(|k| format!("n{k}, ")).collect::<String>();
    let steps = "- tool: log\n".repeat(900);
    let placeholders = "{{ inptu.x }} ".repeat(60_000);
    for (what, text) in [
        ("an alias bomb", aliases),
        ("a long text by a few aliases", small),
        ("brackets", "[".repeat(1_000_000)),
        (
            "brackets in an agent",
            format!("agent: a\nsteps: {}", "[".repeat(900_000)),
        ),
        ("braces", "{a: ".repeat(200_000)),
        (
            "nested blocks",
            (0..2_000)
                .map(|n| format!("{}a:\n", " ".repeat(n)))
                .collect(),
        ),
        ("unknown fields", format!("agent: a\n{}", keys(80_000))),
        (
            "unknown fields of a step",
            format!(
                "agent: a\nsteps:\n- {{{}}}",
                keys(80_000).replace('\n', ", ")
            ),
        ),
        (
            "unknown needs",
            format!("agent: a\nsteps:\n{steps}- tool: log\n  needs: [{needs}]\n"),
        ),
        (
            "wrong placeholders",
            format!(
                "agent: a\nsteps:\n- tool: log\n  args: {{message: '{placeholders}'}}\n{steps}"
            ),
        ),
        ("merge keys", "a: &a {b: 1}\nc:\n  <<: *a\n".to_owned()),
        ("a long key", format!("'{}': 1", "k".repeat(1_000_000))),
    ] {
        let began = std::time::Instant::now();
        let found = errors(&text);
        let took = began.elapsed();
        assert!((1..=101).contains(&found.len()), "{what}");
        let message = &found[0].message;
        assert!(message.len() < 1_000, "{what}: {message}");
        assert!(took < std::time::Duration::from_secs(4), "{what}: {took:?}");
    }
}

/// A-C2: a few anchors are fine: authors use them for what repeats.
#[test]
fn an_agent_may_use_a_few_anchors() {
    let text = "agent: a\nsteps:\n- tool: log\n  args: &args {message: hello}\n- tool: log\n  args: *args\n";
    assert_eq!(Plan::compile(text).unwrap().steps.len(), 2);
}

/// Words that other readers of YAML take for booleans and numbers are texts.
#[test]
fn words_that_look_like_numbers_or_booleans_stay_texts() {
    for word in ["yes", "on", "0755", "1_000", "12:30:45"] {
        let text = format!("agent: a\ndescription: {word}\nsteps:\n- wait: 1d\n");
        assert_eq!(
            Plan::compile(&text).unwrap().description.as_deref(),
            Some(word)
        );
    }
}

proptest! {
    /// Whatever is sent, the answer is a plan or at least one error.
    #[test]
    fn any_text_is_an_agent_or_has_a_fault(text in any::<String>()) {
        if let Err(errors) = Plan::compile(&text) {
            prop_assert!(!errors.is_empty());
        }
    }

    /// As above, with texts that look like agents.
    #[test]
    fn any_agent_like_text_compiles_or_has_a_fault(
        parts in prop::collection::vec(prop::sample::select(vec![
            "agent: a\n", "steps:\n", "  - ", "- ", "id: ", "x", "wait: ", "1d", "tool: t\n", "    ", "args: ", "{", "}", "[", "]", "when: ",
            "\n", "needs: ", "\"", ":", ",", "true", "&a ", "*a", "<<: ", "|\n", "$x.y", "{{ input.x }}", "1", "~", "!t ", "\t",
        ]), 0..30)
    ) {
        let text = parts.concat();
        if let Err(errors) = Plan::compile(&text) {
            prop_assert!(!errors.is_empty());
        }
    }
}
