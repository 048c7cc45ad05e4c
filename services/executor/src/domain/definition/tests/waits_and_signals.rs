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
        ("2 business days", "Wait 2 business days (UTC)"),
        ("1 working day", "Wait 1 business day (UTC)"),
        (
            "{ business_days: 2, time_zone: Asia/Tokyo }",
            "Wait 2 business days (Asia/Tokyo)",
        ),
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
            "{ business_days: 2, at: \"09:00\" }",
            "A `wait` object has either",
        ),
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

/// Words 4
#[test]
fn a_wait_has_1_to_90_business_days() {
    for (wait, said) in [
        ("0 business days", "A wait has 1 to 90 business days."),
        (
            "66 business days",
            "66 business days of this calendar take more than 90 days",
        ),
        ("91 business days", "A wait has 1 to 90 business days."),
        ("{ business_days: -1 }", "A wait has 1 to 90 business days."),
        (
            "{ business_days: two }",
            "A wait has 1 to 90 business days.",
        ),
        ("1.5 business days", "business"),
    ] {
        let errors = one_step(&format!("wait: {wait}"));
        assert!(errors[0].contains(said), "{wait}: {errors:?}");
    }
}

/// Words 4: the calendar says which days count, and the time zone of waits without another one.
#[test]
fn a_calendar_has_a_time_zone_days_and_holidays() {
    let compile = |calendar: &str| {
        let text = format!("agent: a\ncalendar: {calendar}\nsteps:\n  - wait: 2 business days\n");
        Plan::compile(&text)
    };
    let plan = compile(
        "{ time_zone: Asia/Dubai, days: [sunday, mon, TUE], holidays: [\"2026-12-25\", 2027-01-01] }",
    );
    let plan = plan.unwrap_or_else(|errors| panic!("{errors:?}"));
    assert_eq!(
        plan.steps[0].action.describe(),
        "Wait 2 business days (Asia/Dubai)"
    );
    assert_eq!(
        serde_json::to_value(&plan.working_days).unwrap(),
        serde_json::json!({ "days": ["mon", "tue", "sun"], "holidays": ["2026-12-25", "2027-01-01"] })
    );
    let many: Vec<String> = (1..=501).map(|day| format!("2026-01-{day:02}")).collect();
    for (calendar, said) in [
        ("weekdays", "The workspace has no calendar `weekdays`."),
        ("[mon]", "`calendar` is an object"),
        ("{ days: [] }", "`days` is a list of at least one day"),
        (
            "{ days: [mon, noday] }",
            "`days` is a list of at least one day",
        ),
        (
            "{ holidays: [2026-02-30] }",
            "`holidays` is a list of at most 500 dates",
        ),
        (
            &format!("{{ holidays: [{}] }}", many.join(", ")),
            "`holidays` is a list of at most 500 dates",
        ),
        (
            "{ time_zone: Europe/Berlni }",
            "`time_zone` is an IANA name",
        ),
        ("{ zone: UTC }", "`calendar` has no field `zone`"),
    ] {
        let errors = compile(calendar).unwrap_err();
        let found = errors.iter().any(|error| error.message.contains(said));
        assert!(found, "{calendar}: {errors:?}");
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

/// Words 5: the wait for a reply may be written as the tool of the sources.
#[test]
fn the_tool_that_waits_for_a_reply_is_a_wait() {
    let step = |text: &str| {
        let text = format!("agent: a\nsteps:\n  - {text}\n");
        Plan::compile(&text).map(|plan| plan.steps[0].action.clone())
    };
    let wait = "wait_for: { signal: contact.reply, timeout: 5 days, on_timeout: skip }";
    let tool = "{ tool: wait_until_reply, args: { timeout: 5 days } }";
    assert_eq!(step(tool), step(wait));
    let wait = "wait_for: { signal: contact.reply, on_timeout: fail }";
    let tool = "{ tool: wait_until_reply, args: { on_timeout: fail } }";
    assert_eq!(step(tool), step(wait));
    assert!(step("tool: wait_until_reply").is_ok());
    assert_eq!(
        step("{ tool: wait_until_reply, args: null }"),
        step("tool: wait_until_reply")
    );
    for wrong in [
        "args: { days: 5 }",
        "args: { timeout: 91 days }",
        "args: [5]",
        "args: { on_timeout: continue }",
        "args: { signal: payment }",
        "wait_for: payment",
        "retry: { attempts: 3 }",
        "timeout: 5 days",
    ] {
        let found = step(&format!("{{ tool: wait_until_reply, {wrong} }}"));
        assert!(found.is_err(), "{wrong}: {found:?}");
    }
}
