//! Row of `commands`.
#![expect(unreachable_pub, reason = "the derive makes public items around it")]

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "commands")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    pub workspace: String,
    pub caller: String,
    pub roles: String,
    pub service: String,
    pub subject: String,
    pub ask_subject: String,
    pub envelope: String,
    #[sea_orm(unique)]
    pub key: String,
    pub digest: String,
    pub after_id: Option<String>,
    pub state: String,
    pub answer: Option<String>,
    pub published: bool,
    pub tries: i64,
    pub created_at: DateTimeUtc,
    pub done_at: Option<DateTimeUtc>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
