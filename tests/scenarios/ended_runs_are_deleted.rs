//! A run is deleted some time after its end (S0-NFR).

use holdpoint_testkit::until;
use serde_json::json;

use crate::world::{PATIENCE, World, log, until_applied};

/// Mend B-11: an ended run goes 30 days after its end, its request stays as the record of the decision, and a run
/// that has not ended stays.
#[tokio::test]
async fn an_ended_run_is_deleted_after_thirty_days() {
    let world = World::with_test_clock().await;
    let question =
        json!({ "ask": { "to": "@user.owner", "question": "Send it?", "timeout": "1 day" } });
    world.agent("asks", json!([question, log("after")])).await;
    world.agent("waits", json!([{ "wait": "80 days" }])).await;
    let ended = world.start_run("asks", json!({})).await;
    let waiting = world.start_run("waits", json!({})).await;
    world.settle().await;
    let request = world.run(&ended).await["waiting_on"][0]["id"].clone();
    let request = format!("/requests/{}", request.as_str().unwrap());
    let answer = json!({ "answer": "yes" });
    let (status, decided) = world
        .up
        .post(&format!("{request}/respond"), &answer)
        .await
        .unwrap();
    assert_eq!(status, 200, "{decided}");
    until_applied(&world.up, &decided).await;
    world.until_status(&ended, "completed").await;

    world.advance("29d 23h").await;
    assert_eq!(world.run(&ended).await["status"], "completed");
    world.advance("2h").await;
    let path = format!("/runs/{ended}");
    until(PATIENCE, "the run to be deleted", async || {
        let (status, _) = world.up.get(&path).await.unwrap();
        (status == 404).then_some(())
    })
    .await
    .unwrap();
    let (status, _) = world.up.get(&format!("{path}/events")).await.unwrap();
    assert_eq!(status, 404);
    let (status, kept) = world.up.get(&request).await.unwrap();
    assert_eq!((status, &kept["response"]), (200, &json!("yes")), "{kept}");
    assert_eq!(world.run(&waiting).await["status"], "waiting");
    // The decision is repeated without an effect on anything.
    let (status, again) = world
        .up
        .post(&format!("{request}/respond"), &answer)
        .await
        .unwrap();
    assert_eq!((status, &again["effect"]), (200, &json!("applied")));
}
