//! All ways into the gate: none of them starts a step whose approval is undecided or rejected (Gate, S2-R3).
//!
//! A standing approval is a vote in the handoff service (decision 48), so it comes in as a closed request.

use chrono::TimeDelta;
use holdpoint_contracts::executor::{PauseNew, PauseWaiting};
use holdpoint_contracts::hold::{ApprovalRecord, ApprovalVote, HoldOutcome};
use holdpoint_contracts::operation::{RunAction, RunFilter};
use holdpoint_contracts::run::{PauseScope, ResumeMode, RunStatus};
use holdpoint_contracts::steps::Grant;
use holdpoint_contracts::suspension::StepOnResume;
use holdpoint_ids::{HoldId, OperationId};
use serde_json::{Value, json};

use super::child_runs::children::{frozen, open as open_child, set};
use super::migrating::edit;
use super::world::{Heard, World, acme, broken, closing, done, owner, run_id, start_input, user};
use crate::domain::model::operation::OperationPhase;
use crate::domain::run::Run;
use crate::domain::run::person_hold::HoldClosure;
use crate::domain::{
    DeliveredStep, Operation, Reply, RunInput, ScopeInput, StepReport, input_of_action,
};

/// A call of a tool of a worker, and a step that does not need it.
const CALL: &str = "
  - id: pay
    tool: send_email
    args: { to: \"{{ contact.email }}\", idempotent: true }
    approval: {}
  - id: note
    needs: []
    tool: send_email
    args: { to: \"x@x.example\" }
";

/// A built-in tool, which the executor itself runs.
const INLINE: &str = "
  - id: pay
    tool: log
    args: { message: paid }
    approval: {}
";

const FAN_OUT: &str = "
  - id: pay
    for_each: [a, b, c]
    parallel: 2
    tool: send_email
    args: { to: $item }
    approval: {}
";

/// Its arguments are the result of an earlier step.
const DRAFTED: &str = "
  - id: draft
    tool: llm.write
    args: {}
  - id: pay
    tool: send_email
    args: { text: $draft.text }
    approval: {}
";

/// A rejection fails the run, so that it can be retried.
const FAILS: &str = "
  - id: pay
    tool: send_email
    args: { to: x@x.example }
    approval: {}
  - id: note
    tool: log
    args: { message: $pay.id }
";

/// The plan of a run that a step of another run has started.
const CHILD: &str = "
  - id: pay
    tool: send_email
    args: { to: $input.topic }
    approval: {}
";

struct Entry(&'static str, &'static str, fn(&mut World));

const ENTRIES: [Entry; 29] = [
    Entry("start", CALL, |_| {}),
    Entry("inline", INLINE, |_| {}),
    Entry("fan-out child", FAN_OUT, |_| {}),
    Entry("draft", DRAFTED, |_| {}),
    Entry("restart of the executor", CALL, |world| {
        let stored = serde_json::to_string(world.run()).unwrap();
        world.run = Some(serde_json::from_str::<Run>(&stored).unwrap());
        world.give(RunInput::ApplyScopes);
    }),
    Entry("resume", CALL, |world| {
        for mode in MODES {
            world.pause();
            world.resume(mode);
        }
    }),
    Entry("scope", CALL, |world| {
        let pause = ScopeInput::Pause {
            by: owner(),
            waiting: PauseWaiting::default(),
            new: PauseNew::default(),
        };
        world.command(PauseScope::Agent, pause);
        world.give(RunInput::ApplyScopes);
        let mode = ResumeMode::Now;
        world.command(PauseScope::Agent, ScopeInput::Resume { by: owner(), mode });
        world.give(RunInput::ApplyScopes);
    }),
    Entry("suspension with redo", CALL, |world| {
        suspend_and_resume(world, StepOnResume::Redo);
    }),
    Entry("suspension with skip", CALL, |world| {
        suspend_and_resume(world, StepOnResume::Skip);
    }),
    Entry("suspension with a result", CALL, |world| {
        let result = json!({ "id": "made up" });
        suspend_and_resume(world, StepOnResume::CompleteWith { result });
    }),
    Entry("takeover", CALL, |world| {
        world.give(RunInput::TakeOver { by: owner() });
        let hold = world.run().takeover_hold.as_ref().map(|on| on.id);
        let data = json!({
            "notes": "called her", "outcome_type": "resolved", "disposition": "return_to_agent",
        });
        world.close_as(hold.unwrap(), HoldOutcome::Completed, data);
    }),
    Entry("retry of a live run", CALL, retry),
    Entry("retry of a failed run", FAILS, retry),
    Entry("retry of a fan-out", FAN_OUT, retry),
    // Another step fails the run while this one is asked, and the earlier request is approved late.
    Entry("retry beside an open request", CALL, |world| {
        let earlier = open(world);
        world.report("note", broken());
        retry(world);
        for hold in earlier {
            world.close_as(hold, HoldOutcome::Approved, Value::Null);
        }
    }),
    // It is approved late, before and after its source has run again.
    Entry("revision", DRAFTED, |world| {
        let earlier = open(world);
        for hold in &earlier {
            world.close_as(*hold, HoldOutcome::Revised, json!("Shorter."));
            world.close_as(*hold, HoldOutcome::Approved, Value::Null);
        }
        world.report("draft", done(json!({ "text": "Zoe" })));
        for hold in earlier {
            world.close_as(hold, HoldOutcome::Approved, Value::Null);
        }
    }),
    Entry("operation on a live run", CALL, |world| {
        for action in actions() {
            give_action(world, action);
        }
    }),
    Entry("migration", CALL, |world| {
        edit(world, "", &CALL.replace("    approval: {}\n", ""));
        world.give(RunInput::Migrate {
            by: owner(),
            version: None,
        });
    }),
    Entry("signal", CALL, |world| {
        give_action(world, signal());
    }),
    Entry("operation", FAILS, |world| {
        for action in actions() {
            give_action(world, action);
        }
    }),
    Entry("result of a call that never was", CALL, |world| {
        for dispatch in 0..3 {
            let result = done(json!({ "id": "made up" }));
            world.give(RunInput::StepResult(StepReport {
                cost: None,
                node: "node-a".parse().unwrap(),
                step: "pay".to_owned(),
                dispatch,
                error_code: None,
                result,
            }));
        }
    }),
    Entry("end of a lease that never was", CALL, |world| {
        world.give(RunInput::LeaseEnded {
            step: "pay".to_owned(),
            dispatch: 1,
            node: "node-a".parse().unwrap(),
        });
    }),
    Entry("replayed dead letter", CALL, replay_dead_letters),
    Entry(
        "replayed dead letter of a fan-out",
        FAN_OUT,
        replay_dead_letters,
    ),
    // Its creator has lost the right to decide since. A request that was rejected is closed.
    Entry("standing approval", CALL, |world| {
        let (vote, now) = (user(false, &["owner"]), world.now);
        world.users.insert("ada".to_owned(), vote);
        let others = (90..=92).map(|number| HoldId {
            run: run_id(),
            number,
        });
        for hold in others.chain(open(world)) {
            let votes = vec![ApprovalVote {
                by: "ada".to_owned(),
                addressed_by: vec!["@role.owner".to_owned()],
            }];
            let approval = Some(ApprovalRecord {
                votes,
                valid_ms: None,
            });
            let closing = closing(HoldOutcome::Approved, Value::Null, now);
            world.close_at(
                hold,
                HoldClosure {
                    approval,
                    ..closing
                },
            );
        }
    }),
    Entry("approval of another request", CALL, |world| {
        let (run, number) = (run_id(), 99);
        let other = HoldId { run, number };
        world.close_as(other, HoldOutcome::Approved, Value::Null);
    }),
    Entry("child run", CHILD, |world| {
        for (rev, mode) in (4..).step_by(2).zip(MODES) {
            set(world, rev, frozen());
            set(world, rev + 1, open_child(mode));
        }
        // A repeated start, and one that arrives late.
        set(world, 3, open_child(ResumeMode::Now));
        set(world, 40, open_child(ResumeMode::Now));
    }),
    Entry("timer", CALL, |world| {
        world.pass(TimeDelta::days(400));
        while world.fire_next().is_some() {}
    }),
    Entry("changed contact", CALL, |world| {
        let email = "eve@x.example";
        world.contact = Some(json!({ "id": "ada", "email": email, "replied": false }));
        world.pause();
        world.resume(ResumeMode::Continue);
    }),
];

const MODES: [ResumeMode; 4] = [
    ResumeMode::Continue,
    ResumeMode::KeepDeadline,
    ResumeMode::Restart,
    ResumeMode::Now,
];

#[test]
fn no_way_starts_a_step_without_its_approval() {
    for Entry(name, plan, enter) in ENTRIES {
        for is_rejected in [false, true] {
            let mut world = waiting(plan);
            if is_rejected {
                reject_all(&mut world);
            }
            enter(&mut world);
            assert_is_not_started(&mut world, &format!("{name}, rejected: {is_rejected}"));
        }
    }
}

/// The decision of a request that was rejected comes once more, as an approval.
#[test]
fn a_rejection_is_final() {
    for plan in [CALL, INLINE, FAN_OUT, DRAFTED, FAILS, CHILD] {
        let mut world = waiting(plan);
        let asked = open(&world);
        reject_all(&mut world);
        for hold in asked {
            world.close_as(hold, HoldOutcome::Approved, Value::Null);
        }
        assert_is_not_started(&mut world, plan);
    }
}

/// The same worlds start the step after an approval, so the table does not pass because nothing can start.
#[test]
fn the_same_ways_start_an_approved_step() {
    for plan in [CALL, INLINE, FAN_OUT, DRAFTED, FAILS, CHILD] {
        let mut world = waiting(plan);
        for hold in open(&world) {
            world.close_as(hold, HoldOutcome::Approved, Value::Null);
        }
        assert!(calls(&world) > 0, "{plan}");
    }
}

/// A run whose gated steps are asked about.
fn waiting(plan: &str) -> World {
    let mut world = World::of(plan);
    if plan == CHILD {
        set(&mut world, 3, open_child(ResumeMode::Continue));
    } else {
        world.start();
    }
    if plan == DRAFTED {
        world.report("draft", done(json!({ "text": "Dear Zoe" })));
    }
    assert!(!open(&world).is_empty(), "{plan}");
    assert_eq!(world.status(), RunStatus::AwaitingApproval);
    world
}

fn open(world: &World) -> Vec<HoldId> {
    world.run().people().map(|(_, on)| on.id).collect()
}

/// Until no request is open: the next items of a fan-out are asked about when the first ones are decided.
fn reject_all(world: &mut World) {
    while let Some(hold) = open(world).first().copied() {
        let data = json!("No.");
        world.close_at(hold, closing(HoldOutcome::Rejected, data, world.now));
    }
}

fn calls(world: &World) -> usize {
    let calls = world.handed.iter();
    calls.filter(|out| out.step.starts_with("pay")).count()
}

fn assert_is_not_started(world: &mut World, case: &str) {
    assert_eq!(calls(world), 0, "{case}");
    for step in ["pay", "pay-0", "pay-1", "pay-2"] {
        for dispatch in 0..4 {
            for without_lease in [false, true] {
                let heard = world.give(RunInput::StartStep(DeliveredStep {
                    node: "node-a".parse().unwrap(),
                    step: step.to_owned(),
                    dispatch,
                    delivery: 1,
                    without_lease,
                    is_high_risk: false,
                    is_idempotent: true,
                }));
                let is_started = matches!(
                    heard,
                    Heard::Decided(Reply::Grant(Grant::Go | Grant::GoWithoutLease))
                        | Heard::Unchanged(Reply::Grant(Grant::Go | Grant::GoWithoutLease))
                );
                assert!(!is_started, "{case}: {step} {dispatch} {without_lease}");
            }
        }
    }
    assert_eq!(calls(world), 0, "{case}");
}

/// Each message that the run may have received becomes a dead letter, and comes once more.
fn replay_dead_letters(world: &mut World) {
    world.give(RunInput::Incident {
        reason: "it ended the process three times".to_owned(),
    });
    for step in ["pay", "pay-0", "pay-1"] {
        for dispatch in 0..3 {
            world.give(RunInput::StepParks {
                step: step.to_owned(),
                dispatch,
                duration_ms: 1,
            });
            world.give(RunInput::LeaseEnded {
                step: step.to_owned(),
                dispatch,
                node: "node-a".parse().unwrap(),
            });
        }
    }
    world.give(start_input());
    world.give(RunInput::ApplyScopes);
    world.give(RunInput::TakePlace);
    give_action(world, signal());
    // The decision about an earlier request of the same step.
    let (run, number) = (run_id(), 0);
    world.close_as(HoldId { run, number }, HoldOutcome::Approved, Value::Null);
}

fn retry(world: &mut World) {
    for from in [None, Some("pay".to_owned())] {
        world.give(RunInput::Retry { by: owner(), from });
    }
}

fn suspend_and_resume(world: &mut World, step: StepOnResume) {
    world.give(RunInput::Suspend {
        by: owner(),
        reason: None,
    });
    world.give(RunInput::Resume {
        by: owner(),
        mode: ResumeMode::Continue,
        step: Some(step),
    });
}

fn signal() -> RunAction {
    RunAction::Signal {
        name: "go".to_owned(),
        data: Value::Null,
        key: None,
    }
}

/// All actions of an operation. The last one ends the run.
fn actions() -> [RunAction; 9] {
    let mode = ResumeMode::Now;
    let waiting = PauseWaiting::default();
    let from_step = Some("pay".to_owned());
    [
        RunAction::Pause { waiting },
        RunAction::Resume { mode },
        RunAction::Suspend { reason: None },
        RunAction::Resume { mode },
        RunAction::Retry { from_step: None },
        RunAction::Retry { from_step },
        RunAction::Migrate { version: None },
        signal(),
        RunAction::Cancel { reason: None },
    ]
}

fn give_action(world: &mut World, action: RunAction) {
    let input = input_of_action(&Operation {
        id: OperationId::from_uuid(run_id().uuid()),
        workspace: acme(),
        version: 1,
        action,
        filter: RunFilter::default(),
        by: owner(),
        matched: 1,
        created_at: world.now,
        taken: 0,
        cursor: None,
        phase: OperationPhase::Running,
    });
    world.give(input);
}
