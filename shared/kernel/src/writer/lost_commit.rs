//! What is committed although the database did not say so.

use super::{Writer, chain};
use crate::publisher::Publishing;
use crate::{Service, outbox};

impl<S: Service> Writer<S> {
    /// Publishes rows that this kernel has committed and does not know of: the answer to their commit was
    /// lost. Before anything else is committed, so that no row in other hands is among them.
    pub(super) async fn publish_lost_commits(&mut self) {
        if !self.may_have_committed {
            return;
        }
        let in_hand = self.published.in_hand();
        match outbox::unknown(&self.db, &self.owner, &in_hand).await {
            Ok(rows) => {
                self.may_have_committed = false;
                for (row, outgoing) in rows {
                    tracing::info!(
                        service = S::NAME,
                        row,
                        "committed although the database did not say so; it is published"
                    );
                    self.publish(Publishing {
                        outbox: Some(row),
                        outgoing,
                        ..Publishing::default()
                    })
                    .await;
                }
            }
            // The next commit is tried all the same, and this before the one after it.
            Err(error) => {
                tracing::debug!(error = %chain(&error), "the outbox could not be looked at");
            }
        }
    }
}
