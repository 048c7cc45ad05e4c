use std::time::{Duration, Instant};

use holdpoint_auth::Secrets;
use holdpoint_clock::Clock;
use holdpoint_contracts::executor::ListTools;
use holdpoint_store::{Location, migrate, open_writer};
use sea_orm::{ConnectionTrait as _, DatabaseConnection};
use serde_json::{Value, json};

use super::*;

pub(in crate::queries) async fn queries(folder: &tempfile::TempDir) -> ExecutorQueries {
    let location = Location::Sqlite(folder.path().join("executor.db"));
    migrate::<holdpoint_migrations::executor::Migrator>(&location)
        .await
        .unwrap();
    let db = open_writer(&location).await.unwrap();
    let keys = Secrets::fresh().unwrap().keys().unwrap();
    ExecutorQueries::new(db, Clock::system(), keys.steps)
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
        words: None,
        action: String::new(),
        needs: Vec::new(),
        when: None,
        tool: Some(tool),
        args: None,
        approval: None,
        policies: Vec::new(),
        claim_timeout_ms: None,
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

fn tool(state: Value) -> Tool {
    serde_json::from_value(state).unwrap()
}

/// An entry of the nodes that one live node and an older one have registered.
fn offered() -> Value {
    let offer = |risk: &str, node: &str| json!({ "name": "crm.find", "version": "1", "risk": risk, "nodes": [node], "registered_at": "2026-03-02T09:00:00.000Z" });
    json!({
        "workspace": "sys",
        "spec": { "name": "crm.find", "version": "1", "risk": "high" },
        "version": 3,
        "deleted": false,
        "offers": [offer("medium", "live"), offer("high", "gone")],
        "risk_revision": 2,
    })
}

/// A step on it fails, although a node offers a tool of this name.
#[tokio::test]
async fn a_deleted_tool_is_told_and_shown_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let queries = queries(&folder).await;
    let deleted = json!({
        "workspace": "acme",
        "spec": { "name": "crm.find", "version": "1", "risk": "low", "http": { "url": "https://x.example" } },
        "version": 2,
        "deleted": true,
    });
    for (state, deleted_at) in [(deleted, "'2026-03-02T09:00:00.000Z'"), (offered(), "NULL")] {
        let workspace = &state["workspace"].as_str().unwrap();
        let sql = format!(
            "INSERT INTO tools (workspace, name, version, prior_version, state, deleted_at) \
             VALUES ('{workspace}', 'crm.find', 2, 1, '{state}', {deleted_at})"
        );
        queries.db.execute_unprepared(&sql).await.unwrap();
    }
    let acme = "acme".parse().unwrap();
    let steps = [step("find".to_owned(), "crm.find".to_owned())];
    let warnings = queries.tool_warnings(&acme, &steps).await.unwrap();
    let messages: Vec<_> = warnings.iter().map(|it| it.message.as_str()).collect();
    assert_eq!(
        messages,
        ["An operator has deleted the tool `crm.find`. A step on it fails."]
    );
    let all = ListTools {
        limit: 100,
        cursor: None,
    };
    let listed = queries.tools(&acme, &all).await.unwrap();
    let found = listed
        .items
        .iter()
        .find(|it| it.tool.name.as_str() == "crm.find");
    assert!(found.unwrap().deleted);
}

/// An operator that has seen the registrations has decided.
#[test]
fn nodes_disagree_until_an_operator_decides() {
    let live = ["live".parse().unwrap()];
    let mut entry = ToolEntry::default();
    entry.add(Arc::new(tool(offered())));
    let said = disagreement(&entry, &live).unwrap();
    assert!(said.contains("the risk (`high` counts)"), "{said}");
    for (seen, is_decided) in [(2, false), (3, true)] {
        let word = json!({
            "workspace": "acme",
            "spec": { "name": "crm.find", "version": "1", "risk": "low" },
            "version": 1,
            "deleted": false,
            "seen": seen,
        });
        entry.add(Arc::new(tool(word)));
        assert_eq!(disagreement(&entry, &live).is_none(), is_decided);
    }
}

/// Words 4: a wait that holidays make longer than 90 days is a warning, because the run would fail then.
#[test]
fn a_wait_that_holidays_make_too_long_is_a_warning() {
    let plan = |days: u32| {
        // Each Monday of ten weeks.
        let mondays = (0..10).map(|week| {
            let first: chrono::NaiveDate = "2026-03-02".parse().unwrap();
            (first + chrono::Days::new(7 * week)).to_string()
        });
        let text = json!({
            "agent": "patient", "calendar": { "holidays": mondays.collect::<Vec<_>>() },
            "steps": [{ "wait": { "business_days": days } }, { "wait": { "business_days": days } }],
        });
        Plan::compile(&text.to_string()).unwrap()
    };
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let warnings = long_waits(&plan(60), now);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    let message = &warnings[0].message;
    assert!(
        message.contains("60 business days last more than 90 days"),
        "{message}"
    );
    assert_eq!(long_waits(&plan(50), now), []);
    let later = "2027-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(
        long_waits(&plan(60), later),
        [],
        "these holidays have passed"
    );
}

/// Gate 1: arguments that a built-in tool does not take are a warning, and placeholders may have any value.
#[tokio::test]
async fn wrong_arguments_of_a_built_in_tool_are_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let queries = queries(&folder).await;
    let acme = "acme".parse().unwrap();
    let warnings = async |tool: &str, args: Value| {
        let text = json!({ "agent": "a", "steps": [{ "tool": tool, "args": args }] });
        let plan = Plan::compile(&text.to_string()).unwrap();
        let steps = crate::domain::agent::planned_steps(&plan);
        let found = queries.warnings(&acme, &plan, &steps).await.unwrap();
        found.into_iter().map(|it| it.message).collect::<Vec<_>>()
    };
    for (tool, args) in [
        ("send_email", json!({ "to": "a@x.example", "body": "x" })),
        (
            "send_email",
            json!({ "to": "a@x.example", "subject": 5, "body": "x" }),
        ),
        (
            "send_email",
            json!({ "to": "{{ contact.email }}", "subject": "x", "body": "x", "cc": "b@x.example" }),
        ),
        ("log", json!({ "message": "x", "level": "loud" })),
        ("create_task", json!({ "title": "x", "priority": "huge" })),
        ("update_contact", json!({ "replied": true })),
        ("search_contacts", json!({ "limit": 500, "tag": "x" })),
        ("http_request", json!({ "uri": "https://x.example" })),
        ("add_tag", json!({ "tag": ["x"] })),
    ] {
        let found = warnings(tool, args.clone()).await;
        assert_eq!(found.len(), 1, "{tool} {args}: {found:?}");
        assert!(found[0].contains("do not fit `args_schema`"), "{found:?}");
    }
    for (tool, args) in [
        (
            "send_email",
            json!({ "to": "{{ contact.email }}", "subject": "{{ input.x }}", "body": "x", "reply_to": "b@x.example", "idempotent": true }),
        ),
        (
            "log",
            json!({ "message": "x", "level": "{{ input.level }}" }),
        ),
        (
            "create_task",
            json!({ "title": "x", "priority": "medium", "due": "2 days", "tags": ["a"] }),
        ),
        (
            "search_contacts",
            json!({ "fields": { "stage": "won" }, "limit": 5 }),
        ),
        (
            "http_request",
            json!({ "url": "https://x.example", "method": "POST", "body": { "a": [1] } }),
        ),
        ("add_tag", json!({ "tags": ["x", "y"] })),
        ("set", json!({ "anything": [1] })),
    ] {
        let found = warnings(tool, args.clone()).await;
        assert_eq!(found, Vec::<String>::new(), "{tool} {args}");
    }
}

/// Words 2: a misspelled field is a warning with any number of contacts, and no contact is read for it.
#[tokio::test]
async fn a_field_that_no_contact_has_is_a_warning_with_any_number_of_contacts() {
    let folder = tempfile::tempdir().unwrap();
    let queries = queries(&folder).await;
    let acme = "acme".parse().unwrap();
    let warnings = async || {
        let plan =
            "agent: a\nsteps: [{ tool: log, when: contact.plna == 'pro', args: { message: x } }]";
        let plan = Plan::compile(plan).unwrap();
        let steps = crate::domain::agent::planned_steps(&plan);
        let found = queries.warnings(&acme, &plan, &steps).await.unwrap();
        found.into_iter().map(|it| it.nearest).collect::<Vec<_>>()
    };
    assert!(
        warnings().await.is_empty(),
        "without contacts nothing is known"
    );
    let count = async |names: &str| {
        let sql = format!("INSERT INTO contact_fields SELECT 'acme', name, 1000000 FROM ({names})");
        queries.db.execute_unprepared(&sql).await.unwrap();
    };
    count("SELECT 'email' AS name UNION SELECT 'plan'").await;
    assert_eq!(warnings().await, [["plan"]]);
    count(
        "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000) \
         SELECT 'f' || n AS name FROM n",
    )
    .await;
    assert!(
        warnings().await.is_empty(),
        "one of many names may be meant"
    );
}
