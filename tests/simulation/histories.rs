//! Plays histories: many that must hold, and some with a rule broken on purpose that must not.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::requests::MET;
use crate::service::Fault;
use crate::world::{Story, TURNS, World};

/// Histories where nobody says how many: a quarter of a minute on two cores.
const HISTORIES: u64 = 500;

/// Histories where `CI` is set: two and a half minutes on two cores.
const HISTORIES_OF_CI: u64 = 6_000;

/// Histories that together come by everything in [`MET`].
const COVERED_WITHIN: u64 = 400;

/// Histories within which a broken rule must be noticed.
const NOTICED_WITHIN: u64 = 4_000;

fn story(seed: u64, fault: Fault) -> Story {
    Story {
        seed,
        turns: TURNS,
        fault,
        // In half of the histories the bus also loses what it has stored.
        loses: seed % 2 == 1,
    }
}

/// Why a history does not hold, if so.
fn complaint(story: Story) -> Option<String> {
    let played = catch_unwind(AssertUnwindSafe(|| World::play(story)));
    let panic = played.err()?;
    let text = panic.downcast_ref::<String>().cloned();
    Some(text.unwrap_or_else(|| {
        let text = panic.downcast_ref::<&str>().copied();
        text.unwrap_or("it does not hold").to_owned()
    }))
}

/// The fewest turns after which a history fails.
fn shortest(story: Story) -> Option<(usize, String)> {
    (0..=story.turns).find_map(|turns| Some((turns, complaint(Story { turns, ..story })?)))
}

/// Plays histories on all cores until one does not hold: which.
fn first_that_fails(histories: u64, fault: Fault) -> Option<u64> {
    let next = AtomicU64::new(0);
    let failed = AtomicU64::new(u64::MAX);
    let play = || {
        while failed.load(Ordering::Relaxed) == u64::MAX {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= histories {
                return;
            }
            if complaint(story(seed, fault)).is_some() {
                failed.fetch_min(seed, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(play);
        }
    });
    Some(failed.into_inner()).filter(|seed| *seed < u64::MAX)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn default_histories() -> u64 {
    match std::env::var_os("CI") {
        Some(_) => HISTORIES_OF_CI,
        None => HISTORIES,
    }
}

/// M-2, S2-R15, DESIGN "The tables are enough".
#[test]
fn whatever_the_bus_and_the_processes_do_every_run_ends_or_waits_for_somebody() {
    if let Some(seed) = number("HOLDPOINT_SEED") {
        return World::play(story(seed, Fault::None));
    }
    let histories = number("HOLDPOINT_HISTORIES").unwrap_or_else(default_histories);
    if let Some(seed) = first_that_fails(histories, Fault::None) {
        let (turns, text) = shortest(story(seed, Fault::None)).unwrap();
        panic!(
            "history {seed} fails after {turns} turns; again with \
             `HOLDPOINT_SEED={seed} cargo test --workspace --test simulation`: {text}"
        );
    }
    eprintln!("{histories} histories hold");
}

#[test]
fn the_same_seed_is_the_same_history() {
    for seed in 0..20 {
        let play = || {
            let mut world = World::new(story(seed, Fault::None));
            world.play_on();
            world.print()
        };
        assert_eq!(play(), play());
    }
}

/// A simulation that notices nothing proves nothing.
#[test]
fn a_broken_rule_is_noticed() {
    let faults = [
        Fault::AnswerBeforeCommit,
        Fault::PublishBeforeCommit,
        Fault::HandOutOnce,
        Fault::DesiredStateOnce,
        Fault::NeverAsk,
        Fault::ForgetBegun,
        Fault::LeaseForEver,
        Fault::DecisionTakenOver,
        Fault::TimeOutStays,
        Fault::TimeOutOfOldDeadline,
        Fault::NothingIsSettled,
    ];
    for fault in faults {
        let noticed = first_that_fails(NOTICED_WITHIN, fault);
        let seed = noticed.unwrap_or_else(|| panic!("{fault:?} was not noticed"));
        let text = complaint(story(seed, fault)).unwrap_or_default();
        let text = text.lines().next().unwrap_or_default();
        eprintln!("{fault:?}: noticed with seed {seed}: {text}");
    }
}

/// A history in which nothing happens would hold, too: all that is to be met is met.
#[test]
fn histories_come_by_all_that_can_become_of_a_question() {
    let mut met: BTreeMap<&'static str, u32> = BTreeMap::new();
    for seed in 0..COVERED_WITHIN {
        let mut world = World::new(story(seed, Fault::None));
        world.play_on();
        for what in world.met() {
            *met.entry(what).or_default() += 1;
        }
    }
    eprintln!("of {COVERED_WITHIN} histories: {met:?}");
    let never: Vec<_> = MET.iter().filter(|what| !met.contains_key(*what)).collect();
    assert!(never.is_empty(), "no history came by {never:?}");
}
