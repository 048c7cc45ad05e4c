//! The statistics of an agent.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use holdpoint_contracts::agent::{AgentStats, GetAgentStats, STATS_RUNS_MAX};
use holdpoint_contracts::run::{Clocks, RunStatus};
use holdpoint_ids::Workspace;

use super::ExecutorQueries;
use super::query_error::QueryError;
use crate::domain::Refusal;
use crate::store::{self, RunStatsRow};

/// Without an instant the statistics begin here.
const SINCE_DEFAULT: TimeDelta = TimeDelta::days(30);

/// The class of failures that lower the success rate (S0-NFR).
const AGENT: &str = "agent";

impl ExecutorQueries {
    /// Statistics of the newest runs. One statement reads at most [`STATS_RUNS_MAX`] rows, however many runs exist.
    pub(super) async fn agent_stats(
        &self,
        workspace: &Workspace,
        query: &GetAgentStats,
    ) -> Result<AgentStats, QueryError> {
        let agent = &query.agent;
        let found = store::agents(&self.db, workspace, &[agent]).await?;
        if found.iter().all(crate::domain::Agent::is_deleted) {
            return Err(Refusal::AgentNotFound(agent.clone()).into());
        }
        let since = query.since.unwrap_or(self.clock.now() - SINCE_DEFAULT);
        let limit = STATS_RUNS_MAX + 1;
        let mut runs = store::newest_run_stats(&self.db, workspace, agent, since, limit).await?;
        let most = usize::try_from(STATS_RUNS_MAX).unwrap_or(usize::MAX);
        let limit_reached = runs.len() > most;
        runs.truncate(most);
        Ok(AgentStats {
            agent: agent.clone(),
            since,
            runs: u64::try_from(runs.len()).unwrap_or(STATS_RUNS_MAX),
            limit_reached,
            statuses: count(runs.iter().map(|run| &run.status)),
            failures: count(runs.iter().filter_map(|run| run.class.as_ref())),
            success_rate: success_rate(&runs),
            median: median_clocks(&runs),
        })
    }
}

fn count<'n>(names: impl Iterator<Item = &'n String>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name.clone()).or_default() += 1;
    }
    counts
}

/// Completed runs among the completed ones and those that failed by the agent.
fn success_rate(runs: &[RunStatsRow]) -> Option<f64> {
    let completed = RunStatus::Completed.as_str();
    let completed = runs.iter().filter(|run| run.status == completed).count();
    let failed = runs
        .iter()
        .filter(|run| run.class.as_deref() == Some(AGENT));
    let completed = f64::from(u32::try_from(completed).ok()?);
    let ended = completed + f64::from(u32::try_from(failed.count()).ok()?);
    (ended > 0.0).then(|| completed / ended)
}

fn median_clocks(runs: &[RunStatsRow]) -> Option<Clocks> {
    let is_final = |run: &&RunStatsRow| run.status.parse().is_ok_and(RunStatus::is_final);
    let ended: Vec<_> = runs.iter().filter(is_final).collect();
    let median = |clock: fn(&RunStatsRow) -> i64| {
        let mut all: Vec<_> = ended.iter().map(|run| clock(run)).collect();
        let middle = all.len() / 2;
        let is_any = middle < all.len();
        let (_, median, _) = is_any.then(|| all.select_nth_unstable(middle))?;
        u64::try_from(*median).ok()
    };
    Some(Clocks {
        active_ms: median(|run| run.active_ms)?,
        queued_ms: median(|run| run.queued_ms)?,
        human_ms: median(|run| run.human_ms)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(status: &str, class: Option<&str>, active_ms: i64) -> RunStatsRow {
        RunStatsRow {
            status: status.to_owned(),
            class: class.map(str::to_owned),
            active_ms,
            queued_ms: 1,
            human_ms: 0,
        }
    }

    /// S0-NFR: a person who says no, or a full disk, is not the agent's failure.
    #[test]
    fn only_failures_of_the_agent_lower_the_success_rate() {
        assert_eq!(success_rate(&[]), None);
        assert_eq!(success_rate(&[run("running", None, 1)]), None);
        let mut runs = vec![
            run("completed", None, 30),
            run("completed", None, 10),
            run("completed", None, 50),
            run("failed", Some("agent"), 20),
            run("waiting", None, 999),
        ];
        assert_eq!(success_rate(&runs), Some(0.75));
        runs.extend(["policy", "infra", "human_timeout"].map(|it| run("failed", Some(it), 40)));
        runs.push(run("cancelled", Some("cancelled"), 60));
        assert_eq!(success_rate(&runs), Some(0.75));
        let median = median_clocks(&runs).unwrap();
        assert_eq!(
            (median.active_ms, median.queued_ms, median.human_ms),
            (40, 1, 0)
        );
        assert_eq!(median_clocks(&[run("waiting", None, 1)]), None);
    }
}
