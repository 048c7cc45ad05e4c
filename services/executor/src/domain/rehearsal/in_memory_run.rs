//! A rehearsed run, and what its decisions find: as tables, scheduler, workers and handoff service keep it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use holdpoint_contracts::contact::Activity;
use holdpoint_contracts::executor::DesiredChildRun;
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

pub(super) struct InMemoryRun<'s> {
    pub(super) setup: &'s RehearsalSetup,
    pub(super) now: DateTime<Utc>,
    pub(super) run: Option<Run>,
    /// Why the run did not start.
    pub(super) refused: Option<Problem>,
    pub(super) contact: Map<String, Value>,
    pub(super) recorder: Recorder,
    /// Dispatched steps that no worker has taken yet.
    pub(super) dispatched: VecDeque<StepDispatch>,
    /// Calls of each step so far.
    pub(super) calls: BTreeMap<String, u32>,
    pub(super) requests: BTreeMap<HoldId, OpenRequest>,
    /// Child runs that have not ended, each by its place.
    pub(super) children: VecDeque<DesiredChildRun>,
    contact_id: &'s ContactId,
    id: RunId,
    timers: BTreeMap<HoldId, (u64, DateTime<Utc>)>,
    values: BTreeMap<String, Arc<Value>>,
    generated_plan: Option<Arc<PlanFact>>,
    rows: BTreeMap<String, StepRow>,
    activities: Vec<Activity>,
    /// Memory of the values, rows, activities and requests that were kept so far, as an estimate.
    kept_bytes: usize,
    /// The limit that ended the rehearsal before the run.
    pub(super) stopped_by: Option<RehearsalLimit>,
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
            run: None,
            refused: None,
            contact: contact.fields.clone(),
            recorder: Recorder::default(),
            dispatched: VecDeque::new(),
            calls: BTreeMap::new(),
            requests: BTreeMap::new(),
            children: VecDeque::new(),
            contact_id: &contact.id,
            id,
            timers: BTreeMap::new(),
            values: BTreeMap::new(),
            generated_plan: None,
            rows: BTreeMap::new(),
            activities: Vec::new(),
            kept_bytes: 0,
            stopped_by: None,
        }
    }

    /// The plan of its agent, or the one that its planner made.
    pub(super) fn plan(&self) -> &Plan {
        let plan = self.generated_plan.as_ref();
        &plan.unwrap_or(&self.setup.plan).plan
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
        self.refused = self.give(input).err();
    }

    /// Applies a change that comes from outside of the run. A run that does not take it is unchanged.
    pub(super) fn change(&mut self, change: ExternalChange) {
        let input = match change {
            ExternalChange::Contact(set) => {
                self.contact = merge_patch(&self.contact, &set);
                self.contact.shift_remove("id");
                RunInput::ContactReplied
            }
            ExternalChange::Signal(signal) => RunInput::Signal {
                by: Actor(ACTOR.to_owned()),
                signal,
            },
        };
        drop(self.give(input));
    }

    /// Whether a call waits for a worker, or a child run has not ended.
    pub(super) fn has_work(&self) -> bool {
        !self.dispatched.is_empty() || !self.children.is_empty()
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
                drop(self.give(RunInput::TimerFired { hold, rev }));
                Ok(())
            }
            Some((_, Due::Request(hold))) => self.act_on_request(hold),
            None => Ok(()),
        }
    }

    /// Gives one input to the run, and keeps what comes of it. A refusal changes nothing.
    pub(super) fn give(&mut self, input: RunInput) -> Result<Reply, Problem> {
        let input = Input::Run {
            workspace: self.setup.workspace.clone(),
            run: self.id,
            input,
        };
        let state = self.run.take().map(Aggregate::Run);
        let outcome = decide(state.as_ref(), &input, &|need| self.find(need), self.now);
        self.run = state.and_then(Aggregate::try_as_run);
        match outcome {
            Ok(Outcome::Decided(decided)) => {
                if let Aggregate::Run(run) = decided.state {
                    self.run = Some(run);
                }
                self.keep(decided.effects);
                Ok(decided.reply)
            }
            Ok(Outcome::Unchanged(reply)) => Ok(reply),
            Err(Undecided::Refused(refusal)) => Err(refusal.problem()),
            // Everything is found or missing.
            Err(Undecided::NeedsMore(_)) => Err(Problem::internal()),
        }
    }

    fn find(&self, need: &Need) -> Lookup {
        self.fact(need).map_or(Lookup::Missing, Lookup::Found)
    }

    fn fact(&self, need: &Need) -> Option<Fact> {
        match need {
            Need::State(Key::Agent(..)) => Some(Fact::Agent(Arc::new(self.setup.agent.clone()))),
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
            Need::Plan(..) => Some(Fact::Plan(Arc::clone(&self.setup.plan))),
            Need::GeneratedPlan(_) => self.generated_plan.clone().map(Fact::Plan),
            Need::Value(_, name) => self.values.get(name).cloned().map(Fact::Value),
            Need::Request(_, step) => {
                let request = self.rows.get(step)?.request.clone()?;
                Some(Fact::Value(Arc::new(request)))
            }
            Need::FailedAttempts(_, step) => {
                let failed = &self.rows.get(step)?.failed_attempts;
                Some(Fact::Value(Arc::new(json!(failed))))
            }
            Need::Activities(..) => Some(Fact::Value(Arc::new(json!(self.contact_activity())))),
            Need::ToolCalls(_) => {
                let calls = self.rows.values().cloned().flat_map(calls_of_row);
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

    fn keep(&mut self, effects: Vec<Effect>) {
        let mut sent = Vec::new();
        for effect in effects {
            match effect {
                Effect::Value { name, value, .. } => {
                    self.kept_bytes = self.kept_bytes.saturating_add(memory_of(&value));
                    if name == GENERATED_PLAN {
                        let plan = serde_json::from_value(Value::clone(&value)).ok();
                        self.generated_plan = plan.map(|plan| Arc::new(PlanFact::new(plan)));
                    }
                    self.values.insert(name, value);
                }
                Effect::Activity { activity, .. } => self.keep_activity(activity),
                Effect::Step(row) => self.keep_row(*row),
                Effect::Timer { hold, rev, due, .. } => match due {
                    Some(due) => drop(self.timers.insert(hold, (rev, due))),
                    None => drop(self.timers.remove(&hold)),
                },
                Effect::StepDispatch(dispatch) => {
                    let row = self.rows.get(&dispatch.step);
                    sent.push(Recorder::call(&dispatch, row));
                    self.dispatched.push_back(*dispatch);
                }
                Effect::Hold { desired_state, .. } => sent.extend(self.keep_hold(*desired_state)),
                Effect::ChildRun { desired_state, .. } => {
                    sent.extend(self.keep_child(*desired_state));
                }
                Effect::History { items, .. } => self.recorder.record(items),
                // Of these, nothing comes back to the run.
                Effect::AgentVersion { .. }
                | Effect::ForgetActivities { .. }
                | Effect::EraseContactTraces { .. }
                | Effect::ErasurePending
                | Effect::DeleteRun { .. }
                | Effect::RunEnded { .. }
                | Effect::ContactEvent { .. }
                | Effect::ContactFields { .. }
                | Effect::ChildRunEnded { .. }
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
        self.recorder.attach(sent, self.now);
    }

    pub(super) fn keep_activity(&mut self, activity: Activity) {
        self.count_memory(json_bytes(&activity));
        self.activities.push(activity);
    }

    pub(super) const fn count_memory(&mut self, bytes: usize) {
        self.kept_bytes = self.kept_bytes.saturating_add(bytes);
    }

    /// Stores the row of a step. Unset fields keep their value.
    fn keep_row(&mut self, mut row: StepRow) {
        let request = row.request.as_ref().map_or(0, memory_of);
        let response = row.response.as_ref();
        let bytes = request + response.map_or(0, |response| memory_of(&response.data));
        self.kept_bytes = self.kept_bytes.saturating_add(bytes);
        let old = self.rows.remove(&row.step);
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
        self.rows.insert(row.step.clone(), row);
    }
}
