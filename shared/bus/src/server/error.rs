//! Why there is no server.

use std::path::PathBuf;

use super::version::{OLDEST, ServerVersion};

#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("`{url}` is not a NATS address; expected --nats-url nats://host:4222")]
    Address {
        /// As given, without its credentials.
        url: String,
    },
    #[error("no NATS server answers at {at}; start it, or correct --nats-url")]
    Unreachable { at: String, source: std::io::Error },
    #[error("{at} is not a NATS server; check the port of --nats-url")]
    NotNats { at: String },
    /// The server does not support message schedules, which timers need.
    #[error("the NATS server at {at} has version {version}; Holdpoint needs {OLDEST} or newer")]
    TooOld { at: String, version: ServerVersion },
    #[error("the NATS server at {at} runs without JetStream; start it with `-js -sd DIR`")]
    NoJetStream { at: String },
    #[error("another holdpoint process uses {}; stop it, or choose another --data", dir.display())]
    InUse { dir: PathBuf },
    #[error("cannot use {}; make it writable, or choose another --data", path.display())]
    Disk {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("HOLDPOINT_NATS_SERVER={}: {why}; expected a nats-server {OLDEST} or newer", path.display())]
    Named { path: PathBuf, why: String },
    #[error("{} did not start: {why} (log: {})", binary.display(), log.display())]
    NotStarted {
        binary: PathBuf,
        why: String,
        log: PathBuf,
    },
    /// No server was given, and none could be found or fetched.
    #[error("no NATS server found:{tried}\nOr run one and pass --nats-url.")]
    NoWay {
        /// One line per attempt, with the error.
        tried: String,
    },
}
