//! Replays or drops dead letters for operators.

use std::sync::atomic::Ordering;

use holdpoint_contracts::dead_letter::DeadLetter;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::subject;
use holdpoint_store::StoreError;

use super::Writer;
use crate::dead_letters::requests::{Action, DeadLetterCommand, ok_reply, unavailable};
use crate::origin::Origin;
use crate::reply::{problem_json, send_reply};
use crate::service::Service;
use crate::task::{Raw, Task};
use crate::{dead_letters, suspects};

impl<S: Service> Writer<S> {
    /// Carries out the commands that wait.
    pub(super) async fn handle_dead_letter_commands(&mut self) {
        while let Ok(command) = self.dead_letter_commands.try_recv() {
            self.handle_dead_letter_command(command).await;
        }
    }

    pub(super) async fn handle_dead_letter_command(&mut self, command: DeadLetterCommand) {
        let problem = match self.load_dead_letter(&command).await {
            Ok(Some((letter, digest))) => {
                let done = match command.action {
                    Action::Drop => {
                        self.drop_dead_letter(&letter, &digest, &command.reply)
                            .await
                    }
                    Action::Replay => self.replay(&command, letter, &digest).await,
                };
                done.err()
            }
            Ok(None) => Some(dead_letters::not_found(command.id)),
            Err(error) => Some(unavailable(&error)),
        };
        if let Some(problem) = problem {
            send_reply(&self.bus, Some(command.reply), Some(problem_json(problem))).await;
        }
    }

    async fn load_dead_letter(
        &self,
        command: &DeadLetterCommand,
    ) -> Result<Option<(DeadLetter, String)>, StoreError> {
        let tx = self.db.begin().await?;
        let letter = dead_letters::load(&tx, &command.workspace, command.id).await?;
        tx.commit().await?;
        Ok(letter)
    }

    /// Deletes a dead letter. Its input may be decided again if it is delivered again.
    async fn drop_dead_letter(
        &mut self,
        letter: &DeadLetter,
        digest: &str,
        reply: &str,
    ) -> Result<(), Problem> {
        let removed = self.remove_dead_letter(letter.summary.id, digest).await;
        removed.map_err(|error| unavailable(&error))?;
        self.status.isolation.release(digest);
        let (id, subject) = (letter.summary.id, &letter.summary.subject);
        tracing::info!(service = S::NAME, id, subject, "dead letter dropped");
        let body = ok_reply(&letter.summary);
        send_reply(&self.bus, Some(reply.to_owned()), Some(body)).await;
        Ok(())
    }

    async fn remove_dead_letter(&self, id: i64, digest: &str) -> Result<(), StoreError> {
        let tx = self.db.begin().await?;
        dead_letters::remove(&tx, id).await?;
        suspects::forget(&tx, digest).await?;
        tx.commit().await
    }

    /// Decides a dead letter again, alone. The commit of that decision deletes its row. Until then the row
    /// stays, so that nothing is lost if the process ends once more.
    async fn replay(
        &mut self,
        command: &DeadLetterCommand,
        letter: DeadLetter,
        digest: &str,
    ) -> Result<(), Problem> {
        let (id, subject) = (letter.summary.id, letter.summary.subject.clone());
        if subject::parse(&subject).is_none() {
            // An internal input: the service creates it again once it is not quarantined.
            if digest.is_empty() {
                let detail = "this dead letter is not a command and cannot be replayed; drop it";
                return Err(Problem::new(409, "not_replayable", detail));
            }
            return self.drop_dead_letter(&letter, digest, &command.reply).await;
        }
        tracing::info!(service = S::NAME, id, subject, "dead letter is replayed");
        if !digest.is_empty() {
            let forgotten = self.suspects.forget(&self.db, digest).await;
            forgotten.map_err(|error| unavailable(&error))?;
            self.status.isolation.release(digest);
        }
        let reply = Some(command.reply.clone());
        let raw = Raw {
            subject,
            body: letter.body.into(),
        };
        self.status.in_flight.fetch_add(1, Ordering::AcqRel);
        self.replayed = Some(id);
        self.decide_isolated(Task {
            is_isolated: true,
            ..Task::unread(Origin::ask(reply), raw)
        })
        .await;
        self.replayed = None;
        if !digest.is_empty() {
            // While the dead letter exists, its input must not be decided by another delivery.
            let left = self.load_dead_letter(command).await;
            if !left.is_ok_and(|left| left.is_none()) {
                self.status.isolation.set_dead_letter_stored(digest);
            }
        }
        Ok(())
    }
}
