//! `docs/holds.md`: what a desired state does in every state, found out by trying it.

use std::fmt::Write as _;
use std::path::Path;

use holdpoint_contracts::hold::{CloseReply, HoldState, SetHoldReply};

use super::world::{World, frozen, gone, minute, open, respond};
use crate::domain::{OwnerState, Phase, Request, merge_desired_state};

/// Time is up at minute 60 in every scene.
fn scenes() -> Vec<(&'static str, World)> {
    let after = |then: fn(&mut World)| {
        let mut world = World::new();
        world.desired_state(1, open(60));
        then(&mut world);
        world
    };
    let decided = |world: &mut World| {
        world.say("ada", respond("yes")).unwrap();
    };
    vec![
        ("unknown", World::new()),
        ("open", after(|_| ())),
        (
            "frozen",
            after(|world| {
                world.desired_state(2, frozen(30, 1_800_000));
            }),
        ),
        ("decided, executor has not said yet", after(decided)),
        (
            "decided, applied",
            after(|world| {
                world.say("ada", respond("yes")).unwrap();
                world.told(CloseReply::Applied);
            }),
        ),
        (
            "timed out",
            after(|world| {
                world.now = minute(60);
                world.fire();
                world.told(CloseReply::Applied);
            }),
        ),
        (
            "gone",
            after(|world| {
                world.desired_state(2, gone());
            }),
        ),
    ]
}

fn desired_states() -> [(&'static str, HoldState); 6] {
    [
        ("open, same deadline", open(60)),
        ("open, later deadline", open(90)),
        ("frozen since before", frozen(59, 60_000)),
        ("frozen since after", frozen(61, 0)),
        (
            "frozen since after, later deadline",
            frozen(61, 29 * 60_000),
        ),
        ("gone", gone()),
    ]
}

fn word(phase: &Phase) -> &'static str {
    match phase {
        Phase::Open { .. } => "open",
        Phase::Frozen { .. } => "frozen",
        Phase::Decided { .. } => "decided",
        Phase::TimedOut { .. } => "timed out",
        Phase::Withdrawn { .. } => "gone",
    }
}

fn cell(mut world: World, state: &HoldState) -> String {
    let owner = world
        .request
        .as_ref()
        .map_or(OwnerState::Unknown, Request::owner_state);
    let told = world.closed().len();
    let cell = merge_desired_state(owner, state);
    let answer = match world.desired_state(9, state.clone()) {
        SetHoldReply::Set => "set",
        SetHoldReply::Stale => "stale",
        SetHoldReply::Decided => "decided",
        SetHoldReply::TimedOut => "timed_out",
    };
    let again = if world.closed().len() > told {
        ", close sent again"
    } else {
        ""
    };
    let effect = match (world.phase(), world.request.as_ref().unwrap().effect) {
        (Phase::Decided { .. }, Some(effect)) => format!(", effect {effect:?}"),
        (_, Some(_) | None) => String::new(),
    };
    format!(
        "**{}**{again}{effect} → `{answer}` ({cell:?})",
        word(world.phase())
    )
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    let names: Vec<_> = desired_states().iter().map(|(name, _)| *name).collect();
    writeln!(
        page,
        "| state ↓ / desired state → | {} |",
        names.join(" | ")
    )
    .unwrap();
    writeln!(page, "|---|{}", "---|".repeat(names.len())).unwrap();
    for (name, world) in scenes() {
        let cells: Vec<_> = desired_states()
            .iter()
            .map(|(_, state)| cell(world.clone(), state))
            .collect();
        writeln!(page, "| {name} | {} |", cells.join(" | ")).unwrap();
    }
    page
}

const HEAD: &str = "# What a desired state does to a hold on a person

Written by `HOLDPOINT_WRITE_DOCS=1 cargo test -p holdpoint-handoff holds_table`, never by hand: every cell is what
`domain::decide` does with a desired state of a new `rev`, the state after it, what the executor is answered, and the cell of
`domain::merge_desired_state`. A lower or equal `rev` changes nothing. *Before* and *after* are said of the timeout, which is at the
deadline. A close that the executor has not confirmed yet is sent again by itself until it has; *sent again* means a new one.

";

/// The page is what the code does today.
#[test]
fn holds_table_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/holds.md");
    let wanted = page();
    if std::env::var_os("HOLDPOINT_WRITE_DOCS").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == wanted,
        "docs/holds.md is stale: HOLDPOINT_WRITE_DOCS=1 cargo test -p holdpoint-handoff holds_table rewrites it"
    );
}
