//! A contact: the person or company that a run is about. Conditions see its current fields.

use holdpoint_contracts::contact::{Activity, ContactView};
use holdpoint_contracts::form::plain;
use holdpoint_ids::{ContactId, Workspace};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Largest contact, in bytes of JSON.
pub const CONTACT_BYTES_MAX: usize = 64 * 1024;

/// Activities of one contact that are kept. Older ones are deleted.
pub const ACTIVITIES_KEPT: u64 = 200;

/// Activities in the context of a handoff.
pub const ACTIVITIES_SHOWN: u64 = 50;

/// The activities of a contact, as a decision loads them.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ContactActivity {
    /// At most [`ACTIVITIES_SHOWN`], oldest first.
    pub newest: Vec<Value>,
    /// Number of older activities that are kept.
    pub older: u64,
}

/// Longest text of an activity, in characters.
pub const ACTIVITY_CHARS_MAX: usize = 20_000;

/// Longest subject of an activity, in characters.
pub const SUBJECT_CHARS_MAX: usize = 1_000;

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
}

impl Contact {
    /// The contact as the API shows it.
    #[must_use]
    pub fn view(&self) -> ContactView {
        ContactView {
            id: self.id.clone(),
            fields: self.fields.clone(),
        }
    }
}

/// The activity with texts that every database accepts and people may see.
pub(crate) fn cleaned(activity: &Activity) -> Activity {
    Activity {
        subject: activity.subject.as_deref().map(plain),
        text: plain(&activity.text),
        ..activity.clone()
    }
}
