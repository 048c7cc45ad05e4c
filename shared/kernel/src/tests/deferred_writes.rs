//! Writes of one commit that go to Postgres together.

use holdpoint_store::{Location, TableWriter, Transaction};
use holdpoint_testkit::postgres;
use sea_orm::{ConnectionTrait, DbBackend, Statement};

fn statement(sql: &str, values: impl IntoIterator<Item = i64>) -> Statement {
    Statement::from_sql_and_values(DbBackend::Postgres, sql, values.into_iter().map(Into::into))
}

fn add(table: &str, place: i64, word: i64) -> Statement {
    let sql = format!("INSERT INTO {table} (place, word) VALUES ($1, $2)");
    statement(&sql, [place, word])
}

async fn words(tx: &Transaction, table: &str) -> Vec<(i64, i64)> {
    let sql = format!("SELECT place, word FROM {table} ORDER BY place");
    let rows = tx.query_all_raw(statement(&sql, [])).await.unwrap();
    let word = |row: &sea_orm::QueryResult| {
        let place = row.try_get_by_index(0).unwrap();
        (place, row.try_get_by_index(1).unwrap())
    };
    rows.iter().map(word).collect()
}

/// The parts of one statement do not see each other's writes. So a statement that reads or writes a table of a pending
/// write comes after it.
#[tokio::test]
async fn each_statement_sees_the_deferred_writes_before_it() {
    let Some(postgres) = postgres().await.unwrap() else {
        return;
    };
    let location = Location::Postgres {
        url: postgres.url.clone(),
        schema: "public".into(),
    };
    let writer = TableWriter::open(&location).await.unwrap();
    let tx = writer.begin().await.unwrap();
    for table in ["heard", "said"] {
        let table = format!("CREATE TABLE {table} (place bigint PRIMARY KEY, word bigint)");
        tx.execute_unprepared(&table).await.unwrap();
    }
    tx.commit().await.unwrap();

    let tx = writer.begin().await.unwrap();
    tx.defer(add("said", 1, 10)).await.unwrap();
    tx.defer(add("heard", 1, 100)).await.unwrap();
    let change = "UPDATE said SET word = $2 WHERE place = $1";
    tx.defer(statement(change, [1, 11])).await.unwrap();
    assert_eq!(words(&tx, "heard").await, [(1, 100)]);
    assert_eq!(words(&tx, "said").await, [(1, 11)]);

    // Deleted and written anew, and copied from a table of a pending write.
    let delete = statement("DELETE FROM said WHERE place = $1", [1]);
    tx.defer(delete).await.unwrap();
    tx.defer(add("said", 1, 12)).await.unwrap();
    let copy = "INSERT INTO heard (place, word) SELECT place + $1, word FROM said";
    tx.defer(statement(copy, [1])).await.unwrap();
    tx.defer(add("said", 3, 30)).await.unwrap();
    let last = "INSERT INTO heard (place, word) VALUES ($1, $2) RETURNING place";
    let rows = tx.commit_with(statement(last, [3, 300])).await.unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].try_get_by_index::<i64>(0).unwrap(), 3);

    let tx = writer.begin().await.unwrap();
    assert_eq!(words(&tx, "said").await, [(1, 12), (3, 30)]);
    let heard = [(1, 100), (2, 12), (3, 300)];
    assert_eq!(words(&tx, "heard").await, heard);
    // A refused part refuses the whole.
    tx.defer(add("said", 4, 40)).await.unwrap();
    tx.defer(add("heard", 1, 1)).await.unwrap();
    tx.commit().await.unwrap_err();
    let tx = writer.begin().await.unwrap();
    assert_eq!(words(&tx, "said").await, [(1, 12), (3, 30)]);
}
