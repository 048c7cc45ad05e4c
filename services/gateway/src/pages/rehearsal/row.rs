//! How lists and pages name a rehearsal.

use holdpoint_contracts::rehearsal::{RehearsalStatus, StoredRehearsal};
use holdpoint_ids::AgentName;
use maud::Markup;

use crate::pages::labels::{self, Tone};
use crate::store::rehearsals::RehearsalId;

/// The form of an agent, and its rehearsals.
pub(in crate::pages) fn path_of_agent(agent: &AgentName) -> String {
    format!("/agents/{agent}/rehearsal")
}

/// The list that has a rehearsal. The agent of a text may not be applied, so it has no page.
pub(super) fn path_of_list(rehearsal: &StoredRehearsal) -> String {
    match rehearsal.version {
        Some(_) => path_of_agent(&rehearsal.agent),
        None => "/agents".to_owned(),
    }
}

pub(super) fn path(id: RehearsalId) -> String {
    format!("/rehearsals/{id}")
}

pub(super) fn status_chip(status: RehearsalStatus) -> Markup {
    let (tone, label) = match status {
        RehearsalStatus::Running => (Tone::Calm, "Running"),
        RehearsalStatus::Completed => (Tone::Good, "Completed"),
        RehearsalStatus::Limited => (Tone::Waits, "Limited"),
        RehearsalStatus::Failed => (Tone::Bad, "Failed"),
        RehearsalStatus::Cancelled => (Tone::Calm, "Cancelled"),
        RehearsalStatus::Interrupted => (Tone::Waits, "Interrupted"),
    };
    labels::chip(tone, label)
}

/// `Version 3, 50 of 50 contacts, by nina`
pub(super) fn about(rehearsal: &StoredRehearsal) -> String {
    let version = match rehearsal.version {
        Some(version) => format!("Version {version}"),
        None => "A text".to_owned(),
    };
    let (done, all) = (rehearsal.rehearsed, rehearsal.contacts);
    let by = &rehearsal.created_by;
    format!("{version}, {done} of {all} contacts, by {by}")
}
