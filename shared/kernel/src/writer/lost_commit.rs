//! Batches that were committed although the database's confirmation was lost.

use super::Writer;
use crate::error_chain::error_chain;
use crate::outbox::{publisher::CommittedBatch, rows};
use crate::service::Service;

impl<S: Service> Writer<S> {
    /// Publishes rows of this kernel that it does not know, because the confirmation of their commit was
    /// lost. This must happen before the next commit: until then no unknown row can be in other hands.
    pub(super) async fn publish_lost_commits(&mut self) {
        if !self.may_have_committed {
            return;
        }
        let known = self.completions.rows_in_hand();
        match rows::load_unknown(&self.db, &self.owner, &known).await {
            Ok(unknown) => {
                self.may_have_committed = false;
                for (row, messages) in unknown {
                    tracing::info!(
                        service = S::NAME,
                        row,
                        "a commit without confirmation was found; its messages are published"
                    );
                    self.publish(CommittedBatch::of_row(row, messages)).await;
                }
            }
            // The next commit is tried all the same; this is tried again before the one after it.
            Err(error) => {
                tracing::debug!(error = %error_chain(&error), "the outbox cannot be read; trying again before the next commit");
            }
        }
    }
}
