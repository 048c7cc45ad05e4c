//! The query plans of SQLite.

use std::sync::{Mutex, MutexGuard, PoisonError};

use sea_orm::entity::prelude::async_trait::async_trait;
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DbBackend, DbErr, ExecResult, QueryResult, Statement,
};

/// Passes statements on to SQLite and stores their query plans.
#[derive(Debug)]
pub struct Plans<'d> {
    db: &'d DatabaseConnection,
    lines: Mutex<Vec<String>>,
}

impl<'d> Plans<'d> {
    #[must_use]
    pub fn of(db: &'d DatabaseConnection) -> Self {
        Self {
            db,
            lines: Mutex::default(),
        }
    }

    /// The steps that read a whole table, also in the order of its key.
    #[must_use]
    pub fn whole_tables(&self) -> Vec<String> {
        let is_by_key = |line: &str| line.contains("sqlite_autoindex");
        let is_whole = |line: &&String| {
            line.starts_with("SCAN") && (!line.contains("INDEX") || is_by_key(line))
        };
        self.lines().iter().filter(is_whole).cloned().collect()
    }

    fn lines(&self) -> MutexGuard<'_, Vec<String>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn explain(&self, statement: &Statement) -> Result<(), DbErr> {
        let mut question = statement.clone();
        question.sql = format!("EXPLAIN QUERY PLAN {}", statement.sql);
        for step in self.db.query_all_raw(question).await? {
            let line = step.try_get("", "detail")?;
            self.lines().push(line);
        }
        Ok(())
    }
}

#[async_trait]
impl ConnectionTrait for Plans<'_> {
    fn get_database_backend(&self) -> DbBackend {
        self.db.get_database_backend()
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        self.explain(&statement).await?;
        self.db.execute_raw(statement).await
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        self.db.execute_unprepared(sql).await
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        self.explain(&statement).await?;
        self.db.query_one_raw(statement).await
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        self.explain(&statement).await?;
        self.db.query_all_raw(statement).await
    }
}
