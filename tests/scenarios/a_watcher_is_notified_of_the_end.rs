//! A user who watches a run or an agent is notified of each end once, also when the notification service is killed
//! meanwhile (S0-T4).

use holdpoint_testkit::{Person, until};
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::fleet::{Api, Ground, Served};
use crate::world::{PATIENCE, World};

/// A user with a token.
async fn join(owner: &Api, name: &str) -> Api {
    let email = format!("{name}@acme.example");
    let body = json!({ "name": name, "email": email, "roles": ["member"] });
    assert_eq!(owner.post("/users", &body).await.0, 201);
    let (_, made) = owner.post("/tokens", &json!({ "user": name })).await;
    owner.with_token(made["token"].as_str().unwrap())
}

/// `title run` of a user's notifications, sorted. `None`: a service that has just started does not answer yet.
async fn notifications_if_available(person: &Api) -> Option<Vec<String>> {
    let path = "/notifications?limit=500";
    let (status, page) = person.call(Method::GET, path, &Value::Null).await;
    if status == 503 {
        return None;
    }
    assert_eq!(status, 200, "{page}");
    let items = page["items"].as_array().unwrap().iter();
    let text = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
    let mut notifications: Vec<_> = items
        .map(|one| {
            assert_eq!(one["type"], "workflow_complete", "{one}");
            format!("{} {}", text(one, "title"), text(one, "run"))
        })
        .collect();
    notifications.sort();
    Some(notifications)
}

async fn notifications(person: &Api) -> Vec<String> {
    notifications_if_available(person).await.unwrap()
}

async fn until_notified(person: &Api, wanted: &str) -> Vec<String> {
    until(PATIENCE, wanted, async || {
        let notifications = notifications_if_available(person).await?;
        notifications
            .iter()
            .any(|one| one == wanted)
            .then_some(notifications)
    })
    .await
    .unwrap()
}

async fn start_run(api: &Api, agent: &str) -> String {
    let (status, run) = api.post(&format!("/agents/{agent}/runs"), &json!({})).await;
    assert_eq!(status, 201, "{run}");
    run["id"].as_str().unwrap().to_owned()
}

async fn until_ended(api: &Api, run: &str) {
    let path = format!("/runs/{run}");
    until(PATIENCE, "the run to end", async || {
        let run = api.get(&path).await;
        run["ended_at"].is_string().then_some(())
    })
    .await
    .unwrap();
}

async fn kill(mut service: Served) {
    service.signal(Signal::KILL);
    assert!(service.dies(PATIENCE).await);
}

async fn watchers_are_notified(ground: &Ground) {
    assert_eq!(ground.ends(&["migrate"]).await.0, 0);
    let _scheduler = ground.serve("scheduler", &[]).await;
    let _handoff = ground.serve("handoff", &[]).await;
    let executor = ground.serve("executor", &[]).await;
    let notification = ground.serve("notification", &[]).await;
    let args = ["--http", "127.0.0.1:0", "--owner-token"];
    let gateway = ground.serve("gateway", &args).await;
    let owner = Api::of(&gateway);
    let (ada, bob) = (join(&owner, "ada").await, join(&owner, "bob").await);
    let short = json!({ "agent": "short", "steps": [{ "wait": "2s" }] });
    let fails = json!({ "tool": "log", "args": { "message": "$input.nobody" } });
    let broken = json!({ "agent": "broken", "steps": [{ "wait": "1s" }, fails] });
    for agent in [short, broken] {
        assert_eq!(owner.post("/agents", &agent).await.0, 201);
    }

    // Ada watches one run and bob an agent. The other run has no watcher.
    let run = start_run(&owner, "short").await;
    let unfollowed = start_run(&owner, "short").await;
    assert_eq!(ada.post("/watches", &json!({ "run": run })).await.0, 201);
    let agent = json!({ "agent": "broken" });
    assert_eq!(bob.post("/watches", &agent).await.0, 201);
    assert_eq!(bob.post("/watches", &agent).await.0, 200, "again");

    // Both runs end while the notification service is down. It notifies their watchers after its restart.
    kill(notification).await;
    let failed = start_run(&owner, "broken").await;
    for run in [&run, &failed, &unfollowed] {
        until_ended(&owner, run).await;
    }
    let notification = ground.serve("notification", &[]).await;
    let completed = format!("Run of short completed {run}");
    assert_eq!(until_notified(&ada, &completed).await, [&*completed]);
    let first = format!("Run of broken failed {failed}");
    assert_eq!(until_notified(&bob, &first).await, [&*first]);

    // A restart of both services notifies no watcher twice.
    kill(notification).await;
    kill(executor).await;
    let _executor = ground.serve("executor", &[]).await;
    let _notification = ground.serve("notification", &[]).await;
    let answers = async || {
        let (status, _) = owner
            .call(Method::GET, "/agents/broken", &Value::Null)
            .await;
        (status == 200).then_some(())
    };
    until(PATIENCE, "the executor answers again", answers)
        .await
        .unwrap();
    let second = format!("Run of broken failed {}", start_run(&owner, "broken").await);
    let mut both = vec![first.clone(), second.clone()];
    both.sort();
    assert_eq!(until_notified(&bob, &second).await, both);
    assert_eq!(notifications(&ada).await, [&*completed]);

    // A user who watches an ended run is notified at once, and the watch ends.
    let late = json!({ "run": unfollowed });
    assert_eq!(ada.post("/watches", &late).await.0, 201);
    let too_late = format!("Run of short completed {unfollowed}");
    until_notified(&ada, &too_late).await;
    let following = ada.get("/watches").await;
    assert_eq!(following["items"], json!([]), "both have ended");

    // A user who has stopped watching is not notified, and another watcher is.
    let (status, _) = bob
        .call(Method::DELETE, "/watches/agent_broken", &Value::Null)
        .await;
    assert_eq!(status, 204);
    assert_eq!(ada.post("/watches", &agent).await.0, 201);
    let third = format!("Run of broken failed {}", start_run(&owner, "broken").await);
    assert_eq!(until_notified(&ada, &third).await.len(), 3);
    assert_eq!(notifications(&bob).await, both);
}

/// Subjects of a user's mails, sorted, once there are `count` of them.
async fn mailed(world: &World, person: &Person, count: usize) -> Vec<String> {
    until(PATIENCE, "the mails", async || {
        let (_, page) = person.get(&world.up, "/mails").await.unwrap();
        let mails = page["items"].as_array().unwrap().iter();
        let subject = |mail: &Value| mail["subject"].as_str().unwrap().to_owned();
        let mut subjects: Vec<_> = mails.map(subject).collect();
        subjects.sort();
        (subjects.len() >= count).then_some(subjects)
    })
    .await
    .unwrap()
}

/// S0-T4: on SQLite.
#[tokio::test]
async fn a_watcher_is_notified_of_the_end_once() {
    watchers_are_notified(&Ground::on_sqlite().await).await;
}

/// S0-T4: on Postgres.
#[tokio::test]
async fn a_watcher_is_notified_of_the_end_once_on_postgres() {
    let Some(ground) = Ground::new().await else {
        return;
    };
    watchers_are_notified(&ground).await;
}

/// S0-T4, S4-R15: preferences decide whether a mail with a link to the run leaves, and the digest lists the others. A
/// user is not notified of a run that they cancelled.
#[tokio::test]
async fn a_run_end_uses_the_preferred_channels() {
    let world = World::with_test_clock().await;
    let ada = Person::join(&world.up, "ada", &["member", "operator"])
        .await
        .unwrap();
    let bob = Person::join(&world.up, "bob", &["member"]).await.unwrap();
    let fails = json!({ "tool": "log", "args": { "message": "$input.nobody" } });
    world
        .agent("short", json!([{ "wait": "2 days 4 hours" }]))
        .await;
    world
        .agent("broken", json!([{ "wait": "3 days" }, fails]))
        .await;
    let wanted = json!({
        "channels": { "email": { "enabled": true, "from": "normal" } },
        "digest": { "at": "08:00" },
    });
    let (status, said) = ada.put(&world.up, "/preferences", &wanted).await.unwrap();
    assert_eq!(status, 200, "{said}");
    for (agent, person) in [("short", &ada), ("broken", &ada), ("short", &bob)] {
        let body = json!({ "agent": agent });
        let (status, body) = person.post(&world.up, "/watches", &body).await.unwrap();
        assert_eq!(status, 201, "{body}");
    }
    let run = world.start_run("short", json!({})).await;
    let cancelled = world.start_run("short", json!({})).await;
    world.start_run("broken", json!({})).await;
    let path = format!("/runs/{cancelled}/cancel");
    let (status, body) = ada.post(&world.up, &path, &json!({})).await.unwrap();
    assert_eq!(status, 200, "{body}");
    world.advance("60h").await;
    world.advance("24h").await;

    let (_, page) = ada.get(&world.up, "/notifications").await.unwrap();
    let items = page["items"].as_array().unwrap();
    let titles: Vec<_> = items.iter().map(|one| one["title"].clone()).collect();
    assert_eq!(
        titles,
        ["Run of broken failed", "Run of short completed"],
        "and not what she cancelled"
    );
    let completed = &items[1];
    assert_eq!(completed["run"], run);
    assert_eq!(completed["priority"], "low");
    assert_eq!(completed["link"], format!("/runs/{run}"));
    assert_eq!(completed["ended"]["agent"], "short");
    assert_eq!(completed["ended"]["status"], "completed");
    assert_eq!(completed["ended"]["took_ms"], 187_200_000);
    let message = completed["message"].as_str().unwrap();
    assert!(message.ends_with("It took 2 days 4 hours."), "{message}");
    assert_eq!(items[0]["priority"], "high");

    assert_eq!(
        mailed(&world, &ada, 2).await,
        ["1 run has ended that you follow", "Run of broken failed"]
    );
    assert_eq!(
        mailed(&world, &bob, 2).await,
        ["Run of short completed", "Run of short was cancelled"]
    );
}
