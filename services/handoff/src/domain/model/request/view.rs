//! A request as the API shows it.

use chrono::{DateTime, Utc};
use holdpoint_contracts::handoff::{RequestView, Snooze, Votes};
use holdpoint_contracts::hold::HoldSpec;
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::UserName;

use super::{Owner, Phase, Request};

impl Request {
    /// Actions that are possible now.
    fn actions(&self, kind: HoldKind) -> Vec<String> {
        if !self.is_open() {
            let may_ask = self.owner.is_none() && kind != HoldKind::Timer && self.is_unanswered();
            return may_ask
                .then(|| "ask_again".to_owned())
                .into_iter()
                .collect();
        }
        let mut actions = match kind {
            HoldKind::Approval => vec!["approve", "reject"],
            HoldKind::Input => vec!["respond"],
            HoldKind::Handoff => vec!["complete"],
            HoldKind::Timer | HoldKind::Signal | HoldKind::ChildRun => Vec::new(),
        };
        if self
            .spec
            .as_ref()
            .is_some_and(|spec| spec.revises.is_some())
        {
            actions.push("revise");
        }
        if kind != HoldKind::Timer {
            let is_taken = self.progress.taken_over.is_some();
            if kind == HoldKind::Handoff && self.run_owner().is_none() {
                actions.push("take_over");
            }
            if self.progress.accepted.is_none() && !is_taken {
                actions.push("accept");
            }
            actions.extend(["reassign", "delegate", "acknowledge", "snooze"]);
        }
        if self.owner.is_none() {
            actions.push("withdraw");
        }
        actions.into_iter().map(str::to_owned).collect()
    }

    /// Votes so far if more than one is needed.
    fn votes(&self, spec: &HoldSpec) -> Option<Votes> {
        let need = spec.policy.need;
        self.needs_votes().then(|| Votes {
            have: u32::try_from(self.progress.votes.len()).unwrap_or(u32::MAX),
            need,
        })
    }

    /// The opener and the requester.
    fn asked_by(&self, spec: &HoldSpec) -> Vec<String> {
        let opened_by = self.opened_by.iter();
        let others = spec
            .requester
            .iter()
            .filter(|named| self.opened_by.as_ref() != Some(*named));
        opened_by.chain(others).cloned().collect()
    }

    fn snoozes(&self) -> Vec<Snooze> {
        let all = self.progress.snoozed.iter().filter(|_| self.is_open());
        let one = |(by, until): (&UserName, &DateTime<Utc>)| Snooze {
            by: by.to_string(),
            until: *until,
        };
        all.map(one).collect()
    }

    /// `None` for a tombstone of a hold that was never open here.
    #[must_use]
    pub fn view(&self) -> Option<RequestView> {
        let spec = self.spec.as_ref()?;
        let end = self.end();
        Some(RequestView {
            id: self.id,
            kind: spec.kind,
            run: self.owner.map(|Owner::Executor| self.id.run),
            step: spec.step.clone(),
            agent: spec.agent.clone(),
            status: self.status(),
            version: self.version,
            to: self.addressed_to().to_vec(),
            question: spec.question.clone(),
            options: spec.answers(),
            reason: spec.reason.clone(),
            context: spec.context.clone(),
            deadline: self.deadline(),
            remaining_ms: self.frozen_ms(),
            on_timeout: spec.on_timeout,
            actions: self.actions(spec.kind),
            outcome: end.as_ref().map(|end| end.outcome),
            response: end
                .as_ref()
                .map(|end| end.data.clone())
                .filter(|data| !data.is_null()),
            decided_by: end.as_ref().map(|end| end.by.clone()),
            decided_at: end.as_ref().map(|end| end.at),
            effect: self.effect,
            escalated_at: self.escalated_at,
            late: self.late.clone(),
            created_at: self.created_at,
            title: spec.title.clone(),
            assignee: self.progress.assignee.as_ref().map(ToString::to_string),
            priority: self.priority(),
            schema: spec.schema.clone(),
            link: spec.link.clone(),
            task: spec.task.clone(),
            warm_lead: spec.warm_lead,
            votes: self.votes(spec),
            history: self.progress.history.clone(),
            also: self.progress.additional_deciders.clone(),
            default: spec.default.clone(),
            snoozed_until: self.progress.snoozed_until,
            snoozed_by: self.snoozes(),
            unchanged_since: Some(self.visible_version)
                .filter(|since| *since > 0 && *since < self.version),
            asks_again: spec.asks_again,
            steps_left: spec.steps_left,
            callback: spec.callback.clone(),
            timer_unconfirmed: self.timer.is_unconfirmed()
                && !matches!(self.phase, Phase::Frozen { .. }),
            items: spec.items.clone(),
            warnings: None,
            asked_by: self.asked_by(spec),
            redacted: false,
            erased_at: self.erased_at,
        })
    }
}
