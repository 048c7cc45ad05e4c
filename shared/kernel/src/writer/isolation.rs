//! Inputs that are decided alone after an unclean exit ([`crate::suspects`]), and those that must not be
//! decided any more.

use std::sync::atomic::Ordering;

use super::{Writer, chain, verbs};
use crate::crash::{self, Point};
use crate::intake::{Unread, read};
use crate::publisher::{Publishing, Settled};
use crate::suspects::{Begun, ISOLATED, inputs_digest, message_digest};
use crate::task::{Settlement, Task};
use crate::{Service, split};

/// Why an input is a dead letter.
const ENDED_THE_PROCESS: &str = "the process ended three times while this was decided alone; replay it once the cause is mended";

impl<S: Service> Writer<S> {
    /// Decides what came in while the kernel isolated inputs, one input after the other; leaves in the backlog
    /// what may be decided together. In normal running it only looks at flags.
    pub(super) async fn decide_isolated_ones(&mut self, backlog: &mut Vec<Task<S>>) {
        let has_quarantined = self.activity.isolation.has_quarantined();
        let is_plain = |task: &Task<S>| !task.is_isolated && !task.is_unread;
        if !has_quarantined && backlog.iter().all(is_plain) {
            return;
        }
        for task in std::mem::take(backlog) {
            if task.is_isolated {
                self.decide_isolated(task).await;
                // Nothing else would do it while inputs keep coming.
                self.suspects.tick(&self.db, self.clock.now()).await;
            } else {
                backlog.extend(self.without_quarantined(task).await);
            }
        }
    }

    /// Reads a task, and refuses what is quarantined.
    async fn without_quarantined(&mut self, mut task: Task<S>) -> Vec<Task<S>> {
        if task.is_unread {
            let digest = message_digest(&task.raw);
            if let Some(is_buried) = self.activity.isolation.quarantine_of(&digest) {
                self.refuse(task, &digest, is_buried).await;
                return Vec::new();
            }
            match self.read(task).await {
                Some(read) => task = read,
                None => return Vec::new(),
            }
        }
        if task.poison.is_some() {
            return vec![task];
        }
        let mut without_quarantined = Vec::new();
        for part in self.parts(task) {
            let digest = inputs_digest(&part);
            match self.activity.isolation.quarantine_of(&digest) {
                Some(is_buried) => self.refuse(part, &digest, is_buried).await,
                None => without_quarantined.push(part),
            }
        }
        without_quarantined
    }

    /// Decides a message alone in the process, input by input.
    pub(super) async fn decide_isolated(&mut self, mut task: Task<S>) {
        let _alone = ISOLATED.lock().await;
        let mut message = None;
        if task.is_unread {
            let digest = message_digest(&task.raw);
            let Some(begun) = self.begin(task, &digest, None).await else {
                return;
            };
            match self.read(begun).await {
                Some(read) => task = read,
                None => return self.suspects.end(&self.db, &digest).await,
            }
            message = Some(digest);
        }
        crash::pass(S::NAME, Point::Fetched, &verbs(std::slice::from_ref(&task)));
        if task.poison.is_some() {
            self.bury(vec![task], "the message cannot be read", None)
                .await;
        } else {
            for part in self.parts(task) {
                let digest = inputs_digest(&part);
                let instead = message.take();
                if let Some(part) = self.begin(part, &digest, instead.as_deref()).await {
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

    /// Notes that a task is begun alone; gives it back where it may be.
    async fn begin(
        &mut self,
        task: Task<S>,
        digest: &str,
        instead: Option<&str>,
    ) -> Option<Task<S>> {
        let now = self.clock.now();
        match self.suspects.begin(&self.db, digest, instead, now).await {
            Ok(Begun::Alone) => Some(task),
            Ok(Begun::Quarantined(is_buried)) => {
                self.refuse(task, digest, is_buried).await;
                None
            }
            Err(error) => {
                self.activity.set_database_answers(false);
                self.give_up(vec![task], &chain(&error)).await;
                None
            }
        }
    }

    /// Makes a dead letter of what must not be decided, once; its sender is told each time.
    async fn refuse(&mut self, task: Task<S>, digest: &str, is_buried: bool) {
        if is_buried {
            let problem = split::buried();
            return self
                .settle_all(vec![task], &problem, Settlement::Buried)
                .await;
        }
        self.bury(vec![task], ENDED_THE_PROCESS, Some(digest)).await;
        self.activity.isolation.buried(digest);
        self.suspects.end(&self.db, digest).await;
    }

    /// Reads a message; none: its sender was answered.
    async fn read(&self, task: Task<S>) -> Option<Task<S>> {
        let unread = Unread {
            origin: task.origin,
            raw: task.raw,
            room: task.room,
            is_isolated: task.is_isolated,
        };
        match read(&*self.service, unread) {
            Ok(task) => Some(task),
            Err((origin, body)) => {
                let settled = Settled {
                    origin,
                    body: Some(body),
                    settlement: Settlement::Done,
                };
                self.publish(Publishing {
                    settled: vec![settled],
                    ..Publishing::default()
                })
                .await;
                None
            }
        }
    }

    /// The inputs of a task one by one, where they may be.
    fn parts(&self, task: Task<S>) -> Vec<Task<S>> {
        if task.inputs.len() <= 1 || task.whole {
            return vec![task];
        }
        let parts = split::part(task);
        // One was counted in, and each part is counted out.
        let more = parts.len().saturating_sub(1);
        self.activity.in_flight.fetch_add(more, Ordering::AcqRel);
        parts
    }
}
