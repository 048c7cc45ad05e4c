//! Holds that belong to no run (M-6).
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test names what it expects; anything else fails it"
)]

use chrono::TimeDelta;
use holdpoint_contracts::handoff::{
    Decision, Effect as DecisionEffect, RequestAction, RequestStatus, RequestView,
};
use holdpoint_contracts::hold::{HoldOutcome, HoldSpec, OnTimeout, Policy, Priority, Task};
use holdpoint_contracts::link::Link;
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::run::HoldKind;
use serde_json::json;

use super::world::{World, hold, input_spec, minute, respond, spec, unsigned};
use crate::domain::{Caller, Reply};

const DAY_MS: u64 = 86_400_000;

fn open(
    world: &mut World,
    caller: Caller,
    spec: HoldSpec,
    timeout_ms: u64,
) -> Result<RequestView, Problem> {
    world.open_as(caller, spec, timeout_ms).map(view_of)
}

fn view_of(answer: Reply) -> RequestView {
    match answer {
        Reply::Request(view) => *view,
        other => panic!("{other:?}"),
    }
}

fn opened(spec: HoldSpec) -> World {
    let mut world = World::alone();
    let caller = world.caller("bob");
    open(&mut world, caller, spec, 60_000).unwrap();
    world
}

/// M-6
#[test]
fn an_answer_to_a_standalone_hold_is_applied_at_once() {
    let mut world = opened(input_spec());
    assert_eq!(world.view().run, None);
    let actions = "respond accept reassign delegate acknowledge snooze withdraw";
    assert_eq!(world.view().actions.join(" "), actions);
    let decided = world.decide_as("ada", respond("yes")).unwrap();
    assert_eq!(decided.effect, DecisionEffect::Applied);
    assert!(decided.request.actions.is_empty());
    assert!(world.closed().is_empty(), "no executor gets a close");
    assert_eq!(world.due(), None, "its timer is cleared");
}

/// M-6
#[test]
fn a_timer_fires_at_its_time() {
    let mut timer = spec(HoldKind::Timer);
    timer.question = String::new();
    let mut world = opened(timer);
    assert_eq!(world.due(), Some(minute(1)));
    world.now = minute(1);
    world.fire();
    let view = world.view();
    assert_eq!(view.outcome, Some(HoldOutcome::Fired));
    assert_eq!(view.effect, Some(DecisionEffect::Applied));
}

/// S3-R7
#[test]
fn there_is_no_pause_without_an_end() {
    let mut world = World::alone();
    for (timeout_ms, fine) in [
        (0, false),
        (999, false),
        (1_000, true),
        (90 * DAY_MS, true),
        (90 * DAY_MS + 1, false),
    ] {
        let mut world = world.clone();
        let caller = world.caller("bob");
        let result = open(&mut world, caller, input_spec(), timeout_ms);
        assert_eq!(result.is_ok(), fine, "{timeout_ms}");
        if let Ok(view) = result {
            let timeout = TimeDelta::milliseconds(i64::try_from(timeout_ms).unwrap());
            assert_eq!(view.deadline, Some(world.now + timeout));
        }
    }
    let caller = world.caller("bob");
    let refused = open(&mut world, caller, input_spec(), 0).unwrap_err();
    assert_eq!(refused.errors[0].pointer.as_deref(), Some("/timeout_ms"));
}

/// S0-R1
#[test]
fn a_named_recipient_must_exist_and_be_active() {
    let mut world = World::alone();
    world.users.get_mut("oscar").unwrap().active = false;
    let caller = world.caller("bob");
    let mut asks = input_spec();
    asks.to = ["@user.oscar", "@user.nobody", "ada", "@role.any"]
        .map(str::to_owned)
        .to_vec();
    let refused = open(&mut world, caller, asks, 60_000).unwrap_err();
    let errors: Vec<_> = refused
        .errors
        .iter()
        .map(|one| (one.pointer.as_deref().unwrap(), one.message.as_str()))
        .collect();
    assert_eq!(
        errors,
        [
            ("/spec/to/2", "expected `@user.<name>` or `@role.<name>`"),
            (
                "/spec/to/0",
                "User oscar not found or inactive in workspace"
            ),
            (
                "/spec/to/1",
                "User nobody not found or inactive in workspace"
            ),
        ]
    );
}

#[test]
fn an_invalid_hold_is_refused_with_its_fields() {
    let pointer = |change: fn(&mut HoldSpec)| {
        let mut world = World::alone();
        let mut spec = input_spec();
        change(&mut spec);
        let caller = world.caller("bob");
        let refused = open(&mut world, caller, spec, 60_000).unwrap_err();
        assert_eq!(refused.status, 422);
        assert_eq!(world.request, None);
        refused
            .errors
            .first()
            .and_then(|one| one.pointer.clone())
            .unwrap_or(refused.code)
    };
    assert_eq!(pointer(|it| it.kind = HoldKind::Handoff), "/spec/options");
    let long = format!("https://x.example/{}", "x".repeat(2_048));
    for url in [
        "x",
        "ftp://x/y",
        "https://",
        "http://a b",
        "http://a/\n",
        &long,
    ] {
        let mut world = World::alone();
        let caller = world.caller("bob");
        let mut spec = input_spec();
        spec.callback = Some(url.to_owned());
        let refused = open(&mut world, caller, spec, 60_000).unwrap_err();
        assert_eq!(refused.errors[0].pointer.as_deref(), Some("/spec/callback"));
    }
    assert_eq!(pointer(|it| it.question = " ".to_owned()), "/spec/question");
    assert_eq!(
        pointer(|it| it.options.push(String::new())),
        "/spec/options"
    );
    assert_eq!(pointer(|it| it.kind = HoldKind::Approval), "/spec/options");
    assert_eq!(
        pointer(|it| it.on_timeout = OnTimeout::Default),
        "/spec/default"
    );
    assert_eq!(
        pointer(|it| it.default = Some(json!("perhaps"))),
        "/spec/default"
    );
    assert_eq!(pointer(|it| it.step = Some("step-01".to_owned())), "/spec");
    assert_eq!(
        pointer(|it| it.context = json!("x".repeat(200_000))),
        "/spec/context"
    );
    let mut of_run = World::new();
    assert_eq!(of_run.id, hold(1));
    let caller = of_run.caller("bob");
    let refused = open(&mut of_run, caller, input_spec(), 60_000).unwrap_err();
    assert_eq!(refused.errors[0].pointer.as_deref(), Some("/id"));
}

#[test]
fn a_repeated_command_opens_nothing_twice() {
    let mut world = opened(input_spec());
    let (bob, ada) = (world.caller("bob"), world.caller("ada"));
    assert_eq!(
        open(&mut world, bob.clone(), input_spec(), 60_000)
            .unwrap()
            .version,
        1
    );
    let mut other = input_spec();
    other.question = "Something else?".to_owned();
    assert_eq!(
        open(&mut world, bob, other, 60_000).unwrap_err().code,
        "already_exists"
    );
    assert_eq!(
        open(&mut world, ada, input_spec(), 60_000)
            .unwrap_err()
            .code,
        "already_exists"
    );
}

/// Mend C-8: a handoff may be asked without an automatic end, nothing else.
#[test]
fn only_a_handoff_may_have_no_end() {
    let mut world = World::alone();
    let handoff = HoldSpec {
        kind: HoldKind::Handoff,
        options: Vec::new(),
        ..input_spec()
    };
    let bob = world.caller("bob");
    let view = open(&mut world, bob, handoff, 0).unwrap();
    assert_eq!((view.deadline, view.status.is_open()), (None, true));
    let mut world = World::alone();
    let bob = world.caller("bob");
    let refused = open(&mut world, bob, input_spec(), 0).unwrap_err();
    assert_eq!(
        (refused.status, &*refused.errors[0].message),
        (422, "expected 1 second to 90 days")
    );
}

/// Issue 4: a withdrawal of an older version is refused.
#[test]
fn a_withdrawal_may_name_the_version_that_the_caller_has_seen() {
    let mut world = opened(input_spec());
    let caller = world.caller("bob");
    world.act("ada", RequestAction::Accept).unwrap();
    let stale = world.withdraw_as(caller.clone(), Some(1)).unwrap_err();
    assert_eq!((stale.status, &*stale.code), (409, "version_conflict"));
    assert_eq!(*stale.data, json!({ "version": 2 }), "the present one");
    assert!(world.withdraw_as(caller.clone(), Some(2)).is_ok());
    assert!(world.withdraw_as(caller, Some(1)).is_ok(), "twice is once");
}

#[test]
fn the_opener_withdraws_a_hold() {
    let mut world = opened(input_spec());
    let withdraw = |world: &mut World, caller: Caller| world.withdraw_as(caller, None).map(view_of);
    let (ada, bob) = (world.caller("ada"), world.caller("bob"));
    assert_eq!(withdraw(&mut world, ada).unwrap_err().status, 403);
    let view = withdraw(&mut world, bob.clone()).unwrap();
    assert_eq!(
        (view.status, view.outcome),
        (RequestStatus::Withdrawn, Some(HoldOutcome::Cancelled))
    );
    assert_eq!(
        withdraw(&mut world, bob.clone()).unwrap().version,
        view.version,
        "twice is once"
    );
    assert_eq!(world.due(), None);
    let mut world = opened(input_spec());
    assert!(
        withdraw(&mut world.clone(), unsigned("script")).is_ok(),
        "its subject's right"
    );
    world.decide_as("ada", respond("yes")).unwrap();
    let late = withdraw(&mut world, bob).unwrap_err();
    assert_eq!(
        (late.code.as_str(), &late.data["late"]),
        ("already_decided", &json!(false))
    );
}

/// S2-R4: an excluded requester must exist, with or without the prefix `@user.`.
#[test]
fn an_excluded_requester_must_exist() {
    let barred = |requester: &str| HoldSpec {
        requester: Some(requester.to_owned()),
        policy: Policy {
            need: 1,
            not_requester: true,
        },
        to: vec!["@user.ada".to_owned(), "@user.bob".to_owned()],
        ..spec(HoldKind::Approval)
    };
    let mut world = opened(barred("@user.bob"));
    let refused = world.decide_as("bob", Decision::approve(None));
    assert_eq!(refused.unwrap_err().code, "not_requester");
    let mut world = World::alone();
    let caller = world.caller("bob");
    let refused = open(&mut world, caller, barred("nobody"), 60_000).unwrap_err();
    let error = &refused.errors[0];
    assert_eq!(error.pointer.as_deref(), Some("/spec/requester"));
    assert!(error.message.contains("User nobody not found"), "{error:?}");
}

/// People, deliverable 3: the secret stays at its owner, and the answer only states that it was entered.
#[test]
fn a_secret_is_entered_at_a_link() {
    let by_link = |url: &str| HoldSpec {
        options: Vec::new(),
        link: Some(Link {
            url: url.to_owned(),
            label: None,
        }),
        ..input_spec()
    };
    let vault = "https://vault.example/new";
    let mut world = opened(by_link(vault));
    let view = world.view();
    assert_eq!(view.link, by_link(vault).link);
    assert_eq!(view.options, ["done", "declined"]);
    let refused = world.decide_as("ada", respond("hunter2")).unwrap_err();
    assert_eq!((refused.status, &*refused.code), (422, "invalid_answer"));
    let text = serde_json::to_string(&refused).unwrap();
    assert!(
        !text.contains("hunter2"),
        "the refusal repeats the secret: {text}"
    );
    let decided = world.decide_as("ada", respond("done")).unwrap();
    assert_eq!(decided.request.response, Some(json!("done")));

    let mut world = opened(by_link(vault));
    let declined = world.decide_as("ada", respond("declined")).unwrap();
    assert_eq!(declined.request.response, Some(json!("declined")));

    let schema =
        json!({"type": "object", "properties": {"key": {"type": "string", "format": "password"}}});
    for (spec, pointer) in [
        (by_link("http://vault.example/"), "/spec/link/url"),
        (
            HoldSpec {
                options: vec!["yes".to_owned(), "no".to_owned()],
                ..by_link(vault)
            },
            "/spec/link",
        ),
        (
            HoldSpec {
                kind: HoldKind::Approval,
                ..by_link(vault)
            },
            "/spec/link",
        ),
        (
            HoldSpec {
                options: Vec::new(),
                schema: Some(schema),
                ..input_spec()
            },
            "/spec/schema/properties/key",
        ),
    ] {
        let mut world = World::alone();
        let caller = world.caller("bob");
        let problem = open(&mut world, caller, spec, 60_000).unwrap_err();
        assert_eq!(
            problem.errors[0].pointer.as_deref(),
            Some(pointer),
            "{problem:?}"
        );
    }
}

/// Mend C-14, S0-T4: a task that is due concerns those who have it, and the owners.
#[test]
fn the_assignees_of_a_due_task_are_notified() {
    let task = Task {
        id: "task".to_owned(),
        title: "Call".to_owned(),
        description: String::new(),
        tags: Vec::new(),
        priority: Priority::Normal,
    };
    for (task, to) in [(Some(task), &["@role.owner", "@user.ada"][..]), (None, &[])] {
        let mut spec = spec(HoldKind::Handoff);
        spec.task = task;
        spec.on_timeout = OnTimeout::Escalate;
        spec.to = vec!["@user.ada".to_owned()];
        let mut world = opened(spec);
        world.now = minute(1);
        world.fire();
        let to: Vec<_> = to.iter().map(|&whom| whom.to_owned()).collect();
        assert_eq!(
            world.request_events().last(),
            Some(&(RequestEventKind::Escalated, to))
        );
    }
}

/// The bus refuses the same drafts as REST, agent definitions and tool questions.
#[test]
fn every_door_refuses_the_same_drafts_with_the_same_words() {
    for draft in holdpoint_holds::fixtures::drafts() {
        let mut fields = draft.fields;
        fields.insert("kind".to_owned(), json!("input"));
        let timeout_ms = fields.remove("timeout_ms").unwrap().as_u64().unwrap();
        let text = json!(fields).to_string();
        let spec: HoldSpec = serde_json::from_str(&text).unwrap();
        let mut world = World::alone();
        let caller = world.caller("bob");
        let opened = open(&mut world, caller, spec, timeout_ms);
        let errors = opened.map_or_else(|problem| problem.errors, |_| Vec::new());
        let messages: Vec<_> = errors.iter().map(|error| &*error.message).collect();
        assert_eq!(messages, draft.messages, "{text:.300}");
    }
}
