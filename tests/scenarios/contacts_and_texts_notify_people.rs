//! What happens to contacts and deals notifies the owner of the contact, and a name in a text of a person notifies that
//! person: once each, over kills of the system (S0-T4).

use holdpoint_testkit::{Person, postgres, until};
use serde_json::{Value, json};

use crate::world::{PATIENCE, World};

/// `type title` of a person's notifications of these types, newest first.
async fn notifications(world: &World, person: Option<&Person>) -> Vec<String> {
    let path = "/notifications?limit=500";
    let answer = match person {
        Some(person) => person.get(&world.up, path).await,
        None => world.up.get(path).await,
    };
    let (status, page) = answer.unwrap();
    assert_eq!(status, 200, "{page}");
    let items = page["items"].as_array().unwrap().iter();
    let items = items.filter(|one| {
        let of_contact = ["new_lead", "deal_won", "deal_lost"].map(|kind| one["type"] == kind);
        of_contact.contains(&true) || one["type"] == "mention"
    });
    let text = |one: &Value, name: &str| one[name].as_str().unwrap().to_owned();
    let items = items.map(|one| format!("{} {}", text(one, "type"), text(one, "title")));
    items.collect()
}

async fn until_notified(world: &World, person: Option<&Person>, wanted: &[&str]) {
    let mut seen = Vec::new();
    let shown = until(PATIENCE, "the notifications", async || {
        seen = notifications(world, person).await;
        (seen == wanted).then_some(())
    });
    assert!(shown.await.is_ok(), "{seen:?} instead of {wanted:?}");
}

async fn put(world: &World, contact: &str, fields: Value) {
    let path = format!("/contacts/{contact}");
    let (status, body) = world.up.put(&path, &fields).await.unwrap();
    assert_eq!(status, 200, "{body}");
}

async fn stage(world: &World, stage: &str) {
    let patch = json!({ "deal": { "name": "Pilot", "stage": stage } });
    let (status, body) = world.up.patch("/contacts/zoe", &patch).await.unwrap();
    assert_eq!(status, 200, "{body}");
}

async fn kill_and_restart(world: &mut World) {
    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();
}

/// The only request of a run.
async fn asked(world: &World, run: &str) -> String {
    let asked = until(PATIENCE, "the run asks", async || {
        let run = world.run(run).await;
        run["waiting_on"][0]["id"].as_str().map(str::to_owned)
    });
    asked.await.unwrap()
}

/// S0-T4: created, won and lost, each once. A kill right after a change loses no notification.
async fn changes_of_contacts(world: &mut World, sam: &Person) {
    let zoe = json!({ "name": "Zoe\u{7} Zimmer", "owner": "sam", "deal": { "stage": "won" } });
    put(world, "zoe", zoe.clone()).await;
    kill_and_restart(world).await;
    let lead = "new_lead New lead: Zoe Zimmer";
    until_notified(world, Some(sam), &[lead]).await;
    put(world, "zoe", zoe).await;
    stage(world, "demo").await;
    stage(world, "Closed Won").await;
    kill_and_restart(world).await;
    let won = "deal_won Deal won: Pilot (Zoe Zimmer)";
    until_notified(world, Some(sam), &[won, lead]).await;
    stage(world, "won").await;
    stage(world, "lost").await;
    let lost = "deal_lost Deal lost: Pilot (Zoe Zimmer)";
    until_notified(world, Some(sam), &[lost, won, lead]).await;
    assert_eq!(
        notifications(world, None).await,
        [""; 0],
        "sam owns the contact"
    );
}

/// The workspace's owners are notified of a contact without an owner, and nobody of the contacts of a batch.
async fn contacts_without_an_owner(world: &World) {
    let lines = "{\"contact\": {\"id\": \"of-batch\", \"deal\": {\"stage\": \"won\"}}}\n".repeat(3);
    let path = "agents/asks/runs:batch";
    let url = format!("{}/v1/workspaces/default/{path}", world.up.url);
    let started = reqwest::Client::new()
        .post(url)
        .bearer_auth(&world.up.token);
    let started = started.body(lines).send().await.unwrap();
    assert_eq!(started.status().as_u16(), 200);
    put(world, "max", json!({ "owner": "nobody-here" })).await;
    until_notified(world, None, &["new_lead New lead: max"]).await;
    world
        .start_run("asks", json!({ "contact": { "id": "of-run" } }))
        .await;
    let both = ["new_lead New lead: of-run", "new_lead New lead: max"];
    until_notified(world, None, &both).await;
}

/// A name in a text of a person, and not in a text of an agent or a contact.
async fn names_in_texts(world: &mut World, people: [&Person; 2]) {
    let [sam, bob] = people;
    let run = world.start_run("asks", json!({ "contact": "zoe" })).await;
    let request = asked(world, &run).await;
    let path = format!("/requests/{request}/respond");
    let answer =
        json!({ "answer": "Yes. Call her, @user.bob. I, @user.sam, and @user.ghost know." });
    let (status, body) = sam.post(&world.up, &path, &answer).await.unwrap();
    assert_eq!(status, 200, "{body}");
    kill_and_restart(world).await;
    let mention = "mention sam mentions you: Shall @user.sam call Zoe?";
    until_notified(world, Some(bob), &[mention]).await;
    let (_, page) = bob.get(&world.up, "/notifications").await.unwrap();
    let items = page["items"].as_array().unwrap();
    let mention = items.iter().find(|one| one["type"] == "mention").unwrap();
    assert_eq!(mention["link"], format!("/requests/{request}"), "{mention}");
    assert_eq!(mention["read_at"], Value::Null, "{mention}");
    assert!(!mention["message"].as_str().unwrap().contains("Call her"));
    let is_mention = |one: &String| one.starts_with("mention");
    assert!(!notifications(world, Some(sam)).await.iter().any(is_mention));
    // One text for several requests mentions no user, also if each of them is decided alone.
    let before = notifications(world, Some(bob)).await;
    let run = world.start_run("asks", json!({ "contact": "zoe" })).await;
    let request = asked(world, &run).await;
    let path = format!("/requests/{request}");
    let shown = until(PATIENCE, "the request is delivered", async || {
        let (status, _) = sam.get(&world.up, &path).await.ok()?;
        (status == 200).then_some(())
    });
    shown.await.unwrap();
    let batch =
        json!({ "ids": [request], "decision": { "respond": { "answer": "See @user.bob" } } });
    let (status, body) = sam
        .post(&world.up, "/requests:batch", &batch)
        .await
        .unwrap();
    assert_eq!(
        (status, &body["items"][0]["recorded"]),
        (200, &json!(true)),
        "{body}"
    );
    world.until_status(&run, "completed").await;
    assert_eq!(notifications(world, Some(bob)).await, before);
}

/// Erasure: no notification has the name any more, and the contact can be created again.
async fn erasure(world: &World, sam: &Person) {
    let (status, body) = world
        .up
        .post("/contacts/zoe/erase", &json!({}))
        .await
        .unwrap();
    assert_eq!(status, 202, "{body}");
    until_notified(world, Some(sam), &[]).await;
    put(world, "zoe", json!({ "owner": "@user.sam" })).await;
    until_notified(world, Some(sam), &["new_lead New lead: zoe"]).await;
}

async fn people_are_notified(args: &[&str]) {
    let mut world = World::with_args(args).await;
    let sam = Person::join(&world.up, "sam", &["member"]).await.unwrap();
    let bob = Person::join(&world.up, "bob", &["member"]).await.unwrap();
    let ask = json!({ "to": "@user.sam", "question": "Shall @user.sam call Zoe?" });
    world.agent("asks", json!([{ "ask": ask }])).await;
    changes_of_contacts(&mut world, &sam).await;
    contacts_without_an_owner(&world).await;
    names_in_texts(&mut world, [&sam, &bob]).await;
    erasure(&world, &sam).await;
}

/// With the tables in files.
#[tokio::test]
async fn contacts_and_texts_notify_people() {
    people_are_notified(&[]).await;
}

/// The same on Postgres.
#[tokio::test]
async fn contacts_and_texts_notify_people_on_postgres() {
    let Some(postgres) = postgres().await.unwrap() else {
        return;
    };
    people_are_notified(&["--database-url", &postgres.url]).await;
}
