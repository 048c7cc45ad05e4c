//! A rehearsed run, and what its decisions find: as tables, scheduler, workers and handoff service keep it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use holdpoint_contracts::contact::Activity;
use holdpoint_contracts::executor::{ChildRunEnd, DesiredChildRun};
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::rehearsal::{RehearsalContact, RehearsalLimit};
use holdpoint_contracts::size::json_bytes;
use holdpoint_contracts::steps::StepDispatch;
use holdpoint_ids::{ContactId, HoldId, RunId};
use serde_json::{Map, Value, json};

use super::open_request::OpenRequest;
use super::recorder::Recorder;
use super::setup::RehearsalSetup;
use super::standing_approvals::Uses;
use crate::domain::decide::decide;
use crate::domain::decision::{Lookup, Outcome, Undecided};
use crate::domain::effect::{Effect, Reply};
use crate::domain::input::{Input, RunInput};
use crate::domain::model::contact::{ACTIVITIES_SHOWN, ContactActivity};
use crate::domain::model::plan::Plan;
use crate::domain::model::run::{Run, Signal};
use crate::domain::model::step_row::StepRow;
use crate::domain::need::{Aggregate, Fact, GENERATED_PLAN, Key, KnownUser, Need, PlanFact};
use crate::domain::rules::contact_patch::merge_patch;
use crate::domain::rules::suspension::snapshot::{bounded_calls, calls_of_row};

/// The rehearsed run of a contact and its child runs. They share a clock, the contact and the limits.
pub(super) struct InMemoryRun<'s> {
    pub(super) setup: &'s RehearsalSetup,
    pub(super) now: DateTime<Utc>,
    /// Why the run did not start.
    pub(super) refused: Option<Problem>,
    pub(super) contact: Map<String, Value>,
    pub(super) recorder: Recorder,
    /// Dispatched steps that no worker has taken yet.
    pub(super) dispatched: VecDeque<StepDispatch>,
    pub(super) requests: BTreeMap<HoldId, OpenRequest>,
    /// What the runs want of their child runs and have not got yet.
    pub(super) desired_children: VecDeque<DesiredChild>,
    /// Ends of child runs of which their parents do not know yet.
    pub(super) child_ends: VecDeque<ChildRunEnd>,
    /// Uses of standing approvals.
    pub(super) uses: Uses,
    pub(super) runs: BTreeMap<RunId, OneRun>,
    contact_id: &'s ContactId,
    id: RunId,
    timers: BTreeMap<HoldId, (u64, DateTime<Utc>)>,
    activities: Vec<Activity>,
    /// Memory of the runs, values, rows, activities and requests that were kept so far, as an estimate.
    kept_bytes: usize,
    /// The limit that ended the rehearsal before the run.
    pub(super) stopped_by: Option<RehearsalLimit>,
}

/// What the tables have of one run.
#[derive(Debug, Default)]
pub(super) struct OneRun {
    /// None: it has not started.
    pub(super) run: Option<Run>,
    /// The step of the first run that has started it, perhaps through others; empty: it is the first run.
    pub(super) place: String,
    /// Calls of each step so far.
    pub(super) calls: BTreeMap<String, u32>,
    values: BTreeMap<String, Arc<Value>>,
    generated_plan: Option<Arc<PlanFact>>,
    rows: BTreeMap<String, StepRow>,
}

impl OneRun {
    pub(super) fn at(place: String) -> Self {
        Self {
            place,
            ..Self::default()
        }
    }
}

/// What a run wants of a run that its step has started.
#[derive(Debug)]
pub(super) struct DesiredChild {
    /// Among the runs of the step.
    pub(super) place: u32,
    pub(super) desired: DesiredChildRun,
}

/// Who starts rehearsed runs, and answers where no recipient is named.
pub(super) const ACTOR: &str = "rehearsal";

/// Memory of a JSON value beside its texts.
const VALUE_BYTES: usize = 80;

/// The memory that a value takes, as an estimate.
fn memory_of(value: &Value) -> usize {
    let inside = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(memory_of).sum(),
        Value::Object(fields) => {
            let fields = fields.iter();
            fields
                .map(|(name, value)| name.len() + memory_of(value))
                .sum()
        }
    };
    VALUE_BYTES + inside
}

/// Something that comes from outside of the run.
#[derive(Debug)]
pub(super) enum ExternalChange {
    Contact(Map<String, Value>),
    Signal(Signal),
}

/// What is due next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    Timer(HoldId),
    Request(HoldId),
}

impl<'s> InMemoryRun<'s> {
    pub(super) fn new(id: RunId, setup: &'s RehearsalSetup, contact: &'s RehearsalContact) -> Self {
        Self {
            setup,
            now: setup.start_at,
            refused: None,
            contact: contact.fields.clone(),
            recorder: Recorder::default(),
            dispatched: VecDeque::new(),
            requests: BTreeMap::new(),
            desired_children: VecDeque::new(),
            child_ends: VecDeque::new(),
            uses: Uses::new(),
            runs: [(id, OneRun::default())].into(),
            contact_id: &contact.id,
            id,
            timers: BTreeMap::new(),
            activities: Vec::new(),
            kept_bytes: 0,
            stopped_by: None,
        }
    }

    /// The first run.
    pub(super) fn run(&self) -> Option<&Run> {
        self.runs.get(&self.id)?.run.as_ref()
    }

    /// The plan of the first run: that of its agent, or the one that its planner made.
    pub(super) fn plan(&self) -> &Plan {
        let generated = self.runs.get(&self.id);
        let generated = generated.and_then(|run| run.generated_plan.as_ref());
        &generated.unwrap_or(&self.setup.plan).plan
    }

    /// A step as the timeline and the script name it: `check/step-01` is a step of the run that `check` has started.
    pub(super) fn placed(&self, run: RunId, step: Option<&str>) -> Option<String> {
        let place = self.runs.get(&run).map_or("", |run| run.place.as_str());
        match (place, step) {
            ("", step) => step.map(str::to_owned),
            (place, Some(step)) => Some(format!("{place}/{step}")),
            (place, None) => Some(place.to_owned()),
        }
    }

    /// The number of this call of a step, from 1.
    pub(super) fn count_call(&mut self, run: RunId, step: &str) -> u32 {
        let Some(run) = self.runs.get_mut(&run) else {
            return 1;
        };
        let calls = run.calls.entry(step.to_owned()).or_default();
        *calls = calls.saturating_add(1);
        *calls
    }

    /// Whether the run has used its memory.
    pub(super) const fn is_full(&self) -> bool {
        self.kept_bytes > self.setup.limits.bytes
    }

    pub(super) const fn contact_id(&self) -> &'s ContactId {
        self.contact_id
    }

    /// Starts the run. A refusal is kept.
    pub(super) fn start(&mut self) {
        let input = RunInput::Start {
            agent: self.setup.agent.name.clone(),
            input: Value::Object(self.setup.script.input.clone()),
            contact: Some(self.contact_id.clone()),
            labels: BTreeMap::new(),
            by: Actor(ACTOR.to_owned()),
        };
        self.refused = self.give(self.id, input).err();
    }

    /// Applies a change that comes from outside of the runs. A run that does not take it is unchanged.
    pub(super) fn change(&mut self, change: ExternalChange) {
        match change {
            ExternalChange::Contact(set) => {
                self.contact = merge_patch(&self.contact, &set);
                self.contact.shift_remove("id");
                self.give_all(|| RunInput::ContactReplied);
            }
            ExternalChange::Signal(signal) => self.give_all(|| RunInput::Signal {
                by: Actor(ACTOR.to_owned()),
                signal: signal.clone(),
            }),
        }
    }

    /// Gives an input to the first run and all child runs.
    pub(super) fn give_all(&mut self, input: impl Fn() -> RunInput) {
        let below = self.runs.keys().copied().filter(|run| *run != self.id);
        let runs: Vec<_> = [self.id].into_iter().chain(below).collect();
        for run in runs {
            drop(self.give(run, input()));
        }
    }

    /// Whether a call waits for a worker, or a run has to know of another one.
    pub(super) fn has_work(&self) -> bool {
        !self.dispatched.is_empty()
            || !self.desired_children.is_empty()
            || !self.child_ends.is_empty()
    }

    /// The next timer or answer.
    pub(super) fn next_due(&self) -> Option<(DateTime<Utc>, Due)> {
        let timers = self.timers.iter();
        let timers = timers.map(|(hold, (_, due))| (*due, Due::Timer(*hold)));
        let requests = self.requests.iter();
        let requests = requests.filter_map(|(hold, it)| Some((it.due()?.0, Due::Request(*hold))));
        timers.chain(requests).min()
    }

    /// Fires the next timer, or does what is due for a request.
    pub(super) fn do_next(&mut self) -> Result<(), String> {
        match self.next_due() {
            Some((_, Due::Timer(hold))) => {
                let Some((rev, _)) = self.timers.remove(&hold) else {
                    return Ok(());
                };
                drop(self.give(hold.run, RunInput::TimerFired { hold, rev }));
                Ok(())
            }
            Some((_, Due::Request(hold))) => self.act_on_request(hold),
            None => Ok(()),
        }
    }

    /// Gives one input to a run, and keeps what comes of it. A refusal changes nothing.
    pub(super) fn give(&mut self, run: RunId, input: RunInput) -> Result<Reply, Problem> {
        let input = Input::Run {
            workspace: self.setup.workspace.clone(),
            run,
            input,
        };
        let Some(state) = self.runs.get_mut(&run).map(|it| it.run.take()) else {
            return Err(Problem::internal());
        };
        let state = state.map(Aggregate::Run);
        let outcome = decide(state.as_ref(), &input, &|need| self.find(need), self.now);
        let mut state = state.and_then(Aggregate::try_as_run);
        let mut effects = Vec::new();
        let reply = match outcome {
            Ok(Outcome::Decided(decided)) => {
                if let Aggregate::Run(next) = decided.state {
                    state = Some(next);
                }
                effects = decided.effects;
                Ok(decided.reply)
            }
            Ok(Outcome::Unchanged(reply)) => Ok(reply),
            Err(Undecided::Refused(refusal)) => Err(refusal.problem()),
            // Everything is found or missing.
            Err(Undecided::NeedsMore(_)) => Err(Problem::internal()),
        };
        if let Some(run) = self.runs.get_mut(&run) {
            run.run = state;
        }
        self.keep(run, effects);
        reply
    }

    fn find(&self, need: &Need) -> Lookup {
        self.fact(need).map_or(Lookup::Missing, Lookup::Found)
    }

    fn fact(&self, need: &Need) -> Option<Fact> {
        match need {
            Need::State(Key::Agent(_, name)) => {
                let (agent, _) = self.setup.find_agent(name)?;
                Some(Fact::Agent(Arc::new(agent.clone())))
            }
            Need::State(Key::Contact(..)) => {
                let mut fields = self.contact.clone();
                fields.insert("id".to_owned(), json!(self.contact_id));
                Some(Fact::Contact(Arc::new(Value::Object(fields))))
            }
            Need::State(Key::Tool(workspace, name)) => {
                let mut tools = self.setup.tools.iter();
                let tool = tools.find(|it| it.spec.name == *name && it.workspace == *workspace);
                tool.cloned().map(Fact::Tool)
            }
            Need::Plan(_, name, _) => {
                let (_, plan) = self.setup.find_agent(name)?;
                Some(Fact::Plan(Arc::clone(plan)))
            }
            Need::GeneratedPlan(run) => {
                let plan = self.runs.get(run)?.generated_plan.clone();
                plan.map(Fact::Plan)
            }
            Need::Value(run, name) => {
                let value = self.runs.get(run)?.values.get(name).cloned();
                value.map(Fact::Value)
            }
            Need::Request(run, step) => {
                let request = self.runs.get(run)?.rows.get(step)?.request.clone()?;
                Some(Fact::Value(Arc::new(request)))
            }
            Need::FailedAttempts(run, step) => {
                let failed = &self.runs.get(run)?.rows.get(step)?.failed_attempts;
                Some(Fact::Value(Arc::new(json!(failed))))
            }
            Need::Activities(..) => Some(Fact::Value(Arc::new(json!(self.contact_activity())))),
            Need::ToolCalls(run) => {
                let rows = self.runs.get(run)?.rows.values().cloned();
                let calls = rows.flat_map(calls_of_row);
                Some(Fact::ToolCalls(Arc::new(bounded_calls(calls.collect()))))
            }
            // Requests to inactive users end at once, so only active ones decide.
            Need::User(..) => Some(Fact::User(Arc::new(KnownUser {
                is_active: true,
                roles: Vec::new(),
            }))),
            Need::DirectoryAge => Some(Fact::DirectoryAge(Duration::ZERO)),
            Need::State(_)
            | Need::Snapshot(_)
            | Need::OperationResult(..)
            | Need::RunningOperations(_)
            | Need::ToolCount(_)
            | Need::Places(_)
            | Need::Starts(_)
            | Need::StartedOnce(_) => None,
        }
    }

    fn contact_activity(&self) -> ContactActivity {
        let shown = usize::try_from(ACTIVITIES_SHOWN).unwrap_or(usize::MAX);
        let older = self.activities.len().saturating_sub(shown);
        ContactActivity {
            newest: self
                .activities
                .iter()
                .skip(older)
                .map(|it| json!(it))
                .collect(),
            older: older as u64,
        }
    }

    fn keep(&mut self, run: RunId, effects: Vec<Effect>) {
        let mut sent = Vec::new();
        for effect in effects {
            match effect {
                Effect::Value { name, value, .. } => self.keep_value(run, name, value),
                Effect::Activity { activity, .. } => self.keep_activity(activity),
                Effect::Step(row) => self.keep_row(run, *row),
                Effect::Timer { hold, rev, due, .. } => match due {
                    Some(due) => drop(self.timers.insert(hold, (rev, due))),
                    None => drop(self.timers.remove(&hold)),
                },
                Effect::StepDispatch(dispatch) => {
                    let row = self
                        .runs
                        .get(&run)
                        .and_then(|it| it.rows.get(&dispatch.step));
                    sent.push(Recorder::call(&dispatch, row));
                    self.dispatched.push_back(*dispatch);
                }
                Effect::Hold { desired_state, .. } => sent.extend(self.keep_hold(*desired_state)),
                Effect::ChildRun {
                    place,
                    desired_state,
                    ..
                } => sent.extend(self.keep_child(place, *desired_state)),
                Effect::ChildRunEnded { end, .. } => self.child_ends.push_back(*end),
                Effect::History { mut items, .. } => {
                    for item in &mut items {
                        item.step = self.placed(run, item.step.as_deref());
                    }
                    self.recorder.record(items);
                }
                // Of these, nothing comes back to the run.
                Effect::AgentVersion { .. }
                | Effect::ForgetActivities { .. }
                | Effect::EraseContactTraces { .. }
                | Effect::ErasurePending
                | Effect::DeleteRun { .. }
                | Effect::RunEnded { .. }
                | Effect::ContactEvent { .. }
                | Effect::ContactFields { .. }
                | Effect::Lease(_)
                | Effect::LeaseEnded { .. }
                | Effect::LeaseEvent { .. }
                | Effect::NodeTimer { .. }
                | Effect::LeasesRenewed { .. }
                | Effect::ProbeNode { .. }
                | Effect::ScopeSyncPending
                | Effect::OperationResult(_)
                | Effect::OperationPending
                | Effect::Users(_)
                | Effect::DeleteExpiredRuns { .. }
                | Effect::Snapshot(_)
                | Effect::Blob { .. }
                | Effect::DeleteExpiredBlobs { .. }
                | Effect::Limits { .. }
                | Effect::PlacesChanged { .. }
                | Effect::ReplyPending { .. } => {}
            }
        }
        for one in &mut sent {
            one.step = self.placed(run, one.step.as_deref());
        }
        self.recorder.attach(sent, self.now);
    }

    fn keep_value(&mut self, run: RunId, name: String, value: Arc<Value>) {
        self.kept_bytes = self.kept_bytes.saturating_add(memory_of(&value));
        let Some(run) = self.runs.get_mut(&run) else {
            return;
        };
        if name == GENERATED_PLAN {
            let plan = serde_json::from_value(Value::clone(&value)).ok();
            run.generated_plan = plan.map(|plan| Arc::new(PlanFact::new(plan)));
        }
        run.values.insert(name, value);
    }

    pub(super) fn keep_activity(&mut self, activity: Activity) {
        self.count_memory(json_bytes(&activity));
        self.activities.push(activity);
    }

    pub(super) const fn count_memory(&mut self, bytes: usize) {
        self.kept_bytes = self.kept_bytes.saturating_add(bytes);
    }

    /// Stores the row of a step. Unset fields keep their value.
    fn keep_row(&mut self, run: RunId, mut row: StepRow) {
        let request = row.request.as_ref().map_or(0, memory_of);
        let response = row.response.as_ref();
        let bytes = request + response.map_or(0, |response| memory_of(&response.data));
        self.kept_bytes = self.kept_bytes.saturating_add(bytes);
        let Some(run) = self.runs.get_mut(&run) else {
            return;
        };
        let old = run.rows.remove(&row.step);
        if let Some(old) = old {
            if row.failed_attempts.is_empty() {
                row.failed_attempts = old.failed_attempts;
            }
            if !row.is_reset {
                row.tool = row.tool.or(old.tool);
                row.called = row.called.or(old.called);
                row.request = row.request.or(old.request);
                row.response = row.response.or(old.response);
            }
        }
        run.rows.insert(row.step.clone(), row);
    }
}
