//! Requests whose recipients, time and rungs come from a policy.

use chrono::{DateTime, Utc};
use holdpoint_contracts::hold::RungAct;
use holdpoint_contracts::rehearsal::{Outgoing, RehearsedRun};
use holdpoint_contracts::run::RunStatus;
use serde_json::{Value, json};

use super::super::policies::Policies;
use super::{contact, facts, rehearse, setup_in};

fn run_with(policies: &[Value], agent: &str, script: &str) -> RehearsedRun {
    let mut facts = facts();
    let views = policies.iter().map(|policy| {
        let mut view = json!({ "version": 1, "built_in": false });
        let fields = view.as_object_mut().unwrap();
        fields.extend(policy.as_object().unwrap().clone());
        serde_json::from_value(view).unwrap()
    });
    facts.policies = Policies::new(views.collect());
    let setup = setup_in(facts, agent, script);
    let run = rehearse(&setup, &contact("ada"), &|| true);
    run.unwrap_or_else(|error| panic!("{error}")).unwrap()
}

fn hours(at: DateTime<Utc>) -> i64 {
    (at - "2026-03-02T09:00:00Z".parse::<DateTime<Utc>>().unwrap()).num_hours()
}

/// The rungs with their hours since the start.
fn escalations(run: &RehearsedRun) -> Vec<(i64, RungAct, Vec<&str>)> {
    let events = run.timeline.iter();
    let rungs = events.filter_map(|event| match &event.outgoing {
        Some(Outgoing::Escalation { act, to, .. }) => {
            let to = to.iter().map(String::as_str).collect();
            Some((hours(event.at), *act, to))
        }
        _ => None,
    });
    rungs.collect()
}

fn counts(run: &RehearsedRun) -> Vec<(&str, u64)> {
    let users = run.users.iter();
    users.map(|(name, count)| (name.as_str(), *count)).collect()
}

const REFUND: &str =
    "agent: pay\nsteps: [{ id: pay, tool: own.pay, approval: { policy: refund } }]";

/// S2-R4: the policy states the recipients and the time, as in a real run.
#[test]
fn a_policy_states_recipients_and_time() {
    let policy = json!({ "name": "refund", "kind": "approval", "from": ["@role.finance"], "decide_within": "2h" });
    let run = run_with(&[policy], REFUND, "people: [{ do: nothing }]");
    let Some(Outgoing::Request { to, deadline, .. }) = run.outgoing().next() else {
        panic!("{:?}", run.timeline);
    };
    assert_eq!(to, &["@role.finance"]);
    assert_eq!(hours(deadline.unwrap()), 2);
    let says = |it: &holdpoint_contracts::rehearsal::RehearsedEvent| {
        it.message.contains("as its policy says")
    };
    assert!(run.timeline.iter().any(says), "{:?}", run.timeline);
    // The deadline only escalates: the owners are notified.
    let rungs = escalations(&run);
    assert_eq!(rungs[0], (2, RungAct::Notify, vec![]));
    assert_eq!(counts(&run), [("finn", 1), ("lea", 1), ("olga", 1)]);
    assert_eq!(run.ended_at, None);
}

/// S2-R4: an approval whose policy is unknown is not asked, and its step fails.
#[test]
fn an_approval_without_its_policy_is_not_asked() {
    let unknown = run_with(&[], REFUND, "");
    assert_eq!(unknown.code.as_deref(), Some("policy_unavailable"));
    assert!(unknown.requests.is_empty(), "{:?}", unknown.requests);
    let question = "agent: q\nsteps: [{ id: which, ask: { question: Which?, policy: night } }]";
    let asked = run_with(&[], question, "");
    assert_eq!(asked.requests.keys().collect::<Vec<_>>(), ["@owners"]);
}

#[test]
fn the_time_of_a_policy_ends_a_question() {
    let policy = json!({ "name": "fast", "kind": "approval", "decide_within": "2h" });
    let agent = |time: &str| {
        format!(
            "agent: q\nsteps: [{{ id: which, ask: {{ question: Which?, to: \"@user.nina\", policy: fast{time} }} }}]"
        )
    };
    let silent = "people: [{ do: nothing }]";
    let run = run_with(std::slice::from_ref(&policy), &agent(""), silent);
    assert_eq!(run.status, RunStatus::Failed);
    assert_eq!(hours(run.ended_at.unwrap()), 2);
    let own = run_with(&[policy], &agent(", timeout: 5h"), silent);
    assert_eq!(hours(own.ended_at.unwrap()), 5, "its step has a time");
}

/// S4-R15: the rungs of a policy notify, add and replace users, and end the request.
#[test]
fn the_rungs_of_a_policy_fire() {
    let policy = json!({ "name": "on-call", "kind": "escalation", "rungs": [
        { "after": "1h", "do": "notify", "to": ["@user.nina"], "repeat": { "every": "1h", "times": 1 } },
        { "after": "4h", "do": "broaden", "to": ["@role.finance", "@user.gone"] },
        { "after": "5h", "do": "reassign", "to": ["@role.legal"] },
        { "after": "6h", "do": "fail" },
    ] });
    let agent = "agent: h\nsteps: [{ id: give, handoff: { to: \"@user.nina\", policy: on-call, on_timeout: fail } }]";
    let run = run_with(&[policy], agent, "people: [{ do: nothing }]");
    assert_eq!(
        escalations(&run),
        [
            (1, RungAct::Notify, vec!["@user.nina"]),
            (2, RungAct::Notify, vec!["@user.nina"]),
            (4, RungAct::Broaden, vec!["@role.finance"]),
            (5, RungAct::Reassign, vec![]),
        ]
    );
    assert_eq!(run.status, RunStatus::Failed, "{}", run.message);
    assert_eq!(run.code.as_deref(), Some("human_timeout"));
    assert_eq!(hours(run.ended_at.unwrap()), 6);
    // A reminder is not another request.
    assert_eq!(
        counts(&run),
        [("finn", 1), ("lea", 1), ("nina", 1), ("olga", 1)]
    );
}

#[test]
fn rungs_count_working_time() {
    let policy = json!({ "name": "office", "kind": "escalation",
        "calendar": { "time_zone": "UTC", "from": "09:00", "to": "17:00" },
        "rungs": [{ "after": "10h", "do": "notify", "to": ["@role.finance"] }] });
    let agent = "agent: h\nsteps: [{ id: give, handoff: { to: \"@user.nina\", policy: office, timeout: 0 } }]";
    let run = run_with(&[policy], agent, "people: [{ do: nothing }]");
    // Eight hours on Monday, and two on Tuesday.
    let rungs = escalations(&run);
    assert_eq!(rungs[0], (26, RungAct::Notify, vec!["@role.finance"]));
    assert_eq!(rungs[1].2, [""; 0], "the owners, at last");
    assert_eq!(run.ended_at, None);
}

/// Without a policy, the audience is reminded, and then the owners are notified.
#[test]
fn the_default_ladder_counts() {
    let agent = "agent: h\nsteps: [{ id: give, handoff: { to: \"@user.nina\", timeout: 0 } }]";
    let silent = run_with(&[], agent, "people: [{ do: nothing }]");
    let expected = [
        (24, RungAct::Notify, vec!["@user.nina"]),
        (72, RungAct::Notify, vec![]),
    ];
    assert_eq!(escalations(&silent), expected);
    let answered = run_with(&[], agent, "people: [{ after: 25h }]");
    assert_eq!(escalations(&answered), expected[..1]);
    let by_name = agent.replace("timeout: 0", "timeout: 0, policy: default-input");
    let by_name = run_with(&[], &by_name, "people: [{ do: nothing }]");
    assert_eq!(escalations(&by_name)[0].0, 6);
}

#[test]
fn the_owners_are_asked_too_if_too_few_users_can_decide() {
    let policy = |need: u32| json!({ "name": "refund", "kind": "approval", "from": ["@user.nina"], "need": need });
    let to = |need| {
        let run = run_with(&[policy(need)], REFUND, "");
        assert_eq!(run.status, RunStatus::Completed, "{}", run.message);
        run.requests.keys().cloned().collect::<Vec<_>>()
    };
    // `nina` and both owners.
    assert_eq!(to(3), ["@user.nina"]);
    assert_eq!(to(4), ["@role.owner", "@user.nina"]);
}
