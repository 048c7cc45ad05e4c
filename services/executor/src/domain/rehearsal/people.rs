//! Requests to people in a rehearsal, and what the script says that they do.

use chrono::{DateTime, Utc};
use holdpoint_contracts::form::{Form, answer_errors};
use holdpoint_contracts::handoff::{Completion, Disposition, OutcomeType};
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{
    DesiredHold, HandoffEvent, HandoffEventKind, HoldOutcome, HoldSpec, HoldState,
};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::rehearsal::Outgoing;
use holdpoint_contracts::run::HoldKind;
use holdpoint_contracts::size::json_bytes;
use holdpoint_holds::{ASSIGNEE_INACTIVE, POLICY_UNAVAILABLE, inactive_message};
use holdpoint_ids::HoldId;
use serde_json::{Value, json};

use super::audience::Audience;
use super::in_memory_run::{ACTOR, InMemoryRun};
use super::open_request::{OpenRequest, RequestDue};
use super::policies::ResolvedRequest;
use super::recorder::Sent;
use super::sample::sample;
use super::script::{PersonAct, PersonRule};
use super::standing_approvals::ApprovedInAdvance;
use crate::domain::input::RunInput;
use crate::domain::model::run::HoldClosure;
use crate::domain::model::time::after;

/// Who ends a request that cannot be sent.
const BY_SERVICE: &str = "service:handoff";

/// Who ends a request at its deadline.
pub(super) const BY_TIME: &str = "service:scheduler";

impl InMemoryRun<'_> {
    /// Opens, changes or withdraws a request. Returns what people get.
    pub(super) fn keep_hold(&mut self, desired: DesiredHold) -> Option<Sent> {
        let open = self.requests.get_mut(&desired.id);
        match (desired.state, open) {
            (HoldState::Open { spec, deadline }, None) => {
                return self.open_request(desired.id, spec, deadline);
            }
            (HoldState::Open { deadline, .. }, Some(request)) => {
                request.deadline = deadline;
                request.ladder.resume(self.now);
                // A request that was frozen is answered after its resume.
                if request.answer_at.is_none() {
                    request.plan_answer(self.now);
                }
            }
            (HoldState::Frozen { .. }, request) => {
                if let Some(request) = request {
                    (request.answer_at, request.deadline) = (None, None);
                    request.ladder.freeze(self.now);
                }
            }
            (HoldState::Withdrawn { .. } | HoldState::Erased { .. }, _) => {
                self.requests.remove(&desired.id);
            }
        }
        None
    }

    /// Asks people, or decides the request without them.
    fn open_request(
        &mut self,
        hold: HoldId,
        spec: Box<HoldSpec>,
        deadline: Option<DateTime<Utc>>,
    ) -> Option<Sent> {
        let setup = self.setup;
        let ResolvedRequest {
            mut spec,
            decide_within_ms,
            ladder,
            unavailable,
        } = setup.policies.resolve(spec, self.now);
        setup.users.complete_quorum(&mut spec);
        let by_policy = decide_within_ms.map(|ms| after(self.now, ms));
        let step = self.placed(hold.run, spec.step.as_deref());
        let step = step.unwrap_or_default();
        let rule = setup.script.person(&step, spec.kind, self.contact_id());
        let audience = setup.users.audience(&spec.to);
        let refused = refusal_of(unavailable, &audience, spec.kind);
        let in_advance = match refused {
            Some(_) => None,
            None => (setup.standing_approvals).cast(&spec, &setup.users, &mut self.uses, self.now),
        };
        let is_sent = refused.is_none() && in_advance.is_none();
        if is_sent {
            self.recorder.count_request(&audience);
        }
        let asked = || Outgoing::Request {
            request: spec.kind,
            to: spec.to.clone(),
            question: spec.question.clone(),
            // The run gets the time of the policy right after the opening.
            deadline: deadline.map(|deadline| by_policy.unwrap_or(deadline)),
        };
        let decided = in_advance.as_ref().map(ApprovedInAdvance::outgoing);
        let sent = refused.is_none().then(|| Sent {
            step: spec.step.clone(),
            kind: opened_event(spec.kind),
            outgoing: decided.unwrap_or_else(asked),
        });
        let mut request = OpenRequest {
            answer_at: None,
            deadline,
            rule,
            asked: audience,
            refused,
            in_advance,
            ladder,
            policy_time_ms: decide_within_ms.filter(|_| is_sent),
            escalated_at: None,
            opened_at: self.now,
            events: 0,
            spec,
        };
        request.plan_answer(self.now);
        self.count_memory(json_bytes(&request.spec));
        self.requests.insert(hold, request);
        sent
    }

    /// Does what is due for a request.
    ///
    /// # Errors
    /// The request does not take the answer of the script.
    pub(super) fn act_on_request(&mut self, hold: HoldId) -> Result<(), String> {
        let Some(request) = self.requests.get(&hold) else {
            return Ok(());
        };
        match request.due().map(|(_, due)| due) {
            Some(RequestDue::PolicyTime) => {
                self.report_handoff(hold, HandoffEventKind::Timed, Vec::new());
                Ok(())
            }
            Some(RequestDue::Deadline) if !request.ends_at_deadline() => {
                self.pass_deadline(hold);
                Ok(())
            }
            Some(RequestDue::Answer | RequestDue::Deadline) => self.close_request(hold),
            Some(RequestDue::Rung) => self.fire_rung(hold),
            None => Ok(()),
        }
    }

    /// Reports to the run that a policy states the time of a request, or that it was reassigned.
    pub(super) fn report_handoff(&mut self, hold: HoldId, kind: HandoffEventKind, to: Vec<String>) {
        let Some(request) = self.requests.get_mut(&hold) else {
            return;
        };
        request.events += 1;
        let handoff_event = HandoffEvent {
            rev: request.events,
            kind,
            by: BY_TIME.to_owned(),
            at: self.now,
            to,
            within_ms: request.policy_time_ms.take(),
        };
        let update = RunInput::HandoffUpdate {
            hold,
            handoff_events: vec![handoff_event],
        };
        // A run that has ended ignores it.
        drop(self.give(hold.run, update));
    }

    /// Closes a request as its rule says, or because its deadline has passed.
    fn close_request(&mut self, hold: HoldId) -> Result<(), String> {
        let Some(request) = self.requests.remove(&hold) else {
            return Ok(());
        };
        let is_answered = request.answer_at.is_some_and(|at| at <= self.now);
        let mut recipients = request.spec.to.iter();
        let user = recipients.find_map(|to| to.strip_prefix("@user."));
        let (outcome, data, by) = match (request.refused, &request.in_advance) {
            (Some(data), _) => (HoldOutcome::Cancelled, data, BY_SERVICE),
            (None, Some(approval)) => {
                let data = json!(approval.note());
                (HoldOutcome::Approved, data, approval.by.as_str())
            }
            (None, None) if is_answered => {
                let (outcome, data) = closing_of(&request.spec, &request.rule)?;
                (outcome, data, user.unwrap_or(ACTOR))
            }
            (None, None) => (HoldOutcome::Timeout, Value::Null, BY_TIME),
        };
        let closing = HoldClosure {
            outcome,
            data,
            by: by.to_owned(),
            at: self.now,
            handoff_events: Vec::new(),
            by_rung: None,
            approval: None,
        };
        self.close(hold, &request.spec, closing)
    }

    pub(super) fn close(
        &mut self,
        hold: HoldId,
        spec: &HoldSpec,
        closing: HoldClosure,
    ) -> Result<(), String> {
        let step = spec.step.as_deref().unwrap_or("the run");
        let closed = self.give(hold.run, RunInput::HoldClosed { hold, closing });
        let refused = |refused: Problem| {
            let detail = refused.detail;
            format!("the answer to {step} is refused: {detail}")
        };
        closed.map(drop).map_err(refused)
    }
}

/// Why a request ends at once: its policies cannot be applied, or a recipient is inactive.
fn refusal_of(unavailable: Option<String>, audience: &Audience, kind: HoldKind) -> Option<Value> {
    if let Some(message) = unavailable {
        return Some(json!({ "code": POLICY_UNAVAILABLE, "message": message }));
    }
    let name = audience.inactive.as_ref()?;
    let message = inactive_message(kind, name);
    Some(json!({ "code": ASSIGNEE_INACTIVE, "message": message }))
}

const fn opened_event(kind: HoldKind) -> EventType {
    match kind {
        HoldKind::Approval => EventType::RunAwaitingApproval,
        HoldKind::Handoff => EventType::HandoffOffered,
        HoldKind::Input | HoldKind::Timer | HoldKind::Signal | HoldKind::ChildRun => {
            EventType::RunAwaitingInput
        }
    }
}

fn closing_of(spec: &HoldSpec, rule: &PersonRule) -> Result<(HoldOutcome, Value), String> {
    let step = spec.step.as_deref().unwrap_or("the run");
    let usual = match spec.kind {
        HoldKind::Approval => PersonAct::Approve,
        HoldKind::Handoff => PersonAct::Complete,
        HoldKind::Input | HoldKind::Timer | HoldKind::Signal | HoldKind::ChildRun => {
            PersonAct::Answer
        }
    };
    let act = rule.act.unwrap_or(usual);
    let allowed = match spec.kind {
        HoldKind::Approval => "`approve`, `reject` or `nothing`",
        HoldKind::Handoff => "`complete`, `finish` or `nothing`",
        HoldKind::Input | HoldKind::Timer | HoldKind::Signal | HoldKind::ChildRun => {
            "`answer` or `nothing`"
        }
    };
    let completed = |disposition| {
        let done = Completion {
            notes: rule.comment.clone(),
            outcome_type: OutcomeType::Resolved,
            disposition,
        };
        Ok((HoldOutcome::Completed, json!(done)))
    };
    match (spec.kind, act) {
        (HoldKind::Approval, PersonAct::Approve) => {
            Ok((HoldOutcome::Approved, Value::from(rule.comment.as_str())))
        }
        (HoldKind::Approval, PersonAct::Reject) => {
            Ok((HoldOutcome::Rejected, Value::from(rule.comment.as_str())))
        }
        (HoldKind::Handoff, PersonAct::Complete) => completed(Disposition::ReturnToAgent),
        (HoldKind::Handoff, PersonAct::Finish) => completed(Disposition::Finish),
        (HoldKind::Input, PersonAct::Answer) => {
            Ok((HoldOutcome::Answered, answer_of(step, spec, rule)?))
        }
        _ => Err(format!("`do` of the request of {step} is {allowed}")),
    }
}

/// The answer of the rule, or one that the question takes.
fn answer_of(step: &str, spec: &HoldSpec, rule: &PersonRule) -> Result<Value, String> {
    let options = spec.answers();
    let form = spec.schema.as_ref().map(Form::parse);
    let form = form.and_then(Result::ok);
    let usual = || {
        let option = options.first().map(|option| json!(option));
        let filled = || spec.schema.as_ref().map_or_else(|| json!("Yes"), sample);
        spec.default.clone().or(option).unwrap_or_else(filled)
    };
    let answer = rule.answer.clone().unwrap_or_else(usual);
    let errors = answer_errors(&answer, &options, form.as_ref());
    let Some(error) = errors.first() else {
        return Ok(answer);
    };
    let place = error.pointer.as_deref().unwrap_or_default();
    let colon = if place.is_empty() { "" } else { ": " };
    let hint = match rule.answer {
        Some(_) => "",
        None => "; give an `answer` in `people`",
    };
    let error = &error.message;
    Err(format!("the answer to {step}: {place}{colon}{error}{hint}"))
}
