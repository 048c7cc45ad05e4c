//! A run waits and continues by itself.

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;

use crate::world::{World, log};

fn instant(value: &serde_json::Value) -> DateTime<Utc> {
    value.as_str().unwrap().parse().unwrap()
}

/// S0-AC1, S0-AC2, M-2, M-4
#[tokio::test]
async fn a_run_continues_by_itself_after_five_days() {
    let world = World::with_test_clock().await;
    world
        .agent(
            "patient",
            json!([log("before"), { "wait": "5 days" }, log("after")]),
        )
        .await;
    let id = world.start_run("patient", json!({})).await;
    world.settle().await;

    let waiting = world.run(&id).await;
    assert_eq!(waiting["status"], "waiting");
    assert_eq!(waiting["message"], "Agent paused. Will resume in 5 days.");
    let since = instant(&waiting["waiting_on"][0]["since"]);
    assert_eq!(instant(&waiting["resume_at"]), since + TimeDelta::days(5));

    world.advance("4d 23h 59m").await;
    assert_eq!(world.run(&id).await["status"], "waiting");
    world.advance("1m").await;
    let done = world.run(&id).await;
    assert_eq!(done["status"], "completed", "{done}");
    assert_eq!(done["steps"][2]["status"], "completed");
    let types = world.history(&id).await;
    let resumed = types.iter().position(|kind| kind == "run.resumed").unwrap();
    assert_eq!(types[resumed + 1], "step.called", "{types:?}");
}

/// S0-AC3
#[tokio::test]
async fn two_waits_in_a_row_add_up() {
    let world = World::with_test_clock().await;
    world
        .agent("twice", json!([{ "wait": "3 days" }, { "wait": "2 days" }]))
        .await;
    let id = world.start_run("twice", json!({})).await;
    world.settle().await;
    let first = world.run(&id).await;
    assert_eq!(
        first["steps"][1]["status"], "planned",
        "the second starts when the first has ended"
    );
    let started = instant(&first["created_at"]);

    world.advance("3 days").await;
    let second = world.run(&id).await;
    assert_eq!(second["status"], "waiting");
    assert_eq!(instant(&second["resume_at"]), started + TimeDelta::days(5));
    world.advance("2 days").await;
    let done = world.run(&id).await;
    assert_eq!(done["status"], "completed");
    assert_eq!(instant(&done["ended_at"]), started + TimeDelta::days(5));
}

/// S0-AC8: 31 and 32 bits of milliseconds end at 24.8 and 49.7 days.
#[tokio::test]
async fn long_waits_end_to_the_millisecond() {
    let world = World::with_test_clock().await;
    for (name, wait) in [
        ("bits31", "2147483648ms"),
        ("bits32", "4294967296ms"),
        ("longest", "90 days"),
    ] {
        world.agent(name, json!([{ "wait": wait }])).await;
        let id = world.start_run(name, json!({})).await;
        world.settle().await;
        let waiting = world.run(&id).await;
        let due = instant(&waiting["resume_at"]);
        let (_, clock) = world
            .up
            .call(reqwest::Method::GET, "/v1/clock", None)
            .await
            .unwrap();
        let left = (due - instant(&clock["now"])).num_milliseconds();
        world.advance(&format!("{}ms", left - 1)).await;
        assert_eq!(world.run(&id).await["status"], "waiting", "{name}");
        world.advance("1ms").await;
        let done = world.run(&id).await;
        assert_eq!(done["status"], "completed", "{name}");
        assert_eq!(instant(&done["ended_at"]), due, "{name}");
    }
    let too_long = json!({ "agent": "too-long", "steps": [{ "wait": "7776000001ms" }] });
    let (status, problem) = world.up.post("/agents", &too_long).await.unwrap();
    assert_eq!(
        (status, &problem["code"]),
        (422, &json!("invalid_agent")),
        "{problem}"
    );
}

/// S0-AC2 on real time, with a JetStream schedule and the durable consumer.
#[tokio::test]
async fn a_short_wait_ends_on_real_time() {
    let world = World::with_real_time().await;
    world
        .agent("short", json!([{ "wait": "2s" }, log("after")]))
        .await;
    let id = world.start_run("short", json!({})).await;
    let waiting = world.until_status(&id, "waiting").await;
    let due = instant(&waiting["resume_at"]);
    let done = world.until_status(&id, "completed").await;
    let ended = instant(&done["ended_at"]);
    assert!(ended >= due, "{ended} is before {due}");
    assert!(
        ended - due < TimeDelta::seconds(2),
        "{ended} is long after {due}"
    );
}
