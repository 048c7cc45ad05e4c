//! Sends a composed mail to an SMTP server or stores it in a folder.
//!
//! Owns the choice between the two, and which of their errors may be shown. A server's URL contains a
//! password and a folder is a path: neither may appear in any text (S0-R5).

use std::{fmt, io, path::PathBuf, time::Duration};

use lettre::{
    AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor, transport::smtp::PoolConfig,
};

use crate::{MailError, maildir};

/// Longest time for one command to the mail server.
const SMTP_TIMEOUT: Duration = Duration::from_secs(30);

/// Connections kept open to the mail server.
const MAX_CONNECTIONS: u32 = 4;

#[derive(Clone)]
pub enum MailTransport {
    /// A mail server. A second delivery has the same Message-ID, but may arrive twice.
    Smtp(AsyncSmtpTransport<Tokio1Executor>),
    /// Files in this Maildir, listed by [`crate::list`]. A second delivery replaces the first.
    Maildir(PathBuf),
}

impl fmt::Debug for MailTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Smtp(_) => "MailTransport::Smtp",
            Self::Maildir(_) => "MailTransport::Maildir",
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MailTransportError {
    /// The URL is not quoted, because it may contain a password.
    #[error(
        "HOLDPOINT_SMTP_URL is not the address of a mail server; expected smtp://host:25, smtp://user:password@host?tls=required or smtps://user:password@host"
    )]
    Url,
    #[error("HOLDPOINT_MAIL_FROM is not a mail address; expected `Name <name@example.org>`")]
    From,
}

impl MailTransport {
    /// Chooses by the value of `HOLDPOINT_SMTP_URL`; unset or empty keeps mails in `maildir`.
    /// Must be called within a tokio runtime, which maintains the pool of connections.
    ///
    /// # Errors
    /// [`MailTransportError::Url`]: the value is not an `smtp:` or `smtps:` URL.
    pub fn from_env(
        smtp_url: Option<&str>,
        maildir: impl Into<PathBuf>,
    ) -> Result<Self, MailTransportError> {
        let Some(url) = smtp_url.filter(|url| !url.trim().is_empty()) else {
            return Ok(Self::Maildir(maildir.into()));
        };
        if is_readable(url.trim()) {
            tracing::warn!(
                "mails and the password of the mail server are sent unencrypted; use tls=required \
                 in HOLDPOINT_SMTP_URL, or smtps://"
            );
        }
        match AsyncSmtpTransport::<Tokio1Executor>::from_url(url.trim()) {
            Ok(builder) => Ok(Self::Smtp(
                builder
                    .timeout(Some(SMTP_TIMEOUT))
                    .pool_config(PoolConfig::new().max_size(MAX_CONNECTIONS))
                    .build(),
            )),
            Err(_may_quote_the_password) => Err(MailTransportError::Url),
        }
    }

    /// Returns when the server has accepted the mail, or when it is on disk.
    pub(crate) async fn deliver(&self, message: Message, key: &str) -> Result<(), MailError> {
        match self {
            Self::Smtp(server) => {
                let sent = server.send(message).await;
                sent.map(drop).map_err(|error| read_smtp_error(&error))
            }
            Self::Maildir(dir) => {
                let (dir, key) = (dir.clone(), key.to_owned());
                let write = move || maildir::deliver(&dir, &key, &message.formatted());
                match tokio::task::spawn_blocking(write).await {
                    Ok(Ok(())) => Ok(()),
                    Ok(Err(error)) => {
                        tracing::warn!(error = %error, "mail could not be stored");
                        Err(MailError::NotStored)
                    }
                    Err(_stopped) => Err(MailError::Stopped),
                }
            }
        }
    }

    /// Deletes the stored mails that contain any of these texts.
    pub(crate) async fn erase_files(&self, texts: Vec<String>) -> io::Result<()> {
        let Self::Maildir(dir) = self else {
            return Ok(());
        };
        let dir = dir.clone();
        let erased = tokio::task::spawn_blocking(move || maildir::erase(&dir, &texts));
        erased.await.map_err(io::Error::other)?
    }
}

/// Whether mails can be read on the network: the server is on another machine and encryption is optional.
fn is_readable(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("smtp://") else {
        return false;
    };
    let (place, settings) = rest.split_once('?').unwrap_or((rest, ""));
    let host = place.rsplit_once('@').map_or(place, |(_, host)| host);
    let is_near = ["localhost", "127.", "[::1]"].map(|near| host.starts_with(near));
    !is_near.contains(&true) && !settings.split('&').any(|one| one == "tls=required")
}

/// Returns the server's code and never its text, which may quote anything. Without a code, only a failure before
/// the mail shows that the server has not taken it.
fn read_smtp_error(error: &lettre::transport::smtp::Error) -> MailError {
    match error.status().map(u16::from) {
        Some(code) if error.is_permanent() => MailError::Refused(code),
        Some(code) => MailError::Busy(code),
        None if is_before_mail(error) => MailError::Unreachable,
        None if error.is_timeout() => MailError::TimedOut,
        None => MailError::Broken,
    }
}

/// Whether the client failed before it could send a mail.
fn is_before_mail(error: &lettre::transport::smtp::Error) -> bool {
    // lettre has no predicate for this kind, only its text. Another text counts as a broken connection.
    let is_connection = error.to_string().starts_with("Connection error");
    is_connection || error.is_tls() || error.is_client() || error.is_transport_shutdown()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mend A-M9.
    #[test]
    fn an_optional_encryption_to_another_machine_is_found() {
        for readable in [
            "smtp://u:p@mail.example:25",
            "smtp://mail.example?tls=opportunistic",
        ] {
            assert!(is_readable(readable), "{readable}");
        }
        for other in [
            "smtps://u:p@mail.example",
            "smtp://u:p@mail.example:587?tls=required",
            "smtp://127.0.0.1:2525",
            "smtp://u:p@localhost",
        ] {
            assert!(!is_readable(other), "{other}");
        }
    }
}
