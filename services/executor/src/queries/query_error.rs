//! Why a query has no reply.

use holdpoint_contracts::problem::Problem;
use holdpoint_store::StoreError;

use crate::domain::Refusal;

/// The problem for the caller of a query.
#[derive(Debug)]
pub(super) struct QueryError(pub(super) Problem);

impl From<Problem> for QueryError {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<Refusal> for QueryError {
    fn from(refusal: Refusal) -> Self {
        Self(refusal.problem())
    }
}

impl From<StoreError> for QueryError {
    fn from(error: StoreError) -> Self {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "query failed; the caller may try again"
        );
        let detail = "the executor cannot read its tables now; try again";
        Self(Problem::unavailable(detail))
    }
}
