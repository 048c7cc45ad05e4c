//! Mails: one notification to one person, and what every mail has in common.

use chrono::TimeDelta;
use holdpoint_auth::{Choice, LinkClaims};
use holdpoint_contracts::notification::RequestEvent;
use holdpoint_ids::UserName;
use holdpoint_mail::{Letter, escape, read_mailbox};
use holdpoint_user_directory::table::User;

use super::{BARRED, Pool, dropped, later, never};
use crate::domain::{DeliveryKey, GONE, OVER, Report};
use crate::letter::{self, Words};
use crate::store::{DeliveryPayload, FeedPage, may_look};

/// How long the link of a mail decides; later whoever has it signs in.
const LINK_VALID: TimeDelta = TimeDelta::days(14);

impl Pool {
    /// Not to somebody who was disabled meanwhile, and not of what is over.
    pub(super) async fn mail(&self, key: &DeliveryKey, parcel: &DeliveryPayload) -> Report {
        let Some(person) = parcel.person.as_ref().filter(|person| person.active) else {
            return dropped(GONE);
        };
        let words = match &parcel.of {
            // Of a request nobody is told the end by mail: what would be mailed is a question.
            FeedPage::Request { note, has_ended } if *has_ended || note.fact.kind.is_end() => {
                return dropped(OVER);
            }
            FeedPage::Request { note, .. } => {
                let link = |choice| self.link(key, &person.name, &note.fact, choice);
                letter::words(&note.fact, link)
            }
            FeedPage::End(_) if !may_look(&person.roles) => return dropped(BARRED),
            FeedPage::End(end) => {
                let base = self.outside.public_url.known().and_then(Option::as_deref);
                letter::ended(end, base)
            }
        };
        self.send_mail(key, person, words).await
    }

    /// Under a name that stays the same however often it is tried.
    pub(super) async fn send_mail(
        &self,
        key: &DeliveryKey,
        person: &User,
        Words {
            subject,
            text,
            html,
        }: Words,
    ) -> Report {
        let address = person.email.as_deref().unwrap_or_default();
        let is_clean = !address.chars().any(char::is_control);
        let Some(to) = read_mailbox(address).filter(|_| is_clean) else {
            return never("The person has no mail address that can be read.");
        };
        let id = key.stable_id();
        let message_id = format!("<{}@holdpoint>", escape(&id, "-_."));
        let letter = Letter {
            message_id: message_id.clone(),
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
            Ok(()) => Report::Sent {
                receipt: message_id,
            },
            Err(fault) if fault.is_final() => never(&fault.to_string()),
            Err(fault) => later(&fault.to_string()),
        }
    }

    /// Where this person decides it, without signing in, perhaps with an answer that stands in the mail;
    /// none where nobody said where we are.
    fn link(
        &self,
        key: &DeliveryKey,
        person: &UserName,
        fact: &RequestEvent,
        choice: Option<Choice>,
    ) -> Option<String> {
        let base = self.outside.public_url.known()?.as_deref()?;
        let claims = LinkClaims {
            workspace: key.workspace.clone(),
            person: person.clone(),
            request: fact.id,
            version: fact.rev,
            expires_at: self.clock.now() + LINK_VALID,
            choice,
        };
        let token = self.links.sign(&claims).ok()?;
        Some(format!("{base}/l/{token}"))
    }
}
