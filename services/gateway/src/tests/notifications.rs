//! Notifications, live and on pages; the notification service is played.

use std::time::Duration;

use holdpoint_contracts::notification::{
    FeedCursor, FeedItem, NotificationNudge, NotificationView,
};
use holdpoint_contracts::subject;
use holdpoint_testkit::until;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use super::edge::{Edge, Played, at, ok, problem, refusal, workspace};

const PATIENCE: Duration = Duration::from_secs(10);

fn note(number: u32) -> String {
    format!("note_0193aaaabbbb7ccc8dddeeeeeeeeeeee-{number}")
}

fn notification(number: u32, title: &str) -> NotificationView {
    let view = json!({
        "id": note(number), "type": "approval_requested", "title": title, "message": title,
        "priority": "normal", "action_url": "/tasks/t?action=approve", "link": "/requests/r",
        "run": null, "request": null, "at": at(), "read_at": null, "decided": null,
    });
    serde_json::from_value(view).unwrap()
}

/// Plays the owner: each person has their own, and a change is the newest state of its notification.
pub(super) fn answer(verb: &str, body: &Value, played: &mut Played) -> Value {
    let newest = played.feed.last().map_or(0, |(_, item)| item.mark.seq);
    let person = body["person"].as_str().unwrap_or("owner").to_owned();
    let theirs = played.feed.iter().filter(|(user, _)| *user == person);
    let theirs = theirs.map(|(_, item)| item.clone());
    let theirs: Vec<_> = theirs.collect();
    let theirs = theirs.into_iter();
    let is_unread = |item: &FeedItem| item.notification.read_at.is_none();
    match verb {
        "notification_feed" => {
            played.feed_queries += 1;
            let after: Option<FeedCursor> = serde_json::from_value(body["after"].clone()).unwrap();
            let limit = usize::try_from(body["limit"].as_u64().unwrap()).unwrap();
            let only = body["unread"] == true;
            let later: Vec<_> = theirs
                .filter(|item| Some(item.mark) > after && (!only || is_unread(item)))
                .collect();
            let (items, rest) = later.split_at(limit.min(later.len()));
            json!({"ok": { "items": items, "more": !rest.is_empty(), "newest": newest }})
        }
        "unread" => {
            let count = theirs.filter(is_unread).count();
            json!({"ok": { "count": count, "more": false, "newest": newest }})
        }
        "notifications" => {
            let only = body["unread"] == true;
            let items = theirs.filter(|item| !only || is_unread(item));
            let items: Vec<_> = items.map(|item| item.notification).collect();
            let late = played.late_feed_item.take_if(|_| only);
            played.feed.extend(late);
            json!({"ok": { "items": items, "next_cursor": null }})
        }
        "read_notification" => {
            let id = body["command"]["id"].as_str().unwrap();
            let of = |item: &&mut FeedItem| item.notification.id.to_string() == id;
            let all = played.feed.iter_mut().map(|(_, item)| item);
            let Some(item) = { all }.find(of) else {
                return problem(404, "not_found");
            };
            item.notification.read_at = Some(at());
            json!({"ok": item.notification})
        }
        "read_notifications" => json!({"ok": { "read": 2 }}),
        other => panic!("not played: {other}"),
    }
}

impl Edge {
    /// A user is notified, and live readers are nudged.
    async fn tells(&self, person: &str, number: u32, title: &str) {
        {
            let mut played = self.played.lock().unwrap();
            let notification = notification(number, title);
            let seq = played.feed.last().map_or(0, |(_, item)| item.mark.seq) + 1;
            let id = notification.id;
            let mark = FeedCursor { seq, id };
            let item = FeedItem { mark, notification };
            played.feed.push((person.to_owned(), item));
        }
        let people = vec![person.parse().unwrap()];
        let nudge = serde_json::to_vec(&NotificationNudge { people }).unwrap();
        let subject = subject::live(&workspace("default"), "notification");
        self.bus.send(subject, nudge.into()).await.unwrap();
    }
}

async fn live(edge: &Edge, query: &str, last: Option<&str>) -> Response {
    let request = edge.request(Method::GET, &format!("/notifications{query}"));
    let request = request.header("accept", "text/event-stream");
    let request = last
        .iter()
        .fold(request, |it, last| it.header("last-event-id", *last));
    request.send().await.unwrap()
}

/// Reads until the text holds so many whole events.
async fn read(response: &mut Response, text: &mut String, events: usize) {
    while text.matches("\n\n").count() < events {
        let chunk = tokio::time::timeout(Duration::from_secs(4), response.chunk()).await;
        let chunk = chunk.expect("an event within the fall-back").unwrap();
        text.push_str(std::str::from_utf8(&chunk.expect("an open stream")).unwrap());
    }
}

fn lines(text: &str, prefix: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
    lines.map(str::to_owned).collect()
}

/// People, Deliver 7: in-app with SSE: at once, one's own and nobody else's, and from where one was.
#[tokio::test]
async fn ones_own_notifications_are_live_and_go_on_without_a_gap() {
    let edge = Edge::new().await;
    edge.play("notification").await;
    edge.tells("owner", 1, "first").await;
    edge.tells("ada", 2, "of ada").await;
    let mut response = live(&edge, "", None).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["x-accel-buffering"], "no");
    let mut text = String::new();
    read(&mut response, &mut text, 1).await;
    edge.tells("ada", 3, "of ada, too").await;
    edge.tells("owner", 4, "second").await;
    read(&mut response, &mut text, 2).await;
    assert_eq!(
        lines(&text, "id: "),
        [format!("1_{}", note(1)), format!("4_{}", note(4))]
    );
    assert_eq!(lines(&text, "event: "), ["notification", "notification"]);
    let data: Value = serde_json::from_str(&lines(&text, "data: ")[1]).unwrap();
    assert_eq!(
        (&data["title"], &data["id"]),
        (&json!("second"), &json!(note(4)))
    );

    // A reader who was disconnected continues after the last one, page after page.
    for number in 5..260 {
        edge.tells("owner", number, "more").await;
    }
    let last = format!("1_{}", note(1));
    let (mut response, mut text) = (live(&edge, "", Some(&last)).await, String::new());
    read(&mut response, &mut text, 256).await;
    let seqs = lines(&text, "id: ");
    let seqs = seqs
        .iter()
        .map(|id| id.split_once('_').unwrap().0.parse::<u32>().unwrap());
    assert_eq!(seqs.collect::<Vec<_>>(), (4..260).collect::<Vec<_>>());
}

/// API: a wrong `Last-Event-ID` is refused, on a stream that has not begun.
#[tokio::test]
async fn what_never_was_the_id_of_a_notification_is_refused() {
    let edge = Edge::new().await;
    edge.play("notification").await;
    edge.tells("owner", 1, "first").await;
    let beyond = format!("2_{}", note(1));
    for wrong in ["x", "1", "-1_x", "1_run_1", &beyond] {
        let refused = refusal(live(&edge, "", Some(wrong)).await).await;
        assert_eq!(
            refused,
            (400, "invalid_last_event_id".to_owned()),
            "{wrong}"
        );
    }
    assert_eq!(live(&edge, "?unread=perhaps", None).await.status(), 400);
}

/// A user who is disabled, or whose token is revoked, gets no more from an open stream.
#[tokio::test]
async fn a_disabled_user_gets_no_more_live_notifications() {
    for is_disabled in [true, false] {
        let edge = Edge::new().await;
        edge.play("notification").await;
        edge.user("ada", &["member"]).await;
        let ada = edge.token_of("ada", None).await;
        edge.tells("ada", 1, "first").await;
        let mut response = edge.live_as(&ada, "/notifications").await;
        let mut text = String::new();
        read(&mut response, &mut text, 1).await;
        if is_disabled {
            let gone = edge.request(Method::DELETE, "/users/ada").send().await;
            assert_eq!(gone.unwrap().status(), 200);
        } else {
            edge.revoke("ada").await;
        }
        edge.tells("ada", 2, "second").await;
        let ends = async {
            while let Some(chunk) = response.chunk().await.unwrap() {
                text.push_str(std::str::from_utf8(&chunk).unwrap());
            }
        };
        let ended = tokio::time::timeout(PATIENCE, ends).await;
        assert!(ended.is_ok(), "disabled: {is_disabled}: it goes on");
        assert!(
            text.contains("first") && !text.contains("second"),
            "disabled: {is_disabled}: {text}"
        );
    }
}

/// A nudge about others asks the owner for nothing.
#[tokio::test]
async fn a_notification_of_another_user_wakes_no_reader() {
    let edge = Edge::new().await;
    edge.play("notification").await;
    edge.tells("owner", 1, "first").await;
    let (mut response, mut text) = (live(&edge, "", None).await, String::new());
    read(&mut response, &mut text, 1).await;
    for number in 2..50 {
        edge.tells("ada", number, "of ada").await;
    }
    edge.tells("owner", 50, "second").await;
    read(&mut response, &mut text, 2).await;
    let asked = edge.played.lock().unwrap().feed_queries;
    assert!(asked <= 4, "asked {asked} times for two");
}

/// All at once; what came later than the last event that was seen stays.
#[tokio::test]
async fn all_are_read_at_once() {
    let edge = Edge::new().await;
    edge.play("notification").await;
    let answer = ok(edge.post("/notifications/read", json!({})).await).await;
    assert_eq!(answer, json!({ "read": 2 }));
    let until = json!({ "until": format!("7_{}", note(1)) });
    ok(edge.post("/notifications/read", until).await).await;
    let asked = edge.played.lock().unwrap().asked.clone();
    let commands: Vec<_> = asked.iter().map(|(_, body)| &body["command"]).collect();
    assert_eq!(
        commands,
        [
            &json!({ "person": "owner", "until": null }),
            &json!({ "person": "owner", "until": 7 })
        ]
    );
    for wrong in [json!({ "until": "7" }), json!({ "ids": [] })] {
        let refused = refusal(edge.post("/notifications/read", wrong).await).await;
        assert_eq!(refused.0, 422);
    }
}

/// The page marks what is not read, without a script, and with forms that are its own.
#[tokio::test]
async fn a_page_shows_them_and_marks_them_as_read() {
    let edge = Edge::new().await;
    edge.play("notification").await;
    edge.tells("owner", 1, "Deploy <b>4.2</b>?").await;
    let mut browser = super::pages::Browser::signed_in(&edge, &edge.token).await;
    let page = browser.get("/notifications").await.text().await.unwrap();
    for words in [
        "Deploy &lt;b&gt;4.2&lt;/b&gt;?",
        "href=\"/tasks/t?action=approve\"",
        "Mark all as read",
        "New",
    ] {
        assert!(page.contains(words), "{words} in {page}");
    }
    let inbox = browser.get("/inbox").await.text().await.unwrap();
    assert!(
        inbox.contains("1<span class=\"hidden\"> unread</span>"),
        "{inbox}"
    );

    let path = format!("/notifications/{}/read", note(1));
    edge.played.lock().unwrap().asked.clear();
    let foreign = browser.post(&path, &[("csrf", "x")]).await;
    assert_eq!(foreign.status(), 403);
    assert!(edge.verbs().is_empty());
    let csrf = browser.csrf().await;
    let done = browser.post(&path, &[("csrf", &csrf)]).await;
    assert_eq!(
        (done.status().as_u16(), super::pages::location(&done)),
        (303, "/notifications")
    );
    let fields = [("csrf", csrf.as_str()), ("until", "7")];
    assert_eq!(
        browser.post("/notifications/read", &fields).await.status(),
        303
    );
    assert_eq!(edge.verbs(), ["read_notification", "read_notifications"]);
    let page = browser.get("/notifications").await.text().await.unwrap();
    assert!(!page.contains("Mark all as read"), "{page}");
    let none = browser.post("/notifications/nonsense/read", &fields).await;
    assert_eq!(none.status(), 404);
    browser.forget();
    assert_eq!(browser.get("/notifications").await.status(), 303);
}

/// What came while the page was made, and is not on it, is not marked with what is.
#[tokio::test]
async fn what_the_page_does_not_show_is_not_marked_with_the_rest() {
    let edge = Edge::new().await;
    edge.play("notification").await;
    edge.tells("owner", 1, "first").await;
    let (seq, notification) = (2, notification(2, "second"));
    let id = notification.id;
    let mark = FeedCursor { seq, id };
    let item = FeedItem { mark, notification };
    edge.played.lock().unwrap().late_feed_item = Some(("owner".to_owned(), item));
    let browser = super::pages::Browser::signed_in(&edge, &edge.token).await;
    let page = browser.get("/notifications").await.text().await.unwrap();
    assert!(page.contains("first") && !page.contains("second"), "{page}");
    assert!(page.contains("name=\"until\" value=\"1\""), "{page}");
    let page = browser.get("/notifications").await.text().await.unwrap();
    assert!(page.contains("name=\"until\" value=\"2\""), "{page}");
}

/// What is live on every page: the number of what is not read.
#[tokio::test]
async fn the_number_of_unread_is_live_on_every_page() {
    let edge = Edge::new().await;
    edge.play("notification").await;
    let browser = super::pages::Browser::signed_in(&edge, &edge.token).await;
    let mut response = browser.get("/live?page=/runs").await;
    let mut text = String::new();
    read(&mut response, &mut text, 2).await;
    edge.tells("owner", 1, "first").await;
    let number = async || {
        let chunk = response.chunk().await.unwrap().expect("an open stream");
        text.push_str(std::str::from_utf8(&chunk).unwrap());
        text.contains("1<span class=\"hidden\"> unread</span>")
            .then_some(())
    };
    until(PATIENCE, "the number is sent", number).await.unwrap();
}
