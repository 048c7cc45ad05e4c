//! What can become of a contact.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test names what it looks for, and fails on anything else"
)]

use holdpoint_contracts::contact::{Activity, ActivityKind, TAG_CHARS_MAX, TAGS_MAX, TagChange};
use holdpoint_ids::Workspace;
use serde_json::json;

use super::*;
use crate::domain::decision::{Decision, Outcome, Undecided};

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("{other}"),
    }
}

fn ada() -> (Workspace, ContactId) {
    ("acme".parse().unwrap(), "ada".parse().unwrap())
}

fn give(contact: Option<&Contact>, input: &ContactInput) -> Decision {
    let (workspace, id) = ada();
    change_contact(contact, InWorkspace::new(&workspace, &id), input, at())
}

fn decided(contact: Option<&Contact>, input: &ContactInput) -> Contact {
    match give(contact, input) {
        Ok(Outcome::Decided(decision)) => match decision.state {
            Aggregate::Contact(contact) => contact,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn at() -> DateTime<Utc> {
    DateTime::UNIX_EPOCH
}

const fn put_input(fields: Map<String, Value>) -> ContactInput {
    ContactInput::Put {
        fields,
        merge: false,
        silent: false,
    }
}

fn put(value: Value) -> Contact {
    decided(None, &put_input(fields(value)))
}

fn patch(value: Value) -> ContactInput {
    ContactInput::Patch {
        patch: fields(value),
        tags: TagChange::default(),
    }
}

fn tags(add: &[&str], remove: &[&str]) -> ContactInput {
    let owned = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect();
    ContactInput::Patch {
        patch: Map::new(),
        tags: TagChange {
            add: owned(add),
            remove: owned(remove),
        },
    }
}

/// The tags after the change, or the error.
fn after(known: &Contact, input: &ContactInput) -> Result<Value, String> {
    match give(Some(known), input) {
        Ok(Outcome::Decided(decision)) => match decision.state {
            Aggregate::Contact(contact) => Ok(contact.fields["tags"].clone()),
            other => panic!("{other:?}"),
        },
        Ok(Outcome::Unchanged(_)) => Ok(json!("unchanged")),
        Err(Undecided::Refused(refusal)) => {
            assert_eq!(refusal.problem().status, 422);
            Err(refusal.problem().detail)
        }
        other => panic!("{other:?}"),
    }
}

/// Words 5: a change of one tag keeps the others, and the same change again does nothing.
#[test]
fn tags_come_and_go_one_by_one() {
    let none = put(json!({}));
    assert_eq!(after(&none, &tags(&["vip"], &[])), Ok(json!(["vip"])));
    assert_eq!(after(&none, &tags(&[], &["vip"])), Ok(json!("unchanged")));
    let known = put(json!({ "tags": ["eu", "vip", "eu"] }));
    for (add, remove, expected) in [
        (vec![" new ", "vip"], vec![], json!(["eu", "vip", "new"])),
        (vec![], vec!["vip", "x"], json!(["eu"])),
        (vec![], vec!["vip", "eu"], json!([])),
        (vec!["VIP"], vec!["eu"], json!(["vip", "VIP"])),
        (vec!["vip"], vec!["vip"], json!(["eu", "vip"])),
    ] {
        assert_eq!(after(&known, &tags(&add, &remove)), Ok(expected));
    }
    let next = decided(Some(&none), &tags(&["vip"], &[]));
    assert_eq!(after(&next, &tags(&["vip"], &[])), Ok(json!("unchanged")));
    let both = ContactInput::Patch {
        patch: fields(json!({ "tags": ["a"] })),
        tags: TagChange {
            add: vec!["b".to_owned()],
            remove: Vec::new(),
        },
    };
    assert_eq!(after(&known, &both), Ok(json!(["a", "b"])));
}

/// Words 5: tags are bounded, and what is not a list of texts is kept.
#[test]
fn tags_have_limits() {
    let none = put(json!({}));
    let text =
        "invalid tag; expected 1 to 64 characters without line breaks and invisible characters";
    let long = "ü".repeat(TAG_CHARS_MAX + 1);
    for tag in [
        "",
        "  ",
        "a\nb",
        "a\u{2028}b",
        "\u{202E}x",
        "\u{200B}",
        long.as_str(),
    ] {
        assert_eq!(after(&none, &tags(&[tag], &[])), Err(text.to_owned()));
        assert_eq!(after(&none, &tags(&[], &[tag])), Err(text.to_owned()));
    }
    assert!(after(&none, &tags(&[&long[2..]], &[])).is_ok());
    let many: Vec<String> = (0..=TAGS_MAX).map(|number| number.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let refused = Err("101 tags are named; at most 100 are allowed".to_owned());
    assert_eq!(after(&none, &tags(&many, &[])), refused);
    let full = put(json!({ "tags": many[1..] }));
    let refused = Err("the contact would have 101 tags; at most 100 are allowed".to_owned());
    assert_eq!(after(&full, &tags(&["new"], &[])), refused);
    assert!(after(&full, &tags(&["new"], &["1"])).is_ok());
    let over = put(json!({ "tags": many }));
    assert_eq!(after(&over, &tags(&[], &["0"])), Ok(json!(many[1..])));

    let text = "`tags` of the contact is not a list of texts; set it to such a list first";
    for odd in [json!("vip"), json!(["vip", 1]), json!({ "vip": true })] {
        let known = put(json!({ "tags": odd }));
        assert_eq!(after(&known, &tags(&["x"], &[])), Err(text.to_owned()));
    }
}

/// Texts from outside have a limit, and nothing in them that a database refuses.
#[test]
fn what_was_said_is_bounded_and_plain() {
    let known = put(json!({}));
    let say = |subject: &str, text: &str| {
        let input = ContactInput::Say {
            id: "call-1".to_owned(),
            activity: Activity {
                kind: ActivityKind::EmailIn,
                subject: Some(subject.to_owned()),
                text: text.to_owned(),
                at: "2026-03-02T09:00:00Z".parse().unwrap(),
                message_id: Some("<1@x\r\nBcc: eve@x.example>".to_owned()),
            },
            patch: Map::new(),
        };
        give(Some(&known), &input)
    };
    let Ok(Outcome::Decided(decision)) = say("a\0b", "c\0\nd\u{7}") else {
        panic!("refused");
    };
    let [Effect::Activity { activity, .. }] = decision.effects.as_slice() else {
        panic!("{:?}", decision.effects);
    };
    assert_eq!(activity.subject.as_deref(), Some("ab"));
    assert_eq!(activity.text, "c\nd");
    assert_eq!(activity.message_id, None, "it would write a header");
    let long = "x".repeat(SUBJECT_CHARS_MAX + 1);
    let Err(Undecided::Refused(refusal)) = say(&long, "") else {
        panic!("accepted");
    };
    assert_eq!(refusal.problem().status, 413);
    assert!(refusal.problem().detail.starts_with("`subject`"));
}

/// API: the id stands in the route; it is no field.
#[test]
fn what_was_put_is_all_that_is_known() {
    let first = put(json!({ "id": "ada", "email": "ada@x.example" }));
    assert_eq!((first.version, first.deleted), (1, false));
    assert_eq!(first.fields, fields(json!({ "email": "ada@x.example" })));
    let second = decided(Some(&first), &put_input(fields(json!({ "n": 1 }))));
    assert_eq!(second.version, 2);
    assert_eq!(second.fields, fields(json!({ "n": 1 })));
}

/// API: merge patch (RFC 7386).
#[test]
fn a_patch_changes_what_it_names_and_null_removes() {
    let known = put(json!({ "a": 1, "b": { "x": 1, "y": 2 }, "c": 3 }));
    let change =
        json!({ "a": null, "b": { "x": null, "z": 4 }, "c": { "n": null, "m": 1 }, "d": [null] });
    let next = decided(Some(&known), &patch(change));
    let expected = json!({ "b": { "y": 2, "z": 4 }, "c": { "m": 1 }, "d": [null] });
    assert_eq!(next.fields, fields(expected));
}

/// Twice is once.
#[test]
fn the_same_again_changes_nothing() {
    let known = put(json!({ "replied": false }));
    for input in [
        put_input(known.fields.clone()),
        patch(json!(known.fields)),
        patch(json!({})),
    ] {
        let verdict = give(Some(&known), &input);
        assert!(
            matches!(verdict, Ok(Outcome::Unchanged(Reply::Contact(_)))),
            "{verdict:?}"
        );
    }
}

/// API: what is forgotten is as if it had never been, until it is put again.
#[test]
fn a_forgotten_contact_is_not_found_and_can_come_back() {
    let known = put(json!({ "email": "ada@x.example" }));
    let gone = decided(Some(&known), &ContactInput::Delete);
    assert!(gone.deleted && gone.fields.is_empty());
    for input in [ContactInput::Delete, patch(json!({}))] {
        for state in [None, Some(&gone)] {
            let verdict = give(state, &input);
            let not_found = matches!(
                verdict,
                Err(Undecided::Refused(Refusal::ContactNotFound(_)))
            );
            assert!(not_found, "{verdict:?}");
        }
    }
    let back = decided(Some(&gone), &put_input(Map::new()));
    assert_eq!((back.deleted, back.version), (false, 3));
}

/// STYLE 12: a contact has a limit, and a patch cannot get round it.
#[test]
fn more_than_a_contact_may_hold_is_refused() {
    let half = "x".repeat(CONTACT_BYTES_MAX / 2);
    let known = put(json!({ "one": half }));
    let verdict = give(Some(&known), &patch(json!({ "two": half })));
    let Err(Undecided::Refused(refusal @ Refusal::ContactTooLarge { .. })) = verdict else {
        panic!("{verdict:?}");
    };
    assert_eq!(refusal.problem().status, 413);
}

/// The events of a change: kind, name of the deal, number of further deals, and recipients.
fn events(
    contact: Option<&Contact>,
    input: &ContactInput,
) -> Vec<(&'static str, String, u64, Vec<String>)> {
    let decision = match give(contact, input) {
        Ok(Outcome::Decided(decision)) => decision,
        Ok(Outcome::Unchanged(_)) => return Vec::new(),
        other => panic!("{other:?}"),
    };
    let Aggregate::Contact(next) = &decision.state else {
        panic!("{:?}", decision.state);
    };
    let effects = decision.effects.iter();
    let events = effects.filter_map(|effect| match effect {
        Effect::ContactEvent { event, .. } => Some(event),
        _ => None,
    });
    let events = events.map(|event| {
        assert_eq!(
            (&event.contact, event.version, event.at),
            (&next.id, next.version, at())
        );
        let deal = event.deal.clone().unwrap_or_default();
        (
            event.kind.as_str(),
            deal,
            event.more_deals,
            event.to.clone(),
        )
    });
    events.collect()
}

fn staged(stage: &str) -> ContactInput {
    patch(json!({ "deal": { "name": "Pilot", "stage": stage } }))
}

/// S0-T4: only the first put of a contact is a new lead, and only if it is not part of a batch.
#[test]
fn a_new_contact_is_a_new_lead_once() {
    let new = put_input(fields(
        json!({ "name": "Ada", "owner": "sam", "deal": { "stage": "won" } }),
    ));
    let lead = vec![("new_lead", String::new(), 0, vec!["@user.sam".to_owned()])];
    assert_eq!(
        events(None, &new),
        lead,
        "a deal that was won before is not reported again"
    );
    let known = decided(None, &new);
    assert_eq!(events(Some(&known), &new), []);
    let other = put_input(fields(
        json!({ "name": "Ada L.", "deal": { "stage": "won" } }),
    ));
    assert_eq!(events(Some(&known), &other), []);
    let gone = decided(Some(&known), &ContactInput::Delete);
    assert_eq!(events(Some(&known), &ContactInput::Delete), []);
    assert_eq!(events(Some(&gone), &new), lead, "it is created again");
    let silent = ContactInput::Put {
        fields: fields(json!({ "deal": { "stage": "lost" } })),
        merge: false,
        silent: true,
    };
    assert_eq!(events(None, &silent), []);
    assert_eq!(
        events(Some(&known), &silent),
        [],
        "nor is a deal of a batch"
    );
}

/// S0-T4: the change of a stage notifies, and a repetition does not.
#[test]
fn a_deal_is_won_or_lost_when_its_stage_changes() {
    let known =
        put(json!({ "owner": " @user.sam ", "deal": { "name": "Pilot", "stage": "demo" } }));
    let kinds = |contact: &Contact, input: &ContactInput| {
        let events = events(Some(contact), input).into_iter();
        events.map(|(kind, ..)| kind).collect::<Vec<_>>()
    };
    for (stage, wanted) in [
        ("won", Some("deal_won")),
        ("Closed Won", Some("deal_won")),
        ("closed-won", Some("deal_won")),
        (" LOST ", Some("deal_lost")),
        ("closed_lost", Some("deal_lost")),
        ("wonderful", None),
        ("proposal", None),
    ] {
        let wanted: Vec<_> = wanted.into_iter().collect();
        assert_eq!(kinds(&known, &staged(stage)), wanted, "{stage}");
        let then = decided(Some(&known), &staged(stage));
        assert_eq!(kinds(&then, &staged(stage)), [""; 0], "{stage} again");
        let renamed = patch(json!({ "note": "x" }));
        assert_eq!(kinds(&then, &renamed), [""; 0], "{stage} and another field");
    }
    let won = decided(Some(&known), &staged("won"));
    assert_eq!(kinds(&won, &staged("closed_won")), [""; 0], "it stays won");
    assert_eq!(kinds(&won, &staged("lost")), ["deal_lost"]);
    let said = ContactInput::Say {
        id: "m-1".to_owned(),
        activity: Activity {
            kind: ActivityKind::Note,
            subject: None,
            text: "She signed.".to_owned(),
            at: at(),
            message_id: None,
        },
        patch: fields(json!({ "deal": { "stage": "won" } })),
    };
    assert_eq!(
        events(Some(&known), &said),
        [(
            "deal_won",
            "Pilot".to_owned(),
            0,
            vec!["@user.sam".to_owned()]
        )]
    );
}

/// Deals of a list are known by id, else by name, whatever their place is.
#[test]
fn deals_of_a_list_are_told_apart() {
    let known = put(json!({ "owner": 7, "deals": [
        { "id": 1, "name": "A", "stage": "won" }, { "name": "B", "stage": "demo" }, { "stage": "lost" }, "x",
    ] }));
    let next = patch(json!({ "deals": [
        { "stage": "lost" }, { "name": "B", "stage": "won" }, { "id": 2, "name": "C\n\u{7}D", "stage": "won" },
        { "id": 1, "name": "A2", "stage": "won" }, { "stage": "lost" }, { "stage": 3 },
    ] }));
    let owners = Vec::<String>::new();
    assert_eq!(
        events(Some(&known), &next),
        [
            ("deal_won", "B".to_owned(), 1, owners.clone()),
            ("deal_lost", String::new(), 0, owners)
        ]
    );
    let long = "ä\n".repeat(500);
    let next = patch(json!({ "deals": [{ "name": long, "stage": "won" }], "owner": "not a name" }));
    let [(_, deal, 0, to)] = &events(Some(&known), &next)[..] else {
        panic!("not one event")
    };
    assert_eq!((deal.chars().count(), to.len()), (100, 0));
}

/// S0-T4: a deal stays the same when its name, its id or its place changes.
#[test]
fn a_deal_that_was_won_before_is_won_once() {
    let won = |deal: Value| {
        let mut deal = deal;
        deal["stage"] = json!("won");
        deal
    };
    let list = |deals: Value| json!({ "deals": deals });
    let many = |from: usize| {
        let deals = (from..150).map(|number| won(json!({ "name": format!("d{number}") })));
        list(deals.collect())
    };
    for (before, after, count) in [
        (
            json!({ "deal": won(json!({ "name": "A" })) }),
            json!({ "deal": { "name": "B" } }),
            0,
        ),
        (
            list(json!([won(json!({ "name": "A" }))])),
            list(json!([won(json!({ "name": "A", "id": 1 }))])),
            0,
        ),
        (
            list(json!([won(json!({ "id": 1 }))])),
            list(json!([won(json!({ "id": "1" }))])),
            0,
        ),
        (
            list(json!([won(json!({ "id": null, "name": "A" }))])),
            list(json!([won(json!({ "id": null, "name": "B" }))])),
            1,
        ),
        (many(0), many(20), 0),
        (json!({}), many(0), 1),
        (
            json!({ "deal": won(json!({ "id": 1 })) }),
            json!({ "deal": { "id": 2 } }),
            1,
        ),
        (
            json!({ "deal": won(json!({})) }),
            json!({ "deal": { "id": 2 } }),
            0,
        ),
        (
            json!({}),
            json!({ "deal": { "stage": "won".repeat(1_000) } }),
            0,
        ),
    ] {
        let known = put(before.clone());
        let found = events(Some(&known), &patch(after.clone()));
        assert_eq!(found.len(), count, "{before} {after}");
    }
}

/// Words 5: an object of a start changes the fields that it has. `null` removes one, and the others stay.
#[test]
fn fields_are_merged_into_a_stored_contact() {
    let merge = |value: Value| ContactInput::Put {
        fields: fields(value),
        merge: true,
        silent: false,
    };
    let given = json!({ "name": "Ada", "owner": "nina", "deal": { "stage": "new", "value": 5 }, "old": null });
    let known = decided(None, &merge(given));
    let stored = json!({ "name": "Ada", "owner": "nina", "deal": { "stage": "new", "value": 5 } });
    assert_eq!(known.fields, fields(stored));
    let given = json!({ "owner": null, "deal": { "stage": "won" }, "replied": true });
    let next = decided(Some(&known), &merge(given));
    let stored = json!({ "name": "Ada", "deal": { "stage": "won", "value": 5 }, "replied": true });
    assert_eq!(next.fields, fields(stored));
    let gone = decided(Some(&next), &ContactInput::Delete);
    let again = decided(Some(&gone), &merge(json!({ "name": "Ada" })));
    assert_eq!(again.fields, fields(json!({ "name": "Ada" })));
}
