//! What every handler has at hand. Owns the limits that all requests share.

use std::sync::Arc;

use holdpoint_bus::Bus;
use holdpoint_clock::Clock;
use holdpoint_contracts::scheduler::AdvancedClock;
use holdpoint_contracts::{Actor, Asked, Command, Envelope, Problem};
use sea_orm::DatabaseConnection;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::caller::Caller;
use crate::{Deps, Mails};

/// Live streams at a time; one more is told to come back (503).
const STREAMS_MAX: usize = 2_000;

/// The shared state behind the router.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) bus: Bus,
    pub(crate) clock: Clock,
    pub(crate) readers: DatabaseConnection,
    pub(crate) mails: Option<Mails>,
    /// Ends live streams; requests go on.
    pub(crate) closing: CancellationToken,
    /// Held while the clock moves; inside, the last advance that carried a key.
    pub(crate) advances: Arc<Mutex<Option<(Asked, AdvancedClock)>>>,
    streams: Arc<Semaphore>,
}

impl App {
    pub(crate) fn new(deps: Deps, readers: DatabaseConnection, closing: CancellationToken) -> Self {
        Self {
            bus: deps.bus,
            clock: deps.clock,
            readers,
            mails: deps.mails,
            closing,
            advances: Arc::new(Mutex::new(None)),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
        }
    }

    /// Asks the owner of a command on the caller's behalf; answers after its commit.
    pub(crate) async fn ask<C: Command + Sync>(
        &self,
        caller: &Caller,
        key: Option<Asked>,
        command: C,
    ) -> Result<C::Answer, Problem> {
        let envelope = Envelope {
            actor: Actor(caller.user.clone()),
            assertion: None,
            key,
            command,
        };
        self.bus.ask(&caller.workspace, &envelope).await
    }

    /// The right to hold one live stream open, as long as the permit lives.
    pub(crate) fn stream_permit(&self) -> Result<OwnedSemaphorePermit, Problem> {
        self.streams.clone().try_acquire_owned().map_err(|_full| {
            Problem::unavailable(format!(
                "{STREAMS_MAX} live streams are open, which is the most; close some or try again"
            ))
        })
    }
}
