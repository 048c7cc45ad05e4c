//! Rules of runs and timers, checked after each turn and at the end of every history.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::history::{EventType, HistoryItem};
use holdpoint_contracts::run::{HoldKind, PauseScope};
use holdpoint_executor::domain::run::person_hold::Deadline;
use holdpoint_executor::domain::run::{Phase, Run, StepPhase};
use holdpoint_executor::domain::{Aggregate, Effect, Key};
use holdpoint_ids::RunId;
use holdpoint_scheduler::domain::Effect as WithTimers;

use crate::approvals::{Approvals, Users};
use crate::people::RUNG_AFTER;
use crate::worker::Effects;

type StepKey = (RunId, String);

/// Observations of the history so far.
#[derive(Default)]
pub(crate) struct Checks {
    /// How far a clock may be behind.
    pub(crate) clock_lag: TimeDelta,
    before: HashMap<RunId, Run>,
    /// The newest dispatch of each step, and whether the step is idempotent.
    dispatched: BTreeMap<StepKey, (u64, bool)>,
    succeeded: BTreeMap<StepKey, u32>,
    /// How often people had a step run again, by an answer or by a retry of its run.
    repeated: BTreeMap<StepKey, u32>,
    pub(crate) approvals: Approvals,
    /// Steps whose failure was reported, until their run is retried.
    failed: BTreeSet<StepKey>,
    /// Runs that had an incident.
    pub(crate) incidents: BTreeSet<RunId>,
    /// The events of each handoff in run histories, in order, with their actors.
    pub(crate) handoff_events: BTreeMap<String, Vec<(EventType, String)>>,
}

impl Checks {
    /// Checks for clocks that may be behind.
    pub(crate) fn with_clock_lag(clock_lag: TimeDelta) -> Self {
        Self {
            clock_lag,
            ..Self::default()
        }
    }

    /// Checks commits of the executor.
    pub(crate) fn check_executor(
        &mut self,
        effects: &[Effect],
        states: &HashMap<Key, Aggregate>,
        users: Users<'_>,
    ) {
        for effect in effects {
            match effect {
                Effect::StepDispatch(step_dispatch) => {
                    let key = (step_dispatch.run, step_dispatch.step.clone());
                    self.approvals
                        .check_dispatch(&key, &step_dispatch.args, users);
                    let newest = (step_dispatch.dispatch, step_dispatch.idempotent);
                    if let Some((before, _)) = self.dispatched.insert(key, newest) {
                        let sank = step_dispatch.dispatch <= before;
                        assert!(!sank, "{step_dispatch:?} after {before}: dispatch sank");
                    }
                }
                Effect::History { run, items, .. } => {
                    for item in items {
                        self.record_history_item(*run, item);
                        self.approvals.record(*run, item, users);
                    }
                }
                _ => {}
            }
        }
        if effects.is_empty() {
            return;
        }
        for state in states.values() {
            let Aggregate::Run(run) = state else { continue };
            if let Some(before) = self.before.get(&run.id) {
                if before.version == run.version {
                    continue;
                }
                check_transition(before, run);
                check_timeouts(before, run, users.now, self.clock_lag);
                self.approvals.check_start(before, run, users);
            }
            self.before.insert(run.id, run.clone());
        }
    }

    fn record_history_item(&mut self, run: RunId, item: &HistoryItem) {
        let key = (run, item.step.clone().unwrap_or_default());
        if item.kind == EventType::InputAnswered && item.data["answer"] == "run_again" {
            *self.repeated.entry(key.clone()).or_default() += 1;
        }
        // A tool that reported its failure is called again by a retry. After `give_up`, a person is asked first.
        if item.kind == EventType::StepFailed && item.data["code"] != "given_up" {
            self.failed.insert(key.clone());
        }
        if item.kind == EventType::RunRetried {
            for step in self.failed.extract_if(.., |(of, _)| *of == run) {
                *self.repeated.entry(step).or_default() += 1;
            }
        }
        if item.kind == EventType::RunIncident {
            self.incidents.insert(run);
        }
        if item.kind.as_str().starts_with("handoff.") {
            let request = item.data["request"].as_str().unwrap_or_default();
            let by = item.data["by"].as_str().unwrap_or_default().to_owned();
            let events = self.handoff_events.entry(request.to_owned()).or_default();
            events.push((item.kind, by));
        }
        if item.kind == EventType::StepSucceeded {
            let times = self.succeeded.entry(key).or_default();
            *times += 1;
            let wanted = 1 + self
                .approvals
                .revisions_of(&(run, item.step.clone().unwrap_or_default()));
            assert!(
                *times <= wanted,
                "{run} {item:?}: a result was applied twice"
            );
        }
    }

    /// Checks commits of the scheduler: no timer fires early.
    pub(crate) fn check_scheduler(&self, effects: &[WithTimers], now: DateTime<Utc>) {
        for effect in effects {
            if let WithTimers::Fired { key, due, .. } = effect {
                assert!(*due <= now, "{key:?} is due {due} and fired {now}");
            }
        }
    }

    /// Checks effects outside: a step that is not idempotent has its effect once for each wanted run of it.
    pub(crate) fn check_effects(&mut self, effects: &Effects) {
        self.approvals.check_effects(effects);
        for (key, done) in effects {
            let idempotent = self.dispatched.get(key).is_some_and(|(_, it)| *it);
            let again = self.repeated.get(key).copied().unwrap_or(0);
            let allowed = 1 + again + self.approvals.revisions_of(key);
            let times = u32::try_from(done.len()).unwrap();
            assert!(
                idempotent || times <= allowed,
                "{key:?} was done {times} times, and {allowed} were wanted"
            );
        }
    }

    /// Whether a step that people have approved succeeded.
    pub(crate) fn has_gated_effect(&self) -> bool {
        self.approvals
            .is_made(|key| self.succeeded.contains_key(key))
    }

    /// Checks the end: nothing waits without a waker, and nothing was lost.
    pub(crate) fn check_quiescent(
        &self,
        runs: &[RunId],
        states: &HashMap<Key, Aggregate>,
        effects: &Effects,
    ) {
        for id in runs {
            let Some(Aggregate::Run(run)) = states.get(&Key::Run(*id)) else {
                panic!("{id} was requested and never started");
            };
            assert!(
                run.is_final()
                    || !run.pauses.is_empty()
                    || run.questions().next().is_some()
                    || run.people().next().is_some()
                    // The sweep of queued runs has found no place for it.
                    || run.wanted_place().is_some(),
                "{run:#?} waits without a waker"
            );
            let granted = |phase: &StepPhase| matches!(phase, StepPhase::Granted(_));
            assert!(
                !run.steps.iter().any(|step| granted(&step.phase)),
                "a lease does not end: {run:#?}"
            );
            check_items(run);
            check_child_runs(run, states);
            for step in &run.steps {
                let key = (*id, step.id.clone());
                // A person answered that it has happened, so it may have no observed effect.
                if !step.answered.is_empty() {
                    continue;
                }
                let times = effects.get(&key).map_or(0, Vec::len);
                if self.dispatched.contains_key(&key)
                    && matches!(step.phase, StepPhase::Completed { .. })
                {
                    assert!(times >= 1, "{key:?} is completed without an effect");
                }
            }
        }
    }
}

/// A child run of a run that does not wait for it has ended, and each that is awaited has started.
fn check_child_runs(run: &Run, states: &HashMap<Key, Aggregate>) {
    for step in &run.steps {
        let is_awaited = step.awaited_runs().is_some();
        let runs = step.child_runs.iter().flat_map(|runs| &runs.runs);
        for child in runs.filter(|child| child.end.is_none() || child.is_refused) {
            match states.get(&Key::Run(child.run)) {
                // Its desired state was refused, so it is cancelled if it has started.
                found if child.is_refused => {
                    let found = found.and_then(Aggregate::try_as_run_ref);
                    assert!(found.is_none_or(Run::is_final), "{found:#?}");
                }
                Some(Aggregate::Run(state)) if is_awaited => {
                    assert_eq!(
                        run.pauses.is_empty(),
                        !is_paused_by_parent(state),
                        "{state:#?}"
                    );
                }
                Some(Aggregate::Run(state)) => assert!(state.is_final(), "{state:#?}"),
                // Its run ended in the decision that would have started it.
                None if !is_awaited => {}
                _ => panic!("{} never started: {run:#?}", child.run),
            }
        }
    }
}

fn is_paused_by_parent(run: &Run) -> bool {
    let mut pauses = run.pauses.iter();
    pauses.any(|pause| pause.scope == PauseScope::Parent)
}

/// A step that is done for each item has as many children as it may have (S2-R9).
fn check_items(run: &Run) {
    for (index, step) in run.planned_steps().enumerate() {
        let Some(fan_out) = step.fan_out.as_deref() else {
            continue;
        };
        let children = run.steps.iter().filter(|child| {
            let of = child.child_of.filter(|of| of.parent == index);
            of.is_some() && !child.phase.is_settled()
        });
        // No agent of these histories names a larger number.
        assert!(children.count() <= 3, "{run:#?}");
        let is_completed = matches!(step.phase, StepPhase::Completed { .. });
        assert!(!is_completed || fan_out.has_ended(), "{run:#?}");
    }
}

/// A hold on a person times out at its deadline or by a rung of its policy, and not before.
fn check_timeouts(before: &Run, after: &Run, now: DateTime<Utc>, clock_lag: TimeDelta) {
    for (_, on) in before.people() {
        let due = match on.clock {
            Deadline::Set { due } | Deadline::Frozen { due, .. } => due,
            Deadline::None => continue,
        };
        let is_over = after.timed_out.contains(&on.id.number);
        // The handoff service counts from its own clock.
        let by_rung = on.since + RUNG_AFTER - clock_lag;
        let check_timeouts = due <= now || (on.kind == HoldKind::Input && by_rung <= now);
        assert!(
            !is_over || check_timeouts,
            "at {now} this timed out too early: {on:#?}"
        );
    }
}

/// Rules between two states of a run, with any number of decisions between them.
fn check_transition(before: &Run, after: &Run) {
    assert!(after.version > before.version && after.seq >= before.seq);
    for old in &before.steps {
        let Some(new) = after.steps.iter().find(|new| new.id == old.id) else {
            assert!(old.child_of.is_some(), "{} is gone", old.id);
            continue;
        };
        assert!(new.dispatch >= old.dispatch, "{}: dispatch sank", new.id);
        // Only a retry of the run starts an ended step again, and it fences the earlier dispatches.
        if old.phase.is_settled() && new.dispatch == old.dispatch {
            assert_eq!(old.phase, new.phase, "an ended step does not change");
        }
        let is_out = |phase: &StepPhase| {
            matches!(
                phase,
                StepPhase::Queued(_) | StepPhase::Granted(_) | StepPhase::Planned
            )
        };
        let is_owned = before.taken().is_some() && before.taken() == after.taken();
        let is_paused = !before.pauses.is_empty() && before.pauses == after.pauses;
        if before.is_final() || is_paused || is_owned {
            let starts = !matches!(old.phase, StepPhase::Granted(_))
                && is_out(&old.phase)
                && matches!(new.phase, StepPhase::Granted(_));
            assert!(!starts, "{} of a stopped run started: {after:#?}", new.id);
        }
    }
    if before.is_final() && !matches!(before.phase, Phase::Failed { .. }) {
        assert_eq!(
            before.phase, after.phase,
            "a completed or cancelled run does not change"
        );
    }
}
