//! A scripted worker. It pulls a step, asks for a grant, does the effect and reports, and may die at any point.
//!
//! It follows `shared/worker`. A fresh first delivery of an idempotent step starts at once; all others ask. The
//! delivery is acked with the grant, and heartbeats keep the lease from then on. A result is kept until the executor
//! acknowledges it. Each start of the process has a new name.

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
use holdpoint_contracts::suspension::{SuspendSteps, SuspendedStep};
use holdpoint_executor::Executor;
use holdpoint_ids::{NodeName, RunId, Workspace};
use serde_json::{Value, json};

use crate::bus::Delivery;
use crate::features::Feature;
use crate::plans::DRAFTS;
use crate::service::{Env, Mutation, SimService};
use crate::world::acme;

/// Until an unacked step is redelivered.
const ACK_WAIT: TimeDelta = TimeDelta::seconds(2);

/// The arguments of each effect of a step that was seen outside.
pub(crate) type Effects = BTreeMap<(RunId, String), Vec<Value>>;

/// A worker process.
pub(crate) struct SimWorker {
    place: usize,
    starts: u32,
    jobs: Vec<Job>,
    /// Dispatches that this process has started. A crashed server may undo their acks and redeliver them with the
    /// same count.
    started: BTreeSet<StepRef>,
    /// Whether a start of it had to wait for the user directory.
    pub(crate) awaited_users: bool,
}

struct Job {
    step_ref: StepRef,
    step_dispatch: StepDispatch,
    /// The first delivery. The worker asks for a grant with its count.
    delivery: Delivery,
    /// `None`: the delivery is acked.
    unacked: Option<u64>,
    stage: Stage,
    /// Its result is in the stream, and the worker forgets it.
    is_left: bool,
    /// Whether its tool fails.
    fails: bool,
    /// Whether its tool asks a person first and parks.
    asks: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Held,
    Granted,
    /// Its tool has asked a person.
    Parked,
    Done,
}

impl SimWorker {
    pub(crate) fn new(place: usize) -> Self {
        Self {
            place,
            starts: 1,
            jobs: Vec::new(),
            started: BTreeSet::new(),
            awaited_users: false,
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

    /// Dies with all its jobs, and starts again.
    pub(crate) fn die(&mut self) {
        self.jobs.clear();
        self.started.clear();
        self.starts += 1;
    }

    /// Deregisters, and starts again.
    pub(crate) fn leave(&mut self, executor: &mut SimService<Executor>, env: &mut Env<'_>) {
        if env.features.has(Feature::Suspending) {
            self.suspend_steps(executor, env);
        }
        let deregister = Deregister { node: self.name() };
        let _lost = self.ask(&acme(), deregister, executor, env);
        self.die();
    }

    /// Reports the steps whose tools it stops.
    fn suspend_steps(&self, executor: &mut SimService<Executor>, env: &mut Env<'_>) {
        let granted = self.jobs.iter().filter(|job| job.unacked.is_none());
        let stopped = granted.filter(|job| job.stage == Stage::Granted);
        let steps: Vec<_> = stopped
            .map(|job| SuspendedStep {
                run: job.step_ref.run,
                step: job.step_ref.step.clone(),
                dispatch: job.step_ref.dispatch,
                shutdown: true,
                stopped: true,
                supplement: None,
            })
            .collect();
        if !steps.is_empty() {
            let node = self.name();
            let _lost = self.ask(&acme(), SuspendSteps { node, steps }, executor, env);
        }
    }

    /// Extends the ack wait of its unacked deliveries.
    pub(crate) fn progress(&self, env: &mut Env<'_>) {
        for seq in self.jobs.iter().filter_map(|job| job.unacked) {
            env.bus.progress(seq, env.now, ACK_WAIT);
        }
    }

    /// Renews its leases, and stops steps whose lease it has lost.
    pub(crate) fn heartbeat(&mut self, executor: &mut SimService<Executor>, env: &mut Env<'_>) {
        let granted = self.jobs.iter().filter(|job| job.unacked.is_none());
        let working: Vec<_> = granted.map(|job| job.step_ref.clone()).collect();
        let heartbeat = Heartbeat {
            node: self.name(),
            tools: Vec::new(),
            working,
            queue_depth: 0,
            lease_ms: LEASE_DEFAULT_MS,
        };
        let Some(reply) = self.ask(&acme(), heartbeat, executor, env) else {
            return;
        };
        let answer: HeartbeatReply = serde_json::from_value(reply["ok"].clone()).unwrap();
        // A tool that has done its effect cannot be stopped.
        let is_stopped =
            |job: &Job| job.stage == Stage::Granted && answer.stop.contains(&job.step_ref);
        self.jobs.retain(|job| !is_stopped(job));
    }

    /// Takes one delivery. False: there is none.
    pub(crate) fn pull(&mut self, env: &mut Env<'_>) -> bool {
        let chance = env.chaos.then_some(&mut *env.chance);
        let Some(delivery) = env.bus.pull(subject::STEPS, env.now, ACK_WAIT, chance) else {
            return false;
        };
        let step_dispatch: StepDispatch = serde_json::from_str(&delivery.body).unwrap();
        let step_ref = StepRef {
            workspace: step_dispatch.workspace.clone(),
            run: step_dispatch.run,
            step: step_dispatch.step.clone(),
            dispatch: step_dispatch.dispatch,
        };
        if let Some(job) = self.jobs.iter_mut().find(|job| job.step_ref == step_ref) {
            // The job counted as lost and goes on. It acks the newer delivery.
            match &mut job.unacked {
                Some(seq) => *seq = delivery.seq,
                None => env.bus.ack(delivery.seq),
            }
        } else if self.started.contains(&step_ref) {
            env.bus.ack(delivery.seq);
        } else {
            let features = env.features;
            let fails = match features.has_reviews() {
                true => env.chance.one_in(5),
                false => features.has(Feature::Failing) && env.chance.one_in(15),
            };
            let asks = features.has(Feature::Asking) && env.chance.one_in(6);
            self.jobs.push(Job {
                fails,
                asks: asks && step_dispatch.token.is_some() && step_dispatch.answers.is_empty(),
                step_ref,
                step_dispatch,
                unacked: Some(delivery.seq),
                delivery,
                stage: Stage::Held,
                is_left: false,
            });
        }
        true
    }

    /// Advances one job. False: there is none.
    pub(crate) fn work(
        &mut self,
        executor: &mut SimService<Executor>,
        effects: &mut Effects,
        env: &mut Env<'_>,
    ) -> bool {
        if self.jobs.is_empty() {
            return false;
        }
        let place = env.chance.place(self.jobs.len());
        let stage = match self.jobs[place].stage {
            Stage::Held => self.start(place, executor, env),
            Stage::Granted if self.jobs[place].asks => self.ask_people(place, executor, env),
            Stage::Granted => {
                let step_dispatch = &self.jobs[place].step_dispatch;
                let key = (step_dispatch.run, step_dispatch.step.clone());
                let done = effects.entry(key).or_default();
                done.push(step_dispatch.args.clone());
                Some(Stage::Done)
            }
            Stage::Parked | Stage::Done => self.report(place, executor, env),
        };
        let job = &mut self.jobs[place];
        if let Some(stage) = stage {
            job.stage = stage;
            return true;
        }
        let job = self.jobs.swap_remove(place);
        // The stream may lose a result that was left to it. Without a lease the same dispatch comes again.
        if !job.is_left {
            self.mark_started(&job.step_ref, env);
        }
        if let Some(seq) = job.unacked {
            env.bus.ack(seq);
        }
        true
    }

    fn mark_started(&mut self, step_ref: &StepRef, env: &Env<'_>) {
        if env.mutation != Mutation::ForgetStartedSteps {
            self.started.insert(step_ref.clone());
        }
    }

    /// `None`: the job is dropped.
    fn start(
        &mut self,
        place: usize,
        executor: &mut SimService<Executor>,
        env: &mut Env<'_>,
    ) -> Option<Stage> {
        let Job {
            step_dispatch,
            delivery,
            ..
        } = &self.jobs[place];
        let age = env.now - delivery.stored_at;
        let needs_no_lease = step_dispatch.idempotent && delivery.count <= 1;
        let is_fresh = age <= TimeDelta::seconds(1);
        if (needs_no_lease && is_fresh) || env.mutation == Mutation::StartWithoutGrant {
            return Some(Stage::Granted);
        }
        let request = StartSteps {
            node: self.name(),
            steps: vec![StartStep {
                run: step_dispatch.run,
                step: step_dispatch.step.clone(),
                dispatch: step_dispatch.dispatch,
                delivery: delivery.count,
                without_lease: needs_no_lease,
                high_risk: false,
                idempotent: false,
            }],
        };
        let Some(reply) = self.ask(&acme(), request, executor, env) else {
            return Some(Stage::Held);
        };
        let text = reply["ok"][0]["problem"]["detail"].as_str();
        if text.is_some_and(|text| text.contains("has not confirmed the users")) {
            self.awaited_users = true;
            return Some(Stage::Held);
        }
        match reply["ok"][0]["ok"].as_str() {
            Some("go") => {}
            Some("go_without_lease") => return Some(Stage::Granted),
            Some(_) | None => return None,
        }
        let job = &mut self.jobs[place];
        let step_ref = job.step_ref.clone();
        if let Some(seq) = job.unacked.take() {
            env.bus.ack(seq);
        }
        self.mark_started(&step_ref, env);
        Some(Stage::Granted)
    }

    /// The tool asks a person and parks once the question is stored. A refused tool fails. Its question may be
    /// stored all the same, and then another dispatch continues with the answer.
    fn ask_people(
        &mut self,
        place: usize,
        executor: &mut SimService<Executor>,
        env: &mut Env<'_>,
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
        let Some(reply) = self.ask(&acme(), command, executor, env) else {
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

    /// `None`: the result is acknowledged or in the stream.
    fn report(
        &mut self,
        place: usize,
        executor: &mut SimService<Executor>,
        env: &mut Env<'_>,
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
                    data: result_of(step_dispatch),
                    duration_ms: 5,
                },
                error_code: None,
                cost: None,
                parks: stage == Stage::Parked,
            }],
        };
        if env.chaos && env.chance.one_in(4) {
            // The stream may lose a result, so the worker asks until it is acknowledged. A worker without room for
            // it leaves it to the stream.
            let subject = command.subject(&step_dispatch.workspace);
            let body = self.envelope(command);
            env.bus.publish(&subject, body, None, env.now);
            self.jobs[place].is_left = env.chance.one_in(2);
            return (!self.jobs[place].is_left).then_some(stage);
        }
        match self.ask(&acme(), command, executor, env) {
            Some(_) => None,
            None => Some(stage),
        }
    }

    fn ask<C: Command>(
        &self,
        workspace: &Workspace,
        command: C,
        executor: &mut SimService<Executor>,
        env: &mut Env<'_>,
    ) -> Option<Value> {
        let subject = command.ask_subject(workspace);
        executor.ask(&subject, &self.envelope(command), env)
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

/// A draft says which one it is.
fn result_of(step_dispatch: &StepDispatch) -> Value {
    let feedback = step_dispatch.feedback.as_ref();
    match step_dispatch.tool.as_str() {
        DRAFTS => json!({ "text": format!("draft {}", feedback.map_or(0, |it| it.revision)) }),
        _ => json!({}),
    }
}
