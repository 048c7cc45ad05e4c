use std::time::{Duration, Instant};

use holdpoint_clock::Clock;
use holdpoint_store::{Location, migrate, open_writer};
use sea_orm::{ConnectionTrait as _, DatabaseConnection};
use serde_json::json;

use super::*;

async fn queries(folder: &tempfile::TempDir) -> ExecutorQueries {
    let location = Location::Sqlite(folder.path().join("executor.db"));
    migrate::<holdpoint_migrations::executor::Migrator>(&location)
        .await
        .unwrap();
    let db = open_writer(&location).await.unwrap();
    ExecutorQueries::new(db, Clock::system())
}

/// Registers tools whose names are numbers of 100 digits.
async fn register(db: &DatabaseConnection, count: usize) {
    let state = json!({
        "workspace": "acme",
        "spec": {
            "name": "NAME",
            "risk": "low",
            "idempotent": true,
            "http": { "method": "GET", "url": "https://x.example", "headers": {} },
        },
        "version": 1,
        "deleted": false,
    });
    let sql = format!(
        "WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {count}) \
         INSERT INTO tools (workspace, name, version, prior_version, state) \
         SELECT 'acme', printf('%0100d', n), 1, 0, replace('{state}', 'NAME', printf('%0100d', n)) FROM numbers"
    );
    db.execute_unprepared(&sql).await.unwrap();
}

fn step(id: String, tool: String) -> PlannedStepView {
    PlannedStepView {
        id,
        kind: "tool".to_owned(),
        action: String::new(),
        needs: Vec::new(),
        when: None,
        tool: Some(tool),
        args: None,
        timeout_ms: None,
        retry: None,
        on_error: None,
        duration_ms: None,
        for_each: None,
        parallel: None,
    }
}

/// Mend D-5: the warning of a misspelled tool suggests the name that was perhaps meant.
#[tokio::test]
async fn a_misspelled_tool_is_told_with_the_nearest_name() {
    let folder = tempfile::tempdir().unwrap();
    let queries = queries(&folder).await;
    register(&queries.db, 3).await;
    let steps = [
        step("mail".to_owned(), "send_emial".to_owned()),
        step("again".to_owned(), "send_emial".to_owned()),
        step("log".to_owned(), "log".to_owned()),
        step("registered".to_owned(), format!("{:0100}", 2)),
    ];
    let acme = "acme".parse().unwrap();
    let warnings = queries.tool_warnings(&acme, &steps).await.unwrap();
    assert_eq!(warnings.len(), 1, "one for each unknown tool: {warnings:?}");
    assert_eq!(warnings[0].nearest, ["send_email"]);
    assert_eq!(warnings[0].step.as_deref(), Some("mail"));
    assert_eq!(warnings[0].text, "send_emial");
}

/// Mend D-5: a workspace of 1,000 tools with names of 100 characters, and an agent that calls 1,000
/// unknown ones: the answer is bounded, comes soon, and its query holds up nobody on the same thread.
#[tokio::test]
async fn a_hostile_agent_gets_bounded_warnings_and_holds_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let queries = queries(&folder).await;
    register(&queries.db, 1_000).await;
    let steps: Vec<_> = (0..1_000)
        .map(|number| step(format!("step-{number}"), format!("x{number:099}")))
        .collect();
    let acme = "acme".parse().unwrap();
    // Without bounds these are a million comparisons, which take many minutes in a test build.
    let (began, mut longest) = (Instant::now(), Duration::ZERO);
    let mut warnings = Box::pin(queries.tool_warnings(&acme, &steps));
    let warnings = loop {
        let tick = Instant::now();
        if let Ok(found) = tokio::time::timeout(Duration::from_millis(10), &mut warnings).await {
            break found.unwrap();
        }
        longest = longest.max(tick.elapsed());
    };
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "{:?}",
        began.elapsed()
    );
    assert!(
        longest < Duration::from_secs(5),
        "the thread was held: {longest:?}"
    );
    assert_eq!(warnings.len(), WARNINGS_MAX);
    let suggested = warnings
        .iter()
        .filter(|warning| !warning.nearest.is_empty());
    assert_eq!(suggested.count(), NEAREST_MAX);
    assert!(
        warnings[..NEAREST_MAX]
            .iter()
            .all(|warning| !warning.nearest.is_empty())
    );
}
