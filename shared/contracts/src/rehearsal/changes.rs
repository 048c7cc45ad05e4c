//! What differs between two rehearsals, such as those of two versions of an agent.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_ids::ContactId;
use serde::{Deserialize, Serialize};

use super::{Outgoing, Rehearsal, RehearsedRun};
use crate::duration;

/// Most changes of one reply.
const CHANGES_MAX: usize = 100;

/// The contacts of both rehearsals whose runs differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RehearsalChanges {
    /// Contacts that both have.
    pub contacts: usize,
    pub changes: Vec<RehearsalChange>,
    /// Contacts that differ, and that `changes` does not have.
    pub changes_left: usize,
    /// Contacts that do the same as far as their timelines go, and one of these is cut.
    pub not_compared: usize,
}

/// The first difference between two runs of a contact. None: this run does nothing more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RehearsalChange {
    pub contact: ContactId,
    pub before: Option<RehearsedAct>,
    pub after: Option<RehearsedAct>,
}

/// What a run sends, or how it ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RehearsedAct {
    /// Time since the start of the run, such as `5d`. None: at the end of the rehearsal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// A request has its deadline in `deadline`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outgoing: Option<Outgoing>,
    /// Time from the start of the run to the deadline of the request, such as `8d`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// The status and code with which the run ends, or what it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
}

impl RehearsalChanges {
    /// Both rehearsals may have started at different instants: times count from the start.
    #[must_use]
    pub fn between(before: &Rehearsal, after: &Rehearsal) -> Self {
        let old_runs = before.runs.iter();
        let old_runs: BTreeMap<_, _> = old_runs.map(|run| (&run.contact, run)).collect();
        let (mut contacts, mut changes_left, mut not_compared) = (0, 0, 0);
        let mut changes = Vec::new();
        for run in &after.runs {
            let Some(old) = old_runs.get(&run.contact) else {
                continue;
            };
            contacts += 1;
            let change = first_change(&acts(before, old), &acts(after, run));
            let change = change.map(|(before, after)| RehearsalChange {
                contact: run.contact.clone(),
                before,
                after,
            });
            match change {
                Some(change) if changes.len() < CHANGES_MAX => changes.push(change),
                Some(_) => changes_left += 1,
                None if old.events_left > 0 || run.events_left > 0 => not_compared += 1,
                None => {}
            }
        }
        Self {
            contacts,
            changes,
            changes_left,
            not_compared,
        }
    }
}

/// The first acts that differ. None: the runs do the same.
fn first_change(
    before: &[RehearsedAct],
    after: &[RehearsedAct],
) -> Option<(Option<RehearsedAct>, Option<RehearsedAct>)> {
    let longest = before.len().max(after.len());
    let mut pairs = (0..longest).map(|place| (before.get(place), after.get(place)));
    let (before, after) = pairs.find(|(before, after)| before != after)?;
    Some((before.cloned(), after.cloned()))
}

/// What a run sends and when, and how it ends.
fn acts(rehearsal: &Rehearsal, run: &RehearsedRun) -> Vec<RehearsedAct> {
    let since_start = |at| time_between(rehearsal.started_at, at);
    let sent = run.timeline.iter().filter_map(|event| {
        let mut outgoing = event.outgoing.clone()?;
        let deadline = match &mut outgoing {
            Outgoing::Request { deadline, .. } => deadline.take(),
            Outgoing::Call { .. }
            | Outgoing::ApprovedInAdvance { .. }
            | Outgoing::Escalation { .. }
            | Outgoing::ChildRun { .. } => None,
        };
        Some(RehearsedAct {
            after: Some(since_start(event.at)),
            outgoing: Some(outgoing),
            deadline: deadline.map(since_start),
            end: None,
        })
    });
    let end = match (&run.code, run.ended_at) {
        (_, None) => run.message.clone(),
        (Some(code), Some(_)) => format!("{} ({code})", run.status),
        (None, Some(_)) => run.status.to_string(),
    };
    let end = RehearsedAct {
        after: run.ended_at.map(since_start),
        outgoing: None,
        deadline: None,
        end: Some(end),
    };
    sent.chain([end]).collect()
}

/// Time since the start of a run, as a rehearsal shows it: `start`, `5d`.
#[must_use]
pub fn time_between(start: DateTime<Utc>, at: DateTime<Utc>) -> String {
    let ms = u64::try_from((at - start).num_milliseconds()).unwrap_or_default();
    if ms == 0 {
        return "start".to_owned();
    }
    duration::exact(ms)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rehearsal(start: u32, days: u32, city: Option<&str>) -> Rehearsal {
        let at = |days: u32| format!("2026-01-{:02}T00:00:00Z", start + days);
        let request = city.map(|to| {
            json!({
                "at": at(days), "type": "run.awaiting_input", "message": "asks",
                "outgoing": {
                    "kind": "request", "request": "input", "to": [to], "question": "Yes?",
                    "deadline": at(days + 1),
                },
            })
        });
        serde_json::from_value(json!({
            "agent": "a", "started_at": at(0), "steps": [], "contacts_left": 0,
            "runs": [{
                "contact": "ann", "status": "completed", "message": "done",
                "ended_at": at(days), "steps_reached": [],
                "timeline": request.into_iter().collect::<Vec<_>>(),
            }],
        }))
        .unwrap()
    }

    /// Words 6: rehearsals of two versions start at different instants.
    #[test]
    fn times_count_from_the_start() {
        let (before, after) = (rehearsal(1, 5, Some("@a")), rehearsal(4, 5, Some("@a")));
        let same = RehearsalChanges::between(&before, &after);
        assert_eq!((same.contacts, same.changes.len()), (1, 0), "{same:?}");
        let mut later = after;
        if let Some(Outgoing::Request { deadline, .. }) = &mut later.runs[0].timeline[0].outgoing {
            *deadline = Some("2026-01-20T00:00:00Z".parse().unwrap());
        }
        let changes = RehearsalChanges::between(&before, &later).changes;
        let deadline = |act: &Option<RehearsedAct>| act.as_ref().unwrap().deadline.clone();
        let deadlines = (deadline(&changes[0].before), deadline(&changes[0].after));
        assert_eq!(deadlines, (Some("6d".to_owned()), Some("16d".to_owned())));
    }

    /// Words 6
    #[test]
    fn the_first_difference_of_a_contact_is_listed() {
        let of = |before: &Rehearsal, after: &Rehearsal| {
            let changes = RehearsalChanges::between(before, after);
            let change = changes.changes.into_iter().next()?;
            let text = |act: RehearsedAct| (act.after, act.end.is_some());
            Some((change.before.map(text), change.after.map(text)))
        };
        let asks = rehearsal(1, 5, Some("@a"));
        let day_5 = || Some("5d".to_owned());
        let (sends, ends) = (Some((day_5(), false)), Some((day_5(), true)));
        assert_eq!(
            of(&asks, &rehearsal(1, 5, Some("@b"))),
            Some((sends.clone(), sends.clone()))
        );
        assert_eq!(of(&asks, &rehearsal(1, 5, None)), Some((sends, ends)));
        let mut cut = asks.clone();
        cut.runs.iter_mut().for_each(|run| run.events_left = 1);
        let changes = RehearsalChanges::between(&asks, &cut);
        assert_eq!((changes.changes.len(), changes.not_compared), (0, 1));
        let other = Rehearsal {
            runs: Vec::new(),
            ..rehearsal(1, 5, None)
        };
        let changes = RehearsalChanges::between(&asks, &other);
        assert_eq!((changes.contacts, changes.changes.len()), (0, 0));
    }
}
