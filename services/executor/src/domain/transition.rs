//! One decision on a run in the making: the next state, and what goes with it.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use holdpoint_contracts::history::{EventType, HistoryItem};
use holdpoint_contracts::run::{ActionResult, Failure, ResumeMode};
use holdpoint_ids::HoldId;
use serde_json::Value;

use crate::domain::effect::{Effect, Reply, StepRow};
use crate::domain::need::{Aggregate, Fact, Need, PlanFact};
use crate::domain::refusal::Refusal;
use crate::domain::run::{Phase, Run, Step, StepPhase};

use super::ended_result::ended_result;
use super::{ending, outside};
use crate::domain::decision::{Decided, Decision, Lookup, LookupFn, Outcome, Undecided};

/// What a step's row gets besides where the step stands.
#[derive(Debug, Default)]
pub(super) struct RowData {
    pub(super) tool: Option<String>,
    pub(super) request: Option<Value>,
    pub(super) response: Option<ActionResult>,
    pub(super) error_code: Option<String>,
    /// What the tool said of its failure, for operators only.
    pub(super) raw_error: Option<String>,
    /// Why the step ended without a result; its response says so.
    pub(super) why: Option<String>,
}

/// What a tool said of a failed call.
pub(super) struct ToolError {
    /// As it came, bounded.
    pub(super) raw: String,
    /// With texts that may be shown.
    pub(super) response: ActionResult,
}

/// One decision in the making.
pub(super) struct RunTransition<'a> {
    pub(super) before: &'a Run,
    /// As it is to be.
    pub(super) run: Run,
    pub(super) now: DateTime<Utc>,
    /// Whoever ends the run by a word of their own.
    pub(super) ended_by: Option<String>,
    /// How waits go on that a person's hold still keeps frozen when this decision resumes the run.
    pub(super) resume_mode: ResumeMode,
    lookup: LookupFn<'a>,
    effects: Vec<Effect>,
    items: Vec<HistoryItem>,
    values: Vec<(String, Arc<Value>)>,
}

impl<'a> RunTransition<'a> {
    pub(super) fn new(before: &'a Run, lookup: LookupFn<'a>, now: DateTime<Utc>) -> Self {
        let run = Run {
            version: before.version + 1,
            ..before.clone()
        };
        Self {
            before,
            run,
            now,
            ended_by: None,
            resume_mode: ResumeMode::Continue,
            lookup,
            effects: Vec::new(),
            items: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Looks something up: a value of this very decision first.
    pub(super) fn lookup(&self, need: &Need) -> Lookup {
        if let Need::Value(_, name) = need
            && let Some((_, value)) = self.values.iter().rev().find(|(known, _)| known == name)
        {
            return Lookup::Found(Fact::Value(Arc::clone(value)));
        }
        (self.lookup)(need)
    }

    /// The plan of the run.
    pub(super) fn plan(&self) -> Result<Arc<PlanFact>, Undecided> {
        let run = &self.run;
        let need = Need::Plan(run.workspace.clone(), run.agent.clone(), run.plan);
        match self.lookup(&need) {
            Lookup::Found(Fact::Plan(plan)) => Ok(plan),
            Lookup::NotLoaded => Err(Undecided::NeedsMore(vec![need])),
            Lookup::Missing | Lookup::Found(_) => Err(Undecided::Refused(Refusal::PlanMissing(
                run.agent.clone(),
                run.plan,
            ))),
        }
    }

    /// Where a step of that id is in the plan.
    pub(super) fn position(&self, step: &str) -> Result<usize, Undecided> {
        self.run
            .steps
            .iter()
            .position(|one| one.id == step)
            .ok_or_else(|| Undecided::Refused(Refusal::StepNotFound(self.run.id, step.to_owned())))
    }

    pub(super) fn step(&self, index: usize) -> Option<&Step> {
        self.run.steps.get(index)
    }

    pub(super) fn step_mut(&mut self, index: usize) -> Option<&mut Step> {
        self.run.steps.get_mut(index)
    }

    pub(super) fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Adds an item to the run's history.
    pub(super) fn event(
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
    pub(super) fn value(&mut self, name: String, value: Value) {
        let value = Arc::new(value);
        self.values.push((name.clone(), Arc::clone(&value)));
        self.effects.push(Effect::Value {
            run: self.run.id,
            name,
            value,
        });
    }

    /// Stores where a step stands.
    pub(super) fn row(&mut self, index: usize, data: RowData) {
        let Some(step) = self.run.steps.get(index) else {
            return;
        };
        let working = match &step.phase {
            StepPhase::Working(working) => Some(working),
            StepPhase::Uncertain(asked) => Some(&asked.working),
            StepPhase::Planned
            | StepPhase::Queued(_)
            | StepPhase::Waiting(_)
            | StepPhase::Asked(_)
            | StepPhase::Parked(_)
            | StepPhase::Completed { .. }
            | StepPhase::Failed { .. }
            | StepPhase::Skipped { .. }
            | StepPhase::Cancelled { .. } => None,
        };
        let started_at = match &step.phase {
            StepPhase::Waiting(hold) => Some(hold.since),
            StepPhase::Asked(on) => Some(on.since),
            StepPhase::Queued(handed) => Some(handed.at),
            StepPhase::Planned
            | StepPhase::Working(_)
            | StepPhase::Uncertain(_)
            | StepPhase::Parked(_)
            | StepPhase::Completed { .. }
            | StepPhase::Failed { .. }
            | StepPhase::Skipped { .. }
            | StepPhase::Cancelled { .. } => None,
        };
        // What failed, was skipped or was cancelled says so: the row keeps no response of its opening.
        let ended = || Some(ended_result(self, index, data.why.as_deref()?));
        let response = data.response.or_else(ended);
        let row = StepRow {
            run: self.run.id,
            step: step.id.clone(),
            status: step.phase.status(),
            tool: data.tool,
            request: data.request,
            response,
            error_code: data.error_code,
            raw_error: data.raw_error,
            claimed_by: working.map(|working| working.node.clone()),
            claimed_at: working.map(|working| working.since),
            started_at,
            ended_at: step.phase.is_settled().then_some(self.now),
            attempts: step.attempts,
            dispatch: step.dispatch,
        };
        self.effects.push(Effect::Step(Box::new(row)));
    }

    /// Ends the run: everything that is left of it is revoked, its holds are closed.
    pub(super) fn end(&mut self, phase: Phase) {
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
        self.run.missing_inputs_hold = None;
        self.run.takeover_hold = None;
    }

    /// A person has ended the run: what is left of its steps is skipped (S0-T3).
    pub(super) fn skip_rest(&mut self, message: &str, by: &str) {
        self.ended_by = Some(by.to_owned());
        let skipped = StepPhase::Skipped { at: self.now };
        for index in 0..self.run.steps.len() {
            let left = self.step(index).filter(|step| !step.phase.is_settled());
            let Some(id) = left.map(|step| step.id.clone()) else {
                continue;
            };
            self.revoke(index, &skipped, message);
            let data = serde_json::json!({ "reason": "handoff_completed", "by": by });
            self.event(EventType::StepSkipped, Some(&id), message.to_owned(), data);
        }
    }

    /// Takes a dispatch of this very decision back.
    pub(super) fn retract_hand_out(&mut self, step: &str) {
        self.retract(step, None);
    }

    /// A step that has not ended ends so; its dispatch is fenced off.
    fn revoke(&mut self, index: usize, ended: &StepPhase, why: &str) {
        let rev = self.run.version;
        let workspace = self.run.workspace.clone();
        let Some(step) = self
            .run
            .steps
            .get_mut(index)
            .filter(|step| !step.phase.is_settled())
        else {
            return;
        };
        // One that was queued before a pause has a row, though its turn is to come again.
        let is_skipped = matches!(ended, StepPhase::Skipped { .. });
        let has_row = is_skipped || !matches!(step.phase, StepPhase::Planned) || step.dispatch > 0;
        let hold = match &step.phase {
            StepPhase::Waiting(hold) => Some(hold.id),
            StepPhase::Planned
            | StepPhase::Queued(_)
            | StepPhase::Working(_)
            | StepPhase::Asked(_)
            | StepPhase::Parked(_)
            | StepPhase::Uncertain(_)
            | StepPhase::Completed { .. }
            | StepPhase::Failed { .. }
            | StepPhase::Skipped { .. }
            | StepPhase::Cancelled { .. } => None,
        };
        step.dispatch += 1;
        step.phase = ended.clone();
        let id = step.id.clone();
        let is_new = self.retract(&id, hold);
        if let Some(hold) = hold.filter(|_| !is_new) {
            self.effects.push(Effect::Timer {
                workspace,
                hold,
                rev,
                due: None,
            });
        }
        if has_row {
            let data = RowData {
                why: Some(why.to_owned()),
                ..RowData::default()
            };
            self.row(index, data);
        }
    }

    /// Takes back what this very decision has begun of a step: nobody was told yet, and a second
    /// desired state of the same number would be ignored. Returns whether its hold was among that.
    fn retract(&mut self, step: &str, hold: Option<HoldId>) -> bool {
        let before = self.effects.len();
        let is_timer = |effect: &Effect| matches!(effect, Effect::Timer { hold: set, .. } if Some(*set) == hold);
        self.effects.retain(|effect| !is_timer(effect));
        let is_new = self.effects.len() < before;
        let is_hand_out =
            |effect: &Effect| matches!(effect, Effect::StepDispatch(out) if out.step == step);
        self.effects.retain(|effect| !is_hand_out(effect));
        is_new
    }

    /// Ends the run as failed, with everything that was still moving.
    pub(super) fn fail(&mut self, failure: Failure) {
        let message = failure.message.clone();
        let data = serde_json::json!({ "class": failure.class, "code": failure.code });
        self.end(Phase::Failed {
            at: self.now,
            failure,
        });
        self.event(EventType::RunFailed, None, message, data);
    }

    /// The run as the caller of a command is shown it.
    pub(super) fn changed(self) -> Decision {
        let answer = Reply::Changed(Box::new(self.run.changed(true, self.now)));
        self.decided(answer)
    }

    /// The finished decision.
    pub(super) fn decided(mut self, answer: Reply) -> Decision {
        // What has ended asks nothing.
        let ended = self.run.steps.iter_mut();
        for step in ended.filter(|step| step.phase.is_settled()) {
            step.questions.open = None;
        }
        let questions = outside::questions(&self)?;
        self.effects.extend(questions);
        let person_holds = outside::people(&self)?;
        self.effects.extend(person_holds);
        self.effects
            .extend(outside::leases(self.before, &self.run, self.now));
        let run_ends = ending::told(&self)?;
        self.effects.extend(run_ends);
        if !self.items.is_empty() {
            self.effects.push(Effect::History {
                workspace: self.run.workspace.clone(),
                run: self.run.id,
                items: self.items,
            });
        }
        let run = self.run.id;
        let facts = self
            .values
            .into_iter()
            .map(|(name, value)| (Need::Value(run, name), Fact::Value(value)))
            .collect();
        let state = Aggregate::Run(self.run);
        Ok(Outcome::Decided(Box::new(Decided {
            state,
            effects: self.effects,
            facts,
            reply: answer,
        })))
    }
}
