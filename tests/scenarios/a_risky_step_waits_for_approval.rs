//! A step on a tool with risk `high` waits until a person approves its call (S2-R2 to S2-R5).

use holdpoint_testkit::{Up, postgres, until};
use serde_json::{Value, json};

use crate::browser::{Browsers, DESK};
use crate::fleet::Api;
use crate::shop::Shop;
use crate::world::{PATIENCE, World, log, until_applied};

async fn register(up: &Up, shop: &Shop) {
    let tool = json!({ "name": "payments.refund", "version": "3", "risk": "high", "idempotent": true,
        "http": { "method": "POST", "url": shop.url("/refunds") } });
    let (status, body) = up.post("/tools", &tool).await.unwrap();
    assert_eq!(status, 201, "{body}");
}

fn refund(id: &str, order: &str, amount: u32) -> Value {
    json!({ "id": id, "needs": [], "tool": "payments.refund",
        "args": { "order": order, "amount": amount } })
}

async fn until_status(api: &Api, run: &str, status: &str) -> Value {
    until(PATIENCE, &format!("{run} is {status}"), async || {
        let view = api.get(&format!("/runs/{run}")).await;
        (view["status"] == status).then_some(view)
    })
    .await
    .unwrap()
}

/// S2-R3 to S2-R5, with the tables in files.
#[tokio::test]
async fn a_risky_step_runs_only_as_it_was_approved() {
    decides_two_steps(&[]).await;
}

/// The same on Postgres.
#[tokio::test]
async fn a_risky_step_runs_only_as_it_was_approved_on_postgres() {
    let Some(postgres) = postgres().await.unwrap() else {
        return;
    };
    decides_two_steps(&["--database-url", &postgres.url]).await;
}

/// Two parallel steps ask. The system dies while they wait. One is approved with other arguments, one is rejected.
async fn decides_two_steps(args: &[&str]) {
    let World {
        mut up,
        nats: _nats,
        ..
    } = World::with_args(args).await;
    let shop = Shop::open().await;
    register(&up, &shop).await;
    let note = json!({ "id": "note", "needs": ["first", "second"], "tool": "log",
        "args": { "message": "done" } });
    let steps = json!([
        refund("first", "o-1", 250),
        refund("second", "o-2", 90),
        note
    ]);
    let agent = json!({ "agent": "refund", "steps": steps });
    assert_eq!(up.post("/agents", &agent).await.unwrap().0, 201);
    let (status, run) = up.post("/agents/refund/runs", &json!({})).await.unwrap();
    assert_eq!(status, 201, "{run}");
    let id = run["id"].as_str().unwrap().to_owned();
    let api = Api::at(&up.url, &up.token);
    let waiting = until(PATIENCE, "both steps ask", async || {
        let view = api.get(&format!("/runs/{id}")).await;
        let asks = view["waiting_on"].as_array()?.len();
        (asks == 2).then_some(view)
    })
    .await
    .unwrap();
    assert_eq!(waiting["status"], "awaiting_approval", "{waiting}");
    assert_eq!(waiting["steps"][0]["approval_state"]["state"], "requested");
    up.kill9().await.unwrap();
    up.restart().await.unwrap();
    assert!(shop.calls().is_empty(), "no call before the approval");

    let api = Api::at(&up.url, &up.token);
    refuses_wrong_steps(&api, &id).await;
    let edited = json!({ "order": "o-1", "amount": 125 });
    let body = json!({
        "approvedSteps": ["first"], "rejectedSteps": ["second"], "editedArgs": { "first": edited },
        "comment": "Half is enough",
        "digests": { "first": waiting["steps"][0]["approval_state"]["digest"] },
    });
    let path = format!("/runs/{id}/approve");
    let (status, decided) = api.post_under("k-1", &path, &body).await;
    assert_eq!(status, 200, "{decided}");
    for (place, step) in ["first", "second"].into_iter().enumerate() {
        let item = &decided["items"][place];
        assert_eq!(item["step"], step, "{decided}");
        until_applied(&up, item).await;
    }
    let ended = until_status(&api, &id, "completed").await;
    let again = api.post_under("k-1", &path, &body).await.1;
    assert_eq!(again["items"][0]["recorded"], true, "{again}");
    let other = json!({ "rejected_steps": ["first"], "comment": "No" });
    let (status, late) = api.post(&path, &other).await;
    assert_eq!(status, 200, "{late}");
    assert_eq!(
        late["items"][0]["problem"]["code"], "already_decided",
        "{late}"
    );
    is_called_once(&shop, &id, &edited);
    shows_the_decisions(&ended, &edited);
}

/// Nothing is decided if a step is wrong.
async fn refuses_wrong_steps(api: &Api, id: &str) {
    // A busy machine may take longer than the two seconds that a decision waits for its request.
    let both = until(PATIENCE, "both requests are there", async || {
        let list = api.get(&format!("/requests?run={id}")).await;
        (list["items"].as_array()?.len() == 2).then_some(())
    });
    both.await.unwrap();
    let path = format!("/runs/{id}/approve");
    for (body, status, code) in [
        (
            json!({ "approved_steps": ["first", "nope"] }),
            422,
            "unknown_step",
        ),
        (
            json!({ "approved_steps": ["first", "note"] }),
            409,
            "not_reviewable_yet",
        ),
        (
            json!({ "approved_steps": ["first", "first"] }),
            422,
            "invalid_body",
        ),
        (
            json!({ "approved_steps": ["first"], "rejected_steps": ["first"], "comment": "no" }),
            422,
            "invalid_body",
        ),
        (json!({ "rejected_steps": ["first"] }), 422, "invalid_body"),
        (json!({}), 422, "invalid_body"),
    ] {
        let (got, refused) = api.post(&path, &body).await;
        assert_eq!(
            (got, &refused["code"]),
            (status, &json!(code)),
            "{body}: {refused}"
        );
    }
    let wrong = json!({ "approved_steps": ["first"], "digests": { "first": "00ff" } });
    let (status, refused) = api.post(&path, &wrong).await;
    assert_eq!(status, 200, "{refused}");
    let problem = &refused["items"][0]["problem"];
    assert_eq!(problem["code"], "digest_mismatch", "{refused}");
    let view = api.get(&format!("/runs/{id}")).await;
    assert_eq!(view["waiting_on"].as_array().unwrap().len(), 2, "{view}");
}

fn is_called_once(shop: &Shop, run: &str, edited: &Value) {
    let calls = shop.calls();
    assert_eq!(calls.len(), 1, "{calls:?}");
    let sent: Value = serde_json::from_str(&calls[0].body).unwrap();
    assert_eq!(&sent, edited);
    assert_eq!(calls[0].header("idempotency-key"), format!("{run}/first"));
}

fn shows_the_decisions(run: &Value, edited: &Value) {
    let (first, second) = (&run["steps"][0], &run["steps"][1]);
    let approval = &first["approval_state"];
    assert_eq!(
        (&first["status"], &first["request"]),
        (&json!("completed"), edited),
        "{run}"
    );
    assert_eq!(approval["state"], "approved", "{run}");
    assert_eq!(approval["by"], "owner", "{run}");
    assert_eq!(approval["comment"], "Half is enough", "{run}");
    assert_eq!(
        approval["original_args"],
        json!({ "order": "o-1", "amount": 250 }),
        "{run}"
    );
    assert_eq!(second["status"], "skipped", "{run}");
    assert_eq!(second["approval_state"]["state"], "rejected", "{run}");
    assert_eq!(
        run["steps"][2]["status"], "completed",
        "the run goes on: {run}"
    );
}

/// S2-R14: a person edits the arguments on the page of the run, and the call has them.
#[tokio::test]
async fn a_person_edits_a_call_in_the_browser() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_real_time().await;
    let shop = Shop::open().await;
    register(&world.up, &shop).await;
    world
        .agent("refund", json!([refund("pay", "o-1", 250), log("paid")]))
        .await;
    let run = world.start_run("refund", json!({})).await;
    world.until_status(&run, "awaiting_approval").await;
    let browser = browsers.signed_in(&world, &world.up.token, DESK).await;
    browser.go(&format!("/runs/{run}")).await;
    browser.reads("Call payments.refund").await;
    browser.reads("250").await;
    browser.picture("approval").await;
    browser.click("Edit the arguments").await;
    let args = browser.find("textarea[name=args]").await;
    args.clear().await.unwrap();
    let approve = browser.find(".card button.primary").await;
    args.send_keys("{\"amount\": }").await.unwrap();
    approve.click().await.unwrap();
    browser.reads("The arguments are not valid JSON").await;
    let args = browser.find("textarea[name=args]").await;
    args.clear().await.unwrap();
    let edited = json!({ "order": "o-1", "amount": 125 });
    args.send_keys(&edited.to_string()).await.unwrap();
    browser
        .find(".card button.primary")
        .await
        .click()
        .await
        .unwrap();
    let ended = world.until_status(&run, "completed").await;
    assert_eq!(
        ended["steps"][0]["approval_state"]["by"], "owner",
        "{ended}"
    );
    browser.go(&format!("/runs/{run}")).await;
    browser.reads("Approved by owner").await;
    browser.reads("with edited arguments").await;
    browser.picture("approved-edited").await;
    let calls = shop.calls();
    assert_eq!(calls.len(), 1, "{calls:?}");
    let sent: Value = serde_json::from_str(&calls[0].body).unwrap();
    assert_eq!(sent, edited);
    browser.close().await;
}
