//! `send_email {to, subject, body, html?, reply_to?}`: one mail to one recipient.
//!
//! Owns how a mail is composed from a step. The Message-ID is the same for every attempt of a
//! step, so a mail that went out twice at a kill can be told from two mails. It must never let an
//! argument write a header.

use std::time::SystemTime;

use chrono::{DateTime, Utc};
use lettre::{
    Address, Message,
    message::{Mailbox, MultiPart, header::ContentType},
};
use serde::Deserialize;
use serde_json::json;

use super::{invalid_args, quote, read_args};
use crate::tool::{BoxFuture, Tool, ToolCall, ToolFailure, ToolResult, ToolSuccess};

mod maildir;
mod transport;

pub use maildir::{Mail, list};
pub use transport::{MailTransport, MailTransportError};

const NAME: &str = "send_email";

/// Who writes when `HOLDPOINT_MAIL_FROM` does not say otherwise.
pub const DEFAULT_FROM: &str = "Holdpoint <agent@holdpoint.local>";

/// Longest subject, in characters (RFC 5322, 2.1.1).
const MAX_SUBJECT: usize = 998;

/// Longest text and longest HTML, in bytes.
pub const MAX_BODY: usize = 1024 * 1024;

/// The tool `send_email`.
#[derive(Debug, Clone)]
pub struct SendEmail {
    transport: MailTransport,
    from: Mailbox,
}

impl SendEmail {
    /// The tool over a transport; `from` is the value of `HOLDPOINT_MAIL_FROM`, if it is set, else
    /// [`DEFAULT_FROM`].
    ///
    /// # Errors
    /// [`MailTransportError::From`] when `from` is no mail address.
    pub fn new(transport: MailTransport, from: Option<&str>) -> Result<Self, MailTransportError> {
        let from = from.filter(|from| !from.trim().is_empty());
        let from = read_mailbox(from.unwrap_or(DEFAULT_FROM)).ok_or(MailTransportError::From)?;
        Ok(Self { transport, from })
    }

    async fn send(&self, call: &ToolCall) -> ToolResult {
        let args: Args = read_args(NAME, &call.args)?;
        args.check()?;
        let to = recipient("to", &args.to)?;
        let reply_to = match &args.reply_to {
            Some(text) => Some(recipient("reply_to", text)?),
            None => None,
        };
        let message_id = message_id(&call.run, &call.step);
        let mut builder = Message::builder()
            .message_id(Some(message_id.clone()))
            .date(SystemTime::from(call.now.max(DateTime::<Utc>::UNIX_EPOCH)))
            .from(self.from.clone())
            .to(to.clone())
            .subject(args.subject.clone());
        if let Some(reply_to) = reply_to {
            builder = builder.reply_to(reply_to);
        }
        let message = match args.html {
            Some(html) => builder.multipart(MultiPart::alternative_plain_html(args.body, html)),
            None => builder.header(ContentType::TEXT_PLAIN).body(args.body),
        }
        .map_err(|_fault| ToolFailure::new("mail_not_sent", "The mail could not be composed."))?;
        self.transport
            .deliver(message, &call.idempotency_key)
            .await?;
        let address = to.email.to_string();
        Ok(ToolSuccess {
            description: format!("Email \"{}\" sent to {address}", quote(&args.subject)),
            data: json!({ "message_id": message_id, "to": address, "subject": args.subject }),
        })
    }
}

impl Tool for SendEmail {
    fn name(&self) -> &'static str {
        NAME
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(self.send(call))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    to: String,
    subject: String,
    body: String,
    html: Option<String>,
    reply_to: Option<String>,
    /// Read by the executor, which decides about retries by it.
    #[serde(default, rename = "idempotent")]
    _idempotent: bool,
}

impl Args {
    fn check(&self) -> Result<(), ToolFailure> {
        // lettre would encode a line break in the subject; it is refused all the same, as
        // nobody writes one who means well.
        if self.subject.chars().any(char::is_control) {
            let fault = "`subject` holds a line break or control character; remove it";
            return Err(invalid_args(NAME, fault));
        }
        if self.subject.chars().count() > MAX_SUBJECT {
            let fault = format!("`subject` is longer than {MAX_SUBJECT} characters; shorten it");
            return Err(invalid_args(NAME, &fault));
        }
        let html = self.html.as_deref().unwrap_or_default();
        if self.body.len() > MAX_BODY || html.len() > MAX_BODY {
            let fault = format!("`body` or `html` is larger than {MAX_BODY} bytes; shorten it");
            return Err(invalid_args(NAME, &fault));
        }
        Ok(())
    }
}

/// Same for every attempt of one step. What an address may not hold is written as `=XX`, and `=`
/// itself too, so that two steps never share an id.
fn message_id(run: &str, step: &str) -> String {
    format!("<{}.{}@holdpoint>", escape(run, "-_"), escape(step, "-_"))
}

/// ASCII letters, digits and `kept` stay, every other byte becomes `=XX`.
fn escape(text: &str, kept: &str) -> String {
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

fn recipient(argument: &str, text: &str) -> Result<Mailbox, ToolFailure> {
    if text.chars().any(char::is_control) {
        let fault = format!("`{argument}` holds a line break or control character; remove it");
        return Err(invalid_args(NAME, &fault));
    }
    read_mailbox(text).ok_or_else(|| {
        let fault = format!(
            "`{argument}` must be one mail address: `ann@example.org` or `Ann <ann@example.org>`"
        );
        invalid_args(NAME, &fault)
    })
}

/// `ann@example.org` or `Ann <ann@example.org>`, the whole text: lettre's own reader of mailboxes
/// stops at the first address and forgets the rest.
fn read_mailbox(text: &str) -> Option<Mailbox> {
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

#[cfg(test)]
mod tests;
