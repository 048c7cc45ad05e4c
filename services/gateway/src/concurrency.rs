//! Live streams and long polls: how many there may be, in all, of a workspace and of one caller.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use holdpoint_contracts::Problem;
use holdpoint_ids::Workspace;

/// Open at a time in all; one more is told to come back (503).
const ALL_MAX: usize = 2_000;
/// Of one workspace; one more is refused (429).
const WORKSPACE_MAX: usize = 1_000;
/// Of one user or step; one more is refused (429).
const CALLER_MAX: usize = 50;

/// Who holds how many streams open.
#[derive(Debug, Clone, Default)]
pub(crate) struct Streams {
    open: Arc<Mutex<Open>>,
}

#[derive(Debug, Default)]
struct Open {
    all: usize,
    by_workspace: HashMap<Workspace, HashMap<String, usize>>,
}

/// The right to one open stream, as long as it lives.
#[derive(Debug)]
pub(crate) struct StreamPermit {
    streams: Streams,
    workspace: Workspace,
    caller: String,
}

impl Streams {
    /// A permit, or why there is none.
    pub(crate) fn take(
        &self,
        workspace: &Workspace,
        caller: &str,
    ) -> Result<StreamPermit, Problem> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.all >= ALL_MAX {
            return Err(Problem::unavailable(format!(
                "{ALL_MAX} live streams are open, which is the most; close some or try again"
            )));
        }
        let callers = open.by_workspace.get(workspace);
        let of_caller = callers.and_then(|it| it.get(caller)).copied().unwrap_or(0);
        if of_caller >= CALLER_MAX {
            return Err(too_many("you have", CALLER_MAX));
        }
        if callers.is_some_and(|it| it.values().sum::<usize>() >= WORKSPACE_MAX) {
            return Err(too_many("this workspace has", WORKSPACE_MAX));
        }
        open.all += 1;
        let callers = open.by_workspace.entry(workspace.clone()).or_default();
        callers.insert(caller.to_owned(), of_caller + 1);
        drop(open);
        Ok(StreamPermit {
            streams: self.clone(),
            workspace: workspace.clone(),
            caller: caller.to_owned(),
        })
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut open = self
            .streams
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        open.all = open.all.saturating_sub(1);
        let Some(callers) = open.by_workspace.get_mut(&self.workspace) else {
            return;
        };
        if let Some(count) = callers.get_mut(&self.caller) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                callers.remove(&self.caller);
            }
        }
        if callers.is_empty() {
            open.by_workspace.remove(&self.workspace);
        }
    }
}

fn too_many(who: &str, most: usize) -> Problem {
    Problem::new(
        429,
        "too_many_streams",
        format!("{who} {most} live streams open, which is the most; close some"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mend A-M1: one viewer takes no streams of others.
    #[test]
    fn a_caller_and_a_workspace_have_limits_of_their_own() {
        let streams = Streams::default();
        let (one, other): (Workspace, Workspace) =
            ("one".parse().unwrap(), "other".parse().unwrap());
        let mut permits: Vec<_> = (0..CALLER_MAX)
            .map(|_| streams.take(&one, "viewer").unwrap())
            .collect();
        let refused = streams.take(&one, "viewer").unwrap_err();
        assert_eq!((refused.status, &*refused.code), (429, "too_many_streams"));
        permits.push(streams.take(&one, "owner").unwrap());
        permits.push(streams.take(&other, "viewer").unwrap());
        for number in 0.. {
            match streams.take(&one, &format!("user-{number}")) {
                Ok(permit) => permits.push(permit),
                Err(refused) => {
                    assert_eq!(refused.status, 429);
                    break;
                }
            }
        }
        assert_eq!(permits.len(), WORKSPACE_MAX + 1);
        permits.push(streams.take(&other, "owner").unwrap());
        permits.clear();
        let open = streams.open.lock().unwrap();
        assert!(open.all == 0 && open.by_workspace.is_empty());
    }
}
