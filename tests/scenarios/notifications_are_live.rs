//! Notifications are live in a terminal and for a program, and a stream continues after its cursor (People, Deliver 7:
//! in-app with read state and SSE).

use std::process::{Output, Stdio};

use holdpoint_testkit::holdpoint_binary;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::world::{PATIENCE, World};

fn command(world: &World, args: &[&str]) -> Command {
    let mut command = Command::new(holdpoint_binary().unwrap());
    command
        .args(args)
        .arg("--data")
        .arg(world.up.data_dir())
        .env_remove("HOLDPOINT_URL")
        .env_remove("HOLDPOINT_TOKEN")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Runs a command to its end. Returns its code and its output.
async fn typed(world: &World, args: &[&str]) -> (Option<i32>, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command(world, args).output().await.unwrap();
    let text = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
    (status.code(), text)
}

async fn asked(world: &World, question: &str) -> String {
    let body = json!({ "kind": "approval", "question": question });
    let (status, hold) = world.up.post("/holds", &body).await.unwrap();
    assert_eq!(status, 201, "{hold}");
    hold["id"].as_str().unwrap().to_owned()
}

/// A terminal that shows notifications live.
struct Terminal {
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Terminal {
    fn open(world: &World, args: &[&str]) -> Self {
        let mut child = command(world, args).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self {
            _child: child,
            lines,
        }
    }

    async fn line(&mut self) -> String {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
        let Ok(Ok(Some(line))) = line else {
            panic!("the terminal has ended: {line:?}");
        };
        line
    }

    async fn item(&mut self) -> Value {
        serde_json::from_str(&self.line().await).unwrap()
    }
}

/// `notifications --watch` shows existing and new notifications and their changes. `notifications read` marks one or
/// all as read.
#[tokio::test]
async fn a_terminal_shows_new_notifications() {
    let world = World::with_test_clock().await;
    let first = asked(&world, "Deploy 4.2?").await;
    let mut terminal = Terminal::open(&world, &["notifications", "--watch", "--json"]);
    let item = terminal.item().await;
    assert_eq!(
        (&item["title"], &item["request"]),
        (&json!("Deploy 4.2?"), &json!(first))
    );
    let second = asked(&world, "Delete the old export?").await;
    let item = terminal.item().await;
    assert_eq!(
        (&item["request"], &item["read_at"]),
        (&json!(second), &Value::Null)
    );
    let id = item["id"].as_str().unwrap().to_owned();

    let (code, list) = typed(&world, &["notifications", "--unread"]).await;
    assert_eq!(code, Some(0), "{list}");
    assert!(list.contains("Deploy 4.2?") && list.contains(&id), "{list}");
    let (code, read) = typed(&world, &["notifications", "read", &id]).await;
    assert_eq!(code, Some(0), "{read}");
    assert!(
        read.contains("read") && read.contains("Delete the old export?"),
        "{read}"
    );
    let item = terminal.item().await;
    assert_eq!(item["id"], id);
    assert!(item["read_at"].is_string(), "{item}");

    let approve = format!("/requests/{first}/approve");
    world.up.post(&approve, &json!({})).await.unwrap();
    let item = terminal.item().await;
    assert_eq!(
        (&item["request"], &item["decided"]["outcome"]),
        (&json!(first), &json!("approved"))
    );
    asked(&world, "Send the mails?").await;
    assert_eq!(terminal.item().await["title"], "Send the mails?");

    let (code, all) = typed(&world, &["notifications", "read", "--all"]).await;
    assert_eq!((code, all.trim()), (Some(0), "1 read"));
    let (_, none) = typed(&world, &["notifications", "--unread"]).await;
    assert!(none.contains("No results."), "{none}");
    for wrong in [
        &["notifications", "read"][..],
        &["notifications", "read", "--all", "note_1"],
        &["notifications", "--watch", "--cursor", "x"],
    ] {
        assert_eq!(typed(&world, wrong).await.0, Some(2), "{wrong:?}");
    }
    let unknown = [
        "notifications",
        "read",
        "note_0193aaaabbbb7ccc8dddeeeeeeeeeeee-1",
    ];
    assert_eq!(typed(&world, &unknown).await.0, Some(3));
}

/// A stream has only the caller's notifications and continues after its cursor, also across a kill of the whole
/// system. With `unread` it has only unread ones.
#[tokio::test]
async fn a_stream_continues_after_its_cursor() {
    let mut world = World::with_test_clock().await;
    let body = json!({ "name": "ada", "roles": ["member"] });
    assert_eq!(world.up.post("/users", &body).await.unwrap().0, 201);
    let (_, made) = world
        .up
        .post("/tokens", &json!({ "user": "ada" }))
        .await
        .unwrap();
    let ada = made["token"].as_str().unwrap();
    asked(&world, "Of the owners").await;
    asks_ada(&world, "Of ada?").await;

    let events = stream(&world, ada, ("", None), "Of ada?").await;
    assert!(!events.contains("Of the owners"), "{events}");
    let id = events
        .lines()
        .find_map(|line| line.strip_prefix("id: "))
        .unwrap();
    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();
    asks_ada(&world, "And this?").await;
    let later = stream(&world, ada, ("", Some(id)), "And this?").await;
    assert!(
        !later.contains("Of ada?"),
        "neither a gap nor a repetition: {later}"
    );
    let id = events
        .split("\"id\":\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let path = format!("/v1/workspaces/default/notifications/{id}/read");
    let url = format!("{}{path}", world.up.url);
    let read = reqwest::Client::new()
        .post(url)
        .bearer_auth(ada)
        .send()
        .await
        .unwrap();
    assert_eq!(read.status(), 200);
    asks_ada(&world, "And that?").await;
    let all = stream(&world, ada, ("", None), "And that?").await;
    assert!(
        all.contains("Of ada?"),
        "that it was read came before: {all}"
    );
    let unread = stream(&world, ada, ("?unread=true", None), "And that?").await;
    assert!(
        unread.contains("And this?") && !unread.contains("Of ada?"),
        "{unread}"
    );
}

async fn asks_ada(world: &World, question: &str) {
    let body = json!({ "kind": "input", "question": question, "to": "@user.ada" });
    assert_eq!(world.up.post("/holds", &body).await.unwrap().0, 201);
}

/// Reads a stream until a complete event contains a text.
async fn stream(
    world: &World,
    token: &str,
    (query, last): (&str, Option<&str>),
    says: &str,
) -> String {
    let url = format!(
        "{}/v1/workspaces/default/notifications{query}",
        world.up.url
    );
    let request = reqwest::Client::new().get(url).bearer_auth(token);
    let request = request.header("accept", "text/event-stream");
    let request = last
        .iter()
        .fold(request, |it, last| it.header("last-event-id", *last));
    let mut response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    let mut text = String::new();
    let has_said = |text: &str| {
        let whole = text.rsplit_once("\n\n");
        whole.is_some_and(|(events, _)| events.contains(says))
    };
    while !has_said(&text) {
        let chunk = tokio::time::timeout(PATIENCE, response.chunk()).await;
        let chunk = chunk.unwrap_or_else(|_late| panic!("`{says}` is missing: {text}"));
        let chunk = chunk.unwrap().unwrap();
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    text
}
