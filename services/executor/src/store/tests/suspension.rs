//! Snapshots, and the calls that they show (S1-R2, S1-R7, S1-R9).

use chrono::TimeDelta;
use holdpoint_contracts::run::{ActionResult, FailedAttempt};
use holdpoint_contracts::suspension::{BlobContent, Snapshot, SnapshotView, Supplement};
use serde_json::Value;

use super::*;
use crate::domain::{BlobChange, TOOL_CALLS_MAX};

#[tokio::test]
async fn a_snapshot_is_kept_once_a_run() {
    let (_dir, db) = sqlite().await;
    is_kept(&db).await;
}

#[tokio::test]
async fn a_snapshot_shows_the_newest_calls() {
    let (_dir, db) = sqlite().await;
    shows_calls(&db).await;
}

pub(super) fn snapshot(run: RunId, reason: &str) -> SnapshotView {
    let part = Supplement {
        checkpoint: json!({ "page": 7 }),
        ..Supplement::default()
    };
    SnapshotView {
        run,
        snapshot_json: Snapshot {
            reason: reason.to_owned(),
            auto_resumable: false,
            current_step: Some("step-01".to_owned()),
            tool_calls: Vec::new(),
            write_buffer: json!("half \u{0} \"a\\"),
            checkpoint: Value::Null,
            sandbox: None,
            other_steps: BTreeMap::from([("step-02".to_owned(), part)]),
        },
        suspended_at: now(),
        complete: false,
    }
}

async fn find(db: &DatabaseConnection, need: Need) -> Option<Fact> {
    let tx = begin_write(db).await.unwrap();
    let found = executor().find(&tx, std::slice::from_ref(&need)).await;
    tx.commit().await.unwrap();
    let found = found.unwrap().into_iter();
    found
        .filter(|(known, _)| *known == need)
        .map(|(_, fact)| fact)
        .next()
}

/// The newest one of a batch, and of all batches, counts.
pub(super) async fn is_kept(db: &DatabaseConnection) {
    let run = RunId::fresh();
    assert!(find(db, Need::Snapshot(run)).await.is_none());
    assert_eq!(snapshot_of(db, run).await.unwrap(), None);
    let first = snapshot(run, "first");
    let second = SnapshotView {
        complete: true,
        ..snapshot(run, "second")
    };
    let stored = |view: &SnapshotView| Effect::Snapshot(Arc::new(view.clone()));
    record_all(db, &[stored(&second), stored(&first)]).await;
    assert_eq!(snapshot_of(db, run).await.unwrap(), Some(first));
    record_all(db, &[stored(&second)]).await;
    assert_eq!(snapshot_of(db, run).await.unwrap(), Some(second.clone()));
    match find(db, Need::Snapshot(run)).await {
        Some(Fact::Snapshot(found)) => assert_eq!(*found, second),
        other => panic!("{other:?}"),
    }
}

/// The newest calls, with references to what is large.
pub(super) async fn shows_calls(db: &DatabaseConnection) {
    let run = run();
    let row = |number: usize, text: String| StepRow {
        step: format!("step-{number:03}"),
        tool: Some("log".to_owned()),
        request: Some(json!({ "n": number, "text": text })),
        started_at: Some(now() + TimeDelta::seconds(i64::try_from(number).unwrap())),
        dispatch: 1,
        attempts: 1,
        ..StepRow::new(run.id, &run.steps[0])
    };
    let response = ActionResult {
        success: false,
        description: "The server answered 500".to_owned(),
        error: None,
        data: Value::Null,
        duration_ms: 1,
    };
    let mut last = row(150, "x".repeat(70_000));
    last.dispatch = 3;
    last.failed_attempts = vec![FailedAttempt {
        attempt: 1,
        dispatch: 2,
        at: now() + TimeDelta::seconds(149),
        error_code: "http_status".to_owned(),
        response,
    }];
    // A call that people are asked about, or a fan-out.
    let undispatched = StepRow {
        attempts: 0,
        ..row(151, String::new())
    };
    let rows = (0..150)
        .map(|number| row(number, String::new()))
        .chain([last, undispatched]);
    let effects: Vec<_> = rows.map(|row| Effect::Step(Box::new(row))).collect();
    record_all(db, &effects).await;
    let Some(Fact::ToolCalls(calls)) = find(db, Need::ToolCalls(run.id)).await else {
        panic!("no calls");
    };
    assert_eq!(calls.len(), TOOL_CALLS_MAX);
    let newest = calls.last().unwrap();
    assert_eq!((newest.step.as_str(), newest.dispatch), ("step-150", 3));
    assert!(
        newest.request["size"].as_u64().unwrap() > 70_000,
        "{newest:?}"
    );
    let failed = calls.iter().find(|call| call.dispatch == 2).unwrap();
    assert_eq!(failed.error_code.as_deref(), Some("http_status"));
    assert!(calls.iter().any(|call| call.request["n"] == 149));
    let other = find(db, Need::ToolCalls(RunId::fresh())).await;
    assert!(matches!(other, Some(Fact::ToolCalls(calls)) if calls.is_empty()));
}

#[tokio::test]
async fn blobs_are_read_back_and_expire() {
    let (_dir, db) = sqlite().await;
    keeps_blobs(&db).await;
}

pub(super) fn chunk_of(run: RunId, offset: u64, bytes: &[u8], days: Option<i64>) -> Effect {
    blob(
        run,
        BlobChange::Chunk {
            offset,
            content: BlobContent(bytes.into()),
            expires_at: days.map(|days| now() + TimeDelta::days(days)),
        },
    )
}

fn blob(run: RunId, change: BlobChange) -> Effect {
    Effect::Blob {
        run,
        step: "step-01".to_owned(),
        sha256: "aa".to_owned(),
        change,
    }
}

/// S1-R9: chunks are read from any byte, and expire without a reference.
pub(super) async fn keeps_blobs(db: &DatabaseConnection) {
    let (run, other) = (RunId::fresh(), RunId::fresh());
    let read = async |run, offset| {
        let id = BlobId {
            run,
            step: "step-01",
            sha256: "aa",
        };
        let found = blob_content(db, id, offset).await.unwrap();
        found.map(|found| found.0.to_vec())
    };
    let effects = [
        chunk_of(run, 0, b"\0\xff\x01", Some(1)),
        chunk_of(run, 3, b"rest", Some(1)),
        chunk_of(other, 0, b"other", Some(1)),
    ];
    record_all(db, &effects).await;
    assert_eq!(read(run, 0).await.unwrap(), b"\0\xff\x01");
    assert_eq!(read(run, 2).await.unwrap(), b"\x01");
    assert_eq!(read(run, 4).await.unwrap(), b"est");
    assert_eq!(read(run, 7).await, None);
    assert_eq!(read(run, u64::MAX).await, None);
    // A newer upload of it, and a reference to it.
    let effects = [
        chunk_of(run, 0, b"abc", Some(2)),
        blob(run, BlobChange::Expire(None)),
    ];
    record_all(db, &effects).await;
    let before = now() + TimeDelta::days(3);
    assert!(has_expired_blobs(db, before).await.unwrap());
    record_all(db, &[Effect::DeleteExpiredBlobs { before }]).await;
    assert!(!has_expired_blobs(db, before).await.unwrap());
    assert_eq!(read(run, 0).await.unwrap(), b"abc");
    assert_eq!(read(other, 0).await, None);
    record_all(db, &[blob(run, BlobChange::Delete)]).await;
    assert_eq!(read(run, 0).await, None);
    // A batch deletes an upload, and another one begins. Changes count in their order.
    record_all(
        db,
        &[
            chunk_of(run, 0, b"old", None),
            chunk_of(run, 3, b"er", None),
        ],
    )
    .await;
    let effects = [
        chunk_of(run, 5, b"oldest", Some(1)),
        blob(run, BlobChange::Delete),
        chunk_of(run, 0, b"new", Some(1)),
        blob(run, BlobChange::Expire(Some(now() + TimeDelta::days(9)))),
    ];
    record_all(db, &effects).await;
    record_all(db, &[Effect::DeleteExpiredBlobs { before }]).await;
    assert_eq!(read(run, 0).await.unwrap(), b"new");
    assert_eq!(read(run, 3).await, None);
    // A batch changes more blobs than one statement takes values.
    let runs = std::iter::repeat_with(RunId::fresh).take(22_000);
    let runs: Vec<_> = runs.chain([run]).collect();
    for change in [BlobChange::Expire(None), BlobChange::Delete] {
        let effects: Vec<_> = runs.iter().map(|run| blob(*run, change.clone())).collect();
        record_all(db, &effects).await;
    }
    assert_eq!(read(run, 0).await, None);
}
