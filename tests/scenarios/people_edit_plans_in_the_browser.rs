//! A person reads the warnings of a plan on the page of its run, edits the plan and approves it, in Chromium (Words 3).

use holdpoint_testkit::until;
use serde_json::{Value, json};

use crate::browser::{Browser, Browsers, DESK, PHONE};
use crate::shop::Shop;
use crate::world::{PATIENCE, World};

/// A plan of this agent may call `crm.note`, which nobody offers.
const AGENT: &str = "
agent: win-back
instructions: Win the customer back.
planner: { tool: plans.make, tools: [log, crm.note] }
";

const REFUSED: &str = r#"[{"tool": "payments.refund", "args": {"amount": 1000}}]"#;

/// Without `crm.note`, and with two other steps.
const EDITED: &str = r#"[{"wait": "1 second"}, {"tool": "log", "args": {"message": "one"}}, {"tool": "log", "args": {"message": "two"}}]"#;

const CHECK: &str = "[name=check]";

/// The button of the form that approves. The title of the request is a link with the same word.
const APPROVE: &str = "form:has([name=do][value=approve]) > button.primary";

/// Presses a button and waits for the reply. A live update may replace the button at any moment.
async fn press(browser: &Browser, css: &str) {
    until(PATIENCE, css, async || {
        browser.find(css).await.click().await.ok()
    })
    .await
    .unwrap();
    until(PATIENCE, "the reply", async || {
        let busy = "return document.querySelector('[aria-busy=true]') === null";
        (browser.asks(busy).await == true).then_some(())
    })
    .await
    .unwrap();
}

/// Types the steps. A live update may replace the editor at any moment.
async fn type_plan(browser: &Browser, text: &str) {
    until(PATIENCE, "the plan is typed", async || {
        let editor = browser.find("[name=args]").await;
        if !editor.is_displayed().await.ok()? {
            browser.click("Edit the plan").await;
        }
        editor.clear().await.ok()?;
        editor.send_keys(text).await.ok()?;
        (typed(browser).await == text).then_some(())
    })
    .await
    .unwrap();
}

async fn typed(browser: &Browser) -> Value {
    browser
        .asks("return document.querySelector('[name=args]').value")
        .await
}

async fn planned_run(world: &World, shop: &Shop) -> String {
    let tool = json!({ "name": "plans.make", "risk": "low", "idempotent": true,
        "http": { "url": shop.url("/plan") } });
    assert_eq!(world.up.post("/tools", &tool).await.unwrap().0, 201);
    let (status, agent) = world.up.post_yaml("/agents", AGENT).await.unwrap();
    assert_eq!(status, 201, "{agent}");
    let run = world.start_run("win-back", json!({})).await;
    world.until_status(&run, "awaiting_approval").await;
    run
}

/// An edit that is not valid shows its error beside the editor and stays there. The run does the steps as edited.
#[tokio::test]
async fn a_person_edits_a_plan_on_the_page_of_its_run() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_real_time().await;
    let shop = Shop::open().await;
    let run = planned_run(&world, &shop).await;
    let (_, page) = world.up.get(&format!("/requests?run={run}")).await.unwrap();
    let request = page["items"][0]["id"].as_str().unwrap().to_owned();
    let (_, request) = world.up.get(&format!("/requests/{request}")).await.unwrap();
    let warning = &request["warnings"][0];
    assert_eq!(warning["step"], "step-02", "{request}");
    assert_eq!(warning["text"], "crm.note", "{request}");

    let browser = browsers.signed_in(&world, &world.up.token, DESK).await;
    browser.go(&format!("/runs/{run}")).await;
    browser.reads("Warning: step-02: No tool `crm.note`").await;
    browser.picture("plan-warning").await;
    for button in [CHECK, APPROVE] {
        type_plan(&browser, REFUSED).await;
        press(&browser, button).await;
        browser.reads("step-01: A plan may not call").await;
        assert_eq!(typed(&browser).await, REFUSED, "{button}");
        let beside = browser.find("[id$=\"-checked\"]").await;
        let said = beside.text().await.unwrap();
        assert!(said.contains("payments.refund"), "{button}: {said}");
    }
    type_plan(&browser, "[{").await;
    press(&browser, CHECK).await;
    browser.reads("invalid JSON").await;
    assert_eq!(typed(&browser).await, "[{");

    type_plan(&browser, EDITED).await;
    press(&browser, CHECK).await;
    browser.reads("The plan as edited").await;
    browser.reads("step-03").await;
    browser.picture("plan-edited").await;
    let waiting = world.run(&run).await;
    assert_eq!(
        waiting["status"], "awaiting_approval",
        "nothing has started"
    );
    press(&browser, APPROVE).await;
    let done = world.until_status(&run, "completed").await;
    let steps = done["steps"].as_array().unwrap().iter();
    let steps: Vec<_> = steps.map(|step| (&step["id"], &step["status"])).collect();
    let ids = ["plan", "start-plan", "step-01", "step-02", "step-03"];
    assert_eq!(steps.len(), ids.len(), "{done}");
    for ((id, status), wanted) in steps.into_iter().zip(ids) {
        assert_eq!(
            (id, status),
            (&json!(wanted), &json!("completed")),
            "{done}"
        );
    }
    let said = &done["steps"][4]["response"]["data"]["message"];
    assert_eq!(said, "two", "{done}");
    browser.close().await;
}

/// The same without the script, on a phone.
#[tokio::test]
async fn a_plan_is_checked_without_the_script() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_real_time().await;
    let shop = Shop::open().await;
    let run = planned_run(&world, &shop).await;
    let plain = browsers.open(&world, PHONE, false).await;
    plain.sign_in(&world.up.token).await;
    plain.go("/inbox").await;
    plain.click("Open the request").await;
    plain.reads("Warning: step-02: No tool `crm.note`").await;
    let editor = plain.find("[name=args]").await;
    plain.click("Edit the plan").await;
    editor.clear().await.unwrap();
    editor.send_keys(EDITED).await.unwrap();
    press(&plain, CHECK).await;
    plain.reads("The plan as edited").await;
    press(&plain, APPROVE).await;
    world.until_status(&run, "completed").await;
    plain.close().await;
}
