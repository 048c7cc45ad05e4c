//! Removes the sandboxes of runs that have ended (S1-R8).

use std::collections::BTreeMap;
use std::time::Duration;

use holdpoint_bus::Bus;
use holdpoint_contracts::suspension::{ENDED_RUNS_MAX, EndedRuns};
use holdpoint_ids::{RunId, Workspace};

use crate::suspension::sandbox::Sandboxes;

/// How often ended runs are looked up.
const EVERY: Duration = Duration::from_secs(60);

/// Looks up ended runs until it is aborted. A sandbox stays while the executor does not reply.
pub(super) async fn remove_ended(bus: Bus, sandboxes: Sandboxes) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // Runs that are open come first again and again, so each round begins behind the last one.
    let mut after = None;
    loop {
        ticks.tick().await;
        after = remove_page(&bus, &sandboxes, after).await;
    }
}

/// Removes the sandboxes of ended runs of one page. Returns where the next page begins.
pub(super) async fn remove_page(
    bus: &Bus,
    sandboxes: &Sandboxes,
    after: Option<(Workspace, RunId)>,
) -> Option<(Workspace, RunId)> {
    let listed = sandboxes.clone();
    let listed = tokio::task::spawn_blocking(move || listed.runs(after.as_ref(), ENDED_RUNS_MAX));
    let runs = listed.await.unwrap_or_default();
    let last = (runs.len() == ENDED_RUNS_MAX).then(|| runs.last().cloned());
    let mut by_workspace: BTreeMap<Workspace, Vec<RunId>> = BTreeMap::new();
    for (workspace, run) in runs {
        by_workspace.entry(workspace).or_default().push(run);
    }
    for (workspace, runs) in by_workspace {
        match bus.query(&workspace, &EndedRuns { runs }).await {
            Ok(ended) => remove(sandboxes, &workspace, ended).await,
            Err(problem) => tracing::debug!(%problem, "ended runs not read; their sandboxes stay"),
        }
    }
    last.flatten()
}

async fn remove(sandboxes: &Sandboxes, workspace: &Workspace, ended: Vec<RunId>) {
    let (sandboxes, workspace) = (sandboxes.clone(), workspace.clone());
    let removed = tokio::task::spawn_blocking(move || {
        for run in ended {
            if let Err(error) = sandboxes.remove(&workspace, run) {
                tracing::warn!(%run, %error, "sandbox not removed; trying again");
            }
        }
    });
    if let Err(error) = removed.await {
        tracing::error!(%error, "removal of sandboxes failed");
    }
}
