//! Approvals of gated calls: edited arguments, digests, and holds that cannot have items.

use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::Decision;
use holdpoint_contracts::hold::{ApprovalItem, HoldSpec, HoldState, Policy};
use holdpoint_contracts::run::HoldKind;
use serde_json::{Value, json};

use super::world::{World, spec};

const DIGEST: &str = "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4";

fn item() -> ApprovalItem {
    let item = json!({ "id": "step-02", "tool": "payments.refund", "args": { "amount": 250 },
        "digest": DIGEST });
    serde_json::from_value(item).unwrap()
}

fn gated() -> HoldSpec {
    HoldSpec {
        step: Some("step-02".to_owned()),
        items: vec![item()],
        ..spec(HoldKind::Approval)
    }
}

fn asked(spec: HoldSpec) -> World {
    let mut world = World::new();
    let (spec, deadline) = (Box::new(spec), None);
    world.desired_state(1, HoldState::Open { spec, deadline });
    world
}

fn edit(args: Value) -> Decision {
    Decision::Approve {
        comment: Some("half of it".to_owned()),
        edited_args: Some(args),
        digest: Some(DIGEST.to_owned()),
    }
}

fn seen(digest: &str) -> Decision {
    Decision::Approve {
        comment: None,
        edited_args: None,
        digest: Some(digest.to_owned()),
    }
}

/// The message of the only error, which is about the edited arguments.
fn message(refused: &Problem) -> &str {
    assert_eq!(
        (refused.status, refused.code.as_str()),
        (422, "invalid_answer")
    );
    let [error] = refused.errors.as_slice() else {
        panic!("{:?}", refused.errors);
    };
    assert_eq!(
        error.pointer.as_deref(),
        Some("/decision/approve/edited_args")
    );
    &error.message
}

/// S2-R3: people see the call that they approve, with its digest.
#[test]
fn the_request_shows_the_gated_call() {
    let view = asked(gated()).view();
    assert_eq!(view.items, gated().items);
}

/// S2-R4: the run gets the comment and the edited arguments.
#[test]
fn edited_arguments_replace_the_requested_ones() {
    let mut world = asked(gated());
    let edited = json!({ "amount": 125 });
    world.decide_as("ada", edit(edited.clone())).unwrap();
    let closing = world.closed();
    let data = json!({ "comment": "half of it", "edited_args": edited });
    assert_eq!(closing[0].data, data);
    assert_eq!(world.view().response, Some(data));
    let history = world.view().history;
    let note = history.last().unwrap().note.as_deref();
    assert_eq!(note, Some("half of it"));
}

/// Gate, bad input: edited arguments fit the schema of the tool. The refusal names each place, and the request stays open.
#[test]
fn edited_arguments_must_fit_the_schema_of_the_tool() {
    let schema = json!({ "type": "object", "required": ["amount"], "additionalProperties": false,
        "properties": { "amount": { "type": "integer", "maximum": 250 }, "order": { "type": "string" } } });
    let strict = HoldSpec {
        items: vec![ApprovalItem {
            args_schema: Some(schema),
            ..item()
        }],
        ..gated()
    };
    let mut world = asked(strict);
    let edited_args = "/decision/approve/edited_args";
    for (args, places) in [
        (json!({ "amount": 251 }), &["/amount"][..]),
        (json!({ "amount": "all" }), &["/amount"]),
        (json!({ "amount": 1, "order": 7 }), &["/order"]),
        (json!({ "amount": 1.5, "order": 7 }), &["/amount", "/order"]),
        (json!({}), &[""]),
        (json!({ "amount": 1, "to": "eve" }), &[""]),
    ] {
        let refused = world.decide_as("ada", edit(args.clone())).unwrap_err();
        assert_eq!(
            (refused.status, refused.code.as_str()),
            (422, "invalid_answer")
        );
        let errors = refused.errors.iter();
        let mut pointers: Vec<_> = errors.filter_map(|it| it.pointer.clone()).collect();
        pointers.sort();
        let expected: Vec<_> = places
            .iter()
            .map(|it| format!("{edited_args}{it}"))
            .collect();
        assert_eq!(pointers, expected, "{args}");
        assert_eq!(world.view().version, 1, "nothing has changed");
    }
    let fits = json!({ "amount": 250, "order": "o-1" });
    world.decide_as("ada", edit(fits.clone())).unwrap();
    assert_eq!(world.closed()[0].data["edited_args"], fits);
}

/// S2-R4: a voter must not change what the other voters have seen.
#[test]
fn arguments_cannot_be_edited_if_several_people_vote() {
    let mut world = asked(HoldSpec {
        policy: Policy {
            need: 2,
            not_requester: false,
        },
        ..gated()
    });
    let refused = world.decide_as("ada", edit(json!({ "amount": 1 })));
    let refused = refused.unwrap_err();
    assert!(message(&refused).starts_with("2 people must approve the same arguments"));
    assert_eq!(world.view().version, 1, "nothing has changed");
    world.decide_as("ada", seen(DIGEST)).unwrap();
}

/// S2-R4
#[test]
fn an_approval_without_a_call_has_no_arguments_to_edit() {
    let mut world = asked(spec(HoldKind::Approval));
    let decision = Decision::Approve {
        comment: None,
        edited_args: Some(json!({ "amount": 1 })),
        digest: None,
    };
    let refused = world.decide_as("ada", decision).unwrap_err();
    assert!(message(&refused).contains("approve it without `edited_args`"));
}

/// S2-R4
#[test]
fn edited_arguments_are_an_object() {
    for args in [json!([1]), json!("amount"), json!(null)] {
        let refused = asked(gated()).decide_as("ada", edit(args)).unwrap_err();
        assert!(message(&refused).starts_with("expected an object"));
    }
}

/// S2-R3: what was seen is what is approved.
#[test]
fn a_person_who_has_seen_other_arguments_approves_nothing() {
    let mut world = asked(gated());
    let refused = world.decide_as("ada", seen("00ff")).unwrap_err();
    assert_eq!(
        (refused.status, refused.code.as_str()),
        (409, "digest_mismatch")
    );
    assert_eq!(refused.data["digest"], json!(DIGEST));
    assert_eq!(world.view().version, 1, "nothing has changed");
    world.decide_as("ada", seen(DIGEST)).unwrap();
}

/// S2-R3: only a run has calls that it gates.
#[test]
fn a_standalone_hold_has_no_items() {
    let mut world = World::alone();
    let caller = world.caller("bob");
    let standalone = HoldSpec {
        step: None,
        ..gated()
    };
    let refused = world.open_as(caller, standalone, 60_000).unwrap_err();
    assert_eq!(refused.status, 422);
    let pointers: Vec<_> = refused.errors.iter().map(|it| &it.pointer).collect();
    assert_eq!(pointers, [&Some("/spec/items".to_owned())]);
}

fn hiding() -> HoldSpec {
    let schema = json!({ "additionalProperties": false, "properties": {
        "token": { "pattern": "^tok-" }, "amount": { "maximum": 250 }, "cards": {} } });
    HoldSpec {
        items: vec![ApprovalItem {
            args: json!({ "amount": 250, "token": "[redacted]", "cards": [{ "no": "[redacted]" }] }),
            redaction: vec!["args.token".to_owned(), "args.cards.no".to_owned()],
            args_schema: Some(schema),
            ..item()
        }],
        ..gated()
    }
}

/// S2-R2, S2-R4: an approver edits what it sees. What it writes in place of a hidden part is not kept.
#[test]
fn hidden_parts_of_edited_arguments_stay_hidden() {
    let cards = json!([{ "no": "[redacted]" }]);
    for token in ["[redacted]", "tok-mine", "5"] {
        let mut world = asked(hiding());
        let edited = json!({ "amount": 1, "token": token, "cards": cards });
        world.decide_as("ada", edit(edited)).unwrap();
        let kept = json!({ "amount": 1, "token": "[redacted]", "cards": cards });
        assert_eq!(world.closed()[0].data["edited_args"], kept, "{token}");
    }
    for wrong in [
        json!({ "amount": 251, "token": "[redacted]" }),
        json!({ "amount": "[redacted]" }),
        json!({ "amount": 1, "cards": [] }),
        json!({ "amount": 1, "cards": [{ "no": "[redacted]", "of": "Ada" }] }),
    ] {
        let mut world = asked(hiding());
        let refused = world.decide_as("ada", edit(wrong.clone()));
        // A person may drop hidden parts.
        let is_dropped = wrong["cards"] == json!([]);
        assert_eq!(refused.is_ok(), is_dropped, "{wrong}");
    }
}
