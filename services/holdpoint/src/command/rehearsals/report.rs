//! A rehearsal as text. Contacts whose runs take the same course share one timeline.

use std::collections::{BTreeMap, BTreeSet};

use holdpoint_contracts::hold::RungAct;
use holdpoint_contracts::rehearsal::{
    Outgoing, Rehearsal, RehearsalChanges, RehearsalDetail, RehearsalStatus, RehearsedAct,
    RehearsedEvent, RehearsedRun, contact_names, time_between,
};
use holdpoint_ids::{ContactId, UserName};

use crate::command::{instant, short_args};
use crate::table::{Rows, fact_lines};

/// Most courses that are shown.
const COURSES_MAX: usize = 20;

/// Most users that are shown.
const USERS_SHOWN: usize = 50;

/// Most entries of a course that are shown.
const LINES_MAX: usize = 100;

pub(super) fn text(detail: &RehearsalDetail, rehearsal: &Rehearsal) -> String {
    let (stored, summary) = (&detail.rehearsal, &detail.summary);
    let courses = rehearsal.courses();
    let id = format!("{}, kept until {}", stored.id, instant(stored.kept_until));
    let mut facts = vec![
        (
            "agent",
            format!("{}, rehearsed: nothing was sent", rehearsal.agent),
        ),
        ("rehearsal", id),
        ("contacts", rehearsal.runs.len().to_string()),
        ("start", instant(rehearsal.started_at)),
    ];
    if stored.status != RehearsalStatus::Completed {
        let detail = stored.detail.iter().map(|detail| format!(": {detail}"));
        let missing = rehearsal.contacts_left;
        let detail: String = detail.collect();
        let status = format!("{}{detail}; {missing} contacts are missing", stored.status);
        facts.push(("status", status));
    }
    let mut parts = vec![fact_lines(&facts)];
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
    let approvals = summary.standing_approvals.iter();
    let approvals = approvals
        .map(|(id, uses)| (id.to_string(), *uses))
        .collect();
    let facts = [
        ("calls", counts(&summary.calls)),
        ("requests", counts(&summary.requests)),
        ("users", users_text(&summary.users)),
        ("approvals", counts(&approvals)),
        ("roles", roles_text(&summary.empty_roles)),
        ("unreached", or_none(&summary.unreached_steps)),
        ("unseen", contacts_text(&summary.ended_unseen)),
        ("unended", contacts_text(&summary.unended)),
    ];
    parts.push(fact_lines(&facts));
    parts.push(
        "users: requests of each user. approvals: uses of standing approvals. roles: recipients\n\
         without an active user. unreached: steps that no contact reached. unseen: contacts whose\n\
         run ends without a request to a person. unended: contacts whose run does not end."
            .to_owned(),
    );
    parts.join("\n\n")
}

/// `ada 3, bob 1`, those with the most requests first.
fn users_text(users: &BTreeMap<UserName, u64>) -> String {
    let mut users: Vec<_> = users.iter().collect();
    users.sort_by_key(|(_, requests)| std::cmp::Reverse(**requests));
    let left = users.len().saturating_sub(USERS_SHOWN);
    let shown = users.iter().take(USERS_SHOWN);
    let shown = shown.map(|(user, requests)| format!("{user} {requests}"));
    let more = (left > 0).then(|| format!("{left} more with --json"));
    or_none(&shown.chain(more).collect::<Vec<_>>())
}

fn roles_text(roles: &BTreeSet<String>) -> String {
    or_none(&roles.iter().cloned().collect::<Vec<_>>())
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
        rows.push([
            time_between(rehearsal.started_at, event.at),
            step,
            what(event),
        ]);
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

fn what(event: &RehearsedEvent) -> String {
    match &event.outgoing {
        None => event.until.map_or_else(
            || event.message.clone(),
            |at| format!("{} (until {})", event.message, instant(at)),
        ),
        Some(outgoing) => outgoing_text(outgoing),
    }
}

fn outgoing_text(outgoing: &Outgoing) -> String {
    match outgoing {
        Outgoing::Call { tool, args } => format!("{tool} {}", short_args(args)),
        Outgoing::Request {
            request,
            to,
            question,
            deadline,
        } => {
            let to = recipients(to);
            let until = deadline.map(|at| format!(" (until {})", instant(at)));
            format!("{request} to {to}: {question}{}", until.unwrap_or_default())
        }
        Outgoing::Escalation { request, act, to } => {
            let act = match act {
                RungAct::Notify => "notifies",
                RungAct::Reassign => "reassigns it to",
                RungAct::Broaden => "also asks",
                RungAct::Raise => "raises its priority and notifies",
                // These end the request.
                RungAct::AnswerDefault | RungAct::Fail => "ends the request of",
            };
            format!("{request}: {act} {}", recipients(to))
        }
        Outgoing::ApprovedInAdvance {
            approval,
            by,
            number,
            max_uses,
        } => format!("approved in advance by {by} ({approval}, use {number} of {max_uses})"),
        Outgoing::ChildRun { agent } => format!("starts a run of {agent}"),
    }
}

fn recipients(to: &[String]) -> String {
    if to.is_empty() {
        return "the owners".to_owned();
    }
    to.join(", ")
}

pub(super) fn changes_text(changes: &RehearsalChanges) -> String {
    let differ = changes.changes.len().saturating_add(changes.changes_left);
    let all = changes.contacts;
    let mut text = format!("The runs of {differ} of {all} contacts differ.");
    if differ > 0 {
        let mut rows = Rows::new(&["CONTACT", "BEFORE", "AFTER"]);
        for change in &changes.changes {
            let [before, after] = [&change.before, &change.after].map(|act| act_text(act.as_ref()));
            rows.push([change.contact.as_str(), &before, &after]);
        }
        text.push_str(&format!("\n\n{}", rows.render()));
    }
    if changes.not_compared > 0 {
        text.push_str(&format!(
            "\n{} contacts do the same as far as their timelines go, and these are cut.",
            changes.not_compared
        ));
    }
    if changes.changes_left > 0 {
        text.push_str(&format!("\n{} more contacts", changes.changes_left));
    }
    text
}

fn act_text(act: Option<&RehearsedAct>) -> String {
    let Some(act) = act else {
        return "nothing more".to_owned();
    };
    let outgoing = act.outgoing.as_ref().map(outgoing_text);
    let until = act
        .deadline
        .as_ref()
        .map(|until| format!("(until {until})"));
    let words = [act.after.clone(), outgoing, until, act.end.clone()];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}
