//! Rehearsals of small agents.

mod audiences;
mod child_runs;
mod generated_plans;
mod limits;
mod policies;
mod registered_tools;
mod repeated_lines;
mod standing_approvals;

use chrono::{DateTime, Utc};
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::rehearsal::{Outgoing, RehearsalContact, RehearsalLimit, RehearsedRun};
use holdpoint_contracts::run::{HoldKind, RunStatus};
use serde_json::{Value, json};

use super::audience::ActiveUsers;
use super::child_plans::ChildPlans;
use super::policies::Policies;
use super::rehearse;
use super::script::Script;
use super::setup::{RehearsalSetup, WorkspaceFacts};
use super::standing_approvals::StandingApprovals;
use crate::domain::plan::Plan;

const OUTREACH: &str = r#"
agent: outreach
instructions: |
  Send an email to {{ contact.email }} with subject "Hello" and text "Shall we talk?"
  Wait 5 days
  If no reply, send an email to {{ contact.email }} with subject "Again" and text "Still there?"
  Hand off to @user.salesRep
"#;

fn plan(text: &str) -> Plan {
    Plan::compile(text).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"))
}

/// The active users with their roles.
const USERS: [(&str, &[&str]); 5] = [
    ("finn", &["finance"]),
    ("lea", &["owner", "finance"]),
    ("nina", &[]),
    ("olga", &["owner"]),
    ("salesRep", &["sales"]),
];

fn facts() -> WorkspaceFacts {
    let users = USERS.iter().map(|(name, roles)| {
        let roles = roles.iter().map(|role| role.parse().unwrap());
        (name.parse().unwrap(), roles.collect())
    });
    WorkspaceFacts {
        workspace: "acme".parse().unwrap(),
        tools: Vec::new(),
        users: ActiveUsers::new(users),
        policies: Policies::default(),
        standing_approvals: StandingApprovals::default(),
        child_plans: ChildPlans::new(),
    }
}

fn setup(text: &str, script: &str) -> RehearsalSetup {
    setup_in(facts(), text, script)
}

fn setup_in(facts: WorkspaceFacts, text: &str, script: &str) -> RehearsalSetup {
    let plan = plan(text);
    let script = Script::parse(script, &plan, &facts.child_plans);
    let script = script.unwrap_or_else(|error| panic!("{error}"));
    let start_at = "2026-03-02T09:00:00Z".parse().unwrap();
    RehearsalSetup::new(facts, plan, script, start_at).unwrap()
}

fn contact(id: &str) -> RehearsalContact {
    let fields = json!({
        "email": format!("{id}@x.example"), "replied": false, "place": { "city": "Lisbon" },
    });
    RehearsalContact {
        id: id.parse().unwrap(),
        fields: fields.as_object().unwrap().clone(),
    }
}

fn run(text: &str, script: &str) -> RehearsedRun {
    let run = rehearse(&setup(text, script), &contact("ada"), &|| true);
    run.unwrap_or_else(|error| panic!("{error}")).unwrap()
}

fn subjects(run: &RehearsedRun) -> Vec<&str> {
    let calls = run.outgoing().filter_map(|it| match it {
        Outgoing::Call { args, .. } => args["subject"].as_str(),
        Outgoing::Request { .. }
        | Outgoing::ApprovedInAdvance { .. }
        | Outgoing::Escalation { .. }
        | Outgoing::ChildRun { .. } => None,
    });
    calls.collect()
}

/// S0-AC5, #18: every mail and every request is shown, on a clock of its own.
#[test]
fn the_four_lines_of_the_readme_are_rehearsed() {
    let run = run(OUTREACH, "");
    assert_eq!(run.status, RunStatus::Completed, "{}", run.message);
    assert_eq!(subjects(&run), ["Hello", "Again"]);
    let Some(Outgoing::Request { request, to, .. }) = run.outgoing().last() else {
        panic!("{:?}", run.timeline);
    };
    assert_eq!(
        (*request, &to[..]),
        (HoldKind::Handoff, &["@user.salesRep".to_owned()][..])
    );
    assert_eq!(run.steps_reached.len(), 4);
    // Five days, and the hour in which a person completes the handoff.
    let ended_at = run.ended_at.unwrap().to_rfc3339();
    assert_eq!(ended_at, "2026-03-07T10:00:00+00:00");
    assert!(!run.ended_unseen());
}

#[test]
fn a_contact_that_replies_gets_no_second_mail() {
    let script = "contacts: [{ after: 2d, set: { replied: true } }]";
    let run = run(OUTREACH, script);
    assert_eq!(subjects(&run), ["Hello"]);
    assert_eq!(run.steps_reached.len(), 3);
    assert_eq!(run.status, RunStatus::Completed);
}

/// A tool of the run may set the reply for which another step waits.
#[test]
fn a_call_that_sets_the_reply_ends_the_wait_for_it() {
    let agent = r#"
agent: reply
steps:
  - { id: reply, wait_for: { signal: contact.reply, timeout: 30d } }
  - { id: later, wait: 1 day, needs: [] }
  - { id: note, tool: update_contact, args: { set: { replied: true } }, needs: [later] }
"#;
    let run = run(agent, "");
    assert_eq!(run.status, RunStatus::Completed, "{}", run.message);
    let ended_at = run.ended_at.unwrap().to_rfc3339();
    assert_eq!(ended_at, "2026-03-03T09:00:00+00:00");
}

/// Words 7: the entry of a wait has the instant at which it ends.
#[test]
fn an_entry_of_a_wait_says_until_when() {
    let run = run("agent: w\nsteps: [{ wait: 5 days }]", "");
    let until: Vec<_> = run.timeline.iter().filter_map(|it| it.until).collect();
    assert_eq!(
        until,
        ["2026-03-07T09:00:00Z".parse::<DateTime<Utc>>().unwrap()]
    );
}

/// The condition after a wait sees a change at the instant at which the wait ends.
#[test]
fn a_change_at_the_end_of_a_wait_counts() {
    let script = "contacts: [{ after: 5d, set: { replied: true } }]";
    assert_eq!(subjects(&run(OUTREACH, script)), ["Hello"]);
}

#[test]
fn a_rule_counts_only_for_its_contact() {
    let script = "contacts: [{ contact: bob, after: 2d, set: { replied: true } }]";
    let setup = setup(OUTREACH, script);
    let run = |id: &str| rehearse(&setup, &contact(id), &|| true).unwrap().unwrap();
    assert_eq!(subjects(&run("ada")).len(), 2);
    assert_eq!(subjects(&run("bob")).len(), 1);
}

#[test]
fn a_failed_call_is_retried_as_in_a_real_run() {
    let agent = r#"
agent: pay
steps:
  - { id: charge, tool: own.pay, args: { n: 1 }, retry: { attempts: 3, backoff: 1m } }
"#;
    let twice = run(
        agent,
        "tools: [{ step: charge, times: 2, fail: The server answered 503. }]",
    );
    assert_eq!(twice.status, RunStatus::Completed, "{}", twice.message);
    assert_eq!(twice.outgoing().count(), 3);
    let always = run(
        agent,
        "tools: [{ tool: own.pay, fail: down, code: http_status }]",
    );
    assert_eq!(always.status, RunStatus::Failed);
    assert_eq!(always.code.as_deref(), Some("http_status"));
    assert!(always.ended_unseen());
}

#[test]
fn people_decide_as_the_script_says() {
    let agent = r#"
agent: refund
steps:
  - { id: which, ask: { question: "How much?", to: "@role.finance", options: [all, half], timeout: 2d } }
  - { id: pay, tool: own.pay, args: { part: "$which.answer" }, approval: {} }
"#;
    let approved = run(agent, "people: [{ step: which, answer: half, after: 3h }]");
    assert_eq!(
        approved.status,
        RunStatus::Completed,
        "{}",
        approved.message
    );
    let paid = approved.outgoing().find_map(|it| match it {
        Outgoing::Call { args, .. } => Some(args),
        Outgoing::Request { .. }
        | Outgoing::ApprovedInAdvance { .. }
        | Outgoing::Escalation { .. }
        | Outgoing::ChildRun { .. } => None,
    });
    assert_eq!(paid, Some(&json!({ "part": "half" })));
    let rejected = run(
        agent,
        "people: [{ kind: approval, do: reject, comment: Too much }]",
    );
    assert!(
        !rejected
            .outgoing()
            .any(|it| matches!(it, Outgoing::Call { .. }))
    );
    let silent = run(agent, "people: [{ do: nothing }]");
    assert_eq!(silent.status, RunStatus::Failed);
    assert_eq!(silent.timeline.last().unwrap().kind, EventType::RunFailed);
}

#[test]
fn a_run_that_nothing_ends_is_shown_as_it_waits() {
    let agent = "agent: pay\nsteps: [{ id: pay, tool: own.pay, approval: {} }]";
    let run = run(agent, "people: [{ do: nothing }]");
    assert_eq!(
        (run.status, run.ended_at),
        (RunStatus::AwaitingApproval, None)
    );
}

#[test]
fn children_of_a_fan_out_are_shown_by_their_calls() {
    let agent = r#"
agent: many
steps:
  - { id: mail, tool: log, args: { message: "$item" }, for_each: [a, b, c] }
"#;
    let run = run(agent, "tools: [{ step: mail-1, fail: no }]");
    let said = run.timeline.iter().filter(|it| it.outgoing.is_some());
    let said: Vec<_> = said.map(|it| it.step.as_deref().unwrap()).collect();
    assert_eq!(said, ["mail-0", "mail-1", "mail-2", "mail-1", "mail-1"]);
    assert_eq!(run.status, RunStatus::Failed);
}

#[test]
fn child_runs_end_as_the_script_says() {
    let agent = r#"
agent: parent
steps:
  - { id: check, run: { agent: checker, input: { n: 1 } } }
  - { id: done, tool: log, args: { message: "$check.output.grade" } }
"#;
    let run = run(agent, "tools: [{ agent: checker, result: { grade: A } }]");
    let sent: Vec<&Outgoing> = run.outgoing().collect();
    assert!(matches!(sent[0], Outgoing::ChildRun { agent } if agent.as_str() == "checker"));
    assert!(matches!(sent[1], Outgoing::Call { args, .. } if args["message"] == "A"));
    assert_eq!(run.status, RunStatus::Completed, "{}", run.message);
}

#[test]
fn a_signal_of_the_script_wakes_the_run() {
    let agent = "agent: pay\nsteps: [{ id: paid, wait_for: { signal: payment, timeout: 30d } }]";
    let run = run(
        agent,
        "signals: [{ signal: payment, after: 3d, data: { n: 1 } }]",
    );
    assert_eq!(
        run.ended_at.unwrap().to_rfc3339(),
        "2026-03-05T09:00:00+00:00"
    );
}

#[test]
fn built_in_tools_change_the_rehearsed_contact() {
    let agent = r#"
agent: marks
steps:
  - { tool: add_tag, args: { tag: vip } }
  - { tool: update_contact, args: { set: { score: 7, place: { zip: "1" } } } }
  - { tool: update_contact, args: { contact: other, set: { score: 1 } } }
  - { id: seen, tool: log, when: "contact.tags == ['vip'] && contact.score == 7 && contact.place.city == 'Lisbon'", args: { message: hi } }
"#;
    // A patch keeps what it does not name, however deep.
    let run = run(agent, "contacts: [{ after: 1s, set: { x: 1 } }]");
    assert_eq!(run.status, RunStatus::Completed, "{}", run.message);
    assert!(run.steps_reached.iter().any(|step| step == "seen"));
    let refused = self::run(
        "agent: a\nsteps: [{ tool: add_tag, args: { tag: \"a\\nb\" } }]",
        "",
    );
    assert_eq!(refused.code.as_deref(), Some("invalid_args"));
    assert_eq!(
        refused.calls.get("add_tag"),
        Some(&1),
        "it is not tried again"
    );
}

/// Every built-in tool has a result, with the fields of docs/tools.md.
#[test]
fn built_in_tools_return_their_documented_fields() {
    let documented = include_str!("../../../../../docs/tools.md");
    for name in crate::domain::tool::BUILT_IN {
        let args = json!({ "tag": "vip", "set": { "a": 1 }, "message": "m", "to": "t", "url": "http://x.example",
            "subject": "s", "body": "b", "title": "t", "fields": { "a": 1 } });
        let agent = json!({ "agent": "a", "steps": [
            { "id": "call", "tool": name, "args": args },
            { "id": "seen", "tool": "log", "args": { "message": "$call" } },
        ] });
        let run = run(&agent.to_string(), "");
        let Some(Outgoing::Call { args: seen, .. }) = run.outgoing().last() else {
            panic!("{name}: {:?}", run.timeline);
        };
        let mut rows = documented.lines().filter(|line| line.starts_with("| `"));
        let quoted = format!("`{name}`");
        let row = rows.find(|line| line.split('|').nth(1).unwrap().contains(&quoted));
        let row = row.unwrap_or_else(|| panic!("{name} has no row"));
        let fields = row.split('|').nth(3).unwrap();
        let fields = fields.split('`').skip(1).step_by(2);
        for field in
            fields.filter(|field| field.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
        {
            assert!(
                seen["message"].get(field).is_some(),
                "{name}: {field} in {seen}"
            );
        }
    }
}

#[test]
fn a_run_that_keeps_too_much_is_stopped() {
    let items: Vec<u32> = (0..5_000).collect();
    let agent = json!({ "agent": "many", "steps": [
        { "id": "big", "tool": "own.big", "for_each": items, "parallel": 100 },
    ] });
    let zeros = vec![0; 20_000];
    let script = json!({ "tools": [{ "result": zeros }] });
    let run = run(&agent.to_string(), &script.to_string());
    assert_eq!(run.stopped_by, Some(RehearsalLimit::Memory));
    assert_eq!(run.ended_at, None);
}

#[test]
fn a_created_task_is_a_request_to_its_assignee() {
    let agent = "agent: t\nsteps: [{ tool: create_task, args: { title: Call, assignee: nina } }]";
    let run = run(agent, "");
    assert_eq!(
        run.requests.get("@user.nina"),
        Some(&1),
        "{:?}",
        run.requests
    );
    assert!(!run.ended_unseen());
}

/// #18: the same rehearsal has the same result.
#[test]
fn a_rehearsal_can_be_repeated() {
    let script = "contacts: [{ after: 2d, set: { replied: true } }]";
    assert_eq!(run(OUTREACH, script), run(OUTREACH, script));
}

#[test]
fn a_report_counts_over_all_contacts() {
    let setup = setup(
        OUTREACH,
        "contacts: [{ after: 2d, set: { replied: true } }]",
    );
    let of = |id: &str| rehearse(&setup, &contact(id), &|| true).unwrap().unwrap();
    let rehearsal = setup.rehearsal(vec![of("ada"), of("bob")], 2);
    let summary = rehearsal.summary();
    assert_eq!(summary.unreached_steps, ["step-03"]);
    assert_eq!(summary.calls.get("send_email"), Some(&2));
    assert_eq!(summary.requests.get("@user.salesRep"), Some(&2));
    assert!(summary.ended_unseen.is_empty() && summary.unended.is_empty());
}

#[test]
fn a_rehearsal_stops_when_its_time_is_over() {
    let setup = setup(OUTREACH, "");
    assert_eq!(rehearse(&setup, &contact("ada"), &|| false), Ok(None));
}

#[test]
fn an_answer_that_the_question_does_not_take_is_refused() {
    let agent =
        "agent: q\nsteps: [{ id: which, ask: { question: Which?, options: [a, b], timeout: 1d } }]";
    for (script, error) in [
        (
            "people: [{ step: which, answer: c }]",
            "the answer to which: ",
        ),
        (
            "people: [{ step: which, do: approve }]",
            "`do` of the request of which is `answer` or `nothing`",
        ),
    ] {
        let found = rehearse(&setup(agent, script), &contact("ada"), &|| true).unwrap_err();
        assert!(found.starts_with(error), "{found}");
    }
}

#[test]
fn a_wrong_script_says_where_it_is_wrong() {
    let plan = plan(OUTREACH);
    for (script, error) in [
        (
            "people: [{ step: step-9 }]",
            "the agent has no step `step-9`",
        ),
        ("people: [{ after: soon }]", "`people[0].after`: "),
        (
            "people: [{ step: step-01 }, { did: x }]",
            "`people[1].did`: unknown field",
        ),
        ("tool: []", "`tool`: unknown field `tool`, expected one of"),
        ("[]", "a script is an object"),
        ("a: [", "line 1: "),
        (
            "people: [{ kind: timer }]",
            "`kind` is `approval`, `input` or `handoff`, not `timer`",
        ),
        (
            "tools: [{ tool: send_mail, fail: x }]",
            "no tool `send_mail`; did you mean `send_email`?",
        ),
        (
            "tools: [{ agent: helper, fail: x }]",
            "no run of agent `helper`",
        ),
        (
            "signals: [{ signal: paid, after: 1d }]",
            "no wait for signal `paid`",
        ),
        ("tools: [{ result: 1, fail: x }]", "not both"),
        ("tools: [{ code: x }]", "`code` needs `fail`"),
        ("tools: [{ fail: x, code: \"a b\" }]", "`code` has 1 to 100"),
    ] {
        let found = Script::parse(script, &plan, &ChildPlans::new()).unwrap_err();
        assert!(found.contains(error), "{script}: {found}");
    }
    let long = format!("input: {{ a: \"{}\" }}", "x".repeat(70_000));
    let found = Script::parse(&long, &plan, &ChildPlans::new()).unwrap_err();
    assert!(
        found.starts_with("a script has at most 65536 bytes"),
        "{found}"
    );
}

/// A hostile contact or agent takes bounded time and a bounded timeline.
#[test]
fn a_timeline_is_bounded() {
    let items: Vec<String> = (0..900)
        .map(|n| format!("item {n} {}", "x".repeat(300)))
        .collect();
    let agent = json!({ "agent": "many", "steps": [
        { "id": "say", "tool": "log", "args": { "message": "$item" }, "for_each": items },
    ] });
    let run = run(&agent.to_string(), "");
    assert!(run.events_left > 0);
    // The totals count what is left out.
    assert_eq!(run.calls.get("log"), Some(&900));
    assert!(holdpoint_contracts::size::json_bytes(&run) < 200_000);
    let huge = json!({ "big": "x".repeat(40_000) });
    let agent = json!({ "agent": "one", "steps": [{ "tool": "log", "args": huge }] });
    let run = self::run(&agent.to_string(), "");
    let Some(Outgoing::Call { args, .. }) = run.outgoing().next() else {
        panic!("{:?}", run.timeline);
    };
    assert_eq!(args["omitted"], Value::Bool(true));
}
