//! What must hold after every decision.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdpoint_contracts::executor::ChildRunState;
use holdpoint_contracts::history::{EventType, HistoryItem};
use holdpoint_contracts::hold::HoldState;
use holdpoint_contracts::run::{RunStatus, StepStatus};
use holdpoint_contracts::steps::StepDispatch;

use holdpoint_contracts::tool::Risk;

use super::World;
use crate::domain::rules::approval_gate::call_digest;
use crate::domain::rules::pauses::is_of_run;
use crate::domain::run::fan_out::child_id;
use crate::domain::run::{Phase, Run, Step, StepPhase, Timer};
use crate::domain::{Effect, Reply, StepRow, ToolEntry};

impl World {
    /// What must hold between a state and the next.
    pub(super) fn check_step(&self, next: &Run, effects: &[Effect]) {
        let (version, seq) = self
            .run
            .as_ref()
            .map_or((0, 0), |run| (run.version, run.seq));
        // What it follows of its scopes before the input are turns of their own.
        let follows = self
            .run
            .as_ref()
            .is_some_and(|run| run.followed != next.followed);
        let rises = if follows {
            next.version > version
        } else {
            next.version == version + 1
        };
        assert!(rises, "the version rises by one");
        let items = effects.iter().filter_map(|effect| match effect {
            Effect::History { items, .. } => Some(items),
            _ => None,
        });
        let items: Vec<_> = items.flatten().collect();
        let numbers: Vec<_> = items.iter().map(|item| item.seq).collect();
        let expected: Vec<_> = (seq + 1..=next.seq).collect();
        assert_eq!(numbers, expected, "history is numbered without gaps");
        for effect in effects {
            let Effect::StepDispatch(step_dispatch) = effect else {
                continue;
            };
            let step = next.steps.iter().find(|one| one.id == step_dispatch.step);
            // Dispatched because a scope was resumed, and stopped again by the input itself. Such a step does not start.
            let is_queued = step.is_some_and(|one| matches!(one.phase, StepPhase::Queued(_)));
            if follows && (!next.moves() || !is_queued) {
                continue;
            }
            assert!(next.pauses.is_empty(), "a paused run hands nothing out");
            let current = step.map(|one| one.dispatch);
            self.check_gate(step.unwrap(), step_dispatch);
            assert!(
                current == Some(step_dispatch.dispatch) && !next.is_final(),
                "dispatched as {}, is {current:?}",
                step_dispatch.dispatch
            );
        }
        if let Some(before) = &self.run {
            check_phases(before, next, effects, &items);
        }
    }

    pub(super) fn check_unchanged(&self, answer: &Reply) {
        match answer {
            Reply::Changed(changed) => {
                assert!(!changed.changed);
                assert_eq!(changed.run, self.view());
            }
            Reply::Run(started) => assert_eq!(started.run, self.view()),
            _ => {}
        }
    }

    /// What must hold of every state.
    pub(super) fn check_state(&self) {
        let Some(run) = &self.run else { return };
        let text = serde_json::to_string(run).unwrap();
        assert_eq!(
            serde_json::from_str::<Run>(&text).unwrap(),
            *run,
            "stored and read"
        );
        assert_eq!(run.ended_at().is_some(), run.status().is_final());
        assert_eq!(run.is_final(), !matches!(run.phase, Phase::Live));
        self.check_timers(run);
        self.check_questions(run);
        self.check_leases(run);
        self.check_wakers(run);
        self.check_suspension(run);
        self.check_fan_outs(run);
        self.check_child_runs(run);
        for step in &run.steps {
            let row = self.rows.get(&step.id);
            let said = row.map(|row| (row.status, row.dispatch));
            match step.phase {
                // Revoked by a person who owns the run: its turn comes again.
                StepPhase::Planned => assert!(
                    said.is_none_or(|said| said == (StepStatus::Planned, step.dispatch)),
                    "{}",
                    step.id
                ),
                // Never begun: there is no row to be told.
                StepPhase::Cancelled { .. } if said.is_none() => {}
                _ => assert_eq!(
                    said,
                    Some((step.phase.status(), step.dispatch)),
                    "{}",
                    step.id
                ),
            }
        }
    }

    /// S1-R7: a suspended run is frozen, and has the snapshot of this suspension.
    fn check_suspension(&self, run: &Run) {
        let Some(suspension) = &run.suspension else {
            return;
        };
        assert!(!run.is_final() && run.pauses.iter().any(is_of_run));
        assert_eq!(run.status(), RunStatus::PausedForIntervention);
        let snapshot = self.snapshot.as_ref().expect("a snapshot");
        assert_eq!(snapshot.suspended_at, suspension.at);
        assert_eq!(snapshot.snapshot_json.reason, suspension.reason);
        let suspended = self.history.iter().rev();
        let mut suspended = suspended.filter(|item| item.kind == EventType::RunSuspended);
        assert!(suspended.any(|item| item.data["reason"] == suspension.reason));
    }

    /// What the scheduler was told is what the run wants.
    fn check_timers(&self, run: &Run) {
        // A pause does not move the turn of a start.
        let delayed = run.delayed_start();
        let delayed = delayed.map(|(timer, due)| (timer.hold, (timer.rev, Some(due))));
        let wanted: BTreeMap<_, _> = run
            .holds()
            .filter_map(|(_, hold)| match hold.timer {
                Timer::Set { rev, due, .. } => Some((hold.id, (rev, Some(due)))),
                Timer::Frozen { .. } => None,
            })
            .chain(delayed)
            .collect();
        let mut sent = self.timers.clone();
        sent.retain(|_, (_, due)| due.is_some());
        assert_eq!(sent, wanted, "the desired state is the timer");
        for (_, hold) in run.holds() {
            let frozen = matches!(hold.timer, Timer::Frozen { .. });
            assert_eq!(
                frozen,
                !run.pauses.is_empty() || run.taken().is_some(),
                "frozen while paused or owned by a person, and only then"
            );
        }
    }

    /// What the handoff service was told is what the run wants: asked while a step is uncertain,
    /// frozen since the pause, gone otherwise.
    fn check_questions(&self, run: &Run) {
        let since = run.pauses.iter().map(|pause| pause.at).min();
        let mut wanted: BTreeMap<_, _> = run
            .questions()
            .map(|(_, asked)| (asked.hold, (since, None)))
            .collect();
        // What its owner has closed, and the run keeps, is not asked for again.
        let (kept, asked): (Vec<_>, Vec<_>) =
            run.people().partition(|(_, on)| on.closing.is_some());
        for (_, on) in asked {
            wanted.insert(on.id, (since, on.deadline()));
        }
        let taken: Vec<_> = run.people().filter(|(_, on)| on.taken.is_some()).collect();
        let sent: BTreeMap<_, _> = self
            .holds
            .iter()
            .filter_map(|(id, (_, state))| match state {
                // Whoever owns the run has stopped the timer at the owner of the hold.
                HoldState::Open { .. } if taken.iter().any(|(_, on)| on.id == *id) => {
                    Some((*id, (None, None)))
                }
                HoldState::Open { deadline, .. } => Some((*id, (None, *deadline))),
                HoldState::Frozen { since, .. } => Some((*id, (Some(*since), None))),
                HoldState::Withdrawn { .. } | HoldState::Erased { .. } => None,
            })
            .collect();
        let sent_of = |id| sent.get(id).copied();
        for (id, frozen) in &wanted {
            assert_eq!(
                sent_of(id),
                Some(*frozen),
                "the desired state is the question {id}"
            );
        }
        let answered = |id: &&holdpoint_ids::HoldId| {
            run.closed.contains(&id.number)
                || run
                    .steps
                    .iter()
                    .any(|step| step.answered.contains(&id.number))
        };
        let left: Vec<_> = sent
            .keys()
            .filter(|id| !wanted.contains_key(id))
            .filter(|id| !answered(id))
            .filter(|id| !kept.iter().any(|(_, on)| on.id == **id))
            .collect();
        assert!(left.is_empty(), "asked for nothing: {left:?}");
    }

    /// Nothing gated is dispatched without a valid approval of exactly this call (S2-R3).
    fn check_gate(&self, step: &Step, out: &StepDispatch) {
        let mut entry = ToolEntry::default();
        let tools = self.tools.iter();
        for tool in tools.filter(|tool| tool.spec.name == out.tool) {
            entry.add(Arc::new(tool.clone()));
        }
        let is_risky = entry.risk() == Risk::High;
        let id = match step.child_of {
            Some(_) => step.id.rsplit_once('-').unwrap().0,
            None => step.id.as_str(),
        };
        let next = self.next_plan.iter().flat_map(|plan| &plan.plan.steps);
        let mut steps = self.plan.plan.steps.iter().chain(next);
        let planned = steps.find(|planned| planned.id == id);
        // A plan that a planner made has no gate of its own.
        assert!(planned.is_some() || self.plan.plan.planner.is_some());
        let has_rule = planned.is_some_and(|planned| planned.approval.is_some());
        if !has_rule && !is_risky && !step.is_high_risk {
            return;
        }
        assert!(!out.idempotent, "a gated step starts only with a grant");
        let approval = step.approval.as_deref().expect("an approval");
        assert!(self.approved.contains(&approval.hold), "nobody approved it");
        let decision = approval.valid_decision(self.now).expect("a valid approval");
        let digest = call_digest(&out.tool, entry.version().as_deref(), &out.args);
        let approved = decision.edited_digest.as_ref().unwrap_or(&approval.digest);
        assert_eq!(
            digest.as_ref(),
            Some(approved),
            "what was approved is what runs"
        );
    }

    /// A lease stands while a step is with a worker, and only then.
    fn check_leases(&self, run: &Run) {
        let working: Vec<_> = run
            .steps
            .iter()
            .filter_map(|step| match &step.phase {
                StepPhase::Granted(working) => {
                    Some((step.id.as_str(), step.dispatch, &working.node))
                }
                _ => None,
            })
            .collect();
        let mut leases: Vec<_> = self
            .leases
            .values()
            .map(|lease| (lease.step.as_str(), lease.dispatch, &lease.node))
            .collect();
        let place = |id: &str| run.steps.iter().position(|step| step.id == id);
        leases.sort_by_key(|lease| place(lease.0));
        assert_eq!(leases, working, "the lease is the grant");
    }

    /// S2-R9: no more children are in progress than the plan says, and those that are gone have ended.
    fn check_fan_outs(&self, run: &Run) {
        for (index, step) in run.planned_steps().enumerate() {
            assert!(step.child_of.is_none());
            let Some(fan_out) = step.fan_out.as_deref() else {
                assert!(!matches!(step.phase, StepPhase::FannedOut));
                continue;
            };
            let children = run.steps.iter().filter_map(|it| Some((it, it.child_of?)));
            let children = children.filter(|(_, of)| of.parent == index);
            let open = children.filter(|(it, _)| !it.phase.is_settled()).count();
            let plan = self.plan_of(run);
            let for_each = plan.plan.steps[index].for_each.as_ref().unwrap();
            assert!(open <= usize::try_from(for_each.parallel).unwrap());
            let is_fanned_out = matches!(step.phase, StepPhase::FannedOut);
            assert!(
                is_fanned_out || open == 0,
                "a child of a step that has ended"
            );
            if is_fanned_out && run.moves() {
                assert!(open > 0, "nothing will ever end {}", step.id);
                let ended = fan_out.next - u32::try_from(open).unwrap();
                assert_eq!(fan_out.ended(), ended, "{fan_out:?}");
            }
            let results = self.values.get(&step.id).and_then(|value| value.as_array());
            let is_completed = matches!(step.phase, StepPhase::Completed { .. });
            for (item, result) in results.into_iter().flatten().enumerate() {
                let id = child_id(&step.id, u32::try_from(item).unwrap());
                let is_done = |row: &&StepRow| row.status == StepStatus::Completed;
                let done = self.rows.get(&id).filter(is_done);
                let own = done.and_then(|_| self.values.get(&id));
                // A retry from an earlier step begins the children anew.
                let fits = own.map_or(result.is_null(), |own| **own == *result);
                assert!(!is_completed || fits, "{id}: {own:?} is {result}");
            }
            for item in 0..fan_out.next {
                let id = child_id(&step.id, item);
                let is_own = |one: &&HistoryItem| {
                    one.kind == EventType::StepSucceeded && one.step.as_ref() == Some(&id)
                };
                let times = self.history.iter().filter(is_own).count();
                let most = 1 + usize::try_from(fan_out.renewals).unwrap();
                assert!(times <= most, "{id} succeeded {times} times");
                if run.has_ended_child(&id) {
                    let status = self.rows.get(&id).unwrap().status;
                    assert!(matches!(
                        status,
                        StepStatus::Completed | StepStatus::Failed | StepStatus::Skipped
                    ));
                }
            }
        }
    }

    /// An open child run is wanted, and frozen with its parent. Any other one that has not ended is cancelled.
    fn check_child_runs(&self, run: &Run) {
        let awaited = run.steps.iter().filter_map(Step::awaited_runs);
        let awaited: Vec<_> = awaited.flat_map(|runs| &runs.runs).collect();
        for child in &awaited {
            assert!(
                self.children.contains_key(&child.run),
                "{child:?} never starts"
            );
        }
        let is_open = awaited.iter().any(|child| child.end.is_none());
        assert!(awaited.is_empty() || is_open || run.taken().is_some());
        for (id, desired) in &self.children {
            let has_ended = self.ended_children.contains(id);
            let is_awaited = awaited.iter().any(|it| it.run == *id) && !has_ended;
            match &desired.state {
                ChildRunState::Open { .. } if has_ended => {}
                ChildRunState::Frozen { .. } if has_ended => {}
                ChildRunState::Open { .. } => assert!(is_awaited && run.pauses.is_empty()),
                ChildRunState::Frozen { .. } => assert!(is_awaited && !run.pauses.is_empty()),
                ChildRunState::Cancelled { .. } => assert!(!is_awaited),
            }
        }
    }

    /// Nothing waits without a waker.
    fn check_wakers(&self, run: &Run) {
        if run.is_final() || !run.pauses.is_empty() {
            return;
        }
        let mut wakers = run.holds().count() + run.people().count();
        wakers += usize::from(run.delayed_start().is_some());
        if run.wanted_place().is_some() {
            // The sweep of queued runs finds its row.
            let row = self.limits.as_ref().and_then(|row| row.place.as_ref());
            assert!(row.is_some_and(|place| place.number.is_none()), "{row:?}");
            wakers += 1;
        }
        for step in &run.steps {
            let is_out = match &step.phase {
                StepPhase::Queued(_) => true,
                // Its lease wakes it: checked with the leases.
                StepPhase::Granted(_) => {
                    wakers += 1;
                    false
                }
                StepPhase::Uncertain(asked) => {
                    assert!(
                        self.holds.contains_key(&asked.hold),
                        "nobody is asked about {}",
                        step.id
                    );
                    wakers += 1;
                    false
                }
                _ => false,
            };
            if !is_out {
                continue;
            }
            let message = (step.id.clone(), step.dispatch);
            assert!(
                !self.dropped.contains(&message),
                "{message:?} was dropped and is waited for"
            );
            let handed = |one: &StepDispatch| one.step == step.id && one.dispatch == step.dispatch;
            assert!(
                self.handed.iter().any(handed),
                "{message:?} was never dispatched"
            );
            wakers += 1;
        }
        assert!(wakers > 0, "nothing will ever wake {run:?}");
    }
}

/// A dispatch never falls, and an end is final unless the run is retried.
fn check_phases(before: &Run, next: &Run, effects: &[Effect], items: &[&HistoryItem]) {
    let has = |kind| items.iter().any(|item| item.kind == kind);
    let is_retried = has(EventType::RunRetried);
    if is_retried {
        // A resumed scope may fail the run first, in the same decision.
        let has_failed = matches!(before.phase, Phase::Failed { .. }) || has(EventType::RunFailed);
        assert!(has_failed, "{:?}", before.phase);
    }
    for old in &before.steps {
        let Some(new) = next.steps.iter().find(|new| new.id == old.id) else {
            // A newer plan may lack a step that has not begun.
            let is_replaced = before.plan != next.plan && matches!(old.phase, StepPhase::Planned);
            assert!(old.child_of.is_some() || is_replaced, "{} is gone", old.id);
            continue;
        };
        assert!(new.dispatch >= old.dispatch, "dispatch sinks");
        let revision = |step: &Step| step.feedback.as_ref().map_or(0, |it| it.revision);
        let is_revised = revision(old) != revision(new);
        // A resumed scope may have ended the step first, in the same decision. A retry keeps its result.
        let mut earlier = items
            .iter()
            .take_while(|item| item.kind != EventType::RunRetried);
        // A wait that a resume ends has no event.
        let was_waiting = old.phase.try_as_waiting_ref().is_some();
        let has_ended_before = new.phase.is_settled()
            && (was_waiting || earlier.any(|item| item.step.as_ref() == Some(&old.id)));
        if (is_retried || is_revised) && !has_ended_before && old.phase != new.phase {
            assert!(new.dispatch > old.dispatch, "{} is not fenced", new.id);
        } else if old.phase.is_settled() && old.child_of.is_none() {
            assert_eq!(old.phase, new.phase, "what has ended stays as it is");
        }
    }
    if before.is_final() && !is_retried {
        assert_eq!(before.phase, next.phase);
        let is_evidence = |item: &&HistoryItem| item.kind == EventType::StepLateResult;
        let mut effects = effects.iter();
        let has_only_history = effects.all(|effect| matches!(effect, Effect::History { .. }));
        let is_final = has_only_history && items.iter().all(is_evidence);
        assert!(is_final, "a final run keeps evidence and nothing else");
    }
}
