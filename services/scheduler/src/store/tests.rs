//! The tables on a SQLite file.

mod schedules;

use holdpoint_auth::Trust;
use holdpoint_clock::Clock;
use holdpoint_store::{Location, begin_write, migrate, open_writer};

use super::*;
use crate::domain::Owner;

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
        schedule: None,
    }
}

fn scheduler() -> Scheduler {
    Scheduler::new(Trust::default(), Clock::standing_at(at(0)))
}

async fn load(db: &DatabaseConnection, keys: &[Key]) -> Vec<Timer> {
    let tx = begin_write(db).await.unwrap();
    let mut found = scheduler().load(&tx, keys).await.unwrap();
    found.sort_by(|one, two| one.0.cmp(&two.0));
    found.into_iter().map(|(_, timer)| timer).collect()
}

/// Saves timers that were read at a version; returns the keys that another writer has changed since.
async fn save_at(
    db: &DatabaseConnection,
    timers: &[(&Timer, u64)],
    now: DateTime<Utc>,
) -> Vec<Key> {
    let tx = begin_write(db).await.unwrap();
    let changed = timers.iter().map(|&(state, read_version)| Changed {
        key: &state.key,
        state,
        read_version,
    });
    let changed: Vec<_> = changed.collect();
    let lost = scheduler().save(&tx, &changed, now).await.unwrap();
    tx.commit().await.unwrap();
    lost
}

async fn put(db: &DatabaseConnection, timers: &[Timer]) -> Vec<Key> {
    let timers: Vec<_> = timers.iter().map(|one| (one, one.version - 1)).collect();
    save_at(db, &timers, at(0)).await
}

/// M-2
#[tokio::test]
async fn one_of_two_writers_of_a_timer_wins() {
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
    assert_eq!(load(&db, &keys).await, [second, other]);
}

/// A node that has sent a heartbeat while the clock moves is alive. The clock does not stop at its new timer.
#[tokio::test]
async fn a_moving_clock_does_not_stop_at_a_node_after_its_heartbeat() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder).await;
    let node = timer("node_a", 1, Phase::Pending(at(30)));
    let hold = timer("hold_b", 1, Phase::Pending(at(90)));
    assert_eq!(put(&db, &[node, hold]).await, []);
    let stop_after = async |after| next_stop(&db, at(0), at(after)).await.unwrap();
    assert_eq!(stop_after(0).await, Some(at(30)), "it was set before");
    let renewed = timer("node_a", 2, Phase::Pending(at(60)));
    let lost = save_at(&db, &[(&renewed, 1)], at(31)).await;
    assert_eq!(lost, []);
    assert_eq!(stop_after(30).await, Some(at(90)));
    assert_eq!(next_due(&db).await.unwrap(), Some(at(60)));
}

#[tokio::test]
async fn due_timers_are_listed_in_order_and_in_pages_even_within_one_instant() {
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
        let (timers, after) = list_due(&db, at(2_000), next).await.unwrap();
        found.extend(timers);
        next = after;
        if next.is_none() {
            break;
        }
    }
    assert_eq!(found.len(), timers.len() - 2);
    assert!(found.is_sorted());
    assert_eq!(next_due(&db).await.unwrap(), Some(at(0)));
    let stop_after = async |after| next_stop(&db, at(0), at(after)).await.unwrap();
    assert_eq!(stop_after(0).await, Some(at(120)));
    assert_eq!(stop_after(2_000).await, None);
    let second = at(0).timestamp();
    let near = buckets(&db, at(0), at(2_000)).await.unwrap();
    assert_eq!(
        near.into_iter().collect::<Vec<_>>(),
        [(0, second), (0, second + 1)]
    );
}

#[tokio::test]
async fn an_unreadable_row_does_not_stop_later_timers() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder).await;
    let timers: Vec<_> = (0..PAGE + 2)
        .map(|n| timer(&format!("s{n:06}"), 1, Phase::Pending(at(1_000))))
        .collect();
    assert_eq!(put(&db, &timers).await, []);
    // The first and the last row of the page, because count and cursor must not come from timers.
    for id in ["s000000".to_owned(), format!("s{:06}", PAGE - 1)] {
        let broken = format!("UPDATE timers SET rev = -1 WHERE id = '{id}'");
        db.execute_unprepared(&broken).await.unwrap();
    }
    let (timers, next) = list_due(&db, at(2_000), None).await.unwrap();
    assert_eq!(timers.len() as u64, PAGE - 2);
    let (timers, next) = list_due(&db, at(2_000), next).await.unwrap();
    let ids: Vec<_> = timers.iter().map(|it| it.key.id.as_str()).collect();
    assert_eq!(ids, ["s005000", "s005001"]);
    assert_eq!(next, None);
}

#[tokio::test]
async fn old_timers_are_deleted_in_pages_and_pending_timers_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder).await;
    deletes_old_timers(&db).await;
}

#[tokio::test]
async fn old_timers_are_deleted_on_postgres_too() {
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
    deletes_old_timers(&open_writer(&location).await.unwrap()).await;
}

async fn deletes_old_timers(db: &DatabaseConnection) {
    let over = (0..DELETED_AT_ONCE + 1).map(|n| {
        let phase = [Phase::Fired, Phase::Cleared][usize::from(n % 2 == 0)];
        timer(&format!("o{n}"), 1, phase)
    });
    let waits = timer("waits", 1, Phase::Pending(at(0)));
    let waiting = waits.clone();
    let timers: Vec<_> = over.chain([waits]).collect();
    let timers: Vec<_> = timers.iter().map(|one| (one, 0)).collect();
    assert_eq!(save_at(db, &timers, at(0)).await, []);
    let later = timer("later", 1, Phase::Fired);
    assert_eq!(save_at(db, &[(&later, 0)], at(1)).await, []);
    let mut pages = Vec::new();
    for _ in 0..3 {
        pages.push(delete_old(db, at(1)).await.unwrap());
    }
    assert_eq!(pages, [DELETED_AT_ONCE, 1, 0]);
    let keys = ["o0", "later", "waits"].map(|id| timer(id, 1, Phase::Fired).key);
    assert_eq!(load(db, &keys).await, [later, waiting]);
}
