//! Table `history`: one row for each decision, with its events inside.

use holdpoint_contracts::history::HistoryItem;
use holdpoint_ids::RunId;
use holdpoint_store::{BrokenRow as _, StoreError};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, QuerySelect};

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "history")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub run_id: Uuid,
    pub first_seq: i64,
    #[sea_orm(primary_key, auto_increment = false)]
    pub last_seq: i64,
    pub at: DateTimeUtc,
    pub events: String,
}

impl ActiveModelBehavior for ActiveModel {}

/// Items with a greater number than `after`, in order, at most `limit`.
pub(crate) async fn after(
    db: &impl ConnectionTrait,
    run: RunId,
    after: u64,
    limit: u64,
) -> Result<Vec<HistoryItem>, StoreError> {
    let Ok(after_seq) = i64::try_from(after) else {
        return Ok(Vec::new());
    };
    let rows = Entity::find()
        .filter(COLUMN.run_id.eq(run.uuid()))
        .filter(COLUMN.last_seq.gt(after_seq))
        .order_by_asc(Column::LastSeq)
        .limit(limit)
        .all(db)
        .await?;
    let mut items = Vec::new();
    for row in rows {
        let events: Vec<HistoryItem> = serde_json::from_str(&row.events).map_err(Entity::broken)?;
        items.extend(events.into_iter().filter(|item| item.seq > after));
    }
    items.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(items)
}

pub(crate) fn active(run: RunId, items: &[HistoryItem]) -> Result<ActiveModel, StoreError> {
    let (Some(first), Some(last)) = (items.first(), items.last()) else {
        return Err(Entity::broken("the decision has no events"));
    };
    Ok(ActiveModel {
        run_id: Set(run.uuid()),
        first_seq: Set(i64::try_from(first.seq).map_err(Entity::broken)?),
        last_seq: Set(i64::try_from(last.seq).map_err(Entity::broken)?),
        at: Set(last.at),
        events: Set(serde_json::to_string(items).map_err(Entity::broken)?),
    })
}
