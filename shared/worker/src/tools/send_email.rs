//! `send_email {to, subject, body, html?, reply_to?}`: one mail to one recipient.
//!
//! Owns how a mail is composed from a step. The Message-ID is the same for every attempt of a step, so that
//! duplicates after a crash can be detected. It must never let an argument write a header.

use std::fmt;
use std::time::Duration;

use holdpoint_contracts::executor::GetMailThread;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::steps::StepDispatch;
use holdpoint_mail::{Letter, Mailbox, Mailer, escape, read_mailbox};
use serde::Deserialize;
use serde_json::json;

use super::send_command::SendQuery;
use super::{invalid_args, quote, read_args};
use crate::tool::{BoxFuture, Risk, Tool, ToolCall, ToolFailure, ToolResult, ToolSuccess};

pub use holdpoint_mail::{DEFAULT_FROM, Mail, MailTransport, MailTransportError, list, page};

/// Longest time in which the thread of a mail is looked up. A short `timeout` of the step must suffice for the mail.
const THREAD_WITHIN: Duration = Duration::from_secs(2);

const NAME: &str = "send_email";

/// Longest subject, in characters (RFC 5322, 2.1.1).
const MAX_SUBJECT: usize = 998;

/// Longest text and longest HTML, in bytes.
pub const MAX_BODY: usize = 1024 * 1024;

/// Characters of the text that the result repeats for the activities of the contact.
const RESULT_TEXT_CHARS_MAX: usize = 10_000;

#[derive(Clone)]
pub struct SendEmail {
    mailer: Mailer,
    find_thread: Option<SendQuery<GetMailThread>>,
}

impl fmt::Debug for SendEmail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendEmail")
            .field("mailer", &self.mailer)
            .finish_non_exhaustive()
    }
}

impl SendEmail {
    /// `from` is the value of `HOLDPOINT_MAIL_FROM`, or [`holdpoint_mail::DEFAULT_FROM`] if it is not set.
    ///
    /// # Errors
    /// [`MailTransportError::From`]: `from` is not a mail address.
    pub fn new(transport: MailTransport, from: Option<&str>) -> Result<Self, MailTransportError> {
        let mailer = Mailer::new(transport, from)?;
        Ok(Self {
            mailer,
            find_thread: None,
        })
    }

    /// Mails to the contact of a run continue the conversation with it.
    #[must_use]
    pub fn with_threads(self, find_thread: SendQuery<GetMailThread>) -> Self {
        Self {
            find_thread: Some(find_thread),
            ..self
        }
    }

    /// The Message-ID of the mail that the next one answers. A mail is sent without it rather than not at all.
    async fn find_answered(&self, dispatch: &StepDispatch, to: &str) -> Option<String> {
        dispatch.contact.as_ref()?;
        let query = GetMailThread {
            token: dispatch.token.clone()?,
            to: to.to_owned(),
        };
        let found = self.find_thread.as_ref()?(dispatch.workspace.clone(), query);
        let found = tokio::time::timeout(THREAD_WITHIN, found).await;
        let found = found.unwrap_or_else(|_elapsed| {
            Err(Problem::unavailable(
                "the executor has not answered in time",
            ))
        });
        let log = |problem: &Problem| {
            tracing::warn!(%problem, "the thread of a mail was not found; the mail begins a thread");
        };
        found.inspect_err(log).ok()?.message_id
    }

    async fn send(&self, call: &ToolCall) -> ToolResult {
        let args: Args = read_args(NAME, &call.dispatch.args)?;
        args.check()?;
        let to = recipient("to", &args.to)?;
        let reply_to = args.reply_to.as_deref();
        let reply_to = reply_to.map(|text| recipient("reply_to", text));
        let (message_id, address) = (
            message_id(&call.dispatch.run.to_string(), &call.dispatch.step),
            to.email.to_string(),
        );
        let answered = self.find_answered(&call.dispatch, &address).await;
        let letter = Letter {
            message_id: message_id.clone(),
            // After an uncertain attempt the newest mail may be this one.
            in_reply_to: answered.filter(|id| format!("<{id}>") != message_id),
            at: call.now,
            to,
            reply_to: reply_to.transpose()?,
            subject: args.subject.clone(),
            text: args.body.clone(),
            html: args.html,
            workspace: call.dispatch.workspace.to_string(),
            person: None,
        };
        let sent = self
            .mailer
            .send(letter, &call.dispatch.idempotency_key())
            .await;
        sent.map_err(|error| ToolFailure::new(error.code(), error.to_string()))?;
        let subject = quote(&args.subject);
        let description = if self.mailer.keeps_files() {
            format!("Stored as a file: no SMTP server is set (email \"{subject}\" to {address})")
        } else {
            format!("Email \"{subject}\" sent to {address}")
        };
        Ok(ToolSuccess {
            description,
            data: json!({
                "message_id": message_id,
                "to": address,
                "subject": args.subject,
                "text": args.body.chars().take(RESULT_TEXT_CHARS_MAX).collect::<String>(),
            }),
        })
    }
}

impl Tool for SendEmail {
    fn name(&self) -> &'static str {
        NAME
    }

    fn risk(&self) -> Risk {
        Risk::Medium
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
    /// The executor uses it to decide about retries.
    #[serde(default, rename = "idempotent")]
    _idempotent: bool,
}

impl Args {
    fn check(&self) -> Result<(), ToolFailure> {
        // lettre would encode a line break in the subject. It is refused all the same, because it is most
        // likely an attack.
        if self.subject.chars().any(char::is_control) {
            let error = "`subject` holds a line break or control character; remove it";
            return Err(invalid_args(NAME, error));
        }
        if self.subject.chars().count() > MAX_SUBJECT {
            let error = format!("`subject` is longer than {MAX_SUBJECT} characters; shorten it");
            return Err(invalid_args(NAME, &error));
        }
        let html = self.html.as_deref().unwrap_or_default();
        if self.body.len() > MAX_BODY || html.len() > MAX_BODY {
            let error = format!("`body` or `html` is larger than {MAX_BODY} bytes; shorten it");
            return Err(invalid_args(NAME, &error));
        }
        Ok(())
    }
}

/// The same for every attempt of one step. Characters that an address may not contain, and `=` itself, are
/// written as `=XX`, so that two steps never share an id.
fn message_id(run: &str, step: &str) -> String {
    format!("<{}.{}@holdpoint>", escape(run, "-_"), escape(step, "-_"))
}

fn recipient(argument: &str, text: &str) -> Result<Mailbox, ToolFailure> {
    if text.chars().any(char::is_control) {
        let error = format!("`{argument}` holds a line break or control character; remove it");
        return Err(invalid_args(NAME, &error));
    }
    read_mailbox(text).ok_or_else(|| {
        let error = format!(
            "`{argument}` must be one mail address: `ann@example.org` or `Ann <ann@example.org>`"
        );
        invalid_args(NAME, &error)
    })
}

#[cfg(test)]
mod tests;
