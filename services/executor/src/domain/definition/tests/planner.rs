//! Words 3: agents with a planner, and the plans that it makes.

use serde_json::{Value, json};

use super::*;

const AGENT: &str = "
agent: outreach
instructions: Win the customer back.
calendar: { holidays: [2026-12-25] }
templates: { Introduction: Hello! }
planner: { tool: plans.make, tools: [send_email, log] }
";

fn agent() -> Plan {
    Plan::compile(AGENT).unwrap()
}

fn errors_of(steps: &Value) -> Vec<String> {
    let errors = agent()
        .with_steps_of(&json!({ "steps": steps }))
        .unwrap_err();
    let show = |error: FieldError| format!("{}: {}", error.step.unwrap_or_default(), error.message);
    errors.into_iter().map(show).collect()
}

#[test]
fn an_agent_with_a_planner_asks_for_a_plan_and_starts_it() {
    let plan = agent();
    let steps: Vec<_> = plan.steps.iter().map(PlannedStep::describe).collect();
    assert_eq!(
        steps,
        [
            "Call plans.make, timeout 1 minute, at most 3 attempts",
            "Call start_plan, after approval by the workspace's owners",
        ]
    );
    let stored = serde_json::to_value(&plan).unwrap();
    assert_eq!(serde_json::from_value::<Plan>(stored).unwrap(), plan);
}

#[test]
fn a_planner_says_what_its_plans_may_do() {
    let of = |planner: &str| {
        sent(&format!(
            "agent: a\ninstructions: Do it.\nplanner: {planner}\n"
        ))
    };
    let tools = "3 - {} | `planner` needs `tools`: a list of 1 to 100 names of tools that a plan may call. | ";
    for (planner, errors) in [
        (
            "plans.make",
            [
                "3 - plans.make | `planner` is an object, such as `planner: { tool: plans.make, tools: [send_email] }`. | ",
            ],
        ),
        ("{ tool: p }", [tools.replace("{}", "").as_str()]),
        (
            "{ tool: p, tools: [] }",
            [tools.replace("{}", "[]").as_str()],
        ),
        (
            "{ tool: p, tools: [start_plan] }",
            [tools.replace("{}", "[\"start_plan\"]").as_str()],
        ),
        (
            "{ tools: [log] }",
            ["3 -  | `planner` needs `tool: NAME`: a tool of your own that makes the steps. | "],
        ),
        (
            "{ tool: p, tools: [log], auto_start: 1 }",
            ["3 - 1 | `auto_start` is true or false. | "],
        ),
        (
            "{ tool: p, tools: [log], auto_start: true, approval: {} }",
            [
                "3 - approval | A plan with `auto_start: true` starts without an approval; remove `approval` or `auto_start`. | ",
            ],
        ),
    ] {
        assert_eq!(of(planner), errors, "{planner}");
    }
    let steps = "agent: a\nplanner: { tool: p, tools: [log] }\nsteps:\n  - wait: 1d\n";
    assert!(sent(steps)[0].contains("the planner makes the steps"));
    let no_text = "agent: a\nplanner: { tool: p, tools: [log] }\n";
    assert!(sent(no_text)[0].contains("needs `instructions`"));
    let long = "x".repeat(65_537);
    let long = sent(&format!(
        "agent: a\nplanner: {{ tool: p, tools: [log] }}\ninstructions: {long}\n"
    ));
    assert!(
        long[0].contains("at most 65536 bytes; these have 65537"),
        "{long:?}"
    );
    let own = one_step("tool: start_plan\nargs: { steps: [] }");
    assert!(own[0].contains("a step cannot call it"), "{own:?}");
}

/// The ids of a plan count from its own first step, and its words are those of an author.
#[test]
fn the_steps_of_a_plan_follow_the_steps_of_the_agent() {
    let steps = json!([
        { "wait": "2 days" },
        { "tool": "send_email", "args": { "to": "$contact.email", "template": "Introduction" } },
        { "id": "note", "needs": ["step-01"], "tool": "log", "args": { "message": "$step-02" }, "when": "contact.replied" },
    ]);
    let errors = agent()
        .with_steps_of(&json!({ "steps": steps }))
        .unwrap_err();
    assert!(errors[0].message.contains("step-02"), "{errors:?}");
    let mut steps = steps;
    steps[2]["needs"] = json!(["step-02"]);
    let plan = agent().with_steps_of(&json!({ "steps": steps })).unwrap();
    let ids: Vec<_> = plan.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids, ["plan", "start-plan", "step-01", "step-02", "note"]);
    assert_eq!(plan.steps[2].needs, [1]);
    assert_eq!(plan.steps[4].needs, [3]);
    assert_eq!(plan.words[2], "Wait 2 days");
    assert_eq!(plan.steps[..2], agent().steps[..]);
}

#[test]
fn a_plan_that_is_not_valid_is_refused_with_its_errors() {
    for (steps, error) in [
        (
            Value::Null,
            ": The result has no `steps`; expected `{\"steps\": [...]}`.",
        ),
        (json!({}), ": `steps` is a list of steps, not {}."),
        (json!([]), ": A plan has 1 to 1000 steps; this one has 0."),
        (
            json!(vec![json!({ "wait": "1 day" }); 1_001]),
            ": A plan has 1 to 1000 steps; this one has 1001.",
        ),
        (
            json!(["wait"]),
            "step-01: A step is an object, such as `tool: send_email` with `args`.",
        ),
        (
            json!([{ "wait": "91 days" }]),
            "step-01: `wait` is at most 90 days.",
        ),
        (
            json!([{ "tool": "http_request" }]),
            "step-01: A plan may not call `http_request`; `planner` allows send_email, log.",
        ),
        (
            json!([{ "tool": "plans.make" }]),
            "step-01: A plan may not call `plans.make`; `planner` allows send_email, log.",
        ),
        (
            json!([{ "tool": "start_plan" }]),
            "step-01: A plan may not call `start_plan`; `planner` allows send_email, log.",
        ),
        (
            json!([{ "tool": "log", "approval": { "from": "@user.mallory" } }]),
            "step-01: A plan has no `approval`: the registry of tools and the author decide who approves.",
        ),
        (
            json!([{ "tool": "log", "retry": { "attempts": 9 } }]),
            "step-01: A plan has no `retry`: the registry of tools decides which calls may be repeated.",
        ),
        (
            json!([{ "tool": "log", "args": { "idempotent": true } }]),
            "step-01: A plan has no `idempotent`: the registry of tools decides which calls may be repeated.",
        ),
        (
            json!([{ "tool": "log", "args": { "message": "{{ plan.steps }}" } }]),
            "step-01: `plan` is not known here; an expression may use `input`, `contact`, `run` and the results of earlier steps, such as `$step-01`.",
        ),
        (
            json!([{ "tool": "log", "args": { "message": "{{ 'a'.matches('a+') }}" } }]),
            "step-01: A plan has no `matches`, which is slow to check; use `contains` or `startsWith`.",
        ),
        (
            json!([{ "wait": "1 day", "when": "contact.name.matches('a')" }]),
            "step-01: A plan has no `matches`, which is slow to check; use `contains` or `startsWith`.",
        ),
        (
            json!([{ "run": "payments" }]),
            "step-01: A plan starts no run of another agent; use the tools of `planner`.",
        ),
        (
            json!([{ "id": "plan", "wait": "1 day" }]),
            "plan: The id `plan` is used by another step before; ids are unique.",
        ),
        (
            json!([{ "id": "step-02", "wait": "1 day" }]),
            "step-01: `step-02` is the id of another position; here write `step-01`, a name, or nothing.",
        ),
    ] {
        assert_eq!(errors_of(&steps), [error]);
    }
}

/// The gate could not approve such a plan exactly.
#[test]
fn a_plan_with_an_inexact_integer_is_refused() {
    let errors = errors_of(&json!([{ "tool": "log", "args": { "x": 9_007_199_254_740_993_u64 } }]));
    assert!(errors[0].contains("write it as a text"), "{errors:?}");
}

/// A plan must fit an approval.
#[test]
fn a_plan_that_is_too_large_is_refused() {
    let message = "x".repeat(70_000);
    let errors = errors_of(&json!([{ "tool": "log", "args": { "message": message } }]));
    assert!(
        errors[0].contains("bytes of JSON; at most 64512 are allowed"),
        "{errors:?}"
    );
}

/// The example tells a language model how steps are written. Each of them is a valid step.
#[test]
fn the_example_describes_valid_steps() {
    let example = include_str!("../../../../../../examples/planner.py");
    let lines = example.lines().filter_map(|line| line.strip_prefix("  {"));
    let steps = lines.map(|line| {
        let (step, _) = line.rsplit_once('}').unwrap();
        let text = format!("{{{step}}}").replace("NAME", "\"log\"");
        let text = text.replace("{...}", "{\"message\": \"hi\"}");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    });
    let steps: Vec<Value> = steps.collect();
    assert_eq!(steps.len(), 6);
    assert_eq!(
        agent().with_steps_of(&json!({ "steps": steps })).err(),
        None
    );
}
