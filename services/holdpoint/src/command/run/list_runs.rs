//! Finds runs by a filter, page by page.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use holdpoint_contracts::run::RunView;
use holdpoint_ids::ContactId;

use super::super::Session;
use crate::cli::runs::FilterArgs;
use crate::client::Query;

/// Items of a page.
const PAGE: usize = 500;

/// Requests that a command on many runs sends at once.
pub(super) const CONCURRENCY: usize = 16;

pub(super) fn filter_query(filter: &FilterArgs) -> Vec<(&'static str, String)> {
    let label = filter.label.as_ref();
    let label = label.map(|(name, value)| format!("{name}={value}"));
    let agent = filter.agent.clone().map(|agent| ("agent", agent));
    let status = filter.status.map(|status| ("status", status.to_string()));
    let filters = [agent, status, label.map(|label| ("label", label))];
    filters.into_iter().flatten().collect()
}

/// Contacts that have a run of an agent, in any status.
pub(super) async fn contacts_with_run(
    session: &Session,
    agent: &str,
) -> anyhow::Result<BTreeSet<ContactId>> {
    let mut contacts = BTreeSet::new();
    for_each_run(session, &[("agent", agent.to_owned())], |run| {
        contacts.extend(run.contact);
        Ok(())
    })
    .await?;
    Ok(contacts)
}

/// Reads all pages of a filtered list.
pub(super) async fn for_each_run(
    session: &Session,
    filter: &Query,
    mut visit: impl FnMut(RunView) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let filter = [filter, &[("limit", PAGE.to_string())]].concat();
    let page = |runs: Vec<RunView>| {
        runs.into_iter().try_for_each(&mut visit)?;
        Ok(ControlFlow::Continue(()))
    };
    session.for_each_page("runs", &filter, page).await
}
