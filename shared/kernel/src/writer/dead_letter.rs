//! What becomes of messages that cannot be handled.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use holdpoint_contracts::message::Reply;
use holdpoint_contracts::problem::Problem;
use tokio::sync::oneshot;

use super::{Writer, chain};
use crate::commit::write;
use crate::dead_letters::{self, Letter};
use crate::publisher::{Publishing, Settled};
use crate::task::{Origin, Raw, Settlement, Task};
use crate::{InputOf, Service, split};

impl<S: Service> Writer<S> {
    /// Trying again cannot help: keep the messages with the reason, and tell the callers. Where not
    /// even that succeeds, the messages come again. `digest` is of an input that must not be decided again.
    pub(super) async fn bury(&mut self, tasks: Vec<Task<S>>, reason: &str, digest: Option<&str>) {
        if tasks.is_empty() {
            return;
        }
        let told = match digest {
            Some(_) => split::buried(),
            None => Problem::internal(),
        };
        // It is a dead letter already, and stays one.
        if self.replayed.take().is_some() {
            return self.settle_all(tasks, &told, Settlement::Buried).await;
        }
        // What the service gave itself it gives itself again; there is no message to keep, only the word
        // that it must not be decided.
        let is_kept =
            |task: &&Task<S>| digest.is_some() || !matches!(task.origin, Origin::Internal { .. });
        let letters: Vec<_> = tasks
            .iter()
            .filter(is_kept)
            .map(|task| Letter {
                raw: raw(task),
                reason: match &task.poison {
                    Some(problem) => format!("{reason}: {problem}"),
                    None => reason.to_owned(),
                },
                digest: digest.unwrap_or_default().to_owned(),
            })
            .collect();
        for Letter { raw, reason, .. } in &letters {
            let subject = &raw.subject;
            tracing::error!(service = S::NAME, subject, reason, "a dead letter");
        }
        if let Err(error) = dead_letters::bury(&self.db, &letters, self.clock.now()).await {
            return self.give_up(tasks, &chain(&error)).await;
        }
        let incidents: Vec<_> = tasks
            .iter()
            .filter(is_kept)
            .zip(&letters)
            .map(|(task, letter)| self.incidents_of(task, &letter.reason))
            .filter(|inputs| !inputs.is_empty())
            .map(incident::<S>)
            .collect();
        self.activity
            .in_flight
            .fetch_add(incidents.len(), Ordering::AcqRel);
        self.incidents.extend(incidents);
        self.settle_all(tasks, &told, Settlement::Buried).await;
    }

    /// What happens to the aggregates that a dead letter is about.
    fn incidents_of(&self, task: &Task<S>, reason: &str) -> Vec<InputOf<S>> {
        let of_inputs = task
            .inputs
            .iter()
            .filter_map(|input| self.service.incident_of(input, reason));
        let of_inputs: Vec<_> = of_inputs.collect();
        if !of_inputs.is_empty() {
            return of_inputs;
        }
        self.service
            .incident(&task.raw.subject, &task.raw.body, reason)
    }

    pub(super) async fn settle_all(
        &self,
        tasks: Vec<Task<S>>,
        problem: &Problem,
        settlement: Settlement,
    ) {
        let body: Bytes = write(&Reply::<()>::Problem(problem.clone()));
        let answer = |task: &Task<S>| match &task.poison {
            // Its sender can mend it, or knows at least not to send it again.
            Some(poison) if settlement == Settlement::Buried => {
                write(&Reply::<()>::Problem(poison.clone()))
            }
            // Said of each item: their sender keeps them, and must not send them again and again.
            None if settlement == Settlement::Buried && task.many && !task.whole => {
                let buried = || Reply::<()>::Problem(split::buried());
                let items: Vec<_> = task.inputs.iter().map(|_| buried()).collect();
                write(&Reply::Ok(items))
            }
            Some(_) | None => body.clone(),
        };
        let settled = tasks
            .into_iter()
            .map(|task| Settled {
                body: Some(answer(&task)),
                origin: task.origin,
                settlement,
            })
            .collect();
        self.publish(Publishing {
            settled,
            ..Publishing::default()
        })
        .await;
    }
}

/// What is kept of a task: the message as it came, or what the service gave itself in words.
fn raw<S: Service>(task: &Task<S>) -> Raw {
    if task.raw.body.is_empty() && !task.inputs.is_empty() {
        return Raw {
            subject: task.raw.subject.clone(),
            body: format!("{:?}", task.inputs).into(),
        };
    }
    task.raw.clone()
}

/// What becomes of an aggregate whose message was buried. Nobody waits for it; where it fails itself
/// it is not told again.
fn incident<S: Service>(inputs: Vec<InputOf<S>>) -> Task<S> {
    let (done, _nobody_waits) = oneshot::channel();
    Task {
        inputs,
        many: true,
        whole: false,
        asked: None,
        origin: Origin::Internal { done },
        poison: None,
        is_unread: false,
        is_isolated: false,
        raw: Raw {
            subject: format!("incident.{}", S::NAME),
            body: Bytes::new(),
        },
        room: None,
    }
}
