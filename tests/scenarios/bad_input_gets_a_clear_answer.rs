//! An error names the wrong value, its place and the fix.

use serde_json::{Value, json};

use crate::world::{World, log};

fn assert_problem(answer: &(u16, Value), status: u16, code: &str) {
    assert_eq!(
        (answer.0, answer.1["code"].as_str()),
        (status, Some(code)),
        "{}",
        answer.1
    );
    for field in ["type", "title", "status", "detail"] {
        assert!(
            !answer.1[field].is_null(),
            "{field} is missing in {}",
            answer.1
        );
    }
}

#[tokio::test]
async fn wrong_agents_ids_and_bodies_are_refused_with_their_place() {
    let world = World::with_test_clock().await;
    let up = &world.up;
    let wrong =
        json!({ "agent": "a", "steps": [{ "tool": "log", "arg": {} }, { "wait": "soon" }] });
    let answer = up.post("/agents", &wrong).await.unwrap();
    assert_problem(&answer, 422, "invalid_agent");
    let errors = answer.1["errors"].as_array().unwrap();
    assert!(errors.len() >= 2, "all errors at once: {errors:?}");
    assert!(
        errors
            .iter()
            .any(|error| error["nearest"] == json!(["args"])),
        "{errors:?}"
    );

    world.agent("quick", json!([log("x")])).await;
    let unknown = up.post("/agents/nobody/runs", &json!({})).await.unwrap();
    assert_problem(&unknown, 404, "not_found");
    let stranger = up
        .post("/agents/quick/runs", &json!({ "contact": "stranger" }))
        .await
        .unwrap();
    assert_problem(&stranger, 422, "unknown_contact");
    assert_problem(&up.get("/runs/run_1").await.unwrap(), 404, "not_found");
    let absent = "/runs/run_00000000000000000000000000000000";
    assert_problem(&up.get(absent).await.unwrap(), 404, "not_found");
    let limit = up.get("/runs?limit=501").await.unwrap();
    assert_eq!(limit.0, 400, "{}", limit.1);
    let filter = up.get("/runs?colour=red").await.unwrap();
    assert_eq!(filter.0, 400, "{}", filter.1);
    let cursor = up.get("/runs?cursor=xyz").await.unwrap();
    assert_eq!(cursor.0, 400, "{}", cursor.1);
    let mode = up
        .post(&format!("{absent}/resume"), &json!({ "mode": "soon" }))
        .await
        .unwrap();
    assert_problem(&mode, 422, "invalid_body");
}

#[tokio::test]
async fn an_unchanged_agent_is_no_new_version() {
    let world = World::with_test_clock().await;
    let agent = json!({ "agent": "quick", "steps": [log("x")] });
    let (status, first) = world.up.post("/agents", &agent).await.unwrap();
    assert_eq!((status, &first["version"]), (201, &json!(1)));
    let (status, same) = world.up.post("/agents", &agent).await.unwrap();
    assert_eq!((status, &same["version"]), (200, &json!(1)));
    let next = json!({ "agent": "quick", "steps": [log("y")] });
    let (status, next) = world.up.post("/agents", &next).await.unwrap();
    assert_eq!((status, &next["version"]), (201, &json!(2)));
}

/// Mend D-5: an agent with a misspelled tool is stored with a warning, which suggests the nearest name.
#[tokio::test]
async fn a_tool_that_nothing_offers_is_a_warning() {
    let world = World::with_test_clock().await;
    let steps = json!([{ "id": "mail", "tool": "send_emial", "args": {} }, log("x")]);
    let agent = json!({ "agent": "typo", "steps": steps });
    for (path, status) in [("/agents/plan", 200), ("/agents", 201), ("/agents", 200)] {
        let (answered, body) = world.up.post(path, &agent).await.unwrap();
        assert_eq!(answered, status, "{path}: {body}");
        let warnings = body["warnings"].as_array().unwrap();
        assert_eq!(warnings.len(), 1, "{path}: {body}");
        assert_eq!(warnings[0]["step"], "mail");
        assert_eq!(warnings[0]["nearest"], json!(["send_email"]));
    }
    let (_, shown) = world.up.get("/agents/typo").await.unwrap();
    assert_eq!(shown["warnings"][0]["text"], "send_emial", "{shown}");
    let tool =
        json!({ "name": "send_emial", "risk": "low", "http": { "url": "http://127.0.0.1:9/x" } });
    let (status, registered) = world.up.post("/tools", &tool).await.unwrap();
    assert_eq!(status, 201, "{registered}");
    let (_, shown) = world.up.get("/agents/typo").await.unwrap();
    assert_eq!(shown["warnings"], json!([]), "{shown}");
}
