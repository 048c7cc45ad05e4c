//! Table `preferences`.
#![expect(
    clippy::disallowed_methods,
    reason = "the entity macro generates a nested save that begins"
)]
#![expect(unreachable_pub, reason = "the entity macro wants a public model")]

use std::collections::{BTreeMap, HashSet};

use chrono::{DateTime, Utc};
use holdpoint_ids::{UserName, Workspace};
use holdpoint_store::{ROWS_PER_STATEMENT, SPARE_ROWS, StoreError, readable, upsert_if_version};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::{Condition, QueryOrder, QuerySelect};

use crate::domain::{DeliveryRules, Key, Preferences};

const TABLE: &str = "preferences";

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "preferences")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub workspace: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub person: String,
    pub said: String,
    pub digest_at: Option<DateTimeUtc>,
    pub version: i64,
    pub prior_version: i64,
    pub created_at: DateTimeUtc,
    pub updated_at: DateTimeUtc,
}

impl ActiveModelBehavior for ActiveModel {}

fn broken(error: impl std::fmt::Display) -> StoreError {
    StoreError::broken(TABLE, error)
}

/// The preferences of the people who have set any.
pub(super) async fn load(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    people: &[UserName],
) -> Result<Vec<Preferences>, StoreError> {
    let mut found = Vec::new();
    for chunk in people.chunks(ROWS_PER_STATEMENT) {
        let rows = Entity::find()
            .filter(COLUMN.workspace.eq(workspace.as_str()))
            .filter(COLUMN.person.is_in(chunk.iter().map(UserName::as_str)))
            .all(db)
            .await?;
        for row in rows {
            found.push(Preferences {
                workspace: workspace.clone(),
                person: row.person.parse().map_err(broken)?,
                said: serde_json::from_str(&row.said).map_err(broken)?,
                digest_at: row.digest_at,
                version: u64::try_from(row.version).map_err(broken)?,
            });
        }
    }
    Ok(found)
}

/// The delivery rules of people. Preferences become invalid when their time zone disappears from the database.
/// Their person is notified by the default rules then.
pub(super) async fn rules(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    people: &[UserName],
) -> Result<BTreeMap<UserName, DeliveryRules>, StoreError> {
    let all = load(db, workspace, people).await?;
    let rules = all.into_iter().map(|one| {
        let rules = DeliveryRules::read(&one.said).unwrap_or_else(|problem| {
            tracing::warn!(%workspace, person = %one.person, %problem, "invalid preferences; the default rules apply");
            DeliveryRules::default()
        });
        (one.person, rules)
    });
    Ok(rules.collect())
}

/// A person whose digest is due, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DigestPlace {
    pub(crate) at: DateTime<Utc>,
    pub(crate) workspace: Workspace,
    pub(crate) person: UserName,
}

/// A page of the people whose digests are due, the longest due first.
pub(crate) async fn digests(
    db: &impl ConnectionTrait,
    (after, now): (Option<&DigestPlace>, DateTime<Utc>),
    limit: u64,
) -> Result<Vec<DigestPlace>, StoreError> {
    let mut query = Entity::find().filter(COLUMN.digest_at.lte(now));
    if let Some(DigestPlace {
        at,
        workspace,
        person,
    }) = after
    {
        let same = || Condition::all().add(COLUMN.digest_at.eq(*at));
        let later = Condition::any()
            .add(COLUMN.digest_at.gt(*at))
            .add(same().add(COLUMN.workspace.gt(workspace.as_str())))
            .add(
                same()
                    .add(COLUMN.workspace.eq(workspace.as_str()))
                    .add(COLUMN.person.gt(person.as_str())),
            );
        query = query.filter(later);
    }
    let rows = query
        .order_by_asc(Column::DigestAt)
        .order_by_asc(Column::Workspace)
        .order_by_asc(Column::Person)
        .limit(limit.saturating_add(SPARE_ROWS))
        .select_only()
        .column(Column::DigestAt)
        .column(Column::Workspace)
        .column(Column::Person)
        .into_tuple::<(DateTime<Utc>, String, String)>()
        .all(db)
        .await?;
    let one = |(at, workspace, person): (DateTime<Utc>, String, String)| {
        Ok(DigestPlace {
            at,
            workspace: workspace.parse().map_err(broken)?,
            person: person.parse().map_err(broken)?,
        })
    };
    let name = |(_, workspace, person): &(_, String, String)| format!("{workspace}/{person}");
    Ok(readable(rows, limit, name, one))
}

/// Saves them under their guards; returns those that lost.
pub(super) async fn save(
    db: &impl ConnectionTrait,
    all: &[(&Preferences, u64)],
    now: DateTime<Utc>,
) -> Result<Vec<Key>, StoreError> {
    let mut losers = Vec::new();
    for chunk in all.chunks(ROWS_PER_STATEMENT) {
        let rows = chunk.iter().map(|(one, read)| active(one, *read, now));
        let won: HashSet<(String, String)> =
            Entity::insert_many(rows.collect::<Result<Vec<_>, _>>()?)
                .on_conflict(upsert_if_version(
                    TABLE,
                    &["workspace", "person"],
                    &["said", "digest_at", "updated_at"],
                ))
                .exec_with_returning_keys(db)
                .await?
                .into_iter()
                .collect();
        for (one, _) in chunk {
            if !won.contains(&(one.workspace.to_string(), one.person.to_string())) {
                losers.push(Key::Preferences(one.workspace.clone(), one.person.clone()));
            }
        }
    }
    Ok(losers)
}

fn active(one: &Preferences, read: u64, now: DateTime<Utc>) -> Result<ActiveModel, StoreError> {
    Ok(ActiveModel {
        workspace: Set(one.workspace.to_string()),
        person: Set(one.person.to_string()),
        said: Set(serde_json::to_string(&one.said).map_err(broken)?),
        digest_at: Set(one.digest_at),
        version: Set(i64::try_from(one.version).map_err(broken)?),
        prior_version: Set(i64::try_from(read).map_err(broken)?),
        created_at: Set(now),
        updated_at: Set(now),
    })
}
