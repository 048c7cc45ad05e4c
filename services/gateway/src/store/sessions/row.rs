//! Rows of `sessions` and `logins`.
#![expect(unreachable_pub, reason = "the derive makes public items around it")]

pub(in crate::store) mod session {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "sessions")]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i64,
        pub session_sha256: String,
        pub workspace: String,
        pub user_name: String,
        pub role: Option<String>,
        pub token_id: Option<i64>,
        pub shown: bool,
        pub created_at: DateTimeUtc,
        pub seen_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub(in crate::store) mod login {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "logins")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub code_sha256: String,
        pub workspace: String,
        pub user_name: String,
        pub expires_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}
