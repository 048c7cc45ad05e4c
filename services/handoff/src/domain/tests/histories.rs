//! Desired states in any order and repeated, with decisions and timeouts between them.

use holdpoint_contracts::hold::{CloseReply, HoldState};
use proptest::prelude::*;

use super::world::{World, frozen, gone, open, respond};
use crate::domain::Phase;

#[derive(Debug, Clone)]
enum Event {
    /// The desired state with this index in the executor's history arrives.
    DesiredState(usize),
    /// A recipient answers.
    Say(&'static str, &'static str),
    /// The timer that was last desired for fires.
    Fire,
    /// An older timer fires.
    FireOld(u64),
    /// The executor's reply to the newest close.
    CloseAcked(CloseReply),
}

fn state() -> impl Strategy<Value = HoldState> {
    prop_oneof![
        4 => (1..200_i64).prop_map(open),
        3 => (0..100_i64, 0..10_000_u64).prop_map(|(since, left)| frozen(since, left)),
        1 => Just(gone()),
    ]
}

/// Desired states of the executor in the order of `rev`, from 1.
fn wants() -> impl Strategy<Value = Vec<HoldState>> {
    proptest::collection::vec(state(), 1..6)
}

fn event(desired_states: usize) -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0..desired_states).prop_map(Event::DesiredState),
        2 => (prop_oneof![Just("ada"), Just("oscar")], prop_oneof![Just("yes"), Just("no")])
            .prop_map(|(who, what)| Event::Say(who, what)),
        2 => Just(Event::Fire),
        1 => (0..4_u64).prop_map(Event::FireOld),
        1 => prop_oneof![
            Just(CloseReply::Applied),
            Just(CloseReply::OnResume),
            Just(CloseReply::RunEnded)
        ]
        .prop_map(Event::CloseAcked),
    ]
}

fn history() -> impl Strategy<Value = (Vec<HoldState>, Vec<Event>)> {
    wants().prop_flat_map(|wants| {
        let events = proptest::collection::vec(event(wants.len()), 0..14);
        (Just(wants), events)
    })
}

/// Minutes pass between events, so that a pause may lie before or after a timeout.
fn play(wants: &[HoldState], events: &[Event]) -> World {
    let mut world = World::new();
    for event in events {
        world.now += chrono::TimeDelta::minutes(13);
        apply(&mut world, wants, event);
    }
    world
}

fn apply(world: &mut World, wants: &[HoldState], event: &Event) {
    match event {
        Event::DesiredState(place) => {
            let rev = u64::try_from(*place).unwrap() + 1;
            world.desired_state(rev, wants[*place].clone());
        }
        Event::Say(who, what) => drop(world.decide_as(who, respond(what))),
        Event::Fire if world.request.is_some() => drop(world.fire()),
        Event::FireOld(rev) if world.request.is_some() => drop(world.fire_rev(*rev)),
        Event::CloseAcked(answer) if !world.closed().is_empty() => world.acknowledge_close(*answer),
        Event::Fire | Event::FireOld(_) | Event::CloseAcked(_) => {}
    }
}

/// The state of the world without counters of writes.
fn seen(world: &World) -> Option<(Phase, u64)> {
    let request = world.request.as_ref()?;
    let phase = match request.phase.clone() {
        Phase::Withdrawn { reason, by, .. } => Phase::Withdrawn {
            reason,
            by,
            at: super::world::minute(0),
        },
        phase @ (Phase::Open { .. }
        | Phase::Frozen { .. }
        | Phase::Decided { .. }
        | Phase::TimedOut { .. }) => phase,
    };
    Some((phase, request.rev))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// DESIGN, the hold protocol: order does not matter, and neither do repetitions.
    #[test]
    fn desired_states_in_any_order_end_like_those_in_the_order_of_rev(
        wants in wants(),
        order in proptest::collection::vec(0..6_usize, 0..12),
    ) {
        let every = 0..wants.len();
        let in_order: Vec<_> = every.clone().map(Event::DesiredState).collect();
        // In any order with repetitions, and each at least once.
        let mut shuffled: Vec<_> = order.iter().filter(|one| **one < wants.len()).copied().collect();
        shuffled.extend(every.rev());
        let shuffled: Vec<_> = shuffled.into_iter().map(Event::DesiredState).collect();
        let ends = seen(&play(&wants, &shuffled));
        prop_assert_eq!(ends, seen(&play(&wants, &in_order)));
    }

    /// Desired states that are not new when they arrive change nothing.
    #[test]
    fn a_late_or_repeated_desired_state_changes_nothing((wants, events) in history()) {
        let mut world = World::new();
        let mut newest = None;
        for event in &events {
            world.now += chrono::TimeDelta::minutes(13);
            let before = (world.request.clone(), world.effects.clone());
            apply(&mut world, &wants, event);
            if let Event::DesiredState(place) = event {
                if newest.is_some_and(|newest| *place <= newest) {
                    prop_assert_eq!(&before, &(world.request.clone(), world.effects.clone()));
                }
                newest = newest.max(Some(*place));
            }
        }
    }

    /// Races: a recorded decision never changes, and the executor gets it.
    #[test]
    fn a_decision_stays_and_is_sent_to_the_executor((wants, events) in history()) {
        let mut world = World::new();
        let mut decision: Option<Phase> = None;
        for event in &events {
            world.now += chrono::TimeDelta::minutes(13);
            apply(&mut world, &wants, event);
            let Some(request) = &world.request else { continue };
            if let Some(decision) = &decision {
                prop_assert_eq!(decision, &request.phase);
            }
            if let Phase::Decided { data, by, .. } = &request.phase {
                decision = Some(request.phase.clone());
                let closed = world.closed().pop().unwrap();
                prop_assert_eq!((&closed.data, &closed.by), (data, by));
                prop_assert_eq!(Some(closed.rev), request.closed_rev);
            }
        }
    }

    /// After the newest desired state has arrived, an undecided request is in that state, or its deadline passed
    /// afterwards.
    #[test]
    fn the_newest_desired_state_determines_the_request((wants, events) in history()) {
        let mut world = play(&wants, &events);
        apply(&mut world, &wants, &Event::DesiredState(wants.len() - 1));
        let had_it = events.iter().any(|one| matches!(one, Event::DesiredState(place) if *place + 1 == wants.len()));
        let request = world.request.as_ref().unwrap();
        match (&request.phase, wants.last().unwrap()) {
            (Phase::Decided { .. }, _) => {}
            (Phase::Open { deadline }, HoldState::Open { deadline: wanted, .. }) => {
                prop_assert_eq!(deadline, wanted);
            }
            (Phase::Frozen { since, remaining_ms }, HoldState::Frozen { since: wanted, remaining_ms: left, .. }) => {
                prop_assert_eq!((since, remaining_ms), (wanted, left));
            }
            (Phase::Withdrawn { .. }, HoldState::Withdrawn { .. }) => {}
            (Phase::TimedOut { at }, HoldState::Open { deadline, .. }) => {
                prop_assert!(had_it || deadline.is_some_and(|due| due <= *at));
            }
            (Phase::TimedOut { at }, HoldState::Frozen { since, remaining_ms, .. }) => {
                prop_assert!(since >= at && *remaining_ms == Some(0));
            }
            (phase, state) => prop_assert!(false, "{phase:?} although wanted: {state:?}"),
        }
    }
}
