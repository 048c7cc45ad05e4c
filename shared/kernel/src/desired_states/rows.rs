//! Table `desired_states`: one row per desired state until its receiver has acknowledged it. The row takes
//! the place of the outbox.

use std::borrow::Cow;
use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_ids::Workspace;
use holdpoint_store::{
    ROWS_PER_STATEMENT, StoreError, Transaction, contains_text, insert_rows, is_sqlite,
};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Alias, ExprTrait, OnConflict};
use sea_orm::{ActiveValue::Set, PaginatorTrait, QueryOrder, QuerySelect, Statement, Value};

use crate::outbox::rows::MESSAGE_BYTES_MAX;
use crate::service::DesiredState;

mod row {
    #![expect(
        clippy::disallowed_methods,
        reason = "the entity macro generates a nested save that begins"
    )]
    #![expect(unreachable_pub, reason = "the entity macro wants a public model")]
    use sea_orm::entity::prelude::*;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "desired_states")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub kind: String,
        #[sea_orm(primary_key, auto_increment = false)]
        pub workspace: String,
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: String,
        pub rev: i64,
        pub body: String,
        pub created_at: DateTimeUtc,
    }

    impl ActiveModelBehavior for ActiveModel {}
}

const TABLE: &str = "desired_states";

/// Bytes reserved for the command around desired states.
pub(crate) const ENVELOPE_BYTES: usize = 8_192;

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct DesiredStateKey {
    pub(crate) kind: Cow<'static, str>,
    pub(crate) workspace: String,
    pub(crate) id: String,
}

/// A desired state as it was sent. An acknowledgement is valid for this `rev` only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) key: DesiredStateKey,
    pub(crate) rev: i64,
}

#[derive(Debug, Clone)]
pub(crate) struct Unacknowledged {
    pub(crate) sent: Sent,
    pub(crate) body: String,
}

/// Stores the desired states of a batch and returns them. Of each id only the highest `rev` counts, and of
/// equal ones the last.
pub(crate) async fn store(
    db: &Transaction,
    desired_states: Vec<DesiredState>,
    now: DateTime<Utc>,
) -> Result<Vec<Unacknowledged>, StoreError> {
    let newest = newest(desired_states)?;
    let columns = ["rev", "body", "created_at"].map(Alias::new);
    let rev = |table: &'static str| Expr::col((Alias::new(table), Alias::new("rev")));
    let higher = OnConflict::columns(["kind", "workspace", "id"].map(Alias::new))
        .update_columns(columns)
        .action_and_where(rev(TABLE).lt(rev("excluded")))
        .to_owned();
    let rows = newest.iter().map(|desired_state| row::ActiveModel {
        kind: Set(desired_state.sent.key.kind.to_string()),
        workspace: Set(desired_state.sent.key.workspace.clone()),
        id: Set(desired_state.sent.key.id.clone()),
        rev: Set(desired_state.sent.rev),
        body: Set(desired_state.body.clone()),
        created_at: Set(now),
    });
    insert_rows(db, rows, Some(&higher)).await?;
    Ok(newest)
}

fn newest(desired_states: Vec<DesiredState>) -> Result<Vec<Unacknowledged>, StoreError> {
    let mut newest: BTreeMap<DesiredStateKey, (i64, String)> = BTreeMap::new();
    for desired_state in desired_states {
        let DesiredState {
            kind,
            workspace,
            id,
            rev,
            body,
        } = desired_state;
        // Rejected before the commit: the bus would reject it in every round.
        if body.len() > MESSAGE_BYTES_MAX - ENVELOPE_BYTES {
            let reason = format!("desired state {kind} {id} has {} bytes", body.len());
            return Err(StoreError::broken(TABLE, reason));
        }
        let rev = i64::try_from(rev).map_err(|error| StoreError::broken(TABLE, error))?;
        let key = DesiredStateKey {
            kind: Cow::Borrowed(kind),
            workspace: workspace.to_string(),
            id,
        };
        let known = newest.entry(key).or_insert((rev, String::new()));
        if rev >= known.0 {
            *known = (rev, body);
        }
    }
    let newest = newest.into_iter().map(|(key, (rev, body))| Unacknowledged {
        sent: Sent { key, rev },
        body,
    });
    Ok(newest.collect())
}

/// Deletes acknowledged desired states, but not a newer one of the same id.
pub(crate) async fn delete(db: &Transaction, acknowledged: &[Sent]) -> Result<(), StoreError> {
    for chunk in acknowledged.chunks(ROWS_PER_STATEMENT) {
        let backend = db.get_database_backend();
        let is_sqlite = is_sqlite(db);
        let parameter = |number: usize| {
            if is_sqlite {
                "?".to_owned()
            } else {
                format!("${number}")
            }
        };
        let tuples = (0..chunk.len()).map(|row| {
            let four = (1..=4).map(|column| parameter(row * 4 + column));
            format!("({})", four.collect::<Vec<_>>().join(", "))
        });
        let tuples: Vec<_> = tuples.collect();
        let sql = format!(
            "DELETE FROM desired_states WHERE (kind, workspace, id, rev) IN (VALUES {})",
            tuples.join(", ")
        );
        let values = chunk.iter().flat_map(|sent| -> [Value; 4] {
            [
                sent.key.kind.to_string().into(),
                sent.key.workspace.clone().into(),
                sent.key.id.clone().into(),
                sent.rev.into(),
            ]
        });
        db.defer(Statement::from_sql_and_values(backend, sql, values))
            .await?;
    }
    Ok(())
}

/// How many desired states of a kind have a body with this text.
pub(crate) async fn count(
    db: &impl ConnectionTrait,
    kind: &str,
    workspace: &Workspace,
    text: &str,
) -> Result<u64, StoreError> {
    let rows = row::Entity::find()
        .filter(row::COLUMN.kind.eq(kind))
        .filter(row::COLUMN.workspace.eq(workspace.as_str()))
        .filter(contains_text(db, row::Column::Body, text));
    Ok(rows.count(db).await?)
}

/// A page of unacknowledged desired states after a key, in the order of keys.
pub(crate) async fn load_page(
    db: &impl ConnectionTrait,
    after: Option<&DesiredStateKey>,
    rows: u64,
) -> Result<Vec<Unacknowledged>, StoreError> {
    let mut wanted = row::Entity::find()
        .order_by_asc(row::Column::Kind)
        .order_by_asc(row::Column::Workspace)
        .order_by_asc(row::Column::Id)
        .limit(rows);
    if let Some(after) = after {
        let key = [row::Column::Kind, row::Column::Workspace, row::Column::Id].map(Expr::col);
        let last = [&*after.kind, &*after.workspace, &*after.id].map(Expr::val);
        wanted = wanted.filter(Expr::tuple(key).gt(Expr::tuple(last)));
    }
    let rows = wanted.all(db).await?;
    let page = rows.into_iter().map(|row| Unacknowledged {
        sent: Sent {
            key: DesiredStateKey {
                kind: Cow::Owned(row.kind),
                workspace: row.workspace,
                id: row.id,
            },
            rev: row.rev,
        },
        body: row.body,
    });
    Ok(page.collect())
}
