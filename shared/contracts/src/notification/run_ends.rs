//! How runs ended that a user watches, or that a webhook wants.

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, RunId};
use serde::{Deserialize, Serialize};

use crate::run::RunStatus;

/// Runs that have ended; one message a batch of the executor, sent again until it is acknowledged (S0-T4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordRunEnds {
    /// At least one.
    pub ends: Vec<RunEnded>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnded {
    pub run: RunId,
    pub agent: AgentName,
    /// `completed`, `failed` or `cancelled`.
    pub status: RunStatus,
    /// In one sentence, as the run itself says it.
    pub message: String,
    /// The user who ended it; none: it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When it was accepted.
    #[serde(with = "crate::instant")]
    pub started_at: DateTime<Utc>,
    /// When it ended; with the run, what this is known by.
    #[serde(with = "crate::instant")]
    pub ended_at: DateTime<Utc>,
    /// How often a user had begun to watch its agent; 0: no user watches that, as far as is known.
    #[serde(default)]
    pub watch: u64,
    /// How often all ends of the workspace were asked for; 0: no user wants them, as far as is known.
    #[serde(default)]
    pub workspace_watch: u64,
    /// Its contact is erased: every notification about it is emptied, and no user is notified.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub erased: bool,
}

/// Reply of the notification service to one [`RunEnded`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEndRecorded {
    /// Those who want this end are notified. Others may want the next one.
    Told,
    Known,
    /// No user watches the run, nor its agent, and no webhook wants ends of runs. Nothing more need be notified
    /// of the agent, and of the workspace, until a user asks for it once more than so often.
    Nobody {
        agent: AgentName,
        /// As in [`RunEnded::watch`].
        watch: u64,
        /// As in [`RunEnded::workspace_watch`].
        #[serde(default)]
        workspace_watch: u64,
    },
}

/// The end of a run in a notification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    pub agent: AgentName,
    /// `completed`, `failed` or `cancelled`.
    pub status: RunStatus,
    #[serde(with = "crate::instant")]
    pub started_at: DateTime<Utc>,
    #[serde(with = "crate::instant")]
    pub ended_at: DateTime<Utc>,
    /// How long that was, in milliseconds.
    pub took_ms: u64,
}

impl RunEnded {
    /// How long the run took, in milliseconds.
    #[must_use]
    pub fn took_ms(&self) -> u64 {
        let took = self.ended_at - self.started_at;
        u64::try_from(took.num_milliseconds()).unwrap_or_default()
    }

    /// The part that a notification shows beside its words.
    #[must_use]
    pub fn shown(&self) -> RunEnd {
        RunEnd {
            agent: self.agent.clone(),
            status: self.status,
            started_at: self.started_at,
            ended_at: self.ended_at,
            took_ms: self.took_ms(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::notification::NotificationView;

    /// S0-T4: the end of a run is listed beside requests.
    #[test]
    fn the_end_of_a_run_is_read_back() {
        let notified = json!({
            "id": "note_01920000000070008000000000000001-1",
            "type": "workflow_complete",
            "title": "Run of outreach completed", "message": "All steps have run.",
            "priority": "normal", "action_url": "/runs/run_01920000000070008000000000000001",
            "link": "/runs/run_01920000000070008000000000000001",
            "run": "run_01920000000070008000000000000001", "request": null,
            "at": "2026-03-05T09:00:00.000Z", "read_at": null, "decided": null,
            "ended": {
                "agent": "outreach", "status": "completed",
                "started_at": "2026-03-02T09:00:00.000Z", "ended_at": "2026-03-05T09:00:00.000Z",
                "took_ms": 259_200_000,
            },
        });
        let read: NotificationView = serde_json::from_value(notified.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), notified);
    }
}
