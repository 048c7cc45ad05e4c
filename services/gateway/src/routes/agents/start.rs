//! `POST /agents/{agent}/runs`: starting one run.

use std::collections::BTreeMap;

use axum::response::Response;
use holdpoint_contracts::executor::{PutContact, StartRun};
use holdpoint_contracts::run::StartedRun;
use holdpoint_contracts::{IdempotencyKey, Problem};
use holdpoint_ids::{AgentName, ContactId, RunId};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::auth::may::{Ask, May};
use crate::body::invalid_field;
use crate::call::{Call, OptionalJson};
use crate::command_outcome::CommandOutcome;
use crate::problem::ApiResult;

/// Body of a start; also one line of a batch.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StartBody {
    #[serde(default)]
    input: Value,
    contact: Option<ContactBody>,
    /// The object replaces the stored contact; otherwise its fields are merged into it.
    #[serde(default, deserialize_with = "or_null")]
    replace: bool,
    #[serde(default, deserialize_with = "or_null")]
    labels: BTreeMap<String, String>,
}

/// The contact of a run: the id of a stored one, or an object to be stored first.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
enum ContactBody {
    Known(String),
    New(Map<String, Value>),
}

pub(super) async fn start_one(
    call: Call<Ask, AgentName, OptionalJson<StartBody>>,
) -> ApiResult<Response> {
    let run = start(&call.caller, call.id, call.body, call.key, false).await?;
    Ok(run.created_if(|run| run.changed))
}

/// Stores the contact of the body, if it has one, then starts the run. With `silent`, no user is notified of a new lead.
pub(super) async fn start(
    caller: &May<Ask>,
    agent: AgentName,
    body: StartBody,
    key: Option<IdempotencyKey>,
    silent: bool,
) -> Result<CommandOutcome<StartedRun>, Problem> {
    let app = &caller.app;
    if body.replace && !matches!(body.contact, Some(ContactBody::New(_))) {
        let message = "needs `contact` as an object, which replaces the stored contact";
        return Err(invalid_field("/replace", message));
    }
    let mut after = None;
    let contact = match body.contact {
        None => None,
        Some(ContactBody::Known(id)) => Some(contact_id("/contact", &id)?),
        Some(ContactBody::New(fields)) => {
            let put = PutContact {
                merge: !body.replace,
                silent,
                ..contact_of(fields)?
            };
            let contact = put.contact.clone();
            // Under the caller's key, so that a repetition does not undo later changes of the contact.
            let key = key.as_ref().map(|key| IdempotencyKey {
                key: format!("{}/contact", key.key),
                digest: key.digest.clone(),
            });
            // While the executor is down, the start must not overtake the contact.
            if let CommandOutcome::Accepted(id) = app.command(caller, key, put).await? {
                after = Some(id);
            }
            Some(contact)
        }
    };
    let StartBody { input, labels, .. } = body;
    let command = StartRun {
        run: RunId::fresh(),
        agent,
        input,
        contact,
        labels,
    };
    app.command_after(caller, key, after, command).await
}

fn contact_of(mut fields: Map<String, Value>) -> Result<PutContact, Problem> {
    match fields.shift_remove("id") {
        Some(Value::String(id)) => Ok(PutContact {
            contact: contact_id("/contact/id", &id)?,
            fields,
            merge: false,
            silent: false,
        }),
        Some(_) | None => Err(invalid_field(
            "/contact/id",
            "must be the id of the contact, as text",
        )),
    }
}

fn contact_id(pointer: &str, id: &str) -> Result<ContactId, Problem> {
    id.parse()
        .map_err(|error: holdpoint_ids::IdError| invalid_field(pointer, &error.to_string()))
}

/// `null` means the same as an absent field.
fn or_null<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::from_json;

    #[test]
    fn a_contact_is_an_id_or_an_object_with_one() {
        let known: StartBody = from_json(br#"{"contact": "c1"}"#).unwrap();
        assert_eq!(known.contact, Some(ContactBody::Known("c1".to_owned())));
        let new: StartBody = from_json(br#"{"contact": {"id": "c1", "name": "Ada"}}"#).unwrap();
        let Some(ContactBody::New(fields)) = new.contact else {
            panic!("not new")
        };
        let put = contact_of(fields).unwrap();
        assert_eq!(put.contact.as_str(), "c1");
        assert_eq!(put.fields.len(), 1);
    }

    #[test]
    fn a_contact_without_an_id_is_refused_and_says_where() {
        for fields in [
            Map::new(),
            Map::from_iter([("id".to_owned(), Value::from(7))]),
        ] {
            let problem = contact_of(fields).unwrap_err();
            assert_eq!(problem.code, "invalid_body");
            assert_eq!(problem.errors[0].pointer.as_deref(), Some("/contact/id"));
        }
    }

    #[test]
    fn null_says_the_same_as_nothing() {
        let body = br#"{"input": null, "contact": null, "replace": null, "labels": null}"#;
        assert_eq!(from_json::<StartBody>(body).unwrap(), StartBody::default());
    }
}
