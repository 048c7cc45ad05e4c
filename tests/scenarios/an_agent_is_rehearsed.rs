//! An agent is rehearsed before it runs: nothing is sent, and a real run does the same.

use holdpoint_testkit::Person;
use serde_json::{Value, json};

use crate::browser::{Browsers, DESK};
use crate::world::World;

/// The example of the README.
const OUTREACH: &str = include_str!("../../examples/outreach-in-words.yaml");

/// `bob` replies after two days.
const SCRIPT: &str = "contacts: [{ contact: bob, after: 2d, set: { replied: true, sentiment: positive } }]\n\
                      people: [{ do: nothing }]";

fn contact(name: &str) -> Value {
    json!({ "name": name, "email": format!("{name}@x.example"), "company": "X" })
}

fn rehearsal(text: &str, contacts: &[&str]) -> Value {
    let contacts = contacts
        .iter()
        .map(|name| json!({ "id": name, "fields": contact(name) }));
    json!({ "text": text, "contacts": contacts.collect::<Vec<_>>(), "script": SCRIPT })
}

fn subjects(run: &Value) -> Vec<&str> {
    let events = run["timeline"].as_array().unwrap().iter();
    let calls = events.filter(|event| event["outgoing"]["kind"] == "call");
    calls
        .map(|event| event["outgoing"]["args"]["subject"].as_str().unwrap())
        .collect()
}

/// Words 6, S0-AC5, S0-AC6: the real run over the same answers takes the same steps.
#[tokio::test]
async fn a_run_does_what_its_rehearsal_shows() {
    let world = World::with_test_clock().await;
    let nina = Person::join(&world.up, "nina", &["member", "sales"])
        .await
        .unwrap();
    let body = rehearsal(OUTREACH, &["ann", "bob"]);
    let (status, rehearsed) = nina
        .post(&world.up, "/agents/rehearse", &body)
        .await
        .unwrap();
    assert_eq!(status, 200, "{rehearsed}");
    let runs = &rehearsed["runs"];
    assert_eq!(subjects(&runs[0]), ["Introduction", "Follow-up"]);
    assert_eq!(subjects(&runs[1]), ["Introduction"]);
    let summary = &rehearsed["summary"];
    assert_eq!(summary["calls"], json!({ "send_email": 3 }));
    assert_eq!(summary["requests"], json!({ "@user.nina": 1 }));
    assert_eq!(summary["ended_unseen"], json!(["ann"]));

    // Nothing is sent, and nothing is stored.
    assert!(world.mails_to("ann@x.example").await.is_empty());
    for path in ["/runs", "/contacts", "/agents", "/requests"] {
        let (_, page) = world.up.get(path).await.unwrap();
        assert_eq!(page["items"], json!([]), "{path}: {page}");
    }

    let (status, applied) = world.up.post_yaml("/agents", OUTREACH).await.unwrap();
    assert_eq!(status, 201, "{applied}");
    let mut real = Vec::new();
    for name in ["ann", "bob"] {
        let mut about = contact(name);
        about["id"] = json!(name);
        real.push(
            world
                .start_run("outreach-in-words", json!({ "contact": about }))
                .await,
        );
    }
    world.advance("2 days").await;
    let reply = json!({ "replied": true, "sentiment": "positive" });
    let (status, _) = world.up.patch("/contacts/bob", &reply).await.unwrap();
    assert_eq!(status, 200);
    // The handoff of `bob` expires three days after the wait.
    world.advance("3 days").await;
    world.advance("3 days").await;
    for (real, rehearsed) in real.iter().zip(runs.as_array().unwrap()) {
        assert_eq!(world.run(real).await["status"], rehearsed["status"]);
        let events = rehearsed["timeline"].as_array().unwrap().iter();
        let events: Vec<_> = events
            .map(|event| event["type"].as_str().unwrap())
            .collect();
        assert_eq!(world.history(real).await, events);
    }
    for (run, name) in runs.as_array().unwrap().iter().zip(["ann", "bob"]) {
        let mails = world.mails_to(&format!("{name}@x.example")).await;
        assert_eq!(mails, subjects(run), "{name}");
    }
}

/// Words 6: a stored agent is rehearsed by its name, in its own workspace only.
#[tokio::test]
async fn a_wrong_rehearsal_gets_a_clear_error() {
    let world = World::with_test_clock().await;
    let contacts: Vec<_> = (0..101).map(|n| json!({ "id": format!("c{n}") })).collect();
    let large = json!([{ "id": "c", "fields": { "big": "x".repeat(70_000) } }]);
    let one = json!([{ "id": "ann" }]);
    let agent = "agent: a\nsteps: [{ id: rest, wait: 5 days }]";
    for (body, status, code, words) in [
        (
            json!({ "text": agent, "contacts": contacts }),
            422,
            "invalid_body",
            "expected 1 to 100",
        ),
        (
            json!({ "text": agent, "contacts": [] }),
            422,
            "invalid_body",
            "expected 1 to 100",
        ),
        (
            json!({ "text": agent, "contacts": large }),
            422,
            "invalid_body",
            "more than 65536 bytes",
        ),
        (
            json!({ "contacts": one }),
            422,
            "invalid_body",
            "either `text` or `agent`",
        ),
        (
            json!({ "text": agent, "agent": "a", "contacts": one }),
            422,
            "invalid_body",
            "either `text` or `agent`",
        ),
        (
            json!({ "agent": "missing", "contacts": one }),
            404,
            "not_found",
            "missing",
        ),
        (
            json!({ "text": "agent: a\nsteps: [{ wait: soon }]", "contacts": one }),
            422,
            "invalid_agent",
            "",
        ),
        (
            json!({ "text": agent, "contacts": one, "script": "people: [{ step: rst }]" }),
            422,
            "invalid_script",
            "did you mean `rest`?",
        ),
        (
            json!({ "text": agent, "contacts": one, "start": 1 }),
            422,
            "invalid_body",
            "start",
        ),
    ] {
        let (found, problem) = world.up.post("/agents/rehearse", &body).await.unwrap();
        assert_eq!(
            (found, &problem["code"]),
            (status, &json!(code)),
            "{problem}"
        );
        assert!(problem.to_string().contains(words), "{problem}");
    }
}

/// Words 6: the picture of a rehearsal, and a form that keeps a refused script.
#[tokio::test]
async fn a_rehearsal_is_read_in_the_browser() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_test_clock().await;
    let (status, applied) = world.up.post_yaml("/agents", OUTREACH).await.unwrap();
    assert_eq!(status, 201, "{applied}");
    let browser = browsers.signed_in(&world, &world.up.token, DESK).await;
    browser.go("/agents/outreach-in-words").await;
    browser.click("Rehearse this agent").await;
    browser.click("Rehearse").await;
    browser.reads("The workspace has no contacts.").await;
    for name in ["ann", "bob", "cleo"] {
        let path = format!("/contacts/{name}");
        let (status, _) = world.up.put(&path, &contact(name)).await.unwrap();
        assert!(status < 300, "{status}");
    }
    browser.fill("script", "people: [{ stp: 1 }]").await;
    browser
        .find("form.panel button")
        .await
        .click()
        .await
        .unwrap();
    browser.reads("`people[0].stp`: unknown field").await;
    browser.go("/agents/outreach-in-words/rehearsal").await;
    browser.fill("script", SCRIPT).await;
    browser
        .find("form.panel button")
        .await
        .click()
        .await
        .unwrap();
    browser.reads("Nothing was sent").await;
    browser.reads("To ann@x.example: Follow-up").await;
    browser.reads("Requests to @user.nina").await;
    browser.picture("rehearsal").await;
    let (_, runs) = world.up.get("/runs").await.unwrap();
    assert_eq!(runs["items"], json!([]), "{runs}");
    browser.close().await;
}
