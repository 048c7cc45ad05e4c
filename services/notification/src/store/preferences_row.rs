//! Table `preferences`.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_ids::{UserName, Workspace};
use holdpoint_store::{BrokenRow as _, ColumnRow, SPARE_ROWS, StoreError, readable};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, QuerySelect};

use super::key_columns::{after, number};
use crate::domain::{DeliveryRules, Preferences};

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

impl ColumnRow for Entity {
    type State = Preferences;

    const CONSTANT: &'static [Column] = &[Column::CreatedAt];

    fn read(row: Model) -> Result<Preferences, StoreError> {
        Ok(Preferences {
            workspace: row.workspace.parse().map_err(Self::broken)?,
            person: row.person.parse().map_err(Self::broken)?,
            said: serde_json::from_str(&row.said).map_err(Self::broken)?,
            digest_at: row.digest_at,
            version: u64::try_from(row.version).map_err(Self::broken)?,
        })
    }

    fn row(
        preferences: &Preferences,
        prior_version: i64,
        now: DateTime<Utc>,
    ) -> Result<ActiveModel, StoreError> {
        Ok(ActiveModel {
            workspace: Set(preferences.workspace.to_string()),
            person: Set(preferences.person.to_string()),
            said: Set(serde_json::to_string(&preferences.said).map_err(Self::broken)?),
            digest_at: Set(preferences.digest_at),
            version: Set(number::<Self>(preferences.version)?),
            prior_version: Set(prior_version),
            created_at: Set(now),
            updated_at: Set(now),
        })
    }
}

/// The delivery rules of people. Preferences become invalid when their time zone disappears from the database.
/// Their person is notified by the default rules then.
pub(super) async fn rules(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    people: &[UserName],
) -> Result<BTreeMap<UserName, DeliveryRules>, StoreError> {
    let row_key = |person: &UserName| (workspace.to_string(), person.to_string());
    let keys: Vec<_> = people.iter().map(row_key).collect();
    let all = Entity::load_states(db, &keys).await?;
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
    last: Option<&DigestPlace>,
    now: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<DigestPlace>, StoreError> {
    let order = [Column::DigestAt, Column::Workspace, Column::Person];
    let mut query = Entity::find().filter(COLUMN.digest_at.lte(now));
    if let Some(DigestPlace {
        at,
        workspace,
        person,
    }) = last
    {
        let place = [
            (*at).into(),
            workspace.as_str().into(),
            person.as_str().into(),
        ];
        query = query.filter(after(order, place));
    }
    let rows = query
        .order_by_asc(Column::DigestAt)
        .order_by_asc(Column::Workspace)
        .order_by_asc(Column::Person)
        .limit(limit.saturating_add(SPARE_ROWS))
        .select_only()
        .columns(order)
        .into_tuple::<(DateTime<Utc>, String, String)>()
        .all(db)
        .await?;
    let one = |(at, workspace, person): (DateTime<Utc>, String, String)| {
        Ok(DigestPlace {
            at,
            workspace: workspace.parse().map_err(Entity::broken)?,
            person: person.parse().map_err(Entity::broken)?,
        })
    };
    let name = |(_, workspace, person): &(_, String, String)| format!("{workspace}/{person}");
    Ok(readable(rows, limit, name, one))
}
