//! The files of a started server in its data directory, and the lock that gives the directory to one Holdpoint
//! process.

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use tracing::warn;

use super::{config::Config, error::ServerError};

/// A data directory by its absolute path, so that a later process finds the same one.
#[derive(Debug)]
pub(super) struct DataDir {
    root: PathBuf,
}

/// The lock of a data directory. The drop unlocks it explicitly, because a program that is being started at this moment
/// may still have a copy of the descriptor.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            warn!(%error, "data directory not unlocked; it stays locked until this process ends");
        }
    }
}

impl DataDir {
    /// Creates missing folders.
    pub(super) fn open(dir: &Path) -> Result<Self, ServerError> {
        let disk = |source: io::Error| ServerError::Disk {
            path: dir.to_owned(),
            source,
        };
        fs::create_dir_all(dir).map_err(disk)?;
        let data_dir = Self {
            root: fs::canonicalize(dir).map_err(disk)?,
        };
        for folder in [data_dir.store(), data_dir.ports_dir()] {
            let mut make = fs::DirBuilder::new();
            make.recursive(true)
                .mode(0o700)
                .create(folder)
                .map_err(disk)?;
        }
        Ok(data_dir)
    }

    /// Creates nothing.
    pub(super) fn existing(dir: &Path) -> Option<Self> {
        Some(Self {
            root: fs::canonicalize(dir).ok()?,
        })
    }

    /// Held while a `Provided` lives. The system releases it when the process is killed, and the server does not
    /// inherit it.
    pub(super) fn lock(&self) -> Result<Lock, ServerError> {
        let path = self.root.join("nats.lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|source| ServerError::Disk {
                path: path.clone(),
                source,
            })?;
        match file.try_lock() {
            Ok(()) => Ok(Lock(file)),
            Err(TryLockError::WouldBlock) => Err(ServerError::InUse {
                dir: self.root.clone(),
            }),
            Err(TryLockError::Error(source)) => Err(ServerError::Disk { path, source }),
        }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn store(&self) -> PathBuf {
        self.root.join("nats")
    }

    /// The server writes `NAME_PID.ports` here once it listens.
    pub(super) fn ports_dir(&self) -> PathBuf {
        self.root.join("nats-ports")
    }

    /// For operators; the process is found without it.
    pub(super) fn pid_file(&self) -> PathBuf {
        self.root.join("nats-server.pid")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.root.join("nats-server.log")
    }

    pub(super) fn config_file(&self) -> PathBuf {
        self.root.join("nats.conf")
    }

    pub(super) fn config(&self) -> Option<Config> {
        Config::read(&self.config_file())
    }

    /// Port and key for a start: those of the previous start. If another program listens on that port both are new,
    /// because clients may have sent it the key.
    pub(super) fn config_to_start(&self) -> Result<Config, ServerError> {
        if let Some(kept) = self.config() {
            if kept.is_port_free() {
                return Ok(kept);
            }
            tracing::warn!(
                port = kept.port,
                "another program listens on the port of the bus; the bus gets another port and key"
            );
        }
        let fresh = Config::fresh().and_then(|fresh| {
            fresh.write(&self.config_file())?;
            Ok(fresh)
        });
        fresh.map_err(|source| ServerError::Disk {
            path: self.config_file(),
            source,
        })
    }

    /// The id of a server that runs as a container.
    pub(super) fn container_file(&self) -> PathBuf {
        self.root.join("nats-container.id")
    }

    /// The port that the server with this process id wrote, if it listens yet.
    pub(super) fn port_of(&self, pid: u32) -> Option<u16> {
        let suffix = format!("_{pid}.ports");
        let file = fs::read_dir(self.ports_dir())
            .ok()?
            .flatten()
            .find(|entry| entry.file_name().to_string_lossy().ends_with(&suffix))?;
        let ports: serde_json::Value = serde_json::from_slice(&fs::read(file.path()).ok()?).ok()?;
        let url = ports.get("nats")?.get(0)?.as_str()?;
        url.rsplit(':').next()?.parse().ok()
    }

    /// Removes the ports of killed servers, because process ids are reused.
    pub(super) fn remove_ports(&self) {
        for entry in fs::read_dir(self.ports_dir())
            .into_iter()
            .flatten()
            .flatten()
        {
            if let Err(error) = fs::remove_file(entry.path()) {
                tracing::warn!(path = %entry.path().display(), %error, "stale ports file stays");
            }
        }
    }
}
