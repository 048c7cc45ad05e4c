//! The fields of a step's row over its life.

use holdpoint_contracts::run::{ActionResult, FailedAttempt, StepStatus};
use holdpoint_contracts::tool::Risk;
use holdpoint_ids::RunId;
use sea_orm::DatabaseConnection;
use serde_json::json;

use super::samples::{self, now};
use super::{record_all, steps_of};
use crate::domain::effect::Effect;
use crate::domain::{CalledTool, StepRow};

/// A field without a value keeps what the row has.
pub(super) async fn keep(db: &DatabaseConnection) {
    let run = RunId::fresh();
    let step = &samples::run().steps[0];
    let bare = |status, dispatch| StepRow {
        status,
        attempts: 1,
        dispatch,
        ..StepRow::new(run, step)
    };
    let queued = StepRow {
        tool: Some("log".to_owned()),
        request: Some(json!({ "a": 1 })),
        called: Some(Box::new(called(Risk::High, "CRM_KEY,SHOP_KEY"))),
        started_at: Some(now()),
        ..bare(StepStatus::Queued, 1)
    };
    let granted = StepRow {
        claimed_by: Some("node-a".parse().unwrap()),
        claimed_at: Some(now()),
        ..bare(StepStatus::InProgress, 1)
    };
    let result = ActionResult {
        success: false,
        description: "No.".to_owned(),
        error: Some("500".to_owned()),
        data: json!(null),
        duration_ms: 3,
    };
    let failed = StepRow {
        response: Some(result),
        error_code: Some("http_status".to_owned()),
        raw_error: Some("500 from /srv/crm/app.py".to_owned()),
        ended_at: Some(now()),
        ..bare(StepStatus::Failed, 2)
    };
    let expected = StepRow {
        status: StepStatus::Failed,
        dispatch: 2,
        claimed_by: granted.claimed_by.clone(),
        claimed_at: granted.claimed_at,
        response: failed.response.clone(),
        error_code: failed.error_code.clone(),
        raw_error: failed.raw_error.clone(),
        ended_at: failed.ended_at,
        ..queued.clone()
    };
    let effect = |row: &StepRow| Effect::Step(Box::new(row.clone()));
    // In one batch and in three: the same row.
    record_all(db, &[effect(&queued)]).await;
    record_all(db, &[effect(&granted)]).await;
    record_all(db, &[effect(&failed)]).await;
    let kept = steps_of(db, run).await.unwrap();
    assert_eq!(kept, std::slice::from_ref(&expected));
    let other = RunId::fresh();
    let at_once = [queued, granted, failed].map(|row| StepRow { run: other, ..row });
    record_all(db, &at_once.each_ref().map(effect)).await;
    let expected = StepRow {
        run: other,
        ..expected
    };
    assert_eq!(steps_of(db, other).await.unwrap(), [expected]);
}

fn called(risk: Risk, credential_id: &str) -> CalledTool {
    CalledTool {
        risk,
        waiting_confirm: risk == Risk::High,
        app: "crm".to_owned(),
        credential_id: credential_id.to_owned(),
        redaction: vec!["args.key".to_owned()],
    }
}

/// S2-R15: a further call replaces all of what counted for the last one.
pub(super) async fn keep_the_newest_call(db: &DatabaseConnection) {
    let (run, step) = (RunId::fresh(), &samples::run().steps[0]);
    let row = |called: CalledTool| StepRow {
        called: Some(Box::new(called)),
        ..StepRow::new(run, step)
    };
    let bare = CalledTool {
        app: String::new(),
        redaction: Vec::new(),
        ..called(Risk::Low, "")
    };
    let rows = [row(called(Risk::High, "CRM_KEY")), row(bare)];
    for row in &rows {
        record_all(db, &[Effect::Step(Box::new(row.clone()))]).await;
        assert_eq!(steps_of(db, run).await.unwrap(), std::slice::from_ref(row));
    }
}

/// The steps that a view shows are read by name (S2-R9).
pub(super) async fn are_read_by_name(db: &DatabaseConnection) {
    let (run, step) = (RunId::fresh(), &samples::run().steps[0]);
    let row = |item: u32| StepRow {
        step: format!("step-01-{item}"),
        ..StepRow::new(run, step)
    };
    let rows: Vec<_> = (0..1_200)
        .map(|item| Effect::Step(Box::new(row(item))))
        .collect();
    record_all(db, &rows).await;
    let wanted: Vec<_> = (0..1_200).step_by(2).map(|item| row(item).step).collect();
    let names: Vec<_> = wanted
        .iter()
        .map(String::as_str)
        .chain(["step-99"])
        .collect();
    let found = super::steps_named(db, run, &names).await.unwrap();
    assert_eq!(found.len(), wanted.len());
    assert!(found.iter().all(|row| wanted.contains(&row.step)));
    let counts = crate::store::step_row::counts(db, &[run.uuid()])
        .await
        .unwrap();
    assert_eq!(counts.get(&run.uuid()), Some(&1_200));
}

/// A reset step keeps its failed attempts, and nothing else of its row.
pub(super) async fn keep_their_failures(db: &DatabaseConnection) {
    let step = &samples::run().steps[0];
    let failed = |run| StepRow {
        tool: Some("log".to_owned()),
        request: Some(json!({ "a": 1 })),
        error_code: Some("http_status".to_owned()),
        raw_error: Some("500".to_owned()),
        claimed_by: Some("node-a".parse().unwrap()),
        claimed_at: Some(now()),
        started_at: Some(now()),
        ended_at: Some(now()),
        failed_attempts: vec![FailedAttempt {
            attempt: 1,
            dispatch: 1,
            at: now(),
            error_code: "http_status".to_owned(),
            response: ActionResult {
                success: false,
                description: "No.".to_owned(),
                error: None,
                data: json!(null),
                duration_ms: 3,
            },
        }],
        ..StepRow::new(run, step)
    };
    let reset = |run| StepRow {
        is_reset: true,
        ..StepRow::new(run, step)
    };
    let called = |run| StepRow {
        tool: Some("log".to_owned()),
        started_at: Some(now()),
        ..StepRow::new(run, step)
    };
    let effect = |row: StepRow| Effect::Step(Box::new(row));
    let (one, other) = (RunId::fresh(), RunId::fresh());
    // In one batch and in three: the same row.
    for row in [failed(one), reset(one), called(one)] {
        record_all(db, &[effect(row)]).await;
    }
    record_all(
        db,
        &[failed(other), reset(other), called(other)].map(effect),
    )
    .await;
    for run in [one, other] {
        let expected = StepRow {
            failed_attempts: failed(run).failed_attempts,
            ..called(run)
        };
        assert_eq!(steps_of(db, run).await.unwrap(), [expected]);
    }
}
