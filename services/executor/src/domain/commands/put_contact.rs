//! `executor.put_contact`, `patch_contact`, `add_activity`, `delete_contact`: what is known about a contact
//! changes.

use chrono::{DateTime, Utc};
use holdpoint_contracts::contact::{
    ACTIVITY_CHARS_MAX, Activity, CONTACT_BYTES_MAX, SUBJECT_CHARS_MAX,
};
use holdpoint_contracts::size::json_bytes;
use holdpoint_ids::ContactId;
use serde_json::{Map, Value};

use crate::domain::decision::{Decision, InWorkspace, Outcome, decided};
use crate::domain::effect::{Effect, Reply};
use crate::domain::input::ContactInput;
use crate::domain::model::contact::{Contact, cleaned, has_replied};
use crate::domain::need::Aggregate;
use crate::domain::refusal::Refusal;
use crate::domain::rules::contact_events::contact_events;
use crate::domain::rules::contact_fields::contact_fields;
use crate::domain::rules::contact_patch::merge_patch;
use crate::domain::rules::contact_tags::change_tags;

pub(crate) fn change_contact(
    contact: Option<&Contact>,
    InWorkspace { workspace, id }: InWorkspace<'_, &ContactId>,
    input: &ContactInput,
    now: DateTime<Utc>,
) -> Decision {
    let known = contact.filter(|contact| !contact.deleted);
    let (fields, deleted) = match (known, input) {
        (
            known,
            ContactInput::Put {
                fields,
                merge: true,
                ..
            },
        ) => {
            let stored = known.map_or_else(Map::new, |known| known.fields.clone());
            (merge_patch(&stored, fields), false)
        }
        (_, ContactInput::Put { fields, .. }) => (fields.clone(), false),
        (Some(known), ContactInput::Patch { patch, tags }) => {
            let fields = merge_patch(&known.fields, patch);
            (change_tags(fields, tags)?, false)
        }
        (
            Some(known),
            ContactInput::Say {
                activity, patch, ..
            },
        ) => {
            check_lengths(activity)?;
            (merge_patch(&known.fields, patch), false)
        }
        (Some(_), ContactInput::Delete) => (Map::new(), true),
        (None, ContactInput::Patch { .. } | ContactInput::Say { .. } | ContactInput::Delete) => {
            return Err(Refusal::ContactNotFound(id.clone()).into());
        }
    };
    let next = Contact {
        workspace: workspace.clone(),
        id: id.clone(),
        version: contact.map_or(0, |contact| contact.version) + 1,
        fields: without_id(fields),
        deleted,
        erasure: contact.and_then(|contact| contact.erasure.clone()),
    };
    let bytes = json_bytes(&next.fields);
    if bytes > CONTACT_BYTES_MAX {
        return Err(Refusal::ContactTooLarge {
            id: id.clone(),
            bytes,
        }
        .into());
    }
    let answer = if deleted {
        Reply::Nothing(())
    } else {
        Reply::Contact(next.view())
    };
    let mut effects = contact_effects(&next, input);
    effects.extend(contact_fields(known, &next));
    if has_replied(&next.fields) && !known.is_some_and(|known| has_replied(&known.fields)) {
        effects.push(Effect::ReplyPending {
            workspace: workspace.clone(),
            contact: id.clone(),
        });
    }
    if !deleted && !matches!(input, ContactInput::Put { silent: true, .. }) {
        effects.extend(contact_events(known, &next, now));
    }
    if known.is_some_and(|known| known.fields == next.fields) && !deleted && effects.is_empty() {
        return Ok(Outcome::Unchanged(answer));
    }
    decided(Aggregate::Contact(next), effects, answer)
}

fn check_lengths(activity: &Activity) -> Result<(), Refusal> {
    let subject = activity.subject.as_deref().unwrap_or_default();
    for (name, text, most) in [
        ("text", activity.text.as_str(), ACTIVITY_CHARS_MAX),
        ("subject", subject, SUBJECT_CHARS_MAX),
    ] {
        if text.chars().count() > most {
            return Err(Refusal::ActivityTooLong(name, most));
        }
    }
    Ok(())
}

fn contact_effects(next: &Contact, input: &ContactInput) -> Vec<Effect> {
    let (workspace, contact) = (next.workspace.clone(), next.id.clone());
    match input {
        ContactInput::Say { id, activity, .. } => vec![Effect::Activity {
            workspace,
            contact,
            id: id.clone(),
            activity: cleaned(activity),
        }],
        ContactInput::Delete => vec![Effect::ForgetActivities { workspace, contact }],
        ContactInput::Put { .. } | ContactInput::Patch { .. } => Vec::new(),
    }
}

/// The id is part of the route. In the body it is the same or wrong.
fn without_id(mut fields: Map<String, Value>) -> Map<String, Value> {
    // The other fields stay in their order.
    fields.shift_remove("id");
    fields
}

#[cfg(test)]
mod tests;
