//! Answers queries about schedules.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use holdpoint_contracts::message::Query as _;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::run::Page;
use holdpoint_contracts::scheduler::{GetSchedule, ListSchedules, SERVICE, ScheduleView};
use holdpoint_contracts::subject::Parts;
use holdpoint_ids::Workspace;
use holdpoint_kernel::{Queries, check_limit, cut_page, read_query, write_reply};
use sea_orm::DatabaseConnection;
use serde_json::Value;

use crate::domain::{Refusal, Schedule};
use crate::store;

#[derive(Debug)]
pub(crate) struct SchedulerQueries {
    pub(crate) db: DatabaseConnection,
}

impl Queries for SchedulerQueries {
    const NAME: &'static str = SERVICE;

    fn answer<'a>(
        &'a self,
        parts: &'a Parts,
        body: &'a [u8],
    ) -> BoxFuture<'a, Result<Value, Problem>> {
        async move {
            let workspace = &parts.workspace;
            match parts.verb.as_str() {
                GetSchedule::NAME => {
                    write_reply(self.schedule(workspace, read_query(body)?).await?)
                }
                ListSchedules::NAME => {
                    write_reply(self.schedules(workspace, &read_query(body)?).await?)
                }
                other => Err(Problem::not_found(format!(
                    "the scheduler has no query `{other}`"
                ))),
            }
        }
        .boxed()
    }
}

impl SchedulerQueries {
    async fn schedule(
        &self,
        workspace: &Workspace,
        query: GetSchedule,
    ) -> Result<ScheduleView, Problem> {
        let found = store::find_schedule(&self.db, workspace, &query.name).await;
        let view = found.map_err(failed)?.map(|schedule| schedule.view());
        view.ok_or_else(|| Refusal::NoSchedule(query.name).problem())
    }

    async fn schedules(
        &self,
        workspace: &Workspace,
        query: &ListSchedules,
    ) -> Result<Page<ScheduleView>, Problem> {
        let limit = check_limit(query.limit)?;
        let after = query.cursor.as_deref();
        let found = store::list_schedules(&self.db, workspace, after, limit + 1).await;
        let views = found.map_err(failed)?.iter().map(Schedule::view).collect();
        Ok(cut_page(views, limit, |view: &ScheduleView| {
            view.spec.name.to_string()
        }))
    }
}

fn failed(error: impl std::error::Error + 'static) -> Problem {
    tracing::error!(error = &error as &dyn std::error::Error, "query failed");
    Problem::unavailable("the scheduler's tables cannot be read now; try again")
}
