//! A contact: whom a run is about. Conditions see it as it is when they are evaluated.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use holdpoint_contracts::contact::{Activity, ContactView};
use holdpoint_contracts::form::plain;
use holdpoint_ids::{ContactId, Workspace};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::effect::{Effect, Reply};
use super::need::{Aggregate, Fact};
use super::refusal::Refusal;
use super::size::json_bytes;
use crate::domain::decision::{Decided, Decision, Outcome, Undecided};

/// Most that may be known of one contact, in bytes of JSON.
pub const CONTACT_BYTES_MAX: usize = 64 * 1024;

/// Activities of one contact that are kept; the oldest go.
pub const ACTIVITIES_KEPT: u64 = 200;
/// Activities that whoever takes a run over is told of.
pub const ACTIVITIES_TOLD: u64 = 50;

/// What was said to and by a contact, as a decision is given it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Said {
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

/// What can happen to a contact.
#[derive(Debug, Clone, PartialEq)]
pub enum ContactInput {
    /// Replaces all that is known.
    Put(Map<String, Value>),
    /// Changes some of it; `null` removes.
    Patch(Map<String, Value>),
    /// Adds what was said, and changes some of what is known.
    Say {
        id: String,
        activity: Activity,
        /// As for a patch.
        patch: Map<String, Value>,
    },
    /// Forgets it.
    Delete,
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

impl Fact {
    /// The contact as expressions see it.
    #[must_use]
    pub fn of_contact(contact: &Contact) -> Self {
        let mut fields = contact.fields.clone();
        fields.insert("id".to_owned(), Value::String(contact.id.to_string()));
        Self::Contact(Arc::new(Value::Object(fields)))
    }
}

/// Decides what an input does to a contact.
pub(crate) fn decide(
    contact: Option<&Contact>,
    workspace: &Workspace,
    id: &ContactId,
    input: &ContactInput,
) -> Decision {
    let known = contact.filter(|contact| !contact.deleted);
    let (fields, deleted) = match (known, input) {
        (_, ContactInput::Put(fields)) => (fields.clone(), false),
        (Some(known), ContactInput::Patch(patch)) => (merged(&known.fields, patch), false),
        (
            Some(known),
            ContactInput::Say {
                activity, patch, ..
            },
        ) => {
            let subject = activity.subject.as_deref().unwrap_or_default();
            for (name, text, most) in [
                ("text", activity.text.as_str(), ACTIVITY_CHARS_MAX),
                ("subject", subject, SUBJECT_CHARS_MAX),
            ] {
                if text.chars().count() > most {
                    return Err(Undecided::Refused(Refusal::ActivityTooLong(name, most)));
                }
            }
            (merged(&known.fields, patch), false)
        }
        (Some(_), ContactInput::Delete) => (Map::new(), true),
        (None, ContactInput::Patch(_) | ContactInput::Say { .. } | ContactInput::Delete) => {
            return Err(Undecided::Refused(Refusal::ContactNotFound(id.clone())));
        }
    };
    let next = Contact {
        workspace: workspace.clone(),
        id: id.clone(),
        version: contact.map_or(0, |contact| contact.version) + 1,
        fields: without_id(fields),
        deleted,
    };
    let bytes = json_bytes(&next.fields);
    if bytes > CONTACT_BYTES_MAX {
        return Err(Undecided::Refused(Refusal::ContactTooLarge {
            id: id.clone(),
            bytes,
        }));
    }
    let answer = if deleted {
        Reply::Nothing(())
    } else {
        Reply::Contact(next.view())
    };
    let effects = effects(&next, input);
    if known.is_some_and(|known| known.fields == next.fields) && !deleted && effects.is_empty() {
        return Ok(Outcome::Unchanged(answer));
    }
    Ok(Outcome::Decided(Box::new(Decided {
        state: Aggregate::Contact(next),
        effects,
        facts: Vec::new(),
        reply: answer,
    })))
}

fn effects(next: &Contact, input: &ContactInput) -> Vec<Effect> {
    let (workspace, contact) = (next.workspace.clone(), next.id.clone());
    match input {
        ContactInput::Say { id, activity, .. } => vec![Effect::Activity {
            workspace,
            contact,
            id: id.clone(),
            activity: cleaned(activity),
        }],
        ContactInput::Delete => vec![Effect::ForgetActivities { workspace, contact }],
        ContactInput::Put(_) | ContactInput::Patch(_) => Vec::new(),
    }
}

/// The same with texts that every database takes and people may see.
pub(super) fn cleaned(activity: &Activity) -> Activity {
    Activity {
        subject: activity.subject.as_deref().map(plain),
        text: plain(&activity.text),
        ..activity.clone()
    }
}

/// The id stands in the route; one in the body says the same or is wrong.
fn without_id(mut fields: Map<String, Value>) -> Map<String, Value> {
    // The other fields stay in their order.
    fields.shift_remove("id");
    fields
}

/// RFC 7386.
fn merged(fields: &Map<String, Value>, patch: &Map<String, Value>) -> Map<String, Value> {
    let mut fields = fields.clone();
    for (name, value) in patch {
        match value {
            Value::Null => {
                fields.shift_remove(name);
            }
            Value::Object(inner) => {
                let empty = Map::new();
                let old = fields
                    .get(name)
                    .and_then(Value::as_object)
                    .unwrap_or(&empty);
                let merged = merged(old, inner);
                fields.insert(name.clone(), Value::Object(merged));
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                fields.insert(name.clone(), value.clone());
            }
        }
    }
    fields
}
