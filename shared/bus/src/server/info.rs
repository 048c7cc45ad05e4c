//! Connects to a server, reads its greeting and checks it. Sends nothing.

use std::{io, time::Duration};

use serde::Deserialize;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    net::TcpStream,
    time::timeout,
};

use super::error::ServerError;
use super::version::{OLDEST, ServerVersion};
use crate::address::without_credentials;

/// Time limit of the connection, and of the greeting.
const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// Longest greeting. It usually has some 500 bytes, and a cluster adds its addresses.
const GREETING_MAX: u64 = 64 * 1024;
const DEFAULT_PORT: &str = "4222";

#[derive(Deserialize)]
struct Greeting {
    version: String,
    #[serde(default)]
    jetstream: bool,
    #[serde(default)]
    auth_required: bool,
}

/// The version of the server at `url`, which must be at least [`OLDEST`] and have JetStream. In a comma-separated
/// list the first server that answers is checked.
///
/// # Errors
/// [`ServerError`] with the address.
pub async fn check(url: &str) -> Result<ServerVersion, ServerError> {
    let mut last = ServerError::Address {
        url: without_credentials(url),
    };
    for one in url.split(',') {
        let at = address(one).ok_or_else(|| ServerError::Address {
            url: without_credentials(url),
        })?;
        match greeting(&at).await {
            Ok(line) => return check_greeting(at, &line),
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

/// Whether the server at `url` requires credentials.
pub(super) async fn requires_key(url: &str) -> bool {
    let Some(at) = address(url) else {
        return false;
    };
    let line = greeting(&at).await.unwrap_or_default();
    read(&line).is_some_and(|greeting| greeting.auth_required)
}

fn check_greeting(at: String, line: &str) -> Result<ServerVersion, ServerError> {
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
    fn a_greeting_is_checked_for_version_and_streams() {
        let checked = |line: &str| check_greeting("here:1".into(), line);
        let ok = checked("INFO {\"version\":\"2.15.1\",\"jetstream\":true}\r\n").unwrap();
        assert_eq!(ok.to_string(), "2.15.1");
        let old = checked("INFO {\"version\":\"2.10.5\",\"jetstream\":true}").unwrap_err();
        assert_eq!(
            old.to_string(),
            "the NATS server at here:1 has version 2.10.5; Holdpoint needs 2.12.0 or newer"
        );
        let bare = checked("INFO {\"version\":\"2.15.1\"}").unwrap_err();
        assert!(bare.to_string().contains("without JetStream"), "{bare}");
        assert!(matches!(
            checked("HTTP/1.1 400"),
            Err(ServerError::NotNats { .. })
        ));
    }

    #[tokio::test]
    async fn an_unreachable_server_is_reported_with_its_address() {
        let free = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let error = check(&format!("nats://{free}")).await.unwrap_err();
        assert!(error.to_string().contains(&free.to_string()), "{error}");
    }
}
