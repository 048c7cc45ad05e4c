//! A request during one decision, with its effects.

use chrono::{DateTime, Utc};
use holdpoint_contracts::handoff::{Effect as DecisionEffect, RequestHistoryEntry};
use holdpoint_contracts::hold::{EndedByRung, HandoffEvent, HandoffEventKind, HoldClosed};
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_contracts::run::HoldKind;
use holdpoint_holds::OWNERS;

use super::decision::{Fact, Need};
use super::effect::Effect;
use super::model::limits::{HISTORY_MAX, MENTIONED_MAX, NOTE_CHARS_MAX};
use super::model::request::{BY_SERVICE, Owner, Request};

/// The next state of a request and the effects so far. `finish` (rules/derived_effects.rs) completes it.
pub(crate) struct RequestTransition {
    pub(crate) request: Request,
    /// The instant of the change, which its history entries, events and notification carry.
    pub(crate) at: DateTime<Utc>,
    pub(super) effects: Vec<Effect>,
    /// Facts that later decisions of the same batch find.
    pub(super) facts: Vec<(Need, Fact)>,
    pub(super) notification: Option<Notification>,
    /// Users whom a person names in the text of this change.
    pub(super) mention: Option<Notification>,
}

/// The event that users are notified of.
pub(super) struct Notification {
    pub(super) kind: RequestEventKind,
    pub(super) by: Option<String>,
    pub(super) to: Vec<String>,
}

impl RequestTransition {
    /// Changes an existing request so that people see a new version.
    pub(crate) fn on(request: &Request, at: DateTime<Utc>) -> Self {
        let mut transition = Self::invisible(request, at);
        transition.request.visible_version = transition.request.version;
        transition
    }

    /// Changes what people do not see: a decision on the version before still counts.
    pub(crate) fn invisible(request: &Request, at: DateTime<Utc>) -> Self {
        let mut request = request.clone();
        request.version += 1;
        Self::new(request, at)
    }

    /// Starts with a new request.
    pub(crate) const fn new(request: Request, at: DateTime<Utc>) -> Self {
        Self {
            request,
            at,
            effects: Vec::new(),
            facts: Vec::new(),
            notification: None,
            mention: None,
        }
    }

    /// Adds an entry to the history. Beyond [`HISTORY_MAX`] the oldest entry after the opening is dropped.
    pub(crate) fn add_history(&mut self, action: &str, by: &str, note: Option<String>) {
        let history = &mut self.request.progress.history;
        if history.len() >= HISTORY_MAX {
            history.remove(1);
        }
        history.push(RequestHistoryEntry {
            action: action.to_owned(),
            by: by.to_owned(),
            at: self.at,
            note: note.map(|text| text.chars().take(NOTE_CHARS_MAX).collect()),
        });
    }

    /// Adds an event for the history of the run. Only handoffs of runs have such events.
    pub(crate) fn add_handoff_event(&mut self, kind: HandoffEventKind, by: &str) {
        let is_runs = self.request.owner.is_some();
        if !is_runs || self.request.kind() != Some(HoldKind::Handoff) {
            return;
        }
        let to = match kind {
            HandoffEventKind::Reassigned => self.request.audience(),
            HandoffEventKind::Accepted | HandoffEventKind::TakenOver | HandoffEventKind::Timed => {
                Vec::new()
            }
        };
        self.request.progress.pending_events.add(HandoffEvent {
            rev: self.request.version,
            kind,
            by: by.to_owned(),
            at: self.at,
            to,
            within_ms: None,
        });
    }

    /// Asks the run to set the timeout that a policy states, because the run keeps the deadline.
    pub(crate) fn request_policy_timeout(&mut self) {
        let policies = &self.request.progress.resolved_policies;
        let Some(within_ms) = policies.decide_within_ms.filter(|_| self.request.is_open()) else {
            return;
        };
        self.request.progress.pending_events.add(HandoffEvent {
            rev: self.request.version,
            kind: HandoffEventKind::Timed,
            by: BY_SERVICE.to_owned(),
            at: self.at,
            to: Vec::new(),
            within_ms: Some(within_ms),
        });
    }

    /// Notifies users. A version has at most one event, and the last one counts. A timer notifies nobody,
    /// except that its callback gets the end.
    pub(crate) fn notify(&mut self, kind: RequestEventKind, by: Option<&str>, to: Vec<String>) {
        let is_end = match kind {
            RequestEventKind::Decided | RequestEventKind::Expired | RequestEventKind::Withdrawn => {
                true
            }
            RequestEventKind::Opened
            | RequestEventKind::Assigned
            | RequestEventKind::Escalated
            | RequestEventKind::TakenOver
            | RequestEventKind::Mentioned => false,
        };
        let is_timer = self.request.kind() == Some(HoldKind::Timer);
        let spec = self.request.spec.as_ref();
        let is_called_back = spec.is_some_and(|spec| spec.callback.is_some());
        if is_timer && !(is_end && is_called_back) {
            return;
        }
        let by = by.map(str::to_owned);
        self.notification = Some(Notification { kind, by, to });
    }

    /// Notifies the users whom a person has named in a text, each once for the request. It is an event beside that of
    /// the change.
    pub(crate) fn mention(&mut self, mut to: Vec<String>, by: &str) {
        let mentioned = &mut self.request.progress.mentioned;
        to.retain(|user| !mentioned.contains(user));
        to.truncate(MENTIONED_MAX.saturating_sub(mentioned.len()));
        mentioned.extend_from_slice(&to);
        self.mention = (!to.is_empty()).then(|| Notification {
            kind: RequestEventKind::Mentioned,
            by: Some(by.to_owned()),
            to,
        });
    }

    /// Notifies the audience as well.
    pub(crate) fn notify_audience_too(&mut self) {
        let Some(notification) = &mut self.notification else {
            return;
        };
        let to = &mut notification.to;
        if to.is_empty() {
            to.push(OWNERS.to_owned());
        }
        for recipient in self.request.audience() {
            if !to.contains(&recipient) {
                to.push(recipient);
            }
        }
    }

    /// Sends the end to the executor until it is acknowledged. A standalone hold has no such service, so its
    /// end is applied at once.
    pub(crate) fn close(&mut self) {
        match self.request.owner {
            Some(Owner::Executor) => {
                self.request.effect = Some(DecisionEffect::Pending);
                self.send_close();
            }
            None => self.request.effect = Some(DecisionEffect::Applied),
        }
    }

    /// Sends the take-over to the executor, although the request has not ended.
    pub(crate) fn send_take_over(&mut self) {
        if self.request.owner.is_some() {
            self.request.effect = Some(DecisionEffect::Pending);
            self.send_close();
        }
    }

    /// Sends the end to the executor with a new `rev`. A newer desired state needs this even while an earlier
    /// close is not acknowledged: the executor replied to that close before it sent the desired state.
    pub(crate) fn send_close(&mut self) {
        let Some(end) = self.request.end().or_else(|| self.request.take_over()) else {
            return;
        };
        let rev = self.request.version;
        let ended = self.request.progress.ladder.ended.as_ref();
        let by_rung = ended.map(|ended| EndedByRung {
            after_ms: ended.after_ms,
            deadline: ended.deadline,
        });
        self.request.closed_rev = Some(rev);
        let closed = HoldClosed {
            id: self.request.id,
            rev,
            outcome: end.outcome,
            data: end.data,
            by: end.by,
            at: end.at,
            handoff_events: self.request.progress.pending_events.handoff_events.clone(),
            by_rung,
            approval: self.request.approval_record(),
        };
        let workspace = self.request.workspace.clone();
        self.effects.push(Effect::Close(workspace, closed));
    }
}
