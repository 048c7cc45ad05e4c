//! Rehearsals of agents. They read the registry of tools, and change nothing.

mod child_plans;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Datelike as _, DurationRound as _, TimeDelta, Utc};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::rehearsal::{
    CONTACTS_MAX, Rehearsal, RehearsalContact, RehearseAgent, SECONDS_MAX, WAIT_SECONDS_MAX,
    check_contacts,
};
use holdpoint_contracts::size::json_bytes;
use holdpoint_ids::{AgentName, Workspace};
use holdpoint_user_directory::table as directory;

use super::ExecutorQueries;
use super::query_error::QueryError;
use crate::domain::Tool;
use crate::domain::merge_patch;
use crate::domain::plan::Plan;
use crate::domain::rehearsal::audience::{ActiveUsers, USERS_MAX};
use crate::domain::rehearsal::child_plans::ChildPlans;
use crate::domain::rehearsal::policies::Policies;
use crate::domain::rehearsal::rehearse;
use crate::domain::rehearsal::script::Script;
use crate::domain::rehearsal::setup::{RehearsalSetup, WorkspaceFacts};
use crate::domain::rehearsal::standing_approvals::StandingApprovals;
use crate::store;

/// How long a rehearsal waits for those before it.
const REHEARSE_WITHIN: Duration = Duration::from_secs(WAIT_SECONDS_MAX);

/// Years in which a rehearsal may start.
const YEARS: std::ops::RangeInclusive<i32> = 1970..=9_000;

/// Most policies of one request: as many as a workspace has.
const POLICIES_MAX: usize = 200;

/// Most standing approvals of one request: as many as a workspace has that are active.
const STANDING_APPROVALS_MAX: usize = 200;

/// Most bytes of JSON of the runs of one reply. The bus takes 1 MiB.
const RUNS_BYTES_MAX: usize = 768 * 1024;

impl ExecutorQueries {
    /// Rehearses on a blocking thread, one rehearsal at a time.
    pub(super) async fn rehearse(
        &self,
        workspace: &Workspace,
        query: RehearseAgent,
    ) -> Result<Rehearsal, QueryError> {
        check_limits(&query)?;
        let Ok(_waiting) = self.waiting_rehearsals.try_acquire() else {
            let detail = "too many rehearsals are waiting; try again";
            return Err(QueryError(Problem::unavailable(detail)));
        };
        let permit = Arc::clone(&self.rehearsing).acquire_owned();
        let Ok(Ok(permit)) = tokio::time::timeout(REHEARSE_WITHIN, permit).await else {
            let detail = "another rehearsal is running; try again";
            return Err(QueryError(Problem::unavailable(detail)));
        };
        let RehearseAgent {
            text,
            agent,
            version,
            contacts,
            script,
            start_at,
            seconds,
            policies,
            standing_approvals,
        } = query;
        let time = Duration::from_secs(seconds.unwrap_or(SECONDS_MAX));
        let start_at = start_at.unwrap_or_else(|| this_minute(self.clock.now()));
        let (plan, version) = match (text, agent, version) {
            (Some(text), None, None) => (self.compile(workspace, text).await?, None),
            (None, Some(agent), version) => self.stored_plan(workspace, &agent, version).await?,
            (Some(_), None, Some(_)) => {
                let detail = "`version` needs `agent`; a `text` has none";
                return Err(QueryError(Problem::invalid_body(detail)));
            }
            (Some(_), Some(_), _) | (None, None, _) => {
                let detail = "expected either `text` or `agent`";
                return Err(QueryError(Problem::invalid_body(detail)));
            }
        };
        let child_plans = self.child_plans(workspace, &plan).await?;
        let script = script.as_deref().unwrap_or_default();
        let script = Script::parse(script, &plan, &child_plans).map_err(invalid_script)?;
        let facts = WorkspaceFacts {
            workspace: workspace.clone(),
            tools: self.tools_of(workspace, &plan, &child_plans).await?,
            users: self.active_users(workspace).await?,
            policies: Policies::new(policies),
            standing_approvals: StandingApprovals::new(standing_approvals),
            child_plans,
        };
        let mut setup = RehearsalSetup::new(facts, plan, script, start_at)
            .map_err(|error| Problem::invalid_body(error.to_string()))?;
        let contacts = self.merged_contacts(workspace, contacts).await?;
        let rehearsal = Self::blocking(move || {
            let rehearsal = rehearse_all(&mut setup, &contacts, time);
            drop(permit);
            rehearsal
        });
        let rehearsal = rehearsal.await??;
        Ok(Rehearsal {
            version,
            ..rehearsal
        })
    }

    /// The contacts as their runs would have them: a start merges its fields into the stored contact.
    async fn merged_contacts(
        &self,
        workspace: &Workspace,
        mut contacts: Vec<RehearsalContact>,
    ) -> Result<Vec<RehearsalContact>, QueryError> {
        let keys = contacts.iter();
        let keys: Vec<_> = keys.map(|it| (workspace.clone(), it.id.clone())).collect();
        let stored = store::contacts_with_keys(&self.db, &keys).await?;
        let live = stored.into_iter().filter(|contact| !contact.deleted);
        let stored: BTreeMap<_, _> = live.map(|it| (it.id, it.fields)).collect();
        for contact in &mut contacts {
            if let Some(fields) = stored.get(&contact.id) {
                contact.fields = merge_patch(fields, &contact.fields);
            }
        }
        Ok(contacts)
    }

    /// The plan of a stored version of an agent. None: of the newest one.
    async fn stored_plan(
        &self,
        workspace: &Workspace,
        agent: &AgentName,
        version: Option<u32>,
    ) -> Result<(Plan, Option<u32>), QueryError> {
        let newest = self.live_agent(workspace, agent).await?.newest;
        let wanted = version.unwrap_or(newest);
        let plan = store::plan(&self.db, workspace, agent, wanted).await?;
        let plan = plan.ok_or_else(|| {
            let detail = format!(
                "version {wanted} of the agent `{agent}` not found; the newest is {newest}"
            );
            Problem::not_found(detail)
        })?;
        Ok((plan, Some(wanted)))
    }

    /// The users who are active now.
    async fn active_users(&self, workspace: &Workspace) -> Result<ActiveUsers, QueryError> {
        let limit = USERS_MAX as u64 + 1;
        let users = directory::active(&self.db, workspace, limit).await?;
        Ok(ActiveUsers::new(
            users.into_iter().map(|user| (user.name, user.roles)),
        ))
    }

    /// The registry entries of the tools that a plan and the plans below name.
    async fn tools_of(
        &self,
        workspace: &Workspace,
        plan: &Plan,
        below: &ChildPlans,
    ) -> Result<Vec<Arc<Tool>>, QueryError> {
        let plans = [plan].into_iter().chain(below.values().flatten());
        let names = plans.flat_map(|plan| {
            let names = plan.steps.iter().filter_map(|step| step.action.tool());
            let of_planner = plan.planner.iter().flat_map(|planner| &planner.tools);
            names.chain(of_planner.map(String::as_str))
        });
        let names: BTreeSet<_> = names.filter_map(|name| name.parse().ok()).collect();
        let entries = self.tool_entries(workspace, names).await?;
        let tools = entries.into_values();
        let tools = tools.flat_map(|entry| [entry.operator, entry.nodes]);
        Ok(tools.flatten().collect())
    }
}

/// Refuses a query that is outside of its limits.
fn check_limits(query: &RehearseAgent) -> Result<(), Problem> {
    check_contacts(&query.contacts, CONTACTS_MAX)?;
    if query.start_at.is_some_and(|at| !YEARS.contains(&at.year())) {
        let detail = format!("`start_at` is from {} to {}", YEARS.start(), YEARS.end());
        return Err(Problem::invalid_body(detail));
    }
    if query
        .seconds
        .is_some_and(|time| !(1..=SECONDS_MAX).contains(&time))
    {
        let detail = format!("`seconds` is from 1 to {SECONDS_MAX}");
        return Err(Problem::invalid_body(detail));
    }
    if query.standing_approvals.len() > STANDING_APPROVALS_MAX {
        let detail = format!("`standing_approvals` has at most {STANDING_APPROVALS_MAX} entries");
        return Err(Problem::invalid_body(detail));
    }
    if query.policies.len() > POLICIES_MAX {
        let detail = format!("`policies` has at most {POLICIES_MAX} entries");
        return Err(Problem::invalid_body(detail));
    }
    Ok(())
}

/// The times since the start are then short to read.
fn this_minute(now: DateTime<Utc>) -> DateTime<Utc> {
    now.duration_trunc(TimeDelta::minutes(1)).unwrap_or(now)
}

fn rehearse_all(
    setup: &mut RehearsalSetup,
    contacts: &[RehearsalContact],
    time: Duration,
) -> Result<Rehearsal, Problem> {
    let ends_at = Instant::now() + time;
    let may_continue = || Instant::now() < ends_at;
    let mut runs = Vec::with_capacity(contacts.len());
    let mut bytes = 0_usize;
    for contact in contacts {
        let run = match rehearse(setup, contact, &may_continue) {
            Ok(Some(run)) => run,
            Ok(None) => break,
            // The caller gets the runs before it, and the error of the next request.
            Err(_) if !runs.is_empty() => break,
            Err(error) => return Err(invalid_script(error)),
        };
        bytes = bytes.saturating_add(json_bytes(&run));
        // The timeline of one run fits.
        if bytes > RUNS_BYTES_MAX && !runs.is_empty() {
            break;
        }
        setup.count_uses(&run);
        runs.push(run);
    }
    Ok(setup.rehearsal(runs, contacts.len()))
}

fn invalid_script(detail: String) -> Problem {
    Problem::new(422, "invalid_script", detail)
}
