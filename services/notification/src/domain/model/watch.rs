//! A person's subscription to a request, a run or an agent.

use std::fmt;

use chrono::{DateTime, Utc};
use holdpoint_contracts::notification::{WatchView, Watched};
use holdpoint_ids::{UserName, WebhookId, Workspace};

/// Watches of one person; one more is refused.
pub const WATCHES_MAX: u64 = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    pub workspace: Workspace,
    pub person: UserName,
    pub of: Watched,
    /// `None`: the person has stopped watching.
    pub since: Option<DateTime<Utc>>,
    /// Rises with every change.
    pub version: u64,
}

impl Watch {
    #[must_use]
    pub fn new(workspace: &Workspace, person: &UserName, of: &Watched, now: DateTime<Utc>) -> Self {
        Self {
            workspace: workspace.clone(),
            person: person.clone(),
            of: of.clone(),
            since: Some(now),
            version: 1,
        }
    }

    /// As the API shows it; `None` once the person has stopped watching.
    #[must_use]
    pub fn view(&self) -> Option<WatchView> {
        self.since.map(|since| WatchView {
            id: self.of.to_string(),
            of: self.of.clone(),
            since,
        })
    }

    #[must_use]
    pub fn changed(&self, since: Option<DateTime<Utc>>) -> Self {
        Self {
            since,
            version: self.version + 1,
            ..self.clone()
        }
    }
}

/// Who wants the executor to report run ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndsFor {
    Person(UserName),
    Webhook(WebhookId),
}

impl fmt::Display for EndsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person(name) => name.fmt(f),
            Self::Webhook(id) => id.fmt(f),
        }
    }
}
