//! A transaction that sends small writes together.
//!
//! Each statement crosses from the database thread to SQLite's and back, and costs more by that than by
//! what a small one does. So a write whose result nobody reads waits for the next statement.

use std::sync::{Mutex, MutexGuard, PoisonError};

use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, ExecResult, QueryResult, Statement,
    Values,
};
use sea_orm_migration::async_trait::async_trait;

use crate::StoreError;
use crate::writer::ExclusiveConnection;

/// Most values of a transaction whose writes wait: about those of one command. Each set of statements
/// is one text for the database to prepare and to keep; of larger ones there would be too many kinds,
/// which drive out the texts of large batches.
const LITTLE: usize = 64;

/// Why a transaction goes no further.
const BROKEN: &str = "a statement of this transaction was refused before";

/// A transaction that writes. Rolled back where it is dropped before its commit.
#[derive(Debug)]
pub struct Transaction {
    way: Way,
    waiting: Mutex<PendingWrites>,
}

#[derive(Debug)]
enum Way {
    /// Of a pool, which begins and ends it.
    Pooled(DatabaseTransaction),
    /// Of the writer: it begins and ends with its own statements.
    ExclusiveConnection(ExclusiveConnection),
}

/// Writes that are still to be sent.
#[derive(Debug, Default)]
struct PendingWrites {
    /// In this order, with the next statement.
    statements: Vec<Statement>,
    /// How many values this transaction has had by now.
    values: usize,
    /// Nothing is sent yet, and the first of the statements is the beginning.
    is_new: bool,
    /// A statement was refused, or nobody waited for its end: what of it is done is not known.
    is_broken: bool,
}

impl Transaction {
    pub(crate) fn pooled(inner: DatabaseTransaction) -> Self {
        Self {
            way: Way::Pooled(inner),
            waiting: Mutex::default(),
        }
    }

    pub(crate) fn own(own: ExclusiveConnection) -> Self {
        let waiting = PendingWrites {
            statements: vec![plain("BEGIN IMMEDIATE")],
            is_new: true,
            ..PendingWrites::default()
        };
        Self {
            way: Way::ExclusiveConnection(own),
            waiting: Mutex::new(waiting),
        }
    }

    /// A write whose result nobody reads, and that returns no rows: done before any statement that comes
    /// after it. An error may come with one of those, or with the commit.
    ///
    /// # Errors
    /// [`DbErr`] when the database refuses it, or what waited before it.
    pub async fn later(&self, statement: Statement) -> Result<(), DbErr> {
        if self.is_apart(&statement) {
            let statement = self.by_itself(statement).await?;
            self.whole(self.run(statement)).await?;
        } else {
            self.waiting().statements.push(statement);
        }
        Ok(())
    }

    /// Keeps all that was written.
    ///
    /// # Errors
    /// [`StoreError`] when the database refuses, or has refused a statement before; then nothing was
    /// written.
    pub async fn commit(self) -> Result<(), StoreError> {
        if self.is_own() {
            let mut waiting = self.waiting();
            // Where nothing was sent there is no lock, either.
            let is_empty = waiting.is_new && waiting.statements.len() == 1;
            match is_empty {
                true => waiting.statements.clear(),
                false => waiting.statements.push(plain("COMMIT")),
            }
        }
        self.send().await?;
        self.ended().await
    }

    /// Keeps all that was written, with a last write; returns what that one returns.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub async fn commit_with(self, last: Statement) -> Result<Vec<QueryResult>, StoreError> {
        let mut last = self.with_waiting(last).await?;
        if self.is_own() {
            last.text.sql.push_str("; COMMIT");
            last.statements += 1;
        }
        let rows = self.rows(last).await?;
        self.ended().await?;
        Ok(rows)
    }

    /// Its last statement is done: a pool's is committed now, the writer's has done so itself.
    async fn ended(self) -> Result<(), StoreError> {
        if self.waiting().is_broken {
            return Err(DbErr::Custom(BROKEN.to_owned()).into());
        }
        match self.way {
            Way::Pooled(inner) => inner.commit().await?,
            Way::ExclusiveConnection(own) => own.go_home(),
        }
        Ok(())
    }

    /// Forgets all that was written.
    ///
    /// # Errors
    /// [`StoreError`] when the database is away; then nothing was written either.
    pub async fn rollback(self) -> Result<(), StoreError> {
        match self.way {
            Way::Pooled(inner) => Ok(inner.rollback().await?),
            // Its connection is closed.
            Way::ExclusiveConnection(_) => Ok(()),
        }
    }

    /// Whether a statement goes by itself.
    fn is_apart(&self, statement: &Statement) -> bool {
        let values = statement.values.as_ref().map_or(0, |it| it.0.len());
        let mut waiting = self.waiting();
        waiting.values += values;
        let is_sqlite = self.get_database_backend() == DbBackend::Sqlite;
        !is_sqlite || waiting.values > LITTLE || is_numbered(statement)
    }

    const fn is_own(&self) -> bool {
        matches!(self.way, Way::ExclusiveConnection(_))
    }

    /// Sends what waits.
    async fn send(&self) -> Result<(), DbErr> {
        let mut statements = self.take();
        if let Some(last) = statements.pop() {
            let statement = Joined::new(statements, last);
            self.whole(self.run(statement)).await?;
        }
        Ok(())
    }

    async fn run(&self, statement: Joined) -> Result<ExecResult, DbErr> {
        match &self.way {
            Way::Pooled(inner) => inner.execute_raw(statement.text).await,
            Way::ExclusiveConnection(own) => own.execute(statement).await,
        }
    }

    async fn rows(&self, statement: Joined) -> Result<Vec<QueryResult>, DbErr> {
        self.whole(async {
            match &self.way {
                Way::Pooled(inner) => inner.query_all_raw(statement.text).await,
                Way::ExclusiveConnection(own) => own.all(statement).await,
            }
        })
        .await
    }

    /// Lets a statement come to its end. Where it does not, what was sent with it may be half done, and
    /// nothing of the transaction may stay: Postgres sees to that itself, SQLite would go on.
    async fn whole<T>(
        &self,
        statement: impl Future<Output = Result<T, DbErr>>,
    ) -> Result<T, DbErr> {
        // A full disk may have ended the transaction: whatever came now would stay by itself.
        if std::mem::replace(&mut self.waiting().is_broken, true) {
            return Err(DbErr::Custom(BROKEN.to_owned()));
        }
        let done = statement.await?;
        self.waiting().is_broken = false;
        Ok(done)
    }

    /// A statement that reads, with what waits before it; only what reads returns rows.
    async fn with_waiting(&self, statement: Statement) -> Result<Joined, DbErr> {
        if self.is_apart(&statement) {
            return self.by_itself(statement).await;
        }
        Ok(Joined::new(self.take(), statement))
    }

    /// A statement with nothing before it but the beginning, which comes to few texts and has no values.
    async fn by_itself(&self, statement: Statement) -> Result<Joined, DbErr> {
        let is_little = {
            let waiting = self.waiting();
            waiting.statements.len() <= usize::from(waiting.is_new)
        };
        if !is_little {
            self.send().await?;
        }
        Ok(Joined::new(self.take(), statement))
    }

    fn take(&self) -> Vec<Statement> {
        let mut waiting = self.waiting();
        waiting.is_new = false;
        std::mem::take(&mut waiting.statements)
    }

    fn waiting(&self) -> MutexGuard<'_, PendingWrites> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ConnectionTrait for Transaction {
    fn get_database_backend(&self) -> DbBackend {
        match &self.way {
            Way::Pooled(inner) => inner.get_database_backend(),
            Way::ExclusiveConnection(_) => DbBackend::Sqlite,
        }
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        // Apart, for it is asked how many rows it changed.
        self.send().await?;
        let statement = Joined::new(Vec::new(), statement);
        self.whole(self.run(statement)).await
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        self.send().await?;
        self.whole(async {
            match &self.way {
                Way::Pooled(inner) => inner.execute_unprepared(sql).await,
                Way::ExclusiveConnection(own) => own.execute_text(sql).await,
            }
        })
        .await
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        let statement = self.with_waiting(statement).await?;
        self.whole(async {
            match &self.way {
                Way::Pooled(inner) => inner.query_one_raw(statement.text).await,
                Way::ExclusiveConnection(own) => Ok(own.all(statement).await?.into_iter().next()),
            }
        })
        .await
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        let statement = self.with_waiting(statement).await?;
        self.rows(statement).await
    }
}

/// A statement without values, of SQLite's.
fn plain(sql: &str) -> Statement {
    Statement::from_string(DbBackend::Sqlite, sql)
}

/// Written by hand for both databases: its placeholders mean its own values, and no others before them.
fn is_numbered(statement: &Statement) -> bool {
    statement.sql.contains("$1")
}

/// Statements as one text.
pub(crate) struct Joined {
    pub(crate) text: Statement,
    /// How many of them.
    pub(crate) statements: usize,
}

impl Joined {
    /// Placeholders that sea-orm makes for SQLite have no numbers, so that values follow each other as their
    /// statements do.
    fn new(before: Vec<Statement>, last: Statement) -> Self {
        let statements = before.len() + 1;
        if before.is_empty() {
            return Self {
                text: last,
                statements,
            };
        }
        let backend = last.db_backend;
        let (mut texts, mut all) = (Vec::new(), Vec::new());
        for statement in before.into_iter().chain([last]) {
            texts.push(statement.sql);
            all.extend(
                statement
                    .values
                    .into_iter()
                    .flat_map(|Values(values)| values),
            );
        }
        Self {
            text: Statement::from_sql_and_values(backend, texts.join("; "), all),
            statements,
        }
    }
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

    /// Each has its own values, and whatever comes after sees it.
    #[tokio::test]
    async fn what_waits_is_done_before_what_comes_after() {
        let (_folder, db) = tables().await;
        let tx = begin_write(&db).await.unwrap();
        tx.later(add(1, 10)).await.unwrap();
        tx.later(sqlite("UPDATE said SET word = ? WHERE place = ?", [11, 1]))
            .await
            .unwrap();
        let returning = "INSERT INTO said VALUES (?, ?) RETURNING word";
        let rows = tx.query_all_raw(sqlite(returning, [2, 20])).await.unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].try_get_by_index::<i64>(0).unwrap(), 20);
        assert_eq!(words(&tx).await, [(1, 11), (2, 20)]);

        tx.later(add(3, 30)).await.unwrap();
        let numbered = "SELECT word FROM said WHERE place = $1 AND word = $2";
        let found = tx.query_one_raw(sqlite(numbered, [1, 11])).await.unwrap();
        assert!(found.is_some(), "its numbers mean its own values");
        tx.later(sqlite("UPDATE said SET word = ? WHERE place = ?", [0, 3]))
            .await
            .unwrap();
        let numbered = "UPDATE said SET word = $2 WHERE place = $1";
        tx.later(sqlite(numbered, [3, 30])).await.unwrap();

        tx.later(add(4, 40)).await.unwrap();
        let all = sqlite("UPDATE said SET word = word + ? WHERE place < ?", [1, 4]);
        let changed = tx.execute_raw(all).await.unwrap();
        assert_eq!(changed.rows_affected(), 3, "its own rows");

        tx.later(add(5, 50)).await.unwrap();
        tx.commit().await.unwrap();
        let expected = [(1, 12), (2, 21), (3, 31), (4, 40), (5, 50)];
        assert_eq!(words(&db).await, expected);
    }

    /// However much waits, it is written once and in order.
    #[tokio::test]
    async fn much_goes_in_several_statements() {
        let (_folder, db) = tables().await;
        let tx = begin_write(&db).await.unwrap();
        for place in 0..1_000 {
            tx.later(add(place, place)).await.unwrap();
        }
        let large = (1_000..2_000).flat_map(|place| [place, place]);
        let rows = vec!["(?, ?)"; 1_000].join(", ");
        let large = sqlite(&format!("INSERT INTO said VALUES {rows}"), large);
        tx.later(large).await.unwrap();
        tx.commit().await.unwrap();
        let expected: Vec<_> = (0..2_000).map(|place| (place, place)).collect();
        assert_eq!(words(&db).await, expected);
    }

    /// Nothing of a transaction stays whose last statements are refused; nor of one that is dropped.
    #[tokio::test]
    async fn what_is_refused_leaves_nothing() {
        let (_folder, db) = tables().await;
        let tx = begin_write(&db).await.unwrap();
        tx.later(add(1, 10)).await.unwrap();
        tx.later(add(1, 11)).await.unwrap();
        tx.later(add(2, 20)).await.unwrap();
        assert!(tx.commit().await.is_err());
        assert_eq!(words(&db).await, []);

        let tx = begin_write(&db).await.unwrap();
        tx.later(add(1, 10)).await.unwrap();
        tx.later(add(1, 11)).await.unwrap();
        assert!(words_refused(&tx).await, "it comes with the next one");
        assert!(tx.commit().await.is_err(), "whoever swallows that");
        assert_eq!(words(&db).await, []);

        let tx = begin_write(&db).await.unwrap();
        tx.later(add(1, 10)).await.unwrap();
        drop(tx);
        assert_eq!(words(&db).await, []);
    }

    /// SQLite itself rolls back where the disk is full, and the driver goes on counting that transaction as open:
    /// the next ones would be parts of it, and none would ever be written.
    #[tokio::test]
    async fn what_is_committed_after_a_full_disk_is_there() {
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
            // One that is given up, too.
            let tx = begin_write(&db).await.unwrap();
            tx.later(add(9, 90)).await.unwrap();
            drop(tx);
        }
        let tx = begin_write(&db).await.unwrap();
        tx.later(add(1, 10)).await.unwrap();
        tx.commit().await.unwrap();
        let other = open_writer(&file).await.unwrap();
        assert_eq!(words(&other).await, [(1, 10)]);
        let tx = begin_write(&other).await.unwrap();
        tx.later(add(2, 20)).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(words(&db).await, [(1, 10), (2, 20)]);
    }

    async fn words_refused(tx: &Transaction) -> bool {
        let all = sqlite("SELECT word FROM said", []);
        tx.query_all_raw(all).await.is_err()
    }
}
