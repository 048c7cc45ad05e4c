//! Ids by their beginning: a command takes as much of one as tells it from all others.

use std::collections::BTreeSet;

use holdpoint_contracts::Problem;
use holdpoint_contracts::run::Page;
use holdpoint_ids::{HoldId, NotificationId, RunId, WebhookId};
use serde::Deserialize;

use super::Session;
use crate::client::{Body, ClientError, segment};
use crate::exit::Usage;

/// Characters of an id that must be typed after its kind.
const SHORTEST: usize = 4;
/// Items of a page, and pages that are looked through.
const PAGE: usize = 500;
const PAGES_MAX: usize = 200;
/// Ids that an error names.
const NAMED: usize = 5;

/// The list in which an id is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listed {
    Runs,
    Requests,
    Notifications,
    Webhooks,
    Watches,
}

#[derive(Debug, Deserialize)]
struct Item {
    id: String,
}

impl Listed {
    const fn path(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Requests => "requests",
            Self::Notifications => "notifications",
            Self::Webhooks => "webhooks",
            Self::Watches => "watches",
        }
    }

    /// Whether a text is the beginning of such an id and not one itself.
    fn is_beginning(self, text: &str) -> bool {
        let is_whole = match self {
            Self::Runs => text.parse::<RunId>().is_ok(),
            Self::Requests => text.parse::<HoldId>().is_ok(),
            Self::Notifications => text.parse::<NotificationId>().is_ok(),
            Self::Webhooks => text.parse::<WebhookId>().is_ok(),
            Self::Watches => text.parse::<RunId>().is_ok() || text.parse::<HoldId>().is_ok(),
        };
        let kinds: &[&str] = match self {
            Self::Runs => &["run_"],
            Self::Requests => &["hold_"],
            Self::Notifications => &["note_"],
            Self::Webhooks => &["wh_"],
            Self::Watches => &["run_", "hold_"],
        };
        !is_whole && kinds.iter().any(|kind| text.starts_with(kind))
    }
}

impl Session {
    /// The whole id that begins like this; anything else as it was typed.
    ///
    /// # Errors
    /// When no id or several begin so, or when too little of it was typed.
    pub(super) async fn whole_id(&self, listed: Listed, text: &str) -> anyhow::Result<String> {
        if !listed.is_beginning(text) {
            return Ok(text.to_owned());
        }
        segment(text)?;
        let typed = text.split_once('_').map_or(0, |(_, rest)| rest.len());
        if typed < SHORTEST {
            let kind = text.get(..text.len() - typed).unwrap_or_default();
            anyhow::bail!(Usage(format!(
                "`{text}` is too short: give at least {SHORTEST} characters after `{kind}`"
            )));
        }
        let found = self.begin_with(listed, text).await?;
        let mut found: Vec<_> = found.into_iter().collect();
        match found.pop() {
            Some(one) if found.is_empty() => Ok(one),
            None => {
                let detail = format!("no id of {} begins with `{text}`", listed.path());
                Err(ClientError::from(Problem::not_found(detail)).into())
            }
            Some(one) => {
                found.push(one);
                let named: Vec<_> = found.iter().take(NAMED).map(String::as_str).collect();
                let more = if found.len() > NAMED { ", …" } else { "" };
                anyhow::bail!(Usage(format!(
                    "{} ids begin with `{text}`: {}{more}; give more of the one you mean",
                    found.len(),
                    named.join(", ")
                )))
            }
        }
    }

    /// Several, each as by [`Session::whole_id`].
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

    async fn begin_with(&self, listed: Listed, text: &str) -> anyhow::Result<BTreeSet<String>> {
        let mut found = BTreeSet::new();
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES_MAX {
            let mut query = Vec::new();
            if listed != Listed::Watches {
                query.push(("limit", PAGE.to_string()));
            }
            query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
            let page: Body<Page<Item>> = self.client.get(listed.path(), &query).await?;
            let page = page.value;
            // Runs are listed by their ids, newest first: behind a smaller one there is none.
            let is_past = listed == Listed::Runs
                && page
                    .items
                    .last()
                    .is_some_and(|last| last.id.as_str() < text);
            let ids = page.items.into_iter().map(|item| item.id);
            found.extend(ids.filter(|id| id.starts_with(text)));
            match page.next_cursor {
                Some(next) if !is_past => cursor = Some(next),
                Some(_) | None => return Ok(found),
            }
        }
        anyhow::bail!(Usage(format!(
            "`{text}` was looked for among the newest {}; give the whole id",
            PAGES_MAX * PAGE
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mend D-4: whole ids, names and texts are taken as they are.
    #[test]
    fn only_beginnings_are_looked_up() {
        let run = "run_0193aaaabbbb7ccc8dddeeeeeeeeeeee";
        let hold = "hold_0193aaaabbbb7ccc8dddeeeeeeeeeeee-1";
        for (listed, text, is_beginning) in [
            (Listed::Runs, run, false),
            (Listed::Runs, &run[..12], true),
            (Listed::Runs, "outreach", false),
            (Listed::Requests, hold, false),
            (Listed::Requests, &hold[..hold.len() - 2], true),
            (Listed::Requests, run, false),
            (Listed::Watches, "agent_outreach", false),
            (Listed::Watches, &run[..12], true),
        ] {
            assert_eq!(listed.is_beginning(text), is_beginning, "{text}");
        }
    }
}
