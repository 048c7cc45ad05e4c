//! What a process gives to its gateway.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use holdpoint_auth::{Keys, Signer};
use holdpoint_bus::Bus;
use holdpoint_clock::Clock;
use holdpoint_contracts::run::Page;
use holdpoint_store::Location;
use serde_json::Value;

/// Reads a page of the mails that were stored as files instead of sent, newest last.
pub type Mails =
    Arc<dyn Fn(WantedMails) -> BoxFuture<'static, io::Result<Page<Value>>> + Send + Sync>;

/// Selects a mail by its workspace and its recipient.
pub type IsMailShown = Box<dyn Fn(Option<&str>, Option<&str>) -> bool + Send>;

pub struct WantedMails {
    /// Selects the mails that the caller may see.
    pub shown: IsMailShown,
    /// Number of selected mails before the page. `next_cursor` is that number for the next page.
    pub skip: usize,
    /// Most mails of the page.
    pub limit: usize,
}

impl fmt::Debug for WantedMails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WantedMails")
            .field("skip", &self.skip)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// Lists why services of the same process are not ready. An empty list means that they are.
pub type NotReady = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// Resources that the gateway gets from its process.
#[derive(Clone)]
pub struct Deps {
    /// Carries commands and queries to the services.
    pub bus: Bus,
    /// The one source of time.
    pub clock: Clock,
    /// The gateway's database.
    pub store: Location,
    /// Signs for each command who its caller is.
    pub signer: Arc<Signer>,
    /// Checks the tokens of steps.
    pub keys: Keys,
    /// Answers `GET /mails`. Without it the route is answered with 404.
    pub mails: Option<Mails>,
    /// Adds reasons to `/readyz`.
    pub not_ready: Option<NotReady>,
}

impl fmt::Debug for Deps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deps")
            .field("mails", &self.mails.is_some())
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Address to listen on. Port 0 takes a free port.
    pub http: SocketAddr,
}
