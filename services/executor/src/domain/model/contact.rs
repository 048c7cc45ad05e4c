//! A contact: whom a run is about. Conditions see it as it is when they are evaluated.

use holdpoint_contracts::contact::{Activity, ContactView};
use holdpoint_contracts::form::plain;
use holdpoint_ids::{ContactId, Workspace};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Most that may be known of one contact, in bytes of JSON.
pub const CONTACT_BYTES_MAX: usize = 64 * 1024;

/// Activities of one contact that are kept; the oldest go.
pub const ACTIVITIES_KEPT: u64 = 200;

/// Activities that whoever takes a run over is told of.
pub const ACTIVITIES_TOLD: u64 = 50;

/// What was said to and by a contact, as a decision is given it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ContactActivity {
    /// At most [`ACTIVITIES_TOLD`], oldest first.
    pub newest: Vec<Value>,
    /// How many are kept that are older.
    pub older: u64,
}

/// Longest text of an activity, in characters.
pub const ACTIVITY_CHARS_MAX: usize = 20_000;

/// Longest subject of an activity, in characters.
pub const SUBJECT_CHARS_MAX: usize = 1_000;

/// What is known of a contact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contact {
    pub workspace: Workspace,
    pub id: ContactId,
    /// Rises with every decision.
    pub version: u64,
    /// Everything but the id.
    pub fields: Map<String, Value>,
    /// Forgotten: as if it were not there, until it is put again.
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

/// The same with texts that every database takes and people may see.
pub(crate) fn cleaned(activity: &Activity) -> Activity {
    Activity {
        subject: activity.subject.as_deref().map(plain),
        text: plain(&activity.text),
        ..activity.clone()
    }
}
