//! Row of `unmatched_replies`.
#![expect(unreachable_pub, reason = "the derive makes public items around it")]

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "unmatched_replies")]
pub struct Model {
    #[sea_orm(primary_key)]
    pub id: i64,
    pub workspace: String,
    pub key: String,
    pub digest: String,
    pub hook: String,
    pub reply: Option<String>,
    pub contact: Option<String>,
    pub received_at: DateTimeUtc,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
