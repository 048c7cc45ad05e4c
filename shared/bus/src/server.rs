//! NATS without set-up: finds a server, adopts the one of a killed parent, or starts one.
//!
//! Owns the steps from "nothing installed" to a URL that answers, and the end of a started server. It never
//! stops a given server, never uses one that is too old, and never waits without a limit. It knows nothing
//! of streams and messages.

mod binary;
mod child;
mod config;
mod container;
mod data_dir;
mod error;
mod info;
mod process;
#[cfg(test)]
mod tests;
mod version;

use std::{
    fmt,
    path::{Path, PathBuf},
};

use tracing::{info, warn};

pub use self::error::ServerError;
pub use self::info::check;
pub use self::version::{OLDEST, ServerVersion};
use self::{
    child::Running,
    data_dir::{DataDir, Lock},
};
use crate::without_credentials;

/// Settings of [`provide`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// Contains all files of a started server: `nats/` (its store), `nats.conf` (its port and key, which stay),
    /// `nats-server.pid`, `nats-server.log`, `nats-ports/` and `nats.lock`. Created if it does not exist.
    pub data_dir: PathBuf,
    /// `--nats-url`: an external server. May contain a token (`nats://token@host:4222`) and may be a
    /// comma-separated list.
    pub url: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An external server, which is never stopped.
    Given,
    /// A live child of an earlier process with the same data directory; stopped by `stop`.
    Adopted { pid: u32 },
    /// A child of this process.
    Started { pid: u32, binary: PathBuf },
    /// A Docker container of this process, or of an earlier one with the same data directory.
    Container { id: String },
}

/// A NATS server that answers and is new enough.
///
/// Dropping it leaves a started server running. The next [`provide`] with the same data directory adopts
/// it. Call [`Provided::stop`] to end it.
pub struct Provided {
    /// The address for clients. It contains the key of a started server; see [`crate::without_credentials`].
    pub url: String,
    pub origin: Origin,
    pub version: ServerVersion,
    child: Option<tokio::process::Child>,
    lock: Option<Lock>,
    /// `None` for an external server.
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

/// Provides the first of these servers:
/// - the given one;
/// - the one of a killed parent with the same data directory;
/// - one started from `HOLDPOINT_NATS_SERVER`, the `PATH`, the pinned download or the Docker image
///   `HOLDPOINT_NATS_IMAGE`.
///
/// # Errors
/// [`ServerError`] with what was tried.
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
    info!(url, origin = ?provided.origin, version = %provided.version, "NATS server is available");
    provided.lock = Some(lock);
    provided.data_dir = Some(data_dir);
    Ok(provided)
}

/// The `nats-server` program that [`provide`] would start.
///
/// # Errors
/// [`ServerError`] with what was tried.
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
    match container::start(data_dir, &data_dir.config_to_start()?, None).await {
        Ok((id, url, version)) => Ok(Provided::new(url, Origin::Container { id }, version)),
        Err(why) => {
            binary::add_attempt(&mut tried, &why);
            Err(ServerError::NoWay { tried })
        }
    }
}

/// Starts the program, on another port if another program has taken ours.
async fn start_program(binary: &Path, data_dir: &DataDir) -> Result<Running, ServerError> {
    let config = data_dir.config_to_start()?;
    match child::start(binary, data_dir, &config).await {
        Err(error) if config.is_port_free() => Err(error),
        Err(_taken) => child::start(binary, data_dir, &data_dir.config_to_start()?).await,
        Ok(running) => Ok(running),
    }
}

/// Kills the server process of a killed parent with this data directory. Returns whether there was one. For
/// tests that kill their parents; it does not affect containers.
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

    /// Restarts our server's process at the same address with its stored data. `false`: it is not our
    /// process and continues.
    ///
    /// # Errors
    /// [`ServerError`]: it did not start again. The restart can be repeated.
    pub async fn start_anew(&mut self) -> Result<bool, ServerError> {
        let (Some(data_dir), Some(pid)) = (&self.data_dir, self.pid()) else {
            return Ok(false);
        };
        // The program of an adopted process is read from `/proc`.
        let binary = match &self.origin {
            Origin::Started { binary, .. } => binary.clone(),
            Origin::Adopted { .. } | Origin::Given | Origin::Container { .. } => {
                match std::fs::read_link(format!("/proc/{pid}/exe")) {
                    Ok(binary) => binary,
                    Err(error) => {
                        warn!(pid, %error, "NATS server not restarted because its program is unknown");
                        return Ok(false);
                    }
                }
            }
        };
        let Some(config) = data_dir.config() else {
            warn!(
                pid,
                "NATS server not restarted because its port and key are unknown"
            );
            return Ok(false);
        };
        match self.child.take() {
            Some(mut child) => process::end_child(pid, &mut child).await,
            None => process::end_adopted(pid, data_dir).await,
        }
        // Stored before the server answers, because it may take long to start.
        self.origin = Origin::Started {
            pid,
            binary: binary.clone(),
        };
        let running = child::start(&binary, data_dir, &config).await?;
        self.child = Some(running.child);
        self.url = running.url;
        let pid = running.pid;
        self.origin = Origin::Started { pid, binary };
        info!(pid, "NATS server restarted");
        Ok(true)
    }

    /// Ends a started or adopted server: sends a signal, waits 10 s, then kills it. A given server continues.
    pub async fn stop(mut self) {
        match (&self.origin, self.child.take()) {
            (Origin::Given, _) => {}
            (Origin::Started { pid, .. } | Origin::Adopted { pid }, Some(mut child)) => {
                process::end_child(*pid, &mut child).await;
            }
            (Origin::Started { pid, .. } | Origin::Adopted { pid }, None) => {
                if let Some(data_dir) = &self.data_dir {
                    process::end_adopted(*pid, data_dir).await;
                }
            }
            (Origin::Container { id }, _) => {
                if let Err(why) = container::stop(id).await {
                    warn!(id, why, "NATS container not stopped");
                }
            }
        }
        // Only now, because the server used the directory until its end.
        drop(self.lock.take());
    }

    /// The process id of our server on this machine.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        match &self.origin {
            Origin::Started { pid, .. } | Origin::Adopted { pid } => Some(*pid),
            Origin::Given | Origin::Container { .. } => None,
        }
    }

    /// Waits until our server's process has ended by itself; for ever if it is not our process.
    pub async fn ended(&self) {
        let (Some(pid), Some(data_dir)) = (self.pid(), &self.data_dir) else {
            return std::future::pending().await;
        };
        while !process::has_ended(pid, data_dir) {
            tokio::time::sleep(ENDED_CHECK).await;
        }
    }
}

/// How often the end of the server's process is checked.
const ENDED_CHECK: std::time::Duration = std::time::Duration::from_millis(500);
