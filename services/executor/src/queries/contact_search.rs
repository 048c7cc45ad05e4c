//! The search of a step for contacts.

use holdpoint_contracts::contact::ContactView;
use holdpoint_contracts::executor::{ListContacts, SearchContacts};
use holdpoint_contracts::run::Page;
use holdpoint_ids::Workspace;
use holdpoint_kernel::cut_page;
use serde_json::Value;

use super::ExecutorQueries;
use super::query_error::QueryError;
use crate::domain::{Contact, check_search, is_found};
use crate::store;

/// Contacts of one read. The largest ones together stay below 13 MiB.
const PAGE: u64 = 200;

/// Most reads of one query. The caller continues after them.
const ROUNDS_MAX: usize = 5;

impl ExecutorQueries {
    /// Contacts in the order of their ids.
    pub(super) async fn search_contacts(
        &self,
        workspace: &Workspace,
        query: &SearchContacts,
    ) -> Result<Page<ContactView>, QueryError> {
        check_search(query)?;
        self.run_of_step(workspace, &query.token).await?;
        let email = query.fields.get("email").and_then(Value::as_str);
        let mut selection = ListContacts {
            limit: PAGE,
            cursor: query.cursor.clone(),
            email: email.map(str::to_owned),
            message_ids: Vec::new(),
        };
        let wanted = usize::try_from(query.limit).unwrap_or(usize::MAX);
        let mut found: Vec<ContactView> = Vec::new();
        let mut is_done = false;
        for _ in 0..ROUNDS_MAX {
            let page = store::list_contacts(&self.db, workspace, &selection).await?;
            is_done = u64::try_from(page.len()).is_ok_and(|count| count < PAGE);
            selection.cursor = page.last().map(|contact| contact.id.to_string());
            let page = page.iter().filter(|contact| is_found(contact, query));
            found.extend(page.map(Contact::view));
            if is_done || found.len() > wanted {
                break;
            }
        }
        let page = cut_page(found, query.limit, |view: &ContactView| view.id.to_string());
        let stopped_at = selection.cursor.filter(|_| !is_done);
        Ok(Page {
            next_cursor: page.next_cursor.or(stopped_at),
            ..page
        })
    }
}
