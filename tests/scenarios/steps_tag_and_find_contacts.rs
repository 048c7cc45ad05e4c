//! `add_tag`, `remove_tag`, `search_contacts` and `set` in real runs (API, Tools).

use serde_json::{Value, json};

use crate::world::{PATIENCE, World};

async fn put_contact(world: &World, id: &str, fields: Value) {
    let path = format!("/contacts/{id}");
    let (status, body) = world.up.put(&path, &fields).await.unwrap();
    assert!(status == 200 || status == 201, "{body}");
}

/// Words 5: runs that change tags of one contact at the same time lose none of them.
#[tokio::test]
async fn tags_of_many_runs_are_all_kept() {
    let world = World::with_test_clock().await;
    let steps = json!([
        { "tool": "add_tag", "args": { "tag": "{{ input.tag }}" } },
        { "tool": "add_tag", "args": { "tags": ["all", "{{ input.tag }}"] } },
        { "tool": "remove_tag", "args": { "tag": "old" } },
    ]);
    world.agent("tagger", steps).await;
    put_contact(&world, "zoe", json!({ "tags": ["old"] })).await;
    let mut runs = Vec::new();
    for number in 0..10 {
        let body = json!({ "contact": "zoe", "input": { "tag": format!("t{number}") } });
        runs.push(world.start_run("tagger", body).await);
    }
    world.settle().await;
    for run in &runs {
        let run = world.until_status(run, "completed").await;
        let tags = &run["steps"][2]["response"]["data"]["tags"];
        assert!(tags.as_array().unwrap().contains(&json!("all")), "{run}");
    }
    let (_, zoe) = world.up.get("/contacts/zoe").await.unwrap();
    let mut tags: Vec<_> = zoe["tags"].as_array().unwrap().iter().collect();
    tags.sort_by_key(|tag| tag.to_string());
    let expected: Vec<_> = ["all".to_owned()]
        .into_iter()
        .chain((0..10).map(|number| format!("t{number}")))
        .collect();
    assert_eq!(json!(tags), json!(expected));
}

/// Words 5: a kill between the change of the tags and its reply asks no person, and a repetition changes nothing.
#[tokio::test]
async fn a_kill_changes_the_tags_once() {
    for point in ["decided", "committed", "published"] {
        let crash = format!("executor:{point}:1:patch_contact");
        let mut world = World::with_real_env(&[("HOLDPOINT_CRASH", &crash)]).await;
        put_contact(&world, "zoe", json!({ "tags": ["old", "eu"] })).await;
        let steps = json!([
            { "tool": "add_tag", "args": { "tag": "vip" } },
            { "tool": "remove_tag", "args": { "tag": "old" } },
        ]);
        world.agent("tagger", steps).await;
        // The process may end before it answers.
        let body = json!({ "contact": "zoe" });
        drop(world.up.post("/agents/tagger/runs", &body).await);
        world.up.ended(PATIENCE).await.unwrap();
        world.up.options_mut().env.clear();
        world.up.restart().await.unwrap();
        let (_, runs) = world.up.get("/runs?agent=tagger").await.unwrap();
        let [started] = runs["items"].as_array().unwrap().as_slice() else {
            panic!("{point}: {runs}");
        };
        let id = started["id"].as_str().unwrap().to_owned();
        let run = world.until_status(&id, "completed").await;
        let (_, zoe) = world.up.get("/contacts/zoe").await.unwrap();
        assert_eq!(zoe["tags"], json!(["eu", "vip"]), "{point}: {run}");
        let history = world.history(&id).await;
        let count = |kind: &str| history.iter().filter(|one| *one == kind).count();
        assert_eq!(count("run.completed"), 1, "{point}: {history:?}");
    }
}

/// Words 5: a tag that is refused fails its step with the limit.
#[tokio::test]
async fn a_tag_that_is_too_long_fails_its_step() {
    let world = World::with_test_clock().await;
    let step = json!({ "tool": "add_tag", "args": { "tag": "x".repeat(65) } });
    world.agent("tagger", json!([step])).await;
    let body = json!({ "contact": { "id": "zoe" } });
    let id = world.start_run("tagger", body).await;
    world.settle().await;
    let run = world.until_status(&id, "failed").await;
    let message = run["failure"]["message"].as_str().unwrap();
    assert!(message.contains("expected 1 to 64 characters"), "{message}");
}

/// Words 5: a step finds contacts of its workspace, and later steps name what was found and what was set.
#[tokio::test]
async fn a_step_finds_contacts_for_later_steps() {
    let world = World::with_test_clock().await;
    for (id, fields) in [
        (
            "ann",
            json!({ "name": "Ann Lee", "stage": "won", "tags": ["vip", "eu"] }),
        ),
        (
            "bob",
            json!({ "email": "Bob@x.example", "stage": "won", "tags": ["vip"] }),
        ),
        (
            "cleo",
            json!({ "name": "Cleo Lee", "stage": "lost", "tags": ["vip"] }),
        ),
    ] {
        put_contact(&world, id, fields).await;
    }
    for number in 0..1_100 {
        put_contact(&world, &format!("a{number}"), json!({ "stage": "new" })).await;
    }
    let steps = json!([
        { "id": "won", "tool": "search_contacts", "args": { "fields": { "stage": "won" }, "tag": "vip" } },
        { "id": "lee", "tool": "search_contacts", "args": { "text": "lee", "limit": 1 } },
        { "id": "bob", "tool": "search_contacts", "args": { "fields": { "email": "bob@X.example" } } },
        { "id": "none", "tool": "search_contacts", "args": { "tag": "us" } },
        { "id": "totals", "tool": "set", "args": { "first": "$won.contacts[0].id", "more": "$lee.has_more", "all": "$won.contacts" } },
        { "tool": "log", "args": { "message": "{{ $totals.first }} {{ $totals.more }} {{ size($totals.all) }}" } },
        { "for_each": "$totals.all", "tool": "add_tag", "args": { "contact": "$item.id", "tag": "seen" } },
    ]);
    world.agent("finder", steps).await;
    let id = world.start_run("finder", json!({})).await;
    world.settle().await;
    let run = world.until_status(&id, "completed").await;
    let data = |step: usize| &run["steps"][step]["response"]["data"];
    assert_eq!(data(0)["has_more"], false, "{run}");
    let ids = |step: usize| {
        let found = data(step)["contacts"].as_array().unwrap();
        let ids = found.iter().map(|contact| contact["id"].clone());
        Value::from(ids.collect::<Vec<_>>())
    };
    assert_eq!(ids(0), json!(["ann", "bob"]));
    assert_eq!(data(0)["contacts"][0]["tags"], json!(["vip", "eu"]));
    assert_eq!(
        (ids(1), &data(1)["has_more"]),
        (json!(["ann"]), &json!(true))
    );
    assert_eq!(ids(2), json!(["bob"]));
    assert_eq!(*data(3), json!({ "contacts": [], "has_more": false }));
    assert_eq!(data(5)["message"], "ann true 2");
    for (contact, is_seen) in [("ann", true), ("bob", true), ("cleo", false)] {
        let (_, view) = world.up.get(&format!("/contacts/{contact}")).await.unwrap();
        let tags = view["tags"].as_array().unwrap();
        assert_eq!(tags.contains(&json!("seen")), is_seen, "{view}");
    }
}
