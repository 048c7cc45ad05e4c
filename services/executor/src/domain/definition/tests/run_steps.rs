//! Steps that start runs of other agents, and the output of a run.

use super::{one_step, sent};
use crate::domain::model::plan::run_steps::{RunsUntil, STEP_RUNS_MAX};
use crate::domain::model::plan::{Action, Plan};

fn action(step: &str) -> Action {
    let text = format!("agent: a\nsteps:\n  - {step}\n");
    let plan = Plan::compile(&text).unwrap_or_else(|errors| panic!("{step}: {errors:?}"));
    plan.steps[0].action.clone()
}

#[test]
fn a_run_is_one_run_the_first_or_all() {
    for (step, until, said) in [
        ("run: helper", RunsUntil::Ended, "Run helper"),
        (
            "run: { agent: helper, input: { n: $input.n }, timeout: 1h, on_timeout: skip }",
            RunsUntil::Ended,
            "Run helper",
        ),
        (
            "run: { first: [helper, { agent: b.2 }] }",
            RunsUntil::First,
            "Run helper, b.2, until the first one completes",
        ),
        (
            "run: { all: [helper] }",
            RunsUntil::All,
            "Run helper, until all complete",
        ),
    ] {
        let found = action(step);
        assert_eq!(found.describe(), said);
        let Action::Run(run) = found else { panic!() };
        assert_eq!(run.until, until);
    }
}

#[test]
fn a_wrong_run_is_refused_with_the_reason() {
    let many = format!("run: {{ all: [{}] }}", "b, ".repeat(STEP_RUNS_MAX + 1));
    for (step, said) in [
        ("run: {}", "`run` needs `agent: NAME`"),
        ("run: -x", "`run` needs `agent: NAME`"),
        ("run: 7", "`run` is an object, such as `run: { agent: … }`."),
        ("run: { agent: [b] }", "`run` needs `agent: NAME`"),
        (
            "run: { agent: b, imput: 1 }",
            "`run` has no field `imput`; this release knows `agent`, `input`, `timeout`, `on_timeout`. | input",
        ),
        ("run: { frist: [b] }", "`run` has no field `frist`"),
        ("run: { agent: b, all: [b] }", "`run` has no field `all`"),
        (
            "run: { first: [b], all: [b] }",
            "`run` has either `first` or `all`.",
        ),
        ("run: { all: [] }", "`all` is a list of 1 to 20 runs"),
        ("run: { first: b }", "`first` is a list of 1 to 20 runs"),
        (
            "run: { first: [{ input: 1 }] }",
            "`run` needs `agent: NAME`",
        ),
        (
            "run: { first: [{ agent: b, timeout: 1h }] }",
            "`run` has no field `timeout`",
        ),
        (
            "run: { agent: b, timeout: 91 days }",
            "`timeout` is at most 90 days.",
        ),
        (
            "run: { agent: b, on_timeout: skp }",
            "`on_timeout` is one of `fail`, `skip`. | skip",
        ),
        (
            "run: { agent: b, input: \"{{ contcat.x }}\" }",
            "`contcat` is not known here",
        ),
        (
            "run: b\nfor_each: [1]",
            "`for_each` belongs to a `tool`, an `ask` or a `handoff`; a `run` has none.",
        ),
        (
            "run: b\nretry: { attempts: 2 }",
            "`retry` belongs to a `tool`; a `run` has none.",
        ),
        ("run: b\napproval: {}", "`approval` gates a `tool`"),
        (many.as_str(), "`all` is a list of 1 to 20 runs"),
    ] {
        let errors = one_step(step);
        assert!(
            errors.iter().any(|error| error.contains(said)),
            "{step}: {errors:?}"
        );
    }
}

/// A run below a run of its agent never starts.
#[test]
fn an_agent_does_not_run_itself() {
    let errors = sent("agent: a\nsteps:\n  - run: { first: [b, a] }\n");
    assert_eq!(errors, ["3 step-01 a | `a` cannot run itself. | "]);
}

#[test]
fn a_finish_has_an_output() {
    let Action::Finish(finish) = action("finish: { summary: Done., output: { n: $input.n } }")
    else {
        panic!();
    };
    assert_eq!(finish.output.unwrap()["n"], "$input.n");
    let errors = one_step("finish: { summary: Done., output: \"{{ contcat.x }}\" }");
    assert!(
        errors[0].contains("`contcat` is not known here"),
        "{errors:?}"
    );
}
