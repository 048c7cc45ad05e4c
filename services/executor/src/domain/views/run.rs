//! A run as the API shows it: derived from its state, never stored.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use chrono::{DateTime, Utc};
use holdpoint_contracts::duration::describe;
use holdpoint_contracts::run::{
    ApprovalView, ChangedRun, Failure, HoldKind, Question, RunView, StartedRun, StepItems,
    StepView, WaitingOn,
};
use holdpoint_contracts::size::json_bytes;
use serde_json::{Value, json};

use crate::domain::model::plan::{Plan, PlannedStep};
use crate::domain::model::run::fan_out::child_id;
use crate::domain::model::run::{AtWorker, FanOut, Phase, Run, Step, StepApproval, Timer};
use crate::domain::model::step_row::StepRow;
use crate::domain::model::time::millis_between;
use crate::domain::views::hold_messages::{
    accepted_message, hold_message, hold_outcome_message, time_left, timer_message,
    timer_outcome_message,
};
use crate::domain::views::stored_steps::StoredSteps;

/// Name of the node that is the executor itself (S2-R7).
pub const INLINE_NODE: &str = "executor-inline";

/// Most bytes of requests and responses in the view of one run.
const VIEW_BYTES_MAX: usize = 512 * 1024;

/// Most bytes of the input in the view of one run.
const INPUT_BYTES_MAX: usize = 64 * 1024;

/// Most children of one step that the view of a run shows. Those in progress come first.
pub const STEP_CHILDREN_SHOWN_MAX: usize = 100;

/// Most children of all steps that the view of a run shows.
pub const CHILDREN_SHOWN_MAX: usize = 500;

/// The input of a run as its view shows it.
#[must_use]
pub fn shown_input(mut input: Value) -> Value {
    keep_within(&mut { INPUT_BYTES_MAX }, &mut input);
    input
}

/// Most bytes of the original arguments of edited steps in the view of one run.
pub const ORIGINAL_ARGS_BYTES_MAX: usize = 64 * 1024;

/// A value, or its size if more bytes than are `left`.
#[must_use]
pub fn within_view(left: &mut usize, mut value: Value) -> Value {
    keep_within(left, &mut value);
    value
}

/// Replaces a value that has more bytes than are left by their number.
fn keep_within(left: &mut usize, value: &mut Value) {
    let bytes = serde_json::to_string(value).map_or(0, |text| text.len());
    match left.checked_sub(bytes) {
        Some(rest) => *left = rest,
        None => *value = json!({ "omitted": true, "bytes": bytes }),
    }
}

/// Leaves out what does not fit the view any more, and says how much that was.
fn within(left: &mut usize, mut row: StepRow) -> StepRow {
    row.request = row.shown_request();
    let mut keep = |value: &mut Value| keep_within(left, value);
    if let Some(request) = &mut row.request {
        keep(request);
    }
    if let Some(response) = &mut row.response {
        keep(&mut response.data);
    }
    match left.checked_sub(json_bytes(&row.failed_attempts)) {
        Some(rest) => *left = rest,
        None => row.failed_attempts.clear(),
    }
    row
}

impl Run {
    /// The run without its steps, at this instant.
    #[must_use]
    pub fn view(&self, now: DateTime<Utc>) -> RunView {
        RunView {
            id: self.id,
            agent: self.agent.clone(),
            version: self.plan,
            status: self.status(),
            resume_at: self.resume_at(),
            message: self.message(now),
            contact: self.contact.clone(),
            parent: self.parent_view(),
            labels: self.labels.clone(),
            waiting_on: self.waiting_on(),
            paused_by: self.pauses.clone(),
            paused_at: self.suspension.as_ref().map(|it| it.at),
            pause_reason: self.suspension.as_ref().map(|it| it.reason.clone()),
            questions: self.asked(),
            taken_over_by: self.taken().map(|taken| taken.by.clone()),
            taken_over_at: self.taken().map(|taken| taken.at),
            input: None,
            steps: Vec::new(),
            result: self.result(),
            failure: self.failure().cloned(),
            clocks: self.clocks,
            spent: self.spent(now),
            created_at: self.created_at,
            ended_at: self.ended_at(),
        }
    }

    #[must_use]
    pub fn started(&self, changed: bool, now: DateTime<Utc>) -> Box<StartedRun> {
        Box::new(StartedRun {
            run: self.view(now),
            changed,
        })
    }

    #[must_use]
    pub fn changed(&self, changed: bool, now: DateTime<Utc>) -> ChangedRun {
        ChangedRun {
            run: self.view(now),
            changed,
        }
    }

    /// The current state in one sentence (S0-AC1, S0-AC4).
    #[must_use]
    pub fn message(&self, now: DateTime<Utc>) -> String {
        match &self.phase {
            Phase::Completed { summary, .. } => return summary.clone(),
            Phase::Failed { failure, .. } | Phase::Cancelled { failure, .. } => {
                return failure.message.clone();
            }
            Phase::Live => {}
        }
        if let Some(suspension) = &self.suspension {
            return format!("Suspended by {}: {}", suspension.by, suspension.reason);
        }
        if let Some(pause) = self.pauses.last() {
            let left = self.holds().find_map(|(_, hold)| match hold.timer {
                Timer::Frozen { remaining_ms, .. } => Some((hold.kind(), remaining_ms)),
                Timer::Set { .. } => None,
            });
            let asked = || {
                self.people()
                    .find_map(|(_, on)| Some((on.kind, on.remaining_ms()?)))
            };
            return match left.or_else(asked) {
                Some((kind, ms)) => {
                    let left = describe(Duration::from_millis(ms));
                    format!("Paused by {}; {kind} hold has {left} left.", pause.by)
                }
                None => format!("Paused by {}.", pause.by),
            };
        }
        self.live_message(now)
    }

    fn live_message(&self, now: DateTime<Utc>) -> String {
        let timers = self.holds().filter_map(|(step, hold)| match hold.timer {
            Timer::Set { due, .. } => Some((step, hold, due)),
            Timer::Frozen { .. } => None,
        });
        let next = timers.min_by_key(|(_, _, due)| *due);
        let next = next.map(|(step, hold, due)| (step, hold, millis_between(now, due)));
        let mut at_work = self.steps.iter().filter(|step| step.on_people().is_none());
        let at_work = at_work.find_map(|step| {
            let what = match step.phase.at_worker()? {
                AtWorker::Queued(_) => "waits for a worker.",
                AtWorker::Granted(_) => "is running.",
                AtWorker::Uncertain(asked) => asked.reason(),
            };
            let parent = step.child_of.and_then(|of| self.steps.get(of.parent));
            let fan_out = parent.and_then(|parent| Some((parent, parent.fan_out.as_deref()?)));
            Some(match fan_out {
                Some((parent, fan_out)) => format!("{}: {}.", parent.id, items_done(fan_out)),
                None => format!("{} {what}", step.id),
            })
        });
        if let Some(taken) = self.taken() {
            return format!("{} has taken over.", taken.by);
        }
        let asked = self.people().next();
        let asked = asked.map(|(step, on)| hold_message(step, on));
        match (at_work.or(asked), next) {
            (Some(message), _) => message,
            (None, Some((step, hold, ms))) => timer_message(&step.id, hold, time_left(ms)),
            (None, None) => {
                let start = self.delayed_start();
                accepted_message(
                    self,
                    start.map(|(_, due)| time_left(millis_between(now, due))),
                )
            }
        }
    }

    /// Whether the run waits on a hold of this kind.
    #[must_use]
    pub fn waits_on(&self, kind: HoldKind) -> bool {
        self.waiting_on().iter().any(|on| on.kind == kind)
    }

    fn waiting_on(&self) -> Vec<WaitingOn> {
        let questions = self.questions().map(|(step, asked)| WaitingOn {
            id: asked.hold,
            kind: HoldKind::Input,
            step: step.id.clone(),
            asked: Vec::new(),
            since: asked.since,
            until: None,
            remaining_ms: None,
            then: match asked.answer {
                None => "The step is complete, runs again or fails, as it is answered.".to_owned(),
                Some(_) => "The answer takes effect on resume.".to_owned(),
            },
        });
        let people = self.people().map(|(step, on)| WaitingOn {
            id: on.id,
            kind: on.kind,
            step: step.map(|step| step.id.clone()).unwrap_or_default(),
            asked: on.to.clone(),
            since: on.since,
            until: on.deadline(),
            remaining_ms: on.remaining_ms(),
            then: hold_outcome_message(step, on),
        });
        self.holds()
            .map(|(step, hold)| {
                let (until, remaining_ms) = match hold.timer {
                    Timer::Set { due, .. } => (Some(due), None),
                    Timer::Frozen { remaining_ms, .. } => (None, Some(remaining_ms)),
                };
                WaitingOn {
                    id: hold.id,
                    kind: hold.kind(),
                    step: step.id.clone(),
                    asked: Vec::new(),
                    since: hold.since,
                    until,
                    remaining_ms,
                    then: timer_outcome_message(hold),
                }
            })
            .chain(questions)
            .chain(people)
            .collect()
    }

    fn asked(&self) -> Vec<Question> {
        let inputs = self.people().filter(|(_, on)| on.kind == HoldKind::Input);
        let inputs = inputs.map(|(_, on)| Question {
            id: on.id,
            question: on.asks.clone(),
            schema: on.form.clone(),
        });
        inputs.collect()
    }

    fn result(&self) -> Option<Value> {
        match &self.phase {
            Phase::Completed { summary, .. } => Some(json!({ "summary": summary })),
            Phase::Live | Phase::Failed { .. } | Phase::Cancelled { .. } => None,
        }
    }

    pub(crate) const fn failure(&self) -> Option<&Failure> {
        match &self.phase {
            Phase::Failed { failure, .. } | Phase::Cancelled { failure, .. } => Some(failure),
            Phase::Live | Phase::Completed { .. } => None,
        }
    }

    /// The steps of the run. The plan describes them, and the rows have their results.
    #[must_use]
    pub fn step_views(&self, plan: &Plan, stored: StoredSteps) -> Vec<StepView> {
        let mut left = VIEW_BYTES_MAX;
        let StoredSteps {
            rows,
            mut lease_events,
            mut approvals,
        } = stored;
        let mut rows: HashMap<String, StepRow> = rows
            .into_iter()
            .map(|row| (row.step.clone(), row))
            .collect();
        let mut views = Vec::new();
        for ShownStep { index, id, item } in self.shown_steps() {
            let Some(planned) = plan.steps.get(index) else {
                continue;
            };
            let step = self.steps.iter().find(|step| step.id == id);
            let row = rows.remove(&id).map(|row| within(&mut left, row));
            let Some(row) = row.or_else(|| Some(StepRow::new(self.id, step?))) else {
                continue;
            };
            let approval = step.and_then(|step| step.approval.as_deref().cloned());
            let approval = approval.or_else(|| approvals.remove(&id));
            let tool = planned.action.tool().and_then(|tool| tool.parse().ok());
            let is_high_risk = step.is_some_and(|step| step.is_high_risk);
            let called = row.called.clone();
            let called = called.as_deref();
            let is_named = |name: &String| !name.is_empty();
            views.push(StepView {
                kind: planned.action.kind().to_owned(),
                status: step.map_or(row.status, |step| step.phase.status()),
                tool,
                risk: called.map(|called| called.risk),
                app: called.map(|called| called.app.clone()).filter(is_named),
                credential_id: called.map(|it| it.credential_id.clone()).filter(is_named),
                action: shown_action(planned, step, &row),
                inline: (row.claimed_by.as_ref())
                    .is_some_and(|node| node.as_str().starts_with(INLINE_NODE)),
                request: row.request,
                response: row.response,
                error_code: row.error_code,
                raw_error: row.raw_error,
                failed_attempts: row.failed_attempts,
                dispatch: step.map_or(row.dispatch, |step| step.dispatch),
                attempts: step.map_or(row.attempts, |step| step.attempts),
                claimed_by: row.claimed_by,
                claimed_at: row.claimed_at,
                waiting_confirm: called.is_some_and(|called| called.waiting_confirm)
                    || planned.approval.is_some()
                    || approval.is_some()
                    || is_high_risk,
                early_call: None,
                approval_state: approval.as_ref().map(StepApproval::view),
                handoff_history: lease_events.remove(&id).unwrap_or_default(),
                item,
                items: step.and_then(|step| self.items_view(step)),
                child_runs: step.map(Step::child_run_views).unwrap_or_default(),
                started_at: row.started_at,
                ended_at: row.ended_at,
                id,
            });
        }
        views
    }

    /// All steps of the plan, and after each its children that are in progress and the first others.
    #[must_use]
    pub fn shown_steps(&self) -> Vec<ShownStep> {
        let mut shown = Vec::new();
        let mut left = CHILDREN_SHOWN_MAX;
        for (index, step) in self.planned_steps().enumerate() {
            shown.push(ShownStep {
                index,
                id: step.id.clone(),
                item: None,
            });
            let Some(fan_out) = step.fan_out.as_deref() else {
                continue;
            };
            let in_progress = self.steps.iter().filter_map(|step| step.child_of);
            let in_progress = in_progress.filter(|of| of.parent == index);
            let mut items: BTreeSet<u32> = in_progress.map(|of| of.item).collect();
            let more = usize::min(left, STEP_CHILDREN_SHOWN_MAX);
            for item in 0..fan_out.next {
                if items.len() >= more {
                    break;
                }
                items.insert(item);
            }
            left = left.saturating_sub(items.len());
            shown.extend(items.into_iter().map(|item| ShownStep {
                index,
                id: child_id(&step.id, item),
                item: Some(item),
            }));
        }
        shown
    }

    fn items_view(&self, step: &Step) -> Option<StepItems> {
        let fan_out = step.fan_out.as_deref()?;
        let FanOut {
            total,
            completed,
            failed,
            skipped,
            ..
        } = *fan_out;
        let open = self.steps.iter().filter(|child| {
            let parent = child.child_of.and_then(|of| self.steps.get(of.parent));
            parent.is_some_and(|parent| parent.id == step.id) && !child.phase.is_settled()
        });
        Some(StepItems {
            total,
            completed,
            failed,
            skipped,
            in_progress: u32::try_from(open.count()).unwrap_or(u32::MAX),
        })
    }
}

/// A step that the view of its run shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownStep {
    /// In the plan.
    pub index: usize,
    pub id: String,
    /// Of a child.
    pub item: Option<u32>,
}

/// How far a fan-out is: `3 of 12 items done, 1 failed`.
#[must_use]
pub fn items_done(fan_out: &FanOut) -> String {
    let noun = if fan_out.total == 1 { "item" } else { "items" };
    let mut text = format!("{} of {} {noun} done", fan_out.completed, fan_out.total);
    for (number, what) in [(fan_out.skipped, "skipped"), (fan_out.failed, "failed")] {
        if number > 0 {
            text = format!("{text}, {number} {what}");
        }
    }
    text
}

/// One line for people, with the values of the step.
fn shown_action(planned: &PlannedStep, step: Option<&Step>, row: &StepRow) -> String {
    let action = planned.action.describe_resolved(row.request.as_ref());
    match step.and_then(|step| step.fan_out.as_deref()) {
        Some(fan_out) => format!("{action} for each item: {}", items_done(fan_out)),
        None => action,
    }
}

impl StepApproval {
    /// Without the original arguments, which are a value of the run.
    fn view(&self) -> ApprovalView {
        let decision = self.decision.as_ref();
        ApprovalView {
            state: self.state,
            by: decision.map(|decision| decision.by.clone()),
            at: decision.map(|decision| decision.at),
            comment: decision.and_then(|decision| decision.comment.clone()),
            original_args: None,
            digest: self.digest.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D-14: the view shows what the run was started with, and of a large input its size.
    #[test]
    fn an_input_is_shown_unless_it_is_too_large() {
        let small = json!({ "order": "A-17" });
        assert_eq!(shown_input(small.clone()), small);
        let large = json!("x".repeat(INPUT_BYTES_MAX));
        let bytes = INPUT_BYTES_MAX + 2;
        assert_eq!(
            shown_input(large),
            json!({ "omitted": true, "bytes": bytes })
        );
    }

    /// D-14: a question with placeholders is shown as it was asked.
    #[test]
    fn the_title_of_an_asked_step_has_its_values() {
        let text =
            r#"{"agent": "a", "steps": [{"ask": {"question": "Call {{ contact.name }}?"}}]}"#;
        let plan = Plan::compile(text).unwrap();
        let action = &plan.steps[0].action;
        let asked = json!({ "question": "Call Zoe?" });
        assert!(
            action
                .describe_resolved(Some(&asked))
                .ends_with(": Call Zoe?")
        );
        assert_eq!(action.describe_resolved(None), action.describe());
    }
}
