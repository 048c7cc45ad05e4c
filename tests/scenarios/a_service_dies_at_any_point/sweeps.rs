//! The sweeps of the services, which a service dies in.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Row, Workload};

/// Sweeps that a workload wakes.
pub(super) const SWEEPS: [Row; 5] = [
    Row("executor", "operations", false, Workload::ManyRuns),
    Row("executor", "erasures", false, Workload::Erasure),
    Row("executor", "scope_sync", false, Workload::Operations),
    Row("executor", "replies", false, Workload::Replies),
    Row("handoff", "leaving", false, Workload::Leaving),
];

/// Sweeps that no row plays, with the reason.
const NOT_PLAYED: [(&str, &str); 8] = [
    ("fan_out", "the row of the notification service plays it"),
    ("queued_runs", "`a_freed_place_starts_one_run` plays it"),
    ("due_deliveries", LOST_CLAIM),
    ("digests", LOST_CLAIM),
    (
        "run_end_watches",
        "it has no inputs, and sends its messages again",
    ),
    ("leases", LATER),
    ("redispatch", LATER),
    ("blobs", LATER),
];
const LOST_CLAIM: &str =
    "a claim that is lost is claimed again after its lease, as after a callback";
const LATER: &str = "it acts minutes after its cause; each pass finds what the one before has left";

/// Words: every sweep is played, or has a reason why not.
#[test]
fn every_sweep_is_in_a_table_of_crash_points() {
    let services = Path::new(env!("CARGO_MANIFEST_DIR")).join("../services");
    let mut sweeps = BTreeSet::new();
    for service in ["executor", "handoff", "notification"] {
        let folder = services.join(service).join("src/sweeps");
        for entry in std::fs::read_dir(folder).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            let rest = text.split_once("const NAME: &'static str = \"");
            let name = rest.and_then(|(_, rest)| Some(rest.split_once('"')?.0.to_owned()));
            sweeps.extend(name);
        }
    }
    let played = SWEEPS.iter().map(|row| row.1);
    let not_played = NOT_PLAYED.iter().map(|(name, _)| *name);
    let known: BTreeSet<String> = played.chain(not_played).map(str::to_owned).collect();
    assert_eq!(sweeps, known);
}
