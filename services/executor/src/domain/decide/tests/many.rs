//! Pausing, resuming and deleting many: what one run of them does, whenever its page comes.

mod deleting;
mod histories;
mod signals;

use chrono::TimeDelta;
use holdpoint_contracts::executor::{ChangedScope, PauseNew, PauseWaiting, TimerReply};
use holdpoint_contracts::run::{FailureClass, PauseScope, ResumeMode, RunStatus, RunView};
use holdpoint_contracts::steps::{Grant, ResultReply};
use serde_json::json;

use super::world::{Heard, World, acme, done, owner, run_id, start_input};
use crate::domain::decision::{Lookup, Outcome, Undecided};
use crate::domain::run::StepPhase;
use crate::domain::scope::{CHANGES_MAX, Cursor, Scope, WorkspaceScope};
use crate::domain::{
    Aggregate, Fact, Input, Key, Need, Refusal, Reply, Run, RunInput, ScopeInput, decide,
};
use crate::domain::{Scopes, overlay};

const AGENT: PauseScope = PauseScope::Agent;
const WORKSPACE: PauseScope = PauseScope::Workspace;
const SEND: &str = "  - id: send\n    tool: send_email\n    args: { to: x }\n  - wait: 1 day\n";

fn hold() -> ScopeInput {
    pause(PauseWaiting::Hold, PauseNew::Accept)
}

fn pause(waiting: PauseWaiting, new: PauseNew) -> ScopeInput {
    let by = owner();
    ScopeInput::Pause { by, waiting, new }
}

fn resume(mode: ResumeMode) -> ScopeInput {
    ScopeInput::Resume { by: owner(), mode }
}

fn delete() -> ScopeInput {
    ScopeInput::Delete { by: owner() }
}

impl World {
    /// Gives an input to the agent or to the workspace, and keeps what comes of it.
    pub(super) fn command(&mut self, kind: PauseScope, input: ScopeInput) -> Heard {
        let agent = (kind == AGENT).then(|| "outreach".parse().unwrap());
        let state = match (
            kind,
            self.find(&Need::State(Key::Agent(
                acme(),
                "outreach".parse().unwrap(),
            ))),
        ) {
            (AGENT, Lookup::Found(Fact::Agent(agent))) => Some(Aggregate::Agent((*agent).clone())),
            (AGENT, _) => None,
            _ => self.workspace_scope.clone().map(Aggregate::Workspace),
        };
        let input = Input::Scope {
            workspace: acme(),
            agent,
            input,
        };
        match decide(state.as_ref(), &input, &|_| Lookup::NotLoaded, self.now) {
            Ok(Outcome::Decided(decision)) => {
                let text = match decision.state {
                    Aggregate::Agent(agent) => {
                        self.agent_scope = agent.scope.clone();
                        serde_json::to_string(&agent.scope).unwrap()
                    }
                    Aggregate::Workspace(scope) => {
                        self.workspace_scope = Some(scope.clone());
                        serde_json::to_string(&scope.scope).unwrap()
                    }
                    other => panic!("{other:?}"),
                };
                assert_eq!(
                    &serde_json::from_str::<Scope>(&text).unwrap(),
                    self.scope(kind)
                );
                Heard::Decided(decision.reply)
            }
            Ok(Outcome::Unchanged(answer)) => Heard::Unchanged(answer),
            Err(Undecided::Refused(refusal)) => Heard::Refused(refusal),
            Err(Undecided::NeedsMore(needs)) => panic!("{needs:?}"),
        }
    }

    fn scope(&self, kind: PauseScope) -> &Scope {
        static NONE: std::sync::OnceLock<Scope> = std::sync::OnceLock::new();
        match (kind, &self.workspace_scope) {
            (AGENT, _) => &self.agent_scope,
            (_, Some(workspace)) => &workspace.scope,
            (_, None) => NONE.get_or_init(Scope::default),
        }
    }

    /// The pages of one scope, from the first to the last.
    fn pages(&mut self, kind: PauseScope) {
        let epoch = self.scope(kind).epoch;
        if self.run.as_ref().is_some_and(|run| !run.is_final()) {
            self.give(RunInput::ApplyScopes);
            let agent = "outreach".parse().unwrap();
            let upto = Some(Cursor {
                agent,
                run: run_id(),
            });
            self.command(kind, ScopeInput::Paged { epoch, upto });
        }
        self.command(kind, ScopeInput::Paged { epoch, upto: None });
        assert!(self.scope(kind).is_followed());
    }

    /// The run as it is read.
    fn read(&self) -> Run {
        let agent = match self.find(&Need::State(Key::Agent(
            acme(),
            "outreach".parse().unwrap(),
        ))) {
            Lookup::Found(Fact::Agent(agent)) => Some(agent),
            _ => None,
        };
        let workspace = self.workspace_scope.clone().map(std::sync::Arc::new);
        overlay(self.run().clone(), &Scopes { agent, workspace })
    }

    fn shown(&self) -> RunView {
        self.read().view(self.now)
    }
}

fn said(heard: &Heard) -> &ChangedScope {
    match heard {
        Heard::Decided(Reply::Scope(said)) | Heard::Unchanged(Reply::Scope(said)) => said,
        other => panic!("{other:?}"),
    }
}

fn ms(length: TimeDelta) -> u64 {
    u64::try_from(length.num_milliseconds()).unwrap()
}

/// Whoever takes a run over that has a pause and a resume of its agent to follow is told in the
/// rounds that there are.
#[test]
fn a_run_is_taken_over_before_its_page_has_come() {
    let mut world =
        World::started("  - wait: 1 day\n  - when: contact.replied == false\n    wait: 1 day\n");
    world.command(AGENT, hold());
    world.command(AGENT, resume(ResumeMode::Now));
    world.give(RunInput::TakeOver { by: owner() });
    assert_eq!(world.view().taken_over_by.as_deref(), Some("owner"));
    assert_eq!(world.run().holds().count(), 1, "the second wait");
}

/// A dispatch that ends before the page of a resume has come: in the rounds that there are.
#[test]
fn a_hand_out_ends_before_the_page_of_its_resume_has_come() {
    let mut world = World::started(
        "  - id: send\n    tool: send_email\n    args: { to: \"{{ contact.email }}\" }\n",
    );
    world.command(WORKSPACE, hold());
    world.pages(WORKSPACE);
    world.command(WORKSPACE, resume(ResumeMode::Continue));
    world.give(RunInput::StepParks {
        step: "send".to_owned(),
        dispatch: 2,
        duration_ms: 3,
    });
    assert_eq!(world.view().status, RunStatus::Failed, "nothing was asked");
}

/// The same with a result, after which somebody is to be told the whole story.
#[test]
fn a_result_comes_before_the_page_of_its_resume_and_a_handoff_follows() {
    let mut world = World::started(
        "  - id: send\n    tool: send_email\n    args: { to: \"{{ contact.email }}\" }\n  - handoff: {}\n",
    );
    world.command(WORKSPACE, hold());
    world.pages(WORKSPACE);
    world.command(WORKSPACE, resume(ResumeMode::Continue));
    world.report_as("send", 2, done(json!({})));
    assert_eq!(world.view().waiting_on[0].kind.as_str(), "handoff");
}

/// S0-AC4, S0-T6: one row, and every read shows it at once; the page changes nothing of that.
#[test]
fn a_paused_agent_shows_at_once_and_its_clocks_stand_since_the_pause() {
    for kind in [AGENT, WORKSPACE] {
        let mut world = World::started("  - wait: 5 days\n");
        world.pass(TimeDelta::days(2));
        let paused_at = world.now;
        let heard = world.command(kind, hold());
        let answer = said(&heard);
        assert_eq!((answer.status.as_str(), answer.changed), ("paused", true));
        assert_eq!(answer.agent.is_some(), kind == AGENT);
        let by = answer.paused_by.as_ref().unwrap();
        assert_eq!((by.scope, by.at), (kind, paused_at));
        let view = world.shown();
        assert_eq!((view.status, view.resume_at), (RunStatus::Waiting, None));
        assert_eq!(view.message, "Paused by owner; timer hold has 3 days left.");
        assert_eq!(view.paused_by[0].scope, kind);
        world.pass(TimeDelta::hours(7));
        world.pages(kind);
        assert_eq!(
            world.view(),
            view,
            "remaining counts from the pause, not from the page"
        );
        assert_eq!(
            view.waiting_on[0].remaining_ms,
            Some(ms(TimeDelta::days(3)))
        );
    }
}

/// Races: a second pause, and a second resume, change nothing and say so.
#[test]
fn a_second_pause_of_an_agent_says_that_it_changed_nothing() {
    let mut world = World::started("  - wait: 5 days\n");
    assert!(!said(&world.command(AGENT, resume(ResumeMode::Now))).changed);
    world.command(AGENT, hold());
    let before = world.agent_scope.clone();
    let heard = world.command(AGENT, pause(PauseWaiting::Cancel, PauseNew::Refuse));
    assert!(!said(&heard).changed && said(&heard).paused_by.is_some());
    assert_eq!(world.agent_scope, before);
    let heard = world.command(AGENT, resume(ResumeMode::Continue));
    assert_eq!(
        (said(&heard).status.as_str(), said(&heard).changed),
        ("active", true)
    );
    assert!(!said(&world.command(AGENT, resume(ResumeMode::Now))).changed);
}

/// S0-AC4: the timer fires between the commit of the pause and the run's page.
#[test]
fn a_timer_that_fires_before_the_page_does_not_resume_the_run() {
    let mut world = World::started("  - wait: 5 days\n");
    world.pass(TimeDelta::days(5) - TimeDelta::milliseconds(1));
    world.command(AGENT, hold());
    assert_eq!(world.fire_next(), Some(TimerReply::Stale));
    assert_eq!(world.view().waiting_on[0].remaining_ms, Some(1));
    world.pages(AGENT);
    world.pass(TimeDelta::days(1));
    world.command(AGENT, resume(ResumeMode::Continue));
    let due = world.now + TimeDelta::milliseconds(1);
    world.pass(TimeDelta::milliseconds(1));
    assert_eq!(world.shown().resume_at, Some(due));
    world.pages(AGENT);
    assert_eq!(world.fire_next(), Some(TimerReply::Applied));
    assert_eq!(world.status(), RunStatus::Completed);
}

/// S0-AC4: each mode counts from the instant of the resume, however late the page.
#[test]
fn every_mode_counts_from_the_resume_and_not_from_its_page() {
    let days = [
        (ResumeMode::Continue, Some(7)),
        (ResumeMode::KeepDeadline, Some(5)),
        (ResumeMode::Restart, Some(9)),
        (ResumeMode::Now, None),
    ];
    for (mode, ends) in days {
        for first_page_comes in [true, false] {
            let mut world = World::started("  - wait: 5 days\n");
            let began = world.now;
            world.pass(TimeDelta::days(2));
            world.command(AGENT, hold());
            if first_page_comes {
                world.pages(AGENT);
            }
            world.pass(TimeDelta::days(2));
            world.command(AGENT, resume(mode));
            let ends = ends.map(|days| began + TimeDelta::days(days));
            assert_eq!(world.shown().resume_at, ends, "{mode:?}");
            world.pass(TimeDelta::hours(3));
            world.pages(AGENT);
            assert_eq!(world.view().resume_at, ends, "{mode:?}");
        }
    }
}

/// S0-AC4: pauses are a set.
#[test]
fn a_run_moves_only_when_neither_itself_nor_its_agent_nor_its_workspace_is_paused() {
    let mut world = World::started(SEND);
    world.command(AGENT, hold());
    world.command(WORKSPACE, hold());
    world.pause();
    assert_eq!(world.view().paused_by.len(), 3);
    assert_eq!(world.ask("node-a", "send"), Grant::Drop);
    world.command(AGENT, resume(ResumeMode::Continue));
    world.pages(AGENT);
    world.resume(ResumeMode::Continue);
    assert_eq!(world.view().paused_by.len(), 1);
    let Heard::Unchanged(Reply::Changed(answer)) = world.resume(ResumeMode::Now) else {
        panic!("the workspace's pause is not the run's");
    };
    assert!(!answer.changed);
    assert_eq!(world.ask("node-a", "send"), Grant::Drop);
    world.command(WORKSPACE, resume(ResumeMode::Continue));
    world.pages(WORKSPACE);
    assert_eq!(world.ask("node-a", "send"), Grant::Go);
}

/// S0-AC4: queued steps do not start, from the commit of the scope on; running ones finish.
#[test]
fn a_step_at_work_finishes_and_a_queued_one_is_dropped_before_any_page() {
    let mut world = World::started(SEND);
    world.command(AGENT, hold());
    assert_eq!(world.ask("node-a", "send"), Grant::Drop);
    world.command(AGENT, resume(ResumeMode::Continue));
    world.pages(AGENT);
    assert_eq!(world.ask("node-a", "send"), Grant::Go);
    world.command(AGENT, hold());
    assert_eq!(world.shown().paused_by[0].in_flight, ["send"]);
    assert_eq!(world.report("send", done(json!({}))), ResultReply::Applied);
    assert_eq!(world.view().paused_by[0].in_flight, ["send"]);
    assert!(
        matches!(world.phase("step-02"), StepPhase::Planned),
        "nothing follows"
    );
}

/// S0-T6.3
#[test]
fn with_waiting_cancel_runs_that_wait_are_cancelled_and_others_stand() {
    let mut world = World::started("  - wait: 5 days\n");
    world.command(AGENT, pause(PauseWaiting::Cancel, PauseNew::Accept));
    for view in [world.shown(), {
        world.pages(AGENT);
        world.view()
    }] {
        let failure = view.failure.unwrap();
        assert_eq!(
            (view.status, failure.class),
            (RunStatus::Cancelled, FailureClass::Cancelled)
        );
        assert_eq!(failure.message, "Agent paused manually");
    }
    let mut world = World::started(SEND);
    world.command(AGENT, pause(PauseWaiting::Cancel, PauseNew::Accept));
    world.pages(AGENT);
    assert_eq!(world.status(), RunStatus::Running);
    assert_eq!(world.view().paused_by.len(), 1);
}

/// S0-T6.3: an agent can say so itself.
#[test]
fn an_agent_with_on_pause_cancel_needs_no_option() {
    let text = "agent: outreach\non_pause: cancel\nsteps:\n  - wait: 5 days\n";
    let mut world = World::of_plan(crate::domain::plan::Plan::compile(text).unwrap());
    world.start();
    world.command(WORKSPACE, hold());
    assert_eq!(
        world.shown().status,
        RunStatus::Waiting,
        "its own pauses only"
    );
    world.command(AGENT, hold());
    assert_eq!(world.shown().status, RunStatus::Cancelled);
}

/// S0-AC4: new runs of a paused agent are accepted and stand paused, or refused, by option.
#[test]
fn a_run_started_meanwhile_stands_paused_until_the_resume() {
    let mut world = World::of(SEND);
    world.command(AGENT, hold());
    world.pages(AGENT);
    world.pass(TimeDelta::hours(1));
    let view = world.start();
    assert_eq!(view.paused_by[0].scope, AGENT);
    assert!(world.handed.is_empty());
    world.command(AGENT, resume(ResumeMode::Continue));
    world.pages(AGENT);
    assert_eq!(world.handed.len(), 1);
    assert!(world.view().paused_by.is_empty());
}

/// S0-AC4
#[test]
fn a_run_of_an_agent_that_takes_none_is_refused() {
    for kind in [AGENT, WORKSPACE] {
        let mut world = World::of(SEND);
        world.command(kind, pause(PauseWaiting::Hold, PauseNew::Refuse));
        let Heard::Refused(refusal) = world.give(start_input()) else {
            panic!("accepted");
        };
        let problem = refusal.problem();
        assert_eq!(
            (problem.status, problem.code.as_str()),
            (409, "agent_paused")
        );
    }
}

/// STYLE, limits: what happens at it.
#[test]
fn more_changes_than_pages_can_follow_are_refused_until_they_have() {
    let mut world = World::started("  - wait: 5 days\n");
    for _ in 0..CHANGES_MAX / 2 {
        world.command(AGENT, hold());
        world.command(AGENT, resume(ResumeMode::Continue));
    }
    let heard = world.command(AGENT, hold());
    assert!(
        matches!(heard, Heard::Refused(Refusal::ScopeBusy)),
        "{heard:?}"
    );
    world.pages(AGENT);
    assert!(said(&world.command(AGENT, hold())).changed);
}

/// A page that was read before a newer command ends nothing.
#[test]
fn a_newer_command_makes_an_older_page_void() {
    let mut world = World::started("  - wait: 5 days\n");
    world.command(AGENT, hold());
    let epoch = world.agent_scope.epoch;
    world.command(AGENT, resume(ResumeMode::Continue));
    for upto in [
        None,
        Some(Cursor {
            agent: "outreach".parse().unwrap(),
            run: run_id(),
        }),
    ] {
        let heard = world.command(AGENT, ScopeInput::Paged { epoch, upto });
        assert!(matches!(heard, Heard::Unchanged(_)), "{heard:?}");
    }
    assert_eq!(
        (world.agent_scope.changes.len(), &world.agent_scope.cursor),
        (2, &None)
    );
}

/// A run that its page could not bring up (or that a replica started under an older row) follows
/// what stands, although the changes themselves are forgotten.
#[test]
fn a_run_that_every_page_passed_by_still_follows_what_stands() {
    let mut world = World::started("  - wait: 5 days\n");
    world.command(AGENT, hold());
    let paused_at = world.now;
    let epoch = world.agent_scope.epoch;
    world.command(AGENT, ScopeInput::Paged { epoch, upto: None });
    world.pass(TimeDelta::days(1));
    assert_eq!(world.shown().paused_by[0].at, paused_at);
    assert_eq!(
        world.shown().waiting_on[0].remaining_ms,
        Some(ms(TimeDelta::days(5)))
    );
    world.give(RunInput::ApplyScopes);
    world.command(AGENT, resume(ResumeMode::Continue));
    let epoch = world.agent_scope.epoch;
    world.command(AGENT, ScopeInput::Paged { epoch, upto: None });
    assert_eq!(
        world.shown().resume_at,
        Some(world.now + TimeDelta::days(5))
    );
    world.command(AGENT, delete());
    let epoch = world.agent_scope.epoch;
    world.command(AGENT, ScopeInput::Paged { epoch, upto: None });
    assert_eq!(world.shown().status, RunStatus::Failed);
}

/// The row of a workspace is made by the first command for it.
#[test]
fn a_workspace_cannot_be_deleted_this_way() {
    let mut world = World::started("  - wait: 5 days\n");
    assert!(!said(&world.command(WORKSPACE, delete())).changed);
    assert_eq!(world.workspace_scope, None::<WorkspaceScope>);
}
