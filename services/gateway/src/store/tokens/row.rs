//! Row of `tokens`.
#![expect(unreachable_pub, reason = "the derive makes public items around it")]

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "tokens")]
pub struct Model {
    #[sea_orm(primary_key)]
    pub id: i64,
    pub workspace: String,
    pub user_name: String,
    #[sea_orm(unique)]
    pub token_sha256: String,
    pub created_at: DateTimeUtc,
    pub expires_at: Option<DateTimeUtc>,
    pub role: Option<String>,
    pub printed: bool,
    #[sea_orm(unique)]
    pub asked_key: Option<String>,
    pub asked_digest: Option<String>,
    pub made_by: Option<String>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
