//! One suite for both databases: SQLite always, Postgres where there is one.

mod due_deliveries;
mod golden;
mod inbox_entries;
mod run_ends;

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use holdpoint_migrations::notification::Migrator;
use holdpoint_store::{
    ChangedState, ColumnRow as _, Location, StateRow as _, Transaction, begin_write, is_sqlite,
    migrate, open_writer,
};
use sea_orm::{
    ColumnTrait, ConnectionTrait as _, DatabaseConnection, EntityTrait, Iterable, Statement,
};

use holdpoint_contracts::notification::{Channel, RequestEventKind, Watched};
use holdpoint_ids::Workspace;
use holdpoint_testkit::Plans;

use super::event_row::FairQueue;
use super::retention::{delete_expired as forget, has_expired};
use super::{
    change_row, delivery_row, event_row, inbox_entry_row, preferences_row, secret_row, watch_row,
    webhook_row,
};

use crate::domain::testing::{request_event as fact, webhook};
use crate::domain::{
    Aggregate, DeliveryTarget, FanOutProgress, Key, Need, NewDeliveries, NotificationEvent,
    PlannedDelivery, Recipient, Subject, Watch,
};

pub(crate) use inbox_entry_row::Entity as InboxEntries;

fn keys<S: Clone + Into<Aggregate>>(states: &[(&S, u64)]) -> Vec<Key> {
    let key = |(state, _): &(&S, u64)| (*state).clone().into().key().unwrap();
    states.iter().map(key).collect()
}

fn changed<'s, S>(states: &[(&'s S, u64)], keys: &'s [Key]) -> Vec<ChangedState<'s, S, Key>> {
    let changed = |(key, (state, read_version)): (&'s Key, &(&'s S, u64))| ChangedState {
        state: *state,
        key,
        read_version: *read_version,
    };
    keys.iter().zip(states).map(changed).collect()
}

/// Saves watches under the versions that were read; returns the keys of those that lost.
async fn save_watches(tx: &Transaction, all: &[(&Watch, u64)], now: DateTime<Utc>) -> Vec<Key> {
    let keys = keys(all);
    let saved = watch_row::Entity::save(tx, &changed(all, &keys), now).await;
    saved.unwrap()
}

/// Saves events, as [`save_watches`] does.
async fn save_events(
    tx: &Transaction,
    all: &[(&NotificationEvent, u64)],
    now: DateTime<Utc>,
) -> Vec<Key> {
    let keys = keys(all);
    let saved = event_row::Entity::save(tx, &changed(all, &keys), now).await;
    saved.unwrap()
}

async fn load_watches(tx: &Transaction, all: &[&Watch]) -> Vec<Watch> {
    let key = |one: &&Watch| {
        let (workspace, person) = (one.workspace.to_string(), one.person.to_string());
        (workspace, person, one.of.to_string())
    };
    let keys: Vec<_> = all.iter().map(key).collect();
    let loaded = watch_row::Entity::load_states(tx, &keys).await;
    loaded.unwrap()
}

/// Migrated columns are those of the entity, and as nullable.
async fn same_columns<E: EntityTrait>(db: &DatabaseConnection, entity: E) {
    use sea_orm::IdenStatic as _;
    let table = entity.table_name().to_owned();
    let sql = if is_sqlite(db) {
        format!("SELECT name, \"notnull\" = 0 AS nullable FROM pragma_table_info('{table}')")
    } else {
        format!(
            "SELECT column_name::text AS name, is_nullable = 'YES' AS nullable FROM information_schema.columns \
             WHERE table_schema = current_schema() AND table_name = '{table}'"
        )
    };
    let statement = Statement::from_string(db.get_database_backend(), sql);
    let rows = db.query_all_raw(statement).await.unwrap();
    let migrated: BTreeSet<(String, bool)> = rows
        .iter()
        .map(|row| {
            let nullable = row.try_get("", "nullable").unwrap();
            (row.try_get("", "name").unwrap(), nullable)
        })
        .collect();
    let named =
        E::Column::iter().map(|column| (column.as_str().to_owned(), column.def().is_null()));
    assert_eq!(migrated, named.collect(), "table {table}");
}

async fn all(location: &Location) {
    migrate::<Migrator>(location).await.unwrap();
    let db = open_writer(location).await.unwrap();
    let instant = "2026-01-01T00:00:00Z".parse().unwrap();
    assert!(!has_expired(&db, instant).await.unwrap());
    let tx = begin_write(&db).await.unwrap();
    forget(&tx, instant).await.unwrap();
    tx.commit().await.unwrap();
    same_columns(&db, event_row::Entity).await;
    same_columns(&db, inbox_entry_row::Entity).await;
    same_columns(&db, change_row::Entity).await;
    same_columns(&db, delivery_row::Entity).await;
    same_columns(&db, secret_row::Entity).await;
    same_columns(&db, preferences_row::Entity).await;
    same_columns(&db, webhook_row::Entity).await;
    same_columns(&db, watch_row::Entity).await;
    watches(&db).await;
    an_unreadable_row_leaves_a_page_full(&db).await;
    inbox_entries::change_in_order(&db).await;
    inbox_entries::reminders_are_renewed(&db).await;
    // It reads all pending fan-outs, so it comes before those that leave some.
    run_ends::many_events_are_stored_in_one_commit(&db).await;
    run_ends::run_ends(&db).await;
    run_ends::old_contact_events_go(&db).await;
    each_fact_has_its_turn(&db).await;
    a_pass_notifies_a_bounded_number_of_people(&db).await;
    a_shared_notification_is_found(&db).await;
    due_deliveries::a_busy_target_fills_no_page(&db).await;
    backlogs_are_counted(&db).await;
    same_columns(&db, holdpoint_user_directory::table::row::user::Entity).await;
    same_columns(&db, holdpoint_user_directory::table::row::role::Entity).await;
}

fn in_folder(folder: &tempfile::TempDir) -> Location {
    Location::Sqlite(folder.path().join("notification.db"))
}

fn in_schema(postgres: &holdpoint_testkit::TestPostgres, schema: &str) -> Location {
    Location::Postgres {
        url: postgres.url.clone(),
        schema: schema.to_owned(),
    }
}

#[tokio::test]
async fn on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    all(&in_folder(&folder)).await;
}

/// What is looked for every few seconds is found by an index, however much is kept: SQLite takes one of a
/// part of the rows only where the question says that part in the same words.
#[tokio::test]
async fn sweeps_read_no_whole_table() {
    let folder = tempfile::tempdir().unwrap();
    let location = in_folder(&folder);
    migrate::<Migrator>(&location).await.unwrap();
    let db = open_writer(&location).await.unwrap();
    let plans = Plans::of(&db);
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    FairQueue::new(false).next(&plans, 9).await.unwrap();
    has_expired(&plans, now).await.unwrap();
    preferences_row::digests(&plans, None, now, 9)
        .await
        .unwrap();
    let mail = Channel::Email;
    delivery_row::due(&plans, mail, now, &[], 9).await.unwrap();
    let channels = [mail, Channel::Webhook];
    delivery_row::any_due(&plans, &channels, now).await.unwrap();
    let webhooks = [webhook().id];
    delivery_row::pending_of_webhooks(&plans, &webhooks)
        .await
        .unwrap();
    assert_eq!(plans.whole_tables(), Vec::<String>::new());
}

#[tokio::test]
async fn on_postgres() {
    let Some(postgres) = holdpoint_testkit::postgres().await.unwrap() else {
        return;
    };
    all(&in_schema(&postgres, "notification")).await;
}

/// Who watches is found by what they watch: each once, by name, page by page, and no more once they do
/// not; of two who write the same version one loses.
async fn watches(db: &DatabaseConnection) {
    let workspace: Workspace = "acme".parse().unwrap();
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let agent = Watched::Agent("outreach".parse().unwrap());
    let run: Watched = "run_01920000000070008000000000000001".parse().unwrap();
    let watch = |person: &str, of: &Watched| Watch {
        workspace: workspace.clone(),
        person: person.parse().unwrap(),
        of: of.clone(),
        since: Some(now),
        version: 1,
    };
    let need = |after: Option<&str>, limit| Need::Watchers {
        workspace: workspace.clone(),
        of: vec![agent.clone(), run.clone()],
        after: after.map(|name| name.parse().unwrap()),
        limit,
    };
    let all = [
        watch("cleo", &agent),
        watch("ada", &agent),
        watch("ada", &run),
        watch("bob", &run),
    ];
    let tx = begin_write(db).await.unwrap();
    let new: Vec<_> = all.iter().map(|one| (one, 0)).collect();
    assert_eq!(save_watches(&tx, &new, now).await, []);
    let lost = save_watches(&tx, &new[..1], now).await;
    assert_eq!(lost, keys(&new[..1]));
    let needs = [need(None, 2), need(Some("bob"), 2)];
    let found = watch_row::watchers(&tx, &needs).await.unwrap();
    let names = |page: usize| -> Vec<&str> { found[page].1.iter().map(|it| it.as_str()).collect() };
    assert_eq!((names(0), names(1)), (vec!["ada", "bob"], vec!["cleo"]));
    let gone = Watch {
        since: None,
        version: 2,
        ..all[0].clone()
    };
    assert_eq!(save_watches(&tx, &[(&gone, 1)], now).await, []);
    let found = watch_row::watchers(&tx, &[need(None, 9)]).await.unwrap();
    assert_eq!(found[0].1.len(), 2, "{found:?}");
    let (ada, cleo) = (&all[1].person, &all[0].person);
    assert_eq!(watch_row::count(&tx, &workspace, ada).await.unwrap(), 2);
    assert_eq!(watch_row::count(&tx, &workspace, cleo).await.unwrap(), 0);
    assert_eq!(
        watch_row::list(&tx, &workspace, ada).await.unwrap().len(),
        2
    );
    let both = [&all[0], &watch("cleo", &run)];
    assert_eq!(load_watches(&tx, &both).await, [gone]);
    let later = "2026-01-02T00:00:00Z".parse().unwrap();
    watch_row::delete_ended(&tx, later).await.unwrap();
    assert_eq!(load_watches(&tx, &both).await, []);
    tx.commit().await.unwrap();
}

/// Mend, finding `preferences_row.rs`: a page of digests that contains a row that cannot be read is full all
/// the same. A short page would end the pass, and later rows would wait.
async fn an_unreadable_row_leaves_a_page_full(db: &DatabaseConnection) {
    let at = "2026-01-01T00:00:00+00:00";
    let row = |person: &str| format!("('acme', '{person}', '{{}}', '{at}', 1, 0, '{at}', '{at}')");
    let rows = ["not a name!", "ada", "bob"].map(row).join(", ");
    let sql = format!(
        "INSERT INTO preferences (workspace, person, said, digest_at, version, prior_version, created_at, \
         updated_at) VALUES {rows}"
    );
    db.execute_unprepared(&sql).await.unwrap();
    let now = at.parse().unwrap();
    let page = preferences_row::digests(db, None, now, 2).await.unwrap();
    let names: Vec<_> = page.iter().map(|one| one.person.as_str()).collect();
    assert_eq!(names, ["ada", "bob"]);
}

/// Events that cannot be decided stay where they are, and block no other. Run ends have a queue of their own,
/// so that they delay no request.
async fn each_fact_has_its_turn(db: &DatabaseConnection) {
    let workspace: Workspace = "turns".parse().unwrap();
    let event = |number: u32| {
        let subject = if number > 6 {
            let mut end = run_ends::end(number);
            end.run = run_ends::run(number);
            Subject::RunEnd(Box::new(end))
        } else {
            let mut event = fact(1, RequestEventKind::Opened, &["@role.ops"]);
            event.id.run = run_ends::run(number);
            Subject::Request {
                event: Box::new(event),
                reopened: false,
            }
        };
        let fan_out = FanOutProgress::Watchers { after: None };
        NotificationEvent::new(&workspace, subject, fan_out)
    };
    let tx = begin_write(db).await.unwrap();
    let now: DateTime<Utc> = "2026-01-01T00:00:00Z".parse().unwrap();
    for number in 1..=8 {
        let at = now + chrono::TimeDelta::seconds(i64::from(number));
        assert_eq!(save_events(&tx, &[(&event(number), 0)], at).await, []);
    }
    tx.commit().await.unwrap();
    let mut queue = FairQueue::new(false);
    for expected in [[1, 3, 2, 4], [1, 5, 2, 6], [1, 3, 2, 4]] {
        let keys = queue.next(db, 4).await.unwrap();
        assert_eq!(keys, expected.map(|number| event(number).key()));
    }
    let mut run_ends = FairQueue::new(true);
    let keys = run_ends.next(db, 4).await.unwrap();
    assert_eq!(keys, [7, 8].map(|number| event(number).key()));
    let mut done = event(1);
    (done.fan_out, done.version) = (FanOutProgress::Done, 2);
    let tx = begin_write(db).await.unwrap();
    assert_eq!(save_events(&tx, &[(&done, 1)], now).await, []);
    tx.commit().await.unwrap();
    let keys = FairQueue::new(false).next(db, 1).await.unwrap();
    assert_eq!(keys, [event(2).key()]);
}

/// The literals of the statements are the words of the kinds.
#[test]
fn the_kinds_of_statements_are_those_of_events() {
    use holdpoint_contracts::notification::ContactEventKind;
    let list = |words: &[&str]| format!("kind IN ('{}')", words.join("','"));
    let bulk = [
        event_row::RUN_END,
        ContactEventKind::NewLead.as_str(),
        ContactEventKind::DealWon.as_str(),
        ContactEventKind::DealLost.as_str(),
    ];
    assert_eq!(event_row::BULK, list(&bulk));
    let lifecycle = event_row::LIFECYCLE.map(RequestEventKind::as_str);
    assert_eq!(event_row::OF_LIFECYCLES, list(&lifecycle));
}

/// Swift: a pass takes many events that name single users, and few that name roles.
async fn a_pass_notifies_a_bounded_number_of_people(db: &DatabaseConnection) {
    let workspace: Workspace = "bounded".parse().unwrap();
    let before: DateTime<Utc> = "2020-01-01T00:00:00Z".parse().unwrap();
    for (to, expected) in [("@user.ada", 8), ("@role.ops", 4)] {
        let tx = begin_write(db).await.unwrap();
        for number in 1..=8 {
            let mut event = fact(1, RequestEventKind::Opened, &[to]);
            event.id.run = run_ends::run(number);
            let fan_out = FanOutProgress::to(Recipient::parse_all(&event.to));
            let subject = Subject::Request {
                event: Box::new(event),
                reopened: false,
            };
            let event = NotificationEvent::new(&workspace, subject, fan_out);
            assert_eq!(save_events(&tx, &[(&event, 0)], before).await, []);
        }
        let keys = FairQueue::new(false).next(&tx, 32).await.unwrap();
        let own = keys.iter().filter(|key| key.workspace == workspace);
        assert_eq!(own.count(), expected, "{to}");
        drop(tx);
    }
}

/// Gate: a call of a fan-out that notified people for an earlier call is found by the request of that call.
async fn a_shared_notification_is_found(db: &DatabaseConnection) {
    let workspace: Workspace = "shared".parse().unwrap();
    let first = fact(1, RequestEventKind::Opened, &["@role.ops"]);
    let mut second = first.clone();
    second.id = "hold_01920000000070008000000000000001-9".parse().unwrap();
    let item = serde_json::json!({ "id": "pay-1", "tool": "pay", "args": {}, "digest": "8f43",
        "parent": "pay", "notified_with": first.id });
    second.request.items = vec![serde_json::from_value(item).unwrap()];
    let subject = Subject::Request {
        event: Box::new(second.clone()),
        reopened: false,
    };
    let fan_out = FanOutProgress::Watchers { after: None };
    let mut event = NotificationEvent::new(&workspace, subject, fan_out);
    let tx = begin_write(db).await.unwrap();
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(save_events(&tx, &[(&event, 0)], now).await, []);
    // The end of its fan-out changes nothing.
    (event.fan_out, event.version) = (FanOutProgress::Done, 2);
    assert_eq!(save_events(&tx, &[(&event, 1)], now).await, []);
    tx.commit().await.unwrap();
    let holds = [first.id, second.id];
    let found = event_row::lifecycles(db, &workspace, &holds).await.unwrap();
    assert_eq!(found[&first.id].notified_by, Some(second.id));
    assert_eq!(found[&first.id].opened, None);
    assert_eq!(found[&second.id].notified_by, None);
    assert!(found[&second.id].is_open());
}

/// Mend C-10: pending deliveries of webhooks are counted; one that is stored as dropped is not, and keeps its
/// reason.
async fn backlogs_are_counted(db: &DatabaseConnection) {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let workspace = webhook().workspace;
    let event = crate::domain::testing::stored(fact(1, RequestEventKind::Opened, &[]), false);
    let other = "wh_01920000000070008000000000000002".parse().unwrap();
    let to = |id, dropped: Option<&str>| PlannedDelivery {
        dropped: dropped.map(str::to_owned),
        ..PlannedDelivery::at_once(DeliveryTarget::Webhook(id), now)
    };
    let all = [to(webhook().id, None), to(other, Some("too far behind"))];
    let new = NewDeliveries {
        workspace: workspace.clone(),
        id: event.id(),
        priority: event.priority(),
        to: all.to_vec(),
    };
    let tx = begin_write(db).await.unwrap();
    delivery_row::insert(&tx, &[&new], now).await.unwrap();
    tx.commit().await.unwrap();
    let ids = [webhook().id, other];
    let pending = delivery_row::pending_of_webhooks(db, &ids).await.unwrap();
    assert_eq!(
        pending.into_iter().collect::<Vec<_>>(),
        [(webhook().id.to_string(), 1)]
    );
    let row = delivery_row::of_webhook(db, (&workspace, other), None, 9).await;
    let view = row.unwrap().remove(0).view();
    assert_eq!(
        view.state,
        holdpoint_contracts::notification::DeliveryState::Dropped
    );
    assert_eq!(view.last_error.as_deref(), Some("too far behind"));
}
