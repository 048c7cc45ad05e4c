//! A scripted worker: pulls, asks where it must, does the effect, reports; dies at any point.
//!
//! It follows `shared/worker`: a fresh first delivery of an idempotent step may start at once, all
//! else asks; the delivery is acked with the grant, from where beats keep the lease; a result is
//! kept until the executor has confirmed it; each start of the process has a name of its own.

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;
use holdpoint_contracts::asking::RequestInput;
use holdpoint_contracts::message::{Actor, Command, Envelope};
use holdpoint_contracts::run::ActionResult;
use holdpoint_contracts::steps::{
    Deregister, Heartbeat, HeartbeatReply, LEASE_DEFAULT_MS, StartStep, StartSteps, StepDispatch,
    StepRef, StepResult, StepResults,
};
use holdpoint_contracts::subject;
use holdpoint_executor::Executor;
use holdpoint_ids::{NodeName, RunId, Workspace};
use serde_json::json;

use crate::bus::Delivery;
use crate::features::Feature;
use crate::service::{Around, Fault, SimService};
use crate::world::acme;

/// Until a step comes again that nobody holds.
const ACK_WAIT: TimeDelta = TimeDelta::seconds(2);

/// What happened outside: how often each step's effect was seen there.
pub(crate) type Effects = BTreeMap<(RunId, String), u32>;

/// A worker process.
pub(crate) struct SimWorker {
    place: usize,
    starts: u32,
    jobs: Vec<Job>,
    /// Hand-outs that this process was granted or is done with: a server that crashed may undo their
    /// acks and deliver them again with the same count.
    begun: BTreeSet<StepRef>,
}

struct Job {
    claimed: StepRef,
    step_dispatch: StepDispatch,
    /// As it was delivered first, which is what is asked about.
    delivery: Delivery,
    /// None once the delivery is acked.
    unacked: Option<u64>,
    stage: Stage,
    /// Its result is in the stream, and nobody asks what became of it.
    is_left: bool,
    /// Whether its tool says that it went wrong.
    fails: bool,
    /// Whether its tool asks people first, and parks.
    asks: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Held,
    Granted,
    /// It has asked people.
    Parked,
    Done,
}

impl SimWorker {
    pub(crate) fn new(place: usize) -> Self {
        Self {
            place,
            starts: 1,
            jobs: Vec::new(),
            begun: BTreeSet::new(),
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(crate) fn name(&self) -> NodeName {
        format!("node-{}-{}", self.place, self.starts)
            .parse()
            .unwrap()
    }

    /// Dies, with all that it held, and is started again.
    pub(crate) fn die(&mut self) {
        self.jobs.clear();
        self.begun.clear();
        self.starts += 1;
    }

    /// Leaves in good order, and is started again.
    pub(crate) fn leave(&mut self, executor: &mut SimService<Executor>, around: &mut Around<'_>) {
        let deregister = Deregister { node: self.name() };
        let _unheard = self.ask(&acme(), deregister, executor, around);
        self.die();
    }

    /// Keeps the deliveries that are not acked.
    pub(crate) fn progress(&self, around: &mut Around<'_>) {
        for seq in self.jobs.iter().filter_map(|job| job.unacked) {
            around.bus.progress(seq, around.now, ACK_WAIT);
        }
    }

    /// Tells the executor what it works on, and stops what is not its own any more.
    pub(crate) fn heartbeat(
        &mut self,
        executor: &mut SimService<Executor>,
        around: &mut Around<'_>,
    ) {
        let granted = self.jobs.iter().filter(|job| job.unacked.is_none());
        let working: Vec<_> = granted.map(|job| job.claimed.clone()).collect();
        let heartbeat = Heartbeat {
            node: self.name(),
            tools: Vec::new(),
            working,
            queue_depth: 0,
            lease_ms: LEASE_DEFAULT_MS,
        };
        let Some(reply) = self.ask(&acme(), heartbeat, executor, around) else {
            return;
        };
        let answer: HeartbeatReply = serde_json::from_value(reply["ok"].clone()).unwrap();
        // A tool may be past stopping.
        let is_stopped =
            |job: &Job| job.stage == Stage::Granted && answer.stop.contains(&job.claimed);
        self.jobs.retain(|job| !is_stopped(job));
    }

    /// Takes one delivery, if there is one.
    pub(crate) fn pull(&mut self, around: &mut Around<'_>) -> bool {
        let chance = around.cruel.then_some(&mut *around.chance);
        let Some(delivery) = around
            .bus
            .pull(subject::STEPS, around.now, ACK_WAIT, chance)
        else {
            return false;
        };
        let step_dispatch: StepDispatch = serde_json::from_str(&delivery.body).unwrap();
        let claimed = StepRef {
            workspace: step_dispatch.workspace.clone(),
            run: step_dispatch.run,
            step: step_dispatch.step.clone(),
            dispatch: step_dispatch.dispatch,
        };
        if let Some(job) = self.jobs.iter_mut().find(|job| job.claimed == claimed) {
            // It was thought lost and goes on; it answers the newer delivery.
            match &mut job.unacked {
                Some(seq) => *seq = delivery.seq,
                None => around.bus.ack(delivery.seq),
            }
        } else if self.begun.contains(&claimed) {
            around.bus.ack(delivery.seq);
        } else {
            let features = around.features;
            let fails = features.has(Feature::Failing) && around.chance.one_in(15);
            let asks = features.has(Feature::Asking) && around.chance.one_in(6);
            self.jobs.push(Job {
                fails,
                asks: asks && step_dispatch.token.is_some() && step_dispatch.answers.is_empty(),
                claimed,
                step_dispatch,
                unacked: Some(delivery.seq),
                delivery,
                stage: Stage::Held,
                is_left: false,
            });
        }
        true
    }

    /// Goes one step on with one job; false if it has none.
    pub(crate) fn work(
        &mut self,
        executor: &mut SimService<Executor>,
        effects: &mut Effects,
        around: &mut Around<'_>,
    ) -> bool {
        if self.jobs.is_empty() {
            return false;
        }
        let place = around.chance.place(self.jobs.len());
        let stage = match self.jobs[place].stage {
            Stage::Held => self.start(place, executor, around),
            Stage::Granted if self.jobs[place].asks => self.ask_people(place, executor, around),
            Stage::Granted => {
                let step_dispatch = &self.jobs[place].step_dispatch;
                let key = (step_dispatch.run, step_dispatch.step.clone());
                *effects.entry(key).or_default() += 1;
                Some(Stage::Done)
            }
            Stage::Parked | Stage::Done => self.report(place, executor, around),
        };
        let job = &mut self.jobs[place];
        if let Some(stage) = stage {
            job.stage = stage;
            return true;
        }
        let job = self.jobs.swap_remove(place);
        // What is left to the stream may be lost there: without a lease it is given out again as it was.
        if !job.is_left {
            self.begin(&job.claimed, around);
        }
        if let Some(seq) = job.unacked {
            around.bus.ack(seq);
        }
        true
    }

    fn begin(&mut self, claimed: &StepRef, around: &Around<'_>) {
        if around.fault != Fault::ForgetBegun {
            self.begun.insert(claimed.clone());
        }
    }

    /// None: forget it.
    fn start(
        &mut self,
        place: usize,
        executor: &mut SimService<Executor>,
        around: &mut Around<'_>,
    ) -> Option<Stage> {
        let Job {
            step_dispatch,
            delivery,
            ..
        } = &self.jobs[place];
        let age = around.now - delivery.stored_at;
        let needs_no_lease = step_dispatch.idempotent && delivery.count <= 1;
        let is_fresh = age <= TimeDelta::seconds(1);
        if (needs_no_lease && is_fresh) || around.fault == Fault::NeverAsk {
            return Some(Stage::Granted);
        }
        let asked = StartSteps {
            node: self.name(),
            steps: vec![StartStep {
                run: step_dispatch.run,
                step: step_dispatch.step.clone(),
                dispatch: step_dispatch.dispatch,
                delivery: delivery.count,
                without_lease: needs_no_lease,
            }],
        };
        let Some(reply) = self.ask(&acme(), asked, executor, around) else {
            return Some(Stage::Held);
        };
        match reply["ok"][0]["ok"].as_str() {
            Some("go") => {}
            Some("go_without_lease") => return Some(Stage::Granted),
            Some(_) | None => return None,
        }
        let job = &mut self.jobs[place];
        let claimed = job.claimed.clone();
        if let Some(seq) = job.unacked.take() {
            around.bus.ack(seq);
        }
        self.begin(&claimed, around);
        Some(Stage::Granted)
    }

    /// The tool asks people, and parks once that is stored. Where it may not ask it fails: perhaps its
    /// question is stored, and another dispatch goes on with the answer.
    fn ask_people(
        &mut self,
        place: usize,
        executor: &mut SimService<Executor>,
        around: &mut Around<'_>,
    ) -> Option<Stage> {
        let StepDispatch { run, token, .. } = self.jobs[place].step_dispatch.clone();
        let question = json!({ "question": "Really?", "options": ["yes", "no"], "mode": "park" });
        let command = RequestInput {
            run,
            step: None,
            dispatch: None,
            token,
            question: serde_json::from_value(question).unwrap(),
        };
        let Some(reply) = self.ask(&acme(), command, executor, around) else {
            return Some(Stage::Granted);
        };
        let job = &mut self.jobs[place];
        job.asks = false;
        if reply.get("ok").is_some() {
            return Some(Stage::Parked);
        }
        job.fails = true;
        Some(Stage::Done)
    }

    /// None: the result is confirmed, or stored.
    fn report(
        &mut self,
        place: usize,
        executor: &mut SimService<Executor>,
        around: &mut Around<'_>,
    ) -> Option<Stage> {
        let Job {
            step_dispatch,
            fails,
            stage,
            ..
        } = &self.jobs[place];
        let (stage, success) = (*stage, !fails);
        let command = StepResults {
            node: self.name(),
            results: vec![StepResult {
                run: step_dispatch.run,
                step: step_dispatch.step.clone(),
                dispatch: step_dispatch.dispatch,
                result: ActionResult {
                    success,
                    description: "It has ended.".to_owned(),
                    error: fails.then(|| "It went wrong.".to_owned()),
                    data: json!({}),
                    duration_ms: 5,
                },
                error_code: None,
                parks: stage == Stage::Parked,
            }],
        };
        if around.cruel && around.chance.one_in(4) {
            // Stored, and asked about until it is confirmed: the stream may lose it. Where there is
            // no room to remember it, it is left to the stream.
            let subject = command.subject(&step_dispatch.workspace);
            let body = self.envelope(command);
            around.bus.publish(&subject, body, None, around.now);
            self.jobs[place].is_left = around.chance.one_in(2);
            return (!self.jobs[place].is_left).then_some(stage);
        }
        match self.ask(&acme(), command, executor, around) {
            Some(_) => None,
            None => Some(stage),
        }
    }

    fn ask<C: Command>(
        &self,
        workspace: &Workspace,
        command: C,
        executor: &mut SimService<Executor>,
        around: &mut Around<'_>,
    ) -> Option<serde_json::Value> {
        let subject = command.ask_subject(workspace);
        executor.ask(&subject, &self.envelope(command), around)
    }

    fn envelope<C: Command>(&self, command: C) -> String {
        let envelope = Envelope {
            actor: Actor(format!("node:{}", self.name())),
            assertion: None,
            key: None,
            command,
        };
        serde_json::to_string(&envelope).unwrap()
    }
}
