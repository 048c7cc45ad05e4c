//! `nats.conf` in the data folder: port and key of our own server. It is kept over restarts, and only its
//! owner may read it. It is JSON, which the server reads as its own language.

use std::{
    fs,
    io::{self, Write as _},
    net::TcpListener,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use rand::Rng as _;
use serde::{Deserialize, Serialize};

/// Below the ports that systems give to outgoing connections: one of those may have taken ours while
/// nothing of us ran.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
/// Ports that are tried before the system is asked for any.
const TRIES_MAX: usize = 100;
/// Bytes of a key.
const KEY_BYTES: usize = 32;
/// Everything that others than the owner might be allowed.
const OTHERS: u32 = 0o077;

/// What our server is started with. It has no `Debug`, so that the key cannot slip into a log.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Config {
    /// On 127.0.0.1.
    pub(super) port: u16,
    authorization: Authorization,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Authorization {
    token: String,
    /// Seconds that a client may take to give the key. The server's own 2 pass on a machine that is busy.
    #[serde(default = "timeout_s")]
    timeout: u32,
}

const fn timeout_s() -> u32 {
    10
}

impl Config {
    /// A port that is free now, and a new key.
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

    /// The one of an earlier start. A file that others may read or that is not ours is as none: its key
    /// may be known.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let about = fs::metadata(path).ok()?;
        if about.mode() & OTHERS != 0 || about.uid() != rustix::process::geteuid().as_raw() {
            tracing::warn!(path = %path.display(), "others may know the key of the bus; it is replaced");
            return None;
        }
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    /// Keeps it for the next start.
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

    /// The address with the key: what clients connect to.
    pub(super) fn url(&self) -> String {
        let Self {
            port,
            authorization: Authorization { token, .. },
        } = self;
        format!("nats://{token}@127.0.0.1:{port}")
    }

    /// Whether nobody listens on its port.
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

    /// Mend A-H9, D-2: port and key are kept, for their owner alone; a key that others may have read is
    /// replaced.
    #[test]
    fn it_is_kept_for_its_owner_alone() {
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
