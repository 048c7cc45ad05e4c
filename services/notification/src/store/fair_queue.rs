//! Whose turn it is of what is still to be told: facts of requests, and ends of runs.

use std::future::Future;

use holdpoint_store::StoreError;
use sea_orm::ConnectionTrait;

/// Names something whose people are not all told.
pub(crate) trait Fanning: Sized {
    /// The oldest of them, behind so many.
    fn fanning(
        db: &impl ConnectionTrait,
        behind: u64,
        limit: u64,
    ) -> impl Future<Output = Result<Vec<Self>, StoreError>> + Send;
}

/// Whose turn it is of those whose people are not all told. Half of them are the oldest, so that what
/// takes many pages comes to its end however much comes after it; the others follow each other, so that
/// some that cannot be decided hold up none behind them.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// How many are older than the next of the others.
    behind: u64,
}

impl Turns {
    /// The next ones; none: there are none at all.
    pub(crate) async fn next<K: Fanning>(
        &mut self,
        db: &impl ConnectionTrait,
        limit: u64,
    ) -> Result<Vec<K>, StoreError> {
        let half = limit.div_ceil(2);
        let mut all = K::fanning(db, 0, half).await?;
        let mut others = Vec::new();
        for behind in [Ord::max(self.behind, half), half] {
            if others.is_empty() && all.len() as u64 == half {
                others = K::fanning(db, behind, limit - half).await?;
                self.behind = behind + others.len() as u64;
            }
        }
        all.append(&mut others);
        Ok(all)
    }
}
