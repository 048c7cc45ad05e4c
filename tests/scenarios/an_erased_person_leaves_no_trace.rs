//! `POST /contacts/{contact}/erase`: no database and no file has the person's data any more, and the record of decisions
//! stays (issue 17).

use std::path::{Path, PathBuf};

use async_nats::jetstream;
use holdpoint_bus::Bus;
use holdpoint_testkit::{Person, Up, UpOptions, postgres, until};
use sea_orm::{ConnectionTrait as _, Database, DatabaseConnection, Statement};
use serde_json::{Value, json};

use crate::shop::Shop;
use crate::world::PATIENCE;

/// In everything that is written about the person.
const MARKER: &str = "zq7marker";

/// A bystander, whose data stays.
const OTHER: &str = "xk4bystander";

const PERSON: &str = "/contacts/c-17";

async fn done(up: &Up, path: &str, body: &Value) -> Value {
    let (status, body) = up.post(path, body).await.unwrap();
    assert!((200..=202).contains(&status), "{path}: {status} {body}");
    body
}

async fn run_of(up: &Up, id: &str) -> Value {
    up.get(&format!("/runs/{id}")).await.unwrap().1
}

/// The request that a run waits on.
async fn asked(up: &Up, run: &str) -> String {
    let asked = until(PATIENCE, "the run asks", async || {
        let run = run_of(up, run).await;
        let asked = run["waiting_on"][0]["id"].as_str()?.to_owned();
        Some(asked).filter(|_| run["status"] != "waiting")
    });
    asked.await.unwrap()
}

async fn until_status(up: &Up, run: &str, status: &str) {
    until(PATIENCE, &format!("the run is {status}"), async || {
        (run_of(up, run).await["status"] == status).then_some(())
    })
    .await
    .unwrap();
}

/// The agents: one asks, gets an approval with edited arguments, creates a task and waits; one fails.
async fn define(up: &Up, shop: &Shop) {
    let tool = json!({ "name": "payments.refund", "version": "3", "risk": "high", "idempotent": true,
        "http": { "method": "POST", "url": shop.url("/refunds") } });
    done(up, "/tools", &tool).await;
    let steps = json!([
        { "tool": "send_email", "args": { "to": "{{ contact.email }}",
            "subject": "Hello {{ contact.name }}", "body": "Dear {{ contact.name }}" } },
        { "ask": { "to": "@user.ada", "question": "Shall we refund {{ contact.name }}?",
            "timeout": "1 day" } },
        { "id": "refund", "tool": "payments.refund", "args": { "order": "{{ contact.name }}" } },
        { "tool": "create_task", "args": { "title": "Call {{ contact.name }}",
            "assignee": "@user.ada" } },
        { "wait": "5 days" },
    ]);
    done(
        up,
        "/agents",
        &json!({ "agent": "refunds", "steps": steps }),
    )
    .await;
    let fails = json!([{ "tool": "send_email",
        "args": { "to": "{{ contact.name }}", "subject": "x", "body": "{{ contact.name }}" } }]);
    done(up, "/agents", &json!({ "agent": "fails", "steps": fails })).await;
}

async fn start(up: &Up, agent: &str, contact: &str, marker: &str) -> String {
    let body =
        json!({ "contact": contact, "input": { "note": marker }, "labels": { "who": marker } });
    let run = done(up, &format!("/agents/{agent}/runs"), &body).await;
    run["id"].as_str().unwrap().to_owned()
}

/// Plays a run up to its wait: a mail, an answer, an approval with edited arguments, a task, a suspension.
async fn play(up: &Up, ada: &Person, contact: &str, marker: &str) -> (String, [String; 2]) {
    let run = start(up, "refunds", contact, marker).await;
    let question = asked(up, &run).await;
    let answer = json!({ "answer": format!("yes, refund {marker}") });
    let path = format!("/requests/{question}/respond");
    let (status, decided) = ada.post(up, &path, &answer).await.unwrap();
    assert_eq!(status, 200, "{decided}");
    let approval = until(PATIENCE, "the approval is asked for", async || {
        let run = run_of(up, &run).await;
        let id = run["waiting_on"][0]["id"].as_str()?.to_owned();
        Some(id).filter(|_| run["status"] == "awaiting_approval")
    });
    let approval = approval.await.unwrap();
    let digest = &run_of(up, &run).await["steps"][2]["approval_state"]["digest"];
    let body = json!({ "approvedSteps": ["refund"], "comment": format!("half for {marker}"),
        "editedArgs": { "refund": { "order": marker, "half": true } },
        "digests": { "refund": digest } });
    done(up, &format!("/runs/{run}/approve"), &body).await;
    until_status(up, &run, "waiting").await;
    let reason = json!({ "reason": format!("{marker} called") });
    done(up, &format!("/runs/{run}/suspend"), &reason).await;
    (run, [question, approval])
}

async fn put(up: &Up, path: &str, marker: &str) {
    let fields =
        json!({ "name": marker, "email": format!("{marker}@example.org"), "note": marker });
    let (status, body) = up.put(path, &fields).await.unwrap();
    assert_eq!(status, 200, "{body}");
    let reply = json!({ "kind": "email_in", "subject": "Re", "text": format!("{marker} here") });
    let path = format!("{path}/activities");
    let (status, body) = up.post_under(marker, &path, &reply).await.unwrap();
    assert_eq!(status, 201, "{body}");
}

/// Publishes a command about the person that the executor cannot read.
async fn dead_letter(up: &Up) {
    let bus = Bus::connect(&up.nats_url, "program").await.unwrap();
    let jetstream = jetstream::new(bus.client().clone());
    let body = json!({ "actor": "crm",
        "command": { "contact": "c-17", "patch": MARKER, "name": MARKER } });
    let subject = "hp.default.cmd.executor.0.patch_contact";
    let stored = jetstream.publish(subject, body.to_string().into()).await;
    stored.unwrap().await.unwrap();
    let kept = until(PATIENCE, "the dead letter is kept", async || {
        let (_, page) = up.get("/dead").await.ok()?;
        page.to_string().contains("patch_contact").then_some(())
    });
    kept.await.unwrap();
}

async fn erased(up: &Up) -> Value {
    let (status, begun) = up
        .post(&format!("{PERSON}/erase"), &json!({}))
        .await
        .unwrap();
    assert_eq!(
        (status, &begun["requested_by"]),
        (202, &json!("owner")),
        "{begun}"
    );
    let ended = until(PATIENCE, "the erasure is complete", async || {
        let (_, erasure) = up.get(&format!("{PERSON}/erasure")).await.ok()?;
        let is_over = erasure["state"] == "completed" && erasure["requests_left"] == 0;
        is_over.then_some(erasure)
    });
    ended.await.unwrap()
}

/// What is left of a request.
async fn is_recorded(up: &Up, id: &str, outcome: &str) {
    let (status, request) = up.get(&format!("/requests/{id}")).await.unwrap();
    assert!(
        status == 200 && request["erased_at"].is_string(),
        "{request}"
    );
    assert_eq!(request["outcome"], outcome, "{request}");
    assert!(
        request["decided_by"].is_string() && request["decided_at"].is_string(),
        "{request}"
    );
    assert_eq!(request["question"], "erased", "{request}");
    let history = request["history"].as_array().unwrap();
    assert_eq!(history.last().unwrap()["action"], "erased", "{request}");
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    let nested = paths.map(|path| {
        if path.is_dir() {
            files(&path)
        } else {
            vec![path]
        }
    });
    nested.flatten().collect()
}

fn files_with(dir: &Path, text: &str) -> Vec<PathBuf> {
    let has = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    };
    files(dir).into_iter().filter(has).collect()
}

/// Columns of all tables with the text, on Postgres.
async fn columns_with(db: &DatabaseConnection, text: &str) -> Vec<String> {
    let backend = db.get_database_backend();
    let columns = "SELECT format('%I.%I', table_schema, table_name), column_name \
        FROM information_schema.columns WHERE table_schema NOT IN ('pg_catalog', 'information_schema') \
        AND data_type IN ('text', 'character varying')";
    let mut found = Vec::new();
    for row in db
        .query_all_raw(Statement::from_string(backend, columns))
        .await
        .unwrap()
    {
        let table: String = row.try_get_by_index(0).unwrap();
        let column: String = row.try_get_by_index(1).unwrap();
        let any = format!("SELECT 1 FROM {table} WHERE \"{column}\" LIKE '%{text}%' LIMIT 1");
        let any = db.query_one_raw(Statement::from_string(backend, any)).await;
        if any.unwrap().is_some() {
            found.push(format!("{table}.{column}"));
        }
    }
    found
}

async fn places_with(up: &Up, db: Option<&DatabaseConnection>, text: &str) -> Vec<String> {
    let paths = files_with(&up.data_dir(), text);
    let mut places: Vec<_> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    if let Some(db) = db {
        places.extend(columns_with(db, text).await);
    }
    places
}

/// Issue 17, with the tables in files.
#[tokio::test]
async fn an_erased_person_leaves_no_trace() {
    leaves_no_trace(None).await;
}

/// The same on Postgres.
#[tokio::test]
async fn an_erased_person_leaves_no_trace_on_postgres() {
    let Some(postgres) = postgres().await.unwrap() else {
        return;
    };
    leaves_no_trace(Some(&postgres.url)).await;
}

async fn leaves_no_trace(database: Option<&str>) {
    drop(rustls::crypto::ring::default_provider().install_default());
    let args = database.map_or_else(Vec::new, |url| {
        vec!["--database-url".to_owned(), url.to_owned()]
    });
    let options = UpOptions {
        args,
        ..UpOptions::default()
    };
    // With a bus of its own, whose files are in the data folder.
    let mut up = Up::start(options).await.unwrap();
    let db = match database {
        Some(url) => Some(Database::connect(url).await.unwrap()),
        None => None,
    };
    let shop = Shop::open().await;
    define(&up, &shop).await;
    let ada = Person::join(&up, "ada", &["member"]).await.unwrap();
    put(&up, PERSON, MARKER).await;
    put(&up, "/contacts/c-18", OTHER).await;
    let (run, [question, approval]) = play(&up, &ada, "c-17", MARKER).await;
    let (other, [kept, _]) = play(&up, &ada, "c-18", OTHER).await;
    let failed = start(&up, "fails", "c-17", MARKER).await;
    until_status(&up, &failed, "failed").await;
    dead_letter(&up).await;
    let before = places_with(&up, db.as_ref(), MARKER).await;
    for part in ["executor", "handoff", "notification", ".eml"] {
        assert!(
            before.iter().any(|place| place.contains(part)),
            "{part}: {before:?}"
        );
    }

    let erasure = erased(&up).await;
    assert_eq!(erasure["runs_left"], 0, "{erasure}");
    for gone in [&run, &failed] {
        assert_eq!(up.get(&format!("/runs/{gone}")).await.unwrap().0, 404);
    }
    assert_eq!(up.get(PERSON).await.unwrap().0, 404);
    is_recorded(&up, &question, "answered").await;
    is_recorded(&up, &approval, "approved").await;
    let start_again = json!({ "contact": "c-17" });
    let (status, refused) = up.post("/agents/refunds/runs", &start_again).await.unwrap();
    assert_eq!(
        (status, &refused["code"]),
        (422, &json!("unknown_contact")),
        "{refused}"
    );

    let mut left = Vec::new();
    let gone = until(PATIENCE, "no place has the marker", async || {
        left = places_with(&up, db.as_ref(), MARKER).await;
        left.is_empty().then_some(())
    });
    assert!(gone.await.is_ok(), "{left:?}");
    // It stays so after a restart, which sends what was not acknowledged.
    up.kill9().await.unwrap();
    up.restart().await.unwrap();
    assert_eq!(erased(&up).await["state"], "completed");
    assert_eq!(
        places_with(&up, db.as_ref(), MARKER).await,
        Vec::<String>::new()
    );

    assert_eq!(
        run_of(&up, &other).await["status"],
        "paused_for_intervention"
    );
    let (_, request) = up.get(&format!("/requests/{kept}")).await.unwrap();
    assert!(
        request["question"].as_str().unwrap().contains(OTHER),
        "{request}"
    );
}
