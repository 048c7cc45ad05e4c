//! Steps that wait for a signal, until a date, and that end the run.

use chrono::TimeDelta;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::run::{HoldKind, ResumeMode, RunStatus};
use serde_json::{Value, json};

use super::world::{Heard, World, done, owner};
use crate::domain::RunInput;
use crate::domain::run::{KEPT_SIGNALS_MAX, SIGNAL_BYTES_MAX, SIGNAL_KEYS_MAX, Signal, SignalKey};

const PAID: &str = "
  - id: paid
    wait_for: { signal: payment, timeout: 5 days }
  - id: thanks
    tool: log
    args: { message: \"{{ $paid.amount }} EUR\" }
";

fn signal(name: &str, data: Value) -> RunInput {
    keyed(name, data, None)
}

fn keyed(name: &str, data: Value, key: Option<&str>) -> RunInput {
    RunInput::Signal {
        by: owner(),
        signal: Signal {
            name: name.to_owned(),
            data,
            key: key.map(str::to_owned),
        },
    }
}

fn code(heard: &Heard) -> String {
    match heard {
        Heard::Refused(refusal) => refusal.problem().code,
        other => panic!("{other:?}"),
    }
}

fn is_decided(heard: &Heard) -> bool {
    matches!(heard, Heard::Decided(_))
}

/// Gate 4: a step waits for its signal, and its data is the result.
#[test]
fn a_signal_ends_the_wait_and_is_its_result() {
    let mut world = World::started(PAID);
    let view = world.view();
    assert_eq!(view.status, RunStatus::Waiting);
    assert_eq!(
        view.message,
        "paid: waiting for the signal payment, at most 5 days more."
    );
    let [hold] = view.waiting_on.as_slice() else {
        panic!("{:?}", view.waiting_on);
    };
    assert_eq!((hold.kind, hold.step.as_str()), (HoldKind::Signal, "paid"));
    assert_eq!(hold.until, Some(world.now + TimeDelta::days(5)));
    // It fails then, so it does not go on by itself.
    assert_eq!(view.resume_at, None);
    world.pass(TimeDelta::hours(3));
    assert!(is_decided(
        &world.give(signal("payment", json!({ "amount": 12 })))
    ));
    assert_eq!(world.handed[0].args, json!({ "message": "12 EUR" }));
    world.report("thanks", done(json!({})));
    assert_eq!(world.status(), RunStatus::Completed);
    assert_eq!(
        code(&world.give(signal("payment", json!(null)))),
        "run_final"
    );
}

/// Gate 4: a signal that comes before its step is kept. Each is used once, the oldest first.
#[test]
fn early_signals_are_kept_in_order() {
    let mut world = World::started(
        "
  - wait: 1 day
  - id: first
    wait_for: vote
  - id: second
    wait_for: vote
  - id: third
    wait_for: vote
",
    );
    for n in [1, 2] {
        assert!(is_decided(&world.give(signal("vote", json!(n)))));
    }
    world.fire_next();
    assert_eq!(*world.values["first"], json!(1));
    assert_eq!(*world.values["second"], json!(2));
    assert_eq!(world.status(), RunStatus::Waiting);
    world.give(signal("vote", json!(3)));
    assert_eq!(*world.values["third"], json!(3));
    assert_eq!(world.status(), RunStatus::Completed);
}

/// A row of steps takes kept signals of different names in one decision.
#[test]
fn a_row_of_steps_takes_kept_signals() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let mut steps = "  - wait: 1 day\n".to_owned();
    for name in names {
        steps.push_str(&format!("  - wait_for: {name}\n"));
    }
    let mut world = World::started(&steps);
    for name in names {
        world.give(signal(name, json!(name)));
    }
    world.fire_next();
    assert_eq!(world.status(), RunStatus::Completed);
}

/// Two steps that start in the same decision take one kept signal each.
#[test]
fn steps_side_by_side_take_one_signal_each() {
    let mut world = World::started(
        "
  - id: gate
    wait: 1 day
  - id: left
    needs: [gate]
    wait_for: vote
  - id: right
    needs: [gate]
    wait_for: vote
",
    );
    world.give(signal("vote", json!("l")));
    world.give(signal("vote", json!("r")));
    world.fire_next();
    assert_eq!(*world.values["left"], json!("l"));
    assert_eq!(*world.values["right"], json!("r"));
    assert_eq!(world.status(), RunStatus::Completed);
}

/// Gate 4: a repeated key is ignored, also after the run has ended. With another signal it is a mistake of the sender.
#[test]
fn a_repeated_key_changes_nothing() {
    let mut world = World::started(PAID);
    let paid = || keyed("payment", json!({ "amount": 1 }), Some("tx-1"));
    assert!(is_decided(&world.give(paid())));
    assert!(matches!(world.give(paid()), Heard::Unchanged(_)));
    let other = || keyed("payment", json!({ "amount": 2 }), Some("tx-1"));
    let renamed = || keyed("refund", json!({ "amount": 1 }), Some("tx-1"));
    assert_eq!(code(&world.give(other())), "signal_key_reused");
    assert_eq!(code(&world.give(renamed())), "signal_key_reused");
    world.report("thanks", done(json!({})));
    assert!(matches!(world.give(paid()), Heard::Unchanged(_)));
    assert_eq!(code(&world.give(other())), "signal_key_reused");
    let older: SignalKey = serde_json::from_value(json!("tx-1")).unwrap();
    let signal = Signal {
        name: "payment".to_owned(),
        data: json!(1),
        key: None,
    };
    assert!(
        older.is_of(&signal),
        "a row of an older version has no digest"
    );
}

/// Every limit is named: names, keys, sizes and numbers.
#[test]
fn a_signal_that_no_step_can_use_is_refused() {
    let mut world = World::started("  - wait: 1 day\n  - wait_for: payment\n");
    assert_eq!(
        code(&world.give(signal("paymnet", json!(1)))),
        "unknown_signal"
    );
    let long = "x".repeat(1_000_000);
    let Heard::Refused(refusal) = world.give(signal(&long, json!(1))) else {
        panic!();
    };
    assert!(refusal.problem().detail.len() < 1_000);
    for key in ["", &"k".repeat(201)] {
        let heard = world.give(keyed("payment", json!(1), Some(key)));
        assert_eq!(code(&heard), "invalid_body");
    }
    let large = json!("x".repeat(SIGNAL_BYTES_MAX));
    assert_eq!(code(&world.give(signal("payment", large))), "too_large");
    for n in 0..KEPT_SIGNALS_MAX {
        assert!(is_decided(&world.give(signal("payment", json!(n)))));
    }
    assert_eq!(
        code(&world.give(signal("payment", json!(1)))),
        "too_many_signals"
    );
}

/// The keys of a run are bounded: the oldest one is forgotten.
#[test]
fn a_run_remembers_the_newest_keys() {
    let steps = "  - wait_for: payment\n".repeat(SIGNAL_KEYS_MAX + 2);
    let mut world = World::started(&steps);
    for n in 0..=SIGNAL_KEYS_MAX {
        world.give(keyed("payment", json!(n), Some(&format!("tx-{n}"))));
    }
    assert_eq!(world.run().signals.keys.len(), SIGNAL_KEYS_MAX);
    let mut keys = world.run().signals.keys.iter();
    assert!(keys.all(|key| key.key() != "tx-0"));
}

#[test]
fn without_a_signal_the_step_fails_or_is_skipped() {
    let mut world = World::started(PAID);
    world.fire_next();
    assert_eq!(world.status(), RunStatus::Failed);
    let failure = world.view().failure.unwrap();
    assert_eq!(failure.code, "signal_timeout");
    assert_eq!(
        failure.message,
        "paid: the signal payment did not arrive within 5 days"
    );
    let mut world = World::started(
        "
  - id: paid
    wait_for: { signal: payment, timeout: 1h, on_timeout: skip }
  - tool: log
    args: { message: \"$paid.amount\" }
",
    );
    assert_eq!(
        world.view().resume_at,
        Some(world.now + TimeDelta::hours(1))
    );
    world.fire_next();
    assert_eq!(world.handed[0].args, json!({ "message": null }));
    // Too late: the run has no step left that takes it, so it is kept.
    assert!(is_decided(&world.give(signal("payment", json!(1)))));
}

/// A pause stops the time. A signal completes its step even then, and the next one starts on resume.
#[test]
fn a_pause_stops_the_time_and_takes_signals() {
    let mut world = World::started(PAID);
    world.pass(TimeDelta::days(1));
    world.pause();
    assert_eq!(
        world.view().message,
        "Paused by owner; signal hold has 4 days left."
    );
    world.pass(TimeDelta::days(30));
    world.resume(ResumeMode::Now);
    assert_eq!(
        world.view().waiting_on[0].until,
        Some(world.now + TimeDelta::days(4))
    );
    world.pause();
    assert!(is_decided(
        &world.give(signal("payment", json!({ "amount": 3 })))
    ));
    assert!(world.handed.is_empty());
    world.resume(ResumeMode::Continue);
    assert_eq!(world.handed[0].args, json!({ "message": "3 EUR" }));
}

/// A retry of the run keeps a signal: no program sends it again.
#[test]
fn a_retry_keeps_the_signal() {
    let mut world = World::started(&format!("{PAID}    retry: none\n"));
    world.give(signal("payment", json!({ "amount": 7 })));
    world.report("thanks", super::world::broken());
    assert_eq!(world.status(), RunStatus::Failed);
    let retry = RunInput::Retry {
        by: owner(),
        from: None,
    };
    assert!(is_decided(&world.give(retry)));
    assert_eq!(world.handed[1].args, json!({ "message": "7 EUR" }));
}

/// Gate 4: a date is not moved by a pause.
#[test]
fn a_wait_until_a_date_keeps_its_date() {
    let mut world = World::started("  - wait: \"2026-03-10T09:00\"\n  - wait: 1 day\n");
    let date = Some("2026-03-10T09:00:00Z".parse().unwrap());
    assert_eq!(world.view().resume_at, date);
    assert_eq!(world.view().message, "Agent paused. Will resume in 8 days.");
    for mode in [ResumeMode::Continue, ResumeMode::Restart] {
        world.pause();
        world.pass(TimeDelta::days(2));
        world.resume(mode);
        assert_eq!(world.view().resume_at, date);
    }
    world.pause();
    world.pass(TimeDelta::days(20));
    world.resume(ResumeMode::Continue);
    assert_eq!(world.view().resume_at, Some(world.now + TimeDelta::days(1)));
}

#[test]
fn a_date_that_has_passed_ends_the_wait_at_once() {
    let mut world = World::started("  - wait: 2026-03-01\n  - wait: \"{{ '2 days' }}\"\n");
    assert_eq!(world.view().resume_at, Some(world.now + TimeDelta::days(2)));
    world.fire_next();
    assert_eq!(world.status(), RunStatus::Completed);
}

#[test]
fn a_wait_without_a_valid_end_fails_the_step() {
    for (wait, code) in [
        ("2027-03-01", "wait_too_long"),
        ("\"{{ 'soon' }}\"", "invalid_wait"),
        ("$input.when", "unresolved_placeholder"),
    ] {
        let world = World::started(&format!("  - wait: {wait}\n"));
        assert_eq!(world.view().failure.unwrap().code, code, "{wait}");
    }
}

/// Gate 4: `finish` ends the run, and its summary is the result.
#[test]
fn finish_ends_the_run_and_skips_the_rest() {
    let mut world = World::started(
        "
  - id: slow
    needs: []
    tool: log
    args: { message: hi }
  - id: short
    needs: []
    wait: 1 day
  - id: end
    needs: [short]
    finish: \"{{ contact.email }} did not reply.\"
  - id: never
    needs: [end, slow]
    wait: 1 day
",
    );
    world.fire_next();
    assert_eq!(world.status(), RunStatus::Completed);
    let summary = "ada@x.example did not reply.";
    assert_eq!(world.view().result, Some(json!({ "summary": summary })));
    let skipped = world
        .history
        .iter()
        .filter(|item| item.kind == EventType::StepSkipped);
    let skipped: Vec<_> = skipped.filter_map(|item| item.step.as_deref()).collect();
    assert_eq!(skipped, ["slow", "never"]);
}

#[test]
fn finish_may_fail_the_run() {
    let world = World::started("  - finish: { summary: Over the limit., status: failed }\n");
    let failure = world.view().failure.unwrap();
    assert_eq!(
        (failure.code.as_str(), failure.message.as_str()),
        ("finished_as_failed", "Over the limit.")
    );
}

/// A retry decides about the end again. It neither completes the run nor passes the `finish`.
#[test]
fn a_retry_does_not_pass_a_failed_finish() {
    let mut world = World::started(
        "
  - id: stop
    when: contact.replied == false
    finish: { summary: No reply., status: failed }
  - id: charge
    tool: log
    args: { message: hi }
",
    );
    let retry = || RunInput::Retry {
        by: owner(),
        from: None,
    };
    world.give(retry());
    assert_eq!(world.status(), RunStatus::Failed);
    assert!(world.handed.is_empty());
    world.contact = Some(json!({ "id": "ada", "replied": true }));
    world.give(retry());
    assert_eq!(world.handed[0].step, "charge");
}

#[test]
fn finish_is_skipped_like_any_step() {
    let world = World::started(
        "  - when: contact.replied == true\n    finish: Replied.\n  - wait: 1 day\n",
    );
    assert_eq!(world.status(), RunStatus::Waiting);
}
