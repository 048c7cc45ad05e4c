//! Plays histories: many without a mutation, which must hold, and some with one, which must fail.

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::approvals::OUTCOMES;
use crate::requests::COVERAGE;
use crate::service::Mutation;
use crate::world::{HistoryConfig, TURNS, World};

/// Default number of histories: about 25 s on two cores.
const HISTORIES: u64 = 500;

/// Histories where `CI` is set: about 3 minutes on two cores.
const HISTORIES_OF_CI: u64 = 2_000;

/// Histories that together cover everything in [`COVERAGE`] and [`OUTCOMES`].
const COVERED_WITHIN: u64 = 400;

/// Histories within which a mutation must be noticed.
const NOTICED_WITHIN: u64 = 4_000;

fn config(seed: u64, mutation: Mutation) -> HistoryConfig {
    HistoryConfig {
        seed,
        turns: TURNS,
        mutation,
        // In half of the histories the bus also loses what it has stored.
        loses: seed % 2 == 1,
    }
}

/// Why a history fails. `None`: it holds.
fn failure(config: HistoryConfig) -> Option<String> {
    let played = catch_unwind(AssertUnwindSafe(|| World::new(config).play()));
    let panic = played.err()?;
    let text = panic.downcast_ref::<String>().cloned();
    Some(text.unwrap_or_else(|| {
        let text = panic.downcast_ref::<&str>().copied();
        text.unwrap_or("a panic without a text").to_owned()
    }))
}

/// The fewest turns after which a history fails, and why.
fn shortest_failure(config: HistoryConfig) -> Option<(usize, String)> {
    (0..=config.turns).find_map(|turns| Some((turns, failure(HistoryConfig { turns, ..config })?)))
}

/// Plays the histories of these seeds on all cores until one fails. Returns its seed.
fn find_failure(seeds: Range<u64>, mutation: Mutation) -> Option<u64> {
    let next = AtomicU64::new(seeds.start);
    let failed = AtomicU64::new(u64::MAX);
    let play = || {
        while failed.load(Ordering::Relaxed) == u64::MAX {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            if failure(config(seed, mutation)).is_some() {
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

fn read_number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn default_histories() -> u64 {
    match std::env::var_os("CI") {
        Some(_) => HISTORIES_OF_CI,
        None => HISTORIES,
    }
}

/// M-2, S2-R15: the tables repair whatever the bus and the processes lose.
#[test]
fn every_run_ends_or_waits_for_a_person() {
    if let Some(seed) = read_number("HOLDPOINT_SEED") {
        return World::new(config(seed, Mutation::None)).play();
    }
    let histories = read_number("HOLDPOINT_HISTORIES").unwrap_or_else(default_histories);
    if let Some(seed) = find_failure(0..histories, Mutation::None) {
        let (turns, text) = shortest_failure(config(seed, Mutation::None)).unwrap();
        panic!(
            "history {seed} fails after {turns} turns; again with \
             `HOLDPOINT_SEED={seed} cargo test --workspace --test simulation`: {text}"
        );
    }
    eprintln!("{histories} histories hold");
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in 0..20 {
        let play = || {
            let mut world = World::new(config(seed, Mutation::None));
            world.play();
            world.print()
        };
        assert_eq!(play(), play());
    }
}

/// A check that no broken rule can fail proves nothing.
#[test]
fn every_mutation_is_noticed() {
    // The search begins at a seed that has noticed the mutation before. Some are noticed in one of a thousand histories.
    let mutations = [
        (Mutation::ReplyBeforeCommit, 14),
        (Mutation::PublishBeforeCommit, 709),
        (Mutation::DispatchOnce, 21),
        (Mutation::DesiredStateOnce, 0),
        (Mutation::StartWithoutGrant, 3),
        (Mutation::ForgetStartedSteps, 1_562),
        (Mutation::EndlessLease, 19),
        (Mutation::DecisionReplaced, 7),
        (Mutation::TimeoutStays, 15),
        (Mutation::TimeoutOfOldDeadline, 853),
        (Mutation::RejectionApproves, 8),
        (Mutation::EditsIgnored, 55),
        (Mutation::UsesUncounted, 65),
        (Mutation::LostRightsCount, 125),
        (Mutation::EntriesStayUnread, 80),
        (Mutation::WebhookCallOnce, 18),
        (Mutation::RunEndWithoutWebhooks, 1),
    ];
    for (mutation, first) in mutations {
        let noticed = find_failure(first..first + NOTICED_WITHIN, mutation);
        let seed = noticed.unwrap_or_else(|| panic!("{mutation:?} was not noticed"));
        let text = failure(config(seed, mutation)).unwrap_or_default();
        let text = text.lines().next().unwrap_or_default();
        eprintln!("{mutation:?}: noticed with seed {seed}: {text}");
    }
}

/// A history in which nothing happens would hold, too. Together they must cover every outcome.
#[test]
fn histories_cover_every_outcome() {
    let mut coverage: BTreeMap<&'static str, u32> = BTreeMap::new();
    for seed in 0..COVERED_WITHIN {
        let mut world = World::new(config(seed, Mutation::None));
        world.play();
        for outcome in world.coverage() {
            *coverage.entry(outcome).or_default() += 1;
        }
    }
    eprintln!("{COVERED_WITHIN} histories cover {coverage:?}");
    let never: Vec<_> = COVERAGE
        .iter()
        .chain(&OUTCOMES)
        .filter(|outcome| !coverage.contains_key(*outcome))
        .collect();
    assert!(never.is_empty(), "no history covers {never:?}");
}
