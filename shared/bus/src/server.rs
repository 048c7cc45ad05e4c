//! NATS without set-up: finds a server, takes back the one a killed parent left, or starts one.
//!
//! Owns the way from "nothing installed" to a URL that answers, and the end of what it started.
//! It never stops a server that it was given, never uses one that is too old, and never waits
//! without a limit. Streams and messages are not its business.

mod binary;
mod child;
mod config;
mod container;
mod data_dir;
mod info;
mod process;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    path::{Path, PathBuf},
};

use tracing::{info, warn};

pub use self::info::{OLDEST, ServerVersion, check};
use self::{child::Running, data_dir::DataDir};
use crate::without_credentials;

/// What the caller wants from [`provide`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// Holds everything a started server leaves on disk: `nats/` (its store), `nats.conf` (its port and
    /// key, which stay), `nats-server.pid`, `nats-server.log`, `nats-ports/` and `nats.lock`. Made when
    /// missing.
    pub data_dir: PathBuf,
    /// `--nats-url`: a server somebody else runs. May carry a token (`nats://token@host:4222`)
    /// and may be a comma-separated list.
    pub url: Option<String>,
}

/// Where the server of a [`Provided`] came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Somebody else runs it; it is never stopped.
    Given,
    /// A live child of an earlier process on the same data directory; ours, stopped by `stop`.
    Adopted { pid: u32 },
    /// A child of this process.
    Started {
        pid: u32,
        /// The program that runs.
        binary: PathBuf,
    },
    /// A Docker container, started now or left by an earlier process on the same data directory.
    Container { id: String },
}

/// A NATS server that answers and is new enough.
///
/// Dropping it leaves a started server running, as a killed process would: the next [`provide`]
/// on the same data directory takes it back. Call [`Provided::stop`] to end it.
pub struct Provided {
    /// What clients connect to; it carries the key of a server of ours. See
    /// [`crate::without_credentials`].
    pub url: String,
    /// Where it came from.
    pub origin: Origin,
    /// What its greeting said.
    pub version: ServerVersion,
    child: Option<tokio::process::Child>,
    lock: Option<std::fs::File>,
    /// Where its files are; none: somebody else's.
    data_dir: Option<DataDir>,
}

impl fmt::Debug for Provided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provided")
            .field("url", &without_credentials(&self.url))
            .field("origin", &self.origin)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// Why there is no NATS server. Each message says where, and how to mend it.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// `--nats-url` holds no host.
    #[error("`{url}` is no NATS address: give --nats-url as nats://host:4222")]
    Address {
        /// As given, without its credentials.
        url: String,
    },
    /// No connection, or no greeting in time.
    #[error("no NATS server answers at {at}: start it, or mend --nats-url")]
    Unreachable {
        at: String,
        /// What the connection said.
        source: std::io::Error,
    },
    /// Something answers there that does not speak NATS.
    #[error("{at} does not greet like a NATS server: look at the port of --nats-url")]
    NotNats { at: String },
    /// The server lacks message schedules, which timers need.
    #[error("the NATS server at {at} is {version}, Holdpoint needs {OLDEST} or newer: upgrade it")]
    TooOld { at: String, version: ServerVersion },
    /// The server keeps no streams.
    #[error("the NATS server at {at} runs without JetStream: start it with `-js -sd DIR`")]
    NoJetStream { at: String },
    /// Another live Holdpoint process has this data directory.
    #[error("another holdpoint process is using {}: stop it, or give another --data", dir.display())]
    InUse { dir: PathBuf },
    /// The data directory cannot be used.
    #[error("cannot use {}: make it writable, or give another --data", path.display())]
    Disk {
        /// The file or folder in question.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// `HOLDPOINT_NATS_SERVER` names a program that will not do.
    #[error("HOLDPOINT_NATS_SERVER={}: {why}; name a nats-server {OLDEST} or newer, or unset it", path.display())]
    Named {
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A program was there, but no server came of it.
    #[error("{} did not become a NATS server: {why} (log: {})", binary.display(), log.display())]
    NotStarted {
        binary: PathBuf,
        why: String,
        /// Where its own words are.
        log: PathBuf,
    },
    /// Nothing was given, and every way of getting one failed.
    #[error("no NATS server could be had:{tried}\nOr run one yourself and give --nats-url.")]
    NoWay {
        /// One line for each way: what was tried, why it failed, how to mend it.
        tried: String,
    },
}

/// Answers with a NATS server: the given one, else the one a killed parent left on this data
/// directory, else one started from `HOLDPOINT_NATS_SERVER`, the `PATH`, the pinned download, or
/// the Docker image `HOLDPOINT_NATS_IMAGE`, in this order.
///
/// # Errors
/// [`ServerError`] says what was tried and how to mend it.
pub async fn provide(settings: Settings) -> Result<Provided, ServerError> {
    if let Some(url) = settings.url {
        let version = check(&url).await?;
        return Ok(Provided::new(url, Origin::Given, version));
    }
    let data_dir = DataDir::open(&settings.data_dir)?;
    let lock = data_dir.lock()?;
    let mut provided = match adopted(&data_dir).await {
        Some(provided) => provided,
        None => started(&data_dir).await?,
    };
    let url = without_credentials(&provided.url);
    info!(url, origin = ?provided.origin, version = %provided.version, "NATS is there");
    provided.lock = Some(lock);
    provided.data_dir = Some(data_dir);
    Ok(provided)
}

/// The `nats-server` program that [`provide`] would start.
///
/// # Errors
/// [`ServerError`] says what was tried and how to mend it.
pub async fn program() -> Result<PathBuf, ServerError> {
    let mut tried = String::new();
    let found = binary::find(&mut tried).await?;
    found.ok_or(ServerError::NoWay { tried })
}

async fn adopted(data_dir: &DataDir) -> Option<Provided> {
    if let Some((pid, url, version)) = child::adopt(data_dir).await {
        return Some(Provided::new(url, Origin::Adopted { pid }, version));
    }
    let (id, url, version) = container::adopt(data_dir).await?;
    Some(Provided::new(url, Origin::Container { id }, version))
}

async fn started(data_dir: &DataDir) -> Result<Provided, ServerError> {
    let mut tried = String::new();
    if let Some(binary) = binary::find(&mut tried).await? {
        let Running {
            child,
            pid,
            url,
            version,
        } = start_program(&binary, data_dir).await?;
        let mut provided = Provided::new(url, Origin::Started { pid, binary }, version);
        provided.child = Some(child);
        return Ok(provided);
    }
    match container::start(data_dir, &data_dir.config_to_start()?).await {
        Ok((id, url, version)) => Ok(Provided::new(url, Origin::Container { id }, version)),
        Err(why) => {
            binary::note(&mut tried, &why);
            Err(ServerError::NoWay { tried })
        }
    }
}

/// Starts it; again on another port where another program was faster to take ours.
async fn start_program(binary: &Path, data_dir: &DataDir) -> Result<Running, ServerError> {
    let config = data_dir.config_to_start()?;
    match child::start(binary, data_dir, &config).await {
        Err(error) if config.is_port_free() => Err(error),
        Err(_taken) => child::start(binary, data_dir, &data_dir.config_to_start()?).await,
        Ok(running) => Ok(running),
    }
}

/// Kills, at once, the server process that a killed parent left on `data_dir`. Says whether there
/// was one. For tests that kill their parents; containers are left to `docker rm`.
pub fn kill_leftover(data_dir: &Path) -> bool {
    let Some(data_dir) = DataDir::existing(data_dir) else {
        return false;
    };
    child::find(&data_dir).is_some_and(|pid| process::kill_now(pid, &data_dir))
}

impl Provided {
    fn new(url: String, origin: Origin, version: ServerVersion) -> Self {
        Self {
            url,
            origin,
            version,
            child: None,
            lock: None,
            data_dir: None,
        }
    }

    /// Ends our server's process and starts it again at the same address, on what it has stored. False: it
    /// is no process of ours, and goes on as it is.
    ///
    /// # Errors
    /// [`ServerError`] when it does not come back; then there is none, and it may be tried again.
    pub async fn start_anew(&mut self) -> Result<bool, ServerError> {
        let (Some(data_dir), Some(pid)) = (&self.data_dir, self.pid()) else {
            return Ok(false);
        };
        // The program of a process that was taken back is what it runs.
        let binary = match &self.origin {
            Origin::Started { binary, .. } => binary.clone(),
            Origin::Adopted { .. } | Origin::Given | Origin::Container { .. } => {
                match std::fs::read_link(format!("/proc/{pid}/exe")) {
                    Ok(binary) => binary,
                    Err(error) => {
                        warn!(pid, %error, "the program of the NATS server is not known; it goes on as it is");
                        return Ok(false);
                    }
                }
            }
        };
        let Some(config) = data_dir.config() else {
            warn!(
                pid,
                "the port and key of the NATS server are not known; it goes on as it is"
            );
            return Ok(false);
        };
        match self.child.take() {
            Some(mut child) => process::end_child(pid, &mut child).await,
            None => process::end_stranger(pid, data_dir).await,
        }
        // Known from here on, though it does not come back at once.
        self.origin = Origin::Started {
            pid,
            binary: binary.clone(),
        };
        let running = child::start(&binary, data_dir, &config).await?;
        self.child = Some(running.child);
        self.url = running.url;
        let pid = running.pid;
        self.origin = Origin::Started { pid, binary };
        info!(pid, "NATS was started anew");
        Ok(true)
    }

    /// Ends what [`provide`] started or took back: asks, waits 10 s, then kills. A given server is
    /// left alone.
    pub async fn stop(mut self) {
        match (&self.origin, self.child.take()) {
            (Origin::Given, _) => {}
            (Origin::Started { pid, .. } | Origin::Adopted { pid }, Some(mut child)) => {
                process::end_child(*pid, &mut child).await;
            }
            (Origin::Started { pid, .. } | Origin::Adopted { pid }, None) => {
                if let Some(data_dir) = &self.data_dir {
                    process::end_stranger(*pid, data_dir).await;
                }
            }
            (Origin::Container { id }, _) => {
                if let Err(why) = container::stop(id).await {
                    warn!(id, why, "the NATS container was not stopped");
                }
            }
        }
        // A program that is just being started may still hold a copy of the descriptor.
        if let Some(lock) = self.lock.take()
            && let Err(error) = lock.unlock()
        {
            warn!(%error, "the data directory stays locked until this process ends");
        }
    }

    /// The server's process id, when it is a process of this machine that is ours.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        match &self.origin {
            Origin::Started { pid, .. } | Origin::Adopted { pid } => Some(*pid),
            Origin::Given | Origin::Container { .. } => None,
        }
    }

    /// Waits until our server's process has ended without being asked to; for ever where the server
    /// is no process of ours.
    pub async fn ended(&self) {
        let (Some(pid), Some(data_dir)) = (self.pid(), &self.data_dir) else {
            return std::future::pending().await;
        };
        while !process::has_ended(pid, data_dir) {
            tokio::time::sleep(ENDED_LOOK).await;
        }
    }
}

/// How often it is looked whether the server's process has ended.
const ENDED_LOOK: std::time::Duration = std::time::Duration::from_millis(500);
