//! A contact: the person or company that a run is about. Conditions see its current fields.

use chrono::{DateTime, Utc};
use holdpoint_contracts::contact::{Activity, ContactView, read_message_id};
use holdpoint_contracts::erasure::{ErasureState, ErasureView};
use holdpoint_contracts::form::plain;
use holdpoint_contracts::message::Actor;
use holdpoint_ids::{ContactId, Workspace};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Activities of one contact that are kept. Older ones are deleted.
pub const ACTIVITIES_KEPT: u64 = 200;

/// Activities in the context of a handoff.
pub const ACTIVITIES_SHOWN: u64 = 50;

/// Fields that Holdpoint reads or sets itself.
pub const KNOWN_FIELDS: [&str; 9] = [
    "id",
    "name",
    "email",
    "owner",
    "replied",
    "sentiment",
    "tags",
    "deal",
    "deals",
];

/// The activities of a contact, as a decision loads them.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ContactActivity {
    /// At most [`ACTIVITIES_SHOWN`], oldest first.
    pub newest: Vec<Value>,
    /// Number of older activities that are kept.
    pub older: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contact {
    pub workspace: Workspace,
    pub id: ContactId,
    /// Rises with every decision.
    pub version: u64,
    /// Everything but the id.
    pub fields: Map<String, Value>,
    /// Deleted: as if it did not exist, until it is put again.
    pub deleted: bool,
    /// Its newest erasure. It outlives the data, so that callers see what is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erasure: Option<Erasure>,
}

/// The erasure of a contact. A sweep cancels and deletes its runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Erasure {
    pub by: Actor,
    /// Runs that were created later are not part of it.
    pub at: DateTime<Utc>,
    /// When the sweep found no run any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<DateTime<Utc>>,
}

impl Erasure {
    #[must_use]
    pub const fn is_running(&self) -> bool {
        self.completed_at.is_none()
    }
}

/// Whether a contact has replied: conditions and waits for a reply read the same field.
#[must_use]
pub fn has_replied(fields: &Map<String, Value>) -> bool {
    fields.get("replied") == Some(&Value::Bool(true))
}

/// An address as it is compared: without blanks around it, and in lower case.
#[must_use]
pub fn comparable_email(email: &str) -> String {
    email.trim().to_lowercase()
}

impl Contact {
    /// Its erasure as the API shows it, without what is left.
    #[must_use]
    pub fn erasure_view(&self) -> Option<ErasureView> {
        let erasure = self.erasure.as_ref()?;
        Some(ErasureView {
            contact: self.id.clone(),
            state: if erasure.is_running() {
                ErasureState::Running
            } else {
                ErasureState::Completed
            },
            requested_by: erasure.by.to_string(),
            requested_at: erasure.at,
            completed_at: erasure.completed_at,
            runs_left: None,
            requests_left: None,
        })
    }

    /// The contact as the API shows it.
    #[must_use]
    pub fn view(&self) -> ContactView {
        ContactView {
            id: self.id.clone(),
            fields: self.fields.clone(),
        }
    }
}

/// The activity with texts that every database accepts and people may see, without an invalid Message-ID.
pub(crate) fn cleaned(activity: &Activity) -> Activity {
    Activity {
        subject: activity.subject.as_deref().map(plain),
        text: plain(&activity.text),
        message_id: activity
            .message_id
            .as_deref()
            .and_then(read_message_id)
            .map(str::to_owned),
        ..activity.clone()
    }
}
