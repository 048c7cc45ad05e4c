//! `nats.conf` in the data directory: port and key of our server. It survives restarts, and only its owner may read
//! it. It is JSON, which the server accepts.

use std::{
    fs,
    io::{self, Write as _},
    net::TcpListener,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use rand::Rng as _;
use serde::{Deserialize, Serialize};

/// Below the ports of outgoing connections, because such a connection could take our port while we do not run.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
/// Attempts before the system chooses a port.
const TRIES_MAX: usize = 100;
const KEY_BYTES: usize = 32;
/// Permissions of everyone but the owner.
const OTHERS: u32 = 0o077;

/// The configuration of our server. It has no `Debug`, so that no log contains the key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Config {
    /// On 127.0.0.1.
    pub(super) port: u16,
    authorization: Authorization,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Authorization {
    token: String,
    /// Seconds until a client must have sent the key. The default of 2 is too short on a busy machine.
    #[serde(default = "timeout_s")]
    timeout: u32,
}

const fn timeout_s() -> u32 {
    10
}

impl Config {
    /// A free port and a new key.
    pub(super) fn fresh() -> io::Result<Self> {
        let token = rand::random::<[u8; KEY_BYTES]>();
        let token = token.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self {
            port: free_port()?,
            authorization: Authorization {
                token,
                timeout: timeout_s(),
            },
        })
    }

    /// The configuration of an earlier start. A file that others may read or own is ignored, because they may know
    /// the key.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let about = fs::metadata(path).ok()?;
        if about.mode() & OTHERS != 0 || about.uid() != rustix::process::geteuid().as_raw() {
            tracing::warn!(path = %path.display(), "others may know the key of the bus; it is replaced");
            return None;
        }
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let beside = path.with_extension("conf.new");
        if let Err(error) = fs::remove_file(&beside)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let mut options = fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&beside)?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    }

    /// The address for clients, with the key.
    pub(super) fn url(&self) -> String {
        let Self {
            port,
            authorization: Authorization { token, .. },
        } = self;
        format!("nats://{token}@127.0.0.1:{port}")
    }

    /// Whether no program listens on its port.
    pub(super) fn is_port_free(&self) -> bool {
        TcpListener::bind(("127.0.0.1", self.port)).is_ok()
    }
}

fn free_port() -> io::Result<u16> {
    for _ in 0..TRIES_MAX {
        let port = rand::rng().random_range(PORTS);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Mend A-H9, D-2: port and key are stored for their owner alone, and a key that others may have read is replaced.
    #[test]
    fn the_configuration_is_stored_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nats.conf");
        let config = Config::fresh().unwrap();
        config.write(&path).unwrap();
        config.write(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(Config::read(&path).is_some_and(|read| read == config));
        assert_eq!(config.authorization.token.len(), 2 * KEY_BYTES);
        assert!(Config::fresh().unwrap().authorization.token != config.authorization.token);

        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Config::read(&path).is_none());
    }
}
