//! The timeline of a rehearsed run.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use holdpoint_contracts::history::{EventType, HistoryItem};
use holdpoint_contracts::rehearsal::{Outgoing, RehearsedEvent};
use holdpoint_contracts::size::json_bytes;
use holdpoint_contracts::steps::StepDispatch;
use holdpoint_ids::UserName;

use super::audience::Audience;
use crate::domain::model::step_row::StepRow;
use crate::domain::text::cut;
use crate::domain::views::run::within_view;

/// Most bytes of JSON of a timeline. Further entries are counted.
const TIMELINE_BYTES_MAX: usize = 128 * 1024;

/// Most bytes of the arguments of one call. Larger ones are shown as their size.
const ARGS_BYTES_MAX: usize = 16 * 1024;

/// Longest message, in characters.
const MESSAGE_CHARS_MAX: usize = 500;

/// What one decision sends for a step.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) step: Option<String>,
    /// The type of the entry, if the history has none for it.
    pub(super) kind: EventType,
    pub(super) outgoing: Outgoing,
}

/// The end of the wait that an item of the history begins.
fn wait_end(item: &HistoryItem) -> Option<DateTime<Utc>> {
    let is_wait = item.kind == EventType::RunWaiting;
    let mut ends = ["resume_at", "deadline"].into_iter();
    let end = ends.find_map(|field| item.data.get(field)?.as_str());
    end.filter(|_| is_wait)?.parse().ok()
}

#[derive(Debug, Default)]
pub(super) struct Recorder {
    events: Vec<RehearsedEvent>,
    /// Entries of the newest decision.
    newest: Vec<RehearsedEvent>,
    bytes: usize,
    left: u64,
    /// Steps with an entry that is not a skip.
    acted: BTreeSet<String>,
    calls: BTreeMap<String, u64>,
    requests: BTreeMap<String, u64>,
    users: BTreeMap<UserName, u64>,
    empty_roles: BTreeSet<String>,
}

/// The entries and the totals. The totals count the entries that are left out, too.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) calls: BTreeMap<String, u64>,
    pub(super) requests: BTreeMap<String, u64>,
    pub(super) users: BTreeMap<UserName, u64>,
    pub(super) empty_roles: BTreeSet<String>,
    pub(super) events: Vec<RehearsedEvent>,
    pub(super) left: u64,
}

impl Recorder {
    pub(super) fn call(dispatch: &StepDispatch, row: Option<&StepRow>) -> Sent {
        let mut left = ARGS_BYTES_MAX;
        let args = row.and_then(StepRow::shown_request);
        let args = args.unwrap_or_else(|| dispatch.args.clone());
        Sent {
            step: Some(dispatch.step.clone()),
            kind: EventType::StepCalled,
            outgoing: Outgoing::Call {
                tool: dispatch.tool.to_string(),
                args: within_view(&mut left, args),
            },
        }
    }

    /// Takes the history of one decision.
    pub(super) fn record(&mut self, items: Vec<HistoryItem>) {
        for item in items {
            if let (Some(step), false) = (&item.step, item.kind == EventType::StepSkipped) {
                self.acted.insert(step.clone());
            }
            self.newest.push(RehearsedEvent {
                at: item.at,
                kind: item.kind,
                until: wait_end(&item),
                step: item.step,
                message: cut(&item.message, MESSAGE_CHARS_MAX),
                outgoing: None,
            });
        }
    }

    /// Adds what the decision sends to its entries, and ends it.
    pub(super) fn attach(&mut self, sent: Vec<Sent>, at: DateTime<Utc>) {
        for Sent {
            step,
            kind,
            outgoing,
        } in sent
        {
            self.count(&outgoing);
            let mut entries = self.newest.iter_mut();
            let entry =
                entries.find(|it| it.kind == kind && it.step == step && it.outgoing.is_none());
            if let Some(entry) = entry {
                entry.outgoing = Some(outgoing);
                continue;
            }
            let message = match &outgoing {
                Outgoing::Call { tool, .. } => format!("Calls {tool}."),
                Outgoing::Request { question, .. } => cut(question, MESSAGE_CHARS_MAX),
                Outgoing::ApprovedInAdvance { by, .. } => {
                    format!("{by} has approved it in advance.")
                }
                Outgoing::Escalation { request, .. } => format!("The {request} escalates."),
                Outgoing::ChildRun { agent } => format!("Starts {agent}."),
            };
            self.acted.extend(step.clone());
            self.newest.push(RehearsedEvent {
                at,
                kind,
                step,
                message,
                until: None,
                outgoing: Some(outgoing),
            });
        }
        for event in self.newest.drain(..) {
            let bytes = json_bytes(&event);
            if self.left > 0 || self.bytes + bytes > TIMELINE_BYTES_MAX {
                self.left += 1;
                continue;
            }
            self.bytes += bytes;
            self.events.push(event);
        }
    }

    /// A call was dispatched, and no worker starts it.
    pub(super) fn withdraw_call(&mut self, dispatch: &StepDispatch, step: Option<&str>) {
        if let Some(count) = self.calls.get_mut(dispatch.tool.as_str()) {
            *count = count.saturating_sub(1);
        }
        // The entry may be left out.
        let mut events = self.events.iter_mut().rev();
        let call = events.find(|event| {
            let is_call = matches!(event.outgoing, Some(Outgoing::Call { .. }));
            is_call && event.at == dispatch.at && event.step.as_deref() == step
        });
        if let Some(event) = call {
            event.outgoing = None;
            "Not called.".clone_into(&mut event.message);
        }
    }

    fn count(&mut self, outgoing: &Outgoing) {
        match outgoing {
            Outgoing::Call { tool, .. } => *self.calls.entry(tool.clone()).or_default() += 1,
            // The audience of a request is counted with it.
            Outgoing::Request { .. }
            | Outgoing::ApprovedInAdvance { .. }
            | Outgoing::Escalation { .. }
            | Outgoing::ChildRun { .. } => {}
        }
    }

    /// A request. Each of its recipients and users gets it once.
    pub(super) fn count_request(&mut self, audience: &Audience) {
        for to in &audience.recipients {
            *self.requests.entry(to.clone()).or_default() += 1;
        }
        for user in &audience.users {
            *self.users.entry(user.clone()).or_default() += 1;
        }
        self.empty_roles
            .extend(audience.empty_roles.iter().cloned());
    }

    pub(super) fn has_acted(&self, step: &str) -> bool {
        self.acted.contains(step)
    }

    pub(super) fn finish(self) -> Recorded {
        let mut calls = self.calls;
        calls.retain(|_, count| *count > 0);
        Recorded {
            calls,
            requests: self.requests,
            users: self.users,
            empty_roles: self.empty_roles,
            events: self.events,
            left: self.left,
        }
    }
}
