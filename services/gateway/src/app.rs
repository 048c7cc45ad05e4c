//! The state that all handlers share.

use std::ops::Deref;
use std::sync::Arc;

use holdpoint_auth::{Keys, Signer};
use holdpoint_bus::Bus;
use holdpoint_clock::Clock;
use holdpoint_contracts::IdempotencyKey;
use holdpoint_contracts::scheduler::AdvancedClock;
use holdpoint_ids::Workspace;
use holdpoint_user_directory::UserDirectory;
use sea_orm::DatabaseConnection;
use tokio::sync::{Mutex, Notify};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::token_lookups::TokenLookups;
use crate::concurrency::{ConcurrencyLimit, PLANS, REHEARSALS, STREAMS};
use crate::deps::{Deps, Mails, NotReady};
use crate::nudges::Nudges;
use crate::store::rehearsals::Kept;
use crate::time_zones::TimeZones;

#[derive(Debug, Clone)]
pub(crate) struct Tables {
    pub(crate) readers: DatabaseConnection,
    pub(crate) writer: DatabaseConnection,
}

/// The state of all requests. Each layer of the router clones it, so it is one pointer.
#[derive(Clone)]
pub(crate) struct App(Arc<AppState>);

impl Deref for App {
    type Target = AppState;

    fn deref(&self) -> &AppState {
        &self.0
    }
}

pub(crate) struct AppState {
    pub(crate) bus: Bus,
    pub(crate) clock: Clock,
    pub(crate) readers: DatabaseConnection,
    pub(crate) writer: DatabaseConnection,
    pub(crate) keys: Keys,
    pub(crate) signer: Arc<Signer>,
    pub(crate) people: UserDirectory,
    pub(crate) tokens: TokenLookups,
    pub(crate) mails: Option<Mails>,
    pub(crate) not_ready: Option<NotReady>,
    /// Notified when a command was stored for later.
    pub(crate) accepted: Arc<Notify>,
    /// Ends live streams and long polls. Other requests continue.
    pub(crate) closing: CancellationToken,
    /// Locked while the clock moves. It contains the last advance that had a key.
    pub(crate) advances: Arc<Mutex<Option<(IdempotencyKey, AdvancedClock)>>>,
    pub(crate) zones: Arc<TimeZones>,
    pub(crate) nudges: Nudges,
    pub(crate) streams: ConcurrencyLimit,
    /// Locked while stored mails are read: each reader holds a page of them in memory (A-M10).
    pub(crate) reading_mails: Arc<Mutex<()>>,
    pub(crate) plans: ConcurrencyLimit,
    pub(crate) rehearsals: ConcurrencyLimit,
    /// Notified when a rehearsal of this gateway has ended.
    pub(crate) rehearsal_ended: Arc<Notify>,
    /// Locked while all runs of stored rehearsals are read: each reader holds megabytes of them in memory.
    pub(crate) reading_rehearsals: Arc<Mutex<()>>,
    /// Background tasks. The gateway waits for them when it stops.
    pub(crate) tasks: TaskTracker,
}

impl App {
    pub(crate) fn new(deps: Deps, tables: Tables, closing: CancellationToken) -> Self {
        let Tables { readers, writer } = tables;
        Self(Arc::new(AppState {
            people: UserDirectory::new(deps.bus.clone(), readers.clone(), writer.clone()),
            tokens: TokenLookups::default(),
            bus: deps.bus,
            clock: deps.clock,
            readers,
            writer,
            keys: deps.keys,
            signer: deps.signer,
            mails: deps.mails,
            not_ready: deps.not_ready,
            accepted: Arc::default(),
            closing,
            advances: Arc::new(Mutex::new(None)),
            zones: Arc::default(),
            nudges: Nudges::default(),
            streams: ConcurrencyLimit::new(&STREAMS),
            reading_mails: Arc::default(),
            plans: ConcurrencyLimit::new(&PLANS),
            rehearsals: ConcurrencyLimit::new(&REHEARSALS),
            rehearsal_ended: Arc::default(),
            reading_rehearsals: Arc::default(),
            tasks: TaskTracker::new(),
        }))
    }

    /// The stored rehearsals of a workspace.
    pub(crate) fn kept_rehearsals<'k>(&'k self, workspace: &'k Workspace) -> Kept<'k> {
        Kept {
            // A reader may lag behind a rehearsal that has just started.
            db: &self.writer,
            workspace,
            now: self.clock.now(),
        }
    }
}
