//! Completing a handoff also clears its timer. The reply has a warning if the scheduler does not acknowledge that.

use holdpoint_testkit::until;
use reqwest::Method;
use serde_json::{Value, json};

use crate::fleet::{Api, Ground};
use crate::world::{PATIENCE, at_rest};

/// A run that waits for a handoff with a timeout of a week.
async fn handed_off(api: &Api) -> String {
    let (status, run) = api.post("/agents/hands/runs", &json!({})).await;
    assert_eq!(status, 201, "{run}");
    let path = format!("/runs/{}", run["id"].as_str().unwrap());
    let offered = async || {
        let shown = api.get(&path).await;
        let request = shown["waiting_on"][0]["id"].as_str()?;
        let request = format!("/requests/{request}");
        let (status, _) = api.call(Method::GET, &request, &Value::Null).await;
        (status == 200).then_some(())
    };
    until(PATIENCE, "the handoff is offered", offered)
        .await
        .unwrap();
    path
}

async fn complete(api: &Api, run: &str) -> Value {
    let body = json!({ "notes": "Called.", "outcome_type": "resolved" });
    let path = format!("{run}/complete-handoff");
    let (status, done) = api.call(Method::PUT, &path, &body).await;
    assert_eq!((status, &done["success"]), (200, &json!(true)), "{done}");
    assert_eq!(done["execution"]["status"], "completed", "{done}");
    done
}

/// S0-R4: the handoff is completed, and `warnings` has this text.
#[tokio::test]
async fn an_uncancelled_resume_is_a_warning() {
    let ground = Ground::on_sqlite().await;
    let scheduler = ground.serve("scheduler", &[]).await;
    let handoff = ground.serve("handoff", &[]).await;
    let executor = ground.serve("executor", &[]).await;
    let _notification = ground.serve("notification", &[]).await;
    let args = ["--http", "127.0.0.1:0", "--owner-token"];
    let gateway = ground.serve("gateway", &args).await;
    let api = Api::of(&gateway);
    let handoff_step = json!({ "handoff": { "to": "@user.owner", "timeout": "7d" } });
    let agent = json!({ "agent": "hands", "steps": [handoff_step] });
    assert_eq!(api.post("/agents", &agent).await.0, 201);

    let run = handed_off(&api).await;
    let done = complete(&api, &run).await;
    assert_eq!(done["warnings"], json!([]), "with a scheduler: {done}");

    let run = handed_off(&api).await;
    scheduler.terminate().await;
    let done = complete(&api, &run).await;
    let warning = "Handoff completed but failed to cancel scheduled resume";
    assert_eq!(done["warnings"], json!([warning]), "{done}");
    assert_eq!(api.get(&run).await["status"], "completed");

    // The scheduler gets the desired state when it is back.
    let _scheduler = ground.serve("scheduler", &[]).await;
    at_rest(&ground.database, &ground.nats.url).await.unwrap();
    assert_eq!(api.get(&run).await["status"], "completed");
    for process in [&executor, &handoff, &gateway] {
        assert!(!process.log().contains("panicked"), "{}", process.log());
    }
}
