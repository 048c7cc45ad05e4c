//! What all measurements share: the names of their processes, and the parts of a result.

use serde_json::Value;

pub(super) const EXECUTOR: &str = "executor";
pub(super) const SCHEDULER: &str = "scheduler";
pub(super) const HANDOFF: &str = "handoff";
pub(super) const NOTIFICATION: &str = "notification";
pub(super) const GATEWAY: &str = "gateway";
/// All services in one process.
pub(super) const UP: &str = "up";
pub(super) const LOAD: &str = "bench-load";
pub(super) const WORKER: &str = "bench-worker";

/// A result, and whether everything was done exactly once.
pub(super) type Measured = (Value, bool);

pub(super) fn number(value: &Value, name: &str) -> Option<u64> {
    value.get(name).and_then(Value::as_u64)
}

/// The runs of which the worker executed so many steps, each once.
pub(super) fn runs_by_steps(worker: &Value, steps: usize) -> Option<u64> {
    number(worker.get("runs_by_steps")?, &steps.to_string())
}

pub(super) fn durability(database: &str) -> &'static str {
    if database == "sqlite" {
        "SQLite WAL, synchronous=FULL: a committed step survives a power cut; JetStream file storage without a sync per message"
    } else {
        "Postgres with its own synchronous_commit; JetStream file storage without a sync per message"
    }
}
