//! What is left of a request after the erasure of its contact: the record of the decision. Everything that people or
//! agents have written is emptied.

use chrono::{DateTime, Utc};
use holdpoint_contracts::hold::{ApprovalItem, HoldSpec};
use serde_json::{Value, json};

use crate::domain::model::request::{Phase, Request};

/// The text that takes the place of a question or a reason.
pub(crate) const ERASED: &str = "erased";

impl Request {
    /// Empties it. Kind, step, agent, recipients, outcome, instants, actors, tools and digests stay. An open request is
    /// withdrawn.
    pub(crate) fn erase(&mut self, now: DateTime<Utc>) {
        self.erased_at = Some(now);
        self.spec = self.spec.take().map(erased_spec);
        match &mut self.phase {
            Phase::Open { .. } | Phase::Frozen { .. } => {
                self.phase = Phase::Withdrawn {
                    reason: ERASED.to_owned(),
                    by: None,
                    at: now,
                };
            }
            Phase::Decided { data, .. } => *data = erased_value(data),
            Phase::Withdrawn { reason, .. } => ERASED.clone_into(reason),
            Phase::TimedOut { .. } => {}
        }
        for answer in &mut self.late {
            answer.data = erased_value(&answer.data);
        }
        for entry in &mut self.progress.history {
            entry.note = None;
        }
        self.progress.pending_events.handoff_events.clear();
        self.progress.clear_snoozes();
    }
}

/// A marker for a value. No value stays none.
fn erased_value(value: &Value) -> Value {
    if value.is_null() {
        return Value::Null;
    }
    json!({ ERASED: true })
}

fn erased_spec(spec: HoldSpec) -> HoldSpec {
    let items = spec.items.into_iter().map(|item| ApprovalItem {
        args: json!({ ERASED: true }),
        args_schema: None,
        ..item
    });
    HoldSpec {
        question: ERASED.to_owned(),
        options: Vec::new(),
        default: None,
        context: Value::Null,
        schema: None,
        link: None,
        title: None,
        task: None,
        callback: None,
        items: items.collect(),
        ..spec
    }
}
