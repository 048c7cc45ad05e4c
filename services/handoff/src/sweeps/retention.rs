//! Requests that are past their retention (S0-NFR, B-11).

use chrono::{DateTime, Utc};
use holdpoint_kernel::Expiring;
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;

use crate::domain::Input;
use crate::service::Handoff;
use crate::store;

impl Expiring for Handoff {
    async fn has_expired(
        db: &DatabaseConnection,
        before: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        store::has_expired(db, before).await
    }

    fn delete_expired(before: DateTime<Utc>) -> Input {
        Input::DeleteExpired { before }
    }
}
