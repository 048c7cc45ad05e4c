//! `docs/states.md`: what every input does in every phase, found out by trying it.

mod beginnings;
mod columns;
mod plans;
mod texts;
mod worlds;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use chrono::TimeDelta;
use holdpoint_contracts::run::{HoldKind, ResumeMode, RunStatus};
use serde_json::json;

use super::suspension::suspend_input;
use super::world::{Heard, World, broken, done};
use crate::domain::run::{Step, StepPhase, Timer};
use crate::domain::{Reply, RunInput};
use beginnings::beginnings_and_ends;
use columns::{Column, columns, tool_missing};
use plans::{
    ASKED, FANNED_OUT, GATED, HANDED, IDEMPOTENT, ONCE_ONLY, PLANNED, RUNS, SIGNAL, SKIPPED,
    WAITING,
};
use texts::{HEAD, LEGEND};
use worlds::{after, ask, asks, lose, park, queued, take};

/// The step that is looked at; one more follows it, so that its end need not end the run.
const STEP: &str = "it";
/// A phase to be tried, for a step that may be done twice and for one that may not.
struct TableRow {
    name: &'static str,
    idempotent: World,
    once_only: World,
}

/// Which table an input stands in. A new input must be thought about here.
fn table_of(input: &RunInput) -> &'static str {
    match input {
        RunInput::Start { .. }
        | RunInput::Pause { .. }
        | RunInput::Resume { .. }
        | RunInput::TakeOver { .. }
        | RunInput::Watch
        | RunInput::Retry { .. }
        | RunInput::Migrate { .. }
        | RunInput::PatchContext { .. }
        | RunInput::Signal { .. }
        | RunInput::Suspend { .. }
        | RunInput::Cancel { .. } => "What people do",
        RunInput::TimerFired { .. }
        | RunInput::ApplyScopes
        | RunInput::TakePlace
        | RunInput::ContactReplied
        | RunInput::StartScheduled(_) => "What time does",
        RunInput::SetChildRun(_) | RunInput::ChildRunEnded(_) | RunInput::ChildRunRefused(_) => {
            "What parent and child runs do"
        }
        RunInput::LeaseEnded { .. }
        | RunInput::ToolAvailability { .. }
        | RunInput::HoldClosed { .. }
        | RunInput::HandoffUpdate { .. }
        | RunInput::Incident { .. } => "What leases, answers and dead letters do",
        RunInput::StartStep(_) => "What workers ask: `start_steps`",
        RunInput::AskPeople { .. } | RunInput::StepParks { .. } => {
            "What tools ask, and how they park: `request_input`, `step_results` with `parks`"
        }
        RunInput::StepResult(_) => "What workers report: `step_results`",
        RunInput::SuspendStep(_) | RunInput::PutBlob(_) | RunInput::ContinueStep(_) => {
            "What workers say at a suspension: `suspend_steps`, `put_blob`, `continue_step`"
        }
    }
}

const TABLES: [&str; 8] = [
    "What people do",
    "What time does",
    "What leases, answers and dead letters do",
    "What parent and child runs do",
    "What workers ask: `start_steps`",
    "What tools ask, and how they park: `request_input`, `step_results` with `parks`",
    "What workers report: `step_results`",
    "What workers say at a suspension: `suspend_steps`, `put_blob`, `continue_step`",
];

/// The row of a phase. A new phase must be thought about here.
fn row_of(step: &Step) -> &'static str {
    let asks = step.questions.open.is_some();
    match &step.phase {
        StepPhase::Planned => "planned",
        StepPhase::FannedOut => "fanned out",
        StepPhase::Queued(_) if step.missing_tool().is_some() => "queued, tool missing",
        StepPhase::Queued(_) => "queued",
        StepPhase::Granted(_) if asks => "asking",
        StepPhase::Granted(_) => "in_progress",
        StepPhase::Parked(_) => "parked",
        StepPhase::Waiting(hold) if hold.signal.is_some() => match hold.timer {
            Timer::Set { .. } => "waiting for a signal",
            Timer::Frozen { .. } => "waiting for a signal (frozen)",
        },
        StepPhase::Waiting(hold) if hold.child_runs.is_some() => match hold.timer {
            Timer::Set { .. } => "waiting for runs",
            Timer::Frozen { .. } => "waiting for runs (frozen)",
        },
        StepPhase::Waiting(hold) => match (&hold.timer, hold.backoff) {
            (Timer::Set { .. }, None) => "waiting (timer set)",
            (Timer::Frozen { .. }, None) => "waiting (frozen)",
            (Timer::Set { .. }, Some(_)) => "backoff (timer set)",
            (Timer::Frozen { .. }, Some(_)) => "backoff (frozen)",
        },
        StepPhase::Uncertain(_) => "uncertain",
        StepPhase::AwaitingPerson(on) => match (&on.taken, on.kind) {
            (Some(_), _) => "taken over",
            (None, HoldKind::Handoff) => "handed off",
            (None, HoldKind::Approval) => "gated",
            (None, _) => "asked",
        },
        StepPhase::Completed { .. } => "completed",
        StepPhase::Failed { .. } => "failed",
        StepPhase::Skipped { .. } => "skipped",
        StepPhase::Cancelled { .. } => "cancelled",
    }
}

fn table_rows() -> Vec<TableRow> {
    let both = |name: &'static str, make: &dyn Fn(&str) -> World| TableRow {
        name,
        idempotent: make(IDEMPOTENT),
        once_only: make(ONCE_ONLY),
    };
    let hold = |world: &mut World| drop(world.pause());
    let uncertain = |then: fn(&mut World)| after(after(queued(ONCE_ONLY), lose), then);
    let [planned, planned_once] = PLANNED.map(World::started);
    let awaits = World::started(SIGNAL);
    let mut rows = vec![
        TableRow {
            name: "planned",
            idempotent: planned.clone(),
            once_only: planned_once.clone(),
        },
        TableRow {
            name: "planned, paused",
            idempotent: after(planned, hold),
            once_only: after(planned_once, hold),
        },
        both("queued", &queued),
        both("queued, paused", &|steps| after(queued(steps), hold)),
        both("in_progress", &|steps| after(queued(steps), ask)),
        both("in_progress, paused", &|steps| {
            after(after(queued(steps), ask), hold)
        }),
        both("asking", &|steps| after(queued(steps), asks)),
        both("asking, paused", &|steps| {
            after(after(queued(steps), asks), hold)
        }),
        both("parked", &|steps| after(queued(steps), park)),
        both("parked, paused", &|steps| {
            after(after(queued(steps), park), hold)
        }),
        same("fanned out", World::started(FANNED_OUT)),
        same(
            "fanned out, paused",
            after(World::started(FANNED_OUT), hold),
        ),
        same("waiting (timer set)", again_waiting()),
        same("waiting (frozen), paused", after(again_waiting(), hold)),
        same("waiting for a signal", awaits.clone()),
        same("waiting for a signal (frozen), paused", after(awaits, hold)),
        both("backoff (timer set)", &failed_once),
        both("backoff (frozen), paused", &|steps| {
            after(failed_once(steps), hold)
        }),
        same("uncertain", uncertain(|_| {})),
        same("uncertain, paused", uncertain(hold)),
        same("asked", World::started(ASKED)),
        same("asked, paused", after(World::started(ASKED), hold)),
        same("handed off", World::started(HANDED)),
        same("handed off, paused", after(World::started(HANDED), hold)),
        same("taken over", after(World::started(HANDED), take)),
        same(
            "taken over, paused",
            after(after(World::started(HANDED), take), hold),
        ),
        both("completed", &completed),
        both("failed", &failed),
        same("skipped", World::started(SKIPPED)),
        both("cancelled", &|steps| {
            after(queued(steps), |world| {
                world.cancel();
            })
        }),
    ];
    rows.extend(run_rows().into_iter().chain(missing_rows()));
    rows.extend(gated_rows().into_iter().chain(suspended_rows()));
    rows
}

/// The step waits for its approval.
fn gated_rows() -> [TableRow; 2] {
    let gated = World::started(GATED);
    let mut paused = gated.clone();
    paused.pause();
    [same("gated", gated), same("gated, paused", paused)]
}

/// The step waits for a child run.
fn run_rows() -> [TableRow; 2] {
    let waits = World::started(RUNS);
    let mut paused = waits.clone();
    paused.pause();
    [
        same("waiting for runs", waits),
        same("waiting for runs (frozen), paused", paused),
    ]
}

/// People are asked about the tool of the step.
fn missing_rows() -> [TableRow; 2] {
    let missing = |steps: &str| {
        after(queued(steps), |world| {
            world.give(tool_missing(world));
        })
    };
    let row = |name: &'static str, then: fn(&mut World)| TableRow {
        name,
        idempotent: after(missing(IDEMPOTENT), then),
        once_only: after(missing(ONCE_ONLY), then),
    };
    [
        row("queued, tool missing", |_| {}),
        row("queued, tool missing, paused", |world| {
            world.pause();
        }),
    ]
}

/// A row that is the same for both kinds of steps.
fn same(name: &'static str, world: World) -> TableRow {
    TableRow {
        name,
        idempotent: world.clone(),
        once_only: world,
    }
}

fn suspended_rows() -> [TableRow; 3] {
    let mut lost = after(after(queued(ONCE_ONLY), ask), suspend);
    lost.lose(STEP);
    [
        TableRow {
            name: "in_progress, suspended",
            idempotent: after(after(queued(IDEMPOTENT), ask), suspend),
            once_only: after(after(queued(ONCE_ONLY), ask), suspend),
        },
        same(
            "waiting (frozen), suspended",
            after(again_waiting(), suspend),
        ),
        same("uncertain, suspended", lost),
    ]
}

fn suspend(world: &mut World) {
    world.give(suspend_input("odd"));
}

fn completed(steps: &str) -> World {
    after(queued(steps), |world| {
        world.report(STEP, done(json!({})));
    })
}

fn failed(steps: &str) -> World {
    let steps = format!("{}    retry: none\n  - wait: 1 day\n", first(steps));
    after(queued(&steps), |world| {
        world.report(STEP, broken());
    })
}

/// The first of two steps.
fn first(steps: &str) -> &str {
    steps
        .trim_end()
        .trim_end_matches("- wait: 1 day")
        .trim_end_matches(' ')
}

/// Its tool has failed, and is called again.
fn failed_once(steps: &str) -> World {
    let steps = format!(
        "{}    retry: {{ attempts: 3 }}\n  - wait: 1 day\n",
        first(steps)
    );
    after(queued(&steps), |world| {
        world.report(STEP, broken());
    })
}

/// Its timer was set twice, so that there is an older one.
fn again_waiting() -> World {
    let mut world = World::started(WAITING);
    world.pass(TimeDelta::hours(1));
    world.pause();
    world.resume(ResumeMode::Continue);
    world
}

fn word(answer: &Reply) -> String {
    match answer {
        Reply::Grant(answer) => format!(" → {}", json!(answer).as_str().unwrap()),
        Reply::Result(answer) => format!(" → {}", json!(answer).as_str().unwrap()),
        Reply::Timer(answer) => format!(" → {}", json!(answer).as_str().unwrap()),
        Reply::Closed(answer) => format!(" → {}", json!(answer).as_str().unwrap()),
        Reply::HandoffUpdated(answer) => format!(" → {}", json!(answer).as_str().unwrap()),
        Reply::ScheduledStart(answer) => format!(" → {}", json!(answer).as_str().unwrap()),
        Reply::ChildRunEnd(answer) => format!(" → {}", json!(answer).as_str().unwrap()),
        Reply::InputRequested(asked) => format!(" → {}", json!(asked.status).as_str().unwrap()),
        Reply::Watched(watched) => watched
            .ended
            .as_ref()
            .map_or_else(String::new, |end| format!(" → {}", end.status)),
        Reply::Changed(_)
        | Reply::Heartbeat(_)
        | Reply::Tool(_)
        | Reply::LibraryEntry(_)
        | Reply::Registered(_)
        | Reply::Refused(_)
        | Reply::Continued(_)
        | Reply::Blob(_)
        | Reply::Run(_)
        | Reply::Agent(_)
        | Reply::Contact(_)
        | Reply::Scope(_)
        | Reply::Operation(_)
        | Reply::Erasure(_)
        | Reply::Nothing(()) => String::new(),
    }
}

/// Whether the run is suspended or paused.
fn stopped(world: &World) -> &'static str {
    match (&world.run().suspension, world.run().pauses.is_empty()) {
        (Some(_), _) => ", suspended",
        (None, true) => "",
        (None, false) => ", paused",
    }
}

/// Tries one input on a copy of the scene; says what came of it, and the status if it is new.
fn tried(row: &TableRow, column: &Column) -> (String, Option<RunStatus>) {
    let from = if column.on_idempotent {
        &row.idempotent
    } else {
        &row.once_only
    };
    let mut world = from.clone();
    match world.give((column.input)(from)) {
        Heard::Refused(refusal) => (format!("refused `{}`", refusal.problem().code), None),
        Heard::Unchanged(answer) => (format!("unchanged{}", word(&answer)), None),
        Heard::Decided(answer) => {
            let (row, status) = (row_of(world.step(STEP)), world.status());
            let paused = stopped(&world);
            let anew = match world.handed.len() - from.handed.len() {
                0 => "",
                _ => ", dispatched",
            };
            let cell = format!("{row} / {status}{paused}{anew}{}", word(&answer));
            (cell, (status != from.status()).then_some(status))
        }
    }
}

fn statuses(leads: &BTreeMap<RunStatus, Vec<String>>) -> String {
    let mut text = String::from("| status | what leads there |\n|---|---|\n");
    for status in RunStatus::ALL {
        let ways = leads.get(&status).map(|ways| ways.join("; "));
        let ways = ways.unwrap_or_else(|| panic!("nothing of what is tried leads to {status}"));
        writeln!(text, "| `{status}` | {ways} |").unwrap();
    }
    text
}

fn page() -> String {
    let (table_rows, columns) = (table_rows(), columns());
    let mut leads: BTreeMap<RunStatus, Vec<String>> = BTreeMap::new();
    for (name, world) in beginnings_and_ends() {
        leads.entry(world.status()).or_default().push(name.into());
    }
    let mut tables = String::new();
    for table in TABLES {
        let of_table = |column: &&Column| {
            table_of(&(column.input)(&table_rows.first().unwrap().once_only)) == table
        };
        let columns: Vec<&Column> = columns.iter().filter(of_table).collect();
        assert!(!columns.is_empty(), "{table} has no columns");
        let names: Vec<_> = columns.iter().map(|column| column.name).collect();
        writeln!(tables, "\n### {table}\n").unwrap();
        writeln!(tables, "| step, run | {} |", names.join(" | ")).unwrap();
        writeln!(tables, "|---|{}", "---|".repeat(names.len())).unwrap();
        for row in &table_rows {
            let mut cells = Vec::new();
            for column in &columns {
                let (cell, status) = tried(row, column);
                if let Some(status) = status {
                    let way = format!("{}: {}", row.name, column.name);
                    leads.entry(status).or_default().push(way);
                }
                cells.push(cell);
            }
            let status = row.once_only.status();
            writeln!(tables, "| {}, {status} | {} |", row.name, cells.join(" | ")).unwrap();
        }
    }
    let statuses = statuses(&leads);
    format!("{HEAD}\n## What leads to a run's status\n\n{statuses}\n{LEGEND}{tables}")
}

/// S1-R11: the page is what the code does today.
#[test]
fn states_table_is_current() {
    for row in table_rows() {
        for world in [&row.idempotent, &row.once_only] {
            let paused = stopped(world);
            let found = format!("{}{paused}", row_of(world.step(STEP)));
            assert_eq!(found, row.name, "the scene is not what it says");
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/states.md");
    let wanted = page();
    if std::env::var_os("HOLDPOINT_WRITE_DOCS").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == wanted,
        "docs/states.md is stale: HOLDPOINT_WRITE_DOCS=1 cargo test -p holdpoint-executor states_table \
         rewrites it"
    );
}
