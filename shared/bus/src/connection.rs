//! Connects to a server: credentials, TLS and inboxes.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use holdpoint_contracts::subject;
use nkeys::KeyPair;

use crate::address::{self, Credentials};
use crate::error::BusError;

/// How long a core request waits for its reply. The owner replies after its commit.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest connection attempt. The library's 5 s failed once on a machine whose two cores were busy.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

#[derive(Clone, Default)]
pub struct Access {
    /// Seed of an nkey (`holdpoint nats-config`).
    pub seed: Option<String>,
    /// A `.creds` file of a server in operator mode.
    pub creds: Option<PathBuf>,
    /// Certificates of further authorities for the server's certificate, in PEM.
    pub ca: Option<PathBuf>,
    /// The client's certificate and its key, in PEM, if the server requires one.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Copies of each stream in a cluster. `None`: one for a new stream, otherwise unchanged.
    pub replicas: Option<usize>,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("seed", &self.seed.as_ref().map(|_secret| "…"))
            .field("creds", &self.creds)
            .field("ca", &self.ca)
            .field("certificate", &self.certificate)
            .field("replicas", &self.replicas)
            .finish()
    }
}

/// Opens the connection, which reconnects by itself.
pub(crate) async fn open(url: &str, name: &str, access: &Access) -> Result<Client, BusError> {
    let (servers, credentials) = address::split(url);
    let shown = servers.join(",");
    let addresses = servers.iter().map(|server| server.parse::<ServerAddr>());
    let addresses: Vec<_> =
        addresses
            .collect::<Result<_, _>>()
            .map_err(|source| BusError::Address {
                url: shown.clone(),
                source,
            })?;
    let who = name.to_owned();
    let options = options_with(credentials, access)
        .await?
        .name(name)
        // Inboxes below the key or name, so that permissions can prevent other clients from listening.
        .custom_inbox_prefix(inboxes(name, access).await?)
        .request_timeout(Some(REQUEST_TIMEOUT))
        .connection_timeout(CONNECT_TIMEOUT)
        .event_callback(move |event| {
            let who = who.clone();
            async move { report(&who, &event) }
        });
    let client = options.connect(addresses.clone()).await;
    let client = client.map_err(|source| BusError::Connect {
        url: shown.clone(),
        source,
    })?;
    let is_far = |server: &ServerAddr| !is_loopback(server.host()) && !server.tls_required();
    if !client.server_info().tls_required && addresses.iter().any(is_far) {
        tracing::warn!(
            url = shown,
            "bus connection is not encrypted; contacts, answers and step tokens can be read on the network. \
             Give the server a certificate and use tls://"
        );
    }
    Ok(client)
}

/// Refused permissions and slow consumers appear only here, never as an error of a call.
fn report(who: &str, event: &Event) {
    match event {
        Event::Connected => tracing::debug!(who, "connected to the bus"),
        Event::Disconnected => tracing::warn!(who, "bus disconnected; connecting again"),
        Event::LameDuckMode | Event::Draining | Event::Closed => {
            tracing::debug!(who, %event, "bus connection");
        }
        Event::SlowConsumer(_) | Event::ServerError(_) | Event::ClientError(_) => {
            tracing::error!(who, %event, "bus connection");
        }
    }
}

async fn options_with(
    credentials: Option<Credentials>,
    access: &Access,
) -> Result<ConnectOptions, BusError> {
    let mut options = match credentials {
        Some(Credentials::Token(token)) => ConnectOptions::with_token(token),
        Some(Credentials::Password { user, password }) => {
            ConnectOptions::with_user_and_password(user, password)
        }
        None => ConnectOptions::new(),
    };
    if let Some(seed) = &access.seed {
        options = options.nkey(seed.trim().to_owned());
    }
    if let Some(creds) = &access.creds {
        let read = options.credentials_file(creds).await;
        options = read.map_err(|error| BusError::Access {
            what: creds.display().to_string(),
            reason: error.to_string(),
        })?;
    }
    if let Some(ca) = &access.ca {
        options = options.add_root_certificates(ca.clone()).require_tls(true);
    }
    if let Some((certificate, key)) = &access.certificate {
        options = options
            .add_client_certificate(certificate.clone(), key.clone())
            .require_tls(true);
    }
    Ok(options)
}

/// The prefix of this client's inboxes: its public key, or its name if it has no key.
async fn inboxes(name: &str, access: &Access) -> Result<String, BusError> {
    let (what, seed) = match (&access.seed, &access.creds) {
        (Some(seed), _) => ("the seed".to_owned(), seed.trim().to_owned()),
        (None, Some(creds)) => {
            let what = creds.display().to_string();
            let text = tokio::fs::read_to_string(creds).await;
            let text = text.map_err(|error| BusError::Access {
                what: what.clone(),
                reason: error.to_string(),
            })?;
            (what, seed_in(&text).to_owned())
        }
        (None, None) => return Ok(subject::inboxes_of(name)),
    };
    let pair = KeyPair::from_seed(&seed).map_err(|error| BusError::Access {
        what,
        reason: error.to_string(),
    })?;
    Ok(subject::inboxes_of(&pair.public_key()))
}

/// The seed within a `.creds` file: the line below the heading of the key.
fn seed_in(creds: &str) -> &str {
    let mut lines = creds.lines().map(str::trim);
    lines
        .find(|line| line.contains("BEGIN USER NKEY SEED"))
        .and_then(|_heading| lines.find(|line| !line.is_empty()))
        .unwrap_or_default()
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.parse()
        .map_or(host == "localhost", |ip: std::net::IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mend D-16: inboxes of a `.creds` file are below its key, as with a seed.
    #[tokio::test]
    async fn inboxes_are_below_the_public_key() {
        let pair = KeyPair::new_user();
        let seed = pair.seed().unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = format!(
            "-----BEGIN NATS USER JWT-----\nx.y.z\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        std::fs::write(file.path(), text).unwrap();
        let expected = format!("_INBOX.{}", pair.public_key());
        let of_seed = Access {
            seed: Some(format!("{seed}\n")),
            ..Access::default()
        };
        let of_creds = Access {
            creds: Some(file.path().to_owned()),
            ..Access::default()
        };
        for access in [of_seed, of_creds] {
            assert_eq!(inboxes("worker", &access).await.unwrap(), expected);
            assert!(!format!("{access:?}").contains(&seed));
        }
        let none = Access::default();
        assert_eq!(inboxes("worker", &none).await.unwrap(), "_INBOX.worker");
    }
}
