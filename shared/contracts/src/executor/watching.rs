//! Which ends of runs the executor tells of: those of runs and agents that somebody watches.

use serde::{Deserialize, Serialize};

use super::SERVICE;
use crate::message::{Command, Reply};
use crate::notification::{RunEnded, Watched};

/// Somebody watches these: their ends are told with [`NoteEnds`](crate::notification::NoteEnds) from the
/// commit of this on. Again changes nothing that anybody sees. 404 for what is not there, 422 for a
/// request: its end is not the executor's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchEnds {
    /// At least one.
    pub of: Vec<Watched>,
}
command!(WatchEnds, "watch_ends", Vec<Reply<EndWatched>>, |it| it
    .of
    .first()
    .map(ToString::to_string)
    .unwrap_or_default());

/// To one thing that is watched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndWatched {
    /// The run has ended before, and so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Box<RunEnded>>,
}
