//! Ends of runs as rows, and what they do to what is watched.

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::notification::{RunEnded, Watched};
use holdpoint_contracts::run::RunStatus;
use holdpoint_ids::{UserName, Workspace};
use holdpoint_migrations::notification::Migrator;
use holdpoint_store::{Location, begin_write, migrate, open_writer};
use sea_orm::{ConnectionTrait as _, DatabaseConnection, Statement};
use sea_orm_migration::MigratorTrait as _;

use super::super::turns::{Fanning as _, Turns};
use super::super::{end_row, old, watch_row, watching};
use crate::domain::{End, EndKey, FanOutProgress, Key, Watch};

fn acme() -> Workspace {
    "ends".parse().unwrap()
}

fn now() -> DateTime<Utc> {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn end(number: u32) -> End {
    End {
        workspace: acme(),
        end: RunEnded {
            run: format!("run_{number:032x}").parse().unwrap(),
            agent: "outreach".parse().unwrap(),
            status: RunStatus::Failed,
            message: "It failed.".to_owned(),
            by: None,
            started_at: now(),
            ended_at: now() + TimeDelta::milliseconds(7),
            watch: 1,
            workspace_watch: 0,
        },
        fan: FanOutProgress::Watchers { after: None },
        version: 1,
    }
}

/// S0-T4: an end is stored once, and found as long as people are to be told; a run that has ended is
/// watched no more, and both go after their time.
pub(super) async fn ends(db: &DatabaseConnection) {
    let ada: UserName = "ada".parse().unwrap();
    let (first, second) = (end(1), end(2));
    let watch = |of: Watched| Watch {
        workspace: acme(),
        person: ada.clone(),
        of,
        since: Some(now()),
        version: 1,
    };
    let agent = Watched::Agent("outreach".parse().unwrap());
    let run = Watched::Run(first.end.run);
    let watches = [watch(agent.clone()), watch(run.clone())];
    let tx = begin_write(db).await.unwrap();
    let new: Vec<_> = watches.iter().map(|one| (one, 0)).collect();
    assert_eq!(watch_row::save(&tx, &new, now()).await.unwrap(), []);
    assert_eq!(watch_row::count(&tx, &acme(), &ada).await.unwrap(), 2);
    let found = watching(&tx, &acme(), &ada, &run).await.unwrap();
    assert_eq!((found.is_watched, found.watchers), (true, 1));
    let bob: UserName = "bob".parse().unwrap();
    let found = watching(&tx, &acme(), &bob, &run).await.unwrap();
    assert_eq!((found.is_watched, found.watchers), (false, 1));

    let both = [(&first, 0), (&second, 0)];
    assert_eq!(end_row::save(&tx, &both, now()).await.unwrap(), []);
    let key = EndKey::of(&acme(), &first.end);
    let lost = end_row::save(&tx, &both[..1], now()).await.unwrap();
    assert_eq!(lost, [Key::End(key.clone())], "once");
    let loaded = end_row::load(&tx, &[&key]).await.unwrap();
    assert_eq!(loaded, std::slice::from_ref(&first));
    assert_eq!(EndKey::fanning(&tx, 0, 9).await.unwrap().len(), 2);
    let done = End {
        fan: FanOutProgress::Done,
        version: 2,
        ..first.clone()
    };
    assert_eq!(end_row::save(&tx, &[(&done, 1)], now()).await.unwrap(), []);
    let left = EndKey::fanning(&tx, 0, 9).await.unwrap();
    assert_eq!(left, [EndKey::of(&acme(), &second.end)]);

    let listed = watch_row::list(&tx, &acme(), &ada).await.unwrap();
    assert_eq!(listed, watches[..1], "the run has ended");
    assert_eq!(watch_row::count(&tx, &acme(), &ada).await.unwrap(), 1);
    let later = now() + TimeDelta::days(1);
    assert!(old::has_old(&tx, later).await.unwrap());
    old::forget(&tx, later).await.unwrap();
    assert_eq!(end_row::load(&tx, &[&key]).await.unwrap(), []);
    let keys = [
        (&watches[0].workspace, &ada, &run),
        (&watches[0].workspace, &ada, &agent),
    ];
    let kept = watch_row::load(&tx, &keys).await.unwrap();
    assert_eq!(kept, watches[..1]);
    tx.commit().await.unwrap();
}

/// Ends that cannot be decided stay where they are: those behind them have their turn all the same.
pub(super) async fn each_has_its_turn(db: &DatabaseConnection) {
    let tx = begin_write(db).await.unwrap();
    for number in 1..=6 {
        let at = now() + TimeDelta::seconds(i64::from(number));
        let lost = end_row::save(&tx, &[(&end(number), 0)], at).await;
        assert_eq!(lost.unwrap(), []);
    }
    tx.commit().await.unwrap();
    let mut turns = Turns::default();
    for expected in [[1, 2, 3, 4], [1, 2, 5, 6], [1, 2, 3, 4]] {
        let keys: Vec<EndKey> = turns.next(db, 4).await.unwrap();
        let expected = expected.map(|number| EndKey::of(&acme(), &end(number).end));
        assert_eq!(keys, expected);
    }
}

/// S0-T4: what was watched before there were ends is told to the executor, too.
pub(super) async fn earlier_watches_are_told(location: &Location) {
    let db = open_writer(location).await.unwrap();
    if let Location::Postgres { schema, .. } = location {
        let sql = format!("CREATE SCHEMA {schema}");
        db.execute_unprepared(&sql).await.unwrap();
    }
    Migrator::up(&db, Some(10)).await.unwrap();
    let at = "'2026-01-01T00:00:00+00:00'";
    let run = "run_01920000000070008000000000000001";
    let sql = format!(
        "INSERT INTO watches VALUES \
         ('ends', 'ada', 'agent_my.agent', {at}, 3, 2, {at}), \
         ('ends', 'ada', '{run}', {at}, 1, 0, {at}), \
         ('ends', 'ada', 'hold_01920000000070008000000000000001-1', {at}, 1, 0, {at}), \
         ('ends', 'bob', '{run}', NULL, 2, 1, {at})"
    );
    db.execute_unprepared(&sql).await.unwrap();
    db.close().await.unwrap();
    migrate::<Migrator>(location).await.unwrap();
    let db = open_writer(location).await.unwrap();
    let sql = "SELECT id, rev, body FROM desired_states WHERE kind = 'watch_run_ends' ORDER BY id";
    let statement = Statement::from_string(db.get_database_backend(), sql);
    let rows = db.query_all_raw(statement).await.unwrap();
    let read = |row: &sea_orm::QueryResult| -> (String, i64, Watched) {
        let body: String = row.try_get("", "body").unwrap();
        let of = serde_json::from_str(&body).unwrap();
        (
            row.try_get("", "id").unwrap(),
            row.try_get("", "rev").unwrap(),
            of,
        )
    };
    let desired: Vec<_> = rows.iter().map(read).collect();
    let agent = Watched::Agent("my.agent".parse().unwrap());
    assert_eq!(
        desired,
        [
            ("ada/agent_my.agent".to_owned(), 3, agent),
            (format!("ada/{run}"), 1, run.parse().unwrap()),
        ]
    );
}
