//! Words 4 and 5: a workspace keeps templates and calendars. Agents use them by name, and take them when they are applied.

use holdpoint_testkit::postgres;
use serde_json::{Value, json};

use crate::fleet::Api;
use crate::world::World;

#[tokio::test]
async fn templates_and_calendars_are_taken_when_an_agent_is_applied() {
    templates_are_taken(&[]).await;
}

#[tokio::test]
async fn templates_and_calendars_are_taken_on_postgres() {
    let Some(postgres) = postgres().await.unwrap() else {
        return;
    };
    templates_are_taken(&["--database-url", &postgres.url]).await;
}

/// Words 4: a ladder counts the working days of a named calendar.
async fn policies_take_a_calendar(api: &Api) {
    let policy = |calendar: Value| {
        json!({ "name": "office", "kind": "escalation", "calendar": calendar,
            "rungs": [{ "after": "2h", "do": "notify", "to": "@role.sales" }] })
    };
    let hours = json!({ "name": "berlin", "from": "09:00", "to": "17:00" });
    let (status, stored) = api.post("/policies", &policy(hours)).await;
    assert_eq!(status, 201, "{stored}");
    let shown = api.get("/policies/office").await;
    let expected = json!({ "time_zone": "Europe/Berlin", "days": ["mon", "tue", "wed", "thu", "fri"],
        "from": "09:00", "to": "17:00", "holidays": ["2026-12-25"] });
    assert_eq!(shown["calendar"], expected, "{shown}");
    for (calendar, pointer) in [
        (
            json!({ "name": "missing", "from": "09:00", "to": "17:00" }),
            "/calendar/name",
        ),
        (
            json!({ "name": 1, "from": "09:00", "to": "17:00" }),
            "/calendar/name",
        ),
        (
            json!({ "name": "berlin", "days": ["sat"] }),
            "/calendar/days",
        ),
        (json!({ "name": "berlin", "to": "17:00" }), "/calendar"),
    ] {
        let (status, refused) = api.post("/policies", &policy(calendar)).await;
        assert_eq!(
            (status, &refused["code"]),
            (422, &json!("invalid_body")),
            "{refused}"
        );
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{refused}");
    }
}

async fn templates_are_taken(args: &[&str]) {
    let mut world = World::with_args(args).await;
    let api = Api::at(&world.up.url, &world.up.token);
    let template =
        json!({ "name": "Hello", "subject": "About {{ contact.company }}", "body": "Good day" });
    let (status, stored) = api.post("/templates", &template).await;
    assert_eq!(
        (status, &stored["changed"]),
        (201, &json!(true)),
        "{stored}"
    );
    let (status, same) = api.post("/templates", &template).await;
    assert_eq!((status, &same["changed"]), (200, &json!(false)), "{same}");
    let calendar =
        json!({ "name": "berlin", "time_zone": "Europe/Berlin", "holidays": ["2026-12-25"] });
    let (status, stored) = api.post("/calendars", &calendar).await;
    assert_eq!(status, 201, "{stored}");
    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();

    let api = Api::at(&world.up.url, &world.up.token);
    let agent = json!({ "agent": "outreach", "calendar": "berlin",
        "instructions": "Send email \"Hello\" to contact\nWait 2 business days" });
    let (status, applied) = api.post("/agents", &agent).await;
    assert_eq!(status, 201, "{applied}");
    policies_take_a_calendar(&api).await;
    // What an agent has taken stays after the deletion.
    for path in ["/templates/Hello", "/calendars/berlin"] {
        let shown = api.get(path).await;
        assert_eq!(shown["updated_by"], "owner", "{shown}");
        let (status, gone) = api.call(reqwest::Method::DELETE, path, &Value::Null).await;
        assert_eq!(status, 204, "{gone}");
        let (status, gone) = api.call(reqwest::Method::GET, path, &Value::Null).await;
        assert_eq!((status, &gone["code"]), (404, &json!("not_found")));
    }
    let contact = json!({ "id": "c-1", "email": "ada@acme.example", "company": "Acme" });
    let body = json!({ "contact": contact });
    let (status, run) = api.post("/agents/outreach/runs", &body).await;
    assert_eq!(status, 201, "{run}");
    let run = world
        .until_status(run["id"].as_str().unwrap(), "waiting")
        .await;
    assert_eq!(
        world.mails_to("ada@acme.example").await,
        ["About Acme"],
        "{run}"
    );
    // Applied again, it misses them.
    let (status, refused) = world.up.post("/agents", &agent).await.unwrap();
    assert_eq!((status, &refused["code"]), (422, &json!("invalid_agent")));
    assert_eq!(
        refused["errors"].as_array().map(Vec::len),
        Some(2),
        "{refused}"
    );
    let (status, list) = world.up.get("/templates").await.unwrap();
    assert_eq!((status, &list["items"]), (200, &json!([])));
    for (path, body, code) in [
        ("/templates", json!({ "name": "a" }), "invalid_template"),
        ("/templates", json!({ "body": "a" }), "invalid_body"),
        (
            "/calendars",
            json!({ "name": "a", "time_zone": "Mars" }),
            "invalid_calendar",
        ),
    ] {
        let (status, refused) = world.up.post(path, &body).await.unwrap();
        assert_eq!((status, &refused["code"]), (422, &json!(code)), "{refused}");
    }
}
