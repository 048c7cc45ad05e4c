//! A transaction that sends small writes together.
//!
//! Each statement crosses from the database thread to SQLite's thread and back, or makes a round trip to Postgres.
//! Both cost more than the work of a small statement. So a write whose result is not read waits for the next
//! statement.

use std::sync::{Mutex, MutexGuard, PoisonError};

use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, ExecResult, QueryResult, Statement,
};
use sea_orm_migration::async_trait::async_trait;

use crate::StoreError;
use crate::connection::ExclusiveConnection;
use crate::statement_batch::{StatementBatch, is_write, mentions_table_of};

/// Most values of a transaction whose writes are deferred, about those of one command. Each combination of
/// statements is one text that the database prepares and caches. Larger combinations have too many
/// variants, which would evict the texts of large batches.
const DEFERRED_VALUES_MAX: usize = 64;

/// The error of a transaction after a failed statement.
const BROKEN: &str = "an earlier statement of this transaction failed";

/// A transaction that writes. Dropping it before the commit rolls it back.
#[derive(Debug)]
pub struct Transaction {
    mode: Mode,
    pending: Mutex<PendingWrites>,
}

#[derive(Debug)]
enum Mode {
    /// The pool begins and ends the transaction.
    Pooled(DatabaseTransaction),
    /// `BEGIN` and `COMMIT` travel with the statements of the writer.
    Exclusive(ExclusiveConnection),
}

/// Writes that are not sent yet.
#[derive(Debug, Default)]
struct PendingWrites {
    /// Sent in this order, with the next statement.
    statements: Vec<Statement>,
    /// The number of values of all statements so far.
    values: usize,
    /// Nothing is sent yet, so the first statement is `BEGIN`.
    is_new: bool,
    /// A statement failed or was abandoned, so its effect is unknown.
    is_broken: bool,
}

impl Transaction {
    pub(crate) fn pooled(inner: DatabaseTransaction) -> Self {
        Self {
            mode: Mode::Pooled(inner),
            pending: Mutex::default(),
        }
    }

    pub(crate) fn exclusive(connection: ExclusiveConnection) -> Self {
        let pending = PendingWrites {
            statements: vec![plain("BEGIN IMMEDIATE")],
            is_new: true,
            ..PendingWrites::default()
        };
        Self {
            mode: Mode::Exclusive(connection),
            pending: Mutex::new(pending),
        }
    }

    /// Defers a write that returns no rows and whose result is not read. It is done before any later
    /// statement. Its error may come with such a statement or with the commit.
    ///
    /// # Errors
    /// [`DbErr`] when the database refuses this write or a pending one.
    pub async fn defer(&self, statement: Statement) -> Result<(), DbErr> {
        if self.goes_alone(&statement) {
            let statement = self.alone(statement).await?;
            self.complete(self.run(statement)).await?;
            return Ok(());
        }
        if self.depends_on_pending(&statement) {
            self.send().await?;
        }
        self.pending().statements.push(statement);
        Ok(())
    }

    /// Commits.
    ///
    /// # Errors
    /// [`StoreError`] when the database refuses or an earlier statement failed; then nothing was
    /// written.
    pub async fn commit(self) -> Result<(), StoreError> {
        if self.is_exclusive() {
            let mut pending = self.pending();
            // Without a statement there is no transaction to end.
            let is_empty = pending.is_new && pending.statements.len() == 1;
            if is_empty {
                pending.statements.clear();
            } else {
                pending.statements.push(plain("COMMIT"));
            }
        }
        self.send().await?;
        self.finish().await
    }

    /// Commits with a last write; returns the rows of that write.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub async fn commit_with(self, last: Statement) -> Result<Vec<QueryResult>, StoreError> {
        if !is_write(&last) {
            self.send().await?;
        }
        let mut last = self.with_pending(last).await?;
        if self.is_exclusive() {
            last.text.sql.push_str("; COMMIT");
            last.statements += 1;
        }
        let rows = self.rows(last).await?;
        self.finish().await?;
        Ok(rows)
    }

    /// Ends the transaction after its last statement, which contained the `COMMIT` of an exclusive one.
    async fn finish(self) -> Result<(), StoreError> {
        if self.pending().is_broken {
            return Err(DbErr::Custom(BROKEN.to_owned()).into());
        }
        match self.mode {
            Mode::Pooled(inner) => inner.commit().await?,
            Mode::Exclusive(connection) => connection.release(),
        }
        Ok(())
    }

    /// Rolls back.
    ///
    /// # Errors
    /// [`StoreError`] when the database is unavailable; then nothing was written either.
    pub async fn rollback(self) -> Result<(), StoreError> {
        match self.mode {
            Mode::Pooled(inner) => Ok(inner.rollback().await?),
            // Dropping the connection closes it, which rolls back.
            Mode::Exclusive(_) => Ok(()),
        }
    }

    /// Counts the values of a statement; returns whether it is sent without others.
    fn goes_alone(&self, statement: &Statement) -> bool {
        let values = statement.values.as_ref().map_or(0, |it| it.0.len());
        let mut pending = self.pending();
        pending.values += values;
        let is_suitable = if self.is_postgres() {
            is_write(statement)
        } else {
            !is_numbered(statement)
        };
        !is_suitable || pending.values > DEFERRED_VALUES_MAX
    }

    /// Whether a statement may see or change rows of a pending write. On Postgres the parts of one statement do not
    /// see each other's writes, and their order is undefined. On SQLite the statements of a batch run one by one.
    fn depends_on_pending(&self, statement: &Statement) -> bool {
        self.is_postgres() && mentions_table_of(&statement.sql, &self.pending().statements)
    }

    /// Whether this process alone writes the tables, one transaction at a time.
    pub const fn is_exclusive(&self) -> bool {
        matches!(self.mode, Mode::Exclusive(_))
    }

    fn is_postgres(&self) -> bool {
        self.get_database_backend() == DbBackend::Postgres
    }

    async fn send(&self) -> Result<(), DbErr> {
        let mut statements = self.take();
        if let Some(last) = statements.pop() {
            let statement = StatementBatch::new(statements, last);
            self.complete(self.run(statement)).await?;
        }
        Ok(())
    }

    async fn run(&self, statement: StatementBatch) -> Result<ExecResult, DbErr> {
        match &self.mode {
            Mode::Pooled(inner) => inner.execute_raw(statement.text).await,
            Mode::Exclusive(connection) => connection.execute(statement).await,
        }
    }

    async fn rows(&self, statement: StatementBatch) -> Result<Vec<QueryResult>, DbErr> {
        self.complete(async {
            match &self.mode {
                Mode::Pooled(inner) => inner.query_all_raw(statement.text).await,
                Mode::Exclusive(connection) => connection.all(statement).await,
            }
        })
        .await
    }

    /// Runs a statement and marks the transaction as broken if it does not end well. Statements sent with it
    /// may be half done, so nothing may be committed. Postgres ensures that itself, SQLite would continue.
    async fn complete<T>(
        &self,
        statement: impl Future<Output = Result<T, DbErr>>,
    ) -> Result<T, DbErr> {
        // A full disk may have ended the transaction, so a further statement would commit alone.
        if std::mem::replace(&mut self.pending().is_broken, true) {
            return Err(DbErr::Custom(BROKEN.to_owned()));
        }
        let done = statement.await?;
        self.pending().is_broken = false;
        Ok(done)
    }

    /// A statement that reads, after the pending writes. Only the last statement may return rows.
    ///
    /// On Postgres a statement that reads other tables does not send them: they wait for a write.
    async fn with_pending(&self, statement: Statement) -> Result<StatementBatch, DbErr> {
        let (goes_alone, depends) = (
            self.goes_alone(&statement),
            self.depends_on_pending(&statement),
        );
        let is_other_read = self.is_postgres() && !depends && !is_write(&statement);
        if is_other_read {
            return Ok(StatementBatch::new(Vec::new(), statement));
        }
        if goes_alone || depends {
            return self.alone(statement).await;
        }
        Ok(StatementBatch::new(self.take(), statement))
    }

    /// A statement that only `BEGIN` precedes, which has no values and makes few texts.
    async fn alone(&self, statement: Statement) -> Result<StatementBatch, DbErr> {
        let is_only_begin = {
            let pending = self.pending();
            pending.statements.len() <= usize::from(pending.is_new)
        };
        if !is_only_begin {
            self.send().await?;
        }
        Ok(StatementBatch::new(self.take(), statement))
    }

    fn take(&self) -> Vec<Statement> {
        let mut pending = self.pending();
        pending.is_new = false;
        std::mem::take(&mut pending.statements)
    }

    fn pending(&self) -> MutexGuard<'_, PendingWrites> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ConnectionTrait for Transaction {
    fn get_database_backend(&self) -> DbBackend {
        match &self.mode {
            Mode::Pooled(inner) => inner.get_database_backend(),
            Mode::Exclusive(_) => DbBackend::Sqlite,
        }
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        // Alone, because the caller reads the number of changed rows.
        self.send().await?;
        let statement = StatementBatch::new(Vec::new(), statement);
        self.complete(self.run(statement)).await
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        self.send().await?;
        self.complete(async {
            match &self.mode {
                Mode::Pooled(inner) => inner.execute_unprepared(sql).await,
                Mode::Exclusive(connection) => connection.execute_text(sql).await,
            }
        })
        .await
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        let statement = self.with_pending(statement).await?;
        self.complete(async {
            match &self.mode {
                Mode::Pooled(inner) => inner.query_one_raw(statement.text).await,
                Mode::Exclusive(connection) => {
                    Ok(connection.all(statement).await?.into_iter().next())
                }
            }
        })
        .await
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        let statement = self.with_pending(statement).await?;
        self.rows(statement).await
    }
}

/// A statement for SQLite without values.
fn plain(sql: &str) -> Statement {
    Statement::from_string(DbBackend::Sqlite, sql)
}

/// Whether a statement has numbered placeholders, which would number the values of a whole batch.
fn is_numbered(statement: &Statement) -> bool {
    statement.sql.contains("$1")
}

#[cfg(test)]
mod tests {
    use sea_orm::{DatabaseConnection, Value};

    use super::*;
    use crate::{Location, begin_write, open_writer};

    fn sqlite(sql: &str, values: impl IntoIterator<Item = i64>) -> Statement {
        let values = values.into_iter().map(Value::from);
        Statement::from_sql_and_values(DbBackend::Sqlite, sql, values)
    }

    async fn tables() -> (tempfile::TempDir, DatabaseConnection) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tables.db");
        let db = open_writer(&Location::Sqlite(file)).await.unwrap();
        let table = "CREATE TABLE said (place INTEGER PRIMARY KEY, word INTEGER NOT NULL)";
        db.execute_unprepared(table).await.unwrap();
        (folder, db)
    }

    fn add(place: i64, word: i64) -> Statement {
        sqlite("INSERT INTO said VALUES (?, ?)", [place, word])
    }

    async fn words(db: &impl ConnectionTrait) -> Vec<(i64, i64)> {
        let all = sqlite("SELECT place, word FROM said ORDER BY place", []);
        let rows = db.query_all_raw(all).await.unwrap();
        let word = |row: &QueryResult| {
            let place = row.try_get_by_index(0).unwrap();
            (place, row.try_get_by_index(1).unwrap())
        };
        rows.iter().map(word).collect()
    }

    /// Each deferred write has its values, and each later statement sees it.
    #[tokio::test]
    async fn deferred_writes_are_done_before_later_statements() {
        let (_folder, db) = tables().await;
        let tx = begin_write(&db).await.unwrap();
        tx.defer(add(1, 10)).await.unwrap();
        tx.defer(sqlite("UPDATE said SET word = ? WHERE place = ?", [11, 1]))
            .await
            .unwrap();
        let returning = "INSERT INTO said VALUES (?, ?) RETURNING word";
        let rows = tx.query_all_raw(sqlite(returning, [2, 20])).await.unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].try_get_by_index::<i64>(0).unwrap(), 20);
        assert_eq!(words(&tx).await, [(1, 11), (2, 20)]);

        tx.defer(add(3, 30)).await.unwrap();
        let numbered = "SELECT word FROM said WHERE place = $1 AND word = $2";
        let found = tx.query_one_raw(sqlite(numbered, [1, 11])).await.unwrap();
        assert!(found.is_some(), "its numbers mean its own values");
        tx.defer(sqlite("UPDATE said SET word = ? WHERE place = ?", [0, 3]))
            .await
            .unwrap();
        let numbered = "UPDATE said SET word = $2 WHERE place = $1";
        tx.defer(sqlite(numbered, [3, 30])).await.unwrap();

        tx.defer(add(4, 40)).await.unwrap();
        let all = sqlite("UPDATE said SET word = word + ? WHERE place < ?", [1, 4]);
        let changed = tx.execute_raw(all).await.unwrap();
        assert_eq!(changed.rows_affected(), 3, "its own rows");

        tx.defer(add(5, 50)).await.unwrap();
        tx.commit().await.unwrap();
        let expected = [(1, 12), (2, 21), (3, 31), (4, 40), (5, 50)];
        assert_eq!(words(&db).await, expected);
    }

    /// Any number of deferred writes is written once and in order.
    #[tokio::test]
    async fn many_deferred_writes_go_in_several_statements() {
        let (_folder, db) = tables().await;
        let tx = begin_write(&db).await.unwrap();
        for place in 0..1_000 {
            tx.defer(add(place, place)).await.unwrap();
        }
        let large = (1_000..2_000).flat_map(|place| [place, place]);
        let rows = vec!["(?, ?)"; 1_000].join(", ");
        let large = sqlite(&format!("INSERT INTO said VALUES {rows}"), large);
        tx.defer(large).await.unwrap();
        tx.commit().await.unwrap();
        let expected: Vec<_> = (0..2_000).map(|place| (place, place)).collect();
        assert_eq!(words(&db).await, expected);
    }

    /// Nothing of a transaction is written if its last statements fail or if it is dropped.
    #[tokio::test]
    async fn a_failed_transaction_writes_nothing() {
        let (_folder, db) = tables().await;
        let tx = begin_write(&db).await.unwrap();
        tx.defer(add(1, 10)).await.unwrap();
        tx.defer(add(1, 11)).await.unwrap();
        tx.defer(add(2, 20)).await.unwrap();
        assert!(tx.commit().await.is_err());
        assert_eq!(words(&db).await, []);

        let tx = begin_write(&db).await.unwrap();
        tx.defer(add(1, 10)).await.unwrap();
        tx.defer(add(1, 11)).await.unwrap();
        assert!(words_refused(&tx).await, "it comes with the next one");
        assert!(tx.commit().await.is_err(), "even if that error is ignored");
        assert_eq!(words(&db).await, []);

        let tx = begin_write(&db).await.unwrap();
        tx.defer(add(1, 10)).await.unwrap();
        drop(tx);
        assert_eq!(words(&db).await, []);
    }

    /// SQLite rolls back when the disk is full, but the driver still counts that transaction as open. Later
    /// transactions would be parts of it and never be written.
    #[tokio::test]
    async fn a_commit_after_a_full_disk_is_written() {
        let (folder, db) = tables().await;
        let file = Location::Sqlite(folder.path().join("tables.db"));
        let texts = "CREATE TABLE texts (text TEXT)";
        db.execute_unprepared(texts).await.unwrap();
        for _ in 0..2 {
            let full = "PRAGMA max_page_count = 1";
            db.execute_unprepared(full).await.unwrap();
            let tx = begin_write(&db).await.unwrap();
            let large = "INSERT INTO texts VALUES (hex(zeroblob(100000)))";
            tx.execute_unprepared(large).await.unwrap_err();
            drop(tx);
            // A dropped transaction, too.
            let tx = begin_write(&db).await.unwrap();
            tx.defer(add(9, 90)).await.unwrap();
            drop(tx);
        }
        let tx = begin_write(&db).await.unwrap();
        tx.defer(add(1, 10)).await.unwrap();
        tx.commit().await.unwrap();
        let other = open_writer(&file).await.unwrap();
        assert_eq!(words(&other).await, [(1, 10)]);
        let tx = begin_write(&other).await.unwrap();
        tx.defer(add(2, 20)).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(words(&db).await, [(1, 10), (2, 20)]);
    }

    async fn words_refused(tx: &Transaction) -> bool {
        let all = sqlite("SELECT word FROM said", []);
        tx.query_all_raw(all).await.is_err()
    }
}
