//! The crash points of rehearsals. They belong to the gateway, which has no kernel: it dies at the start of a rehearsal,
//! at a page of runs, at its end, and in the sweeps. Nothing is half done, and a dead rehearsal is marked (Words 6).

use std::time::Duration;

use holdpoint_testkit::postgres;
use serde_json::{Value, json};

use crate::world::{PATIENCE, World};

const CONTACTS: u64 = 3;

/// A death while a rehearsal runs, and what the restarted gateway has of it: none, or its status after the silence of a
/// dead gateway and its rehearsed contacts. The first contact comes with the start.
const DEATHS: [(&str, Option<(&str, u64)>); 6] = [
    ("decided:1:start_rehearsal", None),
    ("committed:1:start_rehearsal", Some(("interrupted", 1))),
    ("decided:1:rehearse_contacts", Some(("interrupted", 1))),
    (
        "committed:1:rehearse_contacts",
        Some(("interrupted", CONTACTS)),
    ),
    ("decided:1:end_rehearsal", Some(("interrupted", CONTACTS))),
    ("committed:1:end_rehearsal", Some(("completed", CONTACTS))),
];

#[tokio::test]
async fn a_rehearsal_is_whole_or_marked() {
    dies_everywhere(&[]).await;
}

/// The same on Postgres.
#[tokio::test]
async fn a_rehearsal_is_whole_or_marked_on_postgres() {
    let Some(postgres) = postgres().await.unwrap() else {
        return;
    };
    dies_everywhere(&["--database-url", &postgres.url]).await;
}

fn rehearsal() -> Value {
    let agent = json!({ "agent": "a", "steps": [{ "wait": "1 day" }] });
    let contacts = (0..CONTACTS).map(|n| json!({ "id": format!("c{n}") }));
    json!({ "text": agent.to_string(), "contacts": contacts.collect::<Vec<_>>() })
}

/// Restarts the system so that it dies at a crash point.
async fn arm(world: &mut World, case: &str) -> anyhow::Result<()> {
    let crash = ("HOLDPOINT_CRASH".to_owned(), format!("gateway:{case}"));
    disarm(world);
    world.up.options_mut().env.push(crash);
    world.up.terminate().await.unwrap();
    world.up.restart().await
}

fn disarm(world: &mut World) {
    let env = &mut world.up.options_mut().env;
    env.retain(|(name, _)| name != "HOLDPOINT_CRASH");
}

async fn revive(world: &mut World) {
    world.up.ended(PATIENCE).await.unwrap();
    disarm(world);
    world.up.restart().await.unwrap();
}

async fn all(world: &World) -> Vec<Value> {
    let (status, page) = world.up.get("/rehearsals").await.unwrap();
    assert_eq!(status, 200, "{page}");
    page["items"].as_array().unwrap().clone()
}

async fn dies_everywhere(args: &[&str]) {
    let mut world = World::with_test_clock_and(args).await;
    let mut seen = 0;
    for (case, left) in DEATHS {
        arm(&mut world, case).await.unwrap();
        // The reply is lost if it dies before.
        drop(world.up.post("/rehearsals", &rehearsal()).await);
        revive(&mut world).await;
        let found = all(&world).await;
        let Some((status, rehearsed)) = left else {
            assert_eq!(found.len(), seen, "{case}");
            continue;
        };
        seen += 1;
        assert_eq!(found.len(), seen, "{case}: {found:?}");
        world.advance("46s").await;
        let found = all(&world).await;
        assert_eq!(found[0]["status"], status, "{case}: {found:?}");
        assert_eq!(found[0]["rehearsed"], rehearsed, "{case}: {found:?}");
        let path = format!("/rehearsals/{}/runs", found[0]["id"].as_str().unwrap());
        let (_, runs) = world.up.get(&path).await.unwrap();
        let runs = runs["items"].as_array().unwrap();
        assert_eq!(runs.len() as u64, rehearsed, "{case}: {runs:?}");
    }
    dies_in_a_sweep(&mut world).await;
}

/// A sweep at the start of the gateway marks a dead rehearsal, and another one deletes those of the last week.
async fn dies_in_a_sweep(world: &mut World) {
    arm(world, "committed:1:start_rehearsal").await.unwrap();
    drop(world.up.post("/rehearsals", &rehearsal()).await);
    revive(world).await;
    world.advance("46s").await;
    // It dies before it is ready.
    drop(arm(world, "committed:1:interrupt_rehearsals").await);
    revive(world).await;
    let marked = all(world).await;
    assert_eq!(marked[0]["status"], "interrupted", "{marked:?}");
    world.advance("8d").await;
    for case in [
        "decided:1:forget_rehearsals",
        "committed:1:forget_rehearsals",
    ] {
        drop(arm(world, case).await);
        world.up.ended(PATIENCE).await.unwrap();
    }
    revive(world).await;
    assert!(all(world).await.is_empty());
    // The next one is rehearsed as always.
    let (status, started) = world.up.post("/rehearsals", &rehearsal()).await.unwrap();
    assert_eq!(status, 201, "{started}");
    let path = format!("/rehearsals/{}", started["id"].as_str().unwrap());
    let ended = holdpoint_testkit::until(Duration::from_secs(30), "it ends", async || {
        let (_, read) = world.up.get(&path).await.ok()?;
        (read["status"] == "completed").then_some(())
    });
    ended.await.unwrap();
}
