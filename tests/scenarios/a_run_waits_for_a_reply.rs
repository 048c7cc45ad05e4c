//! A run waits for the reply of its contact, and goes on when it comes.

use holdpoint_testkit::postgres;
use serde_json::{Value, json};

use crate::world::World;

const AGENT: &str = r#"
agent: patient
instructions: |
  Send email to contact with subject "Hello" and body "Shall we talk?"
  Wait until contact replies, at most 5 days
  If no reply, send email to contact with subject "Again" and body "Still there?"
"#;

async fn start(world: &World, contact: &str) -> String {
    let contact = json!({ "id": contact, "email": format!("{contact}@x.example") });
    world
        .start_run("patient", json!({ "contact": contact }))
        .await
}

async fn set_replied(world: &World, contact: &str) {
    let path = format!("/contacts/{contact}");
    let (status, _) = world
        .up
        .patch(&path, &json!({ "replied": true }))
        .await
        .unwrap();
    assert_eq!(status, 200);
}

#[tokio::test]
async fn a_reply_wakes_the_runs_of_its_contact() {
    a_reply_wakes_its_runs(&[]).await;
}

#[tokio::test]
async fn a_reply_wakes_the_runs_of_its_contact_on_postgres() {
    let Some(postgres) = postgres().await.unwrap() else {
        return;
    };
    a_reply_wakes_its_runs(&["--database-url", &postgres.url]).await;
}

/// Words 1: the reply of one contact wakes its runs at once, and no other run.
async fn a_reply_wakes_its_runs(args: &[&str]) {
    let world = World::with_test_clock_and(args).await;
    let (status, applied) = world.up.post_yaml("/agents", AGENT).await.unwrap();
    assert_eq!(status, 201, "{applied}");
    let (first, second) = (start(&world, "ann").await, start(&world, "ann").await);
    let other = start(&world, "bob").await;
    for run in [&first, &second, &other] {
        let waiting = world.until_status(run, "waiting").await;
        assert_eq!(
            waiting["message"],
            "step-02: waiting for a reply of the contact, at most 5 days more."
        );
    }
    set_replied(&world, "ann").await;
    for run in [&first, &second] {
        world.until_status(run, "completed").await;
    }
    assert_eq!(world.run(&other).await["status"], "waiting");
    world.advance("5 days").await;
    world.until_status(&other, "completed").await;
    assert_eq!(world.mails_to("ann@x.example").await, ["Hello", "Hello"]);
    assert_eq!(world.mails_to("bob@x.example").await, ["Hello", "Again"]);
}

/// A reply and a kill: the next start finds the run.
#[tokio::test]
async fn a_reply_is_found_after_a_kill() {
    let mut world = World::with_test_clock().await;
    let (status, applied) = world.up.post_yaml("/agents", AGENT).await.unwrap();
    assert_eq!(status, 201, "{applied}");
    let mut runs = Vec::new();
    for n in 0..20 {
        runs.push(start(&world, &format!("c{n}")).await);
    }
    for run in &runs {
        world.until_status(run, "waiting").await;
    }
    for n in 0..20 {
        set_replied(&world, &format!("c{n}")).await;
    }
    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();
    for run in &runs {
        let ended = world.until_status(run, "completed").await;
        let of = |step: &Value| step["status"].as_str().map(str::to_owned);
        let steps: Vec<_> = ended["steps"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(of)
            .collect();
        assert_eq!(steps, ["completed", "completed", "skipped"]);
    }
}
