//! The child: how it starts, follows its parent, and reports its end.

use std::sync::Arc;

use holdpoint_contracts::executor::{
    ChildRunStart, ChildRunState, DesiredChildRun, PauseNew, PauseWaiting, RemainingBudget,
};
use holdpoint_contracts::run::{PauseScope, ResumeMode, RunStatus};
use holdpoint_ids::{HoldId, RunId};
use serde_json::json;

use super::super::world::{Heard, World, broken, done, owner, run_id};
use crate::domain::plan::Plan;
use crate::domain::run::child_runs::OUTPUT;
use crate::domain::{RunInput, ScopeInput};

const STEPS: &str = "
  - tool: log
    args: { message: $input.topic }
  - finish: { summary: Done., output: { title: $input.topic } }
";

fn parent() -> HoldId {
    HoldId {
        run: RunId::of_child(
            HoldId {
                run: run_id(),
                number: 1,
            },
            9,
            0,
        ),
        number: 4,
    }
}

fn child_start() -> Box<ChildRunStart> {
    Box::new(ChildRunStart {
        input: json!({ "topic": "leads" }),
        contact: Some("ada".parse().unwrap()),
        by: owner(),
        ancestors: vec!["first".parse().unwrap()],
        budget: None,
        runs_below: None,
    })
}

pub(in super::super) fn open(mode: ResumeMode) -> ChildRunState {
    let start = child_start();
    ChildRunState::Open { start, mode }
}

pub(in super::super) fn frozen() -> ChildRunState {
    let (start, by) = (child_start(), "ada".to_owned());
    ChildRunState::Frozen { start, by }
}

fn cancelled() -> ChildRunState {
    let reason = "its parent failed".to_owned();
    ChildRunState::Cancelled { reason }
}

pub(in super::super) fn set(world: &mut World, rev: u64, state: ChildRunState) -> Heard {
    set_by(world, parent(), rev, state)
}

fn set_by(world: &mut World, hold: HoldId, rev: u64, state: ChildRunState) -> Heard {
    world.give(RunInput::SetChildRun(Box::new(DesiredChildRun {
        run: run_id(),
        rev,
        hold,
        step: "ask".to_owned(),
        agent: "outreach".parse().unwrap(),
        state,
    })))
}

fn started() -> World {
    let mut world = World::of(STEPS);
    set(&mut world, 3, open(ResumeMode::Continue));
    world
}

fn is_paused_by(world: &World, scope: PauseScope) -> bool {
    world.run().pauses.iter().any(|pause| pause.scope == scope)
}

#[test]
fn a_child_starts_once_and_reports_its_output() {
    let mut world = started();
    assert_eq!(world.handed.len(), 1);
    assert_eq!(world.handed[0].args, json!({ "message": "leads" }));
    let parent_view = world.view().parent.unwrap();
    assert_eq!(
        (parent_view.run, parent_view.step.as_str()),
        (parent().run, "ask")
    );
    assert_eq!(
        json!(world.run().agent_chain()),
        json!(["first", "outreach"])
    );
    let again = set(&mut world, 3, open(ResumeMode::Continue));
    assert!(matches!(again, Heard::Unchanged(_)));
    world.report("step-01", done(json!({})));
    let [end] = &world.child_ends[..] else {
        panic!()
    };
    assert_eq!(
        (end.id, end.child, end.status),
        (parent(), run_id(), RunStatus::Completed)
    );
    assert_eq!(
        (end.message.as_str(), &end.output),
        ("Done.", &json!({ "title": "leads" }))
    );
    let late = set(&mut world, 9, cancelled());
    assert!(matches!(late, Heard::Unchanged(_)));
}

#[test]
fn a_failed_child_reports_its_failure_and_an_operator_may_retry_it() {
    let mut world = World::of(&STEPS.replace("    args", "    retry: none\n    args"));
    set(&mut world, 3, open(ResumeMode::Continue));
    world.report("step-01", broken());
    let end = world.child_ends[0].clone();
    assert_eq!(
        (end.status, end.code.as_deref()),
        (RunStatus::Failed, Some("http_status"))
    );
    let by = owner();
    world.give(RunInput::Retry { by, from: None });
    // The parent knows the end, so nothing would lift a pause of its own that is still on its way.
    assert!(matches!(set(&mut world, 9, frozen()), Heard::Unchanged(_)));
    world.report("step-01", done(json!({})));
    assert_eq!(world.child_ends.len(), 2);
    assert!(world.child_ends[1].rev > end.rev);
}

/// A run that is retried may complete without an output.
#[test]
fn a_finish_that_fails_leaves_no_output() {
    let failed = STEPS.replace("summary: Done.", "summary: Stop., status: failed");
    let mut world = World::of(&failed);
    set(&mut world, 3, open(ResumeMode::Continue));
    world.report("step-01", done(json!({})));
    assert_eq!(world.status(), RunStatus::Failed);
    assert!(!world.values.contains_key(OUTPUT));
}

/// The order of arrival does not matter: an older desired state changes nothing.
#[test]
fn the_newest_desired_state_wins() {
    let mut world = started();
    set(&mut world, 7, open(ResumeMode::Continue));
    assert!(matches!(set(&mut world, 5, frozen()), Heard::Unchanged(_)));
    assert!(matches!(
        set(&mut world, 7, cancelled()),
        Heard::Unchanged(_)
    ));
    set(&mut world, 8, cancelled());
    assert_eq!(world.status(), RunStatus::Cancelled);
    assert_eq!(world.view().failure.unwrap().code, "parent_ended");
    assert!(matches!(
        set(&mut world, 9, open(ResumeMode::Now)),
        Heard::Unchanged(_)
    ));
}

/// A child that was cancelled before its start never starts, also if the start arrives later.
#[test]
fn a_late_start_after_a_cancel_starts_nothing() {
    let mut world = World::of(STEPS);
    set(&mut world, 6, cancelled());
    assert_eq!(world.status(), RunStatus::Cancelled);
    set(&mut world, 3, open(ResumeMode::Continue));
    assert!(world.handed.is_empty());
    assert_eq!(world.status(), RunStatus::Cancelled);
    // Without its agent no start is possible, so nothing is stored.
    let mut world = World::of(STEPS);
    world.has_agent = false;
    assert!(matches!(
        set(&mut world, 6, cancelled()),
        Heard::Unchanged(_)
    ));
    assert!(world.run.is_none());
}

#[test]
fn a_child_pauses_and_goes_on_with_its_parent() {
    let mut world = started();
    set(&mut world, 4, frozen());
    assert!(is_paused_by(&world, PauseScope::Parent));
    assert_eq!(world.view().message, "Paused by ada.");
    // A person cannot lift the pause of the parent.
    world.resume(ResumeMode::Continue);
    assert!(is_paused_by(&world, PauseScope::Parent));
    set(&mut world, 5, open(ResumeMode::Continue));
    assert!(world.run().pauses.is_empty());
    assert_eq!(world.handed.len(), 2, "the step is queued again");
    // It may also start paused.
    let mut world = World::of(STEPS);
    set(&mut world, 4, frozen());
    assert!(world.handed.is_empty());
    set(&mut world, 5, open(ResumeMode::Continue));
    assert_eq!(world.handed.len(), 1);
}

#[test]
fn a_child_that_a_person_has_paused_stays_paused() {
    let mut world = started();
    world.pause();
    set(&mut world, 4, frozen());
    set(&mut world, 5, open(ResumeMode::Continue));
    assert!(is_paused_by(&world, PauseScope::Run));
    assert!(!is_paused_by(&world, PauseScope::Parent));
    world.resume(ResumeMode::Continue);
    assert_eq!(world.handed.len(), 2);
}

#[test]
fn a_start_may_be_refused() {
    let refused = |world: &mut World| match set(world, 3, open(ResumeMode::Continue)) {
        Heard::Refused(refusal) => refusal.problem().code,
        other => panic!("{other:?}"),
    };
    let mut world = World::of(STEPS);
    world.has_agent = false;
    assert_eq!(refused(&mut world), "not_found");
    let mut world = World::of(STEPS);
    let pause = ScopeInput::Pause {
        by: owner(),
        waiting: PauseWaiting::default(),
        new: PauseNew::Refuse,
    };
    world.command(PauseScope::Agent, pause);
    assert_eq!(refused(&mut world), "agent_paused");
    // A paused workspace has accepted the parent, so it accepts the child.
    let mut world = World::of(STEPS);
    let pause = ScopeInput::Pause {
        by: owner(),
        waiting: PauseWaiting::default(),
        new: PauseNew::Refuse,
    };
    world.command(PauseScope::Workspace, pause);
    set(&mut world, 3, open(ResumeMode::Continue));
    assert!(is_paused_by(&world, PauseScope::Workspace));
    assert!(world.handed.is_empty());
    // A run that another one, or nothing, has started.
    let mut world = World::started(STEPS);
    assert_eq!(refused(&mut world), "id_taken");
    let mut world = started();
    let other = HoldId {
        number: 5,
        ..parent()
    };
    let heard = set_by(&mut world, other, 9, cancelled());
    assert!(matches!(heard, Heard::Refused(_)));
    assert_eq!(world.status(), RunStatus::Running);
}

#[test]
fn the_budget_of_a_child_is_bounded_by_that_of_its_parent() {
    let text = format!(
        "agent: outreach\nlimits: {{ budget: {{ steps: 9, to: \"@user.eve\" }} }}\nsteps:{STEPS}"
    );
    let own = World::of_plan(Plan::compile(&text).unwrap());
    for (mut world, to) in [(own, "@user.eve"), (World::of(STEPS), "@role.ops")] {
        let mut start = child_start();
        start.budget = Some(RemainingBudget {
            steps: Some(4),
            cost: Some(1.5),
            to: vec!["@role.ops".to_owned()],
            ..RemainingBudget::default()
        });
        let mode = ResumeMode::Continue;
        set(&mut world, 3, ChildRunState::Open { start, mode });
        let allowed = world.run().budget().unwrap().allowed.clone();
        assert_eq!((allowed.steps, allowed.cost), (Some(4), Some(1.5)));
        assert_eq!(allowed.to, [to]);
        world.report("step-01", done(json!({})));
        assert_eq!(world.child_ends[0].steps, 1);
    }
}

#[test]
fn a_chain_of_runs_has_an_end() {
    let chain = |count: usize| {
        let mut world = World::of("  - id: ask\n    run: helper\n");
        let mut start = child_start();
        let names = (0..count).map(|number| format!("a{number}").parse().unwrap());
        start.ancestors = names.collect();
        let mode = ResumeMode::Continue;
        set(&mut world, 3, ChildRunState::Open { start, mode });
        world
    };
    // Its child would be at level 8, and then at level 9.
    assert_eq!(chain(7).status(), RunStatus::Waiting);
    let world = chain(8);
    assert_eq!(world.status(), RunStatus::Failed);
    assert_eq!(world.view().failure.unwrap().code, "child_depth");
    assert!(world.children.is_empty());
    let mut world = World::of("  - id: ask\n    run: { first: [helper, first] }\n");
    set(&mut world, 3, open(ResumeMode::Continue));
    assert_eq!(world.view().failure.unwrap().code, "child_cycle");
    assert!(world.children.is_empty());
}

/// The child of an earlier attempt keeps the key of `once`, but not the step from being retried.
#[test]
fn a_step_that_is_retried_may_start_an_agent_that_starts_once() {
    let text = format!("agent: outreach\nlimits: {{ once: contact }}\nsteps:{STEPS}");
    let plan = || Plan::compile(&text).unwrap();
    let mut earlier = World::of_plan(plan());
    set(&mut earlier, 3, open(ResumeMode::Continue));
    let started_after = |earlier: &World, hold: HoldId| {
        let mut world = World::of_plan(plan());
        world.started_once = Some(Arc::new(earlier.run().clone()));
        match set_by(&mut world, hold, 9, open(ResumeMode::Continue)) {
            Heard::Refused(refusal) => Err(refusal.problem().code),
            Heard::Decided(_) | Heard::Unchanged(_) => Ok(world.status()),
        }
    };
    let again = HoldId {
        number: 5,
        ..parent()
    };
    let refused = Err("started_before".to_owned());
    assert_eq!(started_after(&earlier, again), refused, "it is live");
    set(&mut earlier, 4, cancelled());
    assert_eq!(started_after(&earlier, again), Ok(RunStatus::Running));
    let other = HoldId {
        run: run_id(),
        number: 5,
    };
    assert_eq!(started_after(&earlier, other), refused);
}

/// The open runs of all steps divide the share of their run.
#[test]
fn the_runs_below_a_run_are_bounded() {
    let started = |runs_below: Option<u32>, steps: &str| {
        let mut world = World::of(steps);
        let mut start = child_start();
        start.runs_below = runs_below;
        let mode = ResumeMode::Continue;
        set(&mut world, 3, ChildRunState::Open { start, mode });
        world
    };
    let shares = |world: &World| {
        let steps = world.run().steps.iter();
        let runs = steps.filter_map(|step| step.child_runs.as_deref());
        runs.map(|runs| runs.runs_below).collect::<Vec<_>>()
    };
    let one = "  - id: ask\n    run: helper\n";
    assert_eq!(shares(&started(None, one)), [Some(9_999)]);
    assert_eq!(shares(&started(Some(1), one)), [Some(0)]);
    let two = "  - run: { all: [helper, writer] }\n  - needs: []\n    run: other\n";
    let world = started(Some(23), two);
    assert_eq!(shares(&world), [Some(10), Some(6)]);
    let sent = world
        .children
        .values()
        .filter_map(|child| match &child.state {
            ChildRunState::Open { start, .. } => start.runs_below,
            ChildRunState::Frozen { .. } | ChildRunState::Cancelled { .. } => None,
        });
    assert_eq!(sent.sum::<u32>(), 26);
    for (runs_below, steps) in [(0, one), (2, two)] {
        let world = started(Some(runs_below), steps);
        assert_eq!(world.view().failure.unwrap().code, "too_many_child_runs");
    }
}
