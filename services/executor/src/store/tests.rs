//! One suite for both databases: SQLite always, Postgres where there is one.

mod activities;
mod contact_fields;
mod drift;
mod erasures;
mod golden;
mod leases;
mod only_writer;
mod operations;
mod page_order;
mod pauses;
mod retention;
mod run_limits;
mod samples;
mod stats;
mod step_rows;
mod suspension;
mod unreadable;

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::TimeDelta;
use holdpoint_auth::Secrets;
use holdpoint_clock::Clock;
use holdpoint_contracts::executor::ListContacts;
use holdpoint_contracts::history::{EventType, HistoryItem};
use holdpoint_store::{Location, begin_write, migrate, open_writer};
use sea_orm::DatabaseConnection;
use serde_json::json;

use super::*;
use crate::domain::need::GENERATED_PLAN;
use crate::domain::run::Phase;
use crate::domain::{Contact, PlanFact, Run, StepRow};
use drift::columns;
use samples::{acme, agent, contact, next, node, now, operation, plan, run, tool};

async fn sqlite() -> (tempfile::TempDir, DatabaseConnection) {
    let dir = tempfile::tempdir().unwrap();
    let location = Location::Sqlite(dir.path().join("executor.db"));
    (dir, prepared(&location).await)
}

async fn prepared(location: &Location) -> DatabaseConnection {
    migrate::<holdpoint_migrations::executor::Migrator>(location)
        .await
        .unwrap();
    open_writer(location).await.unwrap()
}

/// The whole suite, each test in a schema of its own.
#[tokio::test]
async fn postgres_behaves_as_sqlite_does() {
    let Some(postgres) = holdpoint_testkit::postgres().await.unwrap() else {
        return;
    };
    let location = |schema: &str| Location::Postgres {
        url: postgres.url.clone(),
        schema: schema.to_owned(),
    };
    let database = async |schema: &str| prepared(&location(schema)).await;
    comes_back(&database("comes_back").await).await;
    a_generated_plan_comes_back(&database("plans").await).await;
    values_and_history_come_back(&database("values").await).await;
    one_winner(&database("one_winner").await).await;
    columns(&database("columns").await).await;
    step_rows::keep(&database("steps_keep").await).await;
    step_rows::keep_the_newest_call(&database("steps_called").await).await;
    step_rows::keep_their_failures(&database("steps_reset").await).await;
    step_rows::are_read_by_name(&database("steps_named").await).await;
    labels(&database("labels").await).await;
    lists(&database("lists").await).await;
    activities::trimmed(&database("trimmed").await).await;
    activities::forgotten(&database("forgotten").await).await;
    activities::threads(&database("threads").await).await;
    leases::stand_and_end(&database("leases").await).await;
    leases::handed_over(&database("lease_events").await).await;
    leases::queued_in_pages(&database("queued").await).await;
    leases::nodes_go(&database("nodes").await).await;
    retention::expired_runs_go(&database("retention").await).await;
    run_limits::come_back(&database("places").await).await;
    run_limits::have_one_winner(&database("places_won").await).await;
    contact_fields::are_counted(&database("fields").await).await;
    contact_fields::of_older_contacts(&location("old_fields")).await;
    erasures::leave_nothing(&database("erasures").await).await;
    operations::keep_results(&database("operations").await).await;
    operations::have_bounds(&database("bounds").await).await;
    operations::outlasts_its_results(&database("replicas").await, &database("replicas").await)
        .await;
    stats::have_newest(&database("stats").await).await;
    suspension::is_kept(&database("snapshots").await).await;
    suspension::shows_calls(&database("calls").await).await;
    suspension::keeps_blobs(&database("blobs").await).await;
    pauses::wait_for_starts(&database("pauses").await, &database("pauses").await).await;
}

#[tokio::test]
async fn every_aggregate_comes_back_as_it_was_saved() {
    let (_dir, db) = sqlite().await;
    comes_back(&db).await;
    a_generated_plan_comes_back(&db).await;
    values_and_history_come_back(&db).await;
}

/// STYLE, store conformance: a guarded update has one winner.
#[tokio::test]
async fn of_two_writers_of_one_row_one_wins_and_the_other_is_told() {
    let (_dir, db) = sqlite().await;
    one_winner(&db).await;
}

/// STYLE, store conformance: migrations equal entities.
#[tokio::test]
async fn the_migrated_columns_are_those_of_the_entities() {
    let (_dir, db) = sqlite().await;
    columns(&db).await;
}

/// S2-R15
#[tokio::test]
async fn a_step_row_keeps_what_a_later_word_does_not_set() {
    let (_dir, db) = sqlite().await;
    step_rows::keep(&db).await;
    step_rows::keep_the_newest_call(&db).await;
}

/// API `POST /runs/{run}/retry`
#[tokio::test]
async fn a_reset_step_row_keeps_only_its_failures() {
    let (_dir, db) = sqlite().await;
    step_rows::keep_their_failures(&db).await;
    step_rows::are_read_by_name(&db).await;
}

/// API `GET /runs?label=`
#[tokio::test]
async fn a_label_is_found_by_its_exact_text() {
    let (_dir, db) = sqlite().await;
    labels(&db).await;
}

#[tokio::test]
async fn lists_have_an_order_a_limit_and_one_workspace() {
    let (_dir, db) = sqlite().await;
    lists(&db).await;
}

fn executor() -> Executor {
    Executor::new(Secrets::fresh().unwrap().keys().unwrap(), Clock::system())
}

/// Saves states as a batch would; returns who lost.
async fn save_all(db: &DatabaseConnection, states: &[(Aggregate, u64)]) -> Vec<Key> {
    let keys: Vec<Key> = states.iter().map(|(state, _)| key_of(state)).collect();
    let changed: Vec<_> = states
        .iter()
        .zip(&keys)
        .map(|((state, read_version), key)| Changed {
            key,
            state,
            read_version: *read_version,
        })
        .collect();
    let tx = begin_write(db).await.unwrap();
    let losers = executor().save(&tx, &changed, now()).await.unwrap();
    tx.commit().await.unwrap();
    losers
}

async fn record_all(db: &DatabaseConnection, effects: &[Effect]) {
    let tx = begin_write(db).await.unwrap();
    executor().record(&tx, effects, now()).await.unwrap();
    tx.commit().await.unwrap();
}

async fn load_all(db: &DatabaseConnection, keys: &[Key]) -> BTreeMap<Key, String> {
    let tx = begin_write(db).await.unwrap();
    let found = executor().load(&tx, keys).await.unwrap();
    tx.commit().await.unwrap();
    let shown = found
        .into_iter()
        .map(|(key, state)| (key, format!("{state:?}")));
    shown.collect()
}

async fn comes_back(db: &DatabaseConnection) {
    let mut ended = run();
    ended.phase = Phase::Completed {
        at: now(),
        summary: "1 step done.".to_owned(),
    };
    let states = [
        Aggregate::Agent(agent()),
        Aggregate::Contact(contact("ada")),
        Aggregate::Contact(Contact {
            deleted: true,
            ..contact("gone")
        }),
        Aggregate::Run(run()),
        Aggregate::Run(ended),
    ];
    let saved: Vec<_> = states.iter().map(|state| (state.clone(), 0)).collect();
    assert_eq!(save_all(db, &saved).await, []);
    let mut keys: Vec<_> = states.iter().map(key_of).collect();
    keys.push(Key::Run(RunId::fresh()));
    let expected = states
        .iter()
        .map(|state| (key_of(state), format!("{state:?}")));
    assert_eq!(load_all(db, &keys).await, expected.collect());
}

async fn values_and_history_come_back(db: &DatabaseConnection) {
    let run = RunId::fresh();
    let item = |seq| HistoryItem {
        seq,
        kind: EventType::StepCalled,
        at: now(),
        run,
        step: Some("step-01".to_owned()),
        message: "Call log".to_owned(),
        data: json!({ "text": "\u{0}\"\\" }),
    };
    let history = |items: Vec<HistoryItem>| Effect::History {
        workspace: acme(),
        run,
        items,
    };
    let value = |name: &str, value| Effect::Value {
        run,
        name: name.to_owned(),
        value: Arc::new(value),
    };
    let effects = [
        Effect::AgentVersion {
            workspace: acme(),
            agent: "outreach".parse().unwrap(),
            version: 1,
            plan: Box::new(plan()),
        },
        value("$input", json!({ "n": 1 })),
        value("step-01", json!(null)),
        history(vec![item(1), item(2)]),
        history(vec![item(3)]),
    ];
    record_all(db, &effects).await;
    record_all(db, &[value("step-01", json!([2]))]).await;
    let needs = [
        Need::Plan(acme(), "outreach".parse().unwrap(), 1),
        Need::Plan(acme(), "outreach".parse().unwrap(), 2),
        Need::Value(run, "$input".to_owned()),
        Need::Value(run, "step-01".to_owned()),
        Need::Value(RunId::fresh(), "step-01".to_owned()),
    ];
    let tx = begin_write(db).await.unwrap();
    let mut found = executor().find(&tx, &needs).await.unwrap();
    tx.commit().await.unwrap();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    let expected = vec![
        (
            needs[0].clone(),
            Fact::Plan(Arc::new(PlanFact::new(plan()))),
        ),
        (needs[2].clone(), Fact::Value(Arc::new(json!({ "n": 1 })))),
        (needs[3].clone(), Fact::Value(Arc::new(json!([2])))),
    ];
    assert_eq!(format!("{found:?}"), format!("{expected:?}"));

    assert_eq!(
        history_after(db, run, 0, 10).await.unwrap(),
        [item(1), item(2), item(3)]
    );
    assert_eq!(
        history_after(db, run, 1, 10).await.unwrap(),
        [item(2), item(3)]
    );
    assert_eq!(history_after(db, run, 0, 1).await.unwrap(), [item(1)]);
    assert_eq!(history_after(db, run, 3, 10).await.unwrap(), []);
}

/// Words 3: a run finds the plan that its planner made.
async fn a_generated_plan_comes_back(db: &DatabaseConnection) {
    let run = RunId::fresh();
    let value = Effect::Value {
        run,
        name: GENERATED_PLAN.to_owned(),
        value: Arc::new(json!(plan())),
    };
    record_all(db, &[value]).await;
    let needs = [
        Need::GeneratedPlan(run),
        Need::GeneratedPlan(RunId::fresh()),
    ];
    let tx = begin_write(db).await.unwrap();
    let found = executor().find(&tx, &needs).await.unwrap();
    tx.commit().await.unwrap();
    let fact = Fact::Plan(Arc::new(PlanFact::new(plan())));
    let expected = vec![(needs[0].clone(), fact)];
    assert_eq!(format!("{found:?}"), format!("{expected:?}"));
    let read = generated_plan(db, run).await.unwrap();
    assert_eq!(read, Some(plan()));
}

async fn one_winner(db: &DatabaseConnection) {
    let first = [
        Aggregate::Agent(agent()),
        Aggregate::Contact(contact("ada")),
        Aggregate::Run(run()),
        Aggregate::Node(node("node-a")),
        Aggregate::Tool(tool()),
        Aggregate::Operation(operation()),
    ];
    let keys: Vec<_> = first.iter().map(key_of).collect();
    let fresh: Vec<_> = first.iter().map(|state| (state.clone(), 0)).collect();
    assert_eq!(save_all(db, &fresh).await, []);
    assert_eq!(save_all(db, &fresh).await, keys, "there is a row already");

    let (winner, loser) = (next(&first, "winner"), next(&first, "loser"));
    let by_one = |states: &[Aggregate]| states.iter().map(|state| (state.clone(), 1)).collect();
    let (winner, loser): (Vec<_>, Vec<_>) = (by_one(&winner), by_one(&loser));
    assert_eq!(save_all(db, &winner).await, []);
    let after = load_all(db, &keys).await;
    assert!(
        after.values().all(|text| text.contains("winner")),
        "{after:?}"
    );
    assert_eq!(save_all(db, &loser).await, keys);
    assert_eq!(
        load_all(db, &keys).await,
        after,
        "the rows are as the winner left them"
    );

    let other = Aggregate::Contact(contact("bob"));
    let mixed = [loser[1].clone(), (other.clone(), 0)];
    assert_eq!(
        save_all(db, &mixed).await,
        [keys[1].clone()],
        "only who lost"
    );
}

async fn labels(db: &DatabaseConnection) {
    let pairs = [
        ("env", "prod"),
        ("Env", "prod"),
        ("env", "Prod"),
        ("env", "pro%"),
        ("env", "pro_"),
        ("e_v", "prod"),
        ("env", "a\"b"),
        ("env", "a\\b"),
        ("env", "a\\\"b"),
        ("x\"env", "prod"),
        ("x,\"env", "prod"),
        ("env", "prod\",\"y"),
        ("env", ""),
        ("env", "%"),
        ("env", "'; DROP TABLE runs; --"),
        ("env", "näxt\u{0}"),
        ("both", "{\"env\":\"prod\"}"),
    ];
    let labelled = |pairs: &[(&str, &str)]| Run {
        labels: pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        ..run()
    };
    let runs: Vec<_> = pairs.iter().map(|pair| labelled(&[*pair])).collect();
    let states: Vec<_> = runs
        .iter()
        .map(|run| (Aggregate::Run(run.clone()), 0))
        .collect();
    assert_eq!(save_all(db, &states).await, []);
    let find = async |label: (&str, &str)| {
        let found = list_runs(
            db,
            &Filter {
                label: Some(label),
                ..filter(&acme())
            },
        )
        .await
        .unwrap();
        found.iter().map(|run| run.id).collect::<Vec<_>>()
    };
    for (pair, run) in pairs.iter().zip(&runs) {
        assert_eq!(find(*pair).await, [run.id], "{pair:?}");
    }
    assert!(find(("env", "none")).await.is_empty());
    let two = labelled(&[("a", "1"), ("z", "2")]);
    assert_eq!(save_all(db, &[(Aggregate::Run(two.clone()), 0)]).await, []);
    for pair in [("a", "1"), ("z", "2")] {
        assert_eq!(find(pair).await, [two.id]);
    }
}

fn filter(workspace: &Workspace) -> Filter<'_> {
    Filter {
        workspace,
        status: None,
        or_open: false,
        agent: None,
        label: None,
        created_after: None,
        created_until: None,
        is_open: false,
        hold: None,
        before: None,
        limit: 100,
    }
}

async fn lists(db: &DatabaseConnection) {
    let runs: Vec<_> = (0..3).map(|_| run()).collect();
    let mut states: Vec<_> = runs
        .iter()
        .map(|run| (Aggregate::Run(run.clone()), 0))
        .collect();
    for id in ["ada", "bob", "Zoe"] {
        states.push((Aggregate::Contact(contact(id)), 0));
    }
    let gone = Contact {
        deleted: true,
        ..contact("gone")
    };
    states.push((Aggregate::Contact(gone), 0));
    assert_eq!(save_all(db, &states).await, []);
    let workspace = acme();
    let ids = |runs: Vec<Run>| runs.iter().map(|run| run.id).collect::<Vec<_>>();
    let two = Filter {
        limit: 2,
        ..filter(&workspace)
    };
    let newest = list_runs(db, &two).await.unwrap();
    assert_eq!(ids(newest), [runs[2].id, runs[1].id]);
    let older = Filter {
        before: Some(runs[1].id),
        ..filter(&workspace)
    };
    assert_eq!(ids(list_runs(db, &older).await.unwrap()), [runs[0].id]);
    let later = Filter {
        created_after: Some(now()),
        ..filter(&workspace)
    };
    assert_eq!(ids(list_runs(db, &later).await.unwrap()), []);
    let before = now() - TimeDelta::milliseconds(1);
    let since = Filter {
        created_after: Some(before),
        ..filter(&workspace)
    };
    assert_eq!(list_runs(db, &since).await.unwrap().len(), 3);

    let other = "umbrella".parse().unwrap();
    assert_eq!(ids(list_runs(db, &filter(&other)).await.unwrap()), []);
    assert_eq!(super::run(db, &other, runs[0].id).await.unwrap(), None);
    assert_eq!(
        super::run(db, &workspace, runs[0].id).await.unwrap(),
        Some(runs[0].clone())
    );

    let mut seen = Vec::new();
    let mut one = ListContacts {
        limit: 1,
        cursor: None,
        email: None,
        message_ids: Vec::new(),
    };
    loop {
        let next = list_contacts(db, &workspace, &one).await;
        let Some(contact) = next.unwrap().pop() else {
            break;
        };
        one.cursor = Some(contact.id.to_string());
        seen.push(contact.id.to_string());
    }
    seen.sort();
    assert_eq!(
        seen,
        ["Zoe", "ada", "bob"],
        "page by page, none twice, the forgotten left out"
    );
}
