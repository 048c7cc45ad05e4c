//! Named policies decide who approves and who is notified later.

use chrono::{DateTime, Datelike, Days, TimeDelta, Utc, Weekday};
use holdpoint_testkit::{Person, until};
use serde_json::{Value, json};

use crate::world::{PATIENCE, World};

async fn post(world: &World, path: &str, body: Value) -> (u16, Value) {
    world.up.post(path, &body).await.unwrap()
}

async fn shown(world: &World, id: &str) -> Value {
    world.up.get(&format!("/requests/{id}")).await.unwrap().1
}

/// API, `/policies`; S2-R4, S4-R15: a policy is created, shown, named by a hold, and deleted while it is in use.
#[tokio::test]
async fn a_hold_follows_its_named_policies() {
    let world = World::with_test_clock().await;
    // Neither the requester mia nor the owner, who opens it, may decide.
    for name in ["mia", "max", "moe"] {
        Person::join(&world.up, name, &["member", "manager"])
            .await
            .unwrap();
    }
    let managers = json!({ "name": "two-managers", "kind": "approval", "from": "@role.manager",
        "need": 2, "not_requester": true, "decide_within": "2d" });
    let (status, made) = post(&world, "/policies", managers.clone()).await;
    assert_eq!((status, &made["version"]), (201, &json!(1)), "{made}");
    assert_eq!(made["decide_within"], "2d");
    let on_call = json!({ "name": "on-call", "kind": "escalation", "stop_on": ["accept"],
        "rungs": [{ "after": "30m", "do": "raise" }, { "after": "1h", "do": "notify" }] });
    assert_eq!(post(&world, "/policies", on_call).await.0, 201);
    let (_, page) = world.up.get("/policies").await.unwrap();
    let names = page["items"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|one| one["name"].as_str().unwrap()).collect();
    let expected = [
        "default-approval",
        "default-handoff",
        "default-input",
        "on-call",
        "two-managers",
    ];
    assert_eq!(names, expected);

    let body = json!({ "kind": "approval", "question": "Refund?", "requester": "mia",
        "policy": ["two-managers", "on-call"] });
    let (status, hold) = post(&world, "/holds", body).await;
    assert_eq!(status, 201, "{hold}");
    let id = hold["id"].as_str().unwrap();
    let request = shown(&world, id).await;
    assert_eq!(request["to"], json!(["@role.manager"]));
    assert_eq!(request["votes"], json!({ "have": 0, "need": 2 }));
    assert_eq!(
        request["history"][0]["note"],
        "by policy `two-managers`; by policy `on-call`"
    );
    let (status, _) = world.up.delete("/policies/two-managers").await.unwrap();
    assert_eq!(status, 200);
    world.advance("30m").await;
    assert_eq!(shown(&world, id).await["priority"], "high");
    assert_eq!(
        shown(&world, id).await["votes"]["need"],
        2,
        "as it was opened"
    );

    let unknown = json!({ "kind": "approval", "question": "Refund?", "policy": "two-managers" });
    let (status, refused) = post(&world, "/holds", unknown).await;
    assert_eq!(
        (status, &refused["code"]),
        (422, &json!("invalid_body")),
        "{refused}"
    );
    assert!(
        refused["detail"].as_str().unwrap().contains("`on-call`"),
        "{refused}"
    );
    let valid_for = json!({ "name": "gate", "kind": "approval", "valid_for": "91d" });
    let (status, refused) = post(&world, "/policies", valid_for).await;
    assert_eq!(status, 422);
    assert_eq!(refused["errors"][0]["pointer"], "/valid_for", "{refused}");
}

/// Policies of a run's request give its default deadline and the rung that ends it.
#[tokio::test]
async fn a_step_waits_and_ends_as_its_policies_say() {
    let world = World::with_test_clock().await;
    let soon =
        json!({ "name": "soon", "kind": "approval", "from": "@role.owner", "decide_within": "2d" });
    let quick = json!({ "name": "quick", "kind": "escalation",
        "rungs": [{ "after": "1h", "do": "answer_default" }] });
    for policy in [soon, quick] {
        assert_eq!(post(&world, "/policies", policy).await.0, 201);
    }
    let asks = |more: Value| {
        let mut ask = json!({ "question": "Go on?", "options": ["yes", "no"] });
        ask.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!([{ "ask": ask }])
    };
    world.agent("slow", asks(json!({ "policy": "soon" }))).await;
    let slow = world.start_run("slow", json!({})).await;
    let by_rung =
        json!({ "policy": "quick", "timeout": "1d", "on_timeout": "default", "default": "no" });
    world.agent("fast", asks(by_rung)).await;
    let fast = world.start_run("fast", json!({})).await;
    world.settle().await;
    world.advance("59m").await;
    let shown = world.run(&slow).await;
    assert_eq!(
        shown["status"], "awaiting_input",
        "not after 5 minutes: {shown}"
    );
    assert_eq!(world.run(&fast).await["status"], "awaiting_input");
    world.advance("1m").await;
    let shown = world.until_status(&fast, "completed").await;
    let data = &shown["steps"][0]["response"]["data"];
    assert_eq!(
        (&data["answer"], &data["by"]),
        (&json!("no"), &json!("timeout")),
        "{shown}"
    );
    world.advance("47h").await;
    let shown = world.until_status(&slow, "failed").await;
    assert_eq!(shown["failure"]["class"], "human_timeout", "{shown}");
    let message = shown["failure"]["message"].as_str().unwrap();
    assert!(message.contains("within 2 days"), "{message}");
}

/// S4-R15: rungs count working time. A rung that is due at the weekend fires on Monday.
#[tokio::test]
async fn a_rung_waits_for_monday() {
    let world = World::with_test_clock().await;
    let office = json!({ "name": "office", "kind": "escalation",
        "calendar": { "time_zone": "UTC", "from": "09:00", "to": "18:30" },
        "rungs": [{ "after": "2h", "do": "raise" }] });
    assert_eq!(post(&world, "/policies", office).await.0, 201);
    let moved = world.up.clock_advance("1ms").await.unwrap();
    let now: DateTime<Utc> = moved["now"].as_str().unwrap().parse().unwrap();
    let at = |days: u64, hour, minute| {
        let date = now.date_naive() + Days::new(days);
        let time = date.and_hms_opt(hour, minute, 0).unwrap();
        time.and_utc()
    };
    // A Friday to come.
    let days =
        u64::from(14 + Weekday::Fri.num_days_from_monday() - now.weekday().num_days_from_monday());
    let (friday, monday) = (at(days, 16, 30), at(days + 3, 9, 0));
    let ms = |length: TimeDelta| format!("{}ms", length.num_milliseconds());
    world.advance(&ms(friday - now)).await;
    let body =
        json!({ "kind": "approval", "question": "Refund?", "policy": "office", "timeout": "30d" });
    let (status, hold) = post(&world, "/holds", body).await;
    assert_eq!(status, 201, "{hold}");
    let id = hold["id"].as_str().unwrap();
    // Friday, 18:30: two hours have passed, and the working week is over.
    world.advance("2h").await;
    assert_eq!(shown(&world, id).await["priority"], "normal");
    world
        .advance(&ms(monday
            - friday
            - TimeDelta::hours(2)
            - TimeDelta::seconds(1)))
        .await;
    assert_eq!(shown(&world, id).await["priority"], "normal");
    world.advance("1s").await;
    let raised = shown(&world, id).await;
    assert_eq!(raised["priority"], "high", "{raised}");
    let entry = raised["history"].as_array().unwrap().last().unwrap();
    let at: DateTime<Utc> = entry["at"].as_str().unwrap().parse().unwrap();
    assert_eq!(at, monday, "{raised}");
}

/// A request with an unknown policy is opened without it, and its history says so.
#[tokio::test]
async fn a_step_with_an_unknown_policy_asks_without_it() {
    let world = World::with_test_clock().await;
    Person::join(&world.up, "mia", &["member", "manager"])
        .await
        .unwrap();
    let managers = json!({ "name": "managers", "kind": "approval", "from": "@role.manager" });
    assert_eq!(post(&world, "/policies", managers).await.0, 201);
    let ask = json!([{ "ask": { "question": "Go on?", "policy": ["managers", "night"] } }]);
    world.agent("asks", ask).await;
    let run = world.start_run("asks", json!({})).await;
    let waiting = world.until_status(&run, "awaiting_input").await;
    let id = waiting["waiting_on"][0]["id"].as_str().unwrap();
    let request = until(PATIENCE, "the request is there", async || {
        let (status, body) = world.up.get(&format!("/requests/{id}")).await.unwrap();
        (status == 200).then_some(body)
    });
    let request = request.await.unwrap();
    assert_eq!(request["to"], json!(["@role.manager"]));
    let note = request["history"][0]["note"].as_str().unwrap();
    assert!(
        note.contains("unknown policy `night`; expected one of `managers`"),
        "{note}"
    );
}

/// S2-R4: every doubt means no. A gated call is not asked without its policy, and a retry asks by the mended one.
#[tokio::test]
async fn a_gated_step_without_its_policy_fails_until_it_is_mended() {
    let world = World::with_real_time().await;
    let pay = json!([{ "tool": "log", "args": { "message": "paid" },
        "approval": { "policy": "two-managers" } }]);
    world.agent("refund", pay).await;
    let run = world.start_run("refund", json!({})).await;
    let shown = world.until_status(&run, "failed").await;
    assert_eq!(shown["failure"]["class"], "policy", "{shown}");
    assert_eq!(shown["failure"]["code"], "policy_unavailable", "{shown}");
    let message = shown["failure"]["message"].as_str().unwrap();
    let expected = "unknown policy `two-managers`; expected one of `default-approval`";
    assert!(message.contains(expected), "{message}");

    let policy =
        json!({ "name": "two-managers", "kind": "approval", "from": "@role.owner", "need": 2 });
    assert_eq!(post(&world, "/policies", policy).await.0, 201);
    let path = format!("/runs/{run}/retry");
    let (status, retried) = post(&world, &path, json!({})).await;
    assert_eq!(status, 200, "{retried}");
    world.until_status(&run, "awaiting_approval").await;
    let requests = world.up.get("/requests?status=open").await.unwrap().1;
    assert_eq!(
        requests["items"][0]["votes"],
        json!({ "have": 0, "need": 2 }),
        "{requests}"
    );
}

/// Gate, S2-R4: a person approves, and then loses the role before the run goes on. The call does not start, people are
/// asked again, and both requests stay on record. An approval by a policy expires after its `valid_for`.
#[tokio::test]
async fn an_approval_ends_with_the_right_and_with_the_time_of_its_policy() {
    let world = World::with_test_clock().await;
    let max = Person::join(&world.up, "max", &["member", "manager"])
        .await
        .unwrap();
    // Without another manager the second request would be addressed to the owners.
    Person::join(&world.up, "moe", &["member", "manager"])
        .await
        .unwrap();
    let policy = json!({ "name": "managers", "kind": "approval", "from": "@role.manager",
        "valid_for": "1h" });
    assert_eq!(post(&world, "/policies", policy).await.0, 201);
    let pay = json!([{ "id": "pay", "tool": "log", "args": { "message": "paid" },
        "approval": { "policy": "managers" } }]);
    world.agent("refund", pay).await;
    let run = world.start_run("refund", json!({})).await;
    world.settle().await;

    let first = open_request(&world, &[]).await;
    world.act(&run, "pause", json!({})).await;
    approve(&world, &max, &first).await;
    let demoted = json!({ "name": "max", "roles": ["member"] });
    assert_eq!(post(&world, "/users", demoted).await.0, 201);
    world.settle().await;
    world.act(&run, "resume", json!({})).await;
    world.settle().await;
    let shown = world.run(&run).await;
    assert_eq!(shown["status"], "awaiting_approval", "{shown}");
    let second = open_request(&world, &[&first]).await;
    let asked = self::shown(&world, &second).await;
    let question = asked["question"].as_str().unwrap();
    assert!(
        question.contains("max may not decide it any more"),
        "{asked}"
    );
    let before = self::shown(&world, &first).await;
    assert_eq!(before["outcome"], "approved", "{before}");

    let promoted = json!({ "name": "max", "roles": ["member", "manager"] });
    assert_eq!(post(&world, "/users", promoted).await.0, 201);
    world.settle().await;
    world.act(&run, "pause", json!({})).await;
    approve(&world, &max, &second).await;
    world.advance("61m").await;
    world.act(&run, "resume", json!({})).await;
    world.settle().await;
    let third = open_request(&world, &[&first, &second]).await;
    approve(&world, &max, &third).await;
    world.settle().await;
    world.until_status(&run, "completed").await;
}

/// The open request that is not in `known`.
async fn open_request(world: &World, known: &[&str]) -> String {
    until(PATIENCE, "a request is open", async || {
        let page = world.up.get("/requests?status=open").await.unwrap().1;
        let items = page["items"].as_array()?.iter();
        let ids = items.filter_map(|one| one["id"].as_str());
        let mut new = ids.filter(|id| !known.contains(id));
        new.next().map(str::to_owned)
    })
    .await
    .unwrap()
}

async fn approve(world: &World, person: &Person, id: &str) {
    let path = format!("/requests/{id}/approve");
    let (status, decided) = person.post(&world.up, &path, &json!({})).await.unwrap();
    assert_eq!(status, 200, "{decided}");
}
