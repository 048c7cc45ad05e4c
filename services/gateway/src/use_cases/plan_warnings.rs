//! Warnings of the plan that a planner made, for the person who approves it (Words 3). Only the executor can check a plan.

use std::time::Duration;

use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::{CheckEditedPlan, PlannedAgent};
use holdpoint_contracts::handoff::RequestView;
use holdpoint_contracts::tool::START_PLAN;
use holdpoint_ids::{HoldId, Workspace};
use serde_json::Value;

use super::policy_warnings::policy_warnings;
use crate::app::App;

/// Longest wait for the check of a plan.
const REPLY_WITHIN: Duration = Duration::from_secs(3);

/// Whether people decide now about the start of a plan.
pub(crate) fn asks_about_plan(request: &RequestView) -> bool {
    let mut items = request.items.iter();
    request.status.is_open() && items.any(|item| item.tool.as_str() == START_PLAN)
}

/// The request with the warnings of its plan. A person can decide without them while the executor is away.
pub(crate) async fn with_plan_warnings(
    app: &App,
    workspace: &Workspace,
    request: RequestView,
) -> RequestView {
    let item = request.items.first().filter(|_| asks_about_plan(&request));
    let Some(args) = item.map(|item| item.args.clone()) else {
        return request;
    };
    match check_plan(app, workspace, request.id, args).await {
        Ok(planned) => RequestView {
            warnings: planned.map(|planned| planned.warnings),
            ..request
        },
        Err(problem) => {
            tracing::debug!(%problem, "a plan cannot be checked; its request has no warnings");
            request
        }
    }
}

/// The steps of a plan, which a person may have edited, and their warnings. `None`: the request waits for no plan.
///
/// # Errors
/// 422 `invalid_plan`, or the executor does not reply.
pub(crate) async fn check_plan(
    app: &App,
    workspace: &Workspace,
    request: HoldId,
    args: Value,
) -> Result<Option<PlannedAgent>, Problem> {
    let query = CheckEditedPlan { request, args };
    let planned = app.bus.query_within(workspace, &query, REPLY_WITHIN);
    let Some(mut planned) = planned.await? else {
        return Ok(None);
    };
    let warnings = policy_warnings(app, workspace, &planned.steps);
    planned.warnings.extend(warnings.await);
    Ok(Some(planned))
}
