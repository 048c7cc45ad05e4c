//! Mails: how one is composed, and how it leaves or is kept.
//!
//! Owns the way to a mail server and the folder that stands in for one, and what of their errors may
//! be told. A caller's text never writes a header: the composer encodes what it is given, and the
//! headers of our own hold names of workspaces and users, which have no line breaks. It decides
//! nothing about who gets a mail, or when.

mod maildir;
mod transport;

use std::time::SystemTime;

use chrono::{DateTime, Utc};
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{MessageBuilder, MultiPart};
use lettre::{Address, Message};

pub use lettre::message::Mailbox;
pub use maildir::{Mail, MailHead, list, page};
pub use transport::{MailTransport, MailTransportError};

/// Who writes when `HOLDPOINT_MAIL_FROM` does not say otherwise.
pub const DEFAULT_FROM: &str = "Holdpoint <agent@holdpoint.local>";

/// Headers of our own: what a mail is, of which workspace, and whose.
const KIND: &str = "X-Holdpoint-Kind";
const WORKSPACE: &str = "X-Holdpoint-Workspace";
const PERSON: &str = "X-Holdpoint-Person";

/// Why a mail has not left. The texts are fit to be stored and shown (S0-R5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MailFault {
    /// The server will never take it.
    #[error("The mail server refused the mail with code {0}.")]
    Refused(u16),
    /// The server may take it later.
    #[error("The mail server could not take the mail now, code {0}.")]
    Busy(u16),
    /// No answer.
    #[error("The mail server did not answer in time.")]
    TimedOut,
    /// Nothing there, or something else.
    #[error("The mail server could not be reached or did not speak SMTP.")]
    Unreachable,
    /// The folder cannot be written.
    #[error("The mail could not be stored.")]
    NotStored,
    /// The process ends.
    #[error("The worker stopped before the mail was stored.")]
    Stopped,
    /// Something in it is no mail.
    #[error("The mail could not be composed.")]
    NotComposed,
}

impl MailFault {
    /// Stable, for programs.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Refused(_) => "mail_refused",
            Self::Busy(_)
            | Self::TimedOut
            | Self::Unreachable
            | Self::NotStored
            | Self::Stopped
            | Self::NotComposed => "mail_not_sent",
        }
    }

    /// Whether another try could help.
    #[must_use]
    pub const fn is_final(self) -> bool {
        match self {
            Self::Refused(_) | Self::NotComposed => true,
            Self::Busy(_)
            | Self::TimedOut
            | Self::Unreachable
            | Self::NotStored
            | Self::Stopped => false,
        }
    }
}

/// One mail to one recipient.
#[derive(Debug, Clone)]
pub struct Letter {
    /// With its angle brackets; the same for every try.
    pub message_id: String,
    /// When it is sent.
    pub at: DateTime<Utc>,
    pub to: Mailbox,
    /// Whom an answer reaches, if not the sender.
    pub reply_to: Option<Mailbox>,
    pub subject: String,
    pub text: String,
    /// The same as HTML.
    pub html: Option<String>,
    /// The workspace that sends it. Every mail says so: no other workspace lists it.
    pub workspace: String,
    /// The person who is told by a notification, which no program answers (RFC 3834). None: a step wrote it.
    pub person: Option<String>,
}

/// Writes mails in one sender's name.
#[derive(Debug, Clone)]
pub struct Mailer {
    transport: MailTransport,
    from: Mailbox,
}

impl Mailer {
    /// Over a transport; `from` is the value of `HOLDPOINT_MAIL_FROM`, if it is set, else
    /// [`DEFAULT_FROM`].
    ///
    /// # Errors
    /// [`MailTransportError::From`] when `from` is no mail address.
    pub fn new(transport: MailTransport, from: Option<&str>) -> Result<Self, MailTransportError> {
        let from = from.filter(|from| !from.trim().is_empty());
        let from = read_mailbox(from.unwrap_or(DEFAULT_FROM)).ok_or(MailTransportError::From)?;
        Ok(Self { transport, from })
    }

    /// Whether mails stay as files, because no mail server is set.
    #[must_use]
    pub const fn keeps_files(&self) -> bool {
        matches!(self.transport, MailTransport::Maildir(_))
    }

    /// Returns when the server has taken the mail, or when it is on disk; one with the same key
    /// replaces the one on disk.
    ///
    /// # Errors
    /// [`MailFault`].
    pub async fn send(&self, letter: Letter, key: &str) -> Result<(), MailFault> {
        let message = self.compose(letter).ok_or(MailFault::NotComposed)?;
        self.transport.deliver(message, key).await
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

fn with_header(builder: MessageBuilder, name: &'static str, value: String) -> MessageBuilder {
    builder.raw_header(HeaderValue::new(
        HeaderName::new_from_ascii_str(name),
        value,
    ))
}

/// ASCII letters, digits and `kept` stay, every other byte becomes `=XX`, `=` itself too, so that two
/// texts never become one.
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

/// `ann@example.org` or `Ann <ann@example.org>`, the whole text: lettre's own reader of mailboxes
/// stops at the first address and forgets the rest.
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
