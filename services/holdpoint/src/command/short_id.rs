//! Prefixes of ids: a command accepts the shortest text that identifies one object.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use holdpoint_contracts::Problem;
use holdpoint_ids::{HoldId, NotificationId, OperationId, RunId, StandingApprovalId, WebhookId};
use serde::Deserialize;

use super::Session;
use crate::client::{ClientError, item_path, segment};
use crate::exit::Usage;

/// Minimum number of characters after the kind.
const PREFIX_MIN: usize = 4;
/// Items of a page, and pages that are searched.
const PAGE: usize = 500;
const PAGES_MAX: usize = 200;
/// Ids that an error names.
const NAMED_MAX: usize = 5;

/// The list in which an id is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub(super) enum Listed {
    Runs,
    Requests,
    Notifications,
    Webhooks,
    Watches,
    Operations,
    StandingApprovals,
}

#[derive(Debug, Deserialize)]
struct Item {
    id: String,
}

impl Listed {
    /// Whether a text is the beginning of such an id, but not a whole id.
    fn is_prefix(self, text: &str) -> bool {
        let (is_run, is_hold) = (
            text.parse::<RunId>().is_ok(),
            text.parse::<HoldId>().is_ok(),
        );
        let (is_whole, kinds): (bool, &[&str]) = match self {
            Self::Runs => (is_run, &["run_"]),
            Self::Requests => (is_hold, &["hold_"]),
            Self::Notifications => (text.parse::<NotificationId>().is_ok(), &["note_"]),
            Self::Webhooks => (text.parse::<WebhookId>().is_ok(), &["wh_"]),
            Self::Watches => (is_run || is_hold, &["run_", "hold_"]),
            Self::Operations => (text.parse::<OperationId>().is_ok(), &["op_"]),
            Self::StandingApprovals => (text.parse::<StandingApprovalId>().is_ok(), &["sa_"]),
        };
        !is_whole && kinds.iter().any(|kind| text.starts_with(kind))
    }
}

impl Session {
    /// Completes a prefix of an id. Any other text is returned as it is.
    ///
    /// # Errors
    /// When no id or several ids have the prefix, or when the prefix is too short.
    pub(super) async fn whole_id(&self, listed: Listed, text: &str) -> anyhow::Result<String> {
        if !listed.is_prefix(text) {
            return Ok(text.to_owned());
        }
        segment(text)?;
        let typed = text.split_once('_').map_or(0, |(_, rest)| rest.len());
        if typed < PREFIX_MIN {
            let kind = text.get(..text.len() - typed).unwrap_or_default();
            anyhow::bail!(Usage(format!(
                "`{text}` is too short; give at least {PREFIX_MIN} characters after `{kind}`"
            )));
        }
        let found: Vec<_> = self.find_ids(listed, text).await?.into_iter().collect();
        match found.as_slice() {
            [id] => Ok(id.clone()),
            [] => {
                let list: &str = listed.into();
                let detail = format!("no id in the list of {list} begins with `{text}`");
                Err(ClientError::from(Problem::not_found(detail)).into())
            }
            _ => {
                let named: Vec<_> = found.iter().take(NAMED_MAX).map(String::as_str).collect();
                let more = if found.len() > NAMED_MAX { ", …" } else { "" };
                anyhow::bail!(Usage(format!(
                    "{} ids begin with `{text}`: {}{more}; give a longer prefix",
                    found.len(),
                    named.join(", ")
                )))
            }
        }
    }

    /// The path of the item with an id, which may be a prefix.
    pub(super) async fn path(&self, listed: Listed, text: &str) -> anyhow::Result<String> {
        let id = self.whole_id(listed, text).await?;
        Ok(item_path(listed.into(), &id)?)
    }

    /// Completes several texts, each as [`Session::whole_id`] does.
    pub(super) async fn whole_ids(
        &self,
        listed: Listed,
        texts: &[String],
    ) -> anyhow::Result<Vec<String>> {
        let mut ids = Vec::with_capacity(texts.len());
        for text in texts {
            ids.push(self.whole_id(listed, text).await?);
        }
        Ok(ids)
    }

    async fn find_ids(&self, listed: Listed, prefix: &str) -> anyhow::Result<BTreeSet<String>> {
        let mut found = BTreeSet::new();
        let mut pages = 0;
        let limit = ("limit", PAGE.to_string());
        let query = if listed == Listed::Watches {
            &[][..]
        } else {
            &[limit]
        };
        self.for_each_page(listed.into(), query, |items: Vec<Item>| {
            pages += 1;
            if pages > PAGES_MAX {
                anyhow::bail!(Usage(format!(
                    "`{prefix}` was searched among the newest {} ids only; give the whole id",
                    PAGES_MAX * PAGE
                )));
            }
            // Runs are sorted by id, newest first: after a smaller id no other run has the prefix.
            let last = items.last();
            let is_past =
                listed == Listed::Runs && last.is_some_and(|last| last.id.as_str() < prefix);
            let ids = items.into_iter().map(|item| item.id);
            found.extend(ids.filter(|id| id.starts_with(prefix)));
            Ok(if is_past {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            })
        })
        .await?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mend D-4: whole ids, names and texts are taken as they are.
    #[test]
    fn only_prefixes_are_completed() {
        let run = "run_0193aaaabbbb7ccc8dddeeeeeeeeeeee";
        let hold = "hold_0193aaaabbbb7ccc8dddeeeeeeeeeeee-1";
        for (listed, text, is_prefix) in [
            (Listed::Runs, run, false),
            (Listed::Runs, &run[..12], true),
            (Listed::Runs, "outreach", false),
            (Listed::Requests, hold, false),
            (Listed::Requests, &hold[..hold.len() - 2], true),
            (Listed::Requests, run, false),
            (Listed::Watches, "agent_outreach", false),
            (Listed::Watches, &run[..12], true),
        ] {
            assert_eq!(listed.is_prefix(text), is_prefix, "{text}");
        }
    }
}
