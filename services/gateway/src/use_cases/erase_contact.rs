//! The erasure of a contact: the executor begins it, and the gateway empties its tables.

use holdpoint_contracts::contact::ContactView;
use holdpoint_contracts::erasure::{EraseContact, ErasureView};
use holdpoint_contracts::executor::GetContact;
use holdpoint_contracts::{IdempotencyKey, Problem};
use holdpoint_ids::ContactId;
use serde_json::Value;

use crate::app::App;
use crate::auth::caller::Caller;
use crate::problem::database_away;
use crate::store::{commands, rehearsals, unmatched_replies};

/// Erases a contact. The executor's sweep and the other services do their part after the reply.
///
/// # Errors
/// 404 for an unknown contact. Its rehearsed runs are deleted even so: only a file may have had it.
pub(crate) async fn erase_contact(
    app: &App,
    caller: &Caller,
    key: Option<IdempotencyKey>,
    contact: ContactId,
) -> Result<ErasureView, Problem> {
    let (writer, workspace) = (&app.writer, &caller.workspace);
    let query = GetContact {
        contact: contact.clone(),
    };
    let found: Result<ContactView, Problem> = app.bus.query(workspace, &query).await;
    let email = found.ok().and_then(|it| it.fields.get("email").cloned());
    // Unmatched replies name a sender and no contact. A repeated erasure finds no address, so they are erased first.
    if let Some(Value::String(email)) = email {
        let erased = unmatched_replies::erase(writer, workspace, &email).await;
        erased.map_err(database_away)?;
    }
    let command = EraseContact {
        contact: contact.clone(),
    };
    let erasure = app.ask(caller, key, command).await;
    let erased = rehearsals::erase(writer, workspace, &contact, app.clock.now()).await;
    erased.map_err(database_away)?;
    app.rehearsal_ended.notify_waiters();
    let erasure = erasure?;
    let erased = commands::erase(writer, workspace, &contact).await;
    erased.map_err(database_away)?;
    Ok(erasure)
}
