//! Answers are hidden in a run as in its requests.

use super::super::testing::request;
use super::*;
use crate::testing::claims;
use holdpoint_contracts::handoff::RequestView;
use holdpoint_contracts::run::Clocks;

fn asked(number: u32, step: Option<&str>, to: &str) -> RequestView {
    let mut asked = request();
    asked.id.number = number;
    asked.step = step.map(str::to_owned);
    asked.to = vec![to.to_owned()];
    (asked.also, asked.assignee, asked.asked_by) = (Vec::new(), None, Vec::new());
    asked
}

fn page(items: Vec<RequestView>) -> Option<Page<RequestView>> {
    Some(items.into())
}

fn item(kind: EventType, step: Option<&str>, message: &str, data: Value) -> HistoryItem {
    HistoryItem {
        seq: 1,
        kind,
        at: chrono::DateTime::UNIX_EPOCH,
        run: request().run.unwrap(),
        step: step.map(str::to_owned),
        message: message.to_owned(),
        data,
    }
}

/// History items about one answer, which alone contains `s3cret`.
fn history() -> Vec<HistoryItem> {
    let id = asked(1, None, "").id;
    vec![
        item(
            EventType::InputAnswered,
            Some("q"),
            "bob answered: s3cret.",
            json!({ "hold": id, "question": "?", "answer": "s3cret", "by": "bob" }),
        ),
        item(
            EventType::RunResumed,
            Some("q"),
            "bob answered: s3cret.",
            json!({ "by": "bob" }),
        ),
        item(
            EventType::HandoffCompleted,
            Some("q"),
            "Handoff completed by bob at noon",
            json!({ "request": id, "by": "bob", "notes": "s3cret" }),
        ),
        item(
            EventType::StepSkipped,
            Some("q"),
            "bob rejected it: s3cret.",
            json!({ "reason": "rejected", "by": "bob", "comment": "s3cret" }),
        ),
        item(
            EventType::StepRevised,
            Some("draft"),
            "bob sent q back: s3cret. draft runs again (revision 1 of 5).",
            json!({ "by": "bob", "instructions": "s3cret", "gated": "q", "revision": 1 }),
        ),
        item(
            EventType::RunAwaitingApproval,
            Some("q"),
            "q needs the approval of bob to call pay.",
            json!({ "request": id, "items": [{ "args": "s3cret" }] }),
        ),
        item(
            EventType::StepSkipped,
            Some("next"),
            "Skipped",
            json!({ "values": { "$q.answer": "s3cret", "contact.replied": true } }),
        ),
    ]
}

/// Mend A-M2: the history hides an answer from the same users as its request.
#[test]
fn an_answer_is_hidden_in_the_history_as_in_its_request() {
    let requests = || {
        page(vec![
            asked(1, Some("q"), "@user.bob"),
            asked(2, Some("r"), "@user.eva"),
        ])
    };
    for (user, roles, requests, is_hidden) in [
        ("eva", &["viewer"][..], requests(), true),
        ("eva", &["member"], requests(), true),
        ("bob", &["member"], requests(), false),
        ("bob", &["member"], None, true),
    ] {
        let hidden = RunRedaction::of(&claims(user, roles), requests, &[]);
        for before in history() {
            let after = hidden.redact_item(before.clone());
            let text = serde_json::to_string(&after).unwrap();
            assert_eq!(text.contains("s3cret"), !is_hidden, "{user}: {text}");
            assert_eq!(after == before, !is_hidden, "{user}: {text}");
            assert!(
                after.kind == EventType::StepSkipped || text.contains("bob"),
                "{text}"
            );
        }
    }
    let hidden = RunRedaction::of(&claims("eva", &["viewer"]), requests(), &[]);
    let wait = item(
        EventType::RunResumed,
        Some("wait"),
        "Going on.",
        json!({ "by": "time" }),
    );
    assert_eq!(hidden.redact_item(wait.clone()), wait);
    let resumed = item(
        EventType::RunResumed,
        None,
        "Resumed.",
        json!({ "mode": "now" }),
    );
    assert_eq!(hidden.redact_item(resumed.clone()), resumed);
}

/// Mend A-M2: what people were asked for before the first step, and what an operator left behind.
#[test]
fn paths_to_answers_are_known() {
    let mut first = asked(1, None, "@user.bob");
    first.reason = Some(MISSING_INPUT.to_owned());
    first.schema = Some(json!({ "properties": { "amount": {} } }));
    let hidden = RunRedaction::of(&claims("eva", &["viewer"]), page(vec![first]), &[]);
    for (path, is_hidden) in [
        ("input.amount", true),
        ("input[\"amount\"]", true),
        ("input", true),
        ("input.order", false),
        ("run.intervention.notes", true),
        ("run.id", false),
        ("contact.replied", false),
        ("$q.answer", false),
    ] {
        assert_eq!(hidden.hides_path(path), is_hidden, "{path}");
    }
}

/// S2-R9: the list of results has the answers that are hidden in a child.
#[test]
fn the_results_of_a_fan_out_hide_what_a_child_hides() {
    let mut handed = asked(1, Some("each-1"), "@user.bob");
    handed.kind = HoldKind::Handoff;
    let hidden = RunRedaction::of(&claims("eva", &["viewer"]), page(vec![handed]), &[]);
    for (step, is_hidden) in [("each", true), ("each-1", true), ("each-2", false)] {
        assert_eq!(hidden.hides(step), is_hidden, "{step}");
        assert_eq!(hidden.handed_off.contains(step), is_hidden, "{step}");
    }
    assert!(hidden.hides_path("$each[1].notes"));
}

/// A parent whose child runs have an output.
fn parent_view() -> RunView {
    let step = |id: &str, kind: &str, data: Value| {
        json!({
            "id": id, "kind": kind, "status": "completed", "tool": null, "action": "",
            "request": null, "error_code": null, "dispatch": 0, "attempts": 0, "claimed_by": null,
            "response": {
                "success": true, "description": "", "error": null, "data": data, "duration_ms": 0,
            },
        })
    };
    let child = || {
        let run = request().run;
        json!({ "run": run, "agent": "helper", "status": "completed", "summary": "Done.", "output": "s3cret" })
    };
    let output = json!({ "summary": "Done.", "output": "s3cret" });
    let view = json!({
        "id": request().run, "agent": "outreach", "version": 1, "status": "completed", "message": "Done.",
        "contact": null, "labels": {}, "waiting_on": [], "paused_by": [], "failure": null,
        "clocks": Clocks::default(), "created_at": "2026-01-01T00:00:00Z", "result": output,
        "steps": [
            step("one", "run", child()),
            step("all", "run", json!([child(), child()])),
            step("end", "finish", output),
        ],
    });
    serde_json::from_value(view).unwrap()
}

/// The parent has no request. Its child run hides the answer that its output contains.
#[test]
fn a_parent_hides_the_outputs_of_its_child_runs() {
    let view = parent_view();
    let hidden = RunRedaction::of(&claims("eva", &["viewer"]), page(vec![]), &view.steps);
    for (path, is_hidden) in [
        ("$one.output", true),
        ("$one.output.answer", true),
        ("$one[\"output\"]", true),
        ("$one", true),
        ("$all[1].output", true),
        ("$all[1]", true),
        ("$all[1].status", false),
        ("$one.summary", false),
        ("$end.summary", false),
    ] {
        assert_eq!(hidden.hides_path(path), is_hidden, "{path}");
    }
    let shown = serde_json::to_string(&hidden.redact_run(view.clone())).unwrap();
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(shown.contains("Done."), "{shown}");
    // Without a child run and a request, the output is the own one.
    let mut own = view;
    own.steps.retain(|step| step.kind == "finish");
    let hidden = RunRedaction::of(&claims("eva", &["viewer"]), page(vec![]), &own.steps);
    assert_eq!(hidden.redact_run(own.clone()), own);
}
