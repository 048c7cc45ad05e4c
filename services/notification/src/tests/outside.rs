//! What leaves the application: callbacks and mails, to servers of the test.

use chrono::TimeDelta;
use holdpoint_auth::WebhookSecret;
use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_contracts::notification::{
    Channel, DeliveryState, DeliveryView, ListDeliveries, PendingReason, Preferences,
    PutPreferences, QuietHours, RequestEvent, RequestEventKind, ShowWebhookSecret,
};
use holdpoint_egress::EgressPolicy;
use holdpoint_testkit::until;
use serde_json::{Value, json};
use tokio::net::TcpSocket;

use super::bench::{Bench, PATIENCE, acme, people};
use super::servers::{Called, mail_server};
use crate::domain::testing::request_event as fact;

/// A hold that was asked with a callback has ended.
fn ended(callback: &str) -> RequestEvent {
    let mut fact = fact(2, RequestEventKind::Decided, &[]);
    fact.by = Some("ada".to_owned());
    fact.request.decided_by = Some("ada".to_owned());
    fact.request.outcome = Some(HoldOutcome::Answered);
    fact.request.response = Some(json!("yes"));
    fact.request.callback = Some(callback.to_owned());
    fact
}

async fn deliveries(bench: &Bench, limit: u64, cursor: Option<String>) -> Vec<DeliveryView> {
    let request = fact(1, RequestEventKind::Opened, &[]).id;
    let query = ListDeliveries {
        request,
        limit,
        cursor,
    };
    let page = bench.bus.query(&acme(), &query).await.unwrap();
    match page.next_cursor {
        Some(cursor) => {
            let rest = Box::pin(deliveries(bench, limit, Some(cursor))).await;
            page.items.into_iter().chain(rest).collect()
        }
        None => page.items,
    }
}

async fn until_tried(bench: &Bench, attempts: u32) -> DeliveryView {
    until(PATIENCE, "what became of the try is known", async || {
        let one = deliveries(bench, 10, None).await.pop()?;
        let is_known = one.last_error.is_some() || one.state == DeliveryState::Sent;
        (one.attempts == attempts && is_known).then_some(one)
    })
    .await
    .unwrap()
}

/// M-6: posted as Standard Webhooks says; again under the same id where it was not taken.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_is_called_back_until_it_is_taken() {
    let bench = Bench::start(people(&[("ada", "admin")])).await;
    let called = Called::answering(&["500 Broken", "302 Found", "200 OK"]).await;
    bench.note(vec![ended(&called.url("127.0.0.1"))]).await;
    let first = until_tried(&bench, 1).await;
    assert_eq!(first.state, DeliveryState::Pending);
    assert_eq!(
        first.last_error.as_deref(),
        Some("The callback answered 500.")
    );
    let next = first.next_at.unwrap() - bench.clock.now();
    assert_eq!(next, TimeDelta::seconds(5), "not at once");

    bench.later(TimeDelta::seconds(5));
    let second = until(PATIENCE, "it was tried again", async || {
        let one = deliveries(&bench, 10, None).await.remove(0);
        let error = one.last_error.as_deref();
        (error == Some("The callback answered 302.")).then_some(one)
    });
    assert_eq!(second.await.unwrap().attempts, 2, "no redirect is followed");
    bench.later(TimeDelta::minutes(5));
    let third = until(PATIENCE, "it is taken", async || {
        let one = deliveries(&bench, 10, None).await.remove(0);
        (one.state == DeliveryState::Sent).then_some(one)
    });
    assert_eq!(third.await.unwrap().attempts, 3);

    let secret = bench.by("ada", ShowWebhookSecret {});
    let secret = bench.bus.ask(&acme(), &secret).await.unwrap().secret;
    let secret = WebhookSecret::read(&secret).unwrap();
    let calls = called.calls();
    assert_eq!(calls.len(), 3);
    for call in &calls {
        assert_eq!(call.header("webhook-id"), first.id);
        let at = call.header("webhook-timestamp").parse().unwrap();
        let signed = secret.sign(&first.id, at, &call.body).unwrap();
        assert_eq!(call.header("webhook-signature"), signed);
        let body: Value = serde_json::from_str(&call.body).unwrap();
        let expected = json!({
            "id": first.notification.hold, "outcome": "answered", "data": "yes", "by": "ada",
            "at": "1970-01-01T00:00:00.000Z",
        });
        assert_eq!(body, expected);
    }
    bench.end().await;
}

/// M-6: an address that is not public is not called, whether it is written or found by its name.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_not_public_is_refused() {
    let called = Called::answering(&["200 OK"]).await;
    for host in ["127.0.0.1", "localhost"] {
        let mut bench = Bench::without_service(people(&[("ada", "admin")])).await;
        bench.targets = EgressPolicy::PublicOnly;
        bench.serve().await;
        bench.note(vec![ended(&called.url(host))]).await;
        let one = until_tried(&bench, 1).await;
        assert_eq!(one.state, DeliveryState::Failed);
        let error = one.last_error.unwrap();
        assert!(error.contains("is not a public address"), "{error}");
        bench.end().await;
    }
    assert!(called.calls().is_empty());
}

/// Who callbacks are signed for is the business of owners and admins.
#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_has_one_secret_for_those_who_administer() {
    let bench = Bench::start(people(&[("ada", "admin")])).await;
    let ask = async |roles: &[&str]| {
        let asked = bench.by_role("ada", roles, ShowWebhookSecret {});
        bench.bus.ask(&acme(), &asked).await
    };
    let secret = ask(&["admin"]).await.unwrap();
    assert_eq!(ask(&["owner"]).await.unwrap(), secret);
    assert_eq!(ask(&["operator"]).await.unwrap_err().status, 403);
    bench.end().await;
}

/// S0-T4, People, deliverable 7: whoever is asked has a mail, once, with what they need; not whoever
/// was notified before, and nobody once it is over.
#[tokio::test(flavor = "multi_thread")]
async fn recipients_have_a_mail() {
    let bench = Bench::start(people(&[("ada", "ops"), ("bob", "ops")])).await;
    let mut opened = fact(1, RequestEventKind::Opened, &["@role.ops"]);
    opened.request.title = Some("<b>Ship</b>\r\nBcc: eve@evil.example".to_owned());
    opened.request.question = "<script>x</script>\r\n.\r\nRCPT TO:<eve@evil.example>".to_owned();
    opened.request.context = json!({ "version": "4.2" });
    bench.note(vec![opened.clone(), opened.clone()]).await;
    let mails = bench.until_mailed(2).await;
    let ada = mails
        .iter()
        .find(|mail| mail.to == "ada@acme.example")
        .unwrap();
    assert_eq!(ada.kind, "notification");
    assert_eq!(ada.person.as_deref(), Some("ada"));
    assert_eq!(ada.workspace.as_deref(), Some("acme"));
    assert!(ada.body.contains("- Version: 4.2"), "{}", ada.body);
    let raw = bench.raw_mail(&ada.file);
    let head = raw.split("\r\n\r\n").next().unwrap();
    assert!(!head.contains("\nBcc"), "{head}");
    assert!(head.contains("multipart/alternative"), "{head}");
    let (_, html) = raw.split_once("Content-Type: text/html").unwrap();
    assert!(
        !html.contains("<b>") && !html.contains("<script>"),
        "{html}"
    );
    let id = format!(
        "Message-ID: <note_{}",
        opened.id.to_string().replace("hold_", "")
    );
    assert!(head.contains(&id), "{head}");

    bench
        .note(vec![fact(2, RequestEventKind::Decided, &["@role.ops"])])
        .await;
    bench
        .note(vec![fact(3, RequestEventKind::Escalated, &["@user.bob"])])
        .await;
    bench.until_notified("bob", 2).await;
    assert_eq!(bench.mails().len(), 2, "nobody has to do anything any more");
    let all = deliveries(&bench, 1, None).await;
    let notified: Vec<_> = all
        .iter()
        .map(|one| (one.channel, one.person.as_ref().map(ToString::to_string)))
        .collect();
    let person = |name: &str| (Channel::Email, Some(name.to_owned()));
    assert_eq!(notified, [person("ada"), person("bob")], "page by page");
    bench.end().await;
}

/// A socket that keeps its port but refuses connections until it listens.
fn refusing_socket() -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    socket
}

/// People, "Must": a dead mail server delays nobody's in-app notification; its mails go when it is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_mail_server_delays_nobody() {
    let socket = refusing_socket();
    let address = socket.local_addr().unwrap();
    let mut bench = Bench::without_service(people(&[("ada", "ops")])).await;
    bench.smtp = Some(format!("smtp://{address}"));
    bench.serve().await;
    bench
        .note(vec![fact(1, RequestEventKind::Opened, &["@user.ada"])])
        .await;
    bench.until_notified("ada", 1).await;
    let tried = until_tried(&bench, 1).await;
    assert_eq!(tried.state, DeliveryState::Pending, "{tried:?}");

    let said = mail_server(socket.listen(8).unwrap()).await;
    bench.later(TimeDelta::seconds(5));
    until_mail_has_gone(&bench).await;
    let said = said.lock().unwrap().clone();
    assert_eq!(said.matches("RCPT TO:<ada@acme.example>").count(), 1);
    bench.end().await;
}

async fn until_mail_has_gone(bench: &Bench) {
    until(PATIENCE, "the mail has gone", async || {
        let sent = deliveries(bench, 10, None).await.remove(0);
        (sent.state == DeliveryState::Sent).then_some(())
    })
    .await
    .unwrap();
}

async fn prefer(bench: &Bench, preferences: Preferences) {
    let put = PutPreferences {
        person: "ada".parse().unwrap(),
        preferences,
    };
    bench.bus.ask(&acme(), &bench.by("ada", put)).await.unwrap();
}

/// Quiet from midnight on, when the clock of tests stands, until the evening.
fn quiet() -> Preferences {
    Preferences {
        quiet_hours: Some(QuietHours {
            from: "00:00".to_owned(),
            to: "22:00".to_owned(),
            days: Vec::new(),
        }),
        ..Preferences::default()
    }
}

/// S4-R15: what a person says counts at once for a mail that was tried before as well, whether it waits
/// for another try or, since then, for the end of quiet hours.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_tried_before_goes_when_its_person_says_so() {
    let socket = refusing_socket();
    let address = socket.local_addr().unwrap();
    let mut bench = Bench::without_service(people(&[("ada", "ops")])).await;
    bench.smtp = Some(format!("smtp://{address}"));
    bench.serve().await;
    bench
        .note(vec![fact(1, RequestEventKind::Opened, &["@user.ada"])])
        .await;
    let tried = until_tried(&bench, 1).await;
    assert_eq!(tried.waits, Some(PendingReason::Retry), "{tried:?}");

    let _said = mail_server(socket.listen(8).unwrap()).await;
    // Due at once, and held back.
    prefer(&bench, quiet()).await;
    until(PATIENCE, "it is held back", async || {
        let one = deliveries(&bench, 10, None).await.remove(0);
        (one.waits == Some(PendingReason::QuietHours)).then_some(())
    })
    .await
    .unwrap();
    prefer(&bench, Preferences::default()).await;
    until_mail_has_gone(&bench).await;
    assert_eq!(deliveries(&bench, 10, None).await[0].attempts, 2);
    bench.end().await;
}

/// S4-R15: what was held back in quiet hours does not leave after them where somebody has taken the run over
/// by then.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_taken_over_is_not_mailed() {
    let bench = Bench::start(people(&[("ada", "ops"), ("bob", "ops")])).await;
    prefer(&bench, quiet()).await;
    let opened = fact(1, RequestEventKind::Opened, &["@user.ada"]);
    bench.note(vec![opened]).await;
    until(PATIENCE, "it is held back", async || {
        let one = deliveries(&bench, 10, None).await.pop()?;
        (one.waits == Some(PendingReason::QuietHours)).then_some(())
    })
    .await
    .unwrap();
    let mut taken = fact(2, RequestEventKind::TakenOver, &[]);
    taken.by = Some("bob".to_owned());
    bench.note(vec![taken]).await;
    bench.later(TimeDelta::hours(22));
    let ended = until(PATIENCE, "quiet hours are over", async || {
        let one = deliveries(&bench, 10, None).await.remove(0);
        one.ended_at.is_some().then_some(one)
    });
    let ended = ended.await.unwrap();
    assert_eq!(ended.state, DeliveryState::Dropped, "{ended:?}");
    assert!(bench.mails().is_empty());
    bench.end().await;
}
