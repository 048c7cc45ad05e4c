//! The contents of values that are too large for a snapshot (S1-R9).

use holdpoint_auth::AuthError;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::suspension::{BlobChunk, GetBlob, GetStepBlob};
use holdpoint_ids::Workspace;

use super::ExecutorQueries;
use super::query_error::QueryError;
use crate::domain::Run;
use crate::store::{self, BlobId};

impl ExecutorQueries {
    pub(super) async fn blob(
        &self,
        workspace: &Workspace,
        query: &GetBlob,
    ) -> Result<BlobChunk, QueryError> {
        let run = self.find_run(workspace, query.run).await?;
        let blob = BlobId {
            run: query.run,
            step: &query.step,
            sha256: &query.sha256,
        };
        self.chunk_of(&run, blob, query.offset).await
    }

    /// A blob of the step of a token. An earlier call of that step has uploaded it.
    pub(super) async fn step_blob(
        &self,
        workspace: &Workspace,
        query: &GetStepBlob,
    ) -> Result<BlobChunk, QueryError> {
        let run = self.run_of_step(workspace, &query.token).await?;
        let claims = self.steps.check(&query.token, self.clock.now());
        let claims = claims.map_err(AuthError::problem)?;
        let blob = BlobId {
            run: run.id,
            step: &claims.step,
            sha256: &query.sha256,
        };
        self.chunk_of(&run, blob, query.offset).await
    }

    async fn chunk_of(
        &self,
        run: &Run,
        blob: BlobId<'_>,
        offset: u64,
    ) -> Result<BlobChunk, QueryError> {
        let mut blobs = run.blobs.iter();
        let known = blobs.find(|known| known.is(blob.step, blob.sha256) && known.is_complete());
        let known = known.ok_or_else(|| {
            let detail = "no complete blob with this hash in this step, or it has expired";
            Problem::not_found(detail)
        })?;
        if offset >= known.size {
            let size = known.size;
            let detail = format!("invalid `offset` {offset}; the blob has {size} bytes");
            return Err(QueryError(Problem::new(400, "invalid_query", detail)));
        }
        let content = store::blob_content(&self.db, blob, offset).await?;
        let content = content.ok_or_else(|| Problem::not_found("the blob has expired"))?;
        Ok(BlobChunk {
            size: known.size,
            offset,
            content,
        })
    }
}
