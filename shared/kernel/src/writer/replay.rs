//! What an operator has done with a dead letter.

use std::sync::atomic::Ordering;

use holdpoint_contracts::dead_letter::DeadLetter;
use holdpoint_contracts::message::Reply;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::subject;
use holdpoint_ids::Workspace;
use holdpoint_store::StoreError;

use super::Writer;
use crate::commit::write;
use crate::dead_letters::requests::{Action, LetterCommand, away, told};
use crate::intake::Unread;
use crate::task::{Origin, Raw, answer};
use crate::{Service, dead_letters, suspects};

impl<S: Service> Writer<S> {
    /// Does what operators have asked for meanwhile.
    pub(super) async fn handle_letters(&mut self) {
        while let Ok(command) = self.letters.try_recv() {
            self.handle_letter(command).await;
        }
    }

    pub(super) async fn handle_letter(&mut self, command: LetterCommand) {
        let LetterCommand {
            workspace,
            id,
            action,
            reply,
        } = command;
        let problem = match self.letter(&workspace, id).await {
            Ok(Some((letter, digest))) => match action {
                Action::Drop => self.drop_letter(&letter, &digest, &reply).await.err(),
                Action::Replay => {
                    let replayed = self.replay(&workspace, (letter, &digest), &reply);
                    replayed.await.err()
                }
            },
            Ok(None) => Some(dead_letters::unknown(id)),
            Err(error) => Some(away(&error)),
        };
        if let Some(problem) = problem {
            let body = write(&Reply::<()>::Problem(problem));
            answer(&self.bus, Some(reply), Some(body)).await;
        }
    }

    async fn letter(
        &self,
        workspace: &Workspace,
        id: i64,
    ) -> Result<Option<(DeadLetter, String)>, StoreError> {
        let tx = self.db.begin().await?;
        let letter = dead_letters::read(&tx, workspace, id).await?;
        tx.commit().await?;
        Ok(letter)
    }

    /// Removes a letter. Its input may be decided again, should it come again.
    async fn drop_letter(
        &mut self,
        letter: &DeadLetter,
        digest: &str,
        reply: &str,
    ) -> Result<(), Problem> {
        let removed = self.remove_letter(letter.summary.id, digest).await;
        removed.map_err(|error| away(&error))?;
        self.activity.isolation.release(digest);
        let (id, subject) = (letter.summary.id, &letter.summary.subject);
        tracing::info!(service = S::NAME, id, subject, "a dead letter was dropped");
        answer(
            &self.bus,
            Some(reply.to_owned()),
            Some(told(&letter.summary)),
        )
        .await;
        Ok(())
    }

    async fn remove_letter(&self, id: i64, digest: &str) -> Result<(), StoreError> {
        let tx = self.db.begin().await?;
        dead_letters::remove(&tx, id).await?;
        suspects::forget(&tx, digest).await?;
        tx.commit().await
    }

    /// Decides a letter again, alone. Its row goes with the commit of that; until then it stays, so that
    /// nothing is lost where the process ends once more.
    async fn replay(
        &mut self,
        workspace: &Workspace,
        (letter, digest): (DeadLetter, &str),
        reply: &str,
    ) -> Result<(), Problem> {
        let (id, subject) = (letter.summary.id, letter.summary.subject.clone());
        if subject::parse(&subject).is_none() {
            // The service gives itself such an input again as soon as it may.
            if digest.is_empty() {
                let detail = "this letter is not a command, so it cannot be replayed; drop it";
                return Err(Problem::new(409, "not_replayable", detail));
            }
            return self.drop_letter(&letter, digest, reply).await;
        }
        tracing::info!(service = S::NAME, id, subject, "a dead letter is replayed");
        if !digest.is_empty() {
            let forgotten = self.suspects.forget(&self.db, digest).await;
            forgotten.map_err(|error| away(&error))?;
            self.activity.isolation.release(digest);
        }
        let reply = Some(reply.to_owned());
        let unread = Unread {
            origin: Origin::Ask { reply },
            raw: Raw {
                subject,
                body: letter.body.into(),
            },
            room: None,
            is_isolated: true,
        };
        self.activity.in_flight.fetch_add(1, Ordering::AcqRel);
        self.replayed = Some(id);
        self.decide_isolated(unread.into_task()).await;
        self.replayed = None;
        if !digest.is_empty() {
            // While it is still there, its input must not be decided in another way.
            let left = self.letter(workspace, id).await;
            if !left.is_ok_and(|left| left.is_none()) {
                self.activity.isolation.buried(digest);
            }
        }
        Ok(())
    }
}
