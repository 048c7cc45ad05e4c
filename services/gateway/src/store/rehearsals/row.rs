//! Rows of `rehearsals`, `rehearsed_runs` and `rehearsal_erasures`.
#![expect(unreachable_pub, reason = "the derive makes public items around it")]

pub(in crate::store) mod rehearsal {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "rehearsals")]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i64,
        pub workspace: String,
        pub created_by: String,
        pub agent: String,
        pub version: Option<i32>,
        pub steps: String,
        pub start_at: DateTimeUtc,
        pub contacts: i64,
        pub rehearsed: i64,
        pub status: String,
        pub detail: Option<String>,
        pub created_at: DateTimeUtc,
        /// When the gateway of a running rehearsal last wrote its row.
        pub seen_at: DateTimeUtc,
        pub ended_at: Option<DateTimeUtc>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub(in crate::store) mod run {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "rehearsed_runs")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub rehearsal: i64,
        #[sea_orm(primary_key, auto_increment = false)]
        pub place: i64,
        pub workspace: String,
        pub contact: String,
        /// The run without its timeline, which totals do not need.
        pub head: String,
        pub timeline: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub(in crate::store) mod erasures {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "rehearsal_erasures")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub workspace: String,
        pub erasures: i64,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}
