//! A step with `for_each` calls its tool once for each item, and its result is the list of results (S2-R9).

use std::collections::BTreeMap;
use std::time::Instant;

use holdpoint_testkit::until;
use serde_json::{Value, json};

use crate::shop::Shop;
use crate::world::{PATIENCE, World, at_rest, dead_letters, tables_of};

/// Logs each item, and then all results together.
fn logs_each(parallel: u32) -> Value {
    let each = json!({
        "id": "each", "for_each": "$input.items", "parallel": parallel,
        "tool": "log", "args": { "message": "{{ item.name }}" },
    });
    let message =
        "{{ size($each) }}: {{ size($each) == 0 ? \"none\" : $each[size($each) - 1].message }}";
    json!([each, { "id": "all", "tool": "log", "args": { "message": message } }])
}

fn named(count: usize) -> Value {
    let items = (0..count).map(|number| json!({ "name": format!("n{number}") }));
    items.collect()
}

fn step<'r>(run: &'r Value, id: &str) -> &'r Value {
    let steps = run["steps"].as_array().unwrap();
    let found = steps.iter().find(|step| step["id"] == id);
    found.unwrap_or_else(|| panic!("no {id} in {run}"))
}

/// Few items, none, and what is not a list of items.
#[tokio::test]
async fn results_gather_in_the_order_of_the_items() {
    let world = World::with_real_time().await;
    world.agent("logs", logs_each(2)).await;
    let id = world
        .start_run("logs", json!({ "input": { "items": named(5) } }))
        .await;
    let run = world.until_status(&id, "completed").await;
    let results = step(&run, "each")["response"]["data"].as_array().unwrap();
    let names: Vec<_> = results
        .iter()
        .map(|result| result["message"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["n0", "n1", "n2", "n3", "n4"]);
    assert_eq!(step(&run, "all")["request"]["message"], "5: n4");
    let ids: Vec<_> = run["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| &step["id"])
        .collect();
    assert_eq!(
        ids,
        [
            "each", "each-0", "each-1", "each-2", "each-3", "each-4", "all"
        ]
    );
    assert_eq!(step(&run, "each-3")["status"], "completed");
    assert_eq!(step(&run, "each")["items"]["completed"], 5, "{run}");

    let id = world
        .start_run("logs", json!({ "input": { "items": [] } }))
        .await;
    let run = world.until_status(&id, "completed").await;
    assert_eq!(step(&run, "all")["request"]["message"], "0: none");

    // The door refuses 100,000 values before any step sees them.
    let many: Vec<_> = (0..90_000).collect();
    for (items, code) in [
        (json!("a text"), "items_not_an_array"),
        (Value::Null, "items_not_an_array"),
        (json!(many), "too_many_items"),
    ] {
        let id = world
            .start_run("logs", json!({ "input": { "items": items } }))
            .await;
        let run = world.until_status(&id, "failed").await;
        assert_eq!(run["failure"]["code"], code, "{run}");
        assert_eq!(step(&run, "each")["error_code"], code);
    }
    assert_eq!(dead_letters(&world.up.data_dir()).await.unwrap(), 0);
}

/// Each person is asked about their item, and the answers gather in the order of the items.
#[tokio::test]
async fn each_person_is_asked_about_their_item() {
    let world = World::with_real_time().await;
    let each = json!({
        "id": "each", "for_each": "$input.pages",
        "ask": { "to": "$item.reviewer", "question": "Is {{ item.title }} fine?", "options": ["yes", "no"] },
    });
    let all = json!({
        "id": "all", "tool": "log", "args": { "message": "{{ $each[0].answer }} {{ $each[1].answer }}" },
    });
    world.agent("review", json!([each, all])).await;
    let pages = json!([
        { "title": "Home", "reviewer": "@user.owner" },
        { "title": "Prices", "reviewer": "@role.owner" },
    ]);
    let id = world
        .start_run("review", json!({ "input": { "pages": pages } }))
        .await;
    for (step, question, to, answer) in [
        ("each-1", "Is Prices fine?", "@role.owner", "no"),
        ("each-0", "Is Home fine?", "@user.owner", "yes"),
    ] {
        let asked = until(PATIENCE, "the person of the item is asked", async || {
            let (_, page) = world.up.get(&format!("/requests?run={id}")).await.ok()?;
            let mut items = page["items"].as_array()?.iter();
            items.find(|request| request["step"] == step).cloned()
        });
        let asked = asked.await.unwrap();
        assert_eq!(asked["question"], question);
        assert_eq!(asked["to"], json!([to]));
        let path = format!("/requests/{}/respond", asked["id"].as_str().unwrap());
        let body = json!({ "answer": answer });
        let (status, decided) = world.up.post(&path, &body).await.unwrap();
        assert_eq!(status, 200, "{decided}");
    }
    let run = world.until_status(&id, "completed").await;
    assert_eq!(step(&run, "all")["request"]["message"], "yes no");
    assert_eq!(dead_letters(&world.up.data_dir()).await.unwrap(), 0);
}

/// The most items that are allowed end within seconds, and reading the run shows a bounded part of them.
#[tokio::test]
async fn ten_thousand_items_end_within_seconds() {
    let world = World::with_real_time().await;
    world.agent("logs", logs_each(100)).await;
    let begun = Instant::now();
    let id = world
        .start_run("logs", json!({ "input": { "items": named(10_000) } }))
        .await;
    let run = world.until_status(&id, "completed").await;
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    assert_eq!(step(&run, "all")["request"]["message"], "10000: n9999");
    assert_eq!(step(&run, "each")["items"]["completed"], 10_000);
    assert_eq!(run["steps"].as_array().unwrap().len(), 102);
    assert_eq!(dead_letters(&world.up.data_dir()).await.unwrap(), 0);
}

/// Kill -9 in the middle: every item is done, each under one idempotency key, and the results keep their order.
#[tokio::test]
async fn a_fan_out_survives_a_kill() {
    let shop = Shop::open().await;
    let mut world = World::with_real_time().await;
    let args = json!({
        "method": "POST", "url": shop.url("/echo"), "body": { "number": "$item" }, "idempotent": true,
    });
    let each = json!({
        "id": "each", "for_each": "$input.items", "parallel": 5, "tool": "http_request", "args": args,
    });
    world.agent("posts", json!([each])).await;
    let items: Vec<_> = (0..60).collect();
    let id = world
        .start_run("posts", json!({ "input": { "items": items } }))
        .await;
    until(PATIENCE, "some items are done", async || {
        (shop.calls().len() >= 15).then_some(())
    })
    .await
    .unwrap();
    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();
    let run = world.until_status(&id, "completed").await;
    let results = step(&run, "each")["response"]["data"].as_array().unwrap();
    let numbers: Vec<_> = results
        .iter()
        .map(|result| result["body"]["number"].as_i64().unwrap())
        .collect();
    assert_eq!(numbers, items);
    let mut bodies: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for call in shop.calls() {
        let key = call.header("idempotency-key").to_owned();
        bodies.entry(key).or_default().push(call.body);
    }
    assert_eq!(bodies.len(), 60);
    for (key, sent) in bodies {
        assert!(sent.iter().all(|one| *one == sent[0]), "{key}: {sent:?}");
    }
    let items = world.items(&id).await;
    let ended = items.iter().filter(|item| item["type"] == "step.succeeded");
    assert_eq!(ended.count(), 61);
    at_rest(&tables_of(&world.up), &world.up.nats_url)
        .await
        .unwrap();
}

/// A pause stops all children, and a failed child stops the others. A retry does only what is left.
#[tokio::test]
async fn a_retry_does_only_the_items_that_are_left() {
    let shop = Shop::open().await;
    let world = World::with_real_time().await;
    let args = json!({ "method": "POST", "url": "{{ item }}" });
    let each = json!({ "id": "each", "for_each": "$input.urls", "parallel": 1, "tool": "http_request", "args": args });
    world.agent("posts", json!([each])).await;
    let urls = ["/echo", "/repaired-later", "/echo"].map(|path| shop.url(path));
    let id = world
        .start_run("posts", json!({ "input": { "urls": urls } }))
        .await;
    let run = world.until_status(&id, "failed").await;
    assert_eq!(step(&run, "each")["status"], "failed");
    assert!(
        run["message"].as_str().unwrap().starts_with("each-1: "),
        "{run}"
    );
    assert_eq!(shop.calls().len(), 2);
    world.act(&id, "retry", json!({})).await;
    let run = world.until_status(&id, "completed").await;
    assert_eq!(
        step(&run, "each")["items"],
        json!({
            "total": 3, "completed": 3, "failed": 0, "skipped": 0, "in_progress": 0,
        })
    );
    let calls = shop.calls();
    let keys: Vec<_> = calls
        .iter()
        .map(|call| call.header("idempotency-key"))
        .collect();
    let key = |item: u32| format!("{id}/each-{item}");
    assert_eq!(keys, [key(0), key(1), key(1), key(2)]);
}
