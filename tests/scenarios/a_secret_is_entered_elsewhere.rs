//! A tool needs a secret. The person enters it at another site, and Holdpoint learns only that it is done.

use holdpoint_testkit::until;
use serde_json::json;

use crate::toolbox::Toolbox;
use crate::world::{PATIENCE, World};

/// A shell tool that asks with a link to the vault.
const ASKS: &str = r#"
said=$(holdpoint ask "Put a key for the CRM into the vault" --key crm --timeout 1h \
    --link https://vault.example/new?for=crm --link-label "Open the vault") || exit $?
printf '{"said": "%s"}' "$said"
"#;

/// People, deliverable 3: secrets by link.
#[tokio::test]
async fn a_secret_never_passes_through() {
    let world = World::with_real_time().await;
    let _node = Toolbox::of(&world.up, "connect", ASKS).await;
    world
        .agent(
            "crm",
            json!([{ "tool": "connect", "args": { "idempotent": true } }]),
        )
        .await;
    let run = world.start_run("crm", json!({})).await;
    let shown = world.until_status(&run, "awaiting_input").await;
    let request = shown["questions"][0]["id"].as_str().unwrap().to_owned();
    let path = format!("/requests/{request}");
    let asked = until(PATIENCE, "it is in the inbox", async || {
        let (status, asked) = world.up.get(&path).await.unwrap();
        (status == 200).then_some(asked)
    });
    let asked = asked.await.unwrap();
    let link = json!({ "url": "https://vault.example/new?for=crm", "label": "Open the vault" });
    assert_eq!(asked["link"], link, "{asked}");
    assert_eq!(asked["options"], json!(["done", "declined"]), "{asked}");
    let respond = format!("{path}/respond");
    let (status, wrong) = world
        .up
        .post(&respond, &json!({ "answer": "sk-hunter2" }))
        .await
        .unwrap();
    assert_eq!((status, &wrong["code"]), (422, &json!("invalid_answer")));
    assert!(!wrong.to_string().contains("hunter2"), "{wrong}");
    let (status, decided) = world
        .up
        .post(&respond, &json!({ "answer": "done" }))
        .await
        .unwrap();
    assert_eq!(status, 200, "{decided}");
    let shown = world.until_status(&run, "completed").await;
    assert_eq!(
        shown["steps"][0]["response"]["data"],
        json!({ "said": "done" })
    );
    for places in [
        json!(world.items(&run).await),
        world.up.get(&path).await.unwrap().1,
        world.up.get("/mails").await.unwrap().1,
    ] {
        assert!(!places.to_string().contains("hunter2"), "{places}");
    }
    let mails = world.up.get("/mails").await.unwrap().1.to_string();
    assert!(
        !mails.contains("vault.example"),
        "mails lead to the request: {mails}"
    );
}

/// A form that asks for a secret is refused, and the error names the alternative.
#[tokio::test]
async fn a_form_for_a_secret_is_refused() {
    let world = World::with_real_time().await;
    let schema = json!({ "type": "object",
        "properties": { "key": { "type": "string", "format": "password" } } });
    let hold = json!({ "kind": "input", "question": "The key?", "schema": schema });
    let steps = json!({ "agent": "crm", "steps": [{ "ask": { "question": "The key?", "schema": schema } }] });
    for (path, body) in [("/holds", hold), ("/agents", steps)] {
        let (status, refused) = world.up.post(path, &body).await.unwrap();
        assert_eq!(status, 422, "{path}: {refused}");
        let problem = refused.to_string();
        assert!(
            problem.contains("link: { url, label }"),
            "{path}: {problem}"
        );
    }
}
