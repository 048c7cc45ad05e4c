//! Standing approvals decide rehearsed requests, and their uses are counted (S2-R4, Words 6).

use super::*;

const REFUNDS: &str = r#"
agent: refunds
steps:
  - { id: small, tool: payments.refund, args: { amount: 20 }, approval: { from: "@role.finance" } }
  - { id: large, tool: payments.refund, args: { amount: 900 }, approval: { from: "@role.finance" } }
"#;

/// Calls of up to 100, by this user.
fn approval(number: u32, by: &str, changes: &Value) -> Value {
    let mut approval = json!({
        "id": format!("sa_0192000000007000800000000000000{number}"), "status": "active",
        "agent": "refunds", "tool": "payments.refund", "version": null,
        "args_schema": { "type": "object", "properties": { "amount": { "maximum": 100 } } },
        "max_uses": 3, "used": 0, "reason": null, "created_by": by,
        "created_at": "2026-03-01T09:00:00Z", "expires_at": "2026-04-01T09:00:00Z",
        "revoked_by": null,
    });
    let changes = changes.as_object().unwrap().clone();
    approval.as_object_mut().unwrap().extend(changes);
    approval
}

fn setup_with(agent: &str, approvals: &[Value]) -> RehearsalSetup {
    let views = approvals.iter().cloned();
    let views = views.map(|view| serde_json::from_value(view).unwrap());
    let facts = WorkspaceFacts {
        standing_approvals: StandingApprovals::new(views.collect()),
        ..facts()
    };
    setup_in(facts, agent, "")
}

/// The steps that a standing approval decides, and the number of its use.
fn decided(run: &RehearsedRun) -> Vec<(&str, String, u32)> {
    let events = run.timeline.iter();
    let decided = events.filter_map(|event| match event.outgoing.as_ref()? {
        Outgoing::ApprovedInAdvance { by, number, .. } => {
            Some((event.step.as_deref()?, by.to_string(), *number))
        }
        Outgoing::Call { .. }
        | Outgoing::Request { .. }
        | Outgoing::Escalation { .. }
        | Outgoing::ChildRun { .. } => None,
    });
    decided.collect()
}

fn rehearsed(setup: &RehearsalSetup) -> RehearsedRun {
    rehearse(setup, &contact("ada"), &|| true).unwrap().unwrap()
}

#[test]
fn a_covered_call_is_decided_without_asking() {
    let run = rehearsed(&setup_with(REFUNDS, &[approval(1, "olga", &json!({}))]));
    assert_eq!(run.status, RunStatus::Completed, "{}", run.message);
    assert_eq!(decided(&run), [("small", "olga".to_owned(), 1)]);
    let asked: Vec<_> = run.requests.iter().collect();
    assert_eq!(
        asked,
        [(&"@role.finance".to_owned(), &1)],
        "only the large one"
    );
    assert_eq!(run.calls["payments.refund"], 2);
    // The call starts at once, and the person of the other answers after an hour.
    assert_eq!(
        run.ended_at.unwrap().to_rfc3339(),
        "2026-03-02T10:00:00+00:00"
    );
    assert_eq!(
        run.standing_approvals.values().copied().collect::<Vec<_>>(),
        [1]
    );
}

/// Nobody is asked by a run of which every call is approved in advance.
#[test]
fn a_run_whose_calls_are_all_approved_is_unseen() {
    let any = json!({ "args_schema": { "type": "object" } });
    let run = rehearsed(&setup_with(REFUNDS, &[approval(1, "olga", &any)]));
    assert_eq!(decided(&run).len(), 2);
    assert!(run.requests.is_empty() && run.users.is_empty() && run.ended_unseen());
}

/// Its uses are counted over the contacts of a rehearsal, after those of real runs.
#[test]
fn uses_are_counted_over_all_contacts() {
    let left = json!({ "max_uses": 5, "used": 3 });
    let mut setup = setup_with(REFUNDS, &[approval(1, "olga", &left)]);
    let mut numbers = Vec::new();
    for _ in 0..4 {
        let run = rehearsed(&setup);
        setup.count_uses(&run);
        numbers.extend(decided(&run).into_iter().map(|(_, _, number)| number));
    }
    assert_eq!(numbers, [4, 5], "the others are asked");
}

#[test]
fn only_an_approval_that_covers_the_call_decides_it() {
    for changes in [
        json!({ "agent": "others" }),
        json!({ "tool": "payments.charge" }),
        json!({ "version": "1" }),
        json!({ "status": "revoked" }),
        json!({ "expires_at": "2026-03-02T09:00:00Z" }),
        json!({ "used": 3 }),
        json!({ "created_by": "finn" }),
        json!({ "created_by": "gone" }),
        json!({ "call": {
            "run": "run_01920000000070008000000000000001", "step": "small", "digest": "d" } }),
    ] {
        let run = rehearsed(&setup_with(REFUNDS, &[approval(1, "olga", &changes)]));
        assert_eq!(decided(&run), [], "{changes}");
        assert_eq!(run.requests["@role.finance"], 2, "{changes}");
    }
}

/// Each creator votes once. Without enough of them people are asked.
#[test]
fn a_request_with_several_votes_needs_several_creators() {
    let two = REFUNDS.replace(
        "from: \"@role.finance\"",
        "from: \"@role.finance\", need: 2",
    );
    let of = |by: &[&str]| {
        let approvals = (1..).zip(by);
        let approvals = approvals.map(|(number, by)| approval(number, by, &json!({})));
        rehearsed(&setup_with(&two, &approvals.collect::<Vec<_>>()))
    };
    let run = of(&["olga", "lea"]);
    assert_eq!(decided(&run), [("small", "lea".to_owned(), 1)]);
    assert_eq!(run.standing_approvals.len(), 2);
    for by in [&["olga"][..], &["olga", "olga"]] {
        let run = of(by);
        assert_eq!(decided(&run), [], "{by:?}");
        assert_eq!(
            run.standing_approvals.len(),
            1,
            "the vote of {by:?} is used"
        );
    }
}
