//! Messages that cannot be handled become dead letters.

use std::sync::atomic::Ordering;

use holdpoint_contracts::message::Reply;
use holdpoint_contracts::problem::Problem;
use tokio::sync::oneshot;

use super::Writer;
use crate::dead_letters::{self, NewDeadLetter};
use crate::error_chain::error_chain;
use crate::origin::{Disposition, FinishedTask, Origin, dead_letter_problem};
use crate::outbox::publisher::CommittedBatch;
use crate::reply::{problem_json, reply_json};
use crate::service::{InputOf, Service};
use crate::task::{Raw, Task};

impl<S: Service> Writer<S> {
    /// Stores messages as dead letters and replies to their callers, because trying again cannot help. If
    /// even that fails the messages are redelivered. `digest` names an input that must not be decided again.
    pub(super) async fn store_dead_letters(
        &mut self,
        tasks: Vec<Task<S>>,
        reason: &str,
        digest: Option<&str>,
    ) {
        if tasks.is_empty() {
            return;
        }
        let problem = match digest {
            Some(_) => dead_letter_problem(),
            None => Problem::internal(),
        };
        // A dead letter that fails its replay stays as it is.
        if self.replayed.take().is_some() {
            return self
                .finish_all(tasks, &problem, Disposition::DeadLetter)
                .await;
        }
        // The service creates an internal input again, so that only a quarantined one needs a row.
        let is_stored =
            |task: &&Task<S>| digest.is_some() || !matches!(task.origin, Origin::Internal { .. });
        let letters: Vec<_> = tasks
            .iter()
            .filter(is_stored)
            .map(|task| NewDeadLetter {
                raw: raw(task),
                reason: match &task.poison {
                    Some(problem) => format!("{reason}: {problem}"),
                    None => reason.to_owned(),
                },
                digest: digest.unwrap_or_default().to_owned(),
            })
            .collect();
        for NewDeadLetter { raw, reason, .. } in &letters {
            let subject = &raw.subject;
            tracing::error!(
                service = S::NAME,
                subject,
                reason,
                "message becomes a dead letter"
            );
        }
        if let Err(error) = dead_letters::store(&self.db, &letters, self.clock.now()).await {
            return self.abandon(tasks, &error_chain(&error)).await;
        }
        let incidents: Vec<_> = tasks
            .iter()
            .filter(is_stored)
            .zip(&letters)
            .map(|(task, letter)| self.incidents_of(task, &letter.reason))
            .filter(|inputs| !inputs.is_empty())
            .map(incident_task::<S>)
            .collect();
        let count = incidents.len();
        self.status.in_flight.fetch_add(count, Ordering::AcqRel);
        self.incidents.extend(incidents);
        self.finish_all(tasks, &problem, Disposition::DeadLetter)
            .await;
    }

    /// The inputs that record a dead letter at its aggregates.
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

    /// Finishes tasks that were not committed with a problem.
    pub(super) async fn finish_all(
        &self,
        tasks: Vec<Task<S>>,
        problem: &Problem,
        disposition: Disposition,
    ) {
        let is_dead = disposition == Disposition::DeadLetter;
        let reply = |task: &Task<S>| match &task.poison {
            // The sender can correct the message, or knows not to send it again.
            Some(poison) if is_dead => problem_json(poison.clone()),
            // One problem per item: the sender keeps the items, and must not send them again and again.
            None if is_dead && task.many && !task.atomic => {
                let items = task.inputs.iter();
                let items = items.map(|_| Reply::<()>::Problem(dead_letter_problem()));
                reply_json(&Reply::Ok(items.collect::<Vec<_>>()))
            }
            Some(_) | None => problem_json(problem.clone()),
        };
        let finished = tasks
            .into_iter()
            .map(|task| FinishedTask {
                body: Some(reply(&task)),
                origin: task.origin,
                disposition,
            })
            .collect();
        self.publish(CommittedBatch::of_finished(finished)).await;
    }
}

/// The stored message. An internal input has no message and is stored as debug text.
fn raw<S: Service>(task: &Task<S>) -> Raw {
    if task.raw.body.is_empty() && !task.inputs.is_empty() {
        return Raw {
            subject: task.raw.subject.clone(),
            body: format!("{:?}", task.inputs).into(),
        };
    }
    task.raw.clone()
}

/// Records a dead letter at its aggregates. No caller waits for it, and if it fails it is not tried again.
fn incident_task<S: Service>(inputs: Vec<InputOf<S>>) -> Task<S> {
    let (done, _unused) = oneshot::channel();
    let raw = Raw {
        subject: format!("incident.{}", S::NAME),
        body: bytes::Bytes::new(),
    };
    Task {
        many: true,
        ..Task::new(inputs, Origin::Internal { done }, raw)
    }
}
