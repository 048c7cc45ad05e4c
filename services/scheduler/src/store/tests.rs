//! The table on a SQLite file.

use holdpoint_store::{Location, migrate, open_writer};

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

fn alarm(id: &str, version: u64, phase: Phase) -> Alarm {
    let key = Key {
        workspace: "acme".parse().unwrap(),
        owner: Owner::Executor,
        id: id.into(),
    };
    Alarm {
        key,
        version,
        rev: version,
        phase,
    }
}

async fn put(db: &DatabaseConnection, alarms: &[Alarm]) -> Vec<Key> {
    let alarms: Vec<_> = alarms.iter().map(|one| (one, one.version - 1)).collect();
    save(db, &alarms, at(0)).await.unwrap()
}

/// S0-R9
#[tokio::test]
async fn of_two_writers_of_one_alarm_one_wins() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder).await;
    let first = alarm("a", 1, Phase::Pending(at(5)));
    assert_eq!(put(&db, std::slice::from_ref(&first)).await, []);
    let other = alarm("b", 1, Phase::Cleared);
    let lost = put(&db, &[alarm("a", 1, Phase::Cleared), other.clone()]).await;
    assert_eq!(lost, std::slice::from_ref(&first.key));
    let second = alarm("a", 2, Phase::Fired);
    assert_eq!(put(&db, std::slice::from_ref(&second)).await, []);
    let lost = put(&db, std::slice::from_ref(&second)).await;
    assert_eq!(lost, std::slice::from_ref(&first.key));
    let keys = [
        first.key,
        other.key.clone(),
        alarm("c", 1, Phase::Fired).key,
    ];
    let mut found = load(&db, &keys).await.unwrap();
    found.sort_by(|one, two| one.key.cmp(&two.key));
    assert_eq!(found, [second, other]);
}

#[tokio::test]
async fn due_alarms_come_in_order_and_in_pages_even_within_one_instant() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder).await;
    let same = (0..PAGE + 3).map(|n| alarm(&format!("s{n:06}"), 1, Phase::Pending(at(1_000))));
    let alarms: Vec<_> = same
        .chain(
            [0, 120, 999, 1_001, 2_000]
                .map(|ms| alarm(&format!("t{ms}"), 1, Phase::Pending(at(ms)))),
        )
        .chain([alarm("fired", 1, Phase::Fired)])
        .collect();
    assert_eq!(put(&db, &alarms).await, []);
    let mut found = Vec::new();
    loop {
        let page = due(&db, at(2_000), found.last()).await.unwrap();
        let full = page.len() as u64 == PAGE;
        found.extend(page);
        if !full {
            break;
        }
    }
    assert_eq!(found.len(), alarms.len() - 2);
    assert!(found.is_sorted());
    assert_eq!(next_due(&db, None).await.unwrap(), Some(at(0)));
    assert_eq!(next_due(&db, Some(at(0))).await.unwrap(), Some(at(120)));
    assert_eq!(next_due(&db, Some(at(2_000))).await.unwrap(), None);
    let second = at(0).timestamp();
    let near = buckets(&db, at(0), at(2_000)).await.unwrap();
    assert_eq!(
        near.into_iter().collect::<Vec<_>>(),
        [(0, second), (0, second + 1)]
    );
}
