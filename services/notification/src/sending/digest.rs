//! One mail a day to a person of what is open, and which runs have ended, that was told by no other way.

use std::collections::HashSet;

use holdpoint_contracts::notification::NotificationView;
use holdpoint_ids::UserName;
use holdpoint_store::StoreError;
use holdpoint_user_directory::table::User;

use super::{Pool, dropped, unread};
use crate::domain::{DeliveryKey, GONE, Report, Rules, asks_somebody};
use crate::letter;
use crate::store::{self, Filter, may_look};

/// Of the newest notifications of a person so many are looked at.
const LOOKED_AT: u64 = 500;

impl Pool {
    /// Of things as they are now: what was decided in the meantime is not told.
    pub(super) async fn digest(&self, key: &DeliveryKey, name: &UserName) -> Report {
        let found = store::person(&self.readers, &key.workspace, name).await;
        let (person, rules) = match found {
            Ok(Some((person, rules))) if person.active => (person, rules),
            Ok(Some(_) | None) => return dropped(GONE),
            Err(error) => return unread("a person", &error),
        };
        let open = match self.open(key, &person, &rules).await {
            Ok(open) if open.is_empty() => return dropped("There was nothing to tell."),
            Ok(open) => open,
            Err(error) => return unread("a digest", &error),
        };
        let base = self.outside.public_url.known().and_then(Option::as_deref);
        self.send_mail(key, &person, letter::digest(&open, base))
            .await
    }

    /// The newest first, each request once; and how runs ended since the last one, as far as that is not
    /// read, and the person may still look at runs.
    async fn open(
        &self,
        key: &DeliveryKey,
        person: &User,
        rules: &Rules,
    ) -> Result<Vec<NotificationView>, StoreError> {
        let filter = Filter {
            workspace: &key.workspace,
            person: &person.name,
            unread: false,
            behind: None,
            limit: LOOKED_AT,
        };
        let since = store::last_digest(&self.readers, key).await?;
        let mut known = HashSet::new();
        let mut open = store::list(&self.readers, &filter).await?;
        open.retain(|one| {
            if one.ended.is_some() {
                let is_new = one.read_at.is_none() && since.is_none_or(|since| one.at > since);
                return is_new
                    && may_look(&person.roles)
                    && rules.next(one.priority, &[]).is_none();
            }
            let is_open = one.decided.is_none() && asks_somebody(one.kind);
            let leaves = rules.next(one.priority, &[]).is_some();
            let is_new = one.request.is_some_and(|request| known.insert(request));
            is_open && !leaves && is_new
        });
        Ok(open)
    }
}
