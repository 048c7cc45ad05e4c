//! Places, queues and starts that happen once.

use holdpoint_store::is_conflict;

use super::*;
use crate::domain::need::{Places, QUEUE_SEEN_MAX};
use crate::domain::run::{LimitRow, PlaceRow};

#[tokio::test]
async fn places_and_queues_come_back_in_order() {
    let (_dir, db) = sqlite().await;
    come_back(&db).await;
}

#[tokio::test]
async fn a_place_and_a_start_have_one_winner() {
    let (_dir, db) = sqlite().await;
    have_one_winner(&db).await;
}

/// Sweeps and starts search by an index, however many runs are queued.
#[tokio::test]
async fn queues_are_found_by_an_index() {
    let (_dir, db) = sqlite().await;
    let plans = holdpoint_testkit::Plans::of(&db);
    queued_keys(&plans, "", 9).await.unwrap();
    run_limit_row::find_starts(&plans, &["key"]).await.unwrap();
    run_limit_row::find_started(&plans, &["key"]).await.unwrap();
    run_limit_row::find_places(&plans, &["key", "other"])
        .await
        .unwrap();
    // The rows of a subquery are read in order.
    let mut whole = plans.whole_tables();
    whole.retain(|step| step != "SCAN part");
    assert_eq!(whole, Vec::<String>::new());
}

/// The row of a run that has no limits.
fn free(run: RunId) -> LimitRow {
    LimitRow {
        run,
        once: None,
        start: None,
        place: None,
    }
}

fn effect(row: LimitRow) -> Effect {
    Effect::Limits {
        workspace: acme(),
        row: Box::new(row),
    }
}

fn row(run: RunId, key: &str, seconds: i64, number: Option<u32>) -> Effect {
    let place = Some(PlaceRow {
        key: key.to_owned(),
        since: now() + TimeDelta::seconds(seconds),
        number,
    });
    effect(LimitRow { place, ..free(run) })
}

async fn places_of(db: &DatabaseConnection, keys: &[&str]) -> BTreeMap<String, Places> {
    let needs: Vec<_> = keys
        .iter()
        .map(|key| Need::Places((*key).to_owned()))
        .collect();
    let tx = begin_write(db).await.unwrap();
    let found = executor().find(&tx, &needs).await.unwrap();
    tx.commit().await.unwrap();
    let places = found.into_iter().filter_map(|fact| match fact {
        (Need::Places(key), Fact::Places(places)) => Some((key, (*places).clone())),
        _ => None,
    });
    places.collect()
}

pub(super) async fn come_back(db: &DatabaseConnection) {
    let runs: Vec<_> = (0..4).map(|_| RunId::fresh()).collect();
    let effects = [
        row(runs[0], "a", 0, Some(1)),
        row(runs[1], "a", 9, None),
        row(runs[2], "a", 5, None),
        row(runs[3], "b", 0, None),
    ];
    record_all(db, &effects).await;
    let many: Vec<_> = (0..250).map(|number| format!("none-{number}")).collect();
    let mut keys: Vec<_> = many.iter().map(String::as_str).collect();
    keys.extend(["a", "b"]);
    let found = places_of(db, &keys).await;
    assert_eq!(found.len(), 2);
    assert_eq!(found["a"].taken, BTreeMap::from([(1, runs[0])]));
    assert_eq!(found["a"].queue, [runs[2], runs[1]]);
    assert_eq!(found["b"].queue, [runs[3]]);
    assert_eq!(queued_keys(db, "", 9).await.unwrap(), ["a", "b"]);
    assert_eq!(queued_keys(db, "a", 9).await.unwrap(), ["b"]);
    let first = first_queued(db, &["a", "b"], 1).await.unwrap();
    let first: Vec<_> = first.into_iter().map(|queued| queued.run).collect();
    assert_eq!(first, [runs[2], runs[3]]);

    // One batch hands the place on: the place is free before it is taken.
    let handed = [row(runs[2], "a", 5, Some(1)), effect(free(runs[0]))];
    record_all(db, &handed).await;
    let found = places_of(db, &["a"]).await;
    assert_eq!(found["a"].taken, BTreeMap::from([(1, runs[2])]));

    let queued: Vec<_> = (0..QUEUE_SEEN_MAX + 5)
        .map(|_| row(RunId::fresh(), "long", 0, None))
        .collect();
    record_all(db, &queued).await;
    let found = places_of(db, &["long"]).await;
    assert_eq!(
        (found["long"].queue.len(), found["long"].has_more),
        (QUEUE_SEEN_MAX, true)
    );
}

/// The loser decides again: its error is a conflict, and no broken row.
pub(super) async fn have_one_winner(db: &DatabaseConnection) {
    let once = |run: RunId| {
        let once = Some("order 7".to_owned());
        effect(LimitRow { once, ..free(run) })
    };
    let start = |run: RunId| {
        let start = Some(("rate".to_owned(), 7, now()));
        effect(LimitRow { start, ..free(run) })
    };
    let place = |run: RunId| row(run, "won", 0, Some(0));
    let of_each = |run: fn() -> RunId| [place(run()), once(run()), start(run())];
    let both = of_each(RunId::fresh).into_iter().zip(of_each(RunId::fresh));
    for (first, second) in both {
        record_all(db, &[first]).await;
        let tx = begin_write(db).await.unwrap();
        let lost = match executor().record(&tx, &[second], now()).await {
            Ok(()) => tx.commit().await,
            Err(error) => Err(error),
        };
        let lost = lost.unwrap_err();
        // On SQLite there is one writer, and no error has the name of the index.
        assert!(is_conflict(&lost) || is_sqlite_error(&lost), "{lost:?}");
    }
    let found = Need::StartedOnce("order 7".to_owned());
    let tx = begin_write(db).await.unwrap();
    let facts = executor().find(&tx, &[found]).await.unwrap();
    tx.commit().await.unwrap();
    assert!(facts.is_empty(), "the run itself is not there");
    let need = Need::Starts("rate".to_owned());
    let tx = begin_write(db).await.unwrap();
    let facts = executor().find(&tx, &[need]).await.unwrap();
    tx.commit().await.unwrap();
    let [(_, Fact::Starts(starts))] = facts.as_slice() else {
        panic!("{facts:?}");
    };
    assert_eq!(**starts, [(7, now())]);
}

fn is_sqlite_error(error: &StoreError) -> bool {
    format!("{error:?}").contains("UNIQUE constraint failed")
}
