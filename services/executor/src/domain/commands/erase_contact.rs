//! `executor.erase_contact`: an administrator erases a contact. Its data is gone with this commit. The sweep erases its
//! runs and reports when none is left.

use chrono::{DateTime, Utc};
use holdpoint_contracts::hold::{DesiredHold, HoldState};
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::notification::{ContactEvent, ContactEventKind, RunEnded};
use holdpoint_ids::{ContactId, HoldId};
use serde_json::Map;

use crate::domain::decision::{Decision, Outcome, decided};
use crate::domain::effect::{Effect, Reply};
use crate::domain::model::contact::{Contact, Erasure};
use crate::domain::model::run::Run;
use crate::domain::need::Aggregate;
use crate::domain::refusal::Refusal;
use crate::domain::rules::contact_fields::contact_fields;

/// Begins an erasure, unless one is running. A contact that was deleted before may still have runs, and one that was put
/// again during an erasure has new data.
pub(crate) fn erase_contact(
    known: Option<&Contact>,
    id: &ContactId,
    by: &Actor,
    now: DateTime<Utc>,
) -> Decision {
    let known = known.ok_or_else(|| Refusal::ContactNotFound(id.clone()))?;
    if known.deleted && known.erasure.as_ref().is_some_and(Erasure::is_running) {
        return Ok(Outcome::Unchanged(Reply::of_erasure(known)));
    }
    let next = Contact {
        version: known.version + 1,
        fields: Map::new(),
        deleted: true,
        erasure: Some(Erasure {
            by: by.clone(),
            at: now,
            completed_at: None,
        }),
        ..known.clone()
    };
    let (workspace, contact) = (next.workspace.clone(), next.id.clone());
    let event = ContactEvent {
        contact: contact.clone(),
        version: next.version,
        kind: ContactEventKind::ContactErased,
        at: now,
        name: None,
        deal: None,
        more_deals: 0,
        to: Vec::new(),
    };
    let mut effects = Vec::from_iter(contact_fields(Some(known), &next));
    effects.extend([
        Effect::ContactEvent {
            workspace: workspace.clone(),
            event: Box::new(event),
        },
        Effect::ForgetActivities {
            workspace: workspace.clone(),
            contact: contact.clone(),
        },
        Effect::EraseContactTraces { workspace, contact },
        Effect::ErasurePending,
    ]);
    let reply = Reply::of_erasure(&next);
    decided(Aggregate::Contact(next), effects, reply)
}

/// The sweep found no run of the contact any more. A later erasure is not complete with that.
pub(crate) fn complete_erasure(
    known: Option<&Contact>,
    at: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Decision {
    let current = |contact: &&Contact| {
        let erasure = contact.erasure.as_ref();
        erasure.is_some_and(|erasure| erasure.is_running() && erasure.at == at)
    };
    let Some(contact) = known.filter(current) else {
        return Ok(Outcome::Unchanged(Reply::Nothing(())));
    };
    let mut next = contact.clone();
    next.version += 1;
    if let Some(erasure) = &mut next.erasure {
        erasure.completed_at = Some(now);
    }
    decided(Aggregate::Contact(next), Vec::new(), Reply::Nothing(()))
}

/// Deletes a run that has ended, and wants its requests and notifications to be emptied. The sweep cancels a live run
/// first and finds it again.
pub(crate) fn erase_run(run: &Run, contact: &ContactId, tasks: &[HoldId]) -> Decision {
    let Some(ended_at) = run
        .ended_at()
        .filter(|_| run.contact.as_ref() == Some(contact))
    else {
        return Ok(Outcome::Unchanged(Reply::Nothing(())));
    };
    let next = Run {
        version: run.version + 1,
        ..run.clone()
    };
    // Only some of these holds are on people. The handoff service keeps a tombstone of the others until its
    // retention, so that no late message brings one back.
    let own = (1..=run.holds).map(|number| HoldId {
        run: run.id,
        number,
    });
    let holds = own.chain(tasks.iter().copied());
    let mut effects: Vec<_> = holds
        .map(|id| Effect::Hold {
            workspace: run.workspace.clone(),
            desired_state: Box::new(DesiredHold {
                id,
                rev: next.version,
                state: HoldState::Erased {
                    contact: contact.clone(),
                },
            }),
        })
        .collect();
    let end = RunEnded {
        run: run.id,
        agent: run.agent.clone(),
        status: run.status(),
        message: String::new(),
        by: None,
        started_at: run.created_at,
        ended_at,
        watch: 0,
        workspace_watch: 0,
        erased: true,
    };
    effects.push(Effect::RunEnded {
        workspace: run.workspace.clone(),
        end: Box::new(end),
    });
    effects.push(Effect::DeleteRun {
        workspace: run.workspace.clone(),
        run: run.id,
    });
    decided(Aggregate::Run(next), effects, Reply::Nothing(()))
}

#[cfg(test)]
mod tests;
