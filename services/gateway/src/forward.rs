//! Commands whose owner was down: kept in the gateway's table, and brought to the owner until it
//! has answered, across restarts, always under the same idempotency key.
//!
//! The owner's command stream gets each once, with an inbox for the answer; beside that the owner
//! is asked again by core request, for a stream and an inbox may lose what they hold.

use std::collections::HashSet;
use std::time::Duration;

use async_nats::client::Request;
use bytes::Bytes;
use chrono::TimeDelta;
use futures_util::StreamExt;
use holdpoint_auth::Claims;
use holdpoint_bus::{Outgoing, REQUEST_TIMEOUT};
use holdpoint_contracts::subject::REPLY_HEADER;
use holdpoint_contracts::{Asked, Command, Envelope, Problem, Reply};
use holdpoint_ids::CommandId;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::caller::Caller;
use crate::problem::database_away;
use crate::rights::still;
use crate::store::commands::{self, Accepted, Stored};

/// Commands of one workspace that may be on their way to one service; one more is told 503.
pub(crate) const OPEN_MAX: u64 = 10_000;
/// Commands that are brought in one go.
const ROUND: u64 = 200;
/// First pause after a round in vain, and the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Pause when there is nothing to bring; a new command ends it.
const PAUSE_IDLE: Duration = Duration::from_mins(1);
/// As long as owners remember a key: a command in a stream is worth that long, and an answer is
/// kept that long.
const REMEMBERED_FOR: TimeDelta = TimeDelta::hours(24);

/// Stores a command; from then on it will be done, or refused by its owner.
pub(crate) async fn accept<C: Command>(
    app: &App,
    caller: &Caller,
    mut envelope: Envelope<C>,
    after: Option<CommandId>,
) -> Result<CommandId, Problem> {
    let id = CommandId::fresh();
    // A start without a caller's key names its run; for all others `App::command` has made a key.
    let key = envelope.key.clone().unwrap_or_else(|| Asked {
        key: id.to_string(),
        digest: String::new(),
    });
    envelope.key = Some(key.clone());
    envelope.assertion = None;
    let command = Stored {
        id,
        workspace: caller.workspace.clone(),
        caller: caller.claims.user.clone(),
        roles: caller.claims.roles.clone(),
        service: C::SERVICE.to_owned(),
        subject: envelope.command.subject(&caller.workspace),
        ask_subject: envelope.command.ask_subject(&caller.workspace),
        envelope: serde_json::to_value(&envelope).map_err(|error| {
            tracing::error!(%error, "a command that cannot be written");
            Problem::internal()
        })?,
        key,
        after,
        published: false,
        created_at: app.clock.now(),
    };
    let accepted = commands::accept(&app.writer, &command, OPEN_MAX)
        .await
        .map_err(database_away)?;
    app.accepted.notify_one();
    match accepted {
        Accepted::Under(id) => Ok(id),
        Accepted::KeyReused => Err(key_reused()),
        Accepted::Full => Err(Problem::unavailable(format!(
            "the {} service is down, and {OPEN_MAX} commands of this workspace wait for it, which is the most; try again later",
            C::SERVICE
        ))),
    }
}

/// The key was used for something else.
pub(crate) fn key_reused() -> Problem {
    Problem::new(
        422,
        "idempotency_key_reused",
        "this Idempotency-Key was used for another body; take a new key for a new request",
    )
}

/// Brings commands to their owners until it is told to stop.
pub(crate) async fn run(app: App, stop: CancellationToken) {
    let inbox = app.bus.client().new_inbox();
    let forwarder = Forwarder { app, inbox };
    let both = async {
        tokio::join!(forwarder.rounds(), forwarder.answers());
    };
    stop.run_until_cancelled(both).await;
}

struct Forwarder {
    app: App,
    /// Answers to commands in streams come here, under the command's id.
    inbox: String,
}

/// What asking the owner came to.
enum Outcome {
    Answered(Reply<Value>),
    Silent,
}

impl Forwarder {
    async fn rounds(&self) {
        let mut pause = PAUSE_FIRST;
        loop {
            let wait = match self.round().await {
                Ok(true) => {
                    pause = PAUSE_FIRST;
                    PAUSE_IDLE
                }
                Ok(false) => pause,
                Err(problem) => {
                    tracing::warn!(%problem, "accepted commands wait");
                    pause
                }
            };
            tokio::select! {
                () = self.app.accepted.notified() => pause = PAUSE_FIRST,
                () = tokio::time::sleep(wait) => pause = (pause * 2).min(PAUSE_MAX),
            }
        }
    }

    /// Tries what is on its way once; whether nothing is left.
    async fn round(&self) -> Result<bool, Problem> {
        let app = &self.app;
        let before = app.clock.now() - REMEMBERED_FOR;
        commands::forget(&app.writer, before)
            .await
            .map_err(database_away)?;
        let open = commands::open(&app.readers, ROUND)
            .await
            .map_err(database_away)?;
        if open.is_empty() || !app.bus.is_connected() {
            return Ok(open.is_empty());
        }
        let (mut silent, mut waiting) = (HashSet::new(), Vec::new());
        let mut to_publish = Vec::new();
        let mut left = false;
        for command in open {
            let outcome = match self.before(&command).await? {
                Some(outcome) => outcome,
                None if silent.contains(&command.service) => Outcome::Silent,
                None => self.ask(&command).await?,
            };
            match outcome {
                Outcome::Answered(answer) => self.done(command.id, &answer).await,
                Outcome::Silent => {
                    left = true;
                    if silent.insert(command.service.clone()) || command.after.is_some() {
                        waiting.push(command.id);
                    }
                    if !command.published && command.after.is_none() {
                        to_publish.push(command);
                    }
                }
            }
        }
        self.publish(to_publish).await?;
        commands::tried(&app.writer, &waiting)
            .await
            .map_err(database_away)?;
        Ok(!left)
    }

    /// What the command before this one has to say: none, go on.
    async fn before(&self, command: &Stored) -> Result<Option<Outcome>, Problem> {
        let Some(first) = command.after else {
            return Ok(None);
        };
        let progress = commands::progress(&self.app.readers, first)
            .await
            .map_err(database_away)?;
        Ok(match progress.map(|it| it.answer) {
            // Long done and forgotten, or done.
            None | Some(Some(Reply::Ok(_))) => None,
            Some(None) => Some(Outcome::Silent),
            Some(Some(refused @ Reply::Problem(_))) => Some(Outcome::Answered(refused)),
        })
    }

    async fn ask(&self, command: &Stored) -> Result<Outcome, Problem> {
        let body = match self.body(command, crate::assertions::VALID_FOR).await? {
            Ok(body) => body,
            Err(refused) => return Ok(Outcome::Answered(Reply::Problem(refused))),
        };
        let request = Request::new()
            .payload(Bytes::from(body))
            .timeout(Some(REQUEST_TIMEOUT));
        let subject = command.ask_subject.clone();
        let answer = match self.app.bus.client().send_request(subject, request).await {
            Ok(message) => read(&message.payload),
            Err(error) => {
                tracing::debug!(%error, id = %command.id, "the owner does not answer yet");
                None
            }
        };
        Ok(answer.map_or(Outcome::Silent, Outcome::Answered))
    }

    /// Puts commands into their owners' streams, once each.
    async fn publish(&self, commands: Vec<Stored>) -> Result<(), Problem> {
        let (mut ids, mut messages) = (Vec::new(), Vec::new());
        for command in commands {
            let Ok(body) = self.body(&command, REMEMBERED_FOR).await? else {
                continue;
            };
            let message = Outgoing {
                subject: command.subject.clone(),
                body,
                headers: Vec::new(),
            }
            .header(REPLY_HEADER, format!("{}.{}", self.inbox, command.id));
            ids.push(command.id);
            messages.push(message);
        }
        let mut published = Vec::new();
        for (id, stored) in ids.iter().zip(self.app.bus.publish_each(&messages).await) {
            match stored {
                Ok(()) => published.push(*id),
                Err(error) => tracing::debug!(%error, %id, "not in its stream yet"),
            }
        }
        if published.len() < ids.len() {
            let commands = ids.len() - published.len();
            tracing::warn!(commands, "not all are in their streams yet; trying again");
        }
        commands::published(&self.app.writer, &published)
            .await
            .map_err(database_away)
    }

    /// The envelope with an assertion of this moment; or why it must not be done any more.
    async fn body(
        &self,
        command: &Stored,
        valid: TimeDelta,
    ) -> Result<Result<String, Problem>, Problem> {
        let app = &self.app;
        let user = app
            .people
            .known(&command.workspace, &command.caller)
            .await?;
        let Some(user) = user.filter(|user| user.active) else {
            let detail = "its caller was disabled before it could be done";
            return Ok(Err(Problem::new(403, "forbidden", detail)));
        };
        let now = app.clock.now();
        let claims = Claims {
            workspace: command.workspace.clone(),
            user: command.caller.clone(),
            roles: still(&user.roles, &command.roles),
            expires_at: now,
        };
        let assertion = app.assertions.valid_for(valid, &claims, now)?;
        let mut envelope = command.envelope.clone();
        if let Some(fields) = envelope.as_object_mut() {
            fields.insert("assertion".to_owned(), assertion.into());
        }
        Ok(Ok(envelope.to_string()))
    }

    /// Takes the answers to what owners found in their streams.
    async fn answers(&self) {
        loop {
            match self
                .app
                .bus
                .client()
                .subscribe(format!("{}.*", self.inbox))
                .await
            {
                Ok(mut answers) => {
                    while let Some(message) = answers.next().await {
                        self.answer(&message).await;
                    }
                }
                Err(error) => tracing::warn!(%error, "no inbox for accepted commands"),
            }
            tokio::time::sleep(PAUSE_MAX).await;
        }
    }

    async fn answer(&self, message: &async_nats::Message) {
        let id = message.subject.rsplit('.').next().map(str::parse);
        if let (Some(Ok(id)), Some(answer)) = (id, read(&message.payload)) {
            self.done(id, &answer).await;
        }
    }

    async fn done(&self, id: CommandId, answer: &Reply<Value>) {
        let now = self.app.clock.now();
        if let Err(error) = commands::done(&self.app.writer, id, answer, now).await {
            // Its owner is asked again and says the same.
            tracing::error!(%error, %id, "an answer was not kept");
        }
    }
}

/// The owner's last word, if it is one: a proof that has expired on the way is renewed.
fn read(payload: &[u8]) -> Option<Reply<Value>> {
    let reply: Reply<Value> = serde_json::from_slice(payload)
        .inspect_err(|error| tracing::error!(%error, "an answer that cannot be read"))
        .ok()?;
    match &reply {
        Reply::Ok(_) => Some(reply),
        Reply::Problem(problem) => {
            let is_final = !problem.is_transient() && problem.code != "invalid_assertion";
            is_final.then_some(reply)
        }
    }
}
