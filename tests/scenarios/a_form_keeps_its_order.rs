//! A form has the field order of its author everywhere (Mend D-11).

use holdpoint_testkit::{postgres, until};
use reqwest::header::{COOKIE, SET_COOKIE};
use serde_json::{Value, json};

use crate::world::{PATIENCE, World};

/// Unsorted fields, with a required one after an optional one.
const FIELDS: [&str; 3] = ["company", "budget", "approved"];

const AGENT: &str = "agent: asks
steps:
  - id: q
    ask:
      to: '@user.owner'
      question: What may it cost?
      schema:
        type: object
        required: [budget]
        properties:
          company: { type: string }
          budget: { type: number }
          approved: { type: boolean }
";

/// Mend D-11: API, page, history and mail, with the tables in files.
#[tokio::test]
async fn a_form_has_the_order_of_its_author() {
    is_in_order(&[]).await;
}

/// Mend D-11: the same on Postgres.
#[tokio::test]
async fn a_form_has_the_order_of_its_author_on_postgres() {
    let Some(postgres) = postgres().await.unwrap() else {
        return;
    };
    is_in_order(&["--database-url", &postgres.url]).await;
}

async fn is_in_order(args: &[&str]) {
    let World {
        up, nats: _nats, ..
    } = World::with_args(args).await;
    let owner = json!({ "name": "owner", "email": "owner@shop.example", "roles": ["owner"] });
    let (status, body) = up.post("/users", &owner).await.unwrap();
    assert!(status < 300, "{body}");
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .build()
        .unwrap();
    let root = format!("{}/v1/workspaces/default", up.url);
    let applied = client.post(format!("{root}/agents")).bearer_auth(&up.token);
    let applied = applied.header("content-type", "application/yaml");
    let applied = applied.body(AGENT).send().await.unwrap();
    assert_eq!(applied.status(), 201, "{}", applied.text().await.unwrap());

    let (status, run) = up.post("/agents/asks/runs", &json!({})).await.unwrap();
    assert_eq!(status, 201, "{run}");
    let run = format!("/runs/{}", run["id"].as_str().unwrap());
    let asks = async || {
        let (_, run) = up.get(&run).await.unwrap();
        (run["status"] == "awaiting_input").then_some(run)
    };
    let view = until(PATIENCE, "the run to ask", asks).await.unwrap();
    in_order(&view["questions"][0]["schema"]);
    let (_, history) = up.get(&format!("{run}/events")).await.unwrap();
    let items = history["items"].as_array().unwrap().iter();
    let mut asked = items.filter(|item| item["type"] == "run.awaiting_input");
    in_order(&asked.next().unwrap()["data"]["questions"][0]["schema"]);

    let id = view["waiting_on"][0]["id"].as_str().unwrap();
    let there = async || {
        let (status, request) = up.get(&format!("/requests/{id}")).await.unwrap();
        (status == 200).then_some(request)
    };
    let request = until(PATIENCE, "the request", there).await.unwrap();
    in_order(&request["schema"]);

    let opened = client.post(&up.login).send().await.unwrap();
    let cookie = opened.headers()[SET_COOKIE].to_str().unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let page = client.get(format!("{}/requests/{id}", up.url));
    let page = page.header(COOKIE, cookie).send().await.unwrap();
    let page = page.text().await.unwrap();
    let places = FIELDS.map(|name| page.find(&format!("name=\"answer.{name}\"")));
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{places:?}: {page}"
    );

    let mailed = async || {
        let (_, mails) = up.get("/mails").await.unwrap();
        let body = mails["items"][0]["body"].as_str()?.to_owned();
        Some(body)
    };
    let mail = until(PATIENCE, "the mail", mailed).await.unwrap();
    let places = ["- Company", "- Budget", "- Approved"].map(|line| mail.find(line));
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{places:?}: {mail}"
    );
}

fn in_order(schema: &Value) {
    let fields = schema["properties"].as_object().unwrap();
    let names: Vec<_> = fields.keys().collect();
    assert_eq!(names, FIELDS, "{schema}");
}
