//! The sweep finds the runs of an erased contact, and their rows go with what the kernel has kept of their messages.

use chrono::TimeDelta;
use holdpoint_contracts::message::Actor;
use sea_orm::{ConnectionTrait, Statement};

use super::retention::{TABLES, rows_of};
use super::*;
use crate::domain::contact::Erasure;
use crate::domain::{Input, RunInput};
use crate::sweeps::ErasurePages;

#[tokio::test]
async fn erased_runs_leave_nothing() {
    let (_dir, db) = sqlite().await;
    leave_nothing(&db).await;
}

fn erased(completed_at: Option<DateTime<Utc>>) -> Contact {
    Contact {
        deleted: true,
        erasure: Some(Erasure {
            by: Actor("owner".to_owned()),
            at: now(),
            completed_at,
        }),
        ..contact("ada")
    }
}

/// A run about a contact.
fn run_about(id: &str, phase: Phase) -> Run {
    Run {
        contact: Some(id.parse().unwrap()),
        // The text by which the runs of a contact are found may be elsewhere.
        labels: [("contact".to_owned(), "ada".to_owned())].into(),
        phase,
        ..run()
    }
}

async fn texts(db: &DatabaseConnection, sql: &str) -> Vec<String> {
    let statement = Statement::from_string(db.get_database_backend(), sql);
    let rows = db.query_all_raw(statement).await.unwrap();
    rows.iter()
        .map(|row| row.try_get_by_index(0).unwrap())
        .collect()
}

async fn keep_messages(db: &DatabaseConnection, run: &Run) {
    let at = "'2026-03-02T09:00:00+00:00'";
    for (key, answer) in [
        (
            "acme/start_run/1",
            format!(r#"{{"ok":{{"id":"{}"}}}}"#, run.id),
        ),
        (
            "acme/put_contact/2",
            r#"{"ok":{"id":"ada","name":"Ada"}}"#.to_owned(),
        ),
        (
            "acme/put_contact/3",
            r#"{"ok":{"id":"bob","name":"Bob"}}"#.to_owned(),
        ),
        (
            "acme2/put_contact/4",
            r#"{"ok":{"id":"ada","name":"Ada"}}"#.to_owned(),
        ),
    ] {
        let sql = format!(
            "INSERT INTO idempotency (\"key\", digest, answer, created_at) \
             VALUES ('{key}', '', '{answer}', {at})"
        );
        db.execute_unprepared(&sql).await.unwrap();
    }
    for body in [
        r#"{"command":{"contact":"ada"}}"#.to_owned(),
        r#"{"command":{"contact": "ada"}}"#.to_owned(),
        format!(r#"{{"command":{{"run":"{}"}}}}"#, run.id),
        r#"{"command":{"contact":"bob"}}"#.to_owned(),
    ] {
        let sql = format!(
            "INSERT INTO dead_letters (subject, body, reason, created_at, digest, workspace) \
             VALUES ('s', '{body}', 'r', {at}, '', 'acme')"
        );
        db.execute_unprepared(&sql).await.unwrap();
    }
}

pub(super) async fn leave_nothing(db: &DatabaseConnection) {
    let ended = || Phase::Completed {
        at: now() - TimeDelta::days(1),
        summary: "1 step done.".to_owned(),
    };
    let (gone, live) = (run_about("ada", ended()), run_about("ada", Phase::Live));
    let other = run_about("bob", ended());
    let states: Vec<_> = [&gone, &live, &other]
        .map(|run| (Aggregate::Run(run.clone()), 0))
        .into_iter()
        .chain([(Aggregate::Contact(erased(None)), 0)])
        .collect();
    assert_eq!(save_all(db, &states).await, []);
    let effects: Vec<_> = [&gone, &other].into_iter().flat_map(rows_of).collect();
    record_all(db, &effects).await;
    keep_messages(db, &gone).await;

    let mut pages = ErasurePages::default();
    let (inputs, more) = pages.next(db).await.unwrap();
    assert!(more, "a page from the beginning has to find nothing");
    let is_cancel = |input: &Input| matches!(input, Input::Run { run, input: RunInput::Cancel { .. }, .. } if *run == live.id);
    let is_erasure =
        |input: &Input| matches!(input, Input::EraseRun { run, .. } if *run == gone.id);
    assert!(
        inputs.iter().any(is_cancel) && inputs.iter().any(is_erasure),
        "{inputs:?}"
    );
    assert_eq!(inputs.len(), 2, "{inputs:?}");

    let delete = |run: &Run| Effect::DeleteRun {
        workspace: acme(),
        run: run.id,
    };
    let traces = Effect::EraseContactTraces {
        workspace: acme(),
        contact: "ada".parse().unwrap(),
    };
    record_all(db, &[delete(&gone), delete(&live), traces]).await;
    for (table, column) in TABLES {
        let sql = format!("SELECT '{table}' FROM {table} GROUP BY {column}");
        assert_eq!(texts(db, &sql).await, [table], "only those of one run");
    }
    let answers = texts(db, "SELECT answer FROM idempotency ORDER BY answer").await;
    let (gone_answers, kept): (Vec<_>, Vec<_>) =
        answers.iter().partition(|it| it.contains("\"erased\""));
    assert_eq!(gone_answers.len(), 2, "{answers:?}");
    assert_eq!(
        kept,
        [
            r#"{"ok":{"id":"ada","name":"Ada"}}"#,
            r#"{"ok":{"id":"bob","name":"Bob"}}"#
        ],
        "of the other workspace, and of another contact"
    );
    let letters = texts(db, "SELECT body FROM dead_letters").await;
    assert_eq!(letters, [r#"{"command":{"contact":"bob"}}"#]);

    let (inputs, _) = pages.next(db).await.unwrap();
    assert!(
        matches!(inputs.as_slice(), [Input::ErasureCompleted { .. }]),
        "{inputs:?}"
    );
    let completed = Contact {
        version: 2,
        ..erased(Some(now()))
    };
    assert_eq!(
        save_all(db, &[(Aggregate::Contact(completed), 1)]).await,
        []
    );
    assert_eq!(pages.next(db).await.unwrap(), (Vec::new(), false));
}
