//! One mail a day with what reached the person through no other channel: open requests, run ends, contact events and
//! mentions.

use std::collections::HashSet;

use holdpoint_contracts::notification::NotificationView;
use holdpoint_ids::UserName;
use holdpoint_store::StoreError;
use holdpoint_user_directory::table::User;

use super::{Pool, dropped, unread};
use crate::domain::{AttemptReport, DeliveryKey, DeliveryRules, PERSON_GONE, asks_a_person};
use crate::email_template;
use crate::store::{self, EntryFilter, may_look};

/// The newest notifications of a person that a digest reads.
const LOOKED_AT: u64 = 500;

impl Pool {
    /// Reads the notifications as they are now, without requests that were decided in the meantime.
    pub(super) async fn digest(&self, key: &DeliveryKey, name: &UserName) -> AttemptReport {
        let found = store::person(&self.readers, &key.workspace, name).await;
        let (person, rules) = match found {
            Ok(Some((person, rules))) if person.active => (person, rules),
            Ok(Some(_) | None) => return dropped(PERSON_GONE),
            Err(error) => return unread("a person", &error),
        };
        let open = match self.open(key, &person, &rules).await {
            Ok(open) if open.is_empty() => return dropped("There was nothing to report."),
            Ok(open) => open,
            Err(error) => return unread("a digest", &error),
        };
        let base = self.outside.public_url.known().and_then(Option::as_deref);
        self.send_mail(key, &person, email_template::digest(&open, base))
            .await
    }

    /// Open requests first, and each once, however many other notifications are newer. The others count if they came
    /// since the last digest, are unread, and the person may still look at runs.
    async fn open(
        &self,
        key: &DeliveryKey,
        person: &User,
        rules: &DeliveryRules,
    ) -> Result<Vec<NotificationView>, StoreError> {
        let mut filter = EntryFilter {
            workspace: &key.workspace,
            person: &person.name,
            unread: false,
            of_requests: true,
            last: None,
            limit: LOOKED_AT,
        };
        let mut known = HashSet::new();
        let mut open = store::list(&self.readers, &filter).await?;
        open.retain(|one| {
            let is_open = one.decided.is_none() && asks_a_person(one.kind);
            let leaves = rules.next(one.priority, &[]).is_some();
            let is_new = one.request.is_some_and(|request| known.insert(request));
            is_open && !leaves && is_new
        });
        let since = store::last_digest(&self.readers, key).await?;
        filter.of_requests = false;
        let others = store::list(&self.readers, &filter).await?;
        let is_wanted = |one: &NotificationView| {
            let asks_nothing = one.ended.is_some() || email_template::asks_nothing(one);
            let is_new = one.read_at.is_none() && since.is_none_or(|since| one.at > since);
            asks_nothing
                && is_new
                && may_look(&person.roles)
                && rules.next(one.priority, &[]).is_none()
        };
        open.extend(others.into_iter().filter(is_wanted));
        Ok(open)
    }
}
