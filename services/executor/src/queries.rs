//! Reads of the executor, answered from the rows beside the writer. They change nothing.

mod blobs;
mod child_runs;
mod contact_search;
mod early_calls;
mod edited_plan;
mod erasure;
mod library;
mod mail_thread;
mod nodes;
mod operations;
mod overlay;
mod query_error;
mod rehearsal;
mod snapshot;
mod stats;
mod step_token;
mod tools;
mod unoffered;
mod warnings;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_auth::StepKey;
use holdpoint_clock::Clock;
use holdpoint_contracts::agent::{AgentView, GetAgentStats};
use holdpoint_contracts::contact::{Activity, ContactView};
use holdpoint_contracts::erasure::GetErasure;
use holdpoint_contracts::executor::{
    CheckEditedPlan, GetAgent, GetContact, GetHistory, GetLibraryEntry, GetMailThread, GetRun,
    GetTool, HistoryPage, ListActivities, ListAgents, ListClaims, ListContacts, ListLibrary,
    ListNodes, ListRuns, ListTools, PlanAgent, PlannedAgent, SERVICE, SearchContacts,
};
use holdpoint_contracts::message::Query;
use holdpoint_contracts::operation::{
    GetOperation, ListOperationResults, ListOperations, PlanOperation,
};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::rehearsal::RehearseAgent;
use holdpoint_contracts::run::{Page, RunView, StepView};
use holdpoint_contracts::subject::Parts;
use holdpoint_contracts::suspension::{EndedRuns, GetBlob, GetSnapshot, GetStepBlob};
use holdpoint_contracts::tool::{Risk, built_in_risk};
use holdpoint_holds::redaction::{ARGS, redact};
use holdpoint_ids::{AgentName, RunId, Workspace};
use holdpoint_kernel::{Queries, check_limit, cut_items, cut_page, read_query, write_reply};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;
use serde::Deserialize as _;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::domain::agent::{planned_limits, planned_steps};
use crate::domain::plan::Plan;
use crate::domain::run::fan_out::approval_name;
use crate::domain::run::{StepApproval, original_args_name};
use crate::domain::stored_steps::StoredSteps;
use crate::domain::tool::is_built_in;
use crate::domain::view::{ORIGINAL_ARGS_BYTES_MAX, shown_input, within_view};
use crate::domain::{Agent, Contact, Fact, Need, Refusal, Run, ToolEntry};
use crate::store;
use overlay::Overlay;
use query_error::QueryError;

/// How long a query waits for the compilations before its own.
const COMPILE_WITHIN: Duration = Duration::from_secs(3);

/// Most rehearsals that run or wait. Each one holds a slot for queries.
const REHEARSALS_MAX: usize = 8;

#[derive(Debug)]
pub(crate) struct ExecutorQueries {
    db: DatabaseConnection,
    clock: Clock,
    /// Checks the tokens of steps.
    steps: StepKey,
    /// Agents are compiled on a blocking thread, one at a time: a hostile text occupies one core at most.
    compiling: Arc<Semaphore>,
    /// As for compilations: a rehearsal occupies one core.
    rehearsing: Arc<Semaphore>,
    /// Rehearsals that run or wait.
    waiting_rehearsals: Semaphore,
}

impl Queries for ExecutorQueries {
    const NAME: &'static str = SERVICE;

    fn answer<'a>(
        &'a self,
        parts: &'a Parts,
        body: &'a [u8],
    ) -> BoxFuture<'a, Result<Value, Problem>> {
        let reply = self.reply(&parts.workspace, &parts.verb, body);
        reply.map(|reply| reply.map_err(|error| error.0)).boxed()
    }
}

/// The cursor of a page that ends with an id.
fn read_cursor<I: FromStr>(cursor: Option<&str>) -> Result<Option<I>, Problem> {
    let cursor = cursor.map(str::parse).transpose();
    cursor.map_err(|_no_id| {
        let detail = "invalid `cursor`; expected the `next_cursor` of a page";
        Problem::new(400, "invalid_query", detail)
    })
}

impl ExecutorQueries {
    pub(crate) fn new(db: DatabaseConnection, clock: Clock, steps: StepKey) -> Self {
        Self {
            db,
            clock,
            steps,
            compiling: Arc::new(Semaphore::new(1)),
            rehearsing: Arc::new(Semaphore::new(1)),
            waiting_rehearsals: Semaphore::new(REHEARSALS_MAX),
        }
    }

    async fn reply(
        &self,
        workspace: &Workspace,
        query: &str,
        body: &[u8],
    ) -> Result<Value, QueryError> {
        let reply = match query {
            PlanAgent::NAME => write_reply(self.plan(workspace, read_query(body)?).await?),
            CheckEditedPlan::NAME => {
                write_reply(self.check_edited_plan(workspace, read_query(body)?).await?)
            }
            RehearseAgent::NAME => write_reply(self.rehearse(workspace, read_query(body)?).await?),
            GetAgent::NAME => write_reply(self.agent(workspace, &read_query(body)?).await?),
            GetAgentStats::NAME => {
                write_reply(self.agent_stats(workspace, &read_query(body)?).await?)
            }
            ListAgents::NAME => write_reply(self.agents(workspace, &read_query(body)?).await?),
            GetErasure::NAME => write_reply(self.erasure(workspace, read_query(body)?).await?),
            GetContact::NAME => write_reply(self.contact(workspace, read_query(body)?).await?),
            ListActivities::NAME => {
                write_reply(self.activities(workspace, &read_query(body)?).await?)
            }
            ListContacts::NAME => write_reply(self.contacts(workspace, read_query(body)?).await?),
            SearchContacts::NAME => {
                write_reply(self.search_contacts(workspace, &read_query(body)?).await?)
            }
            GetMailThread::NAME => {
                write_reply(self.mail_thread(workspace, &read_query(body)?).await?)
            }
            GetRun::NAME => write_reply(self.run(workspace, &read_query(body)?).await?),
            ListRuns::NAME => write_reply(self.runs(workspace, &read_query(body)?).await?),
            ListLibrary::NAME => write_reply(self.library(workspace, &read_query(body)?).await?),
            GetLibraryEntry::NAME => {
                write_reply(self.library_entry(workspace, read_query(body)?).await?)
            }
            GetTool::NAME => write_reply(self.tool(workspace, &read_query(body)?).await?),
            ListTools::NAME => write_reply(self.tools(workspace, &read_query(body)?).await?),
            ListNodes::NAME => write_reply(self.nodes(workspace, read_query(body)?).await?),
            ListClaims::NAME => write_reply(self.claims(workspace, read_query(body)?).await?),
            GetSnapshot::NAME => write_reply(self.snapshot(workspace, &read_query(body)?).await?),
            GetBlob::NAME => write_reply(self.blob(workspace, &read_query(body)?).await?),
            GetStepBlob::NAME => write_reply(self.step_blob(workspace, &read_query(body)?).await?),
            EndedRuns::NAME => write_reply(self.ended_runs(workspace, &read_query(body)?).await?),
            PlanOperation::NAME => {
                write_reply(self.plan_operation(workspace, &read_query(body)?).await?)
            }
            GetOperation::NAME => write_reply(self.operation(workspace, &read_query(body)?).await?),
            ListOperations::NAME => {
                write_reply(self.operations(workspace, &read_query(body)?).await?)
            }
            ListOperationResults::NAME => write_reply(
                self.operation_results(workspace, &read_query(body)?)
                    .await?,
            ),
            GetHistory::NAME => write_reply(self.history(workspace, &read_query(body)?).await?),
            other => {
                let detail = format!("the executor has no query `{other}`");
                Err(Problem::not_found(detail))
            }
        };
        Ok(reply?)
    }

    async fn plan(
        &self,
        workspace: &Workspace,
        query: PlanAgent,
    ) -> Result<PlannedAgent, QueryError> {
        let plan = self.compile(workspace, query.text).await?;
        let agent = plan.agent.parse();
        let steps = planned_steps(&plan);
        Ok(PlannedAgent {
            agent: agent.map_err(|error| Problem::invalid_body(format!("{error}")))?,
            warnings: self.warnings(workspace, &plan, &steps).await?,
            steps,
        })
    }

    /// Compiles on a blocking thread, so that no other query waits (A-C2).
    async fn compile(&self, workspace: &Workspace, text: String) -> Result<Plan, QueryError> {
        let permit = Arc::clone(&self.compiling).acquire_owned();
        let Ok(Ok(permit)) = tokio::time::timeout(COMPILE_WITHIN, permit).await else {
            let detail = "too many agents are being compiled now; try again";
            return Err(QueryError(Problem::unavailable(detail)));
        };
        let library = store::library(&self.db, workspace).await?;
        let plan = Self::blocking(move || {
            let plan = Plan::compile_with(&text, library.as_ref());
            drop(permit);
            plan
        });
        let plan = plan.await?;
        Ok(plan.map_err(|errors| Refusal::InvalidAgent(errors).problem())?)
    }

    /// Works on a thread of its own, so that no other query waits.
    async fn blocking<T: Send + 'static>(
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        tokio::task::spawn_blocking(work).await.map_err(|error| {
            tracing::error!(%error, "work of a query failed; the caller gets an error");
            Problem::internal()
        })
    }

    async fn agent(
        &self,
        workspace: &Workspace,
        query: &GetAgent,
    ) -> Result<AgentView, QueryError> {
        let agent = self.live_agent(workspace, &query.agent).await?;
        let plan = self.plan_of(workspace, &agent.name, agent.newest).await?;
        let steps = planned_steps(&plan);
        Ok(AgentView {
            warnings: self.warnings(workspace, &plan, &steps).await?,
            steps,
            limits: planned_limits(&plan),
            on_pause: Some(plan.on_pause.into_str().to_owned()),
            inputs: plan.inputs.map(|inputs| inputs.schema),
            versions: store::agent_versions(&self.db, workspace, &agent.name).await?,
            ..agent.view()
        })
    }

    async fn live_agent(
        &self,
        workspace: &Workspace,
        name: &AgentName,
    ) -> Result<Agent, QueryError> {
        let found = store::agents(&self.db, workspace, &[name]).await?;
        let live = found.into_iter().find(|agent| !agent.is_deleted());
        Ok(live.ok_or_else(|| Refusal::AgentNotFound(name.clone()))?)
    }

    async fn plan_of(
        &self,
        workspace: &Workspace,
        agent: &AgentName,
        version: u32,
    ) -> Result<Plan, QueryError> {
        let found = store::plan(&self.db, workspace, agent, version).await?;
        Ok(found.ok_or_else(|| Refusal::PlanMissing(agent.clone(), version))?)
    }

    /// The plan of a run, which its planner may have made.
    async fn plan_of_run(&self, run: &Run) -> Result<Plan, QueryError> {
        if run.has_generated_plan {
            let found = store::generated_plan(&self.db, run.id).await?;
            return Ok(found.ok_or(Refusal::RunNotFound(run.id))?);
        }
        self.plan_of(&run.workspace, &run.agent, run.plan).await
    }

    async fn agents(
        &self,
        workspace: &Workspace,
        query: &ListAgents,
    ) -> Result<Page<AgentView>, QueryError> {
        let limit = check_limit(query.limit)?;
        let after = query.cursor.as_deref();
        let agents = store::list_agents(&self.db, workspace, after, limit + 1).await?;
        let views = agents.iter().map(Agent::view).collect();
        Ok(cut_page(views, limit, |view: &AgentView| {
            view.agent.to_string()
        }))
    }

    async fn contact(
        &self,
        workspace: &Workspace,
        query: GetContact,
    ) -> Result<ContactView, QueryError> {
        let found = store::contact(&self.db, workspace, &query.contact).await?;
        let live = found.filter(|contact| !contact.deleted);
        let live = live.ok_or(Refusal::ContactNotFound(query.contact))?;
        Ok(live.view())
    }

    async fn contacts(
        &self,
        workspace: &Workspace,
        mut query: ListContacts,
    ) -> Result<Page<ContactView>, QueryError> {
        let limit = check_limit(query.limit)?;
        query.limit = limit + 1;
        let contacts = store::list_contacts(&self.db, workspace, &query).await?;
        let views = contacts.iter().map(Contact::view).collect();
        Ok(cut_page(views, limit, |view: &ContactView| {
            view.id.to_string()
        }))
    }

    async fn activities(
        &self,
        workspace: &Workspace,
        query: &ListActivities,
    ) -> Result<Page<Activity>, QueryError> {
        let limit = check_limit(query.limit)?.min(crate::domain::contact::ACTIVITIES_KEPT);
        let newest = store::activities_of(&self.db, workspace, &query.contact, limit).await?;
        Ok(newest.into())
    }

    async fn find_run(&self, workspace: &Workspace, run: RunId) -> Result<Run, QueryError> {
        let found = store::run(&self.db, workspace, run).await?;
        Ok(found.ok_or(Refusal::RunNotFound(run))?)
    }

    async fn run(&self, workspace: &Workspace, query: &GetRun) -> Result<RunView, QueryError> {
        let run = self.find_run(workspace, query.run).await?;
        let overlay = Overlay::read(&self.db, workspace, &[&run.agent]).await?;
        let run = overlay.show(run);
        let plan = self.plan_of_run(&run).await?;
        let mut stored = self.stored_steps(&run).await?;
        if !query.raw_errors {
            let rows = stored.rows.iter_mut();
            rows.for_each(|row| row.raw_error = None);
        }
        let input = store::input_of(&self.db, run.id).await?;
        let edited = stored.edited_steps(&run);
        let mut steps = run.step_views(&plan, stored);
        self.add_original_args(&run, &edited, &mut steps).await?;
        self.add_risks(&run, &mut steps).await?;
        self.add_early_calls(&run, &plan, &mut steps).await?;
        self.add_child_statuses(workspace, &mut steps).await?;
        let mut view = RunView {
            input: input.map(shown_input),
            steps,
            ..run.view(self.clock.now())
        };
        self.add_output(&plan, &mut view).await?;
        self.name_unoffered_tool(workspace, &mut view).await?;
        Ok(view)
    }

    /// What tables have of the steps that the view shows. Most children of a large fan-out are left out.
    async fn stored_steps(&self, run: &Run) -> Result<StoredSteps, StoreError> {
        if run.steps.iter().all(|step| step.fan_out.is_none()) {
            return Ok(StoredSteps {
                rows: store::steps_of(&self.db, run.id).await?,
                lease_events: store::lease_events_of(&self.db, run.id).await?,
                ..StoredSteps::default()
            });
        }
        let shown = run.shown_steps();
        let ids: Vec<_> = shown.iter().map(|step| step.id.as_str()).collect();
        let ended = ids.iter().filter(|id| run.has_ended_child(id));
        let names: Vec<_> = ended.map(|id| approval_name(id)).collect();
        let wanted: Vec<_> = names.iter().map(|name| (run.id, name.as_str())).collect();
        let found: HashMap<_, _> = store::values(&self.db, &wanted)
            .await?
            .into_iter()
            .collect();
        let mut approvals = HashMap::new();
        for id in &ids {
            let need = Need::Value(run.id, approval_name(id));
            if let Some(Fact::Value(kept)) = found.get(&need)
                && let Ok(approval) = StepApproval::deserialize(kept.as_ref())
            {
                approvals.insert((*id).to_owned(), approval);
            }
        }
        Ok(StoredSteps {
            rows: store::steps_named(&self.db, run.id, &ids).await?,
            lease_events: store::lease_events_of_steps(&self.db, run.id, &ids).await?,
            approvals,
        })
    }

    /// The risk of each tool that was not called yet. A step on a tool of high risk needs an approval, also before it has asked for one (S2-R2).
    async fn add_risks(&self, run: &Run, steps: &mut [StepView]) -> Result<(), StoreError> {
        let uncalled = steps.iter().filter(|step| step.risk.is_none());
        let names = uncalled.filter_map(|step| step.tool.clone());
        let names: BTreeSet<_> = names.filter(|name| !is_built_in(name.as_str())).collect();
        let entries = if names.is_empty() {
            BTreeMap::new()
        } else {
            self.tool_entries(&run.workspace, names).await?
        };
        for step in steps {
            let Some(name) = &step.tool else { continue };
            // What counted at the call stays, whatever the registry says now.
            if step.risk.is_some() {
                continue;
            }
            let entry = entries.get(name).filter(|entry| !entry.is_deleted());
            let is_built_in = is_built_in(name.as_str());
            let built_in = is_built_in.then(|| built_in_risk(name.as_str()));
            step.risk = entry.map(ToolEntry::risk).or(built_in);
            step.waiting_confirm |= !is_built_in && step.risk == Some(Risk::High);
        }
        Ok(())
    }

    /// The requested arguments of steps whose approver gave others (S2-R4).
    async fn add_original_args(
        &self,
        run: &Run,
        edited: &BTreeMap<String, Vec<String>>,
        steps: &mut [StepView],
    ) -> Result<(), StoreError> {
        let names: Vec<_> = edited.keys().map(|id| original_args_name(id)).collect();
        if names.is_empty() {
            return Ok(());
        }
        let wanted: Vec<_> = names.iter().map(|name| (run.id, name.as_str())).collect();
        let found = store::values(&self.db, &wanted).await?;
        let mut left = ORIGINAL_ARGS_BYTES_MAX;
        for step in steps {
            let need = Need::Value(run.id, original_args_name(&step.id));
            let args = found.iter().find(|(known, _)| *known == need);
            if let (Some(approval), Some((_, Fact::Value(args)))) = (&mut step.approval_state, args)
            {
                let mut args = (**args).clone();
                let hidden = edited.get(&step.id).map_or(&[][..], Vec::as_slice);
                redact(&mut args, ARGS, hidden);
                approval.original_args = Some(within_view(&mut left, args));
            }
        }
        Ok(())
    }

    async fn runs(
        &self,
        workspace: &Workspace,
        query: &ListRuns,
    ) -> Result<Page<RunView>, QueryError> {
        let (limit, now) = (check_limit(query.limit)?, self.clock.now());
        let bad = |detail: String| Problem::new(400, "invalid_query", detail);
        let before = read_cursor(query.cursor.as_deref())?;
        let label = query.label.as_deref().map(|label| {
            let pair = label.split_once('=');
            pair.ok_or_else(|| bad(format!("invalid `label` `{label}`; expected `name=value`")))
        });
        let filter = store::Filter {
            workspace,
            status: query.status,
            or_open: false,
            hold: query.hold,
            agent: query.agent.as_ref(),
            label: label.transpose()?,
            created_after: query.created_after,
            created_until: None,
            is_open: false,
            before,
            limit: limit + 1,
        };
        let (runs, stopped_at) = overlay::list(&self.db, filter).await?;
        let views = runs.iter().map(|run| run.view(now)).collect();
        let page = cut_page(views, limit, |view: &RunView| view.id.to_string());
        // A filter that selects few runs stops before the end; the caller continues from there.
        let stopped_at = stopped_at.map(|run| run.to_string());
        Ok(Page {
            next_cursor: page.next_cursor.or(stopped_at),
            ..page
        })
    }

    async fn history(
        &self,
        workspace: &Workspace,
        query: &GetHistory,
    ) -> Result<HistoryPage, QueryError> {
        let run = self.find_run(workspace, query.run).await?;
        let limit = check_limit(query.limit)?;
        let mut items = store::history_after(&self.db, run.id, query.after, limit).await?;
        cut_items(&mut items, limit);
        Ok(HistoryPage {
            items,
            last_seq: run.seq,
            run_final: run.is_final(),
        })
    }
}
