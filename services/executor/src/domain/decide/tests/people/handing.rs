//! Handoffs: what is offered, who owns the run, and how it is given back.

use chrono::TimeDelta;
use holdpoint_contracts::contact::ActivityKind;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{
    CloseReply, HandoffEvent, HandoffEventKind, HandoffUpdateReply, HoldOutcome, Priority,
};
use holdpoint_contracts::instant;
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::run::{FailureClass, HoldKind, ResumeMode, RunStatus, StepStatus};
use holdpoint_contracts::steps::{Grant, ResultReply};
use serde_json::{Value, json};

use super::super::world::{Heard, World, closing, done, handoff_event};
use super::{hold, spec, state};
use crate::domain::run::Choice;
use crate::domain::run::person_hold::HoldClosure;
use crate::domain::{Refusal, Reply, RunInput};
use holdpoint_contracts::hold::HoldState;

mod owned;
mod returned;

const HANDED: &str = "  - id: mail
    tool: send_email
    args: { to: \"{{ contact.email }}\", subject: Introduction }
  - id: hand
    handoff: { to: \"@user.salesRep\", message: personal outreach, timeout: 3 days }
  - id: after
    tool: log
    args: { message: \"{{ $hand.notes }} {{ $hand.by }} {{ $hand.outcome_type }}\" }
";

fn offered() -> World {
    let mut world = World::started(HANDED);
    let sent = json!({
        "to": "ada@x.example", "subject": "Introduction", "message_id": "<1.mail@holdpoint>",
    });
    world.report("mail", done(sent));
    world
}

fn completion(disposition: &str) -> Value {
    json!({ "notes": "called her", "outcome_type": "resolved", "disposition": disposition })
}

fn complete(world: &mut World, disposition: &str) -> CloseReply {
    world.close_as(hold(world), HoldOutcome::Completed, completion(disposition))
}

/// S0-AC6, S0-R2, S0-T2, S0-T4
#[test]
fn a_handoff_is_offered_with_its_literal_texts_and_its_context() {
    let mut world = offered();
    assert_eq!(world.status(), RunStatus::Waiting);
    let id = hold(&world);
    let asked = spec(&world).clone();
    assert_eq!(asked.kind, HoldKind::Handoff);
    assert_eq!(
        asked.question,
        "Agent outreach needs your attention for ada@x.example"
    );
    assert_eq!(asked.title.as_deref(), Some("Agent handoff: ada@x.example"));
    assert_eq!(
        (asked.warm_lead, asked.priority, asked.steps_left),
        (false, Priority::Normal, Some(1))
    );
    let task = asked.task.unwrap();
    assert_eq!(task.id, id.to_string());
    assert_eq!(task.title, "Personal outreach to ada@x.example");
    assert_eq!(task.description, "personal outreach");
    assert_eq!(task.tags, ["agent-handoff", "requires-review"]);
    assert_eq!(asked.context["emails"][0]["subject"], "Introduction");
    assert_eq!(asked.context["contact"]["id"], "ada");
    let due = world.now + TimeDelta::days(3);
    let data = &world.rows["hand"].response.as_ref().unwrap().data;
    assert_eq!(
        *data,
        json!({ "scheduled": true, "resume_at": instant::write(due), "task_id": id, "is_warm_lead": false }),
        "S0-T1"
    );
    assert_eq!(world.view().resume_at, Some(due));
    assert!(world.events().contains(&EventType::HandoffOffered));
    world.pass(TimeDelta::hours(2));
    assert_eq!(complete(&mut world, "return_to_agent"), CloseReply::Applied);
    assert_eq!(
        world.handed[1].args,
        json!({ "message": "called her ada resolved" })
    );
    let at = instant::write(world.now);
    assert_eq!(
        world.event(EventType::HandoffCompleted).message,
        format!("Handoff completed by ada at {at}"),
        "S0-T3"
    );
}

/// S0-AC7, S0-T2
#[test]
fn a_warm_lead_says_so_and_is_urgent() {
    let steps = "  - id: hand
    when: contact.replied == true && contact.sentiment == \"positive\"
    handoff: { to: \"@role.sales\", priority: low }
";
    let mut world = World::of(steps);
    world.contact = Some(json!({
        "id": "ada", "name": "Ada", "replied": true, "sentiment": "positive",
        "deals": [{ "value": 5000, "stage": "demo", "probability": 0.4 }],
    }));
    world.activities = json!([{ "kind": "email_in", "text": "Tell me more" }]);
    world.older = 12;
    world.start();
    let asked = spec(&world);
    assert_eq!(
        asked.question,
        "Warm lead from agent outreach: Ada is interested"
    );
    assert_eq!(
        asked.title.as_deref(),
        Some("[Warm Lead] Agent handoff: Ada")
    );
    assert_eq!((asked.warm_lead, asked.priority), (true, Priority::High));
    let task = asked.task.as_ref().unwrap();
    assert_eq!(task.description, "Agent requires attention");
    assert_eq!(task.tags, ["agent-handoff", "requires-review", "warm-lead"]);
    assert_eq!(asked.context["conditions"][0]["outcome"], true);
    assert_eq!(asked.context["deals"][0]["stage"], "demo");
    assert_eq!(asked.context["activities"][0]["text"], "Tell me more");
    assert_eq!(asked.context["omitted"], json!({ "activities": 12 }));
}

/// S0-T3: `finish` ends the run; what is left is skipped and says why.
#[test]
fn finishing_completes_the_run_and_skips_the_rest() {
    let mut world = offered();
    world.give(RunInput::Watch);
    assert_eq!(complete(&mut world, "finish"), CloseReply::Applied);
    assert_eq!(world.status(), RunStatus::Completed);
    let by: Vec<_> = world.ended.iter().map(|end| end.by.as_deref()).collect();
    assert_eq!(by, [Some("ada")], "she knows");
    assert_eq!(world.rows["after"].status, StepStatus::Skipped);
    let skipped = world.event(EventType::StepSkipped);
    assert!(skipped.message.contains("ada has ended the run"));
    assert_eq!(
        world.view().result.unwrap()["summary"],
        "2 steps done, 1 skipped."
    );
}

/// S0-T1
#[test]
fn time_up_goes_on_skips_or_fails() {
    let mut world = offered();
    let id = hold(&world);
    world.close_as(id, HoldOutcome::Timeout, Value::Null);
    assert!(world.events().contains(&EventType::HandoffExpired));
    assert_eq!(world.rows["hand"].status, StepStatus::Completed);
    let with = |end: &str| {
        let steps =
            format!("  - id: hand\n    handoff: {{ on_timeout: {end} }}\n  - wait: 1 day\n");
        let mut world = World::started(&steps);
        world.close_as(hold(&world), HoldOutcome::Timeout, Value::Null);
        world
    };
    assert_eq!(with("skip").rows["hand"].status, StepStatus::Skipped);
    let failure = with("fail").view().failure.unwrap();
    assert_eq!(failure.class, FailureClass::HumanTimeout);
}

/// S0-T1: 0 = no automatic resume.
#[test]
fn a_handoff_without_time_never_goes_on_by_itself() {
    let world = World::started("  - id: hand\n    handoff: { timeout: 0 }\n");
    assert!(matches!(
        state(&world, hold(&world)),
        HoldState::Open { deadline: None, .. }
    ));
    assert_eq!(world.view().resume_at, None);
    let data = &world.rows["hand"].response.as_ref().unwrap().data;
    assert_eq!(data["scheduled"], false);
}

const BRANCHES: &str = "  - id: hand
    handoff: { to: \"@user.salesRep\" }
  - id: log
    needs: []
    tool: log
    args: { message: hi }
  - id: mail
    needs: []
    tool: send_email
    args: { to: x@x.example, subject: Hi }
  - id: wait
    needs: []
    wait: 1 day
  - id: after
    needs: [wait]
    tool: log
    args: { message: after }
";

/// S0-AC7: take over fences; nothing of the agent starts until it is handed back.
#[test]
fn whoever_takes_over_fences_the_agent_off() {
    let mut world = World::started(BRANCHES);
    world.ask("node-a", "log");
    world.ask("node-a", "mail");
    let taken = world.close_as(hold(&world), HoldOutcome::TakenOver, Value::Null);
    assert_eq!(taken, CloseReply::Applied);
    let view = world.view();
    assert_eq!(view.taken_over_by.as_deref(), Some("ada"));
    assert_eq!((view.status, view.resume_at), (RunStatus::Waiting, None));
    assert_eq!(world.ask_as("node-b", "log", 1, 2), Grant::Drop);
    assert_eq!(
        world.report_as("log", 1, done(json!({}))),
        ResultReply::Late
    );
    assert_eq!(
        world.report_as("mail", 1, done(json!({}))),
        ResultReply::Late
    );
    assert_eq!(
        world.rows["mail"].status,
        StepStatus::Uncertain,
        "it may have happened"
    );
    assert_eq!(world.fire_next(), None, "the clock of the wait has stopped");
    world.pass(TimeDelta::days(2));
    assert_eq!(world.handed.len(), 2, "nothing starts");
    let late = world.close_as(hold(&world), HoldOutcome::Timeout, Value::Null);
    assert_eq!(late, CloseReply::Applied, "the timer has stopped");
    assert_eq!(
        world.answer("mail", Choice::ItHappened),
        CloseReply::OnResume
    );
    assert_eq!(complete(&mut world, "return_to_agent"), CloseReply::Applied);
    assert_eq!(world.view().taken_over_by, None);
    let out: Vec<_> = world.handed[2..]
        .iter()
        .map(|out| (out.step.as_str(), out.dispatch))
        .collect();
    assert_eq!(
        out,
        [("log", 3)],
        "what may be done twice has its turn again"
    );
    assert_eq!(world.rows["mail"].status, StepStatus::Completed);
    world.fire_next();
    assert_eq!(world.handed[3].step, "after", "the wait went on");
}

/// Everything also while paused: it takes effect on resume.
#[test]
fn a_handoff_that_is_completed_during_a_pause_takes_effect_on_resume() {
    let mut world = offered();
    world.pause();
    assert!(matches!(
        state(&world, hold(&world)),
        HoldState::Frozen { .. }
    ));
    let taken = world.close_as(hold(&world), HoldOutcome::TakenOver, Value::Null);
    assert_eq!(taken, CloseReply::Applied);
    assert_eq!(
        complete(&mut world, "return_to_agent"),
        CloseReply::OnResume
    );
    assert_eq!(world.handed.len(), 1);
    world.resume(ResumeMode::Continue);
    assert_eq!(world.handed[1].step, "after");
}

/// S0-AC7: sent mails are part of what is known of the contact, once a step.
#[test]
fn a_mail_that_was_sent_is_an_activity_of_the_contact() {
    let world = offered();
    let said: Vec<_> = world.said.values().collect();
    assert_eq!(said.len(), 1);
    assert_eq!(said[0].kind, ActivityKind::EmailOut);
    assert_eq!(said[0].subject.as_deref(), Some("Introduction"));
    assert_eq!(said[0].message_id.as_deref(), Some("1.mail@holdpoint"));
}

/// A worker's words about a mail are as anybody's: without what a database refuses, and bounded.
#[test]
fn what_a_worker_says_of_a_mail_is_plain_and_bounded() {
    let mut world = World::started(HANDED);
    let sent = json!({
        "to": format!("a\0@x{}", "y".repeat(5_000)),
        "subject": "In\0tro",
        "text": format!("Dear\0 Ann{}", "n".repeat(20_000)),
    });
    world.report("mail", done(sent));
    let said = world.said.values().next().unwrap();
    assert_eq!(said.subject.as_deref(), Some("Intro"));
    assert!(said.text.starts_with("To a@x") && said.text.len() < 11_100);
    // Mend C-7: the conversation has both halves.
    assert!(said.text.contains("\n\nDear Ann"), "{}", said.text);
}

fn takeover_hold(world: &mut World, by: &str) -> Heard {
    world.give(RunInput::TakeOver {
        by: Actor(by.to_owned()),
    })
}

/// Barge-in: an operator becomes the owner of any live run.
#[test]
fn an_operator_takes_any_live_run_over() {
    for disposition in ["return_to_agent", "finish"] {
        let mut world = World::started(BRANCHES.split_once("  - id: log").unwrap().0);
        assert!(matches!(
            takeover_hold(&mut world, "bob"),
            Heard::Decided(_)
        ));
        assert!(matches!(
            takeover_hold(&mut world, "bob"),
            Heard::Unchanged(_)
        ));
        let other = takeover_hold(&mut world, "eve");
        assert!(matches!(other, Heard::Refused(Refusal::AlreadyTaken(..))));
        assert_eq!(world.view().taken_over_by.as_deref(), Some("bob"));
        let own = world.run().takeover_hold.as_ref().unwrap().id;
        let HoldState::Open {
            spec,
            deadline: None,
        } = state(&world, own)
        else {
            panic!("not asked")
        };
        assert_eq!(spec.to, ["@user.bob"]);
        world.close_as(own, HoldOutcome::Completed, completion(disposition));
        let expected = match disposition {
            "finish" => RunStatus::Completed,
            _ => RunStatus::Waiting,
        };
        assert_eq!(world.status(), expected);
        assert_eq!(world.view().taken_over_by, None);
    }
}

/// Only a person can own a run.
#[test]
fn nobody_without_a_name_takes_a_run_over() {
    let mut world = offered();
    let heard = takeover_hold(&mut world, "unsigned:bob");
    assert!(matches!(heard, Heard::Refused(Refusal::NoPerson(_))));
    world.cancel();
    assert!(matches!(
        takeover_hold(&mut world, "bob"),
        Heard::Refused(Refusal::RunFinal(..))
    ));
}

/// What was done with the handoff, by the versions of the request.
fn handoff_events(world: &World) -> Vec<HandoffEvent> {
    let kinds = [
        HandoffEventKind::Accepted,
        HandoffEventKind::Reassigned,
        HandoffEventKind::TakenOver,
    ];
    let handoff_events = (2..).zip(kinds);
    handoff_events
        .map(|(rev, kind)| handoff_event(rev, kind, world.now))
        .collect()
}

fn handled(world: &mut World, handoff_events: &[HandoffEvent]) -> Heard {
    world.give(RunInput::HandoffUpdate {
        hold: hold(world),
        handoff_events: handoff_events.to_vec(),
    })
}

/// The events of the handoff, in order.
fn sent(world: &World) -> Vec<EventType> {
    let all = world.events().into_iter();
    all.filter(|kind| kind.as_str().starts_with("handoff."))
        .collect()
}

const ALL_OF_IT: [EventType; 5] = [
    EventType::HandoffOffered,
    EventType::HandoffAccepted,
    EventType::HandoffReassigned,
    EventType::HandoffTakenOver,
    EventType::HandoffCompleted,
];

/// S0-AC6: a run's history has what people did with its handoff, once each and in order, whichever
/// message comes, comes twice, or is lost.
#[test]
fn a_runs_history_has_what_was_done_with_its_handoff_once_and_in_order() {
    let taken = |world: &World, with: &[HandoffEvent]| HoldClosure {
        handoff_events: with.to_vec(),
        ..closing(HoldOutcome::TakenOver, Value::Null, world.now)
    };
    let done = |world: &World, with: &[HandoffEvent]| HoldClosure {
        handoff_events: with.to_vec(),
        ..closing(HoldOutcome::Completed, completion("finish"), world.now)
    };
    // Which messages arrive: of the deeds so far, of the take-over, and how much the end still brings.
    for (alone, with_take_over, takes_over, with_end) in [
        (2, 0..3, true, 3..3),
        (1, 0..3, true, 3..3),
        (0, 0..3, true, 0..3),
        (2, 0..3, true, 0..3),
        (1, 0..0, false, 0..3),
        (0, 0..0, false, 0..3),
    ] {
        let mut world = offered();
        let (id, all) = (hold(&world), handoff_events(&world));
        for some in 1..=alone {
            assert!(matches!(
                handled(&mut world, &all[..some]),
                Heard::Decided(Reply::HandoffUpdated(HandoffUpdateReply::EventRecorded))
            ));
            assert!(matches!(
                handled(&mut world, &all[..some]),
                Heard::Unchanged(Reply::HandoffUpdated(HandoffUpdateReply::EventRecorded))
            ));
        }
        if takes_over {
            let closing = taken(&world, &all[with_take_over]);
            assert_eq!(
                world.close_at(id, closing.clone()),
                CloseReply::Applied,
                "{alone}"
            );
            assert_eq!(world.close_at(id, closing), CloseReply::Applied);
        }
        handled(&mut world, &all[..2]);
        let closing = done(&world, &all[with_end]);
        assert_eq!(world.close_at(id, closing), CloseReply::Applied);
        assert_eq!(sent(&world), ALL_OF_IT, "{alone} {takes_over}");
        let given = world.event(EventType::HandoffReassigned);
        assert_eq!(given.message, "ada has given it to @user.bob.");
        assert_eq!(given.data["to"], json!(["@user.bob"]));
        assert_eq!(given.step.as_deref(), Some("hand"));
    }
}

/// A timeout that does not count yet, and whatever comes late, tell what was done all the same.
#[test]
fn what_was_done_is_told_by_a_time_out_that_is_not_kept_and_not_after_the_end() {
    let mut world = offered();
    let (id, all) = (hold(&world), handoff_events(&world));
    world.pause();
    let time_out = HoldClosure {
        handoff_events: all[..1].to_vec(),
        ..closing(HoldOutcome::Timeout, Value::Null, world.now)
    };
    assert_eq!(world.close_at(id, time_out.clone()), CloseReply::OnResume);
    assert_eq!(world.close_at(id, time_out), CloseReply::OnResume);
    assert_eq!(sent(&world), ALL_OF_IT[..2]);
    let closing = closing(HoldOutcome::Completed, completion("finish"), world.now);
    assert_eq!(world.close_at(id, closing), CloseReply::OnResume);
    world.cancel();
    let handled = world.give(RunInput::HandoffUpdate {
        hold: id,
        handoff_events: all,
    });
    let stale = Reply::HandoffUpdated(HandoffUpdateReply::Stale);
    assert_eq!(
        format!("{handled:?}"),
        format!("{:?}", Heard::Unchanged(stale))
    );
    assert_eq!(sent(&world), ALL_OF_IT[..2]);
}
