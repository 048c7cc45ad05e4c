//! The table on a SQLite file.

use holdpoint_store::{Location, begin_write, migrate, open_writer};

use super::*;

async fn open(folder: &tempfile::TempDir) -> DatabaseConnection {
    let location = Location::Sqlite(folder.path().join("scheduler.db"));
    migrate::<holdpoint_migrations::scheduler::Migrator>(&location)
        .await
        .unwrap();
    open_writer(&location).await.unwrap()
}

fn at(ms: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(1_700_000_000_000 + ms).unwrap()
}

fn timer(id: &str, version: u64, phase: Phase) -> Timer {
    let key = Key {
        workspace: "acme".parse().unwrap(),
        owner: Owner::Executor,
        id: id.into(),
    };
    Timer {
        key,
        version,
        rev: version,
        phase,
    }
}

async fn saved(db: &DatabaseConnection, timers: &[(&Timer, u64)], now: DateTime<Utc>) -> Vec<Key> {
    let tx = begin_write(db).await.unwrap();
    let lost = save(&tx, timers, now).await.unwrap();
    tx.commit().await.unwrap();
    lost
}

async fn put(db: &DatabaseConnection, timers: &[Timer]) -> Vec<Key> {
    let timers: Vec<_> = timers.iter().map(|one| (one, one.version - 1)).collect();
    saved(db, &timers, at(0)).await
}

/// M-2
#[tokio::test]
async fn of_two_writers_of_one_timer_one_wins() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder).await;
    let first = timer("a", 1, Phase::Pending(at(5)));
    assert_eq!(put(&db, std::slice::from_ref(&first)).await, []);
    let other = timer("b", 1, Phase::Cleared);
    let lost = put(&db, &[timer("a", 1, Phase::Cleared), other.clone()]).await;
    assert_eq!(lost, std::slice::from_ref(&first.key));
    let second = timer("a", 2, Phase::Fired);
    assert_eq!(put(&db, std::slice::from_ref(&second)).await, []);
    let lost = put(&db, std::slice::from_ref(&second)).await;
    assert_eq!(lost, std::slice::from_ref(&first.key));
    let keys = [
        first.key,
        other.key.clone(),
        timer("c", 1, Phase::Fired).key,
    ];
    let mut found = load(&db, &keys).await.unwrap();
    found.sort_by(|one, two| one.key.cmp(&two.key));
    assert_eq!(found, [second, other]);
}

/// A node that has beaten while the clock moves lives: its new timer is no place to stop at.
#[tokio::test]
async fn a_moving_clock_does_not_stop_at_a_node_that_has_just_beaten() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder).await;
    let node = timer("node_a", 1, Phase::Pending(at(30)));
    let hold = timer("hold_b", 1, Phase::Pending(at(90)));
    assert_eq!(put(&db, &[node, hold]).await, []);
    let stop = async |after| next_stop(&db, at(0), at(after)).await.unwrap();
    assert_eq!(stop(0).await, Some(at(30)), "it was set before");
    let beaten = timer("node_a", 2, Phase::Pending(at(60)));
    let lost = saved(&db, &[(&beaten, 1)], at(31)).await;
    assert_eq!(lost, []);
    assert_eq!(stop(30).await, Some(at(90)));
    assert_eq!(next_due(&db).await.unwrap(), Some(at(60)));
}

#[tokio::test]
async fn due_timers_come_in_order_and_in_pages_even_within_one_instant() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder).await;
    let same = (0..PAGE + 3).map(|n| timer(&format!("s{n:06}"), 1, Phase::Pending(at(1_000))));
    let timers: Vec<_> = same
        .chain(
            [0, 120, 999, 1_001, 2_000]
                .map(|ms| timer(&format!("t{ms}"), 1, Phase::Pending(at(ms)))),
        )
        .chain([timer("fired", 1, Phase::Fired)])
        .collect();
    assert_eq!(put(&db, &timers).await, []);
    let (mut found, mut next) = (Vec::new(), None);
    loop {
        let page = due(&db, at(2_000), next.as_ref()).await.unwrap();
        found.extend(page.timers);
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    assert_eq!(found.len(), timers.len() - 2);
    assert!(found.is_sorted());
    assert_eq!(next_due(&db).await.unwrap(), Some(at(0)));
    let stop = async |after| next_stop(&db, at(0), at(after)).await.unwrap();
    assert_eq!(stop(0).await, Some(at(120)));
    assert_eq!(stop(2_000).await, None);
    let second = at(0).timestamp();
    let near = buckets(&db, at(0), at(2_000)).await.unwrap();
    assert_eq!(
        near.into_iter().collect::<Vec<_>>(),
        [(0, second), (0, second + 1)]
    );
}

#[tokio::test]
async fn a_row_that_cannot_be_read_does_not_keep_those_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder).await;
    let timers: Vec<_> = (0..PAGE + 2)
        .map(|n| timer(&format!("s{n:06}"), 1, Phase::Pending(at(1_000))))
        .collect();
    assert_eq!(put(&db, &timers).await, []);
    // The first and the last of the page: neither the count nor the cursor may come from timers.
    for id in ["s000000".to_owned(), format!("s{:06}", PAGE - 1)] {
        let broken = format!("UPDATE timers SET rev = -1 WHERE id = '{id}'");
        db.execute_unprepared(&broken).await.unwrap();
    }
    let first = due(&db, at(2_000), None).await.unwrap();
    assert_eq!(first.timers.len() as u64, PAGE - 2);
    let second = due(&db, at(2_000), first.next.as_ref()).await.unwrap();
    let ids: Vec<_> = second.timers.iter().map(|it| it.key.id.as_str()).collect();
    assert_eq!(ids, ["s005000", "s005001"]);
    assert_eq!(second.next, None);
}

#[tokio::test]
async fn what_is_over_for_long_is_forgotten_in_pages_and_what_waits_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder).await;
    forgets(&db).await;
}

#[tokio::test]
async fn what_is_over_for_long_is_forgotten_on_postgres_too() {
    let Some(postgres) = holdpoint_testkit::postgres().await.unwrap() else {
        return;
    };
    let location = Location::Postgres {
        url: postgres.url.clone(),
        schema: "scheduler".to_owned(),
    };
    migrate::<holdpoint_migrations::scheduler::Migrator>(&location)
        .await
        .unwrap();
    forgets(&open_writer(&location).await.unwrap()).await;
}

async fn forgets(db: &DatabaseConnection) {
    let over = (0..FORGOTTEN_AT_ONCE + 1).map(|n| {
        let phase = [Phase::Fired, Phase::Cleared][usize::from(n % 2 == 0)];
        timer(&format!("o{n}"), 1, phase)
    });
    let waits = timer("waits", 1, Phase::Pending(at(0)));
    let waiting = waits.clone();
    let timers: Vec<_> = over.chain([waits]).collect();
    let timers: Vec<_> = timers.iter().map(|one| (one, 0)).collect();
    assert_eq!(saved(db, &timers, at(0)).await, []);
    let later = timer("later", 1, Phase::Fired);
    assert_eq!(saved(db, &[(&later, 0)], at(1)).await, []);
    let mut pages = Vec::new();
    for _ in 0..3 {
        pages.push(forget(db, at(1)).await.unwrap());
    }
    assert_eq!(pages, [FORGOTTEN_AT_ONCE, 1, 0]);
    let keys = ["o0", "later", "waits"].map(|id| timer(id, 1, Phase::Fired).key);
    let mut left = load(db, &keys).await.unwrap();
    left.sort_by(|one, two| one.key.cmp(&two.key));
    assert_eq!(left, [later, waiting]);
}
