//! One mail a day to a person of what is open, and was told by no other way.

use std::collections::HashSet;

use holdpoint_contracts::notification::NotificationView;
use holdpoint_ids::UserName;
use holdpoint_mail::{About, Letter, escape, read_mailbox};
use holdpoint_store::StoreError;

use super::{Pool, dropped, later, never};
use crate::domain::{DeliveryKey, Report, Rules, asks_somebody};
use crate::letter::{self, Words};
use crate::store::{self, Filter};

/// Of the newest notifications of a person so many are looked at.
const LOOKED_AT: u64 = 500;

impl Pool {
    /// Of things as they are now: what was decided in the meantime is not told.
    pub(super) async fn digest(&self, key: &DeliveryKey, name: &UserName) -> Report {
        let found = store::person(&self.readers, &key.workspace, name).await;
        let (person, rules) = match found {
            Ok(Some((person, rules))) if person.active => (person, rules),
            Ok(Some(_) | None) => return dropped("The person is disabled or gone."),
            Err(error) => return unread(&error),
        };
        let open = match self.open(key, name, &rules).await {
            Ok(open) if open.is_empty() => return dropped("There was nothing to tell."),
            Ok(open) => open,
            Err(error) => return unread(&error),
        };
        let address = person.email.as_deref().unwrap_or_default();
        let is_clean = !address.chars().any(char::is_control);
        let Some(to) = read_mailbox(address).filter(|_| is_clean) else {
            return never("The person has no mail address that can be read.");
        };
        let base = self.outside.public_url.known().and_then(Option::as_deref);
        let Words {
            subject,
            text,
            html,
        } = letter::digest(&open, base);
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
            about: Some(About {
                workspace: key.workspace.to_string(),
                person: name.to_string(),
            }),
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

    /// The newest first, each request once.
    async fn open(
        &self,
        key: &DeliveryKey,
        person: &UserName,
        rules: &Rules,
    ) -> Result<Vec<NotificationView>, StoreError> {
        let filter = Filter {
            workspace: &key.workspace,
            person,
            unread: false,
            behind: None,
            limit: LOOKED_AT,
        };
        let mut known = HashSet::new();
        let mut open = store::list(&self.readers, &filter).await?;
        open.retain(|one| {
            let is_open = one.decided.is_none() && asks_somebody(one.kind);
            let leaves = rules.next(one.priority, &[]).is_some();
            let is_new = one.request.is_some_and(|request| known.insert(request));
            is_open && !leaves && is_new
        });
        Ok(open)
    }
}

fn unread(error: &StoreError) -> Report {
    tracing::warn!(%error, "a digest cannot be read");
    later("The tables could not be read.")
}
