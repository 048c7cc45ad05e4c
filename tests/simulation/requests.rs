//! What must hold of requests: always, and once the world has come to rest.

use std::collections::HashMap;

use holdpoint_contracts::handoff::Effect as Word;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{HoldOutcome, HoldState};
use holdpoint_contracts::run::HoldKind;
use holdpoint_executor::domain::run::person_hold::PersonHold;
use holdpoint_executor::domain::run::{StepPhase, Uncertain};
use holdpoint_executor::domain::{Aggregate as Executed, Key as RunKey, Run};
use holdpoint_handoff::domain::{Aggregate, Key, Phase, Request};
use holdpoint_ids::HoldId;
use holdpoint_scheduler::domain::{Owner, Phase as TimerPhase};

use crate::features::Feature;
use crate::people::Scripted;
use crate::planted::is_refused;
use crate::sweeps;
use crate::world::{World, acme};

/// What has been seen so far.
#[derive(Default)]
pub(crate) struct Requests {
    decided: HashMap<Key, Phase>,
}

/// What histories are to come by, each somewhere.
pub(crate) const MET: [&str; 20] = [
    "answered",
    "answered while paused",
    "answered after the run, or the worker, had ended it",
    "asked, and void since",
    "asked, and still open",
    "answered by somebody, and by another one too late",
    "timed out",
    "frozen with a deadline",
    "stands alone: timed out",
    "stands alone: withdrawn",
    "stands alone: decided",
    "asked before the first step, and told",
    "a question of a step, answered",
    "a handoff, completed",
    "a handoff, taken over and completed",
    "a handoff, accepted or given on, and the run knows",
    "a mail, sent again after a failure",
    "a mail, arrived twice",
    "an end, told to a person who watches the agent",
    "an end, told to a person who watches the run",
];

impl World {
    /// What of [`MET`] has happened.
    pub(crate) fn met(&self) -> Vec<&'static str> {
        let mut met = Vec::new();
        for state in self.handoff.states.values() {
            let Aggregate::Request(request) = state else {
                continue;
            };
            if !request.late.is_empty() {
                met.push(MET[5]);
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
                (Phase::Decided { .. }, Some(Word::Applied)) => 0,
                (Phase::Decided { .. }, Some(Word::OnResume)) => 1,
                (Phase::Decided { .. }, Some(Word::RunEnded)) => 2,
                (Phase::Decided { .. }, Some(Word::Pending) | None) => continue,
                (Phase::Withdrawn { .. }, _) => 3,
                (Phase::Open { .. } | Phase::Frozen { .. }, _) => 4,
            };
            met.push(MET[place]);
            met.extend(met_of_plan(request).map(|place| MET[place]));
        }
        let mut told = self.checks.handed_over.values().flatten();
        let is_short_of_owning = |kind: EventType| {
            matches!(
                kind,
                EventType::HandoffAccepted | EventType::HandoffReassigned
            )
        };
        met.extend(
            told.any(|(kind, _)| is_short_of_owning(*kind))
                .then_some(MET[15]),
        );
        let notified = self.notified().into_iter().zip(16..);
        met.extend(notified.filter(|(is, _)| *is).map(|(_, place)| MET[place]));
        met.sort_unstable();
        met.dedup();
        met
    }
}

/// What a step asked, and was decided.
fn met_of_plan(request: &Request) -> Option<usize> {
    let spec = request.spec.as_ref()?;
    let is_taken = request.progress.taken_over.is_some();
    match (&request.phase, spec.kind) {
        (Phase::Decided { .. }, HoldKind::Input) if spec.schema.is_some() => Some(11),
        (Phase::Decided { .. }, HoldKind::Input) if spec.reason.is_none() => Some(12),
        (Phase::Decided { .. }, HoldKind::Handoff) if is_taken => Some(14),
        (Phase::Decided { .. }, HoldKind::Handoff) => Some(13),
        _ => None,
    }
}

impl Requests {
    /// After commits of the handoff service: a decision never changes.
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

    /// Once all has come to rest: both sides agree, and nothing waits without a waker.
    pub(crate) fn rest(&self, world: &World) {
        let is_refused = |id| world.features.has(Feature::Refusals) && is_refused(id);
        for id in &world.people.standalone {
            let request = found(world, *id).unwrap_or_else(|| panic!("{id} was never opened"));
            has_waker(world, request);
        }
        for (id, script) in &world.people.scripted {
            let request = found(world, *id).unwrap_or_else(|| panic!("{id} was never heard of"));
            has_waker(world, request);
            as_wanted(request, script);
        }
        for run in sweeps::runs(&world.executor) {
            for (_, asked) in run.questions() {
                // It was asked again under another id, or its step was given up.
                assert!(!is_refused(asked.hold), "nobody is asked {asked:?}");
                let is_known = world.checks.incidents.contains(&run.id);
                assert!(!asked.is_minimal || is_known, "no incident of {asked:?}");
                let request = found(world, asked.hold);
                let request = request.unwrap_or_else(|| panic!("nobody is asked {asked:?}"));
                is_asked(run, asked, request);
            }
            for (_, on) in run.people() {
                if is_refused(on.id) {
                    let kept = on.closing.as_ref().map(|closing| closing.outcome);
                    let waits = !run.pauses.is_empty() || run.taken().is_some();
                    assert!(waits && kept == Some(HoldOutcome::Cancelled), "{on:#?}");
                    continue;
                }
                let request = found(world, on.id);
                let request = request.unwrap_or_else(|| panic!("nobody is asked {on:?}"));
                has_waker(world, request);
                stands_as(run, on, request);
            }
        }
        for state in world.handoff.states.values() {
            let Aggregate::Request(request) = state else {
                continue;
            };
            let run = world.executor.states.get(&RunKey::Run(request.id.run));
            if let Some(Executed::Run(run)) = run {
                agree(run, request);
                is_told(world, run, request);
            }
        }
    }
}

fn found(world: &World, id: HoldId) -> Option<&Request> {
    match world.handoff.states.get(&Key::Request(acme(), id)) {
        Some(Aggregate::Request(request)) => Some(request),
        Some(Aggregate::User(_) | Aggregate::Policy(_)) | None => None,
    }
}

/// Time has not come to rest before every timer has fired: what stands is asked of people only.
fn has_waker(world: &World, request: &Request) {
    if let Phase::Open { deadline } = request.phase {
        let key = holdpoint_scheduler::domain::Key {
            workspace: acme(),
            owner: Owner::Handoff,
            id: request.id.to_string(),
        };
        let timer = world.scheduler.states.get(&key).map(|timer| timer.phase);
        let is_set = matches!(timer, Some(TimerPhase::Pending(_)));
        // Once its deadline has passed, or where there is none, the owners are the last to be told.
        let passed = request.escalated_at;
        let has_time = deadline.is_some_and(|due| passed.is_none_or(|passed| due > passed));
        let told = request.progress.history.iter().rev();
        let is_known = told
            .filter_map(|one| one.note.as_deref())
            .any(|note| note.contains("the owners"));
        // A person who took the run over has it, and nothing reminds them (C-13).
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
        "nobody is told how it ended: {request:#?}"
    );
}

/// The table of nine cells, as its owner sees it at last: `gone` wins over all but a decision, a
/// timeout stands only where no pause and no later deadline came before it.
fn as_wanted(request: &Request, script: &Scripted) {
    assert_eq!(
        request.rev, script.rev,
        "a desired state was not heeded: {request:#?}"
    );
    let agrees = match (&request.phase, &script.state) {
        (Phase::Decided { .. }, _) | (Phase::Withdrawn { .. }, HoldState::Withdrawn { .. }) => true,
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
            HoldState::Withdrawn { .. },
        )
        | (Phase::Withdrawn { .. } | Phase::Frozen { .. }, HoldState::Open { .. })
        | (Phase::Withdrawn { .. } | Phase::Open { .. }, HoldState::Frozen { .. }) => false,
    };
    assert!(agrees, "wanted {:?}, and it is {request:#?}", script.state);
}

/// An open question of a run is put to people, or answered and waits for resume.
fn is_asked(run: &Run, asked: &Uncertain, request: &Request) {
    let is_paused = !run.pauses.is_empty();
    let agrees = match (&request.phase, &asked.answer) {
        (Phase::Open { .. }, None) => !is_paused,
        (Phase::Frozen { .. }, None) => is_paused,
        (Phase::Decided { by, data, .. }, Some(answer)) => {
            let stands = is_paused || run.taken().is_some();
            stands && *by == answer.by && *data == answer.choice.as_str()
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
    assert!(agrees, "{asked:#?} and {request:#?} do not agree");
}

/// A hold on people stands with its owner as with the run, or was closed and waits for the run to move.
fn stands_as(run: &Run, on: &PersonHold, request: &Request) {
    let is_paused = !run.pauses.is_empty();
    let kept = on.closing.as_ref().map(|closing| closing.outcome);
    let stands = is_paused || run.taken().is_some() || run.missing_inputs_hold.is_some();
    let agrees = match &request.phase {
        Phase::Open { deadline } => !is_paused && kept.is_none() && *deadline == on.deadline(),
        Phase::Frozen { remaining_ms, .. } => {
            is_paused && kept.is_none() && *remaining_ms == on.remaining_ms()
        }
        Phase::Decided { outcome, .. } => stands && kept == Some(*outcome),
        // Where it is not kept, it is undone when the clock goes on.
        Phase::TimedOut { .. } => is_paused || (stands && kept == Some(HoldOutcome::Timeout)),
        Phase::Withdrawn { .. } => false,
    };
    assert!(agrees, "{on:#?} and {request:#?} do not agree");
}

/// The history of a run has what people did with its handoff, once each and in their order. What was
/// over for the run before it was told is in the request's own history only.
fn is_told(world: &World, run: &Run, request: &Request) {
    let is_open = run.people().any(|(_, on)| on.id == request.id);
    let is_decided = matches!(request.phase, Phase::Decided { .. });
    let is_applied = is_decided && request.effect == Some(Word::Applied);
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
    let told = world.checks.handed_over.get(&request.id.to_string());
    let told = told.into_iter().flatten().filter(|(kind, _)| {
        [
            EventType::HandoffAccepted,
            EventType::HandoffReassigned,
            EventType::HandoffTakenOver,
        ]
        .contains(kind)
    });
    let (done, told): (Vec<_>, Vec<_>) = (done.collect(), told.cloned().collect());
    assert_eq!(done, told, "{request:#?} in the history of {run:#?}");
}

/// What the handoff service believes of a run's hold is what became of it.
fn agree(run: &Run, request: &Request) {
    let number = request.id.number;
    let is_question = run.questions().any(|(_, asked)| asked.hold == request.id);
    let is_open = is_question || run.people().any(|(_, on)| on.id == request.id);
    let is_answered = run.closed.contains(&number)
        || run.steps.iter().any(|step| step.answered.contains(&number));
    let is_timed_out = run.timed_out.contains(&number);
    let agrees = match (&request.phase, request.effect) {
        (Phase::Open { .. } | Phase::Frozen { .. }, _) => is_open,
        (Phase::Decided { .. }, Some(Word::Applied)) => is_answered && !is_timed_out,
        (Phase::TimedOut { .. }, Some(Word::Applied)) => is_timed_out,
        // The word is of the time of the answer; resume does not tell another.
        (Phase::Decided { .. } | Phase::TimedOut { .. }, Some(Word::OnResume)) => true,
        (Phase::Decided { .. }, Some(Word::RunEnded)) => !is_open && is_answered == is_timed_out,
        (Phase::TimedOut { .. }, Some(Word::RunEnded)) => !is_open && !is_answered,
        (Phase::Decided { .. } | Phase::TimedOut { .. }, Some(Word::Pending) | None) => false,
        // Whoever took over what had timed out before was told so.
        (Phase::Withdrawn { .. }, Some(Word::RunEnded)) => !is_open && is_answered == is_timed_out,
        (Phase::Withdrawn { .. }, _) => !is_open && !is_answered,
    };
    assert!(agrees, "{request:#?} and {run:#?} do not agree");
    let settled = |phase: &StepPhase| phase.is_settled();
    let is_over = run.steps.iter().all(|step| settled(&step.phase));
    let is_of_the_past = (is_over && is_question) || (run.is_final() && is_open);
    assert!(!is_of_the_past, "a question of what is over: {run:#?}");
}
