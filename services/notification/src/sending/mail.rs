//! Mails: one notification to one person, and what every mail has in common.

use chrono::TimeDelta;
use holdpoint_auth::{Choice, LinkClaims};
use holdpoint_contracts::notification::{RequestEvent, RequestEventKind};
use holdpoint_ids::UserName;
use holdpoint_mail::{Letter, escape, read_mailbox};
use holdpoint_user_directory::table::User;

use super::{BARRED, Pool, dropped, later, never};
use crate::domain::{AttemptReport, DeliveryKey, PERSON_GONE, SETTLED, Subject};
use crate::email_template::{self, EmailText};
use crate::store::{DeliveryPayload, may_look};

/// How long the link of a mail decides. Later its reader signs in.
const LINK_VALID: TimeDelta = TimeDelta::days(14);

impl Pool {
    /// Dropped if the person was disabled in the meantime, or if the request needs no action any more.
    pub(super) async fn mail(&self, key: &DeliveryKey, payload: &DeliveryPayload) -> AttemptReport {
        let Some(person) = payload.person.as_ref().filter(|person| person.active) else {
            return dropped(PERSON_GONE);
        };
        if payload.event.needs_look() && !may_look(&person.roles) {
            return dropped(BARRED);
        }
        let base = self.outside.public_url.known().and_then(Option::as_deref);
        let text = match &payload.event.subject {
            Subject::Request { event, .. } if event.kind == RequestEventKind::Mentioned => {
                email_template::mention_mail(event, base)
            }
            // The end of a request is never mailed: a mail asks for an action.
            Subject::Request { event, .. } if payload.is_settled || event.kind.is_end() => {
                return dropped(SETTLED);
            }
            Subject::Request { event, .. } => {
                let link = |choice| self.link(key, &person.name, event, choice);
                email_template::request_mail(event, link)
            }
            Subject::RunEnd(end) => email_template::run_end_mail(end, base),
            Subject::Contact { event, is_last, .. } => {
                email_template::contact_mail(event, *is_last)
            }
            Subject::System(_) => return never("A system notice is not mailed."),
        };
        self.send_mail(key, person, text).await
    }

    /// Sends a mail under a `Message-ID` that is the same for every attempt.
    pub(super) async fn send_mail(
        &self,
        key: &DeliveryKey,
        person: &User,
        EmailText {
            subject,
            text,
            html,
        }: EmailText,
    ) -> AttemptReport {
        let address = person.email.as_deref().unwrap_or_default();
        let is_clean = !address.chars().any(char::is_control);
        let Some(to) = read_mailbox(address).filter(|_| is_clean) else {
            return never("The person has no mail address that can be read.");
        };
        let id = key.stable_id();
        let message_id = format!("<{}@holdpoint>", escape(&id, "-_."));
        let letter = Letter {
            message_id: message_id.clone(),
            in_reply_to: None,
            at: self.clock.now(),
            to,
            reply_to: None,
            subject,
            text,
            html: Some(html),
            workspace: key.workspace.to_string(),
            person: Some(person.name.to_string()),
        };
        let file = format!("{}/{id}", key.workspace);
        match self.outside.mailer.send(letter, &file).await {
            Ok(()) => AttemptReport::Sent {
                receipt: message_id,
            },
            Err(error) if error.is_final() => never(&error.to_string()),
            Err(error) => later(&error.to_string()),
        }
    }

    /// The page where this person decides without signing in, with the answer of the link. `None`: the address of
    /// the installation is unknown.
    fn link(
        &self,
        key: &DeliveryKey,
        person: &UserName,
        event: &RequestEvent,
        choice: Option<Choice>,
    ) -> Option<String> {
        let base = self.outside.public_url.known()?.as_deref()?;
        let claims = LinkClaims {
            workspace: key.workspace.clone(),
            person: person.clone(),
            request: event.id,
            version: event.rev,
            expires_at: self.clock.now() + LINK_VALID,
            choice,
        };
        let token = self.links.sign(&claims).ok()?;
        Some(format!("{base}/l/{token}"))
    }
}
