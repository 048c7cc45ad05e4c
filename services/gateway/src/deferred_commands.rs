//! Commands whose service was down. The gateway stores them and sends them until the service has replied, across
//! restarts and always under the same idempotency key.
//!
//! They are sent as core requests, each time with a new assertion. In a stream an assertion would have to be
//! valid for hours.

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
use crate::auth::caller::Caller;
use crate::auth::token_scope::limit_to_earlier;
use crate::problem::{ApiError, ApiResult, database_away, key_reused};
use crate::store::commands::{self, Accepted, Stored};
use crate::store::{rehearsals, unmatched_replies};

/// Most stored commands of one workspace for one service; one more is refused with 503.
pub(crate) const OPEN_MAX: u64 = 10_000;
const ROUND: u64 = 200;
/// Callers whose commands are sent at the same time. Those of one caller are sent in their order.
const CALLERS_AT_ONCE: usize = 16;
/// First pause after a round without a reply, and the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Pause without stored commands. A new command ends it.
const PAUSE_IDLE: Duration = Duration::from_mins(1);
/// Replies are kept as long as services remember a key.
const REMEMBERED_FOR: TimeDelta = TimeDelta::hours(24);

/// Stores a command. From then on its service will do it or refuse it.
pub(crate) async fn store<C: Command>(
    app: &App,
    caller: &Caller,
    mut envelope: Envelope<C>,
    after: Option<CommandId>,
) -> Result<CommandId, Problem> {
    let id = CommandId::fresh();
    // A start and a decision may be without a key, because their repetition changes nothing. The service may have done
    // this one without it. `App::command` makes all other keys.
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
            tracing::error!(%error, "command cannot be serialized; it is refused");
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
            "the {} service is down, and {OPEN_MAX} commands of this workspace already wait for it; try again later",
            C::SERVICE
        ))),
    }
}

/// Sends stored commands until `stop`.
pub(crate) async fn run(app: App, stop: CancellationToken) {
    stop.run_until_cancelled(app.send_rounds()).await;
}

/// The reply to a command that was sent; none: it is sent again.
type Delivery = Option<Reply<Value>>;

impl App {
    async fn send_rounds(&self) {
        let mut pause = PAUSE_FIRST;
        loop {
            let wait = match self.send_round().await {
                Ok(true) => {
                    pause = PAUSE_FIRST;
                    PAUSE_IDLE
                }
                Ok(false) => pause,
                Err(ApiError(problem)) => {
                    tracing::warn!(%problem, "stored commands cannot be sent; they are tried again");
                    pause
                }
            };
            tokio::select! {
                () = self.accepted.notified() => pause = PAUSE_FIRST,
                () = tokio::time::sleep(wait) => pause = (pause * 2).min(PAUSE_MAX),
            }
        }
    }

    /// Sends the oldest commands once. True if none are left.
    async fn send_round(&self) -> ApiResult<bool> {
        let before = self.clock.now() - REMEMBERED_FOR;
        commands::forget(&self.writer, before).await?;
        let before = self.clock.now() - unmatched_replies::KEPT_FOR;
        unmatched_replies::forget(&self.writer, before).await?;
        let now = self.clock.now();
        rehearsals::interrupt(&self.writer, now).await?;
        rehearsals::forget(&self.writer, now).await?;
        let open = commands::open(&self.readers, ROUND).await?;
        if open.is_empty() || !self.bus.is_connected() {
            return Ok(open.is_empty());
        }
        let silent = Mutex::default();
        let of_callers = stream::iter(by_caller(open).into_values())
            .map(|commands| self.send_for_caller(commands, &silent))
            .buffer_unordered(CALLERS_AT_ONCE);
        let waiting: Vec<Vec<CommandId>> = of_callers.try_collect().await?;
        let waiting = waiting.concat();
        commands::tried(&self.writer, &waiting).await?;
        Ok(waiting.is_empty())
    }

    /// Sends the commands of one caller in their order, and returns those without a reply. A service that did not
    /// reply in this round gets no further commands.
    async fn send_for_caller(
        &self,
        commands: Vec<Stored>,
        silent: &Mutex<HashSet<String>>,
    ) -> ApiResult<Vec<CommandId>> {
        let silent = || silent.lock().unwrap_or_else(PoisonError::into_inner);
        let mut waiting = Vec::new();
        for command in commands {
            let delivery = match self.check_predecessor(&command).await? {
                Some(delivery) => delivery,
                None if silent().contains(&command.service) => None,
                None => self.send_stored(&command).await?,
            };
            match delivery {
                Some(answer) => self.keep_reply(command.id, &answer).await,
                None => {
                    if command.after.is_none() {
                        silent().insert(command.service);
                    }
                    waiting.push(command.id);
                }
            }
        }
        Ok(waiting)
    }

    /// Checks the command that this one must not overtake. None: this one can be sent.
    async fn check_predecessor(&self, command: &Stored) -> ApiResult<Option<Delivery>> {
        let Some(first) = command.after else {
            return Ok(None);
        };
        let progress = commands::progress(&self.readers, first).await?;
        Ok(match progress.map(|it| it.answer) {
            // Done, and perhaps deleted since.
            None | Some(Some(Reply::Ok(_))) => None,
            Some(None) => Some(None),
            Some(Some(refused @ Reply::Problem(_))) => Some(Some(refused)),
        })
    }

    async fn send_stored(&self, command: &Stored) -> ApiResult<Delivery> {
        let body = match self.sign_stored(command).await? {
            Ok(body) => body,
            Err(refused) => return Ok(Some(Reply::Problem(refused))),
        };
        let request = Request::new()
            .payload(Bytes::from(body))
            .timeout(Some(REQUEST_TIMEOUT));
        let subject = command.ask_subject.clone();
        Ok(
            match self.bus.client().send_request(subject, request).await {
                Ok(message) => read_final_reply(&message.payload),
                Err(error) => {
                    tracing::debug!(%error, id = %command.id, "service does not reply; the command is sent again");
                    None
                }
            },
        )
    }

    /// The envelope with a new assertion, or why it must not be sent.
    async fn sign_stored(&self, command: &Stored) -> Result<Result<String, Problem>, Problem> {
        let user = self
            .people
            .known(&command.workspace, &command.caller)
            .await?;
        let Some(user) = user.filter(|user| user.active) else {
            let detail = "the caller was disabled before the command could be done";
            return Ok(Err(Problem::new(403, "forbidden", detail)));
        };
        let claims = Claims {
            workspace: command.workspace.clone(),
            user: command.caller.clone(),
            roles: limit_to_earlier(&user.roles, &command.roles),
            expires_at: self.clock.now(),
        };
        let Some(parts) = subject::parse(&command.ask_subject) else {
            tracing::error!(id = %command.id, "stored command has an invalid subject; it is refused");
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
        let assertion = self.sign_assertion(&claims, &asserted)?;
        if let Some(fields) = envelope.as_object_mut() {
            fields.insert("assertion".to_owned(), assertion.into());
        }
        Ok(Ok(envelope.to_string()))
    }

    async fn keep_reply(&self, id: CommandId, answer: &Reply<Value>) {
        let now = self.clock.now();
        if let Err(error) = commands::done(&self.writer, id, answer, now).await {
            // The command is sent again under its key and gets the same reply.
            tracing::error!(%error, %id, "reply was not stored; the command is sent again");
        }
    }
}

/// The commands of each caller in their order.
fn by_caller(commands: Vec<Stored>) -> BTreeMap<(String, String), Vec<Stored>> {
    let mut callers: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for command in commands {
        let caller = (command.workspace.to_string(), command.caller.to_string());
        callers.entry(caller).or_default().push(command);
    }
    callers
}

/// A final reply. After an expired assertion or a transient problem the command is sent again.
fn read_final_reply(payload: &[u8]) -> Option<Reply<Value>> {
    let reply: Reply<Value> = serde_json::from_slice(payload)
        .inspect_err(|error| tracing::error!(%error, "malformed reply; the command is sent again"))
        .ok()?;
    match &reply {
        Reply::Ok(_) => Some(reply),
        Reply::Problem(problem) => {
            let is_final = !problem.is_transient() && problem.code != "invalid_assertion";
            is_final.then_some(reply)
        }
    }
}
