//! What was started before: contacts that have a run of an agent, whatever became of it.

use std::collections::BTreeSet;

use holdpoint_ids::ContactId;

use super::super::Session;

/// Runs of one page of the list.
const PAGE: usize = 500;

/// Everybody whom a run of this agent was about.
pub(super) async fn contacts(
    session: &Session,
    agent: &str,
) -> anyhow::Result<BTreeSet<ContactId>> {
    let mut known = BTreeSet::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut query = vec![("agent", agent.to_owned()), ("limit", PAGE.to_string())];
        query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let page = session.client.runs(&query).await?.value;
        known.extend(page.items.into_iter().filter_map(|run| run.contact));
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => return Ok(known),
        }
    }
}
