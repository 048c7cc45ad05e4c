//! A notification that fails in one channel goes through the next one (People, deliverable 7).

use std::sync::{Arc, Mutex};

use holdpoint_auth::WebhookSecret;
use holdpoint_testkit::{Person, until};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::shop::{Call, Shop};
use crate::world::{PATIENCE, World};

/// A mail server on loopback that refuses every recipient.
struct RefusingMailServer {
    url: String,
    wanted: Arc<Mutex<Vec<String>>>,
}

impl RefusingMailServer {
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("smtp://{}", listener.local_addr().unwrap());
        let wanted = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&wanted);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(refuse_recipients(stream, Arc::clone(&seen)));
            }
        });
        Self { url, wanted }
    }
}

async fn refuse_recipients(stream: TcpStream, wanted: Arc<Mutex<Vec<String>>>) {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    write.write_all(b"220 test ESMTP\r\n").await.unwrap();
    while let Ok(Some(line)) = lines.next_line().await {
        let reply = match line.get(..4).unwrap_or_default() {
            "RCPT" => {
                wanted.lock().unwrap().push(line);
                "550 no such user"
            }
            "QUIT" => "221 bye",
            _ => "250 ok",
        };
        if write
            .write_all(format!("{reply}\r\n").as_bytes())
            .await
            .is_err()
        {
            return;
        }
    }
}

async fn ask(world: &World, question: &str) -> String {
    let body = json!({ "kind": "approval", "question": question, "to": "@user.ada" });
    let (status, hold) = world.up.post("/holds", &body).await.unwrap();
    assert_eq!(status, 201, "{hold}");
    hold["id"].as_str().unwrap().to_owned()
}

/// The deliveries of a request, once there are `count` of them and all have ended.
async fn deliveries(world: &World, request: &str, count: usize) -> Vec<Value> {
    let path = format!("/requests/{request}/deliveries");
    until(
        PATIENCE,
        &format!("{count} deliveries are at their end"),
        async || {
            let (_, page) = world.up.get(&path).await.unwrap();
            let all = page["items"].as_array().unwrap().clone();
            let is_ended = all.iter().all(|one| one["state"] != "pending");
            (all.len() == count && is_ended).then_some(all)
        },
    )
    .await
    .unwrap()
}

async fn calls_of(shop: &Shop, count: usize) -> Vec<Call> {
    until(PATIENCE, "the chat is called", async || {
        Some(shop.calls()).filter(|calls| calls.len() == count)
    })
    .await
    .unwrap()
}

fn mail_then_chat(shop: &Shop) -> Value {
    json!({ "channels": {
        "order": ["mail", "chat"],
        "chat": { "url": shop.url("/services/T0/B0/hidden"), "format": "slack" },
    } })
}

/// The chat accepted the notification, and the mail has its error.
fn show_receipts(all: &[Value]) {
    let by = |channel: &str| all.iter().find(|one| one["channel"] == channel).unwrap();
    let (mail, chat) = (by("email"), by("chat"));
    assert_eq!(
        (&mail["state"], &mail["last_error"]),
        (
            &json!("failed"),
            &json!("The mail server refused the mail with code 550.")
        )
    );
    assert_eq!(
        (
            &chat["state"],
            &chat["after"],
            &chat["receipt"],
            &chat["person"]
        ),
        (
            &json!("sent"),
            &json!(["email"]),
            &json!("HTTP 200"),
            &json!("ada")
        )
    );
    assert!(
        mail["ended_at"].is_string() && chat["ended_at"].is_string(),
        "{all:?}"
    );
}

/// People, deliverable 7: the first channel that accepts it is used, and each delivery has a receipt. The chat is
/// also notified of the end.
#[tokio::test]
async fn a_failed_mail_is_replaced_by_a_chat() {
    let post = RefusingMailServer::open().await;
    let world = World::with_env(&[("HOLDPOINT_SMTP_URL", &post.url)]).await;
    let shop = Shop::open().await;
    let ada = Person::join(&world.up, "ada", &["member"]).await.unwrap();
    let said = mail_then_chat(&shop);
    let (status, put) = ada.put(&world.up, "/preferences", &said).await.unwrap();
    assert_eq!(status, 200, "{put}");
    let secret = put["channels"]["chat"]["secret"].as_str().unwrap();
    let secret = WebhookSecret::read(secret).unwrap();

    let hold = ask(&world, "Ship <!channel>?").await;
    let calls = calls_of(&shop, 1).await;
    let message: Value = serde_json::from_str(&calls[0].body).unwrap();
    assert_eq!(message["text"], "Approval wanted: Ship &lt;!channel&gt;?");
    let button = message["blocks"][3]["elements"][0]["url"].as_str().unwrap();
    assert!(button.ends_with(&format!("/requests/{hold}")), "{button}");
    let (id, at) = (
        calls[0].header("webhook-id"),
        calls[0].header("webhook-timestamp"),
    );
    let signed = secret
        .sign(id, at.parse().unwrap(), &calls[0].body)
        .unwrap();
    assert_eq!(calls[0].header("webhook-signature"), signed);

    show_receipts(&deliveries(&world, &hold, 2).await);
    assert_eq!(
        post.wanted.lock().unwrap().len(),
        1,
        "refused for good: not tried again"
    );

    let path = format!("/requests/{hold}/reject");
    let (status, done) = ada
        .post(&world.up, &path, &json!({ "reason": "Too soon" }))
        .await
        .unwrap();
    assert_eq!(status, 200, "{done}");
    let calls = calls_of(&shop, 2).await;
    let ended: Value = serde_json::from_str(&calls[1].body).unwrap();
    assert_eq!(
        ended["blocks"][1]["text"]["text"],
        "ada: rejected. Too soon"
    );
    deliveries(&world, &hold, 3).await;
    assert_eq!(
        post.wanted.lock().unwrap().len(),
        1,
        "no mail is sent for an end"
    );
}

/// "Must": preferences do not show the address of a chat, and invalid ones are refused with a pointer.
#[tokio::test]
async fn the_address_of_a_chat_is_not_shown_again() {
    let world = World::with_test_clock().await;
    let shop = Shop::open().await;
    let ada = Person::join(&world.up, "ada", &["viewer"]).await.unwrap();
    let masked = shop.url("/…");
    let kept = json!({ "channels": { "chat": { "url": masked } } });
    for (said, pointer) in [
        (json!({ "channels": { "order": [] } }), "/channels/order"),
        (
            json!({ "channels": { "order": ["email", "mail"] } }),
            "/channels/order",
        ),
        (
            json!({ "channels": { "order": ["chat"] } }),
            "/channels/chat",
        ),
        (json!({ "channels": { "chat": {} } }), "/channels/chat/url"),
        (kept.clone(), "/channels/chat/url"),
        (
            json!({ "channels": { "chat": { "url": "ftp://chat.example/x" } } }),
            "/channels/chat/url",
        ),
        (
            json!({ "channels": { "chat": { "url": format!("https://x.example/{}", "y".repeat(2_048)) } } }),
            "/channels/chat/url",
        ),
    ] {
        let (status, refused) = ada.put(&world.up, "/preferences", &said).await.unwrap();
        assert_eq!(
            (status, &refused["code"]),
            (422, &json!("invalid_body")),
            "{refused}"
        );
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{refused}");
    }
    let said = mail_then_chat(&shop);
    let (status, put) = ada.put(&world.up, "/preferences", &said).await.unwrap();
    assert_eq!(status, 200, "{put}");
    assert_eq!(put["channels"]["chat"]["url"], masked);
    let (_, shown) = ada.get(&world.up, "/preferences").await.unwrap();
    assert!(!shown.to_string().contains("hidden"), "{shown}");
    assert_eq!(shown["channels"]["chat"]["secret"], Value::Null, "once");
    for again in [&shown, &said, &kept] {
        let (status, same) = ada.put(&world.up, "/preferences", again).await.unwrap();
        assert_eq!(status, 200, "{same}");
        assert_eq!(same["channels"]["chat"]["url"], masked, "it stays");
        assert_eq!(same["channels"]["chat"]["secret"], Value::Null);
    }
}
