//! The erasure of a contact, with what is left.

use holdpoint_contracts::erasure::{ErasureView, GetErasure, LEFT_COUNTED_MAX};
use holdpoint_ids::Workspace;

use super::ExecutorQueries;
use super::query_error::QueryError;
use crate::domain::Refusal;
use crate::outbound::unconfirmed_erasures;
use crate::{store, sweeps};

impl ExecutorQueries {
    pub(super) async fn erasure(
        &self,
        workspace: &Workspace,
        query: GetErasure,
    ) -> Result<ErasureView, QueryError> {
        let found = store::contact(&self.db, workspace, &query.contact).await?;
        let unknown = || Refusal::NotErased(query.contact.clone());
        let contact = found.ok_or_else(unknown)?;
        let erasure = contact.erasure.as_ref().ok_or_else(unknown)?;
        let of = store::OfContact {
            limit: LEFT_COUNTED_MAX,
            ..sweeps::runs_of_erasure(&contact, erasure)
        };
        let runs = if erasure.is_running() {
            store::runs_of_contact(&self.db, of).await?.len()
        } else {
            0
        };
        let requests = unconfirmed_erasures(&self.db, workspace, &contact.id).await?;
        let view = contact.erasure_view().ok_or_else(unknown)?;
        Ok(ErasureView {
            runs_left: Some(u64::try_from(runs).unwrap_or(LEFT_COUNTED_MAX)),
            requests_left: Some(requests),
            ..view
        })
    }
}
