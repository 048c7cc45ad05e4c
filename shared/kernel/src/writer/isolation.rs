//! Decides inputs alone after an unclean exit ([`crate::suspects`]), and refuses quarantined ones.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use holdpoint_store::crash::{self, Point};

use super::{Writer, verbs};
use crate::error_chain::error_chain;
use crate::intake::decode::decode;
use crate::isolation::ISOLATED;
use crate::origin::{Disposition, FinishedTask, Origin, SplitMessage, dead_letter_problem};
use crate::outbox::publisher::CommittedBatch;
use crate::service::Service;
use crate::suspects::Begun;
use crate::task::Task;

/// Reason of the dead letter of a quarantined input.
const ENDED_THE_PROCESS: &str =
    "the process ended three times while this was decided alone; fix the cause, then replay it";

impl<S: Service> Writer<S> {
    /// Decides messages that arrived while the kernel isolated inputs, one input after the other. Leaves in
    /// the backlog what may be decided together. In normal operation it only reads flags.
    pub(super) async fn decide_isolated_ones(&mut self, backlog: &mut Vec<Task<S>>) {
        let has_quarantined = self.status.isolation.has_quarantined();
        let is_plain = |task: &Task<S>| !task.is_isolated && !task.is_unread;
        if !has_quarantined && backlog.iter().all(is_plain) {
            return;
        }
        for task in std::mem::take(backlog) {
            if task.is_isolated {
                self.decide_isolated(task).await;
                // While inputs keep coming the timer in `take` never fires.
                self.suspects.tick(&self.db, self.clock.now()).await;
            } else {
                backlog.extend(self.without_quarantined(task).await);
            }
        }
    }

    /// Decodes a task and refuses its quarantined inputs.
    async fn without_quarantined(&mut self, mut task: Task<S>) -> Vec<Task<S>> {
        if task.is_unread {
            let digest = task.raw.digest();
            if let Some(has_dead_letter) = self.status.isolation.quarantine_of(&digest) {
                self.refuse(task, &digest, has_dead_letter).await;
                return Vec::new();
            }
            match self.decode(task).await {
                Some(decoded) => task = decoded,
                None => return Vec::new(),
            }
        }
        if task.poison.is_some() {
            return vec![task];
        }
        let mut without_quarantined = Vec::new();
        for part in self.split_if_allowed(task) {
            let digest = part.inputs_digest();
            match self.status.isolation.quarantine_of(&digest) {
                Some(has_dead_letter) => self.refuse(part, &digest, has_dead_letter).await,
                None => without_quarantined.push(part),
            }
        }
        without_quarantined
    }

    /// Decides a message input by input, while no other input of the process is decided.
    pub(super) async fn decide_isolated(&mut self, mut task: Task<S>) {
        let _alone = ISOLATED.lock().await;
        let mut message = None;
        if task.is_unread {
            let digest = task.raw.digest();
            let Some(begun) = self.begin_alone(task, &digest, None).await else {
                return;
            };
            match self.decode(begun).await {
                Some(decoded) => task = decoded,
                None => return self.suspects.end(&self.db, &digest).await,
            }
            message = Some(digest);
        }
        crash::pass(S::NAME, Point::Fetched, &verbs(std::slice::from_ref(&task)));
        if task.poison.is_some() {
            self.store_unreadable(vec![task]).await;
        } else {
            for part in self.split_if_allowed(task) {
                let digest = part.inputs_digest();
                let instead = message.take();
                if let Some(part) = self.begin_alone(part, &digest, instead.as_deref()).await {
                    self.suspect = Some(digest.clone());
                    self.process(vec![part]).await;
                    self.suspect = None;
                    self.suspects.end(&self.db, &digest).await;
                }
            }
        }
        if let Some(digest) = message {
            self.suspects.end(&self.db, &digest).await;
        }
    }

    /// Notes that a task is begun alone. `None`: it was refused or abandoned.
    async fn begin_alone(
        &mut self,
        task: Task<S>,
        digest: &str,
        instead: Option<&str>,
    ) -> Option<Task<S>> {
        let now = self.clock.now();
        match self.suspects.begin(&self.db, digest, instead, now).await {
            Ok(Begun::Alone) => Some(task),
            Ok(Begun::Quarantined { has_dead_letter }) => {
                self.refuse(task, digest, has_dead_letter).await;
                None
            }
            Err(error) => {
                self.status.set_database_answers(false);
                self.abandon(vec![task], &error_chain(&error)).await;
                None
            }
        }
    }

    /// Refuses a quarantined input. The first refusal stores its dead letter.
    async fn refuse(&mut self, task: Task<S>, digest: &str, has_dead_letter: bool) {
        if has_dead_letter {
            let problem = dead_letter_problem();
            return self
                .finish_all(vec![task], &problem, Disposition::DeadLetter)
                .await;
        }
        self.store_dead_letters(vec![task], ENDED_THE_PROCESS, Some(digest))
            .await;
        self.status.isolation.set_dead_letter_stored(digest);
        self.suspects.end(&self.db, digest).await;
    }

    /// Decodes a message. `None`: its sender has its reply.
    async fn decode(&self, task: Task<S>) -> Option<Task<S>> {
        match decode(&*self.service, task) {
            Ok(task) => Some(task),
            Err((origin, body)) => {
                let finished = FinishedTask {
                    origin,
                    body: Some(body),
                    disposition: Disposition::Ack,
                };
                self.publish(CommittedBatch::of_finished(vec![finished]))
                    .await;
                None
            }
        }
    }

    fn split_if_allowed(&self, task: Task<S>) -> Vec<Task<S>> {
        if task.is_splittable() {
            self.split(task)
        } else {
            vec![task]
        }
    }

    /// The inputs of a task as separate tasks, so that an input that cannot be handled does not affect the
    /// others. The sender still gets one reply ([`SplitMessage`]).
    pub(super) fn split(&self, task: Task<S>) -> Vec<Task<S>> {
        // One task was counted when it arrived, and each part is counted when it ends.
        let more = task.inputs.len().saturating_sub(1);
        self.status.in_flight.fetch_add(more, Ordering::AcqRel);
        let message = Arc::new(SplitMessage::new(task.origin, task.inputs.len()));
        let parts = task.inputs.into_iter().enumerate().map(|(place, input)| {
            let message = Arc::clone(&message);
            let origin = Origin::Part { message, place };
            Task::new(vec![input], origin, task.raw.clone())
        });
        parts.collect()
    }
}
