//! What the rungs of a request do in a rehearsal.

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{EndedByRung, HandoffEventKind, HoldOutcome, Rung, RungAct};
use holdpoint_contracts::rehearsal::Outgoing;
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::HoldId;
use serde_json::Value;

use super::in_memory_run::InMemoryRun;
use super::people::BY_TIME;
use super::recorder::Sent;
use crate::domain::model::run::HoldClosure;

impl InMemoryRun<'_> {
    pub(super) fn fire_rung(&mut self, hold: HoldId) -> Result<(), String> {
        let request = self.requests.get_mut(&hold);
        let Some(rung) = request.and_then(|request| request.ladder.pop()) else {
            return Ok(());
        };
        match rung.act {
            // The run applies `on_timeout`, also where the rung would answer with the default.
            RungAct::AnswerDefault | RungAct::Fail => self.end_by_rung(hold, rung.after_ms),
            RungAct::Notify | RungAct::Raise | RungAct::Reassign | RungAct::Broaden => {
                self.escalate(hold, &rung);
                Ok(())
            }
        }
    }

    /// The deadline of a request passes that stays open: its next rung fires, or the owners are notified.
    pub(super) fn pass_deadline(&mut self, hold: HoldId) {
        let Some(request) = self.requests.get_mut(&hold) else {
            return;
        };
        request.escalated_at = Some(self.now);
        let owners = || Rung {
            after_ms: 0,
            act: RungAct::Notify,
            to: Vec::new(),
        };
        let rung = request.ladder.pop_at_deadline().unwrap_or_else(owners);
        self.escalate(hold, &rung);
    }

    fn end_by_rung(&mut self, hold: HoldId, after_ms: u64) -> Result<(), String> {
        let Some(request) = self.requests.remove(&hold) else {
            return Ok(());
        };
        let closing = HoldClosure {
            outcome: HoldOutcome::Timeout,
            data: Value::Null,
            by: BY_TIME.to_owned(),
            at: self.now,
            handoff_events: Vec::new(),
            by_rung: Some(EndedByRung {
                after_ms,
                deadline: request.deadline,
            }),
            approval: None,
        };
        self.close(hold, &request.spec, closing)
    }

    /// Notifies more users of a request. One who has it already is reminded, and it counts once for them.
    fn escalate(&mut self, hold: HoldId, rung: &Rung) {
        let users = &self.setup.users;
        let to = users.active_recipients(&rung.to);
        let audience = users.audience(&to);
        let Some(request) = self.requests.get_mut(&hold) else {
            return;
        };
        let more = audience.without(&request.asked);
        request.asked.extend(&more);
        match rung.act {
            RungAct::Reassign => request.spec.to.clone_from(&to),
            RungAct::Broaden => request.spec.to.extend(to.iter().cloned()),
            RungAct::Notify | RungAct::Raise | RungAct::AnswerDefault | RungAct::Fail => {}
        }
        let kind = request.spec.kind;
        let step = request.spec.step.clone();
        let sent = Sent {
            step: self.placed(hold.run, step.as_deref()),
            kind: EventType::RunWaiting,
            outgoing: Outgoing::Escalation {
                request: kind,
                act: rung.act,
                to: to.clone(),
            },
        };
        self.recorder.count_request(&more);
        self.recorder.attach(vec![sent], self.now);
        if rung.act == RungAct::Reassign && kind == HoldKind::Handoff {
            self.report_handoff(hold, HandoffEventKind::Reassigned, to);
        }
    }
}
