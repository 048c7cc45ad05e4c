//! Table `schedules` on both databases.

use std::collections::{BTreeMap, BTreeSet};

use holdpoint_contracts::message::Actor;
use holdpoint_store::{StateRow as _, is_sqlite};
use sea_orm::{IdenStatic as _, Iterable as _, Statement};
use serde_json::json;

use super::*;
use crate::domain::{Fire, PendingStart, Schedule};

fn key(workspace: &str, name: &str) -> Key {
    Key {
        workspace: workspace.parse().unwrap(),
        owner: Owner::Scheduler,
        id: name.to_owned(),
    }
}

/// The timer of a schedule that fires next at a time.
fn scheduled(workspace: &str, name: &str, version: u64, next: i64) -> Timer {
    let run = "run_01920000000070008000000000000001".parse().unwrap();
    let spec =
        json!({ "name": name, "agent": "quick", "cron": "@daily", "input": { "n": version } });
    let schedule = Schedule {
        workspace: workspace.parse().unwrap(),
        spec: serde_json::from_value(spec).unwrap(),
        version,
        created_by: Actor("ada".into()),
        created_at: at(0),
        next_fire: Some(at(next)),
        last: Some(Fire {
            at: at(1),
            outcome: holdpoint_contracts::scheduler::FireOutcome::Refused,
            error: Some("agent `quick` not found in this workspace".into()),
        }),
        last_run: Some(run),
        pending: Some(PendingStart { rev: 7, run }),
    };
    Timer {
        key: key(workspace, name),
        version,
        rev: version,
        phase: Phase::Pending(at(next)),
        schedule: Some(Box::new(schedule)),
    }
}

#[tokio::test]
async fn schedules_are_kept_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    keeps_schedules(&open(&folder).await).await;
}

#[tokio::test]
async fn schedules_are_kept_on_postgres() {
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
    keeps_schedules(&open_writer(&location).await.unwrap()).await;
}

/// M-2, issue 17: of two replicas that handle one fire, one wins. A deletion leaves the tombstone of the timer only.
async fn keeps_schedules(db: &DatabaseConnection) {
    same_columns(db).await;
    let (a, b) = (scheduled("acme", "a", 1, 5), scheduled("acme", "b", 1, 6));
    let other = scheduled("other", "a", 1, 7);
    assert_eq!(put(db, &[a.clone(), b.clone(), other.clone()]).await, []);
    let keys = [a.key.clone(), b.key.clone(), other.key.clone()];
    assert_eq!(load(db, &keys).await, [a.clone(), b.clone(), other.clone()]);
    let (due, _) = list_due(db, at(7), None).await.unwrap();
    assert_eq!(due.len(), 2, "the wheel gets them as any other timer");
    assert_eq!(next_stop(db, at(0), at(5)).await.unwrap(), Some(at(6)));

    let fired = scheduled("acme", "a", 2, 10);
    let late = scheduled("acme", "a", 2, 11);
    assert_eq!(put(db, std::slice::from_ref(&fired)).await, []);
    assert_eq!(put(db, &[late]).await, std::slice::from_ref(&a.key));
    assert_eq!(load(db, &keys[..1]).await, std::slice::from_ref(&fired));

    let deleted = Timer {
        version: 3,
        phase: Phase::Cleared,
        schedule: None,
        ..fired.clone()
    };
    assert_eq!(put(db, std::slice::from_ref(&deleted)).await, []);
    assert_eq!(load(db, &keys[..1]).await, [deleted]);
    let acme = "acme".parse().unwrap();
    let listed = list_schedules(db, &acme, None, 10).await.unwrap();
    assert_eq!(listed, [*b.schedule.clone().unwrap()]);
    assert_eq!(list_schedules(db, &acme, Some("b"), 10).await.unwrap(), []);
    let names = names_of(db, "acme").await;
    assert_eq!(names, BTreeSet::from(["b".parse().unwrap()]));
    let again = scheduled("acme", "a", 4, 12);
    assert_eq!(put(db, std::slice::from_ref(&again)).await, []);
    assert_eq!(load(db, &keys[..1]).await, [again]);
    let found = find_schedule(db, &"other".parse().unwrap(), &"a".parse().unwrap()).await;
    assert_eq!(found.unwrap(), other.schedule.map(|schedule| *schedule));

    // A schedule that never fires again keeps its timer, and so it can be deleted.
    let ended = Timer {
        version: 2,
        phase: Phase::Fired,
        ..b
    };
    assert_eq!(put(db, &[ended]).await, []);
    delete_old(db, at(1_000_000)).await.unwrap();
    assert_eq!(load(db, &keys[1..2]).await.len(), 1);
}

async fn names_of(
    db: &DatabaseConnection,
    workspace: &str,
) -> BTreeSet<holdpoint_ids::ScheduleName> {
    let tx = begin_write(db).await.unwrap();
    let wanted: holdpoint_ids::Workspace = workspace.parse().unwrap();
    // Several workspaces are one statement, and each has its own names.
    let needs = ["acme", "other"].map(|workspace| Need::Schedules(workspace.parse().unwrap()));
    let found = scheduler().find(&tx, &needs).await.unwrap();
    assert_eq!(found.len(), needs.len());
    let mut found = found.into_iter();
    let named = found.find_map(|(Need::Schedules(workspace), Fact::Schedules(names))| {
        (workspace == wanted).then_some(names)
    });
    named.unwrap()
}

/// Compares the columns of the entity with those of the migration.
async fn same_columns(db: &DatabaseConnection) {
    let sql = if is_sqlite(db) {
        "SELECT name, \"notnull\" = 0 AS nullable FROM pragma_table_info('schedules')"
    } else {
        "SELECT column_name::text AS name, is_nullable = 'YES' AS nullable FROM information_schema.columns \
         WHERE table_schema = current_schema() AND table_name = 'schedules'"
    };
    let statement = Statement::from_string(db.get_database_backend(), sql);
    let rows = db.query_all_raw(statement).await.unwrap();
    let migrated: BTreeMap<String, bool> = rows
        .iter()
        .map(|row| {
            let nullable = row.try_get("", "nullable").unwrap();
            (row.try_get("", "name").unwrap(), nullable)
        })
        .collect();
    let columns = schedule_row::Column::iter().map(|column| {
        let nullable = column.def().is_null();
        (column.as_str().to_owned(), nullable)
    });
    assert_eq!(migrated, columns.collect());
}

/// A stored schedule of this release is read by later ones. The file is never edited.
#[test]
fn a_stored_schedule_is_read() {
    let golden = include_str!("../../../golden/schedule.1.json");
    let read: Schedule = serde_json::from_str(golden).unwrap();
    let written = serde_json::to_string_pretty(&read).unwrap() + "\n";
    assert_eq!(written, golden);
    let least: Schedule = schedule_row::Entity::read(&schedule_row::Model {
        workspace: "acme".into(),
        name: "daily".into(),
        version: 1,
        prior_version: 0,
        state: r#"{"workspace":"acme","spec":{"name":"daily","agent":"quick","cron":"@daily"},"version":1,
            "created_by":"ada","created_at":"2026-01-01T00:00:00Z","next_fire":null}"#
            .into(),
        updated_at: at(0),
    })
    .unwrap();
    assert_eq!((least.last, least.pending), (None, None));
}
