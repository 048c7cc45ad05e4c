//! Why the scheduler refuses an input. Codes are stable; texts may change. A timer refuses nothing.

use holdpoint_contracts::problem::{FieldError, Problem};
use holdpoint_ids::ScheduleName;

use super::model::schedule::SCHEDULES_MAX;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// Every error that was found.
    #[error("{}", first_message(.0))]
    InvalidFields(Vec<FieldError>),
    #[error("schedule `{0}` not found in this workspace")]
    NoSchedule(ScheduleName),
    #[error("a workspace has at most {SCHEDULES_MAX} schedules; delete one first")]
    TooManySchedules,
}

impl Refusal {
    /// The problem that the caller gets.
    #[must_use]
    pub fn problem(&self) -> Problem {
        let detail = self.to_string();
        match self {
            Self::InvalidFields(errors) => {
                Problem::invalid_body(detail).with_errors(errors.clone())
            }
            Self::NoSchedule(_) => Problem::not_found(detail),
            Self::TooManySchedules => Problem::new(409, "too_many_schedules", detail),
        }
    }
}

fn first_message(errors: &[FieldError]) -> String {
    errors.first().map_or_else(
        || "the schedule is invalid".to_owned(),
        |error| {
            let pointer = error.pointer.as_deref().unwrap_or_default();
            format!("{}: {}", pointer.trim_start_matches('/'), error.message)
        },
    )
}
