//! What must hold in every history: after each turn, and once the world has come to rest.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::history::{EventType, HistoryItem};
use holdpoint_contracts::run::HoldKind;
use holdpoint_executor::domain::run::person_hold::Deadline;
use holdpoint_executor::domain::run::{Run, StepPhase};
use holdpoint_executor::domain::{Aggregate, Effect, Key};
use holdpoint_ids::RunId;
use holdpoint_scheduler::domain::Effect as WithTimers;

use crate::people::RUNG_AFTER;
use crate::worker::Effects;

type StepKey = (RunId, String);

/// What has been seen so far.
#[derive(Default)]
pub(crate) struct Checks {
    /// How much a clock may be slow.
    slow: TimeDelta,
    before: HashMap<RunId, Run>,
    /// The newest dispatch of each step, and whether doing it twice does harm.
    handed: BTreeMap<StepKey, (u64, bool)>,
    succeeded: BTreeMap<StepKey, u32>,
    /// How often people said that a step is to run again.
    again: BTreeMap<StepKey, u32>,
    /// Runs that had an incident.
    pub(crate) incidents: BTreeSet<RunId>,
    /// What histories say of each handoff, in order: which, by whom.
    pub(crate) handed_over: BTreeMap<String, Vec<(EventType, String)>>,
}

impl Checks {
    /// Where a clock may be slow by so much.
    pub(crate) fn allowing(slow: TimeDelta) -> Self {
        Self {
            slow,
            ..Self::default()
        }
    }

    /// After commits of the executor.
    pub(crate) fn executor(
        &mut self,
        effects: &[Effect],
        states: &HashMap<Key, Aggregate>,
        now: DateTime<Utc>,
    ) {
        for effect in effects {
            match effect {
                Effect::StepDispatch(step_dispatch) => {
                    let key = (step_dispatch.run, step_dispatch.step.clone());
                    let news = (step_dispatch.dispatch, step_dispatch.idempotent);
                    if let Some((before, _)) = self.handed.insert(key, news) {
                        let sank = step_dispatch.dispatch <= before;
                        assert!(!sank, "{step_dispatch:?} after {before}: dispatch sank");
                    }
                }
                Effect::History { run, items, .. } => {
                    for item in items {
                        self.history(*run, item);
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
                follows(before, run);
                is_due(before, run, now, self.slow);
            }
            self.before.insert(run.id, run.clone());
        }
    }

    fn history(&mut self, run: RunId, item: &HistoryItem) {
        let key = (run, item.step.clone().unwrap_or_default());
        if item.kind == EventType::InputAnswered && item.data["answer"] == "run_again" {
            *self.again.entry(key.clone()).or_default() += 1;
        }
        if item.kind == EventType::RunIncident {
            self.incidents.insert(run);
        }
        if item.kind.as_str().starts_with("handoff.") {
            let request = item.data["request"].as_str().unwrap_or_default();
            let by = item.data["by"].as_str().unwrap_or_default().to_owned();
            let said = self.handed_over.entry(request.to_owned()).or_default();
            said.push((item.kind, by));
        }
        if item.kind == EventType::StepSucceeded {
            let times = self.succeeded.entry(key).or_default();
            *times += 1;
            assert_eq!(*times, 1, "{run} {item:?}: a result was applied twice");
        }
    }

    /// After commits of the scheduler: nothing fires early.
    pub(crate) fn scheduler(&self, effects: &[WithTimers], now: DateTime<Utc>) {
        for effect in effects {
            if let WithTimers::Fired { key, due, .. } = effect {
                assert!(*due <= now, "{key:?} is due {due} and fired {now}");
            }
        }
    }

    /// After each turn: what must not happen twice outside has not.
    pub(crate) fn outside(&self, effects: &Effects) {
        for (key, times) in effects {
            let idempotent = self.handed.get(key).is_some_and(|(_, it)| *it);
            let allowed = 1 + self.again.get(key).copied().unwrap_or(0);
            assert!(
                idempotent || *times <= allowed,
                "{key:?} was done {times} times, and {allowed} were wanted"
            );
        }
    }

    /// Once all has come to rest: nothing waits without a waker, nothing was lost.
    pub(crate) fn rest(&self, runs: &[RunId], states: &HashMap<Key, Aggregate>, effects: &Effects) {
        for id in runs {
            let Some(Aggregate::Run(run)) = states.get(&Key::Run(*id)) else {
                panic!("{id} was asked for and never started");
            };
            assert!(
                run.is_final()
                    || !run.pauses.is_empty()
                    || run.questions().next().is_some()
                    || run.people().next().is_some(),
                "nothing will ever wake {run:#?}"
            );
            let granted = |phase: &StepPhase| matches!(phase, StepPhase::Granted(_));
            assert!(
                !run.steps.iter().any(|step| granted(&step.phase)),
                "a lease without an end: {run:#?}"
            );
            for step in &run.steps {
                let key = (*id, step.id.clone());
                // Somebody said that it happened; nobody has to have seen it.
                if !step.answered.is_empty() {
                    continue;
                }
                let times = effects.get(&key).copied().unwrap_or(0);
                if self.handed.contains_key(&key)
                    && matches!(step.phase, StepPhase::Completed { .. })
                {
                    assert!(times >= 1, "{key:?} counts as done and never happened");
                }
            }
        }
    }
}

/// Time ends a hold on people when it is up, and not before; or a rung of the policy that a question may
/// name.
fn is_due(before: &Run, after: &Run, now: DateTime<Utc>, slow: TimeDelta) {
    for (_, on) in before.people() {
        let due = match on.clock {
            Deadline::Set { due } | Deadline::Frozen { due, .. } => due,
            Deadline::None => continue,
        };
        let is_over = after.timed_out.contains(&on.id.number);
        // Its owner counts from its own clock.
        let by_rung = on.since + RUNG_AFTER - slow;
        let is_due = due <= now || (on.kind == HoldKind::Input && by_rung <= now);
        assert!(!is_over || is_due, "at {now} time was up for {on:#?}");
    }
}

/// What must hold between two states of a run, however many decisions lie between them.
fn follows(before: &Run, after: &Run) {
    assert!(after.version > before.version && after.seq >= before.seq);
    for (old, new) in before.steps.iter().zip(&after.steps) {
        assert!(new.dispatch >= old.dispatch, "{}: dispatch sank", new.id);
        if old.phase.is_settled() {
            assert_eq!(old.phase, new.phase, "what has ended stays as it is");
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
    if before.is_final() {
        assert_eq!(before.phase, after.phase, "what is final stays final");
    }
}
