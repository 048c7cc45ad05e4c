//! Requests to people in a rehearsal, and what the script says that they do.

use holdpoint_contracts::form::{Form, answer_errors};
use holdpoint_contracts::handoff::{Completion, Disposition, OutcomeType};
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{DesiredHold, HoldOutcome, HoldSpec, HoldState};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::rehearsal::Outgoing;
use holdpoint_contracts::run::HoldKind;
use holdpoint_holds::{ASSIGNEE_INACTIVE, inactive_message};
use holdpoint_ids::HoldId;
use serde_json::{Value, json};

use super::in_memory_run::{ACTOR, InMemoryRun};
use super::open_request::OpenRequest;
use super::recorder::Sent;
use super::sample::sample;
use super::script::{PersonAct, PersonRule};
use crate::domain::input::RunInput;
use crate::domain::model::run::HoldClosure;

/// Who ends a request to an inactive user.
const BY_SERVICE: &str = "service:handoff";

impl InMemoryRun<'_> {
    /// Opens, changes or withdraws a request. Returns what people get.
    pub(super) fn keep_hold(&mut self, desired: DesiredHold) -> Option<Sent> {
        let open = self.requests.get_mut(&desired.id);
        let (spec, deadline) = match (desired.state, open) {
            (HoldState::Open { spec, deadline }, None) => (spec, deadline),
            (HoldState::Open { deadline, .. }, Some(request)) => {
                request.deadline = deadline;
                // A request that was frozen is answered after its resume.
                if request.answer_at.is_none() {
                    request.plan_answer(self.now);
                }
                return None;
            }
            (HoldState::Frozen { .. }, request) => {
                if let Some(request) = request {
                    (request.answer_at, request.deadline) = (None, None);
                }
                return None;
            }
            (HoldState::Withdrawn { .. } | HoldState::Erased { .. }, _) => {
                self.requests.remove(&desired.id);
                return None;
            }
        };
        let step = spec.step.as_deref().unwrap_or_default();
        let script = &self.setup.script;
        let rule = script.person(step, spec.kind, self.contact_id());
        let sent = Sent {
            step: spec.step.clone(),
            kind: opened_event(spec.kind),
            outgoing: Outgoing::Request {
                request: spec.kind,
                to: spec.to.clone(),
                question: spec.question.clone(),
                deadline,
            },
        };
        let audience = self.setup.users.audience(&spec.to);
        let mut request = OpenRequest {
            answer_at: None,
            deadline,
            rule,
            inactive: audience.inactive.clone(),
            spec,
        };
        request.plan_answer(self.now);
        let is_sent = request.inactive.is_none();
        if is_sent {
            self.recorder.count_request(&request.spec.to, audience);
        }
        self.requests.insert(desired.id, request);
        is_sent.then_some(sent)
    }

    /// Closes a request as its rule says, or because its deadline has passed.
    ///
    /// # Errors
    /// The request does not take the answer of the script.
    pub(super) fn close_request(&mut self, hold: HoldId) -> Result<(), String> {
        let Some(request) = self.requests.remove(&hold) else {
            return Ok(());
        };
        let is_answered = request.answer_at.is_some_and(|at| at <= self.now);
        let mut recipients = request.spec.to.iter();
        let user = recipients.find_map(|to| to.strip_prefix("@user."));
        let (outcome, data, by) = match &request.inactive {
            Some(name) => {
                let message = inactive_message(request.spec.kind, name);
                let data = json!({ "code": ASSIGNEE_INACTIVE, "message": message });
                (HoldOutcome::Cancelled, data, BY_SERVICE)
            }
            None if is_answered => {
                let (outcome, data) = closing_of(&request.spec, &request.rule)?;
                (outcome, data, user.unwrap_or(ACTOR))
            }
            None => (HoldOutcome::Timeout, Value::Null, "timeout"),
        };
        let closing = HoldClosure {
            outcome,
            data,
            by: by.to_owned(),
            at: self.now,
            handoff_events: Vec::new(),
            by_rung: None,
        };
        let step = request.spec.step.as_deref().unwrap_or("the run");
        let closed = self.give(RunInput::HoldClosed { hold, closing });
        let refused = |refused: Problem| {
            let detail = refused.detail;
            format!("the answer to {step} is refused: {detail}")
        };
        closed.map(drop).map_err(refused)
    }
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
