//! A contact is interested. A person gets the lead with all data of the contact, takes it over, and ends the run or
//! lets it continue.

use std::time::Duration;

use holdpoint_testkit::{Person, until};
use serde_json::{Value, json};

use crate::world::{PATIENCE, World, log, until_applied};

/// A run with a handoff to nina and one step after it.
async fn outreach(world: &World, handoff: Value) -> (Person, String, Value) {
    let nina = Person::join(&world.up, "nina", &["member", "sales"])
        .await
        .unwrap();
    let mail = json!({ "to": "{{ contact.email }}", "subject": "Introduction", "body": "Hello" });
    let steps = json!([
        { "tool": "send_email", "args": mail },
        { "handoff": handoff },
        log("afterwards {{ $step-02.outcome_type }}"),
    ]);
    world.agent("outreach", steps).await;
    let contact = json!({
        "id": "c-zoe", "name": "Zoe", "email": "zoe@zoe.example",
        "replied": true, "sentiment": "positive",
        "deals": [{ "name": "Pilot", "value": 12000, "stage": "proposal", "probability": 0.4 }],
    });
    let run = world
        .start_run("outreach", json!({ "contact": contact }))
        .await;
    let shown = world.until_status(&run, "waiting").await;
    let id = shown["waiting_on"][0]["id"].as_str().unwrap();
    let request = until(PATIENCE, "the request is there", async || {
        let (status, body) = nina
            .get(&world.up, &format!("/requests/{id}"))
            .await
            .unwrap();
        (status == 200).then_some(body)
    })
    .await
    .unwrap();
    (nina, run, request)
}

fn path(request: &Value, verb: &str) -> String {
    format!("/requests/{}/{verb}", request["id"].as_str().unwrap())
}

/// S0-AC7, S0-T1, S0-T2, S0-R2, S0-T4: the request shows the lead, the contact and its deals and mails.
#[tokio::test]
async fn the_request_shows_the_whole_lead() {
    let world = World::with_test_clock().await;
    let handoff = json!({ "to": "@user.nina", "message": "personal outreach" });
    let (_, run, request) = outreach(&world, handoff).await;
    assert_eq!(
        request["question"], "Warm lead from agent outreach: Zoe is interested",
        "{request}"
    );
    assert_eq!(request["title"], "[Warm Lead] Agent handoff: Zoe");
    assert_eq!(request["status"], "offered");
    assert_eq!(request["priority"], "high");
    assert_eq!(request["warm_lead"], true);
    assert_eq!(request["task"]["title"], "Personal outreach to Zoe");
    let tags = &request["task"]["tags"];
    assert_eq!(
        *tags,
        json!(["agent-handoff", "requires-review", "warm-lead"])
    );
    let context = &request["context"];
    assert_eq!(context["contact"]["email"], "zoe@zoe.example", "{context}");
    assert_eq!(context["deals"][0]["stage"], "proposal");
    assert_eq!(context["emails"][0]["subject"], "Introduction");
    let shown = world.run(&run).await;
    assert_eq!(shown["waiting_on"][0]["kind"], "handoff");
    assert_eq!(shown["waiting_on"][0]["remaining_ms"], Value::Null);
    assert!(
        shown["resume_at"].is_string(),
        "seven days by default: {shown}"
    );
}

/// Issue 4, Deliver 4: the eligible users see the whole request. A viewer and an uninvolved program see only the
/// question.
#[tokio::test]
async fn uninvolved_callers_see_neither_contact_nor_replies() {
    let world = World::with_test_clock().await;
    let handoff = json!({ "to": "@role.sales", "message": "call her" });
    let (nina, run, request) = outreach(&world, handoff).await;
    let done =
        json!({ "notes": "Wants a pilot.", "outcome_type": "resolved", "disposition": "finish" });
    let complete = path(&request, "complete");
    let (status, completed) = nina.post(&world.up, &complete, &done).await.unwrap();
    assert_eq!(status, 200, "{completed}");
    world.until_status(&run, "completed").await;
    let vi = Person::join(&world.up, "vi", &["viewer"]).await.unwrap();
    let robot = Person::join(&world.up, "robot", &["agent"]).await.unwrap();
    let one = format!("/requests/{}", request["id"].as_str().unwrap());
    for path in [one.as_str(), "/requests"] {
        let read = async |person: &Person| {
            let (status, seen) = person.get(&world.up, path).await.unwrap();
            assert_eq!(status, 200, "{seen}");
            seen.to_string()
        };
        let all = read(&nina).await;
        let secrets = ["zoe@zoe.example", "Wants a pilot.", "12000"];
        assert!(secrets.iter().all(|it| all.contains(it)), "{path}: {all}");
        assert!(!all.contains("redacted"), "{path}: {all}");
        for other in [&vi, &robot] {
            let seen = read(other).await;
            assert!(
                !secrets.iter().any(|it| seen.contains(it)),
                "{path}: {seen}"
            );
            assert!(seen.contains(r#""redacted":true"#), "{path}: {seen}");
            assert!(seen.contains("Zoe is interested"), "{path}: {seen}");
        }
    }
}

/// S0-AC7, S0-T3: a take-over stops the timer and the agent, and completing the handoff lets the run continue.
#[tokio::test]
async fn a_take_over_stops_the_clock_until_the_run_is_given_back() {
    let world = World::with_test_clock().await;
    let handoff = json!({ "to": "@role.sales", "message": "call her", "timeout": "3 days" });
    let (nina, run, request) = outreach(&world, handoff).await;
    let (status, taken) = nina
        .post(&world.up, &path(&request, "take-over"), &json!({}))
        .await
        .unwrap();
    assert_eq!(status, 200, "{taken}");
    assert_eq!(
        (&taken["status"], &taken["assignee"]),
        (&json!("taken_over"), &json!("nina"))
    );
    until(PATIENCE, "the run knows its owner", async || {
        let kinds = world.history(&run).await;
        kinds
            .contains(&"handoff.taken_over".to_owned())
            .then_some(())
    })
    .await
    .unwrap();
    world.advance("30 days").await;
    assert_eq!(
        world.run(&run).await["status"],
        "waiting",
        "the handoff does not time out"
    );

    let done = json!({ "notes": "Called; wants a pilot.", "outcome_type": "resolved", "disposition": "return_to_agent" });
    let (status, decided) = nina
        .post(&world.up, &path(&request, "complete"), &done)
        .await
        .unwrap();
    assert_eq!(status, 200, "{decided}");
    until_applied(&world.up, &decided).await;
    let shown = world.until_status(&run, "completed").await;
    assert_eq!(shown["steps"][2]["status"], "completed");
    assert_eq!(
        shown["steps"][2]["request"]["message"],
        "afterwards resolved"
    );
    let (_, after) = nina
        .get(
            &world.up,
            &format!("/requests/{}", request["id"].as_str().unwrap()),
        )
        .await
        .unwrap();
    assert_eq!(after["status"], "completed", "{after}");
}

/// S0-T3, S0-R4: `complete-handoff` ends the run, and refuses a run without a handoff.
#[tokio::test]
async fn completing_by_the_run_ends_it() {
    let world = World::with_test_clock().await;
    let handoff = json!({ "to": "@user.nina" });
    let (_, run, _) = outreach(&world, handoff).await;
    let path = format!("/runs/{run}/complete-handoff");
    let body = json!({ "notes": "Done.", "outcome_type": "no_action_needed" });
    let unseen = json!({ "notes": "Done.", "version": 99 });
    let (status, refused) = world.up.put(&path, &unseen).await.unwrap();
    let conflict = (409, &json!("version_conflict"));
    assert_eq!((status, &refused["code"]), conflict, "{refused}");
    let (status, done) = world.up.put(&path, &body).await.unwrap();
    assert_eq!((status, &done["success"]), (200, &json!(true)), "{done}");
    assert_eq!(done["execution"]["execution_id"], run.as_str());
    assert_eq!(done["execution"]["status"], "completed");
    assert_eq!(done["execution"]["completed_by"], "owner");
    let shown = world.until_status(&run, "completed").await;
    assert_eq!(
        shown["steps"][2]["status"], "skipped",
        "the rest is not done"
    );

    // A repetition by the same person would get the first reply ("Races"); this body is different.
    let other = json!({ "notes": "Done twice." });
    let (status, again) = world.up.put(&path, &other).await.unwrap();
    assert_eq!(
        (status, &again["code"]),
        (409, &json!("not_waiting")),
        "{again}"
    );
    assert_eq!(
        again["detail"],
        "Cannot complete handoff: Execution not in waiting state"
    );
    // Mend C-4: also for an invalid run id.
    for unknown in ["run_0193aaaabbbb7ccc8dddeeeeeeeeeeee", "execution-12"] {
        let path = format!("/runs/{unknown}/complete-handoff");
        let (status, unknown) = world.up.put(&path, &body).await.unwrap();
        assert_eq!(status, 404, "{unknown}");
        let words = "Cannot complete handoff: Execution not found";
        assert_eq!(unknown["detail"], words);
    }
}

/// Mend C-3: a run with status `waiting` can be completed at once, in twelve of twelve cases. Mend C-4: `warnings` is
/// there and empty. Mend C-6: a late caller learns who has cancelled.
#[tokio::test]
async fn a_waiting_run_is_completed_at_once() {
    let world = World::with_real_time().await;
    let step = json!({ "handoff": { "to": "@user.owner" } });
    world.agent("hands", json!([step])).await;
    for _try in 0..12 {
        let run = world.start_run("hands", json!({})).await;
        loop {
            let (_, shown) = world.up.get(&format!("/runs/{run}")).await.unwrap();
            if shown["status"] == "waiting" {
                break;
            }
        }
        let path = format!("/runs/{run}/complete-handoff");
        let (status, done) = world.up.put(&path, &json!({})).await.unwrap();
        assert_eq!((status, &done["warnings"]), (200, &json!([])), "{done}");
    }
    let run = world.start_run("hands", json!({})).await;
    let shown = world.until_status(&run, "waiting").await;
    let id = shown["waiting_on"][0]["id"].as_str().unwrap().to_owned();
    let path = format!("/runs/{run}/cancel");
    let (status, cancelled) = world.up.post(&path, &json!({})).await.unwrap();
    assert_eq!(status, 200, "{cancelled}");
    let accept = format!("/requests/{id}/accept");
    let response = until(PATIENCE, "the request to be over", async || {
        let (status, response) = world.up.post(&accept, &json!({})).await.unwrap();
        (status == 409).then_some(response)
    });
    let response = response.await.unwrap();
    assert_eq!(response["winner"]["by"], "owner", "{response}");
}

/// S0-AC6, S0-T1: without an action the run continues at the due time.
#[tokio::test]
async fn an_untaken_handoff_continues_at_its_due_time() {
    let world = World::with_test_clock().await;
    let handoff = json!({ "to": "@user.nina", "timeout": "3 days" });
    let (nina, run, request) = outreach(&world, handoff).await;
    world.advance("2 days 23 hours").await;
    assert_eq!(world.run(&run).await["status"], "waiting");
    world.advance("1 hour").await;
    world.until_status(&run, "completed").await;
    let late = json!({ "notes": "Late.", "disposition": "finish" });
    let (status, refused) = nina
        .post(&world.up, &path(&request, "complete"), &late)
        .await
        .unwrap();
    assert_eq!(
        (status, &refused["code"]),
        (409, &json!("already_decided")),
        "{refused}"
    );
}

/// S0-R1: an inactive assignee fails the step with this text.
#[tokio::test]
async fn an_inactive_assignee_fails_the_handoff() {
    let world = World::with_test_clock().await;
    let steps = json!([{ "handoff": { "to": "@user.gone", "message": "call" } }]);
    world.agent("hands", steps).await;
    let run = world.start_run("hands", json!({})).await;
    let shown = world.until_status(&run, "failed").await;
    assert_eq!(
        shown["failure"]["message"], "Handoff failed: User gone not found or inactive in workspace",
        "{shown}"
    );
}

/// S0-AC4: the clock of a handoff stops while its agent is paused.
#[tokio::test]
async fn a_paused_handoff_keeps_its_remaining_time() {
    let world = World::with_test_clock().await;
    let handoff = json!({ "to": "@user.nina", "timeout": "3 days" });
    let (_, run, _) = outreach(&world, handoff).await;
    world.advance("1 day").await;
    world.act(&run, "pause", json!({})).await;
    world.advance("60 days").await;
    let shown = world.run(&run).await;
    assert_eq!(shown["status"], "waiting");
    let left = u64::try_from(Duration::from_hours(48).as_millis()).unwrap();
    assert_eq!(
        shown["waiting_on"][0]["remaining_ms"],
        json!(left),
        "{shown}"
    );
    world.act(&run, "resume", json!({})).await;
    world.advance("47 hours").await;
    assert_eq!(world.run(&run).await["status"], "waiting");
    world.advance("1 hour").await;
    world.until_status(&run, "completed").await;
}

/// Mend C-8: a pause of one run takes `waiting` and `new`, runs are found by `hold`, and a new hold is `open`.
#[tokio::test]
async fn routes_accept_the_fields_of_the_api_page() {
    let world = World::with_test_clock().await;
    let agent = json!({ "agent": "waiting", "steps": [{ "wait": "2 days" }] });
    world.up.post("/agents", &agent).await.unwrap();
    let (_, run) = world
        .up
        .post("/agents/waiting/runs", &json!({}))
        .await
        .unwrap();
    let id = run["id"].as_str().unwrap();
    let found = async |hold: &str| {
        let (_, list) = world.up.get(&format!("/runs?hold={hold}")).await.unwrap();
        list["items"].as_array().map(Vec::len)
    };
    assert_eq!(
        (found("timer").await, found("handoff").await),
        (Some(1), Some(0))
    );
    let pause = format!("/runs/{id}/pause");
    let (status, _) = world
        .up
        .post(&pause, &json!({ "waiting": "soon" }))
        .await
        .unwrap();
    assert_eq!(status, 422);
    let both = json!({ "waiting": "cancel", "new": "accept" });
    let (status, paused) = world.up.post(&pause, &both).await.unwrap();
    assert_eq!(
        (status, &paused["status"]),
        (200, &json!("cancelled")),
        "{paused}"
    );
    let hold = json!({ "kind": "handoff", "question": "Call her", "timeout": 0 });
    let (status, opened) = world.up.post("/holds", &hold).await.unwrap();
    assert_eq!(
        (status, &opened["status"]),
        (201, &json!("open")),
        "{opened}"
    );
    assert_eq!(opened["deadline"], json!(null));
}
