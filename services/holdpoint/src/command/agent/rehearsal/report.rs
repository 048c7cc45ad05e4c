//! A rehearsal as text. Contacts whose runs take the same course share one timeline.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_contracts::duration;
use holdpoint_contracts::rehearsal::{
    Outgoing, Rehearsal, RehearsalReport, RehearsedEvent, RehearsedRun, contact_names,
};
use holdpoint_ids::ContactId;
use serde::Serialize;

use crate::command::{instant, short_args};
use crate::table::{Rows, fact_lines};

/// Most courses that are shown.
const COURSES_MAX: usize = 20;

/// Most entries of a course that are shown.
const LINES_MAX: usize = 100;

pub(super) fn text(report: &RehearsalReport) -> String {
    let RehearsalReport { rehearsal, summary } = report;
    let courses = rehearsal.courses();
    let mut parts = vec![fact_lines(&[
        (
            "agent",
            format!("{}, rehearsed: nothing was sent", rehearsal.agent),
        ),
        ("contacts", rehearsal.runs.len().to_string()),
        ("start", instant(rehearsal.started_at)),
    ])];
    for runs in courses.iter().take(COURSES_MAX) {
        parts.extend(runs.first().map(|run| course_text(rehearsal, run, runs)));
    }
    if let Some(others @ [_, ..]) = courses.get(COURSES_MAX..) {
        let contacts: usize = others.iter().map(Vec::len).sum();
        let others = others.len();
        parts.push(format!(
            "{contacts} more contacts take {others} more courses; --json has all of them"
        ));
    }
    let counts = |counts: &BTreeMap<String, u64>| {
        let counts = counts.iter().map(|(name, count)| format!("{name} {count}"));
        or_none(&counts.collect::<Vec<_>>())
    };
    let facts = [
        ("calls", counts(&summary.calls)),
        ("requests", counts(&summary.requests)),
        ("unreached", or_none(&summary.unreached_steps)),
        ("unseen", contacts_text(&summary.ended_unseen)),
        ("unended", contacts_text(&summary.unended)),
    ];
    parts.push(fact_lines(&facts));
    parts.push(
        "unreached: steps that no contact reached. unseen: contacts whose run ends\n\
         without a request to a person. unended: contacts whose run does not end."
            .to_owned(),
    );
    parts.join("\n\n")
}

fn or_none(words: &[String]) -> String {
    if words.is_empty() {
        return "none".to_owned();
    }
    words.join(", ")
}

/// `38 (ada, bob and 36 more)`
fn contacts_text(contacts: &[ContactId]) -> String {
    if contacts.is_empty() {
        return "none".to_owned();
    }
    format!("{} ({})", contacts.len(), contact_names(contacts.iter()))
}

fn course_text(rehearsal: &Rehearsal, run: &RehearsedRun, runs: &[&RehearsedRun]) -> String {
    let mut rows = Rows::new(&["AFTER", "STEP", "WHAT"]);
    let mut events = run.timeline.iter().filter(|event| !event.is_minor());
    for event in events.by_ref().take(LINES_MAX) {
        let step = event.step.clone().unwrap_or_default();
        rows.push([after(rehearsal.started_at, event.at), step, what(event)]);
    }
    let left = run.events_left.saturating_add(events.count() as u64);
    let count = runs.len();
    let plural = if count == 1 { "contact" } else { "contacts" };
    let contacts = contact_names(runs.iter().map(|run| &run.contact));
    let mut text = format!("{count} {plural}: {contacts}\n");
    if count > 1 {
        text.push_str(&format!("The texts are those of {}.\n", run.contact));
    }
    text.push_str(&rows.render());
    if left > 0 {
        text.push_str(&format!("\n{left} more entries"));
    }
    if let Some(limit) = run.stopped_by {
        text.push_str(&format!("\nThe rehearsal stops here: {}.", limit.text()));
    } else if run.ended_at.is_none() {
        text.push_str(&format!("\nIt does not end: {}", run.message));
    }
    text
}

fn after(start: DateTime<Utc>, at: DateTime<Utc>) -> String {
    let ms = u64::try_from((at - start).num_milliseconds()).unwrap_or_default();
    if ms == 0 {
        return "start".to_owned();
    }
    duration::exact(ms)
}

fn what(event: &RehearsedEvent) -> String {
    let message = event.message.as_str();
    match &event.outgoing {
        None => message.to_owned(),
        Some(Outgoing::Call { tool, args }) => format!("{tool} {}", short_args(args)),
        Some(Outgoing::Request {
            request,
            to,
            question,
            deadline,
        }) => {
            let to = if to.is_empty() {
                "the owners".to_owned()
            } else {
                to.join(", ")
            };
            let until = deadline.map(|at| format!(" (until {})", instant(at)));
            format!("{request} to {to}: {question}{}", until.unwrap_or_default())
        }
        Some(Outgoing::ChildRun { agent }) => format!("starts a run of {agent}"),
    }
}

/// A contact whose runs differ between two versions of an agent, with the first difference.
#[derive(Debug, Serialize)]
pub(super) struct Change {
    contact: ContactId,
    /// Empty: the older run does nothing more.
    before: String,
    after: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Changes {
    contacts: usize,
    changes: Vec<Change>,
}

/// The contacts whose runs differ.
pub(super) fn changes(before: &Rehearsal, after: &Rehearsal) -> Changes {
    let runs = before.runs.iter().zip(&after.runs);
    let changes = runs.filter_map(|(old, new)| {
        let old = entries(before.started_at, old);
        let new_entries = entries(after.started_at, new);
        let longest = old.len().max(new_entries.len());
        let place = (0..longest).find(|place| old.get(*place) != new_entries.get(*place))?;
        let entry = |entries: &[String]| entries.get(place).cloned().unwrap_or_default();
        Some(Change {
            contact: new.contact.clone(),
            before: entry(&old),
            after: entry(&new_entries),
        })
    });
    Changes {
        contacts: after.runs.len(),
        changes: changes.collect(),
    }
}

/// What a run does and when, and how it ends.
fn entries(start: DateTime<Utc>, run: &RehearsedRun) -> Vec<String> {
    let sent = run.timeline.iter().filter(|event| event.outgoing.is_some());
    let sent = sent.map(|event| format!("{} {}", after(start, event.at), what(event)));
    let code = run.code.iter().map(|code| format!(" ({code})"));
    let code: String = code.collect();
    let end = match run.ended_at {
        Some(at) => format!("{} {}{code}", after(start, at), run.status),
        None => run.message.clone(),
    };
    sent.chain([end]).collect()
}

pub(super) fn changes_text(changes: &Changes) -> String {
    let (differ, all) = (changes.changes.len(), changes.contacts);
    let mut text = format!("The runs of {differ} of {all} contacts differ.");
    if differ > 0 {
        let mut rows = Rows::new(&["CONTACT", "BEFORE", "AFTER"]);
        for change in &changes.changes {
            rows.push([change.contact.as_str(), &change.before, &change.after]);
        }
        text.push_str(&format!("\n\n{}", rows.render()));
    }
    text
}
