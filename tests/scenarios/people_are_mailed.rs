//! A request is mailed to its recipient, who decides by the link in the mail (S0-T4; People, deliverable 7).

use holdpoint_testkit::{Person, until};
use reqwest::header::COOKIE;
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use crate::shop::Shop;
use crate::world::{PATIENCE, World};

/// A reader who opens the link of a mail.
struct Reader<'w> {
    world: &'w World,
    client: Client,
}

impl<'w> Reader<'w> {
    fn of(world: &'w World) -> Self {
        let client = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .unwrap();
        Self { world, client }
    }

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.world.up.url)
    }

    async fn open(&self, path: &str) -> (StatusCode, String) {
        text(self.client.get(self.at(path))).await
    }

    /// Sends a form as a browser without a script does.
    async fn send(&self, path: &str, form: &'static str) -> (StatusCode, String) {
        let request = self.client.post(self.at(path)).body(form);
        let kind = "application/x-www-form-urlencoded";
        // A browser sends this under `no-referrer`.
        text(
            request
                .header("content-type", kind)
                .header("origin", "null"),
        )
        .await
    }

    async fn decide(&self, path: &str, decision: Value) -> (StatusCode, Value) {
        let request = self.client.post(self.at(path));
        let answer = request.json(&json!({ "decision": decision }));
        let answer = answer.send().await.unwrap();
        (answer.status(), answer.json().await.unwrap())
    }

    /// The session cookie of a user.
    async fn session(&self, name: &str) -> String {
        let (status, made) = self
            .world
            .up
            .post("/tokens", &json!({ "user": name }))
            .await
            .unwrap();
        assert_eq!(status, 201, "{made}");
        let form = format!("token={}", made["token"].as_str().unwrap());
        let request = self.client.post(self.at("/login")).body(form);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let answer = request.send().await.unwrap();
        let cookie = answer.headers()["set-cookie"].to_str().unwrap();
        cookie.split(';').next().unwrap().to_owned()
    }
}

async fn text(request: RequestBuilder) -> (StatusCode, String) {
    let answer: Response = request.send().await.unwrap();
    (answer.status(), answer.text().await.unwrap())
}

/// The mails to people that a user can list.
async fn mails(world: &World, person: &Person) -> Vec<Value> {
    let (status, page) = person.get(&world.up, "/mails").await.unwrap();
    assert_eq!(status, 200, "{page}");
    let all = page["items"].as_array().unwrap().iter();
    let notifications = all.filter(|mail| mail["kind"] == "notification");
    notifications.cloned().collect()
}

/// The text of the newest mail, once there are `count` of them.
async fn newest(world: &World, person: &Person, count: usize) -> String {
    let mails = until(PATIENCE, "the mail is there", async || {
        Some(mails(world, person).await).filter(|mails| mails.len() == count)
    });
    let mails = mails.await.unwrap();
    mails.last().unwrap()["body"].as_str().unwrap().to_owned()
}

/// The path of the link after these words of a mail.
fn behind(body: &str, words: &str) -> String {
    let (_, rest) = body
        .split_once(words)
        .unwrap_or_else(|| panic!("{words}: {body}"));
    let (_, token) = rest.split_once("/l/").unwrap();
    format!("/l/{}", token.split_whitespace().next().unwrap())
}

/// The path of the link to the request in the newest mail, once there are `count` of them.
async fn link(world: &World, person: &Person, count: usize) -> String {
    behind(&newest(world, person, count).await, "Look at it and decide")
}

async fn ask(world: &World, body: Value) -> String {
    let (status, hold) = world.up.post("/holds", &body).await.unwrap();
    assert_eq!(status, 201, "{hold}");
    hold["id"].as_str().unwrap().to_owned()
}

async fn request(world: &World, id: &str) -> Value {
    world.up.get(&format!("/requests/{id}")).await.unwrap().1
}

/// S0-T4, "Must": only its recipient can list a mail. A GET of its link, also by a preview bot, shows the request, and
/// a POST decides it once.
#[tokio::test]
async fn a_person_decides_by_the_link_in_a_mail() {
    let world = World::with_test_clock().await;
    let reader = Reader::of(&world);
    let ada = Person::join(&world.up, "ada", &["member"]).await.unwrap();
    let bob = Person::join(&world.up, "bob", &["member"]).await.unwrap();
    let id = ask(
        &world,
        json!({
            "kind": "approval", "question": "Ship <b>4.2</b>?\r\nBcc: eve@evil.example",
            "to": "@user.ada", "data": { "changes": 17 },
        }),
    )
    .await;
    let link = link(&world, &ada, 1).await;
    let mail = mails(&world, &ada).await.remove(0);
    assert_eq!(mail["to"], "ada@acme.example", "{mail}");
    assert_eq!(mail["subject"], "Ship <b>4.2</b>?", "{mail}");
    assert!(
        mail["body"].as_str().unwrap().contains("Changes: 17"),
        "{mail}"
    );
    assert!(mails(&world, &bob).await.is_empty());
    let (_, page) = world.up.get("/mails").await.unwrap();
    assert_eq!(page["items"], json!([]), "also not for an owner");

    for _ in 0..3 {
        let looked = reader.client.get(reader.at(&link)).send().await.unwrap();
        assert_eq!(looked.status(), 200);
        for (name, value) in [
            ("cache-control", "no-store"),
            ("referrer-policy", "no-referrer"),
            ("x-robots-tag", "noindex, nofollow"),
        ] {
            assert_eq!(looked.headers()[name], value, "{name}");
        }
        let page = looked.text().await.unwrap();
        assert!(page.contains("Ship &lt;b&gt;4.2&lt;/b&gt;?") && page.contains("Approve"));
        assert!(!page.contains("Reassign"), "it decides and nothing else");
    }
    assert_eq!(request(&world, &id).await["status"], "open");
    let (status, page) = reader.send(&link, "do=withdraw").await;
    assert_eq!(status, 422, "{page}");

    let (status, page) = reader.send(&link, "do=approve&comment=go").await;
    assert_eq!(status, 200, "{page}");
    assert!(page.contains("Recorded."), "{page}");
    let decided = request(&world, &id).await;
    assert_eq!(
        (
            &decided["outcome"],
            &decided["decided_by"],
            &decided["response"]
        ),
        (&json!("approved"), &json!("ada"), &json!("go"))
    );
    let no = json!({ "reject": { "reason": "I did not mean it" } });
    let (status, refused) = reader.decide(&link, no).await;
    assert_eq!(
        (status.as_u16(), &refused["code"]),
        (409, &json!("already_decided"))
    );
    let (status, page) = reader.open(&link).await;
    assert_eq!(status, 200);
    assert!(
        page.contains("This link is no longer valid") && !page.contains("<form"),
        "{page}"
    );
}

/// S2-R4: an approver sends a call back by the link in a mail, if a step has made its arguments.
#[tokio::test]
async fn a_call_is_sent_back_by_the_link_in_a_mail() {
    let world = World::with_real_time().await;
    let reader = Reader::of(&world);
    let shop = Shop::open().await;
    let ada = Person::join(&world.up, "ada", &["member"]).await.unwrap();
    for name in ["drafts", "payments"] {
        let http = json!({ "url": shop.url(&format!("/{name}")) });
        let tool = json!({ "name": name, "risk": "low", "http": http });
        assert_eq!(world.up.post("/tools", &tool).await.unwrap().0, 201);
    }
    let draft = json!({ "id": "draft", "tool": "drafts", "args": { "about": "o-1" } });
    let approval = json!({ "from": "@user.ada" });
    let pay = json!({ "id": "pay", "tool": "payments", "args": { "amount": "$draft.total" }, "approval": approval });
    world.agent("pays", json!([draft, pay])).await;
    let run = world.start_run("pays", json!({})).await;
    let mail = newest(&world, &ada, 1).await;
    let link = behind(&mail, "Send back, and say what to change");
    let (status, page) = reader.open(&link).await;
    assert!(status == 200 && page.contains("to send it back"), "{page}");
    let (status, page) = reader.send(&link, "do=revise&instructions=").await;
    assert_eq!(status, 422, "{page}");
    let (status, page) = reader
        .send(&link, "do=revise&instructions=Half+of+it.")
        .await;
    assert!(status == 200 && page.contains("Recorded."), "{page}");
    let sent_back = until(PATIENCE, "the draft runs again", async || {
        let calls = shop.calls();
        calls
            .iter()
            .any(|call| call.body.contains("Half of it."))
            .then_some(())
    });
    sent_back.await.unwrap();
    // A revision does not end the run, and the approver is asked again.
    let mail = newest(&world, &ada, 2).await;
    let link = behind(&mail, "- Approve");
    let (status, page) = reader.send(&link, "do=approve").await;
    assert!(status == 200 && page.contains("Recorded."), "{page}");
    world.until_status(&run, "completed").await;
}

fn for_sales() -> Value {
    json!({
        "kind": "input", "question": "Now?", "options": ["yes", "no"], "to": "@role.sales",
        "timeout": "30 days", "on_timeout": "escalate",
        "ladder": [{ "after": "29 days", "do": "notify" }],
    })
}

async fn two(world: &World) -> (Person, Person) {
    let roles = ["member", "sales"];
    let ada = Person::join(&world.up, "ada", &roles).await.unwrap();
    (ada, Person::join(&world.up, "bob", &roles).await.unwrap())
}

fn yes() -> Value {
    json!({ "respond": { "answer": "yes" } })
}

/// "Must": a link to an old version says that the request has changed, and decides the version that it then shows.
#[tokio::test]
async fn a_link_is_bound_to_the_version_of_its_request() {
    let world = World::with_test_clock().await;
    let reader = Reader::of(&world);
    let (ada, bob) = two(&world).await;
    let id = ask(&world, for_sales()).await;
    let of_bob = link(&world, &bob, 1).await;
    let seen = format!("/requests/{id}/acknowledge");
    assert_eq!(ada.post(&world.up, &seen, &json!({})).await.unwrap().0, 200);

    let (status, refused) = reader.decide(&of_bob, yes()).await;
    assert_eq!(
        (status.as_u16(), &refused["code"]),
        (409, &json!("version_conflict"))
    );
    let (_, page) = reader.open(&of_bob).await;
    assert!(
        page.contains("The request has changed since this email was sent."),
        "{page}"
    );
    let (_, action) = page.split_once("action=\"/l/").unwrap();
    let of_now = format!("/l/{}", action.split('"').next().unwrap());
    assert_ne!(of_now, of_bob, "the link has the version of the page");
    let (status, page) = reader.send(&of_now, "do=respond&answer=perhaps").await;
    assert_eq!(status, 422, "{page}");
    let (status, page) = reader.send(&of_now, "do=respond&answer=yes").await;
    assert_eq!(status, 200, "{page}");
    assert_eq!(request(&world, &id).await["decided_by"], "bob");
}

/// "Must": links of another user, of a disabled user, of no user and of an expired request are refused.
#[tokio::test]
async fn a_link_is_bound_to_person_and_time() {
    let world = World::with_test_clock().await;
    let reader = Reader::of(&world);
    let (ada, bob) = two(&world).await;
    ask(&world, for_sales()).await;
    let (of_ada, of_bob) = (link(&world, &ada, 1).await, link(&world, &bob, 1).await);

    let cookie = reader.session("ada").await;
    for request in [
        reader.client.get(reader.at(&of_bob)),
        reader.client.post(reader.at(&of_bob)).json(&json!({})),
    ] {
        let (status, page) = text(request.header(COOKIE, &cookie)).await;
        assert_eq!(status, 403, "{page}");
        let said = "This link belongs to bob, but you are signed in as ada.";
        assert!(page.contains(said), "{page}");
    }
    let (status, page) = reader.open(&of_bob[..of_bob.len() - 3]).await;
    assert_eq!(status, 404, "{page}");
    assert!(page.contains("This link is not valid."), "{page}");

    let (status, _) = world.up.delete("/users/bob").await.unwrap();
    assert!(status < 300, "{status}");
    until(PATIENCE, "bob is disabled", async || {
        (reader.open(&of_bob).await.0 == 403).then_some(())
    })
    .await
    .unwrap();
    world.advance("14 days").await;
    let (status, page) = reader.open(&of_ada).await;
    assert_eq!(status, 410, "{page}");
    assert!(page.contains("This link has expired."), "{page}");
    let (status, refused) = reader.decide(&of_ada, yes()).await;
    assert_eq!(
        (status.as_u16(), &refused["code"]),
        (410, &json!("link_expired"))
    );
}

/// Deliverable 7, "Must": each answer has a link. A GET shows the answer and decides nothing, and a POST decides once.
/// The link is bound to its user and to the version of the request.
#[tokio::test]
async fn a_mail_has_a_link_for_each_answer() {
    let world = World::with_test_clock().await;
    let reader = Reader::of(&world);
    let (ada, bob) = two(&world).await;
    let id = ask(&world, for_sales()).await;
    let of_ada = newest(&world, &ada, 1).await;
    let (yes, no) = (behind(&of_ada, "- yes\n"), behind(&of_ada, "- no\n"));
    assert_ne!(yes, no);
    for (link, chosen) in [(&yes, "yes"), (&no, "no"), (&yes, "yes")] {
        let (status, page) = reader.open(link).await;
        assert_eq!(status, 200, "{page}");
        let words = format!("In the email you chose <strong>{chosen}</strong>");
        assert!(page.contains(&words), "{page}");
    }
    assert_eq!(
        request(&world, &id).await["status"],
        "open",
        "looking decides nothing"
    );
    let cookie = reader.session("bob").await;
    let (status, _) = text(reader.client.get(reader.at(&no)).header(COOKIE, &cookie)).await;
    assert_eq!(status, 403, "it is ada's");

    // The request has changed, so the choice belongs to an old version.
    let seen = format!("/requests/{id}/acknowledge");
    assert_eq!(bob.post(&world.up, &seen, &json!({})).await.unwrap().0, 200);
    let (_, page) = reader.open(&no).await;
    assert!(
        page.contains("The request has changed") && !page.contains("you chose"),
        "{page}"
    );
    let (status, page) = reader.send(&no, "do=respond&answer=no").await;
    assert_eq!(status, 409, "{page}");

    let id = ask(&world, for_sales()).await;
    let of_ada = newest(&world, &ada, 2).await;
    let (yes, no) = (behind(&of_ada, "- yes\n"), behind(&of_ada, "- no\n"));
    let (status, page) = reader.send(&no, "do=respond&answer=no").await;
    assert_eq!(status, 200, "{page}");
    let decided = request(&world, &id).await;
    assert_eq!(
        (&decided["response"], &decided["decided_by"]),
        (&json!("no"), &json!("ada"))
    );
    let (_, page) = reader.open(&yes).await;
    assert!(
        page.contains("This link is no longer valid") && !page.contains("<form"),
        "{page}"
    );
}

/// Deliverable 7: an approval has links for yes and no, and a no needs a reason. A form lists its fields.
#[tokio::test]
async fn a_mail_lists_yes_and_no_and_the_fields_of_a_form() {
    let world = World::with_test_clock().await;
    let reader = Reader::of(&world);
    let ada = Person::join(&world.up, "ada", &["member"]).await.unwrap();
    let id = ask(
        &world,
        json!({ "kind": "approval", "question": "Ship?", "to": "@user.ada" }),
    )
    .await;
    let mail = newest(&world, &ada, 1).await;
    let (approve, reject) = (behind(&mail, "- Approve\n"), behind(&mail, "- Reject"));
    let (_, page) = reader.open(&approve).await;
    assert!(
        page.contains("you chose <strong>to approve</strong>"),
        "{page}"
    );
    let (_, page) = reader.open(&reject).await;
    assert!(
        page.contains("you chose <strong>to reject</strong>") && page.contains("Reason (recorded"),
        "{page}"
    );
    let (status, page) = reader.send(&reject, "do=reject&reason=").await;
    assert_eq!(status, 422, "{page}");
    assert_eq!(request(&world, &id).await["status"], "open");
    let (status, page) = reader.send(&reject, "do=reject&reason=Not+today").await;
    assert_eq!(status, 200, "{page}");
    assert_eq!(request(&world, &id).await["response"], "Not today");

    let schema = json!({
        "type": "object", "required": ["amount"],
        "properties": { "amount": { "type": "number", "title": "Amount in EUR" }, "note": { "type": "string" } },
    });
    let form =
        json!({ "kind": "input", "question": "How much?", "schema": schema, "to": "@user.ada" });
    ask(&world, form).await;
    let mail = newest(&world, &ada, 2).await;
    assert!(
        mail.contains("- Amount in EUR: a number\n- Note: a text (optional)"),
        "{mail}"
    );
}
