//! Looks at a server from outside: connects, reads its greeting, judges it. Sends nothing.

use std::{fmt, io, time::Duration};

use serde::Deserialize;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    net::TcpStream,
    time::timeout,
};

use super::ServerError;
use crate::without_credentials;

/// The oldest server with message schedules, which timers are armed by.
pub const OLDEST: ServerVersion = ServerVersion {
    major: 2,
    minor: 12,
    patch: 0,
};

/// For the connection, and again for the greeting.
const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// A greeting is some 500 bytes; a cluster's list of addresses makes it longer.
const GREETING_MAX: u64 = 64 * 1024;
const DEFAULT_PORT: &str = "4222";

/// Version of a NATS server; ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerVersion {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
    /// Third number; a suffix such as `-RC.1` is not kept.
    pub patch: u32,
}

impl ServerVersion {
    /// Reads `2.15.1`, `v2.15.1` and `2.15.1-RC.1`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_start_matches('v');
        let plain = text.split(['-', '+']).next()?;
        let mut numbers = plain.split('.').map(|part| part.parse::<u32>().ok());
        let major = numbers.next()??;
        let minor = numbers.next()??;
        let patch = numbers.next().unwrap_or(Some(0))?;
        Some(Self {
            major,
            minor,
            patch,
        })
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[derive(Deserialize)]
struct Greeting {
    version: String,
    #[serde(default)]
    jetstream: bool,
    #[serde(default)]
    auth_required: bool,
}

/// Connects to `url`, reads the greeting, and answers with the server's version if it is at least
/// [`OLDEST`] and keeps streams. Of a comma-separated list the first that answers is judged.
///
/// # Errors
/// [`ServerError`] says what is wrong at which address, and how to mend it.
pub async fn check(url: &str) -> Result<ServerVersion, ServerError> {
    let mut last = ServerError::Address {
        url: without_credentials(url),
    };
    for one in url.split(',') {
        let at = address(one).ok_or_else(|| ServerError::Address {
            url: without_credentials(url),
        })?;
        match greeting(&at).await {
            Ok(line) => return judge(at, &line),
            Err(source) => last = ServerError::Unreachable { at, source },
        }
    }
    Err(last)
}

/// `host:port` of a NATS URL, without scheme and credentials.
fn address(url: &str) -> Option<String> {
    let url = url.trim();
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest
        .rsplit_once('@')
        .map_or(rest, |(_, host)| host)
        .trim_end_matches('/');
    let bare = host.rsplit_once(']').map_or(host, |(_, after)| after);
    match bare.rsplit_once(':') {
        Some(("", _)) if bare == host => None,
        Some((_, port)) => port.parse::<u16>().ok().map(|_| host.to_owned()),
        None if host.is_empty() => None,
        None => Some(format!("{host}:{DEFAULT_PORT}")),
    }
}

async fn greeting(at: &str) -> io::Result<String> {
    let stream = timeout(ANSWER_WAIT, TcpStream::connect(at)).await??;
    let mut line = String::new();
    let mut reader = BufReader::new(stream.take(GREETING_MAX));
    timeout(ANSWER_WAIT, reader.read_line(&mut line)).await??;
    Ok(line)
}

fn read(line: &str) -> Option<Greeting> {
    let json = line.strip_prefix("INFO ")?;
    serde_json::from_str(json.trim()).ok()
}

/// Whether the server at `url` takes only clients that prove themselves.
pub(super) async fn wants_proof(url: &str) -> bool {
    let Some(at) = address(url) else {
        return false;
    };
    let line = greeting(&at).await.unwrap_or_default();
    read(&line).is_some_and(|greeting| greeting.auth_required)
}

fn judge(at: String, line: &str) -> Result<ServerVersion, ServerError> {
    let Some(greeting) = read(line) else {
        return Err(ServerError::NotNats { at });
    };
    let Some(version) = ServerVersion::parse(&greeting.version) else {
        return Err(ServerError::NotNats { at });
    };
    if version < OLDEST {
        return Err(ServerError::TooOld { at, version });
    }
    if !greeting.jetstream {
        return Err(ServerError::NoJetStream { at });
    }
    Ok(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lose_scheme_and_credentials() {
        for (url, at) in [
            ("nats://127.0.0.1:4333", Some("127.0.0.1:4333")),
            ("nats://s3cret@nats.example", Some("nats.example:4222")),
            ("tls://user:pa@ss@host:1/", Some("host:1")),
            ("host", Some("host:4222")),
            ("nats://[::1]:4222", Some("[::1]:4222")),
            ("nats://[::1]", Some("[::1]:4222")),
            ("nats://", None),
            ("nats://:4222", None),
            ("nats://host:http", None),
        ] {
            assert_eq!(address(url).as_deref(), at, "{url}");
        }
    }

    #[test]
    fn versions_are_ordered_and_lose_their_suffix() {
        let parsed = |text| ServerVersion::parse(text).unwrap();
        assert_eq!(parsed("v2.15.1-RC.1").to_string(), "2.15.1");
        assert!(parsed("2.9.30") < OLDEST && parsed("2.12") >= OLDEST && parsed("3.0.0") > OLDEST);
        assert_eq!(ServerVersion::parse("nats"), None);
    }

    #[test]
    fn a_greeting_is_judged_by_version_and_streams() {
        let judged = |line: &str| judge("here:1".into(), line);
        let ok = judged("INFO {\"version\":\"2.15.1\",\"jetstream\":true}\r\n").unwrap();
        assert_eq!(ok.to_string(), "2.15.1");
        let old = judged("INFO {\"version\":\"2.10.5\",\"jetstream\":true}").unwrap_err();
        assert_eq!(
            old.to_string(),
            "the NATS server at here:1 has version 2.10.5; Holdpoint needs 2.12.0 or newer"
        );
        let bare = judged("INFO {\"version\":\"2.15.1\"}").unwrap_err();
        assert!(bare.to_string().contains("without JetStream"), "{bare}");
        assert!(matches!(
            judged("HTTP/1.1 400"),
            Err(ServerError::NotNats { .. })
        ));
    }

    #[tokio::test]
    async fn nobody_there_says_where() {
        let free = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let error = check(&format!("nats://{free}")).await.unwrap_err();
        assert!(error.to_string().contains(&free.to_string()), "{error}");
    }
}
