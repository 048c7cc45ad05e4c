//! A scripted worker: pulls, asks where it must, does the effect, reports; dies at any point.
//!
//! It follows `shared/worker`: a fresh first delivery of an idempotent step may start at once, all
//! else asks; the delivery is acked once the result is safe; each start has a name of its own.

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;
use holdpoint_contracts::message::{Actor, Command, Envelope};
use holdpoint_contracts::run::ActionResult;
use holdpoint_contracts::steps::{HandOut, StartStep, StartSteps, StepResult, StepResults};
use holdpoint_contracts::subject;
use holdpoint_executor::Executor;
use holdpoint_ids::{NodeName, RunId};
use serde_json::json;

use crate::bus::Delivery;
use crate::service::{Around, Fault, SimService};

/// Until a step comes again that nobody holds.
const ACK_WAIT: TimeDelta = TimeDelta::seconds(2);

/// What happened outside: how often each step's effect was seen there.
pub(crate) type Effects = BTreeMap<(RunId, String), u32>;

/// A worker process.
pub(crate) struct SimWorker {
    place: usize,
    starts: u32,
    jobs: Vec<Job>,
    /// Hand-outs that this process has done: their delivery may come again with the same count, when
    /// a server that crashed undoes acks, while the result still waits in the command stream.
    done: BTreeSet<(RunId, String, u64)>,
}

struct Job {
    hand_out: HandOut,
    delivery: Delivery,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Held,
    Granted,
    Done,
}

impl SimWorker {
    pub(crate) fn new(place: usize) -> Self {
        Self {
            place,
            starts: 1,
            jobs: Vec::new(),
            done: BTreeSet::new(),
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }

    fn name(&self) -> NodeName {
        format!("node-{}-{}", self.place, self.starts)
            .parse()
            .unwrap()
    }

    /// Dies, with all that it held, and is started again.
    pub(crate) fn die(&mut self) {
        self.jobs.clear();
        self.done.clear();
        self.starts += 1;
    }

    /// Says of all that it holds that it is at it.
    pub(crate) fn beat(&self, around: &mut Around<'_>) {
        for job in &self.jobs {
            around.bus.progress(job.delivery.seq, around.now, ACK_WAIT);
        }
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
        let hand_out: HandOut = serde_json::from_str(&delivery.body).unwrap();
        let is_same = |job: &&mut Job| {
            (job.hand_out.run, &job.hand_out.step, job.hand_out.dispatch)
                == (hand_out.run, &hand_out.step, hand_out.dispatch)
        };
        // It was thought lost and goes on; it answers the newer delivery.
        if let Some(job) = self.jobs.iter_mut().find(is_same) {
            job.delivery = delivery;
            return true;
        }
        let key = (hand_out.run, hand_out.step.clone(), hand_out.dispatch);
        if self.done.contains(&key) {
            around.bus.ack(delivery.seq);
            return true;
        }
        self.jobs.push(Job {
            hand_out,
            delivery,
            stage: Stage::Held,
        });
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
            Stage::Granted => {
                let hand_out = &self.jobs[place].hand_out;
                *effects
                    .entry((hand_out.run, hand_out.step.clone()))
                    .or_default() += 1;
                if around.fault != Fault::ForgetDone {
                    let key = (hand_out.run, hand_out.step.clone(), hand_out.dispatch);
                    self.done.insert(key);
                }
                Some(Stage::Done)
            }
            Stage::Done => self.report(place, executor, around),
        };
        match stage {
            Some(stage) => self.jobs[place].stage = stage,
            None => {
                let job = self.jobs.swap_remove(place);
                around.bus.ack(job.delivery.seq);
            }
        }
        true
    }

    /// None: forget it.
    fn start(
        &self,
        place: usize,
        executor: &mut SimService<Executor>,
        around: &mut Around<'_>,
    ) -> Option<Stage> {
        let Job {
            hand_out, delivery, ..
        } = &self.jobs[place];
        let age = around.now - delivery.stored_at;
        let is_fresh = delivery.count <= 1 && age <= TimeDelta::seconds(1);
        if (hand_out.idempotent && is_fresh) || around.fault == Fault::NeverAsk {
            return Some(Stage::Granted);
        }
        let asked = StartSteps {
            node: self.name(),
            steps: vec![StartStep {
                run: hand_out.run,
                step: hand_out.step.clone(),
                dispatch: hand_out.dispatch,
                delivery: delivery.count,
            }],
        };
        let Some(reply) = self.ask(hand_out, asked, executor, around) else {
            return Some(Stage::Held);
        };
        (reply["ok"][0]["ok"] == json!("go")).then_some(Stage::Granted)
    }

    /// None: the result is safe.
    fn report(
        &self,
        place: usize,
        executor: &mut SimService<Executor>,
        around: &mut Around<'_>,
    ) -> Option<Stage> {
        let Job { hand_out, .. } = &self.jobs[place];
        let command = StepResults {
            node: self.name(),
            results: vec![StepResult {
                run: hand_out.run,
                step: hand_out.step.clone(),
                dispatch: hand_out.dispatch,
                result: ActionResult {
                    success: true,
                    description: "Done.".to_owned(),
                    error: None,
                    data: json!({}),
                    duration_ms: 5,
                },
                error_code: None,
            }],
        };
        if around.chance.one_in(4) {
            let subject = command.subject(&hand_out.workspace);
            let body = self.envelope(command);
            around.bus.publish(&subject, body, None, around.now);
            return None;
        }
        match self.ask(hand_out, command, executor, around) {
            Some(_) => None,
            None => Some(Stage::Done),
        }
    }

    fn ask<C: Command>(
        &self,
        hand_out: &HandOut,
        command: C,
        executor: &mut SimService<Executor>,
        around: &mut Around<'_>,
    ) -> Option<serde_json::Value> {
        let subject = command.ask_subject(&hand_out.workspace);
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
