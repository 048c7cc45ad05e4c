//! The agent of measured runs: consecutive steps that call a tool which does nothing.

use serde_json::json;

pub(super) const AGENT: &str = "bench";

pub(super) const TOOL: &str = "bench_noop";

pub(super) const STEPS: usize = 3;

/// The definition. Each step is dispatched through the queue.
pub(super) fn agent_text() -> String {
    let text = "a hundred bytes of arguments or so, as a step that writes a mail would have them at the least";
    let step = json!({ "tool": TOOL, "args": { "idempotent": true, "text": text } });
    json!({ "agent": AGENT, "steps": vec![step; STEPS] }).to_string()
}
