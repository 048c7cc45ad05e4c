//! What people watch: a request, a run or an agent, whose news they are notified.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, HoldId, IdError, RunId};
use serde::{Deserialize, Serialize};

use super::SERVICE;
use crate::message::{Command, Query};
use crate::run::Page;

/// Before the name of an agent, in the id of a watch.
const AGENT: &str = "agent_";

/// What is watched; written `hold_…`, `run_…` or `agent_<name>`, the id of its watch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Watched {
    /// One request.
    Request(HoldId),
    /// What one run asks, and how it ends.
    Run(RunId),
    /// What all runs of an agent ask, and how they end.
    Agent(AgentName),
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(id) => id.fmt(f),
            Self::Run(id) => id.fmt(f),
            Self::Agent(name) => write!(f, "{AGENT}{name}"),
        }
    }
}

impl FromStr for Watched {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        if let Some(name) = text.strip_prefix(AGENT) {
            return name.parse().map(Self::Agent);
        }
        match text.parse() {
            Ok(run) => Ok(Self::Run(run)),
            Err(_no_run) => text.parse().map(Self::Request),
        }
    }
}

/// The caller who asks is notified of it from now on; again changes nothing. Needs a signed assertion; 409
/// `too_many_watches` says that there is no room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// The watched run, agent or request.
    pub of: Watched,
}
command!(Watch, "watch", WatchAdded, |it| it.of.to_string());

/// The caller who asks is notified of it no more, unless it concerns them. Needs a signed assertion; 404 where they
/// do not watch it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unwatch {
    /// The watched run, agent or request.
    pub of: Watched,
}
command!(Unwatch, "unwatch", WatchView, |it| it.of.to_string());

/// One watch as the API shows it: `{id, request | run | agent, since}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchView {
    /// `hold_…`, `run_…` or `agent_<name>`: one person watches a thing once.
    pub id: String,
    /// The watched run, agent or request.
    #[serde(flatten)]
    pub of: Watched,
    /// Since this instant.
    #[serde(with = "crate::instant")]
    pub since: DateTime<Utc>,
}

/// To [`Watch`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchAdded {
    /// The watched run, agent or request.
    pub watch: WatchView,
    /// False: it was watched before.
    pub new: bool,
}

/// All that one person watches, by id. Only that person may see it: who asks has checked it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListWatches {
    /// The user.
    pub person: holdpoint_ids::UserName,
}
query!(ListWatches, "watches", Page<WatchView>);

/// Whether one person watches something, and how many do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetWatchStatus {
    /// The user.
    pub person: holdpoint_ids::UserName,
    /// The watched run, agent or request.
    pub of: Watched,
}
query!(GetWatchStatus, "watch_status", WatchStatus);

/// To [`GetWatchStatus`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchStatus {
    /// Whether that user watches it.
    pub is_watched: bool,
    /// The number of its watchers.
    pub watchers: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The id of a watch is read back as the watched thing.
    #[test]
    fn what_is_watched_is_read_back() {
        for text in [
            "hold_01920000000070008000000000000001-1",
            "run_01920000000070008000000000000001",
            "agent_run_1",
            "agent_agent_x",
        ] {
            assert_eq!(text.parse::<Watched>().unwrap().to_string(), text);
        }
        for text in ["", "agent_", "outreach", "run_1"] {
            assert!(text.parse::<Watched>().is_err(), "{text}");
        }
    }
}
