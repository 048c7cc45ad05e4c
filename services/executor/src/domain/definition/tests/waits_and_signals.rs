//! Steps that wait for a date or a signal, and that end the run.

use super::one_step;
use crate::domain::model::plan::Plan;

/// Gate 4: dates, weekdays and placeholders end a wait.
#[test]
fn waits_until_a_date_or_a_weekday_are_read() {
    let until = |wait: &str| {
        let text = format!(
            "agent: a\ninputs: {{type: object, properties: {{at: {{type: string}}}}}}\nsteps:\n  - wait: {wait}\n"
        );
        let plan = Plan::compile(&text).unwrap_or_else(|errors| panic!("{wait}: {errors:?}"));
        plan.steps[0].action.describe()
    };
    for (wait, said) in [
        ("2026-12-24", "Wait until 2026-12-24 (UTC)"),
        ("\"2026-12-24T09:00\"", "Wait until 2026-12-24T09:00 (UTC)"),
        ("$input.at", "Wait until $input.at"),
        (
            "{ until: 2026-12-24, time_zone: Europe/Berlin }",
            "Wait until 2026-12-24 (Europe/Berlin)",
        ),
        (
            "{ weekday: Monday, at: \"09:30\" }",
            "Wait until Monday at 09:30 (UTC)",
        ),
        ("{ weekday: sunday }", "Wait until Sunday at 00:00 (UTC)"),
    ] {
        assert_eq!(until(wait), said);
    }
    for (wait, said) in [
        ("{ until: soon }", "The end of a wait is a date"),
        (
            "{ weekday: mondya }",
            "`weekday` is a day from `monday` to `sunday`. | monday",
        ),
        ("{ weekday: monday, at: \"24:00\" }", "`at` is a time from"),
        ("{ weekday: monday, at: \"9:00\" }", "`at` is a time from"),
        (
            "{ weekday: monday, until: 2026-12-24 }",
            "A `wait` object has either",
        ),
        (
            "{ until: 2026-12-24, at: \"09:00\" }",
            "A `wait` object has either",
        ),
        ("{ at: \"09:00\" }", "A `wait` object has either"),
        ("{}", "A `wait` object has either"),
        (
            "{ weekday: monday, time_zone: Europe/Berlinn }",
            "`time_zone` is an IANA name such as `Europe/Berlin`. | Europe/Berlin",
        ),
        (
            "{ weekday: monday, zone: UTC }",
            "`wait` has no field `zone`",
        ),
    ] {
        let errors = one_step(&format!("wait: {wait}"));
        assert!(
            errors.iter().any(|error| error.contains(said)),
            "{wait}: {errors:?}"
        );
    }
}

/// Gate 4
#[test]
fn wait_for_and_finish_are_read() {
    for (step, said) in [
        ("wait_for: paid", "Wait for the signal paid, at most 7 days"),
        (
            "wait_for: { signal: paid, timeout: 2h, on_timeout: skip }",
            "Wait for the signal paid, at most 2 hours",
        ),
        ("finish: Done.", "End the run: Done."),
        (
            "finish: { summary: Bad., status: failed }",
            "End the run: Bad.",
        ),
    ] {
        let plan = Plan::compile(&format!("agent: a\nsteps:\n  - {step}\n")).unwrap();
        assert_eq!(plan.steps[0].action.describe(), said);
    }
    for (step, said) in [
        ("wait_for: {}", "`wait_for` needs `signal: NAME`"),
        (
            "wait_for: 5",
            "`wait_for` is an object, such as `wait_for: { signal: … }`.",
        ),
        (
            "wait_for: { signal: \"a b\" }",
            "`wait_for` needs `signal: NAME`",
        ),
        (
            "wait_for: { signal: a, timeout: 91d }",
            "`timeout` is at most 90 days.",
        ),
        (
            "wait_for: { signal: a, timeout: 0 }",
            "`timeout` is a duration",
        ),
        (
            "wait_for: { signal: a, on_timeout: continue }",
            "`on_timeout` is one of `fail`, `skip`.",
        ),
        (
            "wait_for: { signal: a, time_out: 1d }",
            "`wait_for` has no field `time_out`",
        ),
        ("finish: {}", "`finish` needs a `summary`"),
        ("finish: \"\"", "`finish` needs a `summary`"),
        (
            "finish: { summary: a, status: cancelled }",
            "`status` is one of `completed`, `failed`.",
        ),
        (
            "finish: \"{{ contcat.name }}\"",
            "`contcat` is not known here",
        ),
        ("finish: a\nretry: none", "`retry`"),
        ("wait_for: a\nargs: {}", "`args` belongs to a `tool`"),
    ] {
        let errors = one_step(step);
        assert!(
            errors.iter().any(|error| error.contains(said)),
            "{step}: {errors:?}"
        );
    }
}
