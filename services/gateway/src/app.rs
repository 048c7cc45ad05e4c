//! What every handler has at hand. Owns the limits that all requests share.

use std::sync::Arc;

use holdpoint_auth::Keys;
use holdpoint_bus::Bus;
use holdpoint_clock::Clock;
use holdpoint_contracts::scheduler::AdvancedClock;
use holdpoint_contracts::{Actor, Command, Envelope, IdempotencyKey, Problem};
use holdpoint_ids::CommandId;
use holdpoint_user_directory::UserDirectory;
use sea_orm::DatabaseConnection;
use tokio::sync::{Mutex, Notify};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::answered::CommandOutcome;
use crate::assertions::Assertions;
use crate::caller::Caller;
use crate::concurrency::ConcurrencyLimit;
use crate::time_zones::TimeZones;
use crate::{Deps, Mails, NotReady};

/// The gateway's own tables.
#[derive(Debug, Clone)]
pub(crate) struct Tables {
    pub(crate) readers: DatabaseConnection,
    pub(crate) writer: DatabaseConnection,
}

/// The shared state behind the router.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) bus: Bus,
    pub(crate) clock: Clock,
    pub(crate) readers: DatabaseConnection,
    pub(crate) writer: DatabaseConnection,
    pub(crate) keys: Keys,
    pub(crate) assertions: Arc<Assertions>,
    pub(crate) people: UserDirectory,
    pub(crate) mails: Option<Mails>,
    pub(crate) not_ready: Option<NotReady>,
    /// Told when a command was accepted for later.
    pub(crate) accepted: Arc<Notify>,
    /// Ends live streams and long polls; requests go on.
    pub(crate) closing: CancellationToken,
    /// Held while the clock moves; inside, the last advance that carried a key.
    pub(crate) advances: Arc<Mutex<Option<(IdempotencyKey, AdvancedClock)>>>,
    /// In which zone each person reads times.
    pub(crate) zones: Arc<TimeZones>,
    /// Live streams and long polls.
    pub(crate) streams: ConcurrencyLimit,
    /// Held while kept mails are read: each reader has a page of them in memory (A-M10).
    pub(crate) reading_mails: Arc<Mutex<()>>,
    /// Agents that are planned or applied.
    pub(crate) plans: ConcurrencyLimit,
    /// All that goes on beside requests; the end waits for it.
    pub(crate) tasks: TaskTracker,
}

impl App {
    pub(crate) fn new(deps: Deps, tables: Tables, closing: CancellationToken) -> Self {
        let Tables { readers, writer } = tables;
        Self {
            people: UserDirectory::new(deps.bus.clone(), readers.clone(), writer.clone()),
            bus: deps.bus,
            clock: deps.clock,
            readers,
            writer,
            keys: deps.keys,
            assertions: Arc::new(Assertions::new(deps.signer)),
            mails: deps.mails,
            not_ready: deps.not_ready,
            accepted: Arc::default(),
            closing,
            advances: Arc::new(Mutex::new(None)),
            zones: Arc::default(),
            streams: ConcurrencyLimit::of_streams(),
            reading_mails: Arc::default(),
            plans: ConcurrencyLimit::of_plans(),
            tasks: TaskTracker::new(),
        }
    }

    /// Asks the owner of a command on the caller's behalf; answers after its commit.
    pub(crate) async fn ask<C: Command + Sync>(
        &self,
        caller: &Caller,
        key: Option<IdempotencyKey>,
        command: C,
    ) -> Result<C::Reply, Problem> {
        let envelope = self.envelope(caller, key, command)?;
        self.bus.ask(&caller.workspace, &envelope).await
    }

    /// The same where it need not be done at once: with its owner down, the command is stored and
    /// brought to it later. An owner that was silent may have done it, so that both ways have one key.
    pub(crate) async fn command<C: Command + Sync>(
        &self,
        caller: &Caller,
        key: Option<IdempotencyKey>,
        command: C,
    ) -> Result<CommandOutcome<C::Reply>, Problem> {
        let key = key.unwrap_or_else(|| IdempotencyKey {
            key: CommandId::fresh().to_string(),
            digest: String::new(),
        });
        self.command_after(caller, Some(key), None, command).await
    }

    /// The same for a command that must not overtake another one. Without a key the command must name what
    /// it makes, as a start does, so that a second one changes nothing.
    pub(crate) async fn command_after<C: Command + Sync>(
        &self,
        caller: &Caller,
        key: Option<IdempotencyKey>,
        after: Option<CommandId>,
        command: C,
    ) -> Result<CommandOutcome<C::Reply>, Problem> {
        let envelope = self.envelope(caller, key, command)?;
        if after.is_none() {
            match self.bus.ask(&caller.workspace, &envelope).await {
                Ok(answer) => return Ok(CommandOutcome::Done(answer)),
                Err(problem) if problem.is_transient() => {
                    tracing::info!(%problem, verb = C::VERB, "stored for later");
                }
                Err(problem) => return Err(problem),
            }
        }
        let id = crate::forward::accept(self, caller, envelope, after).await?;
        Ok(CommandOutcome::Accepted(id))
    }

    fn envelope<C: Command>(
        &self,
        caller: &Caller,
        key: Option<IdempotencyKey>,
        command: C,
    ) -> Result<Envelope<C>, Problem> {
        let envelope = Envelope {
            actor: Actor(caller.claims.user.to_string()),
            assertion: None,
            key,
            command,
        };
        let now = self.clock.now();
        self.assertions.vouch(&caller.claims, envelope, now)
    }
}
