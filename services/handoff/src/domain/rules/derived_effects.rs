//! Effects that follow from the new state of a request, whichever command changed it.

use holdpoint_contracts::handoff::{Effect as DecisionEffect, RequestView};
use holdpoint_contracts::hold::HandoffUpdate;
use holdpoint_contracts::notification::RequestEvent;
use holdpoint_contracts::scheduler::SetTimer;
use serde_json::Value;

use super::escalation;
use crate::domain::decision::{Change, Outcome};
use crate::domain::effect::{Effect, Reply};
use crate::domain::model::aggregate::Aggregate;
use crate::domain::model::limits::EVENT_BYTES_MAX;
use crate::domain::model::request::{Request, Timer};
use crate::domain::transition::{Notification, RequestTransition};

impl RequestTransition {
    /// Completes the decision: adds the derived effects with a nudge, and builds the reply from the new state.
    pub(crate) fn finish(mut self, reply: impl FnOnce(&Request) -> Reply) -> Outcome {
        self.derive_effects();
        self.effects.push(Effect::Changed {
            workspace: self.request.workspace.clone(),
            id: self.request.id,
            version: self.request.version,
        });
        self.complete(reply)
    }

    /// The same for a change that no reader waits for.
    pub(crate) fn finish_without_nudge(mut self, reply: impl FnOnce(&Request) -> Reply) -> Outcome {
        self.derive_effects();
        self.complete(reply)
    }

    fn derive_effects(&mut self) {
        self.set_timer();
        self.send_handoff_events();
        let notification = self.notification.take();
        self.send_request_event(notification);
        self.send_mention();
    }

    fn complete(self, reply: impl FnOnce(&Request) -> Reply) -> Outcome {
        let reply = reply(&self.request);
        Outcome::Decided(Box::new(Change {
            state: Aggregate::Request(Box::new(self.request)),
            effects: self.effects,
            facts: self.facts,
            reply,
        }))
    }

    fn set_timer(&mut self) {
        let due = escalation::timer_due(&self.request);
        if due == self.request.timer.due {
            return;
        }
        let rev = self.request.version;
        self.request.timer = Timer {
            rev,
            due,
            is_acknowledged: false,
        };
        let id = self.request.id.to_string();
        let timer = SetTimer { id, rev, due };
        let workspace = self.request.workspace.clone();
        self.effects.push(Effect::Timer(workspace, timer));
    }

    /// While a close is on its way it carries all earlier events, and later events wait for its
    /// acknowledgement: the history of the run must stay in order.
    fn send_handoff_events(&mut self) {
        let is_closing = self.request.effect == Some(DecisionEffect::Pending);
        let rev = self.request.version;
        let is_open = self.request.is_open();
        let pending = &mut self.request.progress.pending_events;
        if is_closing || !is_open || !pending.has_unsent() {
            return;
        }
        pending.sent = rev;
        let update = HandoffUpdate {
            id: self.request.id,
            rev,
            handoff_events: pending.handoff_events.clone(),
        };
        let workspace = self.request.workspace.clone();
        self.effects.push(Effect::HandoffUpdate(workspace, update));
    }

    /// A version has one event, so a mention takes the next version. People see no other request by it.
    fn send_mention(&mut self) {
        let mention = self.mention.take();
        if mention.is_some() {
            self.request.version += 1;
            self.send_request_event(mention);
        }
    }

    fn send_request_event(&mut self, notification: Option<Notification>) {
        let (Some(notification), Some(view)) = (notification, self.request.view()) else {
            return;
        };
        let Notification { kind, by, to } = notification;
        let event = RequestEvent {
            id: self.request.id,
            rev: self.request.version,
            kind,
            by,
            at: self.at,
            to,
            request: Box::new(fit_into_message(view)),
        };
        let workspace = self.request.workspace.clone();
        self.effects.push(Effect::RequestEvent(workspace, event));
    }
}

/// Drops late answers, which no notification shows, and the largest fields of a view that is too large
/// for a message.
fn fit_into_message(mut view: RequestView) -> RequestView {
    view.late = Vec::new();
    let is_large = |view: &RequestView| {
        serde_json::to_string(view).map_or(usize::MAX, |text| text.len()) > EVENT_BYTES_MAX
    };
    if is_large(&view) {
        view.context = Value::Null;
    }
    if is_large(&view) {
        (view.options, view.schema) = (Vec::new(), None);
    }
    if is_large(&view) {
        view.response = None;
    }
    view
}
