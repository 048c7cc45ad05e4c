//! Steps that wait for a signal or until a date, and `finish` (issue Gate, part 4).

use holdpoint_testkit::{Person, holdpoint_binary};
use reqwest::Method;
use serde_json::{Value, json};

use crate::world::{World, log};

async fn signal(world: &World, id: &str, body: Value) -> (u16, Value) {
    let path = format!("/runs/{id}/signal");
    world.up.post(&path, &body).await.unwrap()
}

/// An early signal is kept over a kill, a repeated key is ignored, and the data is the result of the step.
#[tokio::test]
async fn a_signal_survives_a_kill_and_counts_once() {
    signal_over_a_kill(&mut World::with_test_clock().await).await;
}

/// The same on any system, such as one on Postgres.
pub(crate) async fn signal_over_a_kill(world: &mut World) {
    let paid = json!({ "id": "paid", "wait_for": { "signal": "payment", "timeout": "5 days" } });
    let end = json!({ "finish": "Paid {{ $paid.amount }} EUR." });
    let steps = json!([{ "wait": "1 day" }, paid, { "wait_for": "receipt" }, end, log("never")]);
    world.agent("pays", steps).await;
    let id = world.start_run("pays", json!({})).await;
    let payment = json!({ "name": "payment", "data": { "amount": 12 }, "key": "tx-1" });
    let (status, run) = signal(world, &id, payment.clone()).await;
    assert_eq!((status, &run["changed"]), (200, &json!(true)), "{run}");
    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();
    let (status, run) = signal(world, &id, payment).await;
    assert_eq!((status, &run["changed"]), (200, &json!(false)), "{run}");

    world.advance("1d").await;
    let run = world.run(&id).await;
    assert_eq!(run["steps"][1]["response"]["data"], json!({ "amount": 12 }));
    let hold = &run["waiting_on"][0];
    assert_eq!(
        (&hold["kind"], &hold["step"]),
        (&json!("signal"), &json!("step-03")),
        "{run}"
    );
    let filtered = world.up.get("/runs?hold=signal").await.unwrap().1;
    assert_eq!(filtered["items"][0]["id"], json!(id), "{filtered}");
    for (body, status, code) in [
        (json!({ "name": "recipt" }), 422, "unknown_signal"),
        (json!({ "name": "receipt", "key": "" }), 422, "invalid_body"),
        (
            json!({ "name": "receipt", "data": "x".repeat(70_000) }),
            413,
            "too_large",
        ),
    ] {
        let (got, problem) = signal(world, &id, body).await;
        assert_eq!((got, &problem["code"]), (status, &json!(code)), "{problem}");
    }

    let output = tokio::process::Command::new(holdpoint_binary().unwrap())
        .args([
            "run",
            "signal",
            &id,
            "--name",
            "receipt",
            "--payload",
            "{\"n\": 1}",
        ])
        .arg("--data")
        .arg(world.up.data_dir())
        .env_remove("HOLDPOINT_URL")
        .env_remove("HOLDPOINT_TOKEN")
        .output();
    let output = output.await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.contains(&format!("{id}  got the signal  ")),
        "{output:?}"
    );
    let run = world.until_status(&id, "completed").await;
    assert_eq!(run["result"]["summary"], "Paid 12 EUR.");
    assert_eq!(run["steps"][4]["status"], "skipped");
    let kinds = world.history(&id).await;
    let received = kinds.iter().filter(|kind| *kind == "signal.received");
    assert_eq!(received.count(), 2, "{kinds:?}");
    let (status, problem) = signal(world, &id, json!({ "name": "receipt" })).await;
    assert_eq!((status, &problem["code"]), (409, &json!("run_final")));
    world.rests().await;
}

/// A wait until a weekday ends at its time in its zone, and a signal that does not come fails its step.
#[tokio::test]
async fn a_weekday_and_a_deadline_come_at_their_time() {
    let world = World::with_test_clock().await;
    let day = json!({ "weekday": "monday", "at": "09:00", "time_zone": "Europe/Berlin" });
    let steps = json!([{ "wait": day }, { "wait_for": { "signal": "go", "timeout": "2h" } }]);
    world.agent("mondays", steps).await;
    let id = world.start_run("mondays", json!({})).await;
    let run = world.run(&id).await;
    let until = run["waiting_on"][0]["until"].as_str().unwrap();
    assert!(
        ["T07:00:00.000Z", "T08:00:00.000Z"]
            .iter()
            .any(|time| until.ends_with(time)),
        "{until}"
    );
    world.advance("7d").await;
    world.advance("2h").await;
    let run = world.until_status(&id, "failed").await;
    assert_eq!(run["failure"]["code"], "signal_timeout", "{run}");
    assert_eq!(run["failure"]["class"], "human_timeout", "{run}");
}

/// API `PATCH /runs/{run}/context`: later steps see the change, over a kill, and an ended run takes none.
#[tokio::test]
async fn later_steps_see_a_change_of_the_context() {
    let mut world = World::with_test_clock().await;
    let message = "{{ input.address.city }} {{ input.address.zip }}";
    let note = json!({ "tool": "log", "args": { "message": message } });
    world
        .agent("ships", json!([{ "wait_for": "go" }, note]))
        .await;
    let address = json!({ "address": { "city": "Bonn", "zip": "53111", "note": "x" } });
    let id = world.start_run("ships", json!({ "input": address })).await;
    let path = format!("/runs/{id}/context");
    let patch = json!({ "address": { "city": "Berlin", "note": null } });
    let (status, run) = world.up.patch(&path, &patch).await.unwrap();
    assert_eq!((status, &run["changed"]), (200, &json!(true)), "{run}");
    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();
    let (status, run) = world.up.patch(&path, &patch).await.unwrap();
    assert_eq!((status, &run["changed"]), (200, &json!(false)), "{run}");
    let large = "x".repeat(600_000);
    for (patch, status) in [
        (json!([]), 422),
        (json!({ "a": large }), 200),
        (json!({ "b": large }), 413),
        (json!({ "a": null }), 200),
    ] {
        let (got, answer) = world.up.patch(&path, &patch).await.unwrap();
        assert_eq!(got, status, "{}", answer["code"]);
    }
    let viewer = Person::join(&world.up, "vera", &["viewer"]).await.unwrap();
    let whole = format!("/v1/workspaces/default{path}");
    let sent = world
        .up
        .call_with(viewer.token(), Method::PATCH, &whole, Some(&patch));
    let (status, problem) = sent.await.unwrap();
    assert_eq!(status, 403, "{problem}");
    let output = tokio::process::Command::new(holdpoint_binary().unwrap())
        .args([
            "run",
            "context",
            &id,
            "--patch",
            r#"{"address": {"zip": "10115"}}"#,
        ])
        .arg("--data")
        .arg(world.up.data_dir())
        .env_remove("HOLDPOINT_URL")
        .env_remove("HOLDPOINT_TOKEN")
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(signal(&world, &id, json!({ "name": "go" })).await.0, 200);
    let ended = world.until_status(&id, "completed").await;
    assert_eq!(ended["steps"][1]["request"]["message"], "Berlin 10115");
    assert_eq!(
        ended["input"]["address"],
        json!({ "city": "Berlin", "zip": "10115" })
    );
    let kinds = world.history(&id).await;
    let changes = kinds.iter().filter(|kind| *kind == "run.context_changed");
    assert_eq!(changes.count(), 4);
    let (status, problem) = world.up.patch(&path, &patch).await.unwrap();
    assert_eq!((status, &problem["code"]), (409, &json!("run_final")));
}
