//! One decision on one request, in the making.

use chrono::{DateTime, Utc};
use holdpoint_contracts::handoff::{Effect as DecisionEffect, RequestView};
use holdpoint_contracts::hold::{
    EndedByRung, HandoffEvent, HandoffEventKind, HandoffUpdate, HoldClosed,
};
use holdpoint_contracts::notification::{RequestEvent, RequestEventKind};
use holdpoint_contracts::run::HoldKind;
use serde_json::Value;

use super::limits::FACT_BYTES_MAX;
use super::request::{BY_SERVICE, Owner, Request, Timer};
use super::{Aggregate, Change, Effect, Fact, Need, Outcome, Reply};

/// The next state of a request, and what follows.
pub(crate) struct RequestTransition {
    pub(crate) request: Request,
    effects: Vec<Effect>,
    facts: Vec<(Need, Fact)>,
    told: Option<Told>,
}

/// What people are to be told of the change.
struct Told {
    kind: RequestEventKind,
    by: Option<String>,
    at: DateTime<Utc>,
    to: Vec<String>,
}

impl RequestTransition {
    /// Changes a request that is there.
    pub(crate) fn on(request: &Request) -> Self {
        let mut transition = Self::beside(request);
        transition.request.seen_version = transition.request.version;
        transition
    }

    /// Changes what people do not look at: what they have seen of it still is so.
    pub(crate) fn beside(request: &Request) -> Self {
        let mut request = request.clone();
        request.version += 1;
        Self::of(request)
    }

    /// Makes a request; its version is 1.
    pub(crate) const fn of(request: Request) -> Self {
        Self {
            request,
            effects: Vec::new(),
            facts: Vec::new(),
            told: None,
        }
    }

    /// Writes down what was done.
    pub(crate) fn note(&mut self, action: &str, by: &str, at: DateTime<Utc>, note: Option<String>) {
        self.request.progress.note(action, by, at, note);
    }

    /// Has the history of its run told what was done with a handoff; others are not the run's concern.
    pub(crate) fn handoff_event(&mut self, kind: HandoffEventKind, by: &str, at: DateTime<Utc>) {
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
        let rev = self.request.version;
        let by = by.to_owned();
        let handoff_event = HandoffEvent {
            rev,
            kind,
            by,
            at,
            to,
            within_ms: None,
        };
        self.request.progress.pending_events.add(handoff_event);
    }

    /// Has its run give it the time that a policy says, where it says none itself: the run keeps the
    /// clock.
    pub(crate) fn timed(&mut self, at: DateTime<Utc>) {
        let settled = &self.request.progress.settled;
        let Some(within_ms) = settled.decide_within_ms.filter(|_| self.request.is_open()) else {
            return;
        };
        let rev = self.request.version;
        self.request.progress.pending_events.add(HandoffEvent {
            rev,
            kind: HandoffEventKind::Timed,
            by: BY_SERVICE.to_owned(),
            at,
            to: Vec::new(),
            within_ms: Some(within_ms),
        });
    }

    /// Has people told, by the notification service. At most one fact a version: the last counts. A
    /// timer concerns nobody; only its callback has to hear how it ended.
    pub(crate) fn tell_people(
        &mut self,
        kind: RequestEventKind,
        by: Option<&str>,
        at: DateTime<Utc>,
        to: Vec<String>,
    ) {
        let is_end = match kind {
            RequestEventKind::Decided | RequestEventKind::Expired | RequestEventKind::Withdrawn => {
                true
            }
            RequestEventKind::Opened
            | RequestEventKind::Assigned
            | RequestEventKind::Escalated
            | RequestEventKind::TakenOver => false,
        };
        let is_timer = self.request.kind() == Some(HoldKind::Timer);
        let spec = self.request.spec.as_ref();
        let is_called_back = spec.is_some_and(|spec| spec.callback.is_some());
        if is_timer && !(is_end && is_called_back) {
            return;
        }
        let by = by.map(str::to_owned);
        self.told = Some(Told { kind, by, at, to });
    }

    /// Those who have it are told, too.
    pub(crate) fn tell_audience(&mut self) {
        let Some(told) = &mut self.told else {
            return;
        };
        if told.to.is_empty() {
            told.to.push("@role.owner".to_owned());
        }
        for whom in self.request.audience() {
            if !told.to.contains(&whom) {
                told.to.push(whom);
            }
        }
    }

    /// What later decisions of the same batch may find.
    pub(crate) fn fact(&mut self, fact: Option<(Need, Fact)>) {
        self.facts.extend(fact);
    }

    /// Says how it ended: to the executor, by a desired state that is sent until it is confirmed; where the
    /// hold stands alone there is nobody to wait for.
    pub(crate) fn close(&mut self) {
        match self.request.owner {
            Some(Owner::Executor) => {
                self.request.effect = Some(DecisionEffect::Pending);
                self.tell();
            }
            None => self.request.effect = Some(DecisionEffect::Applied),
        }
    }

    /// A person owns the run now: the executor is told, though it has not ended.
    pub(crate) fn taken_over(&mut self) {
        if self.request.owner.is_some() {
            self.request.effect = Some(DecisionEffect::Pending);
            self.tell();
        }
    }

    /// Tells the executor how it ended, with a new number. A newer desired state needs this also while an earlier close
    /// is not confirmed: the executor's answer to that close came before the desired state, and confirms only that.
    pub(crate) fn tell(&mut self) {
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
        self.effects.push(Effect::Close {
            workspace: self.request.workspace.clone(),
            closed: HoldClosed {
                id: self.request.id,
                rev,
                outcome: end.outcome,
                data: end.data,
                by: end.by,
                at: end.at,
                handoff_events: self.request.progress.pending_events.handoff_events.clone(),
                by_rung,
            },
        });
    }

    /// Tells the run what was done with its handoff. While a close is on its way it brings all that was
    /// before it, and what came after waits for its confirmation: a history is in order.
    fn tell_deeds(&mut self) {
        let is_closing = self.request.effect == Some(DecisionEffect::Pending);
        let has_news = self.request.progress.pending_events.has_news();
        if is_closing || !has_news || !self.request.is_open() {
            return;
        }
        let rev = self.request.version;
        let pending_events = &mut self.request.progress.pending_events;
        pending_events.sent = rev;
        self.effects.push(Effect::RequestHistoryEntry {
            workspace: self.request.workspace.clone(),
            handled: HandoffUpdate {
                id: self.request.id,
                rev,
                handoff_events: pending_events.handoff_events.clone(),
            },
        });
    }

    /// The timer has fired: there is none any more.
    pub(crate) const fn timer_fired(&mut self) {
        self.request.timer.due = None;
        self.request.timer.is_confirmed = true;
    }

    /// Done: sets the timer that the new state asks for, if it is another one.
    pub(crate) fn end(mut self, answer: impl FnOnce(&Request) -> Reply) -> Outcome {
        let due = self.request.wanted_due();
        if due != self.request.timer.due {
            let rev = self.request.version;
            self.request.timer = Timer {
                rev,
                due,
                is_confirmed: false,
            };
            self.effects.push(Effect::Timer {
                workspace: self.request.workspace.clone(),
                id: self.request.id,
                rev,
                due,
            });
        }
        self.tell_deeds();
        self.write_fact();
        self.effects.push(Effect::Changed {
            workspace: self.request.workspace.clone(),
            id: self.request.id,
            version: self.request.version,
        });
        let answer = answer(&self.request);
        Outcome::Decided(Box::new(Change {
            state: Aggregate::Request(Box::new(self.request)),
            effects: self.effects,
            facts: self.facts,
            reply: answer,
        }))
    }

    fn write_fact(&mut self) {
        let (Some(told), Some(view)) = (self.told.take(), self.request.view()) else {
            return;
        };
        let Told { kind, by, at, to } = told;
        self.effects.push(Effect::Fact {
            workspace: self.request.workspace.clone(),
            fact: RequestEvent {
                id: self.request.id,
                rev: self.request.version,
                kind,
                by,
                at,
                to,
                request: Box::new(bounded(view)),
            },
        });
    }
}

/// A view that fits a message: late answers concern nobody who is told, and what is very large is left
/// for those who look at the request itself.
fn bounded(mut view: RequestView) -> RequestView {
    view.late = Vec::new();
    let is_large = |view: &RequestView| {
        serde_json::to_string(view).map_or(usize::MAX, |text| text.len()) > FACT_BYTES_MAX
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
