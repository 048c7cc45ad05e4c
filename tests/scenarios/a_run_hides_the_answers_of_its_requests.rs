//! A run hides the same answers from the same users as its requests (Mend A-M2).

use holdpoint_testkit::until;
use reqwest::header::{ACCEPT, COOKIE, SET_COOKIE};
use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::world::{PATIENCE, World, log};

/// The input of the owner, the answer of sales, and their notes.
const SAID: [&str; 3] = ["s3cret-input", "s3cret-answer", "s3cret-notes"];

/// All views of a run: the JSON, the history, the live history and the page.
async fn looks(
    world: &World,
    client: &Client,
    token: &str,
    run: &str,
) -> [(&'static str, String); 4] {
    let root = format!("{}/v1/workspaces/default/runs/{run}", world.up.url);
    let text = async |path: &str, accept: &str| {
        let request = client.get(format!("{root}{path}")).bearer_auth(token);
        let answer = request.header(ACCEPT, accept).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        answer.text().await.unwrap()
    };
    let form = client.post(format!("{}/login", world.up.url));
    let form = form.header("content-type", "application/x-www-form-urlencoded");
    let opened = form.body(format!("token={token}")).send().await.unwrap();
    let cookie = opened.headers()[SET_COOKIE].to_str().unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let page = client.get(format!("{}/runs/{run}", world.up.url));
    let page = page.header(COOKIE, cookie).send().await.unwrap();
    [
        ("view", text("", "application/json").await),
        (
            "history",
            text("/events?limit=500", "application/json").await,
        ),
        ("live", text("/events", "text/event-stream").await),
        ("page", page.text().await.unwrap()),
    ]
}

async fn answered(world: &World, token: &str, run: &str, (verb, body): (&str, Value)) {
    let open = async || {
        let view = world.run(run).await;
        let id = view["waiting_on"][0]["id"].as_str()?.to_owned();
        let path = format!("/v1/workspaces/default/requests/{id}");
        let request = world.up.call_with(token, Method::GET, &path, None).await;
        let (status, request) = request.unwrap();
        let actions = request["actions"].as_array()?;
        (status == 200 && actions.contains(&json!(verb))).then_some(path)
    };
    let path = until(PATIENCE, verb, open).await.unwrap();
    let path = format!("{path}/{verb}");
    let done = world
        .up
        .call_with(token, Method::POST, &path, Some(&body))
        .await;
    let (status, done) = done.unwrap();
    assert_eq!(status, 200, "{done}");
}

/// Mend A-M2: a viewer reads no answer in the run, a recipient reads their own, and an owner reads all.
#[tokio::test]
async fn a_run_hides_what_its_requests_hide() {
    let world = World::with_real_time().await;
    let mut tokens = Vec::new();
    for (name, roles) in [
        ("vic", json!(["viewer"])),
        ("sal", json!(["member", "sales"])),
    ] {
        let user = json!({ "name": name, "roles": roles });
        assert_eq!(world.up.post("/users", &user).await.unwrap().0, 201);
        let (_, made) = world
            .up
            .post("/tokens", &json!({ "user": name }))
            .await
            .unwrap();
        tokens.push(made["token"].as_str().unwrap().to_owned());
    }
    let [vic, sal] = tokens.try_into().unwrap();
    let agent = json!({
        "agent": "asks",
        "inputs": { "type": "object", "required": ["amount"], "properties": { "amount": { "type": "string" } } },
        "steps": [
            { "id": "q", "ask": { "to": "@role.sales", "question": "How much?" } },
            { "id": "no", "tool": "log", "args": { "message": "no" },
              "when": "$q.answer == \"x\" && input.amount == \"y\"" },
            { "id": "h", "handoff": { "to": "@role.sales", "message": "Call", "timeout": "1h" } },
            { "id": "if", "tool": "log", "args": { "message": "if" }, "when": "$h.notes == \"z\"" },
            log("done"),
        ],
    });
    let (status, body) = world.up.post("/agents", &agent).await.unwrap();
    assert_eq!(status, 201, "{body}");
    let run = world
        .start_run("asks", json!({ "input": { "order": "A-17" } }))
        .await;
    let [input, answer, notes] = SAID;
    let input = json!({ "answer": { "amount": input } });
    answered(&world, &world.up.token, &run, ("respond", input)).await;
    answered(&world, &sal, &run, ("respond", json!({ "answer": answer }))).await;
    let done = json!({ "disposition": "return_to_agent", "notes": notes });
    answered(&world, &sal, &run, ("complete", done)).await;
    world.until_status(&run, "completed").await;

    let client = Client::builder().redirect(reqwest::redirect::Policy::none());
    let client = client.no_proxy().build().unwrap();
    for (who, token, sees) in [
        ("viewer", &vic, [false, false, false]),
        ("sales", &sal, [false, true, true]),
        ("owner", &world.up.token, [true, true, true]),
    ] {
        let mut shown = [false; 3];
        for (way, text) in looks(&world, &client, token, &run).await {
            assert!(
                text.contains("sal") && text.contains("done"),
                "{who}, {way}: {text}"
            );
            for ((shown, said), sees) in shown.iter_mut().zip(SAID).zip(sees) {
                let found = text.contains(said);
                assert!(sees || !found, "{who}, {way}: {text}");
                *shown |= found;
            }
            assert!(
                way == "live" || way == "history" || text.contains("A-17"),
                "{who}, {way}"
            );
        }
        assert_eq!(shown, sees, "{who} reads exactly the permitted answers");
    }
}
