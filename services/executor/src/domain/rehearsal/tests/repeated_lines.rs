//! What a line of instructions does that repeats its step.

use holdpoint_contracts::rehearsal::{Outgoing, RehearsedRun};
use holdpoint_contracts::run::RunStatus;

use super::run;

const MAILS: &str = r#"
agent: outreach
instructions: |
  Email contact with subject "S" and body "B" every 2 days until contact replies, at most 5 times
  Log "done"
"#;

/// The hours since the start at which a tool is called.
fn hours(run: &RehearsedRun, wanted: &str) -> Vec<i64> {
    assert_eq!(run.status, RunStatus::Completed, "{}", run.message);
    let start = "2026-03-02T09:00:00Z".parse::<chrono::DateTime<chrono::Utc>>();
    let start = start.unwrap();
    let calls = run.timeline.iter().filter(
        |event| matches!(&event.outgoing, Some(Outgoing::Call { tool, .. }) if tool == wanted),
    );
    calls.map(|event| (event.at - start).num_hours()).collect()
}

/// An agent with one instruction, and a line after it.
fn agent(line: &str) -> String {
    format!("agent: a\ninstructions: |\n  {line}\n  Log \"done\"\n")
}

#[test]
fn without_a_reply_all_mails_go_out() {
    let run = run(MAILS, "");
    assert_eq!(hours(&run, "send_email"), [0, 48, 96, 144, 192]);
    // No pause follows the last mail.
    assert_eq!(hours(&run, "log"), [192]);
}

#[test]
fn a_reply_ends_the_mails_at_once() {
    let run = run(MAILS, "contacts: [{ after: 50h, set: { replied: true } }]");
    assert_eq!(hours(&run, "send_email"), [0, 48]);
    assert_eq!(hours(&run, "log"), [50]);
}

#[test]
fn a_reply_before_the_line_sends_nothing() {
    let later = MAILS.replace("  Email", "  Wait 1 day\n  Email");
    let early = "contacts: [{ after: 1h, set: { replied: true } }]";
    assert_eq!(hours(&run(&later, early), "send_email"), [0i64; 0]);
    assert_eq!(hours(&run(&later, early), "log"), [24]);
}

#[test]
fn a_reply_before_the_first_pause_ends_the_mails() {
    let at_the_end = "contacts: [{ after: 4d, set: { replied: true } }]";
    assert_eq!(hours(&run(MAILS, at_the_end), "send_email"), [0, 48]);
}

/// The contact does not read as replied after these, and no further mail goes out.
#[test]
fn a_reply_counts_also_if_the_contact_changes_again() {
    for data in ["", ", data: { by: phone }", ", data: null"] {
        let by_operator = format!("signals: [{{ signal: contact.reply, after: 50h{data} }}]");
        let run_by_operator = run(MAILS, &by_operator);
        assert_eq!(hours(&run_by_operator, "send_email"), [0, 48], "{data}");
        assert_eq!(hours(&run_by_operator, "log"), [50], "{data}");
    }
    let back = "contacts: [{ after: 50h, set: { replied: true } }, { after: 51h, set: { replied: false } }]";
    assert_eq!(hours(&run(MAILS, back), "send_email"), [0, 48]);
}

#[test]
fn calls_end_with_the_result_that_fits() {
    let line =
        "Call orders.find as find every 1 hour until $find.status is \"paid\", at most 24 times";
    let result =
        |step: &str, status: &str| format!("{{ step: {step}, result: {{ status: {status} }} }}");
    // A rule for `find` fits all times.
    let script = format!(
        "tools: [{}, {}]",
        result("find-3", "paid"),
        result("find", "open")
    );
    let paid = run(&agent(line), &script);
    assert_eq!(hours(&paid, "orders.find"), [0, 1, 2]);
    assert_eq!(hours(&paid, "log"), [2]);
    let open = run(&agent(line), "tools: [{ result: { status: open } }]");
    assert_eq!(hours(&open, "orders.find").len(), 24);
    let at_once = run(&agent(line), "tools: [{ result: { status: paid } }]");
    assert_eq!(hours(&at_once, "orders.find"), [0]);
}

/// `$find-2` is null here, so the condition on it alone would not hold.
#[test]
fn a_skipped_call_ends_the_calls_for_good() {
    let line =
        "Call x as find every 1 hour until $find.n is 1 and contact.ok is yes, at most 9 times";
    let script = "
tools: [{ tool: x, result: { n: 1 } }]
contacts: [{ after: 30m, set: { ok: true } }, { after: 90m, set: { ok: false } }]";
    let run = run(&agent(line), script);
    assert_eq!(hours(&run, "x"), [0]);
    assert_eq!(hours(&run, "log"), [1]);
}

#[test]
fn calls_end_when_the_contact_has_changed() {
    let line =
        "Repeat at most 4 times, every 1 day, until contact.stage is \"won\": call crm.check";
    let never = run(&agent(line), "");
    assert_eq!(hours(&never, "crm.check"), [0, 24, 48, 72]);
    let won =
        "contacts: [{ after: 30h, set: { stage: won } }, { after: 49h, set: { stage: lost } }]";
    let won = run(&agent(line), won);
    assert_eq!(hours(&won, "crm.check"), [0, 24]);
    assert_eq!(hours(&won, "log"), [48]);
}

/// A failure that continues is a time like any other.
#[test]
fn a_failed_call_that_continues_is_followed_by_the_next() {
    let line =
        "Call x, if it fails continue, every 1 hour until contact.ok is yes, at most 3 times";
    let run = run(&agent(line), "tools: [{ tool: x, fail: down }]");
    assert_eq!(hours(&run, "x"), [0, 1, 2]);
}

/// A later line reads the last result, and a branch on it works.
#[test]
fn later_lines_read_the_last_result() {
    for times in [2, 50] {
        let agent = format!(
            "agent: a\ninstructions: |
  Call x as find every 1 hour until $find.n is 2 or contact.ok is yes, at most {times} times
  If $find.n is 2, log $find.text
  Otherwise, log \"not {{{{ $find.n }}}}\""
        );
        let said = |script: &str| {
            let run = run(&agent, script);
            assert_eq!(run.status, RunStatus::Completed, "{}", run.message);
            let last = run.outgoing().last().cloned();
            let Some(Outgoing::Call { args, .. }) = last else {
                panic!("{last:?}");
            };
            (args["message"].clone(), run.calls["x"])
        };
        let second = "tools: [{ step: find-2, result: { n: 2, text: here } }, { tool: x, result: { n: 1 } }]";
        assert_eq!(said(second), ("here".into(), 2));
        let never = "tools: [{ tool: x, result: { n: 1 } }]";
        assert_eq!(said(never), ("not 1".into(), times));
    }
}

/// A reply without a positive tone is not an interested contact.
#[test]
fn a_negated_condition_makes_no_warm_lead() {
    let text = "agent: a\ninstructions: |\n  Log \"f\" every 2 days until contact replies positively, at most 3 times\n  Hand off to @user.nina\n";
    let script =
        "contacts: [{ after: 1h, set: { replied: true } }]\npeople: [{ step: step-06, after: 1h }]";
    let handed = run(text, script);
    let is_warm = |event: &holdpoint_contracts::rehearsal::RehearsedEvent| {
        format!("{event:?}").contains("Warm lead")
    };
    assert!(handed.timeline.len() > 3, "{handed:?}");
    assert!(!handed.timeline.iter().any(is_warm), "{handed:?}");
}
