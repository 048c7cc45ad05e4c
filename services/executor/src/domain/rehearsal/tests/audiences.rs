//! Which users get the requests of a rehearsal.

use holdpoint_contracts::rehearsal::RehearsedRun;
use holdpoint_contracts::run::RunStatus;

use super::{contact, rehearse, run, setup};

/// `name count` for each user.
fn counts(run: &RehearsedRun) -> Vec<String> {
    let users = run.users.iter();
    users
        .map(|(user, count)| format!("{user} {count}"))
        .collect()
}

/// #18: a rehearsal shows how many requests each user gets.
#[test]
fn each_request_counts_once_for_each_user() {
    let agent = r#"
agent: refund
steps:
  - { id: which, ask: { question: "How much?", to: ["@role.finance", "@user.finn"], options: [all, half], timeout: 2d } }
  - { id: pay, tool: own.pay, args: { part: "$which.answer" }, approval: {} }
  - { id: call, tool: create_task, args: { title: Call, assignee: "@role.finance" } }
"#;
    let run = run(agent, "");
    assert_eq!(run.status, RunStatus::Completed, "{}", run.message);
    // `lea` has the role finance and is an owner, who gets the approval.
    assert_eq!(counts(&run), ["finn 2", "lea 3", "olga 1"]);
    assert!(run.empty_roles.is_empty());
}

#[test]
fn a_role_without_a_user_is_shown_and_the_owners_are_asked() {
    let agent =
        r#"{ agent: q, steps: [{ id: which, ask: { question: "Which?", to: "@role.legal" } }] }"#;
    let setup = setup(agent, "");
    let of = |id: &str| rehearse(&setup, &contact(id), &|| true).unwrap().unwrap();
    let rehearsal = setup.rehearsal(vec![of("ada"), of("bob")], 2);
    let summary = rehearsal.summary();
    assert_eq!(summary.requests.get("@role.legal"), Some(&2));
    assert_eq!(summary.empty_roles, ["@role.legal".to_owned()].into());
    let users = summary.users.iter();
    let users: Vec<_> = users.map(|(user, count)| (user.as_str(), *count)).collect();
    assert_eq!(users, [("lea", 2), ("olga", 2)]);
}

/// S0-R1: the request of an inactive user ends at once, and so does its step.
#[test]
fn a_request_to_an_inactive_user_ends_at_once() {
    let agent = |more: &str| {
        format!(
            "agent: h\nsteps:\n  - {{ id: give, handoff: {{ to: [\"@user.gone\", \"@role.finance\"] }}{more} }}\n  - {{ tool: log, args: {{ message: hi }} }}\n"
        )
    };
    let failed = run(&agent(""), "");
    assert_eq!(failed.status, RunStatus::Failed);
    assert_eq!(failed.code.as_deref(), Some("assignee_inactive"));
    assert_eq!(
        failed.message,
        "Handoff failed: User gone not found or inactive in workspace"
    );
    assert_eq!(
        failed.ended_at.unwrap().to_rfc3339(),
        "2026-03-02T09:00:00+00:00"
    );
    assert!(failed.requests.is_empty() && failed.users.is_empty());
    assert_eq!(
        failed.outgoing().count(),
        0,
        "a failed request has no recipient"
    );
    assert!(failed.ended_unseen());
    let goes_on = run(&agent(", on_error: continue"), "");
    assert_eq!(goes_on.status, RunStatus::Completed, "{}", goes_on.message);
    assert_eq!(goes_on.calls.get("log"), Some(&1));
}

#[test]
fn a_task_for_an_inactive_user_is_not_created() {
    let agent = "agent: t\nsteps: [{ tool: create_task, args: { title: Call, assignee: gone } }]";
    let run = run(agent, "");
    assert_eq!(run.code.as_deref(), Some("task_not_created"));
    let inactive = "`assignee`: User gone not found or inactive in workspace";
    assert!(run.message.contains(inactive), "{}", run.message);
    assert!(run.requests.is_empty());
}
