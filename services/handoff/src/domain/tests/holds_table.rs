//! `docs/holds.md`: what a desired state does in every state, by trying each case.

use std::fmt::Write as _;
use std::path::Path;

use holdpoint_contracts::hold::{CloseReply, HoldState, SetHoldReply};

use super::world::{World, erased, frozen, gone, minute, open, respond};
use crate::domain::{OwnerState, Phase, merge_desired_state};

/// The deadline is at minute 60 in every scene.
fn scenes() -> Vec<(&'static str, World)> {
    let after = |then: fn(&mut World)| {
        let mut world = World::new();
        world.desired_state(1, open(60));
        then(&mut world);
        world
    };
    let decided = |world: &mut World| {
        world.decide_as("ada", respond("yes")).unwrap();
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
        ("decided, not acknowledged", after(decided)),
        (
            "decided, applied",
            after(|world| {
                world.decide_as("ada", respond("yes")).unwrap();
                world.acknowledge_close(CloseReply::Applied);
            }),
        ),
        (
            "timed out",
            after(|world| {
                world.now = minute(60);
                world.fire();
                world.acknowledge_close(CloseReply::Applied);
            }),
        ),
        (
            "withdrawn",
            after(|world| {
                world.desired_state(2, gone());
            }),
        ),
    ]
}

fn desired_states() -> [(&'static str, HoldState); 7] {
    [
        ("open, same deadline", open(60)),
        ("open, later deadline", open(90)),
        ("frozen since before", frozen(59, 60_000)),
        ("frozen since after", frozen(61, 0)),
        (
            "frozen since after, later deadline",
            frozen(61, 29 * 60_000),
        ),
        ("withdrawn", gone()),
        ("erased", erased()),
    ]
}

fn word(phase: &Phase) -> &'static str {
    match phase {
        Phase::Open { .. } => "open",
        Phase::Frozen { .. } => "frozen",
        Phase::Decided { .. } => "decided",
        Phase::TimedOut { .. } => "timed out",
        Phase::Withdrawn { .. } => "withdrawn",
    }
}

fn cell(mut world: World, state: &HoldState) -> String {
    let owner = OwnerState::of(world.request.as_ref());
    let sent = world.closed().len();
    let action = merge_desired_state(owner, state);
    let reply = match world.desired_state(9, state.clone()) {
        SetHoldReply::Set => "set",
        SetHoldReply::Stale => "stale",
        SetHoldReply::Decided => "decided",
        SetHoldReply::TimedOut => "timed_out",
    };
    let resent = if world.closed().len() > sent {
        ", close resent"
    } else {
        ""
    };
    let effect = match (world.phase(), world.request.as_ref().unwrap().effect) {
        (Phase::Decided { .. }, Some(effect)) => format!(", effect {effect:?}"),
        (_, Some(_) | None) => String::new(),
    };
    format!(
        "**{}**{resent}{effect} → `{reply}` ({action:?})",
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

`HOLDPOINT_WRITE_DOCS=1 cargo test -p holdpoint-handoff holds_table` writes this page from the code. Each cell shows what the rules
do with a desired state of a new `rev`:
- the state afterwards;
- the reply to the executor;
- the `MergeAction` of `rules/merge_desired_state.rs`.

A lower or equal `rev` changes nothing. *Before* and *after* refer to the timeout, which is at the deadline. A close is sent until the
executor acknowledges it, and *resent* means a new close.

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
