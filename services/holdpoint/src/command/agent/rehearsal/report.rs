//! A rehearsal as text. Contacts whose runs take the same course share one timeline.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_contracts::duration;
use holdpoint_contracts::rehearsal::{
    Outgoing, Rehearsal, RehearsalReport, RehearsedEvent, RehearsedRun,
};
use holdpoint_ids::ContactId;
use serde::Serialize;

use crate::command::{instant, short_args};
use crate::table::{Rows, fact_lines};

/// Most courses that are shown.
const COURSES_MAX: usize = 20;

/// Most entries of a course that are shown.
const LINES_MAX: usize = 100;

/// Most contacts that a line names.
const NAMED_MAX: usize = 5;

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
        "unreached: steps that no contact reached. unseen: runs that end, and no person\n\
         has a request of them. unended: runs that still wait."
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
    format!("{} ({})", contacts.len(), names(contacts.iter()))
}

fn names<'c>(contacts: impl ExactSizeIterator<Item = &'c ContactId>) -> String {
    let more = contacts.len().saturating_sub(NAMED_MAX);
    let named: Vec<_> = contacts.take(NAMED_MAX).map(ToString::to_string).collect();
    let named = named.join(", ");
    match more {
        0 => named,
        more => format!("{named} and {more} more"),
    }
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
    let contacts = names(runs.iter().map(|run| &run.contact));
    let mut text = format!("{count} {plural}: {contacts}\n");
    if count > 1 {
        text.push_str(&format!("The texts are those of {}.\n", run.contact));
    }
    text.push_str(&rows.render());
    if left > 0 {
        text.push_str(&format!("\n{left} more entries"));
    }
    if run.ended_at.is_none() {
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

/// A contact whose runs differ between two versions of an agent.
#[derive(Debug, Serialize)]
pub(super) struct Change {
    contact: ContactId,
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
    let differ =
        runs.filter(|(old, new)| acts(before.started_at, old) != acts(after.started_at, new));
    Changes {
        contacts: after.runs.len(),
        changes: differ
            .map(|(old, new)| Change {
                contact: new.contact.clone(),
                before: short(old),
                after: short(new),
            })
            .collect(),
    }
}

/// What a run sends, when, and how it ends.
fn acts(start: DateTime<Utc>, run: &RehearsedRun) -> (Vec<(String, String)>, String) {
    let sent = run.timeline.iter().filter_map(|event| {
        let outgoing = event.outgoing.as_ref()?;
        Some((
            after(start, event.at),
            serde_json::to_string(outgoing).ok()?,
        ))
    });
    (sent.collect(), format!("{} {:?}", run.status, run.code))
}

/// `completed: 2 calls, 1 request`
fn short(run: &RehearsedRun) -> String {
    let (mut calls, mut requests) = (0, 0);
    for sent in run.outgoing() {
        match sent {
            Outgoing::Call { .. } => calls += 1,
            Outgoing::Request { .. } => requests += 1,
            Outgoing::ChildRun { .. } => {}
        }
    }
    format!("{}: calls {calls}, requests {requests}", run.status)
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
