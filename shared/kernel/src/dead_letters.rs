//! Dead letters: messages that cannot be handled. They are stored with the reason until an operator replays or
//! drops them.

pub(crate) mod requests;

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use holdpoint_contracts::dead_letter::{DeadLetter, DeadLetterSummary, workspace_of};
use holdpoint_contracts::problem::Problem;
use holdpoint_ids::Workspace;
use holdpoint_store::{ROWS_PER_STATEMENT, StoreError, TableWriter, Transaction};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::{ConnectionTrait, FromQueryResult, QueryOrder as _, QuerySelect as _};

use crate::task::Raw;
use crate::traces::Traces;

/// Dead letters of one workspace in a service. Beyond it the oldest are dropped.
pub(crate) const DEAD_LETTERS_MAX: u64 = 1_000;

mod row {
    #![expect(
        clippy::disallowed_methods,
        reason = "the entity macro generates a nested save that begins"
    )]
    #![expect(unreachable_pub, reason = "the entity macro wants a public model")]
    use sea_orm::entity::prelude::*;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "dead_letters")]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i64,
        pub subject: String,
        pub body: String,
        pub reason: String,
        pub created_at: DateTimeUtc,
        /// Of a quarantined input; otherwise empty.
        pub digest: String,
        /// Empty in rows that are older than this column.
        pub workspace: String,
    }

    impl ActiveModelBehavior for ActiveModel {}
}

/// Longest reason, so that a page of dead letters fits into one message.
const REASON_BYTES_MAX: usize = 2_000;

/// The first bytes of a text, without cutting a character.
fn truncate(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

pub(crate) struct NewDeadLetter {
    pub(crate) raw: Raw,
    pub(crate) reason: String,
    /// Of a quarantined input; otherwise empty.
    pub(crate) digest: String,
}

/// Stores messages that cannot be handled.
pub(crate) async fn store(
    db: &TableWriter,
    letters: &[NewDeadLetter],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let tx = db.begin().await?;
    for chunk in letters.chunks(ROWS_PER_STATEMENT) {
        let rows = chunk.iter().map(|letter| row::ActiveModel {
            subject: Set(letter.raw.subject.clone()),
            // Postgres rejects NUL in a text.
            body: Set(String::from_utf8_lossy(&letter.raw.body).replace('\0', "\u{fffd}")),
            reason: Set(truncate(&letter.reason, REASON_BYTES_MAX).replace('\0', "\u{fffd}")),
            created_at: Set(now),
            digest: Set(letter.digest.clone()),
            workspace: Set(workspace_of(&letter.raw.subject).to_owned()),
            ..Default::default()
        });
        row::Entity::insert_many(rows)
            .exec_without_returning(&tx)
            .await?;
    }
    let workspaces: BTreeSet<_> = letters
        .iter()
        .map(|letter| workspace_of(&letter.raw.subject))
        .collect();
    for workspace in workspaces {
        drop_oldest(&tx, workspace).await?;
    }
    tx.commit().await
}

/// Deletes dead letters that are older than an instant (B-11). The log says how many.
pub(crate) async fn trim(db: &TableWriter, before: DateTime<Utc>) -> Result<(), StoreError> {
    let tx = db.begin().await?;
    let deleted = row::Entity::delete_many()
        .filter(row::COLUMN.created_at.lt(before))
        .exec(&tx)
        .await?;
    tx.commit().await?;
    if deleted.rows_affected > 0 {
        tracing::warn!(
            deleted = deleted.rows_affected,
            %before,
            "dead letters past their retention were deleted"
        );
    }
    Ok(())
}

/// Deletes the dead letters of a workspace that name what is erased.
pub(crate) async fn erase(
    tx: &Transaction,
    workspace: &Workspace,
    traces: &Traces,
) -> Result<(), StoreError> {
    for names_it in traces.conditions(tx, row::Column::Body) {
        row::Entity::delete_many()
            .filter(row::COLUMN.workspace.is_in(column_values(workspace)))
            .filter(names_it)
            .exec(tx)
            .await?;
    }
    Ok(())
}

/// Drops the oldest dead letters of a workspace above [`DEAD_LETTERS_MAX`].
async fn drop_oldest(tx: &Transaction, workspace: &str) -> Result<(), StoreError> {
    let of_workspace = || row::Entity::find().filter(row::COLUMN.workspace.eq(workspace));
    let newest_above = of_workspace()
        .select_only()
        .column(row::Column::Id)
        .order_by_desc(row::Column::Id)
        .offset(DEAD_LETTERS_MAX)
        .limit(1)
        .into_tuple::<i64>()
        .one(tx)
        .await?;
    let Some(newest_above) = newest_above else {
        return Ok(());
    };
    let dropped = row::Entity::delete_many()
        .filter(row::COLUMN.workspace.eq(workspace))
        .filter(row::COLUMN.id.lte(newest_above))
        .exec(tx)
        .await?;
    tracing::error!(
        workspace,
        dropped = dropped.rows_affected,
        most = DEAD_LETTERS_MAX,
        "too many dead letters; the oldest were dropped"
    );
    Ok(())
}

/// The dead letters of a workspace, newest first.
async fn list(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    before: Option<i64>,
    limit: u64,
) -> Result<Vec<DeadLetterSummary>, StoreError> {
    // Without the bodies, which may be a mebibyte each.
    let rows: Vec<Line> = row::Entity::find()
        .select_only()
        .columns([
            row::Column::Id,
            row::Column::Subject,
            row::Column::Reason,
            row::Column::CreatedAt,
            row::Column::Digest,
        ])
        .expr_as(Expr::cust("octet_length(body)"), "bytes")
        .filter(row::COLUMN.workspace.is_in(column_values(workspace)))
        .filter(row::COLUMN.id.lt(before.unwrap_or(i64::MAX)))
        .order_by_desc(row::Column::Id)
        .limit(limit)
        .into_model()
        .all(db)
        .await?;
    Ok(rows.into_iter().map(Line::summary).collect())
}

/// A row without its body.
#[derive(FromQueryResult)]
struct Line {
    id: i64,
    subject: String,
    reason: String,
    created_at: DateTime<Utc>,
    digest: String,
    bytes: i32,
}

impl Line {
    fn summary(self) -> DeadLetterSummary {
        DeadLetterSummary {
            id: self.id,
            subject: self.subject,
            reason: self.reason,
            created_at: self.created_at,
            bytes: u64::try_from(self.bytes).unwrap_or(0),
            ended_the_process: !self.digest.is_empty(),
        }
    }
}

/// One dead letter of a workspace, with its digest.
pub(crate) async fn load(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    id: i64,
) -> Result<Option<(DeadLetter, String)>, StoreError> {
    let row = row::Entity::find_by_id(id)
        .filter(row::COLUMN.workspace.is_in(column_values(workspace)))
        .one(db)
        .await?;
    Ok(row.map(|row| {
        let letter = DeadLetter {
            summary: DeadLetterSummary {
                id: row.id,
                subject: row.subject,
                reason: row.reason,
                created_at: row.created_at,
                bytes: row.body.len() as u64,
                ended_the_process: !row.digest.is_empty(),
            },
            body: row.body,
            truncated: false,
        };
        (letter, row.digest)
    }))
}

/// Deletes a dead letter in a transaction.
pub(crate) async fn remove(tx: &Transaction, id: i64) -> Result<(), StoreError> {
    row::Entity::delete_by_id(id).exec(tx).await?;
    Ok(())
}

fn column_values(workspace: &Workspace) -> Vec<String> {
    let older = (workspace.as_str() == workspace_of("")).then(String::new);
    [workspace.to_string()].into_iter().chain(older).collect()
}

pub(crate) fn not_found(id: i64) -> Problem {
    Problem::not_found(format!("the service has no dead letter {id}"))
}
