//! A contact: whom a run is about. Conditions see it as it is when they are evaluated.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use holdpoint_contracts::run::ContactView;
use holdpoint_ids::{ContactId, Workspace};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::decide::{Decision, Verdict};
use super::effect::Answer;
use super::need::{Aggregate, Fact};
use super::refusal::Refusal;

/// Most that may be known of one contact, in bytes of JSON.
pub const CONTACT_BYTES_MAX: usize = 64 * 1024;

/// What is known of a contact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contact {
    /// Whose.
    pub workspace: Workspace,
    /// Its id.
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

    /// The contact as expressions see it.
    #[must_use]
    pub fn fact(&self) -> Fact {
        let mut fields = self.fields.clone();
        fields.insert("id".to_owned(), Value::String(self.id.to_string()));
        Fact::Contact(Arc::new(Value::Object(fields)))
    }
}

/// Decides what an input does to a contact.
pub(crate) fn decide(
    contact: Option<&Contact>,
    workspace: &Workspace,
    id: &ContactId,
    input: &ContactInput,
) -> Verdict {
    let known = contact.filter(|contact| !contact.deleted);
    let (fields, deleted) = match (known, input) {
        (_, ContactInput::Put(fields)) => (fields.clone(), false),
        (Some(known), ContactInput::Patch(patch)) => (merged(&known.fields, patch), false),
        (Some(_), ContactInput::Delete) => (Map::new(), true),
        (None, ContactInput::Patch(_) | ContactInput::Delete) => {
            return Verdict::Refused(Refusal::ContactNotFound(id.clone()));
        }
    };
    let next = Contact {
        workspace: workspace.clone(),
        id: id.clone(),
        version: contact.map_or(0, |contact| contact.version) + 1,
        fields: without_id(fields),
        deleted,
    };
    let bytes = serde_json::to_string(&next.fields).map_or(usize::MAX, |text| text.len());
    if bytes > CONTACT_BYTES_MAX {
        return Verdict::Refused(Refusal::ContactTooLarge {
            id: id.clone(),
            bytes,
        });
    }
    let answer = if deleted {
        Answer::Nothing(())
    } else {
        Answer::Contact(next.view())
    };
    if known.is_some_and(|known| known.fields == next.fields) && !deleted {
        return Verdict::Unchanged(answer);
    }
    Verdict::Decided(Box::new(Decision {
        state: Aggregate::Contact(next),
        effects: Vec::new(),
        facts: Vec::new(),
        answer,
    }))
}

/// The id stands in the route; one in the body says the same or is wrong.
fn without_id(mut fields: Map<String, Value>) -> Map<String, Value> {
    fields.remove("id");
    fields
}

/// RFC 7386.
fn merged(fields: &Map<String, Value>, patch: &Map<String, Value>) -> Map<String, Value> {
    let mut fields = fields.clone();
    for (name, value) in patch {
        match value {
            Value::Null => {
                fields.remove(name);
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
