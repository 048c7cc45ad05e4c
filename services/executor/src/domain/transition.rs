//! A run during one decision: its next state, and the effects so far.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use holdpoint_contracts::history::{EventType, HistoryItem};
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::run::{ActionResult, FailedAttempt, Failure, FailureClass, ResumeMode};
use holdpoint_contracts::size::json_bytes;
use holdpoint_contracts::suspension::SnapshotView;
use holdpoint_ids::{HoldId, NAME_CHARS_MAX};
use serde_json::Value;

use crate::domain::decision::{Lookup, LookupFn, Undecided};
use crate::domain::effect::{Effect, Reply};
use crate::domain::model::plan::{PlannedStep, StepPart};
use crate::domain::model::run::{INCIDENTS_MAX, Phase, Run, Step, StepPhase};
use crate::domain::model::step_row::{CalledTool, StepRow};
use crate::domain::need::{Fact, Need, PlanFact};
use crate::domain::refusal::{REASON_CHARS_MAX, Refusal};
use crate::domain::step_response::ended_result;
use crate::domain::text::cut;

pub(crate) fn unchanged_run<'a>(transition: &RunTransition<'a>) -> RunOutcome<'a> {
    // The version was raised for this decision, and nothing of it is kept.
    let mut run = transition.run.clone();
    run.version -= 1;
    RunOutcome::Unchanged(Reply::Changed(Box::new(run.changed(false, transition.now))))
}

pub(crate) fn refuse_ended_run(transition: &RunTransition<'_>) -> Result<(), Undecided> {
    if transition.run.is_final() {
        let (run, status) = (transition.run.id, transition.run.status());
        return Err(Refusal::RunFinal(run, status).into());
    }
    Ok(())
}

/// Columns of a step's row besides its state.
#[derive(Debug, Default)]
pub(crate) struct RowData {
    pub(crate) tool: Option<String>,
    pub(crate) called: Option<Box<CalledTool>>,
    pub(crate) request: Option<Value>,
    pub(crate) response: Option<ActionResult>,
    pub(crate) error_code: Option<String>,
    /// The tool's original error text, for operators only.
    pub(crate) raw_error: Option<String>,
    /// Empty: the row keeps those it has.
    pub(crate) failed_attempts: Vec<FailedAttempt>,
    /// Why the step ended without a result; its response says so.
    pub(crate) why: Option<String>,
    /// See [`StepRow::is_reset`].
    pub(crate) is_reset: bool,
}

impl RowData {
    pub(crate) fn response(response: ActionResult) -> Self {
        Self {
            response: Some(response),
            ..Self::default()
        }
    }

    pub(crate) fn ended_because(why: &str) -> Self {
        Self {
            why: Some(why.to_owned()),
            ..Self::default()
        }
    }
}

pub(crate) struct ToolError {
    /// The original text, bounded.
    pub(crate) raw: String,
    /// With sanitised texts.
    pub(crate) response: ActionResult,
    /// With this one.
    pub(crate) failed_attempts: Vec<FailedAttempt>,
}

/// What a command did to its run.
pub(crate) enum RunOutcome<'a> {
    Changed(Box<RunTransition<'a>>, Reply),
    /// It changed nothing: a repetition, or nothing to do.
    Unchanged(Reply),
}

/// What a command on a run returns.
pub(crate) type RunDecision<'a> = Result<RunOutcome<'a>, Undecided>;

pub(crate) struct RunTransition<'a> {
    pub(crate) before: &'a Run,
    pub(crate) run: Run,
    pub(crate) now: DateTime<Utc>,
    /// The user who ends the run.
    pub(crate) ended_by: Option<String>,
    lookup: LookupFn<'a>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) items: Vec<HistoryItem>,
    pub(crate) values: Vec<(String, Arc<Value>)>,
    /// The snapshot to store.
    pub(crate) snapshot: Option<Box<SnapshotView>>,
    /// How the waits of a resumed run continue. Its child runs do the same.
    pub(crate) resume_mode: ResumeMode,
    /// The plan of the run, if this decision starts it.
    pub(crate) generated_plan: Option<Arc<PlanFact>>,
}

impl<'a> RunTransition<'a> {
    pub(crate) fn new(before: &'a Run, lookup: LookupFn<'a>, now: DateTime<Utc>) -> Self {
        let run = Run {
            version: before.version + 1,
            ..before.clone()
        };
        Self {
            before,
            run,
            now,
            ended_by: None,
            lookup,
            effects: Vec::new(),
            items: Vec::new(),
            values: Vec::new(),
            snapshot: None,
            resume_mode: ResumeMode::default(),
            generated_plan: None,
        }
    }

    /// The value of a need. Values of this decision come first.
    pub(crate) fn lookup(&self, need: &Need) -> Lookup {
        if let Need::Value(_, name) = need
            && let Some((_, value)) = self.values.iter().rev().find(|(known, _)| known == name)
        {
            return Lookup::Found(Fact::Value(Arc::clone(value)));
        }
        (self.lookup)(need)
    }

    /// The value of a need, without the values of this decision.
    pub(crate) fn lookup_stored(&self, need: &Need) -> Lookup {
        (self.lookup)(need)
    }

    /// The step of the plan to which a step of the run belongs.
    pub(crate) fn planned<'p>(&self, plan: &'p PlanFact, index: usize) -> Option<&'p PlannedStep> {
        plan.plan.steps.get(self.run.plan_index(index))
    }

    /// Which expressions a step has.
    pub(crate) fn part(&self, index: usize) -> StepPart {
        match self.step(index).and_then(|step| step.child_of) {
            Some(of) => StepPart::Child(of.parent),
            None => StepPart::Step(index),
        }
    }

    /// The value of a need; none: it does not exist, or it is not loaded and added to `unknown`.
    pub(crate) fn find_value(&self, need: Need, unknown: &mut Vec<Need>) -> Option<Arc<Value>> {
        match self.lookup(&need) {
            Lookup::Found(Fact::Value(value) | Fact::Contact(value)) => Some(value),
            Lookup::Missing | Lookup::Found(_) => None,
            Lookup::NotLoaded => {
                unknown.push(need);
                None
            }
        }
    }

    /// The value of a need; none: it does not exist.
    pub(crate) fn load_value(&self, need: Need) -> Result<Option<Arc<Value>>, Undecided> {
        match self.lookup(&need) {
            Lookup::NotLoaded => Err(Undecided::NeedsMore(vec![need])),
            Lookup::Found(Fact::Value(value)) => Ok(Some(value)),
            Lookup::Missing | Lookup::Found(_) => Ok(None),
        }
    }

    pub(crate) fn plan(&self) -> Result<Arc<PlanFact>, Undecided> {
        let run = &self.run;
        let need = run.plan_need();
        if let (Need::GeneratedPlan(_), Some(plan)) = (&need, &self.generated_plan) {
            return Ok(Arc::clone(plan));
        }
        match self.lookup(&need) {
            Lookup::Found(Fact::Plan(plan)) => Ok(plan),
            Lookup::NotLoaded => Err(Undecided::NeedsMore(vec![need])),
            Lookup::Missing | Lookup::Found(_) => {
                Err(Refusal::PlanMissing(run.agent.clone(), run.plan).into())
            }
        }
    }

    /// Index of a step that a message names; none: it is the child of a fan-out that has ended. The run has only its
    /// numbers then, and no message changes it.
    pub(crate) fn open_position(&self, step: &str) -> Result<Option<usize>, Undecided> {
        if self.run.has_ended_child(step) {
            return Ok(None);
        }
        self.position(step).map(Some)
    }

    /// Index of a step in the run.
    pub(crate) fn position(&self, step: &str) -> Result<usize, Undecided> {
        self.run
            .steps
            .iter()
            .position(|one| one.id == step)
            .ok_or_else(|| Refusal::StepNotFound(self.run.id, cut(step, NAME_CHARS_MAX)).into())
    }

    pub(crate) fn step(&self, index: usize) -> Option<&Step> {
        self.run.steps.get(index)
    }

    pub(crate) fn step_mut(&mut self, index: usize) -> Option<&mut Step> {
        self.run.steps.get_mut(index)
    }

    pub(crate) fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Sets the timer of a hold, or clears it.
    pub(crate) fn timer(&mut self, hold: HoldId, due: Option<DateTime<Utc>>) {
        self.effects.push(Effect::Timer {
            workspace: self.run.workspace.clone(),
            hold,
            rev: self.run.version,
            due,
        });
    }

    /// Adds an item to the run's history.
    pub(crate) fn event(
        &mut self,
        kind: EventType,
        step: Option<&str>,
        message: String,
        data: Value,
    ) {
        self.run.seq += 1;
        self.items.push(HistoryItem {
            seq: self.run.seq,
            kind,
            at: self.now,
            run: self.run.id,
            step: step.map(str::to_owned),
            message,
            data,
        });
    }

    /// Keeps a value for later steps.
    pub(crate) fn value(&mut self, name: String, value: Value) {
        let children = self.run.steps.iter_mut().rev();
        let mut children = children.map_while(|step| Some((&step.id, step.child_of.as_mut()?)));
        // The results of all children must fit one result.
        if let Some((_, of)) = children.find(|(id, _)| **id == name) {
            of.result_bytes = u64::try_from(json_bytes(&value)).unwrap_or(u64::MAX);
        }
        let value = Arc::new(value);
        self.values.push((name.clone(), Arc::clone(&value)));
        self.effects.push(Effect::Value {
            run: self.run.id,
            name,
            value,
        });
    }

    /// Keeps another value under a name of this decision.
    pub(crate) fn replace_value(&mut self, name: String, value: Value) {
        let is_it =
            |effect: &Effect| matches!(effect, Effect::Value { name: kept, .. } if *kept == name);
        self.effects.retain(|effect| !is_it(effect));
        self.values.retain(|(kept, _)| *kept != name);
        self.value(name, value);
    }

    /// Changes the phase of a step and stores its row. Returns the id of the step.
    pub(crate) fn set_phase(
        &mut self,
        index: usize,
        phase: StepPhase,
        data: RowData,
    ) -> Option<String> {
        let step = self.step_mut(index)?;
        step.phase = phase;
        let id = step.id.clone();
        self.row(index, data);
        Some(id)
    }

    pub(crate) fn row(&mut self, index: usize, data: RowData) {
        let Some(step) = self.run.steps.get(index) else {
            return;
        };
        let working = step.phase.grant();
        let phase = &step.phase;
        // The step of a backoff began before the backoff.
        let waiting = phase.try_as_waiting_ref();
        let started_at = (waiting.filter(|hold| hold.backoff.is_none()))
            .map(|hold| hold.since)
            .or_else(|| phase.try_as_awaiting_person_ref().map(|on| on.since))
            .or_else(|| phase.try_as_queued_ref().map(|dispatch| dispatch.at))
            .or_else(|| step.fan_out.as_ref().map(|fan_out| fan_out.since));
        // The response of a step that failed, was skipped or was cancelled replaces the response of its
        // opening.
        let was = self.run.step_before(self.before, index);
        let was = was.map(|step| &step.phase);
        let ended = || Some(ended_result(was, data.why.as_deref()?, self.now));
        let response = data.response.or_else(ended);
        let row = StepRow {
            tool: data.tool,
            called: data.called,
            request: data.request,
            response,
            error_code: data.error_code,
            raw_error: data.raw_error,
            failed_attempts: data.failed_attempts,
            claimed_by: working.map(|working| working.node.clone()),
            claimed_at: working.map(|working| working.since),
            started_at,
            ended_at: step.phase.is_settled().then_some(self.now),
            is_reset: data.is_reset,
            ..StepRow::new(self.run.id, step)
        };
        self.effects.push(Effect::Step(Box::new(row)));
    }

    /// Ends the run. Its open steps are revoked, and its holds are closed.
    pub(crate) fn end(&mut self, phase: Phase) {
        let cancelled = StepPhase::Cancelled { at: self.now };
        let why = match &phase {
            Phase::Failed { failure, .. } | Phase::Cancelled { failure, .. } => &failure.message,
            Phase::Completed { summary, .. } => summary,
            Phase::Live => "",
        };
        for index in 0..self.run.steps.len() {
            self.revoke(index, &cancelled, why);
        }
        self.run.phase = phase;
        self.run.pauses.clear();
        self.run.suspension = None;
        self.run.missing_inputs_hold = None;
        self.run.takeover_hold = None;
        self.close_limit_holds();
        if let Some(place) = self.run.place_mut() {
            place.number = None;
        }
    }

    /// Ends the question about the budget and the wait for the turn.
    fn close_limit_holds(&mut self) {
        if let Some(budget) = self.run.budget_mut() {
            budget.hold = None;
        }
        if let Some(timer) = self.run.take_start_timer() {
            self.timer(timer.hold, None);
            self.run.give_up_turn();
        }
    }

    /// Skips the open steps. Each event has `data`.
    pub(crate) fn skip_rest(&mut self, message: &str, data: &Value) {
        self.close_limit_holds();
        let skipped = StepPhase::Skipped { at: self.now };
        for index in 0..self.run.steps.len() {
            let left = self.step(index).filter(|step| !step.phase.is_settled());
            let Some(id) = left.map(|step| step.id.clone()) else {
                continue;
            };
            self.revoke(index, &skipped, message);
            self.event(
                EventType::StepSkipped,
                Some(&id),
                message.to_owned(),
                data.clone(),
            );
        }
    }

    /// Retracts a dispatch of this decision.
    pub(crate) fn retract_dispatch(&mut self, step: &str) {
        self.retract(step, None);
    }

    /// Ends a step that has not ended yet, and fences its dispatch.
    fn revoke(&mut self, index: usize, ended: &StepPhase, why: &str) {
        let Some(step) = self
            .run
            .steps
            .get_mut(index)
            .filter(|step| !step.phase.is_settled())
        else {
            return;
        };
        // A step that was queued or approved before a pause has a row, although it will start again.
        let is_skipped = matches!(ended, StepPhase::Skipped { .. });
        // The child of a renewed fan-out has the row of an earlier item.
        let was_begun = step.dispatch > 0 || step.approval.is_some() || step.child_of.is_some();
        let has_row = is_skipped || was_begun || !matches!(step.phase, StepPhase::Planned);
        let hold = step.phase.try_as_waiting_ref().map(|hold| hold.id);
        if let Some(unreported) = step.unreported().cloned() {
            step.interrupted = Some(Box::new(unreported));
        }
        step.dispatch += 1;
        step.phase = ended.clone();
        let id = step.id.clone();
        let is_new = self.retract(&id, hold);
        if let Some(hold) = hold.filter(|_| !is_new) {
            self.timer(hold, None);
        }
        if has_row {
            self.row(index, RowData::ended_because(why));
        }
    }

    /// Retracts what this decision has begun for a step. It is not sent yet, and a second desired state with
    /// the same number would be ignored. Returns whether the hold was among that.
    fn retract(&mut self, step: &str, hold: Option<HoldId>) -> bool {
        let before = self.effects.len();
        let is_timer = |effect: &Effect| matches!(effect, Effect::Timer { hold: set, .. } if Some(*set) == hold);
        self.effects.retain(|effect| !is_timer(effect));
        let is_new = self.effects.len() < before;
        let is_dispatch =
            |effect: &Effect| matches!(effect, Effect::StepDispatch(out) if out.step == step);
        self.effects.retain(|effect| !is_dispatch(effect));
        is_new
    }

    /// Ends the run as failed, with all open steps.
    pub(crate) fn fail(&mut self, class: FailureClass, code: &str, message: String) {
        let data = serde_json::json!({ "class": class, "code": code });
        let failure = Failure {
            class,
            code: code.to_owned(),
            message: message.clone(),
        };
        self.end(Phase::Failed {
            at: self.now,
            failure,
        });
        self.event(EventType::RunFailed, None, message, data);
    }

    /// Ends the run as cancelled, with all open steps. The event has `data`.
    pub(crate) fn cancel(&mut self, by: &Actor, code: &str, message: String, data: Value) {
        self.ended_by = Some(by.to_string());
        self.end(Phase::Cancelled {
            at: self.now,
            failure: Failure {
                class: FailureClass::Cancelled,
                code: code.to_owned(),
                message: message.clone(),
            },
        });
        self.event(EventType::RunCancelled, None, message, data);
    }

    /// Adds an incident, each reason once. Returns whether it is new.
    pub(crate) fn add_incident(&mut self, reason: &str) -> bool {
        let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
        let known = &self.run.incidents;
        let is_new = !known.contains(&reason) && known.len() < INCIDENTS_MAX;
        let is_added = is_new && !self.run.is_final();
        self.run.incidents.extend(is_added.then_some(reason));
        is_added
    }

    pub(crate) fn changed(self) -> RunDecision<'a> {
        let answer = Reply::Changed(Box::new(self.run.changed(true, self.now)));
        self.decided(answer)
    }

    /// The command has changed the run. The dispatcher adds the derived effects.
    pub(crate) fn decided(self, reply: Reply) -> RunDecision<'a> {
        Ok(RunOutcome::Changed(Box::new(self), reply))
    }
}
