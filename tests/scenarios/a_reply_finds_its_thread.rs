//! A reply belongs to the contact whose mail it answers. A reply of an unknown sender waits for a person.

use holdpoint_testkit::Person;
use reqwest::Method;
use serde_json::{Value, json};

use crate::mail_provider::{Provider, code};
use crate::world::{PATIENCE, World};

const LIST: &str = "/hooks/inbound/unmatched";

async fn put_contact(world: &World, id: &str) {
    let fields = json!({ "email": format!("{id}@x.example") });
    let put = world.up.put(&format!("/contacts/{id}"), &fields).await;
    assert_eq!(put.unwrap().0, 200);
}

async fn activities(world: &World, contact: &str) -> Vec<Value> {
    let path = format!("/contacts/{contact}/activities");
    let (status, page) = world.up.get(&path).await.unwrap();
    assert_eq!(status, 200, "{page}");
    page["items"].as_array().unwrap().clone()
}

async fn unmatched(world: &World, query: &str) -> Value {
    let (status, page) = world.up.get(&format!("{LIST}{query}")).await.unwrap();
    assert_eq!(status, 200, "{page}");
    page
}

fn ids(page: &Value) -> Vec<&str> {
    let items = page["items"].as_array().unwrap().iter();
    items.map(|item| item["id"].as_str().unwrap()).collect()
}

/// A run that has sent a mail to `zoe` and waits for her reply. Returns the run and the Message-ID.
async fn run_with_mail(world: &World) -> (String, String) {
    let args = json!({ "to": "{{ contact.email }}", "subject": "Hi", "body": "Shall we talk?" });
    let steps = json!([
        { "tool": "send_email", "args": args },
        { "wait_for": { "signal": "contact.reply", "timeout": "5 days", "on_timeout": "fail" } },
    ]);
    world.agent("outreach", steps).await;
    let run = world
        .start_run("outreach", json!({ "contact": "zoe" }))
        .await;
    world.settle().await;
    let (_, mails) = world.up.get("/mails").await.unwrap();
    let id = mails["items"][0]["message_id"].as_str().unwrap().to_owned();
    (run, id)
}

/// Words 5: the thread wins over `from`, and the named contact over both. A thread of another workspace does not count.
#[tokio::test]
async fn the_thread_wins_over_the_sender() {
    let world = World::with_test_clock().await;
    put_contact(&world, "zoe").await;
    put_contact(&world, "bob").await;
    let (run, mail) = run_with_mail(&world).await;
    let body = json!({ "workspace": "other" });
    let made = world
        .up
        .call(Method::POST, "/v1/workspaces", Some(&body))
        .await;
    let (_, made) = made.unwrap();
    let token = made["token"].as_str().unwrap();
    let elsewhere = Provider::joins_workspace(&world, "other", token, "mail").await;
    let provider = Provider::joins(&world, "mail").await;
    let at = world.now().await;
    let reply = |number: u8, more: Value| {
        let mut reply = json!({ "text": "Yes", "message_id": format!("{number}@x.example") });
        let more = more.as_object().unwrap().clone();
        reply.as_object_mut().unwrap().extend(more);
        reply
    };
    let foreign = reply(1, json!({ "from": "zoe@x.example", "in_reply_to": mail }));
    let (status, answer) = elsewhere.posts("1", at, &foreign).await;
    assert_eq!((status, &answer["recorded"]), (202, &json!(false)));
    assert_eq!(unmatched(&world, "").await["items"], json!([]));

    let bob = "bob@x.example";
    for (number, more, expected) in [
        (
            2,
            json!({ "from": bob, "in_reply_to": "<no@mail.example>" }),
            "bob",
        ),
        (
            3,
            json!({ "contact": "bob", "from": "zoe@x.example", "in_reply_to": mail }),
            "bob",
        ),
        (
            4,
            json!({ "from": bob, "in_reply_to": "2@x.example" }),
            "bob",
        ),
        (
            5,
            json!({ "from": bob, "in_reply_to": format!(" {mail}") }),
            "zoe",
        ),
        (5, json!({ "from": bob, "in_reply_to": mail }), "zoe"),
        (6, json!({ "in_reply_to": mail }), "zoe"),
    ] {
        let answer = provider
            .posts(&format!("m{number}"), at, &reply(number, more))
            .await;
        let expected = json!({ "recorded": true, "contact": expected });
        assert_eq!(answer, (200, expected), "{number}");
    }
    world.settle().await;
    world.until_status(&run, "completed").await;
    let zoe = activities(&world, "zoe").await;
    let kinds: Vec<_> = zoe
        .iter()
        .map(|one| one["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "email_in").count(), 2);
    assert_eq!(kinds.iter().filter(|kind| **kind == "email_out").count(), 1);
}

/// Words 5: an unknown sender stays listed, once for each mail, until a person assigns or removes the reply.
#[tokio::test]
async fn a_reply_of_an_unknown_sender_is_listed_until_it_is_assigned() {
    let world = World::with_test_clock().await;
    put_contact(&world, "zoe").await;
    put_contact(&world, "bob").await;
    let provider = Provider::joins(&world, "mail").await;
    let at = world.now().await;
    let first = json!({ "from": "zoe@home.example", "subject": "Re:\u{7} Hi", "text": "Yes\u{1b}[2J",
        "message_id": "<1@x.example>", "in_reply_to": "<0@x.example>", "sentiment": "positive" });
    let second = json!({ "from": "eve@x.example", "text": "Spam" });
    let mut listed = Vec::new();
    for (id, body) in [
        ("m1", &first),
        ("m2", &first),
        ("m3", &second),
        ("m3", &second),
    ] {
        let (status, answer) = provider.posts(id, at, body).await;
        assert_eq!(
            (status, &answer["recorded"]),
            (202, &json!(false)),
            "{answer}"
        );
        listed.push(answer["unmatched"].as_str().unwrap().to_owned());
    }
    assert_eq!(
        (&listed[0], &listed[2]),
        (&listed[1], &listed[3]),
        "one entry each"
    );
    let other = json!({ "from": "eve@x.example", "text": "Other" });
    let reused = code(provider.posts("m3", at, &other).await);
    assert_eq!(reused, (422, "idempotency_key_reused".to_owned()));
    let page = unmatched(&world, "?limit=1").await;
    assert_eq!(ids(&page), [&*listed[2]], "newest first");
    let cursor = page["next_cursor"].as_str().unwrap();
    let page = unmatched(&world, &format!("?limit=1&cursor={cursor}")).await;
    let at = holdpoint_contracts::instant::write(at);
    let expected = json!({ "id": listed[0], "hook": "mail", "from": "zoe@home.example",
        "subject": "Re: Hi", "text": "Yes[2J", "message_id": "1@x.example",
        "in_reply_to": "0@x.example", "sentiment": "positive", "at": at, "received_at": at });
    assert_eq!(page, json!({ "items": [expected], "next_cursor": null }));

    let path = format!("{LIST}/{}/assign", listed[0]);
    let assign = async |contact: &str| {
        let answer = world.up.post(&path, &json!({ "contact": contact })).await;
        answer.unwrap()
    };
    let unknown = code(assign("unknown").await);
    assert_eq!(unknown, (422, "unknown_contact".to_owned()));
    let recorded = json!({ "recorded": true, "contact": "zoe" });
    for _again in 0..2 {
        assert_eq!(assign("zoe").await, (200, recorded.clone()));
    }
    assert_eq!(
        code(assign("bob").await),
        (409, "already_assigned".to_owned())
    );
    let at = world.now().await;
    assert_eq!(provider.posts("m4", at, &first).await, (200, recorded));
    let zoe = activities(&world, "zoe").await;
    assert_eq!((zoe.len(), &zoe[0]["text"]), (1, &json!("Yes[2J")));
    let (_, zoe) = world.up.get("/contacts/zoe").await.unwrap();
    assert_eq!(
        (&zoe["replied"], &zoe["sentiment"]),
        (&json!(true), &json!("positive"))
    );
}

/// Words 5: a repetition of a removed reply is not listed again, and a removed one cannot be assigned.
#[tokio::test]
async fn a_removed_reply_is_not_listed_again() {
    let world = World::with_test_clock().await;
    put_contact(&world, "zoe").await;
    let provider = Provider::joins(&world, "mail").await;
    let at = world.now().await;
    let reply = json!({ "from": "eve@x.example", "text": "Spam" });
    let (_, first) = provider.posts("m1", at, &reply).await;
    let path = format!("{LIST}/{}", first["unmatched"].as_str().unwrap());
    assert_eq!(world.up.delete(&path).await.unwrap().0, 204);
    assert_eq!(world.up.delete(&path).await.unwrap().0, 404);
    let body = json!({ "contact": "zoe" });
    let assigned = world.up.post(&format!("{path}/assign"), &body).await;
    assert_eq!(assigned.unwrap().0, 404);
    let repeated = provider.posts("m1", at, &reply).await;
    assert_eq!(repeated, (202, first));
    assert_eq!(unmatched(&world, "").await["items"], json!([]));
}

/// Words 5: a reply that finds its contact later leaves the list.
#[tokio::test]
async fn a_repetition_for_a_new_contact_leaves_the_list() {
    let world = World::with_test_clock().await;
    let provider = Provider::joins(&world, "mail").await;
    let at = world.now().await;
    let reply = json!({ "from": "zoe@x.example", "text": "Yes", "message_id": "1@x.example" });
    assert_eq!(provider.posts("m1", at, &reply).await.0, 202);
    assert_eq!(ids(&unmatched(&world, "").await).len(), 1);
    put_contact(&world, "zoe").await;
    assert_eq!(provider.posts("m1", at, &reply).await.0, 200);
    assert_eq!(unmatched(&world, "").await["items"], json!([]));
    assert_eq!(activities(&world, "zoe").await.len(), 1);
}

/// Words 5: a viewer reads the list. An unmatched reply is of its workspace, and its texts are bounded.
#[tokio::test]
async fn an_unmatched_reply_has_limits_and_rights() {
    let world = World::with_test_clock().await;
    put_contact(&world, "zoe").await;
    let provider = Provider::joins(&world, "mail").await;
    let at = world.now().await;
    let reply = |more: Value| {
        let mut reply = json!({ "from": "eve@x.example", "text": "Yes" });
        reply
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        reply
    };
    for (more, expected) in [
        (json!({ "text": "x".repeat(64 * 1024) }), (413, "too_large")),
        (json!({ "subject": "x".repeat(1_001) }), (413, "too_large")),
        (json!({ "from": "x".repeat(321) }), (422, "invalid_body")),
        (
            json!({ "from": "eve@x.example\r\nBcc: a@x.example" }),
            (422, "invalid_body"),
        ),
        (
            json!({ "at": "-9999-12-31T23:59:59Z" }),
            (422, "invalid_body"),
        ),
    ] {
        let (status, code) = code(provider.posts("m", at, &reply(more)).await);
        assert_eq!((status, &*code), expected);
    }
    let (_, answer) = provider.posts("m1", at, &reply(json!({}))).await;
    let id = answer["unmatched"].as_str().unwrap();
    let viewer = Person::join(&world.up, "vic", &["viewer"]).await.unwrap();
    let (status, page) = viewer.get(&world.up, LIST).await.unwrap();
    assert_eq!((status, ids(&page)), (200, vec![id]));
    let path = format!("{LIST}/{id}/assign");
    let body = json!({ "contact": "zoe" });
    assert_eq!(viewer.post(&world.up, &path, &body).await.unwrap().0, 403);
    let other = json!({ "workspace": "other" });
    let made = world
        .up
        .call(Method::POST, "/v1/workspaces", Some(&other))
        .await;
    let (_, made) = made.unwrap();
    let token = made["token"].as_str().unwrap();
    let path = format!("/v1/workspaces/other{path}");
    let answer = world
        .up
        .call_with(token, Method::POST, &path, Some(&body))
        .await;
    assert_eq!(answer.unwrap().0, 404);
    let name = json!({ "name": "unmatched" });
    let refused = world.up.post("/hooks/inbound", &name).await.unwrap();
    assert_eq!(code(refused), (422, "invalid_body".to_owned()));
}

/// Words 5: a kill before, between or after the parts of an assignment records the reply once.
#[tokio::test]
async fn a_kill_records_an_assigned_reply_once() {
    for point in ["decided", "committed", "published"] {
        let crash = format!("executor:{point}:1:add_activity");
        let mut world = World::with_real_env(&[("HOLDPOINT_CRASH", &crash)]).await;
        put_contact(&world, "zoe").await;
        let provider = Provider::joins(&world, "mail").await;
        let reply =
            json!({ "from": "zoe@home.example", "text": "Yes", "message_id": "1@x.example" });
        let (_, answer) = provider.posts("m1", world.now().await, &reply).await;
        let id = answer["unmatched"].as_str().unwrap();
        let path = format!("{LIST}/{id}/assign");
        let body = json!({ "contact": "zoe" });
        // The process may end before it answers.
        drop(world.up.post(&path, &body).await);
        world.up.ended(PATIENCE).await.unwrap();
        world.up.options_mut().env.clear();
        world.up.restart().await.unwrap();
        let answer = world.up.post(&path, &body).await.unwrap();
        let expected = json!({ "recorded": true, "contact": "zoe" });
        assert_eq!(answer, (200, expected), "{point}");
        assert_eq!(activities(&world, "zoe").await.len(), 1, "{point}");
        assert_eq!(unmatched(&world, "").await["items"], json!([]), "{point}");
    }
}

/// Words 5: a later mail of the run to its contact answers the newest mail. The first one begins a thread, and so does a
/// mail to another address.
#[tokio::test]
async fn a_later_mail_continues_the_conversation() {
    let world = World::with_test_clock().await;
    put_contact(&world, "zoe").await;
    let mail = |to: &str| json!({ "tool": "send_email", "args": { "to": to, "subject": "Hi", "body": "Hello" } });
    let wait = json!({ "wait": "1 day" });
    let to_contact = || mail("{{ contact.email }}");
    let steps = json!([
        to_contact(),
        to_contact(),
        wait,
        to_contact(),
        mail("rep@acme.example"),
        to_contact(),
    ]);
    world.agent("outreach", steps).await;
    let run = world
        .start_run("outreach", json!({ "contact": "zoe" }))
        .await;
    world.settle().await;
    let provider = Provider::joins(&world, "mail").await;
    world.advance("1 hour").await;
    let reply = json!({ "text": "Yes", "message_id": "9@x.example",
        "in_reply_to": format!("{run}.step-02@holdpoint") });
    assert_eq!(provider.posts("m1", world.now().await, &reply).await.0, 200);
    world.advance("1 day").await;
    world.until_status(&run, "completed").await;
    let second_run = world
        .start_run("outreach", json!({ "contact": "zoe" }))
        .await;
    world.settle().await;
    for (run, step, expected) in [
        (&run, "step-01", None),
        (&run, "step-02", Some(format!("{run}.step-01@holdpoint"))),
        (&run, "step-04", Some("9@x.example".to_owned())),
        (&run, "step-05", None),
        (&run, "step-06", Some(format!("{run}.step-04@holdpoint"))),
        (&second_run, "step-01", None),
    ] {
        let file = format!("mails/new/{run}=2F{step}.eml");
        let raw = std::fs::read_to_string(world.up.data_dir().join(file)).unwrap();
        let header = raw.lines().find_map(|it| it.strip_prefix("In-Reply-To: "));
        let expected = expected.map(|id| format!("<{id}>"));
        assert_eq!(header, expected.as_deref(), "{step}: {raw}");
    }
    // A colleague replies to the mail to them. The contact has not replied.
    let reply = json!({ "from": "rep@acme.example", "text": "Thanks",
        "in_reply_to": format!("<{run}.step-05@holdpoint>") });
    let (status, answer) = provider.posts("m2", world.now().await, &reply).await;
    assert_eq!((status, &answer["recorded"]), (202, &json!(false)));
}
