//! Rules of requests, checked after each turn and at the end.

use std::collections::HashMap;

use holdpoint_contracts::handoff::Effect as EffectOnRun;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{HoldOutcome, HoldState};
use holdpoint_contracts::run::HoldKind;
use holdpoint_executor::domain::run::person_hold::PersonHold;
use holdpoint_executor::domain::run::{StepPhase, Uncertain};
use holdpoint_executor::domain::{Aggregate as ExecutorAggregate, Key as RunKey, Run};
use holdpoint_handoff::domain::{Aggregate, Key, Phase, Request};
use holdpoint_ids::HoldId;
use holdpoint_scheduler::domain::{Owner, Phase as TimerPhase};

use crate::approvals::OUTCOMES;
use crate::features::Feature;
use crate::mutations::is_refused;
use crate::people::Scripted;
use crate::sweeps;
use crate::world::{World, acme};

/// Observations of the history so far.
#[derive(Default)]
pub(crate) struct Requests {
    decided: HashMap<Key, Phase>,
}

/// Outcomes that the histories must cover together.
pub(crate) const COVERAGE: [&str; 27] = [
    "answered",
    "answered while paused",
    "answered after the run, or the worker, had ended it",
    "asked, and withdrawn",
    "asked, and still open",
    "answered by one person, and by another too late",
    "timed out",
    "frozen with a deadline",
    "standalone: timed out",
    "standalone: withdrawn",
    "standalone: decided",
    "asked before the first step, and answered",
    "a question of a step, answered",
    "a handoff, completed",
    "a handoff, taken over and completed",
    "a handoff, accepted or reassigned, in the history of its run",
    "a mail, sent again after a failure",
    "a mail, arrived twice",
    "a run end, for a person who watches the agent",
    "a run end, for a person who watches the run",
    "a webhook, called again after a failure",
    "a webhook, called twice for one event",
    "a webhook call, given up",
    "a webhook call, dropped because the webhook is disabled",
    "a gated call, approved",
    "a gated call, rejected",
    "a gated call, completed",
];

impl World {
    /// The outcomes of [`COVERAGE`] in this history.
    pub(crate) fn coverage(&self) -> Vec<&'static str> {
        let mut coverage = Vec::new();
        for state in self.handoff.states.values() {
            let Aggregate::Request(request) = state else {
                continue;
            };
            if !request.late.is_empty() {
                coverage.push(COVERAGE[5]);
            }
            let is_scripted = self.people.scripted.contains_key(&request.id);
            let place = match (&request.phase, request.effect) {
                _ if request.owner.is_none() => match request.phase {
                    Phase::TimedOut { .. } => 8,
                    Phase::Withdrawn { .. } => 9,
                    Phase::Decided { .. } => 10,
                    Phase::Open { .. } | Phase::Frozen { .. } => continue,
                },
                (Phase::TimedOut { .. }, _) => 6,
                (Phase::Frozen { .. }, _) if is_scripted => 7,
                _ if is_scripted => continue,
                (Phase::Decided { .. }, Some(EffectOnRun::Applied)) => 0,
                (Phase::Decided { .. }, Some(EffectOnRun::OnResume)) => 1,
                (Phase::Decided { .. }, Some(EffectOnRun::RunEnded)) => 2,
                (Phase::Decided { .. }, Some(EffectOnRun::Pending) | None) => continue,
                (Phase::Withdrawn { .. }, _) => 3,
                (Phase::Open { .. } | Phase::Frozen { .. }, _) => 4,
            };
            coverage.push(COVERAGE[place]);
            coverage.extend(coverage_of_step(request).map(|place| COVERAGE[place]));
        }
        let mut recorded = self.checks.handoff_events.values().flatten();
        let is_short_of_owning = |kind: EventType| {
            matches!(
                kind,
                EventType::HandoffAccepted | EventType::HandoffReassigned
            )
        };
        coverage.extend(
            recorded
                .any(|(kind, _)| is_short_of_owning(*kind))
                .then_some(COVERAGE[15]),
        );
        let covered = self.notification_coverage().into_iter();
        let covered = covered.chain(self.webhook_coverage()).zip(16..);
        coverage.extend(
            covered
                .filter(|(is, _)| *is)
                .map(|(_, place)| COVERAGE[place]),
        );
        coverage.extend(self.checks.has_gated_effect().then_some(COVERAGE[26]));
        coverage.extend(&self.checks.approvals.covered);
        let awaits_users = self.workers.iter().any(|worker| worker.awaited_users);
        coverage.extend(awaits_users.then_some(OUTCOMES[8]));
        coverage.sort_unstable();
        coverage.dedup();
        coverage
    }
}

/// The outcome of a decided request of a step.
fn coverage_of_step(request: &Request) -> Option<usize> {
    let spec = request.spec.as_ref()?;
    let is_taken = request.progress.taken_over.is_some();
    match (&request.phase, spec.kind) {
        (Phase::Decided { .. }, HoldKind::Input) if spec.schema.is_some() => Some(11),
        (Phase::Decided { .. }, HoldKind::Input) if spec.reason.is_none() => Some(12),
        (Phase::Decided { .. }, HoldKind::Handoff) if is_taken => Some(14),
        (Phase::Decided { .. }, HoldKind::Handoff) => Some(13),
        (Phase::Decided { outcome, .. }, HoldKind::Approval) if !spec.items.is_empty() => {
            let outcomes = [(HoldOutcome::Approved, 24), (HoldOutcome::Rejected, 25)];
            let found = outcomes.iter().find(|(of, _)| of == outcome);
            found.map(|(_, place)| *place)
        }
        _ => None,
    }
}

impl Requests {
    /// Checks commits of the handoff service: a decision never changes.
    pub(crate) fn follow(&mut self, states: &HashMap<Key, Aggregate>) {
        for (key, state) in states {
            let Aggregate::Request(request) = state else {
                continue;
            };
            if let Some(decided) = self.decided.get(key) {
                assert_eq!(decided, &request.phase, "{key:?}: a decision has changed");
            } else if matches!(request.phase, Phase::Decided { .. }) {
                self.decided.insert(key.clone(), request.phase.clone());
            }
        }
    }

    /// Checks the end: both services agree, and nothing waits without a waker.
    pub(crate) fn check_quiescent(&self, world: &World) {
        let is_refused = |id| world.features.has(Feature::Refusals) && is_refused(id);
        for id in &world.people.standalone {
            let request =
                find_request(world, *id).unwrap_or_else(|| panic!("{id} was never opened"));
            check_waker(world, request);
        }
        for (id, scripted) in &world.people.scripted {
            let request = find_request(world, *id).unwrap_or_else(|| panic!("{id} never arrived"));
            check_waker(world, request);
            check_desired_state(request, scripted);
        }
        for run in sweeps::runs(&world.executor) {
            for (_, question) in run.questions() {
                // A refused question is asked again under another id, or its step fails.
                assert!(
                    !is_refused(question.hold),
                    "no request exists for {question:?}"
                );
                let is_known = world.checks.incidents.contains(&run.id);
                assert!(
                    !question.is_minimal || is_known,
                    "no incident for {question:?}"
                );
                let request = find_request(world, question.hold);
                let request =
                    request.unwrap_or_else(|| panic!("no request exists for {question:?}"));
                check_question(run, question, request);
            }
            for (_, on) in run.people() {
                if is_refused(on.id) {
                    let kept = on.closing.as_ref().map(|closing| closing.outcome);
                    let waits = !run.pauses.is_empty() || run.taken().is_some();
                    assert!(waits && kept == Some(HoldOutcome::Cancelled), "{on:#?}");
                    continue;
                }
                let request = find_request(world, on.id);
                let request = request.unwrap_or_else(|| panic!("no request exists for {on:?}"));
                check_waker(world, request);
                check_person_hold(run, on, request);
            }
        }
        for state in world.handoff.states.values() {
            let Aggregate::Request(request) = state else {
                continue;
            };
            let run = world.executor.states.get(&RunKey::Run(request.id.run));
            if let Some(ExecutorAggregate::Run(run)) = run {
                check_effect(run, request);
                check_handoff_history(world, run, request);
            }
        }
    }
}

fn find_request(world: &World, id: HoldId) -> Option<&Request> {
    let state = world.handoff.states.get(&Key::Request(acme(), id))?;
    state.try_as_request_ref().map(Box::as_ref)
}

/// At the end every timer has fired, so an open request waits for a person or has a timer.
fn check_waker(world: &World, request: &Request) {
    if let Phase::Open { deadline } = request.phase {
        let key = holdpoint_scheduler::domain::Key {
            workspace: acme(),
            owner: Owner::Handoff,
            id: request.id.to_string(),
        };
        let timer = world.scheduler.states.get(&key).map(|timer| timer.phase);
        let is_set = matches!(timer, Some(TimerPhase::Pending(_)));
        // After the deadline, or without one, the owners are notified last.
        let passed = request.escalated_at;
        let has_time = deadline.is_some_and(|due| passed.is_none_or(|passed| due > passed));
        let recorded = request.progress.history.iter().rev();
        let is_known = recorded
            .filter_map(|one| one.note.as_deref())
            .any(|note| note.contains("the owners"));
        // A person who took the run over gets no reminder (C-13).
        let handling = &request.progress;
        let is_owned = handling.taken_over.is_some() && handling.assignee.is_some();
        assert!(
            is_set || is_owned || (is_known && !has_time),
            "no timer will end {request:#?}"
        );
    }
    let is_closed = request.effect.is_some();
    let has_ended = matches!(
        request.phase,
        Phase::Decided { .. } | Phase::TimedOut { .. }
    );
    assert!(
        is_closed || !has_ended,
        "the run does not know the end: {request:#?}"
    );
}

/// The table of nine cells as the owner sees it in the end. `withdrawn` wins over all but a decision. A timeout stays
/// only if no pause and no later deadline came before it.
fn check_desired_state(request: &Request, scripted: &Scripted) {
    assert_eq!(
        request.rev, scripted.rev,
        "a desired state was not applied: {request:#?}"
    );
    let agrees = match (&request.phase, &scripted.state) {
        (Phase::Decided { .. }, _)
        | (Phase::Withdrawn { .. }, HoldState::Withdrawn { .. } | HoldState::Erased { .. }) => true,
        (Phase::TimedOut { at }, HoldState::Open { deadline, .. }) => {
            deadline.is_some_and(|deadline| deadline <= *at)
        }
        (
            Phase::TimedOut { at },
            HoldState::Frozen {
                since,
                remaining_ms,
                ..
            },
        ) => since >= at && *remaining_ms == Some(0),
        (Phase::Open { deadline }, HoldState::Open { deadline: it, .. }) => deadline == it,
        (
            Phase::Frozen {
                since,
                remaining_ms,
            },
            HoldState::Frozen {
                since: it,
                remaining_ms: left,
                ..
            },
        ) => since == it && remaining_ms == left,
        (
            Phase::Open { .. } | Phase::Frozen { .. } | Phase::TimedOut { .. },
            HoldState::Withdrawn { .. } | HoldState::Erased { .. },
        )
        | (Phase::Withdrawn { .. } | Phase::Frozen { .. }, HoldState::Open { .. })
        | (Phase::Withdrawn { .. } | Phase::Open { .. }, HoldState::Frozen { .. }) => false,
    };
    assert!(
        agrees,
        "desired is {:?}, and the state is {request:#?}",
        scripted.state
    );
}

/// An open question of a run is open at the handoff service, or answered and waits for the resume.
fn check_question(run: &Run, question: &Uncertain, request: &Request) {
    let is_paused = !run.pauses.is_empty();
    let agrees = match (&request.phase, &question.answer) {
        (Phase::Open { .. }, None) => !is_paused,
        (Phase::Frozen { .. }, None) => is_paused,
        (Phase::Decided { by, data, .. }, Some(answer)) => {
            let is_kept = is_paused || run.taken().is_some();
            is_kept && *by == answer.by && *data == answer.choice.into_str()
        }
        (
            Phase::Open { .. }
            | Phase::Frozen { .. }
            | Phase::Decided { .. }
            | Phase::TimedOut { .. }
            | Phase::Withdrawn { .. },
            _,
        ) => false,
    };
    assert!(agrees, "{question:#?} and {request:#?} do not agree");
}

/// Both services have the same state of a hold on a person, or it is closed and the run has yet to apply it.
fn check_person_hold(run: &Run, on: &PersonHold, request: &Request) {
    let is_paused = !run.pauses.is_empty();
    let kept = on.closing.as_ref().map(|closing| closing.outcome);
    let is_kept = is_paused || run.taken().is_some() || run.missing_inputs_hold.is_some();
    let agrees = match &request.phase {
        Phase::Open { deadline } => !is_paused && kept.is_none() && *deadline == on.deadline(),
        Phase::Frozen { remaining_ms, .. } => {
            is_paused && kept.is_none() && *remaining_ms == on.remaining_ms()
        }
        Phase::Decided { outcome, .. } => is_kept && kept == Some(*outcome),
        // A timeout that is not kept is undone when the clock of the run continues.
        Phase::TimedOut { .. } => is_paused || (is_kept && kept == Some(HoldOutcome::Timeout)),
        Phase::Withdrawn { .. } => false,
    };
    assert!(agrees, "{on:#?} and {request:#?} do not agree");
}

/// The history of a run has each action of people on its handoff once, in order. Actions that arrived after the end
/// of the hold are in the history of the request only.
fn check_handoff_history(world: &World, run: &Run, request: &Request) {
    let is_open = run.people().any(|(_, on)| on.id == request.id);
    let is_decided = matches!(request.phase, Phase::Decided { .. });
    let is_applied = is_decided && request.effect == Some(EffectOnRun::Applied);
    let kind = request.spec.as_ref().map(|spec| spec.kind);
    if kind != Some(HoldKind::Handoff) || !(is_open || is_applied) {
        return;
    }
    let kind = |action: &str| match action {
        "accepted" => Some(EventType::HandoffAccepted),
        "reassigned" => Some(EventType::HandoffReassigned),
        "taken_over" => Some(EventType::HandoffTakenOver),
        _ => None,
    };
    let done = request.progress.history.iter();
    let done = done.filter_map(|one| Some((kind(&one.action)?, one.by.clone())));
    let recorded = world.checks.handoff_events.get(&request.id.to_string());
    let recorded = recorded.into_iter().flatten().filter(|(kind, _)| {
        [
            EventType::HandoffAccepted,
            EventType::HandoffReassigned,
            EventType::HandoffTakenOver,
        ]
        .contains(kind)
    });
    let (done, recorded): (Vec<_>, Vec<_>) = (done.collect(), recorded.cloned().collect());
    assert_eq!(done, recorded, "{request:#?} in the history of {run:#?}");
}

/// The effect that the handoff service records for a hold is what the run did.
fn check_effect(run: &Run, request: &Request) {
    let number = request.id.number;
    let is_question = run
        .questions()
        .any(|(_, question)| question.hold == request.id);
    let is_open = is_question || run.people().any(|(_, on)| on.id == request.id);
    let is_answered = run.closed.contains(&number)
        || run.steps.iter().any(|step| step.answered.contains(&number));
    let is_timed_out = run.timed_out.contains(&number);
    let agrees = match (&request.phase, request.effect) {
        (Phase::Open { .. } | Phase::Frozen { .. }, _) => is_open,
        (Phase::Decided { .. }, Some(EffectOnRun::Applied)) => is_answered && !is_timed_out,
        (Phase::TimedOut { .. }, Some(EffectOnRun::Applied)) => is_timed_out,
        // The effect is recorded with the answer; a resume does not change it.
        (Phase::Decided { .. } | Phase::TimedOut { .. }, Some(EffectOnRun::OnResume)) => true,
        (Phase::Decided { .. }, Some(EffectOnRun::RunEnded)) => {
            !is_open && is_answered == is_timed_out
        }
        (Phase::TimedOut { .. }, Some(EffectOnRun::RunEnded)) => !is_open && !is_answered,
        (Phase::Decided { .. } | Phase::TimedOut { .. }, Some(EffectOnRun::Pending) | None) => {
            false
        }
        // A person took over a run whose hold had timed out.
        (Phase::Withdrawn { .. }, Some(EffectOnRun::RunEnded)) => {
            !is_open && is_answered == is_timed_out
        }
        (Phase::Withdrawn { .. }, _) => !is_open && !is_answered,
    };
    assert!(agrees, "{request:#?} and {run:#?} do not agree");
    let settled = |phase: &StepPhase| phase.is_settled();
    let is_over = run.steps.iter().all(|step| settled(&step.phase));
    let is_of_the_past = (is_over && is_question) || (run.is_final() && is_open);
    assert!(!is_of_the_past, "an ended run or step still asks: {run:#?}");
}
