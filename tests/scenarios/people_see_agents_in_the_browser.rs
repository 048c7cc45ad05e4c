//! The page of an agent, in Chromium: what became of its runs, its plan, and buttons that start a run and stop all.

use serde_json::json;

use crate::browser::{Browsers, DESK, PHONE};
use crate::world::{World, log};

#[tokio::test]
async fn a_run_is_started_and_the_agent_is_paused() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_test_clock().await;
    let inputs = json!({
        "type": "object",
        "properties": { "city": { "type": "string", "title": "City" }, "guests": { "type": "integer" } },
        "required": ["city"],
    });
    let agent = json!({
        "agent": "books", "description": "Books a table", "inputs": inputs, "ask_missing_inputs": false,
        "steps": [{ "id": "rest", "wait": "5 days" }, log("done")],
    });
    let (status, body) = world.up.post("/agents", &agent).await.unwrap();
    assert_eq!(status, 201, "{body}");
    let browser = browsers.signed_in(&world, &world.up.token, DESK).await;
    browser.click("Agents").await;
    browser.reads("Books a table").await;
    browser.click("books").await;
    browser.reads("This agent has no runs.").await;
    browser.reads("Wait 5 days").await;
    // The browser checks required fields itself; the label belongs to its field.
    browser.click("City").await;
    browser.press("Lisbon").await;
    browser.fill("answer.guests", "4").await;
    browser.picture("agent").await;
    browser.click("Start a run").await;
    browser.reads("Will resume in 5 days.").await;
    browser.reads("Lisbon").await;

    browser.go("/agents/books").await;
    browser.click("Pause this agent").await;
    browser.reads("Resume this agent").await;
    let (_, view) = world.up.get("/agents/books").await.unwrap();
    assert_eq!(view["status"], "paused", "{view}");
    browser.click("Resume this agent").await;
    browser.reads("Pause this agent").await;
    world.advance("5 days").await;
    browser.go("/agents/books").await;
    browser.reads("Success rate 100 %").await;
    browser.picture("agent-after-a-run").await;
    browser.close().await;

    // Without the script, on a phone.
    let plain = browsers.open(&world, PHONE, false).await;
    plain.sign_in(&world.up.token).await;
    plain.go("/agents/books").await;
    plain.fill("contact", "c-unknown").await;
    plain.fill("answer.city", "Porto").await;
    plain.find("#start button").await.click().await.unwrap();
    plain.reads("contact `c-unknown` not found").await;
    let kept = plain.find("[name=\"answer.city\"]").await;
    let kept = kept.prop("value").await.unwrap();
    assert_eq!(kept.as_deref(), Some("Porto"), "what was typed is kept");
    plain.picture("agent-phone").await;
    plain.close().await;
}
