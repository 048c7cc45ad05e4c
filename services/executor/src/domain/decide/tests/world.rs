//! A run, all that a decision on it can look at, and the checks that hold after every decision.

mod asking;
mod blobs;
mod checks;
mod inputs;
mod keeping;
mod lookup;
mod starting;

pub(super) use inputs::{
    child_end, closing, handoff_event, pause_input, scheduled_start, start_input,
};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::contact::Activity;
use holdpoint_contracts::executor::{ChildRunEnd, DesiredChildRun, PauseWaiting, TimerReply};
use holdpoint_contracts::history::{EventType, HistoryItem};
use holdpoint_contracts::hold::{CloseReply, HoldOutcome, HoldState};
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::notification::RunEnded;
use holdpoint_contracts::run::{ActionResult, LeaseEvent, ResumeMode, RunStatus, RunView};
use holdpoint_contracts::steps::{Grant, ResultReply, StepDispatch};
use holdpoint_contracts::suspension::SnapshotView;
use holdpoint_ids::{HoldId, RunId, Workspace};
use serde_json::{Value, json};

use self::blobs::StoredBlobs;
use crate::domain::decision::{Decision, Lookup, Outcome, Undecided};
use crate::domain::need::Places;
use crate::domain::plan::Plan;
use crate::domain::run::{LimitRow, Run, Step, StepPhase};
use crate::domain::scope::{EndsWatch, Scope, WorkspaceScope};
use crate::domain::{
    Aggregate, DeliveredStep, Fact, Input, KnownUser, Lease, Need, PlanFact, Refusal, Reply,
    RunFact, RunInput, StepReport, StepRow, Tool, decide,
};

/// How often one decision may ask for more; the kernel gives up soon after.
const ROUNDS_MAX: usize = 3;

/// What came of one input.
#[derive(Debug)]
pub(super) enum Heard {
    Decided(Reply),
    Unchanged(Reply),
    Refused(Refusal),
}

/// The run under test and what is around it.
#[derive(Clone)]
pub(super) struct World {
    pub(super) now: DateTime<Utc>,
    pub(super) run: Option<Run>,
    pub(super) contact: Option<Value>,
    pub(super) has_agent: bool,
    /// What was commanded for all runs of the agent.
    pub(super) agent_scope: Scope,
    /// Whether somebody watches the agent.
    pub(super) agent_watch: EndsWatch,
    /// What the notification service was told of its end.
    pub(super) ended: Vec<RunEnded>,
    /// What was commanded for the whole workspace.
    pub(super) workspace_scope: Option<WorkspaceScope>,
    /// What the scheduler was told, as it would keep it: an older desired state changes nothing.
    pub(super) timers: BTreeMap<HoldId, (u64, Option<DateTime<Utc>>)>,
    /// Everything that was dispatched, in order.
    pub(super) handed: Vec<StepDispatch>,
    pub(super) history: Vec<HistoryItem>,
    /// What the handoff service was told of each hold on people.
    pub(super) holds: BTreeMap<HoldId, (u64, HoldState)>,
    /// The leases that stand, by step.
    pub(super) leases: BTreeMap<String, Lease>,
    /// Who had which step, in order.
    pub(super) claims: Vec<(String, LeaseEvent)>,
    /// Tools that are registered.
    pub(super) tools: Vec<Tool>,
    /// Any run besides the one under test.
    pub(super) other_run: Option<RunFact>,
    /// The user directory.
    pub(super) users: BTreeMap<String, Arc<KnownUser>>,
    /// How old its copy can be; none: never confirmed.
    pub(super) directory_age: Option<Duration>,
    /// The holds that a person approved.
    pub(super) approved: BTreeSet<HoldId>,
    /// What is known of the contact's past: a list.
    pub(super) activities: Value,
    pub(super) older: u64,
    /// What the run says of its contact, once an id.
    pub(super) said: BTreeMap<String, Activity>,
    pub(super) rows: BTreeMap<String, StepRow>,
    /// The stored snapshot.
    pub(super) snapshot: Option<SnapshotView>,
    pub(super) blobs: StoredBlobs,
    /// Nodes that were asked for a heartbeat, in order.
    pub(super) probed: Vec<String>,
    /// Every decision's effects, as text.
    pub(super) trace: Vec<String>,
    /// Its row of limits.
    pub(super) limits: Option<LimitRow>,
    /// The keys whose queued runs were woken.
    pub(super) freed: Vec<String>,
    /// Other runs that hold or want its place.
    pub(super) places: Places,
    /// Earlier starts of its agent.
    pub(super) starts: Vec<(u64, DateTime<Utc>)>,
    pub(super) started_once: Option<Arc<Run>>,
    /// What each child run was told last.
    pub(super) children: BTreeMap<RunId, DesiredChildRun>,
    /// Child runs whose end it has recorded.
    pub(super) ended_children: BTreeSet<RunId>,
    /// What the parent was told of its end.
    pub(super) child_ends: Vec<ChildRunEnd>,
    /// Of the run under test.
    pub(super) id: RunId,
    plan: Arc<PlanFact>,
    /// Version 4 of the agent, if there is one.
    pub(super) next_plan: Option<Arc<PlanFact>>,
    pub(super) values: BTreeMap<String, Arc<Value>>,
    /// During a batch of the kernel: the rows before it, and the facts of its decisions.
    batch: Option<Batch>,
    /// Hand-outs whose message was dropped: nobody brings them again.
    dropped: BTreeSet<(String, u64)>,
}

/// What the kernel finds during a batch.
#[derive(Clone)]
struct Batch {
    rows: BTreeMap<String, StepRow>,
    facts: Vec<(Need, Fact)>,
}

/// A user in the user directory.
pub(super) fn user(is_active: bool, roles: &[&str]) -> Arc<KnownUser> {
    Arc::new(KnownUser {
        is_active,
        roles: roles.iter().map(|role| role.parse().unwrap()).collect(),
    })
}

pub(super) fn owner() -> Actor {
    Actor("owner".to_owned())
}

pub(super) fn acme() -> Workspace {
    "acme".parse().unwrap()
}

pub(super) fn run_id() -> RunId {
    RunId::from_uuid(sea_orm::prelude::Uuid::from_u128(
        0x0192_0000_0000_7000_8000_0000_0000_0001,
    ))
}

pub(super) fn done(data: Value) -> ActionResult {
    ActionResult {
        success: true,
        description: "Done.".to_owned(),
        error: None,
        data,
        duration_ms: 7,
    }
}

pub(super) fn broken() -> ActionResult {
    ActionResult {
        success: false,
        description: "It did not work.".to_owned(),
        error: Some("The server answered 500.".to_owned()),
        data: Value::Null,
        duration_ms: 7,
    }
}

impl World {
    /// An agent with these steps (YAML), and a contact who has not replied.
    pub(super) fn of(steps: &str) -> Self {
        let text = format!("agent: outreach\nsteps:\n{steps}");
        Self::of_plan(Plan::compile(&text).unwrap_or_else(|errors| panic!("{errors:?}\n{text}")))
    }

    pub(super) fn of_plan(plan: Plan) -> Self {
        Self {
            now: "2026-03-02T09:00:00Z".parse().unwrap(),
            run: None,
            contact: Some(json!({ "id": "ada", "email": "ada@x.example", "replied": false })),
            has_agent: true,
            agent_scope: Scope::default(),
            agent_watch: EndsWatch::default(),
            ended: Vec::new(),
            workspace_scope: None,
            timers: BTreeMap::new(),
            handed: Vec::new(),
            history: Vec::new(),
            holds: BTreeMap::new(),
            leases: BTreeMap::new(),
            claims: Vec::new(),
            tools: Vec::new(),
            other_run: None,
            users: BTreeMap::from([("ada".to_owned(), user(true, &["member"]))]),
            directory_age: Some(Duration::ZERO),
            approved: BTreeSet::new(),
            activities: json!([]),
            older: 0,
            said: BTreeMap::new(),
            rows: BTreeMap::new(),
            snapshot: None,
            blobs: StoredBlobs::default(),
            probed: Vec::new(),
            trace: Vec::new(),
            limits: None,
            freed: Vec::new(),
            places: Places::default(),
            starts: Vec::new(),
            started_once: None,
            children: BTreeMap::new(),
            ended_children: BTreeSet::new(),
            child_ends: Vec::new(),
            id: run_id(),
            plan: Arc::new(PlanFact::new(plan)),
            next_plan: None,
            values: BTreeMap::new(),
            batch: None,
            dropped: BTreeSet::new(),
        }
    }

    /// The same, with the run started.
    pub(super) fn started(steps: &str) -> Self {
        let mut world = Self::of(steps);
        world.start();
        world
    }

    pub(super) fn start(&mut self) -> RunView {
        match self.give(start_input()) {
            Heard::Decided(Reply::Run(started)) => started.run,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn run(&self) -> &Run {
        self.run.as_ref().unwrap()
    }

    pub(super) fn view(&self) -> RunView {
        self.run().view(self.now)
    }

    pub(super) fn status(&self) -> RunStatus {
        self.run().status()
    }

    pub(super) fn step(&self, step: &str) -> &Step {
        let found = self.run().steps.iter().find(|one| one.id == step);
        found.unwrap_or_else(|| panic!("no step {step}"))
    }

    pub(super) fn phase(&self, step: &str) -> &StepPhase {
        &self.step(step).phase
    }

    pub(super) fn dispatch(&self, step: &str) -> u64 {
        self.step(step).dispatch
    }

    pub(super) fn pass(&mut self, length: TimeDelta) {
        self.now += length;
    }

    pub(super) fn pause(&mut self) -> Heard {
        self.give(pause_input())
    }

    pub(super) fn pause_as(&mut self, waiting: PauseWaiting) -> Heard {
        let by = owner();
        self.give(RunInput::Pause { by, waiting })
    }

    pub(super) fn resume(&mut self, mode: ResumeMode) -> Heard {
        self.give(RunInput::Resume {
            by: owner(),
            mode,
            step: None,
        })
    }

    pub(super) fn cancel(&mut self) -> Heard {
        let reason = Some("no longer needed".to_owned());
        self.give(RunInput::Cancel {
            by: owner(),
            reason,
        })
    }

    /// The scheduler fires what it was told to, at its due time.
    pub(super) fn fire_next(&mut self) -> Option<TimerReply> {
        let set = self.timers.iter();
        let set = set.filter_map(|(hold, (rev, due))| Some((due.as_ref()?, *hold, *rev)));
        let (due, hold, rev) = set.min()?;
        self.now = self.now.max(*due);
        Some(self.fire(hold, rev))
    }

    pub(super) fn fire(&mut self, hold: HoldId, rev: u64) -> TimerReply {
        match self.give(RunInput::TimerFired { hold, rev }) {
            Heard::Decided(Reply::Timer(answer)) | Heard::Unchanged(Reply::Timer(answer)) => answer,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn report(&mut self, step: &str, result: ActionResult) -> ResultReply {
        self.report_as(step, self.dispatch(step), result)
    }

    pub(super) fn report_as(
        &mut self,
        step: &str,
        dispatch: u64,
        result: ActionResult,
    ) -> ResultReply {
        let input = RunInput::StepResult(StepReport {
            cost: None,
            node: "node-a".parse().unwrap(),
            step: step.to_owned(),
            dispatch,
            error_code: (!result.success).then(|| "http_status".to_owned()),
            result,
        });
        match self.give(input) {
            Heard::Decided(Reply::Result(answer)) | Heard::Unchanged(Reply::Result(answer)) => {
                answer
            }
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn events(&self) -> Vec<EventType> {
        self.history.iter().map(|item| item.kind).collect()
    }

    pub(super) fn event(&self, kind: EventType) -> &HistoryItem {
        let found = self.history.iter().rev().find(|item| item.kind == kind);
        found.unwrap_or_else(|| panic!("no {kind:?} in {:?}", self.events()))
    }

    /// Gives one input, keeps what comes of it, and checks all that must hold.
    pub(super) fn give(&mut self, input: RunInput) -> Heard {
        self.give_from(acme(), input)
    }

    pub(super) fn give_from(&mut self, workspace: Workspace, input: RunInput) -> Heard {
        let closing = match &input {
            RunInput::HoldClosed { hold, closing } if closing.outcome != HoldOutcome::TakenOver => {
                Some(*hold)
            }
            _ => None,
        };
        if let RunInput::HoldClosed { hold, closing } = &input
            && closing.outcome == HoldOutcome::Approved
        {
            self.approved.insert(*hold);
        }
        let asked_to_start = match &input {
            RunInput::StartStep(DeliveredStep { step, dispatch, .. }) => {
                Some((step.clone(), *dispatch))
            }
            _ => None,
        };
        // What has fired is over for the scheduler, whatever it is told.
        if let RunInput::TimerFired { hold, rev } = &input
            && let Some((sent, due)) = self.timers.get_mut(hold)
            && sent == rev
        {
            *due = None;
        }
        let input = Input::Run {
            workspace,
            run: self.id,
            input,
        };
        let heard = match self.decide(&input) {
            Ok(Outcome::Decided(decision)) => {
                let Aggregate::Run(next) = decision.state else {
                    panic!("a run became something else");
                };
                self.check_step(&next, &decision.effects);
                // What its owner has closed is over for the owner too.
                if let (Some(hold), Reply::Closed(CloseReply::Applied | CloseReply::RunEnded)) =
                    (closing, &decision.reply)
                    && !next.people().any(|(_, on)| on.id == hold)
                {
                    self.holds.remove(&hold);
                }
                self.record_child_ends(&next);
                if let Some(batch) = &mut self.batch {
                    batch.facts.extend(decision.facts);
                }
                self.run = Some(next);
                self.trace.push(format!("{:?}", decision.effects));
                self.keep(decision.effects);
                Heard::Decided(decision.reply)
            }
            Ok(Outcome::Unchanged(answer)) => {
                self.check_unchanged(&answer);
                Heard::Unchanged(answer)
            }
            Err(Undecided::Refused(refusal)) => Heard::Refused(refusal),
            Err(Undecided::NeedsMore(needs)) => panic!("still needs {needs:?}"),
        };
        if let (
            Heard::Decided(Reply::Grant(Grant::Drop)) | Heard::Unchanged(Reply::Grant(Grant::Drop)),
            Some(message),
        ) = (&heard, asked_to_start)
        {
            // A number that was never dispatched is nobody's message.
            let was_out = |one: &StepDispatch| (&one.step, one.dispatch) == (&message.0, message.1);
            if self.handed.iter().any(was_out) {
                self.dropped.insert(message);
            }
        }
        self.check_state();
        heard
    }

    /// Asks as the kernel does: nothing is known until it was asked for.
    fn decide(&self, input: &Input) -> Decision {
        let state = self.run.clone().map(Aggregate::Run);
        let mut known = BTreeSet::new();
        let mut rounds = Vec::new();
        for _ in 0..=ROUNDS_MAX {
            let lookup = |need: &Need| match known.contains(need) {
                true => self.find(need),
                false => Lookup::NotLoaded,
            };
            match decide(state.as_ref(), input, &lookup, self.now) {
                Err(Undecided::NeedsMore(more)) => {
                    assert!(more.iter().any(|need| !known.contains(need)), "{more:?}");
                    rounds.push(more.clone());
                    known.extend(more);
                }
                verdict => return verdict,
            }
        }
        panic!("{input:?} asks for more again and again: {rounds:?}");
    }

    /// The node of a step falls silent, and its lease ends.
    pub(super) fn lose(&mut self, step: &str) -> Heard {
        let lease = self.leases.get(step).cloned();
        let lease = lease.unwrap_or_else(|| panic!("{step} has no lease"));
        self.give(RunInput::LeaseEnded {
            step: lease.step,
            dispatch: lease.dispatch,
            node: lease.node,
        })
    }
}
