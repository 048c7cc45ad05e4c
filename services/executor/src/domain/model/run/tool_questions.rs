//! The questions that the tool of a step asks people while it runs (S3-R2), and their answers.
//!
//! They are beside the phase, because a question outlives its dispatch. The next dispatch asks by the same
//! key and finds it.

use std::sync::Arc;

use holdpoint_contracts::asking::{ANSWERS_BYTES_MAX, Answers, AskMode, GivenAnswer};
use holdpoint_contracts::size::json_bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::model::is_default;
use crate::domain::model::run::person_hold::PersonHold;

/// Most questions that the tool of one step may ask.
pub const QUESTIONS_MAX: usize = 16;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Questions {
    /// The open question of a tool that has not parked. A tool asks one question at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<Box<OpenQuestion>>,
    /// Those that are answered, oldest first; each answer is a value of the run ([`answer_name`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered: Vec<AnsweredQuestion>,
    /// How long the current dispatch has waited for people, in milliseconds. It does not count as working
    /// time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub blocked_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenQuestion {
    /// Its name within the step.
    pub key: String,
    /// How the tool said that it waits.
    pub mode: AskMode,
    /// The hold on people, which is its waker.
    pub on: PersonHold,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnsweredQuestion {
    /// Its name within the step.
    pub key: String,
    pub hold: u32,
    /// How the tool said that it waits.
    pub mode: AskMode,
    /// The dispatch that was current when the answer came: the next one brings it.
    pub dispatch: u64,
}

/// Name of the value that holds an answer; no step can be called so.
#[must_use]
pub fn answer_name(hold: u32) -> String {
    format!("?answer-{hold}")
}

impl Questions {
    pub fn answer_names(&self) -> impl Iterator<Item = String> {
        self.answered.iter().map(|one| answer_name(one.hold))
    }

    /// The answers for a dispatch, the newest first, as far as they fit.
    #[must_use]
    pub fn answers(&self, find: impl Fn(&str) -> Option<Arc<Value>>) -> Answers {
        let mut left = ANSWERS_BYTES_MAX;
        let mut answers = Answers::new();
        for one in self.answered.iter().rev() {
            let Some(value) = find(&answer_name(one.hold)) else {
                continue;
            };
            let bytes = json_bytes(&value);
            if bytes > left {
                break;
            }
            left -= bytes;
            if let Ok(given) = GivenAnswer::deserialize(value.as_ref()) {
                answers.insert(one.key.clone(), given);
            }
        }
        answers
    }
}
