//! Composes mails, and sends them or stores them as files.
//!
//! Owns the connection to a mail server, the folder that replaces one, and which of their errors may be
//! shown. A caller's text never writes a header: the composer encodes it, and our own headers contain only
//! names of workspaces and users, which have no line breaks. It does not decide who gets a mail, or when.

mod maildir;
mod transport;

use std::io;
use std::time::SystemTime;

use chrono::{DateTime, Utc};
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{MessageBuilder, MultiPart};
use lettre::{Address, Message};

pub use lettre::message::Mailbox;
pub use maildir::{Mail, MailHead, list, page};
pub use transport::{MailTransport, MailTransportError};

/// The sender if `HOLDPOINT_MAIL_FROM` is not set.
pub const DEFAULT_FROM: &str = "Holdpoint <agent@holdpoint.local>";

/// Our own headers: kind, workspace and user of a mail.
const KIND: &str = "X-Holdpoint-Kind";
const WORKSPACE: &str = "X-Holdpoint-Workspace";
const PERSON: &str = "X-Holdpoint-Person";

/// Why a mail was not sent. The texts are stored and shown (S0-R5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MailError {
    #[error("The mail server refused the mail with code {0}.")]
    Refused(u16),
    #[error("The mail server could not take the mail now, code {0}.")]
    Busy(u16),
    /// It may have taken the mail.
    #[error("The mail server did not answer in time, so the mail may have been sent.")]
    TimedOut,
    /// It may have taken the mail.
    #[error("The connection to the mail server broke, so the mail may have been sent.")]
    Broken,
    #[error("The mail server could not be reached, or refused the session.")]
    Unreachable,
    #[error("The mail could not be stored.")]
    NotStored,
    #[error("The worker stopped before the mail was stored.")]
    Stopped,
    #[error("The mail could not be composed.")]
    NotComposed,
}

impl MailError {
    /// Stable, for programs. Only after `mail_unconfirmed` the mail may have been sent. Earlier releases had the code
    /// `mail_not_sent` for this and for everything but a refusal.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Refused(_) => "mail_refused",
            Self::Busy(_) => "mail_busy",
            Self::TimedOut | Self::Broken => "mail_unconfirmed",
            Self::Unreachable => "mail_unreachable",
            Self::NotStored | Self::Stopped => "mail_not_stored",
            Self::NotComposed => "mail_not_composed",
        }
    }

    /// Whether another try could help.
    #[must_use]
    pub const fn is_final(self) -> bool {
        match self {
            Self::Refused(_) | Self::NotComposed => true,
            Self::Busy(_)
            | Self::TimedOut
            | Self::Broken
            | Self::Unreachable
            | Self::NotStored
            | Self::Stopped => false,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Letter {
    /// With angle brackets; the same for every attempt.
    pub message_id: String,
    pub at: DateTime<Utc>,
    pub to: Mailbox,
    /// The address for replies, if not the sender.
    pub reply_to: Option<Mailbox>,
    /// The Message-ID of the mail that this one answers, without angle brackets. An invalid one is left out.
    pub in_reply_to: Option<String>,
    pub subject: String,
    pub text: String,
    pub html: Option<String>,
    /// The sending workspace, in a header of every mail, so that no other workspace lists it.
    pub workspace: String,
    /// The user who gets a notification; programs must not answer it (RFC 3834). `None`: a step wrote the mail.
    pub person: Option<String>,
}

#[derive(Debug, Clone)]
pub struct Mailer {
    transport: MailTransport,
    from: Mailbox,
}

impl Mailer {
    /// `from` is the value of `HOLDPOINT_MAIL_FROM`, or [`DEFAULT_FROM`] if it is not set.
    ///
    /// # Errors
    /// [`MailTransportError::From`]: `from` is not a mail address.
    pub fn new(transport: MailTransport, from: Option<&str>) -> Result<Self, MailTransportError> {
        let from = from.filter(|from| !from.trim().is_empty());
        let from = read_mailbox(from.unwrap_or(DEFAULT_FROM)).ok_or(MailTransportError::From)?;
        Ok(Self { transport, from })
    }

    /// Whether mails are stored as files, because no mail server is configured.
    #[must_use]
    pub const fn keeps_files(&self) -> bool {
        matches!(self.transport, MailTransport::Maildir(_))
    }

    /// Returns when the server has accepted the mail, or when it is on disk, where it replaces a mail with
    /// the same key.
    ///
    /// # Errors
    /// [`MailError`].
    pub async fn send(&self, letter: Letter, key: &str) -> Result<(), MailError> {
        let message = self.compose(letter).ok_or(MailError::NotComposed)?;
        self.transport.deliver(message, key).await
    }

    /// Deletes the stored mails that contain any of these texts in their headers or in a part of their text. With a mail
    /// server there are none.
    ///
    /// # Errors
    /// The folder cannot be read, or a file cannot be deleted.
    pub async fn erase_files(&self, texts: Vec<String>) -> io::Result<()> {
        self.transport.erase_files(texts).await
    }

    fn compose(&self, letter: Letter) -> Option<Message> {
        let mut builder = Message::builder()
            .message_id(Some(letter.message_id))
            .date(SystemTime::from(letter.at.max(DateTime::<Utc>::UNIX_EPOCH)))
            .from(self.from.clone())
            .to(letter.to)
            .subject(letter.subject);
        if let Some(reply_to) = letter.reply_to {
            builder = builder.reply_to(reply_to);
        }
        let answered = letter.in_reply_to.filter(|id| is_message_id(id));
        if let Some(id) = answered.map(|id| format!("<{id}>")) {
            builder = with_header(builder, "In-Reply-To", id.clone());
            builder = with_header(builder, "References", id);
        }
        builder = with_header(builder, WORKSPACE, letter.workspace);
        if let Some(person) = letter.person {
            builder = with_header(builder, "Auto-Submitted", "auto-generated".to_owned());
            builder = with_header(builder, KIND, "notification".to_owned());
            builder = with_header(builder, PERSON, person);
        }
        match letter.html {
            Some(html) => builder.multipart(MultiPart::alternative_plain_html(letter.text, html)),
            None => builder.header(ContentType::TEXT_PLAIN).body(letter.text),
        }
        .ok()
    }
}

/// Longest Message-ID that a mail repeats, in bytes. A line of a mail has at most 998 (RFC 5322), with its name.
const THREAD_ID_BYTES_MAX: usize = 900;

/// Whether a text can be between the angle brackets of a Message-ID: other characters would end it or the header.
fn is_message_id(text: &str) -> bool {
    (1..=THREAD_ID_BYTES_MAX).contains(&text.len())
        && text
            .chars()
            .all(|c| c.is_ascii_graphic() && !matches!(c, '<' | '>'))
}

fn with_header(builder: MessageBuilder, name: &'static str, value: String) -> MessageBuilder {
    let name = HeaderName::new_from_ascii_str(name);
    builder.raw_header(HeaderValue::new(name, value))
}

/// Keeps ASCII letters, digits and `kept`, and writes every other byte and `=` itself as `=XX`, so that
/// different texts stay different.
#[must_use]
pub fn escape(text: &str, kept: &str) -> String {
    use std::fmt::Write as _;
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric() || (c.is_ascii() && kept.contains(c)) {
            escaped.push(c);
        } else if write!(escaped, "={byte:02X}").is_err() {
            // Writing to a String cannot fail.
            escaped.push('=');
        }
    }
    escaped
}

/// Parses the whole text as `ann@example.org` or `Ann <ann@example.org>`. lettre's parser of mailboxes
/// stops at the first address and ignores the rest.
#[must_use]
pub fn read_mailbox(text: &str) -> Option<Mailbox> {
    let text = text.trim();
    let (name, address) = match text.strip_suffix('>') {
        Some(inner) => {
            let (name, address) = inner.rsplit_once('<')?;
            (name.trim(), address)
        }
        None => ("", text),
    };
    let unquoted = name
        .strip_prefix('"')
        .and_then(|name| name.strip_suffix('"'))
        .unwrap_or(name);
    if unquoted.contains(['"', '<', '>', '@', '\\']) {
        return None;
    }
    let name = Some(unquoted.to_owned()).filter(|name| !name.is_empty());
    Some(Mailbox::new(name, address.parse::<Address>().ok()?))
}
