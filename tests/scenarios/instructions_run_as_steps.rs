//! An agent in plain words runs as the steps that an engineer would write.

use chrono::{DateTime, Datelike as _, NaiveDate, Utc, Weekday};
use holdpoint_testkit::Person;
use serde_json::{Value, json};

use crate::world::World;

/// The example of the README.
const OUTREACH: &str = include_str!("../../examples/outreach-in-words.yaml");

/// S0-AC1, S0-AC5, S0-AC6, S0-AC7: a wait, a follow-up without a reply, and a handoff after a positive one.
#[tokio::test]
async fn the_four_lines_of_the_outreach_run() {
    let world = World::with_test_clock().await;
    let nina = Person::join(&world.up, "nina", &["member", "sales"])
        .await
        .unwrap();
    let (status, applied) = world.up.post_yaml("/agents", OUTREACH).await.unwrap();
    assert_eq!(status, 201, "{applied}");
    assert_eq!(applied["steps"][1]["words"], "Wait 5 days", "{applied}");

    let mut runs = Vec::new();
    for name in ["ann", "bob", "cleo"] {
        let contact = json!({ "id": name, "name": name, "email": format!("{name}@x.example"), "company": "X" });
        let start = json!({ "contact": contact });
        runs.push(world.start_run("outreach-in-words", start).await);
    }
    world.advance("2 days").await;
    for (contact, reply) in [
        ("bob", json!({ "replied": true, "sentiment": "positive" })),
        ("cleo", json!({ "replied": true, "sentiment": "negative" })),
    ] {
        let path = format!("/contacts/{contact}");
        let (status, _) = world.up.patch(&path, &reply).await.unwrap();
        assert_eq!(status, 200);
    }
    world.advance("3 days").await;

    // A field that the contact never had reads as no reply.
    let mails = world.mails_to("ann@x.example").await;
    assert_eq!(mails, ["Introduction", "Follow-up"]);
    for replied in ["bob@x.example", "cleo@x.example"] {
        assert_eq!(world.mails_to(replied).await, ["Introduction"]);
    }
    assert_eq!(world.run(&runs[0]).await["status"], "completed");
    assert_eq!(world.run(&runs[2]).await["status"], "completed");
    let waiting = world.until_status(&runs[1], "waiting").await;
    let id = waiting["waiting_on"][0]["id"].as_str().unwrap();
    let (status, request) = nina
        .get(&world.up, &format!("/requests/{id}"))
        .await
        .unwrap();
    assert_eq!(status, 200, "{request}");
    assert_eq!(request["warm_lead"], true, "{request}");
    assert_briefing(&request["context"]);
    world.advance("3 days").await;
    assert_eq!(world.run(&runs[1]).await["status"], "completed");
}

/// S0-T2: the context of the handoff, field by field.
fn assert_briefing(context: &Value) {
    let contact = &context["contact"];
    for (field, value) in [("id", "bob"), ("email", "bob@x.example"), ("company", "X")] {
        assert_eq!(contact[field], value, "{context}");
    }
    assert_eq!(contact["sentiment"], "positive", "{context}");
    let emails = context["emails"].as_array().unwrap();
    assert_eq!(emails.len(), 1, "{context}");
    assert_eq!(emails[0]["step"], "step-01", "{context}");
    assert_eq!(emails[0]["to"], "bob@x.example", "{context}");
    assert_eq!(emails[0]["subject"], "Introduction", "{context}");
    let conditions = context["conditions"].as_array().unwrap().iter();
    let conditions = conditions.map(|it| (it["step"].as_str().unwrap(), it["outcome"].clone()));
    let expected = [("step-03", json!(false)), ("step-04", json!(true))];
    assert_eq!(conditions.collect::<Vec<_>>(), expected, "{context}");
    for empty in ["searches", "deals", "findings"] {
        assert_eq!(context[empty], json!([]), "{empty}: {context}");
    }
    let actions = context["actions"].as_array().unwrap().iter();
    let actions: Vec<_> = actions.map(|it| it["step"].as_str().unwrap()).collect();
    assert_eq!(actions, ["step-01", "step-02", "step-03"], "{context}");
    let activities = context["activities"].as_array().unwrap();
    assert_eq!(activities[0]["kind"], "email_out", "{context}");
    let advice = context["recommended_action"].as_str().unwrap();
    assert_eq!(advice, "Agent requires attention", "{context}");
    assert_eq!(context["omitted"], json!({}), "{context}");
}

/// Words 1: an unknown line is refused with its place, what was understood, and the nearest forms.
#[tokio::test]
async fn an_unknown_line_stores_nothing() {
    let world = World::with_test_clock().await;
    let text = "agent: a\ninstructions: |\n  Wait 5 days\n  Hand off if not interested\n";
    let (status, problem) = world.up.post_yaml("/agents", text).await.unwrap();
    assert_eq!(status, 422, "{problem}");
    let error = &problem["errors"][0];
    assert_eq!((&error["line"], &error["column"]), (&json!(4), &json!(12)));
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("Understood `Hand off`;"), "{message}");
    assert!(!error["nearest"].as_array().unwrap().is_empty());
    let (status, _) = world.up.get("/agents/a").await.unwrap();
    assert_eq!(status, 404);
}

/// Words 4: weekends do not count, and the wait ends at the same time of day.
#[tokio::test]
async fn business_days_skip_the_weekend() {
    let world = World::with_test_clock().await;
    let text = "agent: patient\ninstructions: Wait 5 business days\n";
    let (status, applied) = world.up.post_yaml("/agents", text).await.unwrap();
    assert_eq!(status, 201, "{applied}");
    let run = world.start_run("patient", json!({})).await;
    let waiting = world.until_status(&run, "waiting").await;
    let at = |field: &str| -> DateTime<Utc> { waiting[field].as_str().unwrap().parse().unwrap() };
    let (started, ends) = (at("created_at"), at("resume_at"));
    let is_weekend = |day: &NaiveDate| matches!(day.weekday(), Weekday::Sat | Weekday::Sun);
    let days = started.date_naive().iter_days().skip(1);
    let days: Vec<_> = days.take_while(|day| *day <= ends.date_naive()).collect();
    let working = days.iter().filter(|day| !is_weekend(day)).count();
    assert_eq!(working, 5, "{started} {ends}");
    assert!(!is_weekend(&ends.date_naive()), "{ends}");
    assert!((ends.time() - started.time()).num_seconds() < 5);
    // The number of days depends on the weekday of this test: five from a Sunday, seven from a Monday.
    let hours = (ends - started).num_hours();
    world.advance(&format!("{} hours", hours - 1)).await;
    assert_eq!(world.run(&run).await["status"], "waiting");
    world.advance("2 hours").await;
    assert_eq!(world.run(&run).await["status"], "completed");
}

/// Words 1: a line repeats its step until the contact replies, also over a kill. After the last time no pause follows.
#[tokio::test]
async fn a_repeated_mail_ends_with_the_reply() {
    let mut world = World::with_test_clock().await;
    let text = "agent: patient\ninstructions: |\n  \
        Send email to contact with subject \"Hello\" and body \"Hi\" every 2 days until contact replies, at most 4 times\n  \
        Log \"Done.\"\n";
    let (status, applied) = world.up.post_yaml("/agents", text).await.unwrap();
    assert_eq!(status, 201, "{applied}");
    let mut runs = Vec::new();
    for name in ["ann", "bob"] {
        let contact = json!({ "id": name, "email": format!("{name}@x.example") });
        runs.push(
            world
                .start_run("patient", json!({ "contact": contact }))
                .await,
        );
    }
    world.advance("3 days").await;
    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();
    let replied = json!({ "replied": true });
    let (status, _) = world.up.patch("/contacts/bob", &replied).await.unwrap();
    assert_eq!(status, 200);
    world.settle().await;
    assert_eq!(world.run(&runs[1]).await["status"], "completed");
    // A reply that is withdrawn does not begin again.
    let withdrawn = json!({ "replied": false });
    let (status, _) = world.up.patch("/contacts/bob", &withdrawn).await.unwrap();
    assert_eq!(status, 200);
    world.advance("3 days").await;
    assert_eq!(world.mails_to("ann@x.example").await, ["Hello"; 4]);
    assert_eq!(world.mails_to("bob@x.example").await, ["Hello"; 2]);
    assert_eq!(world.run(&runs[0]).await["status"], "completed");
}

/// S0-AC5, S0-AC6, S0-T2: the sentences of the sources, word for word. The person who gets the handoff reads what the run
/// and the contact have done.
#[tokio::test]
async fn the_sentences_of_the_sources_run() {
    let world = World::with_test_clock().await;
    let nina = Person::join(&world.up, "salesRep", &["member", "sales"])
        .await
        .unwrap();
    let text = "agent: outreach\ntemplates:\n  Introduction: Hello {{ contact.name }}\n  follow-up: Is this of interest?\ninstructions: |\n  \
        Send email \"Introduction\" to contact\n  \
        If no reply after 5 days, send follow-up\n  \
        If deal.stage is \"proposal\", add tag \"pilot\"\n  \
        Hand off to @user.salesRep for personal outreach\n";
    let (status, applied) = world.up.post_yaml("/agents", text).await.unwrap();
    assert_eq!(status, 201, "{applied}");
    assert_eq!(applied["warnings"], json!([]), "{applied}");
    let mut runs = Vec::new();
    for name in ["ann", "bob"] {
        let deals =
            json!([{ "name": "Pilot", "value": 12000, "stage": "proposal", "probability": 0.4 }]);
        let contact = json!({ "id": name, "name": name, "email": format!("{name}@x.example"), "deals": deals });
        let start = json!({ "contact": contact });
        runs.push(world.start_run("outreach", start).await);
    }
    world.advance("2 days").await;
    let said =
        json!({ "kind": "email_in", "subject": "Re: Introduction", "text": "Tell me more." });
    let (status, _) = world
        .up
        .post("/contacts/bob/activities", &said)
        .await
        .unwrap();
    assert!((200..300).contains(&status), "{status}");
    let replied = json!({ "replied": true, "sentiment": "positive" });
    let (status, _) = world.up.patch("/contacts/bob", &replied).await.unwrap();
    assert_eq!(status, 200);
    world.advance("3 days").await;
    let mails = world.mails_to("ann@x.example").await;
    assert_eq!(mails, ["Introduction", "follow-up"]);
    assert_eq!(world.mails_to("bob@x.example").await, ["Introduction"]);

    let waiting = world.until_status(&runs[1], "waiting").await;
    let id = waiting["waiting_on"][0]["id"].as_str().unwrap();
    let (status, request) = nina
        .get(&world.up, &format!("/requests/{id}"))
        .await
        .unwrap();
    assert_eq!(status, 200, "{request}");
    assert_eq!(request["task"]["title"], "Personal outreach to bob");
    let context = &request["context"];
    assert_eq!(context["contact"]["email"], "bob@x.example", "{context}");
    assert_eq!(context["contact"]["tags"], json!(["pilot"]), "{context}");
    assert_eq!(context["deals"][0]["probability"], 0.4, "{context}");
    let kinds = context["activities"].as_array().unwrap().iter();
    let kinds: Vec<_> = kinds.map(|it| it["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["email_out", "email_in"], "both halves: {context}");
    let emails = &context["emails"];
    assert_eq!(emails[0]["subject"], "Introduction", "{context}");
    let outcomes = context["conditions"].as_array().unwrap().iter();
    let outcomes: Vec<_> = outcomes.map(|it| it["outcome"].clone()).collect();
    assert_eq!(outcomes, [json!(false), json!(true)], "{context}");
    for list in ["searches", "actions", "findings"] {
        assert!(context[list].is_array(), "{list}: {context}");
    }
    let advice = context["recommended_action"].as_str().unwrap();
    assert!(advice.contains("ersonal outreach"), "{context}");
}

/// Words 5: the fields of a started contact are merged into the stored one, and `replace` replaces it.
#[tokio::test]
async fn a_started_contact_is_merged_into_the_stored_one() {
    let world = World::with_test_clock().await;
    world
        .agent(
            "short",
            json!([{ "tool": "log", "args": { "message": "x" } }]),
        )
        .await;
    let start = async |body: Value| world.start_run("short", body).await;
    start(json!({ "contact": { "id": "zoe", "name": "Zoe", "owner": "nina", "replied": true } }))
        .await;
    start(json!({ "contact": { "id": "zoe", "name": "Zoe L.", "owner": null } })).await;
    let (_, merged) = world.up.get("/contacts/zoe").await.unwrap();
    assert_eq!(merged["name"], "Zoe L.", "{merged}");
    assert_eq!(
        (&merged["owner"], &merged["replied"]),
        (&Value::Null, &json!(true))
    );
    start(json!({ "contact": { "id": "zoe", "name": "Zoe" }, "replace": true })).await;
    let (_, replaced) = world.up.get("/contacts/zoe").await.unwrap();
    assert_eq!(
        (&replaced["name"], &replaced["replied"]),
        (&json!("Zoe"), &Value::Null)
    );
}
