//! Table `standing_approval_uses`: one row for each use of a standing approval, numbered without gaps.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_contracts::handoff::StandingApprovalUse;
use holdpoint_ids::{StandingApprovalId, Workspace};
use holdpoint_store::{
    BrokenRow as _, ROWS_PER_STATEMENT, StoreError, Transaction, insert_returning,
};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _, OnConflict};
use sea_orm::{QueryOrder, QuerySelect};

use crate::domain::{Effect, StandingApproval};

/// Uses that one query shows.
const SHOWN_MAX: u64 = 100;

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "standing_approval_uses")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub workspace: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub standing_approval: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub number: i32,
    pub request: String,
    pub at: DateTimeUtc,
}

impl ActiveModelBehavior for ActiveModel {}

/// Adds the uses of a batch. If another transaction has taken one of the numbers, the batch is decided again.
pub(super) async fn insert(
    db: &Transaction,
    effects: &[Effect],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let rows = effects.iter().filter_map(|effect| {
        let Effect::StandingApprovalUsed {
            workspace,
            id,
            number,
            request,
        } = effect
        else {
            return None;
        };
        Some(i32::try_from(*number).map(|number| {
            let row = ActiveModel {
                workspace: Set(workspace.to_string()),
                standing_approval: Set(id.to_string()),
                number: Set(number),
                request: Set(request.to_string()),
                at: Set(now),
            };
            // In the order of the keys, so that two replicas cannot deadlock.
            ((workspace, *id, number), row)
        }))
    });
    let rows = rows.collect::<Result<BTreeMap<_, _>, _>>();
    let rows = rows.map_err(Entity::broken)?;
    let keys = [Column::Workspace, Column::StandingApproval, Column::Number];
    let taken = OnConflict::columns(keys).do_nothing().to_owned();
    let expected = rows.len();
    let inserted = insert_returning(db, rows.into_values(), &taken, &[Column::Number]).await?;
    if inserted.len() < expected {
        return Err(StoreError::Conflict {
            table: "standing_approval_uses",
        });
    }
    Ok(())
}

/// The number of uses of each.
pub(crate) async fn count_uses(
    db: &impl ConnectionTrait,
    approvals: &[StandingApproval],
) -> Result<BTreeMap<StandingApprovalId, u32>, StoreError> {
    let mut counts = BTreeMap::new();
    for chunk in approvals.chunks(ROWS_PER_STATEMENT) {
        let rows = Entity::find()
            .filter(
                COLUMN
                    .workspace
                    .is_in(chunk.iter().map(|one| one.workspace.as_str())),
            )
            .filter(
                COLUMN
                    .standing_approval
                    .is_in(chunk.iter().map(|one| one.id.to_string())),
            )
            .select_only()
            .column(Column::StandingApproval)
            .column_as(Column::Number.max(), "last")
            .group_by(Column::StandingApproval)
            .into_tuple::<(String, i32)>()
            .all(db)
            .await?;
        for (id, last) in rows {
            let last = u32::try_from(last).map_err(Entity::broken)?;
            counts.insert(id.parse().map_err(Entity::broken)?, last);
        }
    }
    Ok(counts)
}

/// The newest uses of one standing approval.
pub(crate) async fn list_uses(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    id: StandingApprovalId,
) -> Result<Vec<StandingApprovalUse>, StoreError> {
    let rows = Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.standing_approval.eq(id.to_string()))
        .order_by_desc(Column::Number)
        .limit(SHOWN_MAX)
        .all(db)
        .await?;
    let read = |row: Model| {
        Ok(StandingApprovalUse {
            number: u32::try_from(row.number).map_err(Entity::broken)?,
            request: row.request.parse().map_err(Entity::broken)?,
            at: row.at,
        })
    };
    rows.into_iter().map(read).collect()
}

/// Deletes the uses of these standing approvals.
pub(super) async fn delete_all(
    db: &impl ConnectionTrait,
    approvals: &[(String, String)],
) -> Result<(), StoreError> {
    let key = Expr::tuple([
        Expr::col(Column::Workspace),
        Expr::col(Column::StandingApproval),
    ]);
    let delete = Entity::delete_many().filter(key.in_tuples(approvals.to_vec()));
    delete.exec(db).await?;
    Ok(())
}
