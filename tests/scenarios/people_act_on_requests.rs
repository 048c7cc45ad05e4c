//! Users vote, fill forms, take over and complete handoffs, and are disabled.

use holdpoint_testkit::until;
use serde_json::{Value, json};

use crate::world::{PATIENCE, World, until_applied};

async fn add(world: &World, name: &str, role: &str) -> String {
    let body = json!({ "name": name, "roles": ["member", role] });
    let (status, made) = world.up.post("/users", &body).await.unwrap();
    assert_eq!(status, 201, "{made}");
    name.to_owned()
}

async fn open(world: &World, body: Value) -> String {
    let (status, hold) = world.up.post("/holds", &body).await.unwrap();
    assert_eq!(status, 201, "{hold}");
    hold["id"].as_str().unwrap().to_owned()
}

async fn post(world: &World, id: &str, verb: &str, body: Value) -> (u16, Value) {
    let path = format!("/requests/{id}/{verb}");
    let (status, answer) = world.up.post(&path, &body).await.unwrap();
    (status, answer)
}

async fn shown(world: &World, id: &str) -> Value {
    world.up.get(&format!("/requests/{id}")).await.unwrap().1
}

/// S0-AC7, M-6: a standalone handoff is taken over, reassigned and completed.
#[tokio::test]
async fn a_handoff_is_taken_over_reassigned_and_completed() {
    let world = World::with_test_clock().await;
    add(&world, "ada", "ops").await;
    let body = json!({ "kind": "handoff", "question": "Call them", "to": "@role.ops",
        "timeout": "2h", "priority": "high" });
    let id = open(&world, body).await;
    let request = shown(&world, &id).await;
    assert_eq!(
        (&request["status"], &request["priority"]),
        (&json!("offered"), &json!("high"))
    );
    let inbox = world
        .up
        .get("/requests?status=open&assignee=ada&priority=high");
    assert_eq!(inbox.await.unwrap().1["items"][0]["id"], id.as_str());
    let (status, taken) = post(&world, &id, "take-over", json!({})).await;
    assert_eq!(
        (status, &taken["status"]),
        (200, &json!("taken_over")),
        "{taken}"
    );
    assert_eq!(taken["deadline"], Value::Null);
    world.advance("3h").await;
    let (status, _) = post(&world, &id, "reassign", json!({ "to": "@user.ghost" })).await;
    assert_eq!(status, 422);
    let (status, given) = post(&world, &id, "reassign", json!({ "to": "@user.ada" })).await;
    assert_eq!((status, &given["assignee"]), (200, &json!("ada")));
    let done = json!({ "notes": "called", "outcome_type": "resolved", "disposition": "finish" });
    let (status, done) = post(&world, &id, "complete", done).await;
    assert_eq!(
        (status, &done["request"]["status"]),
        (200, &json!("completed")),
        "{done}"
    );
    let (status, late) = post(&world, &id, "accept", json!({})).await;
    assert_eq!((status, &late["code"]), (409, &json!("already_decided")));
}

/// People 1: an atomic batch decides all requests or none, and names the one that stopped it.
#[tokio::test]
async fn an_atomic_batch_approves_all_or_none() {
    let world = World::with_test_clock().await;
    let mut ids = Vec::new();
    for question in ["Ship 1?", "Ship 2?", "Ship 3?"] {
        ids.push(open(&world, json!({ "kind": "approval", "question": question })).await);
    }
    let batch = async |ids: &[String]| {
        let body = json!({ "ids": ids, "decision": { "approve": {} }, "atomic": true });
        world.up.post("/requests:batch", &body).await.unwrap()
    };
    post(
        &world,
        &ids[1],
        "reject",
        json!({ "reason": "not this one" }),
    )
    .await;
    let (status, response) = batch(&ids).await;
    assert_eq!(
        (status, &response["code"]),
        (409, &json!("none_decided")),
        "{response}"
    );
    let detail = response["detail"].as_str().unwrap();
    assert!(
        detail.contains(&ids[1]) && detail.contains("rejected by owner"),
        "{response}"
    );
    let codes: Vec<_> = (0..3)
        .map(|n| &response["items"][n]["problem"]["code"])
        .collect();
    assert_eq!(codes, ["batch_aborted", "already_decided", "batch_aborted"]);
    assert_eq!(shown(&world, &ids[0]).await["status"], "open");
    assert_eq!(shown(&world, &ids[1]).await["late"], json!([]));
    ids.remove(1);
    let (status, response) = batch(&ids).await;
    assert_eq!(
        (status, &response["items"][1]["recorded"]),
        (200, &json!(true)),
        "{response}"
    );
    assert_eq!(shown(&world, &ids[0]).await["outcome"], "approved");
}

/// A snoozed request is hidden from the list of one user until its time, and from no other list.
#[tokio::test]
async fn a_snoozed_request_comes_back_by_itself() {
    let world = World::with_test_clock().await;
    add(&world, "ada", "ops").await;
    let body = json!({ "kind": "input", "question": "When?", "to": "@role.ops", "timeout": "9h",
        "on_timeout": "default", "default": "next week" });
    let id = open(&world, body).await;
    assert_eq!(shown(&world, &id).await["default"], "next week");
    let (status, snoozed) = post(&world, &id, "snooze", json!({ "for": "2h" })).await;
    assert_eq!(status, 200, "{snoozed}");
    assert_eq!(snoozed["snoozed_until"], snoozed["snoozed_by"][0]["until"]);
    assert_eq!(snoozed["snoozed_by"][0]["by"], "owner");
    let listed = async |filter: &str| {
        let (_, page) = world.up.get(&format!("/requests?{filter}")).await.unwrap();
        page["items"].as_array().unwrap().len()
    };
    for (filter, now, later) in [
        ("status=open&snoozed=false", 0, 1),
        ("status=snoozed", 1, 0),
        ("status=open", 1, 1),
        ("status=open&assignee=ada", 1, 1),
        ("status=snoozed&assignee=ada", 0, 0),
    ] {
        assert_eq!(listed(filter).await, now, "{filter}");
        let (_, back) = post(&world, &id, "snooze", json!({ "for": "2h" })).await;
        assert_eq!(back["status"], "open");
        world.advance("2h").await;
        assert_eq!(listed(filter).await, later, "{filter}");
        post(&world, &id, "snooze", json!({ "for": "2h" })).await;
    }
}

/// S0-R1: the requests of a disabled user go to the owners.
#[tokio::test]
async fn a_disabled_user_loses_their_requests() {
    let world = World::with_test_clock().await;
    add(&world, "ada", "ops").await;
    let body = json!({ "kind": "approval", "question": "Ship?", "to": ["@user.ada"] });
    let id = open(&world, body).await;
    assert_eq!(shown(&world, &id).await["assignee"], "ada");
    let (status, _) = world.up.delete("/users/ada").await.unwrap();
    assert_eq!(status, 200);
    let note = until(PATIENCE, "it is reassigned to the owners", async || {
        let request = shown(&world, &id).await;
        let is_free = request["assignee"].is_null() && request["to"] == json!([]);
        is_free.then(|| request["history"][1]["note"].clone())
    });
    assert_eq!(
        note.await.unwrap(),
        "ada was disabled; reassigned to the owners"
    );
    let body = json!({ "kind": "approval", "question": "Ship?", "to": ["@user.ada"] });
    let (status, refused) = world.up.post("/holds", &body).await.unwrap();
    assert_eq!(status, 422, "{refused}");
}

/// S3-R3, S2-R4: forms, votes and batches.
#[tokio::test]
async fn forms_are_checked_votes_are_counted_and_batches_answer_each() {
    let world = World::with_test_clock().await;
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } },
        "required": ["n"] });
    let asked = json!({ "kind": "input", "question": "How many?", "schema": schema });
    let id = open(&world, asked).await;
    let (status, wrong) = post(&world, &id, "respond", json!({ "answer": { "n": "x" } })).await;
    assert_eq!(
        (status, &wrong["code"]),
        (422, &json!("invalid_answer")),
        "{wrong}"
    );
    let (status, _) = post(&world, &id, "respond", json!({ "answer": { "n": 3 } })).await;
    assert_eq!(status, 200);
    let vote = json!({ "kind": "approval", "question": "Go?", "policy": { "need": 2 } });
    let (status, refused) = world.up.post("/holds", &vote).await.unwrap();
    assert_eq!(status, 422, "one owner cannot agree twice: {refused}");
    assert_eq!(refused["errors"][0]["pointer"], "/policy/need");
    add(&world, "ada", "owner").await;
    let id = open(&world, vote).await;
    post(&world, &id, "accept", json!({})).await;
    let inbox = "/requests?assignee=ada&status=open";
    let (_, theirs) = world.up.get(inbox).await.unwrap();
    assert_eq!(
        theirs["items"][0]["id"], *id,
        "accepted, and still open for votes"
    );
    let (status, voted) = post(&world, &id, "approve", json!({})).await;
    assert_eq!(
        (status, &voted["effect"]),
        (200, &json!("pending")),
        "{voted}"
    );
    assert_eq!(voted["request"]["votes"], json!({ "have": 1, "need": 2 }));
    let plain = json!({ "kind": "approval", "question": "Go?" });
    let (one, two) = (open(&world, plain.clone()).await, open(&world, plain).await);
    let batch = json!({ "ids": [one, two, "hold_0193aaaabbbb7ccc8dddeeeeeeeeeeee-0"],
        "decision": { "approve": {} } });
    let (status, results) = world.up.post("/requests:batch", &batch).await.unwrap();
    assert_eq!(status, 200, "{results}");
    for place in 0..2 {
        until_applied(&world.up, &results["items"][place]).await;
    }
    assert_eq!(results["items"][2]["problem"]["status"], 404);
}

/// An invalid hold is refused before it notifies a recipient.
#[tokio::test]
async fn invalid_holds_are_refused() {
    let world = World::with_test_clock().await;
    for (body, code) in [
        (
            json!({ "kind": "input", "question": "?", "options": [true, false] }),
            422,
        ),
        (
            json!({ "kind": "input", "question": "?", "schema": { "type": "array" } }),
            422,
        ),
        (
            json!({ "kind": "approval", "question": "?", "callback": "ftp://acme.example/done" }),
            422,
        ),
    ] {
        let (status, refused) = world.up.post("/holds", &body).await.unwrap();
        assert_eq!(status, code, "{refused}");
    }
    let (status, refused) = world
        .up
        .put(
            "/runs/run_0193aaaabbbb7ccc8dddeeeeeeeeeeee/complete-handoff",
            &json!({}),
        )
        .await
        .unwrap();
    assert_eq!(status, 404);
    assert_eq!(
        refused["detail"],
        "Cannot complete handoff: Execution not found"
    );
}

/// S0-AC6: the history of a run has every action of people on its handoff.
#[tokio::test]
async fn the_history_of_a_run_has_every_action_on_its_handoff() {
    let world = World::with_test_clock().await;
    for name in ["ada", "bob"] {
        add(&world, name, "sales").await;
    }
    let handoff = json!({ "handoff": { "to": "@role.sales", "message": "call them" } });
    world.agent("hands", json!([handoff])).await;
    let run = world.start_run("hands", json!({})).await;
    let shown = world.until_status(&run, "waiting").await;
    let id = shown["waiting_on"][0]["id"].as_str().unwrap().to_owned();
    let asked = until(PATIENCE, "the request is there", async || {
        let (status, _) = world.up.get(&format!("/requests/{id}")).await.unwrap();
        (status == 200).then_some(())
    });
    asked.await.unwrap();
    for (verb, body) in [
        ("accept", json!({})),
        ("reassign", json!({ "to": "@user.bob" })),
        ("take-over", json!({})),
        ("reassign", json!({ "to": "@user.ada" })),
        (
            "complete",
            json!({ "notes": "called", "outcome_type": "resolved", "disposition": "finish" }),
        ),
    ] {
        let (status, answer) = post(&world, &id, verb, body).await;
        assert_eq!(status, 200, "{verb}: {answer}");
    }
    world.until_status(&run, "completed").await;
    let items = world.items(&run).await;
    let events = items.iter().filter(|item| {
        let kind = item["type"].as_str().unwrap();
        kind.starts_with("handoff.")
    });
    let events: Vec<_> = events
        .map(|item| (item["type"].as_str().unwrap(), &item["data"]["to"]))
        .collect();
    assert_eq!(
        events,
        [
            ("handoff.offered", &json!(["@role.sales"])),
            ("handoff.accepted", &Value::Null),
            ("handoff.reassigned", &json!(["@user.bob"])),
            ("handoff.taken_over", &Value::Null),
            ("handoff.reassigned", &json!(["@user.ada"])),
            ("handoff.completed", &Value::Null),
        ]
    );
}

/// Issue 4, "acknowledge and re-trigger": a request that was acknowledged and not decided notifies its recipients and
/// the owners again.
#[tokio::test]
async fn an_acknowledged_request_reminds_again() {
    let world = World::with_test_clock().await;
    add(&world, "ada", "ops").await;
    let rungs = json!([{ "after": "1h", "do": "notify", "to": "@role.ops" },
        { "after": "2h", "do": "notify" }]);
    let policy = json!({ "name": "on-call", "kind": "escalation", "rungs": rungs,
        "acknowledged_for": "45m" });
    let (status, made) = world.up.post("/policies", &policy).await.unwrap();
    assert_eq!(
        (status, &made["acknowledged_for"]),
        (201, &json!("45m")),
        "{made}"
    );
    let body = json!({ "kind": "approval", "question": "Deploy?", "to": "@role.ops",
        "timeout": "30d", "policy": "on-call" });
    let id = open(&world, body).await;
    let notes_of_rungs = async || {
        let request = shown(&world, &id).await;
        let history = request["history"].as_array().unwrap().clone();
        let escalated = history
            .into_iter()
            .filter(|one| one["action"] == "escalated");
        escalated
            .map(|one| one["note"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    world.advance("1h").await;
    assert_eq!(notes_of_rungs().await, ["notified @role.ops"]);
    let (status, _) = post(&world, &id, "acknowledge", json!({})).await;
    assert_eq!(status, 200);
    world.advance("44m").await;
    assert_eq!(notes_of_rungs().await.len(), 1, "no reminder yet");
    world.advance("61m").await;
    let notes = notes_of_rungs().await;
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(
        notes[1].starts_with("round 2,") && notes[1].ends_with("notified @role.ops"),
        "{notes:?}"
    );
    assert!(
        notes[2].starts_with("round 2,") && notes[2].ends_with("notified the owners"),
        "{notes:?}"
    );
}
