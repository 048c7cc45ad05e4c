//! A reply arrives by a signed hook while a run waits, and the run sees it when it wakes (S0-AC7).

use holdpoint_testkit::Person;
use serde_json::{Value, json};

use crate::mail_provider::{Provider, code};
use crate::world::World;

/// S0-AC7: the reply also sets `replied` and `sentiment`. The person who takes over reads its text.
#[tokio::test]
async fn a_reply_by_hook_becomes_a_warm_lead() {
    let world = World::with_test_clock().await;
    Person::join(&world.up, "nina", &["member", "sales"])
        .await
        .unwrap();
    let is_warm = "contact.replied == true && contact.sentiment == \"positive\"";
    let handoff = json!({ "to": "@user.nina", "message": "call her", "timeout": "3 days" });
    let steps = json!([{ "wait": "5 days" }, { "when": is_warm, "handoff": handoff }]);
    world.agent("outreach", steps).await;
    let contact =
        json!({ "id": "c-zoe", "name": "Zoe", "email": "Zoe@zoe.example", "replied": false });
    let run = world
        .start_run("outreach", json!({ "contact": contact }))
        .await;
    world.settle().await;
    let provider = Provider::joins(&world, "mail").await;
    world.advance("2 days").await;
    let reply = json!({ "from": "zoe@ZOE.example", "subject": "Re: Introduction",
        "text": "Yes, please call me", "sentiment": "positive" });
    let at = world.now().await;
    for _again in 0..2 {
        let (status, response) = provider.posts("msg_1", at, &reply).await;
        assert_eq!(
            (status, &response["contact"]),
            (200, &json!("c-zoe")),
            "{response}"
        );
    }
    let (_, said) = world.up.get("/contacts/c-zoe/activities").await.unwrap();
    assert_eq!(said["items"].as_array().unwrap().len(), 1, "once: {said}");
    assert_eq!(
        world.run(&run).await["status"],
        "waiting",
        "it wakes at its time"
    );

    world.advance("3 days").await;
    let shown = world.until_status(&run, "waiting").await;
    assert_eq!(shown["waiting_on"][0]["kind"], "handoff", "{shown}");
    let id = shown["waiting_on"][0]["id"].as_str().unwrap();
    let (status, request) = world.up.get(&format!("/requests/{id}")).await.unwrap();
    assert_eq!(status, 200);
    assert_eq!(request["title"], "[Warm Lead] Agent handoff: Zoe");
    let heard = &request["context"]["activities"][0];
    assert_eq!(
        (&heard["kind"], &heard["text"]),
        (&json!("email_in"), &json!("Yes, please call me"))
    );
}

/// Ann, and two contacts with one address.
async fn known_people(world: &World) {
    for (id, email) in [
        ("ann", "a@x.example"),
        ("bob", "b@x.example"),
        ("bo", "b@x.example"),
    ] {
        let body = json!({ "email": email });
        let put = world.up.put(&format!("/contacts/{id}"), &body).await;
        assert_eq!(put.unwrap().0, 200);
    }
}

fn reply(who: &Value) -> Value {
    let mut body = json!({ "text": "Yes" });
    let who = who.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(who);
    body
}

#[tokio::test]
async fn an_unsigned_old_or_unknown_reply_is_refused() {
    let world = World::with_test_clock().await;
    known_people(&world).await;
    let provider = Provider::joins(&world, "mail").await;
    let at = world.now().await;
    let ann = reply(&json!({ "contact": "ann" }));
    let forged = (ann.to_string(), "v1,bm8=".to_owned());
    let response = code(provider.sends("m", at, forged).await);
    assert_eq!(response, (401, "invalid_signature".to_owned()));
    let old = at - chrono::TimeDelta::seconds(301);
    let response = code(provider.posts("m", old, &ann).await);
    assert_eq!(response, (401, "stale_timestamp".to_owned()));
    for (who, wanted) in [
        (json!({ "contact": "nobody" }), "unknown_contact"),
        (json!({}), "invalid_body"),
        (
            json!({ "contact": "ann", "sentiment": "rosy" }),
            "invalid_body",
        ),
        (json!({ "contact": "ann", "text": " " }), "invalid_body"),
    ] {
        let id = who.to_string().replace(' ', "");
        let response = code(provider.posts(&id, at, &reply(&who)).await);
        assert_eq!(response, (422, wanted.to_owned()), "{who}");
    }
    let (_, known) = world.up.get("/contacts/ann").await.unwrap();
    assert_eq!(known["replied"], Value::Null, "nothing was done: {known}");
}

/// Words 5: if several contacts have the address of a reply, a person assigns it.
#[tokio::test]
async fn a_reply_that_could_be_of_two_contacts_is_assigned_by_a_person() {
    let world = World::with_test_clock().await;
    known_people(&world).await;
    let provider = Provider::joins(&world, "mail").await;
    let at = world.now().await;
    let from = reply(&json!({ "from": "b@x.example" }));
    let (status, stored) = provider.posts("m", at, &from).await;
    assert_eq!(status, 202, "{stored}");
    let path = format!(
        "/hooks/inbound/unmatched/{}/assign",
        stored["unmatched"].as_str().unwrap()
    );
    let bob = json!({ "contact": "bob" });
    let (status, assigned) = world.up.post(&path, &bob).await.unwrap();
    assert_eq!(status, 200, "{assigned}");
    for (contact, replied) in [("bob", json!(true)), ("bo", Value::Null)] {
        let (_, known) = world.up.get(&format!("/contacts/{contact}")).await.unwrap();
        assert_eq!(known["replied"], replied, "{known}");
    }
}

/// Words 5: a mail is one reply, however often and by whatever hook its provider posts it.
#[tokio::test]
async fn a_mail_that_is_posted_again_is_one_reply() {
    let world = World::with_test_clock().await;
    known_people(&world).await;
    let (mail, other) = (
        Provider::joins(&world, "mail").await,
        Provider::joins(&world, "other").await,
    );
    let at = world.now().await;
    let body = |more: Value| {
        let mut body = reply(&json!({ "from": "a@x.example", "message_id": "<1@x.example>" }));
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        body
    };
    for (provider, id, more) in [
        (&mail, "m1", json!({ "sentiment": "positive" })),
        (&mail, "m1", json!({ "sentiment": "positive" })),
        (
            &mail,
            "m2",
            json!({ "sentiment": "negative", "text": "No" }),
        ),
        (&other, "o1", json!({ "message_id": " 1@x.example" })),
    ] {
        let (status, response) = provider.posts(id, at, &body(more)).await;
        assert_eq!(
            (status, &response["contact"]),
            (200, &json!("ann")),
            "{response}"
        );
    }
    let (_, ann) = world.up.get("/contacts/ann").await.unwrap();
    assert_eq!(ann["sentiment"], "positive", "{ann}");
    let (_, said) = world.up.get("/contacts/ann/activities").await.unwrap();
    assert_eq!(said["items"].as_array().unwrap().len(), 1, "{said}");
    let another = body(json!({ "message_id": "<2@x.example>" }));
    assert_eq!(mail.posts("m1", at, &another).await.0, 200);
    let (_, said) = world.up.get("/contacts/ann/activities").await.unwrap();
    assert_eq!(said["items"].as_array().unwrap().len(), 2, "{said}");
    let long = "x".repeat(999);
    let hostile = ["<>", "a\nb", "<a@x>\r\nBcc: eve@x.example", long.as_str()];
    for id in hostile {
        let named = body(json!({ "message_id": id }));
        let refused = code(mail.posts("m3", at, &named).await);
        assert_eq!(refused, (422, "invalid_body".to_owned()), "{id}");
        // A thread is a hint, and `from` names the contact.
        let hinted = body(json!({ "message_id": null, "in_reply_to": id }));
        let number = format!("hint-{}", id.len());
        assert_eq!(mail.posts(&number, at, &hinted).await.0, 200, "{id}");
    }
}

#[tokio::test]
async fn a_hook_accepts_each_id_once_and_nothing_after_its_deletion() {
    let world = World::with_test_clock().await;
    known_people(&world).await;
    let provider = Provider::joins(&world, "mail").await;
    let at = world.now().await;
    let ann = reply(&json!({ "contact": "ann" }));
    let (status, _) = provider.posts("m", at, &ann).await;
    assert_eq!(status, 200);
    let other = reply(&json!({ "contact": "ann", "sentiment": "negative" }));
    let response = code(provider.posts("m", at, &other).await);
    assert_eq!(response, (422, "idempotency_key_reused".to_owned()));
    let same_name = json!({ "name": "mail" });
    let twice = world.up.post("/hooks/inbound", &same_name).await.unwrap();
    assert_eq!(code(twice), (409, "already_exists".to_owned()));
    let (_, hooks) = world.up.get("/hooks/inbound").await.unwrap();
    let secret = &hooks["items"][0]["secret"];
    assert_eq!(*secret, Value::Null, "shown once: {hooks}");
    assert_eq!(world.up.delete("/hooks/inbound/mail").await.unwrap().0, 204);
    let response = code(provider.posts("n", at, &ann).await);
    assert_eq!(response, (401, "invalid_signature".to_owned()));
}
