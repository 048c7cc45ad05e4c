//! The token of a step, which gives a tool access to the data of its run.

use holdpoint_auth::AuthError;
use holdpoint_contracts::problem::Problem;
use holdpoint_ids::Workspace;

use super::ExecutorQueries;
use super::query_error::QueryError;
use crate::domain::Run;
use crate::store;

impl ExecutorQueries {
    /// The run of a token, which must be of a step of this workspace that a worker has now.
    pub(super) async fn run_of_step(
        &self,
        workspace: &Workspace,
        token: &str,
    ) -> Result<Run, QueryError> {
        let claims = self.steps.check(token, self.clock.now());
        let claims = claims.map_err(AuthError::problem)?;
        let run = if claims.workspace == *workspace {
            store::run(&self.db, workspace, claims.run).await?
        } else {
            None
        };
        let is_live = |run: &Run| {
            let mut steps = run.steps.iter();
            !run.is_final()
                && steps.any(|step| {
                    (step.id.as_str(), step.dispatch) == (claims.step.as_str(), claims.dispatch)
                        && step.phase.at_worker().is_some()
                })
        };
        let detail = "the step of this token has ended or was dispatched again";
        let ended = || QueryError(Problem::new(401, "unauthorized", detail));
        run.filter(is_live).ok_or_else(ended)
    }
}
