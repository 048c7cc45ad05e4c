//! Asks the executor whether delivered steps may start (S4-R2).
//!
//! Owns the request and what its answer means for the delivery. It must never turn silence into a
//! yes, and never into a no: a silent executor may have granted the start.

use std::time::Duration;

use holdpoint_bus::{Bus, REQUEST_TIMEOUT};
use holdpoint_contracts::message::{Envelope, Reply};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::steps::{Grant, StartStep, StartSteps};
use holdpoint_ids::{NodeName, Workspace};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::batch::{self, Item};

/// Questions that may wait for the next request; more wait at the sender.
const WAITING_MAX: usize = 256;

/// About the length of one question as JSON.
const BYTES: usize = 200;

/// A refusal that takes longer than this may be the silence of somebody who has granted it.
const SILENCE: Duration = Duration::from_secs(1);

/// How long to wait before asking again under the same delivery.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// Shortest wait for an answer.
const PATIENCE_MIN: Duration = Duration::from_millis(300);

/// What is to be done with a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// The start is a committed row: call the tool.
    Start,
    /// Call the tool as if nobody had to be asked yet.
    StartWithoutLease,
    /// Not wanted any more, or for a person to decide: ack it.
    Forget,
    /// Nobody could say: give it back, it comes again.
    Later,
}

#[derive(Clone)]
pub(super) struct Asker {
    questions: mpsc::Sender<Item<Question>>,
}

struct Question {
    step: StartStep,
    lease: Duration,
    answer: oneshot::Sender<Heard>,
}

#[derive(Clone, Copy)]
enum Heard {
    Word(Word),
    /// No answer came: the start may have been granted all the same.
    Silence,
}

impl Asker {
    /// The asker and its task, which ends after all askers.
    pub(super) fn start(bus: Bus, node: NodeName) -> (Self, AbortOnDropHandle<()>) {
        let (questions, waiting) = mpsc::channel(WAITING_MAX);
        let task = tokio::spawn(batch::drive(waiting, move |workspace, batch| {
            ask(bus.clone(), node.clone(), workspace, batch)
        }));
        (Self { questions }, AbortOnDropHandle::new(task))
    }

    /// Asks until somebody is heard: after a silence the same question under the same delivery is
    /// answered alike, while another delivery of a granted step would be `uncertain`. The silence may
    /// be of an executor that has granted it and died before it could say so: a third of the `lease` is
    /// waited, for nobody keeps one that is not known here, and at its end the step is `uncertain`.
    pub(super) async fn may_start(
        &self,
        workspace: &Workspace,
        step: &StartStep,
        lease: Duration,
    ) -> Word {
        let mut maybe_granted = false;
        loop {
            match self.ask_once(workspace, step, lease).await {
                Heard::Word(Word::Later) if maybe_granted => {}
                Heard::Word(word) => return word,
                Heard::Silence => maybe_granted = true,
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    async fn ask_once(&self, workspace: &Workspace, step: &StartStep, lease: Duration) -> Heard {
        let (answer, heard) = oneshot::channel();
        let question = Item {
            workspace: workspace.clone(),
            bytes: BYTES,
            body: Question {
                step: step.clone(),
                lease,
                answer,
            },
        };
        if self.questions.send(question).await.is_err() {
            return Heard::Silence;
        }
        heard.await.unwrap_or(Heard::Silence)
    }
}

async fn ask(bus: Bus, node: NodeName, workspace: Workspace, batch: Vec<Question>) {
    let leases = batch.iter().map(|question| question.lease);
    let patience = leases.min().map_or(REQUEST_TIMEOUT, patience);
    let (steps, answers): (Vec<_>, Vec<_>) = batch
        .into_iter()
        .map(|question| (question.step, question.answer))
        .unzip();
    let envelope = Envelope::of_service("worker", StartSteps { node, steps });
    let asked = Instant::now();
    let heard: Vec<Heard> = match timeout(patience, bus.ask(&workspace, &envelope)).await {
        Ok(Ok(replies)) => replies.into_iter().map(word).map(Heard::Word).collect(),
        Err(_) => {
            tracing::debug!(steps = answers.len(), "no answer on steps to start");
            Vec::new()
        }
        Ok(Err(problem)) => {
            tracing::debug!(%problem, steps = answers.len(), "no word on steps to start");
            let quick = asked.elapsed() < SILENCE;
            let heard = if quick {
                Heard::Word(Word::Later)
            } else {
                Heard::Silence
            };
            vec![heard; answers.len()]
        }
    };
    let or_silence = heard.into_iter().chain(std::iter::repeat(Heard::Silence));
    for (answer, heard) in answers.into_iter().zip(or_silence) {
        // Who does not wait any more has given up on the whole step.
        answer.send(heard).ok();
    }
}

fn patience(lease: Duration) -> Duration {
    (lease / 3).clamp(PATIENCE_MIN, REQUEST_TIMEOUT)
}

fn word(reply: Reply<Grant>) -> Word {
    match reply {
        Reply::Ok(Grant::Go) => Word::Start,
        Reply::Ok(Grant::GoWithoutLease) => Word::StartWithoutLease,
        Reply::Ok(Grant::Drop | Grant::Uncertain) => Word::Forget,
        Reply::Problem(Problem { code, detail, .. }) => {
            tracing::debug!(code, detail, "a step may not start yet");
            Word::Later
        }
    }
}
