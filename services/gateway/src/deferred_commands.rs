//! Commands whose owner was down: kept in the gateway's table, and brought to the owner until it
//! has answered, across restarts, always under the same idempotency key.
//!
//! The owner is asked by core request, each time with an assertion of that moment. No command lies in a
//! stream with one that would have to last for hours.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_nats::client::Request;
use bytes::Bytes;
use chrono::TimeDelta;
use futures_util::{StreamExt, TryStreamExt, stream};
use holdpoint_auth::{Asserted, Claims};
use holdpoint_bus::REQUEST_TIMEOUT;
use holdpoint_contracts::{Command, Envelope, IdempotencyKey, Problem, Reply, subject};
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
/// Callers whose commands are brought at the same time; those of one caller go one after the other.
const CALLERS_AT_ONCE: usize = 16;
/// First pause after a round in vain, and the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Pause when there is nothing to bring; a new command ends it.
const PAUSE_IDLE: Duration = Duration::from_mins(1);
/// As long as owners remember a key, an answer is kept.
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
    let key = envelope.key.clone().unwrap_or_else(|| IdempotencyKey {
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

/// 409: what was made under this key is not given out again.
pub(crate) fn key_spent() -> Problem {
    Problem::new(
        409,
        "key_spent",
        "the token of this Idempotency-Key was made more than 24 hours ago or has expired; take a new key for a new token",
    )
}

/// Brings commands to their owners until it is told to stop.
pub(crate) async fn run(app: App, stop: CancellationToken) {
    let forwarder = Forwarder { app };
    stop.run_until_cancelled(forwarder.rounds()).await;
}

struct Forwarder {
    app: App,
}

/// What asking the owner came to.
enum Outcome {
    CommandOutcome(Reply<Value>),
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
        let silent = Mutex::default();
        let of_callers = stream::iter(by_caller(open).into_values())
            .map(|commands| self.bring(commands, &silent))
            .buffer_unordered(CALLERS_AT_ONCE);
        let waiting: Vec<Vec<CommandId>> = of_callers.try_collect().await?;
        let waiting = waiting.concat();
        commands::tried(&app.writer, &waiting)
            .await
            .map_err(database_away)?;
        Ok(waiting.is_empty())
    }

    /// Brings the commands of one caller, in their order; returns those that wait. A service that was silent
    /// in this round is not asked again.
    async fn bring(
        &self,
        commands: Vec<Stored>,
        silent: &Mutex<HashSet<String>>,
    ) -> Result<Vec<CommandId>, Problem> {
        let silent = || silent.lock().unwrap_or_else(PoisonError::into_inner);
        let mut waiting = Vec::new();
        for command in commands {
            let outcome = match self.before(&command).await? {
                Some(outcome) => outcome,
                None if silent().contains(&command.service) => Outcome::Silent,
                None => self.ask(&command).await?,
            };
            match outcome {
                Outcome::CommandOutcome(answer) => self.done(command.id, &answer).await,
                Outcome::Silent => {
                    if command.after.is_none() {
                        silent().insert(command.service);
                    }
                    waiting.push(command.id);
                }
            }
        }
        Ok(waiting)
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
            Some(Some(refused @ Reply::Problem(_))) => Some(Outcome::CommandOutcome(refused)),
        })
    }

    async fn ask(&self, command: &Stored) -> Result<Outcome, Problem> {
        let body = match self.body(command).await? {
            Ok(body) => body,
            Err(refused) => return Ok(Outcome::CommandOutcome(Reply::Problem(refused))),
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
        Ok(answer.map_or(Outcome::Silent, Outcome::CommandOutcome))
    }

    /// The envelope with an assertion of this moment; or why it must not be done any more.
    async fn body(&self, command: &Stored) -> Result<Result<String, Problem>, Problem> {
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
        let Some(parts) = subject::parse(&command.ask_subject) else {
            tracing::error!(id = %command.id, "a stored command without a subject");
            return Ok(Err(Problem::internal()));
        };
        let mut envelope = command.envelope.clone();
        let text = envelope.get("command").map(Value::to_string);
        let asserted = Asserted {
            service: &parts.service,
            verb: &parts.verb,
            key: Some(&command.key),
            command: &text.unwrap_or_default(),
        };
        let assertion = app.assertions.of(&claims, &asserted, now)?;
        if let Some(fields) = envelope.as_object_mut() {
            fields.insert("assertion".to_owned(), assertion.into());
        }
        Ok(Ok(envelope.to_string()))
    }

    async fn done(&self, id: CommandId, answer: &Reply<Value>) {
        let now = self.app.clock.now();
        if let Err(error) = commands::done(&self.app.writer, id, answer, now).await {
            // Its owner is asked again and says the same.
            tracing::error!(%error, %id, "an answer was not kept");
        }
    }
}

/// The commands of each caller, in the order in which they came.
fn by_caller(commands: Vec<Stored>) -> BTreeMap<(String, String), Vec<Stored>> {
    let mut callers: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for command in commands {
        let caller = (command.workspace.to_string(), command.caller.to_string());
        callers.entry(caller).or_default().push(command);
    }
    callers
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
