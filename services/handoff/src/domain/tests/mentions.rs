//! Users whom a person names in the text of a decision are notified (S0-T4).

use holdpoint_contracts::handoff::{Completion, Decision, Disposition, OutcomeType};
use holdpoint_contracts::hold::{HoldSpec, HoldState};
use holdpoint_contracts::notification::RequestEventKind::{Decided, Mentioned, Opened};
use holdpoint_contracts::run::HoldKind;
use serde_json::json;

use super::world::{World, respond, spec};

fn asked(spec: HoldSpec) -> World {
    let mut world = World::new();
    let (spec, deadline) = (Box::new(spec), None);
    world.desired_state(1, HoldState::Open { spec, deadline });
    world
}

/// The users of the mentions, in order.
fn mentions(world: &World) -> Vec<String> {
    let events = world.request_events().into_iter();
    let mentions = events.filter(|(kind, _)| *kind == Mentioned);
    mentions.flat_map(|(_, to)| to).collect()
}

#[test]
fn the_text_of_a_decision_names_users() {
    let approval = || asked(spec(HoldKind::Approval));
    let text = "Fine. Please check, @user.bob and @user.ada.".to_owned();
    let approve = Decision::Approve {
        comment: Some(text.clone()),
        edited_args: None,
        digest: None,
    };
    let reject = Decision::Reject {
        reason: text.clone(),
    };
    for decision in [approve, reject] {
        let mut world = approval();
        let before = world.request.as_ref().unwrap().version;
        world.decide_as("ada", decision.clone()).unwrap();
        let kinds: Vec<_> = world
            .request_events()
            .into_iter()
            .map(|(kind, _)| kind)
            .collect();
        assert_eq!(kinds, [Opened, Decided, Mentioned]);
        assert_eq!(mentions(&world), ["@user.bob"], "not the writer");
        assert_eq!(world.request.as_ref().unwrap().version, before + 2);
        world.decide_as("ada", decision).unwrap();
        assert_eq!(mentions(&world).len(), 1, "a repetition notifies no user");
    }
    let mut world = asked(spec(HoldKind::Handoff));
    let notes = Decision::Complete(Completion {
        notes: text,
        outcome_type: OutcomeType::Resolved,
        disposition: Disposition::ReturnToAgent,
    });
    world.decide_as("ada", notes).unwrap();
    assert_eq!(mentions(&world), ["@user.bob"]);
}

/// Options, defaults and fields of a form are texts that agents or contacts may have written.
#[test]
fn only_a_text_of_a_person_names_users() {
    let offered = HoldSpec {
        options: vec!["Ask @user.bob".to_owned()],
        ..spec(HoldKind::Input)
    };
    let mut world = asked(offered);
    world.decide_as("ada", respond("Ask @user.bob")).unwrap();
    assert_eq!(mentions(&world), [""; 0], "an option");
    let free = HoldSpec {
        options: Vec::new(),
        default: Some(json!("Ask @user.bob")),
        question: "Shall @user.bob look?".to_owned(),
        ..spec(HoldKind::Input)
    };
    let mut world = asked(free.clone());
    world.decide_as("ada", respond("Ask @user.bob")).unwrap();
    assert_eq!(mentions(&world), [""; 0], "the default");
    let mut world = asked(free);
    world.decide_as("ada", respond("I ask @user.bob")).unwrap();
    assert_eq!(mentions(&world), ["@user.bob"], "a free answer");
    let form = HoldSpec {
        options: Vec::new(),
        schema: Some(
            json!({ "type": "object", "properties": { "comment": { "type": "string" } } }),
        ),
        ..spec(HoldKind::Input)
    };
    let mut world = asked(form);
    let answer = json!({ "comment": "@user.bob" });
    world
        .decide_as("ada", Decision::Respond { answer })
        .unwrap();
    assert_eq!(mentions(&world), [""; 0], "a field of a form");
}

/// A vote and a late answer are texts of people, too.
#[test]
fn votes_and_late_answers_name_users() {
    let mut two = spec(HoldKind::Approval);
    two.policy.need = 2;
    let mut world = asked(two);
    let approve = |text: &str| Decision::Approve {
        comment: Some(text.to_owned()),
        edited_args: None,
        digest: None,
    };
    world.decide_as("ada", approve("@user.bob?")).unwrap();
    assert_eq!(mentions(&world), ["@user.bob"]);
    world.decide_as("oscar", approve("@user.eve!")).unwrap();
    assert_eq!(mentions(&world), ["@user.bob", "@user.eve"]);
    world.user("late", &["operator"]);
    let reason = "Stop, @user.zoe and @user.bob".to_owned();
    world
        .decide_as("late", Decision::Reject { reason })
        .unwrap_err();
    let once = ["@user.bob", "@user.eve", "@user.zoe"];
    assert_eq!(mentions(&world), once, "a request notifies a user once");
}
