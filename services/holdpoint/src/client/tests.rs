//! The client against a server that answers from a script.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;

use super::*;
use crate::exit::ExitKind;

/// One scripted answer a connection; none hangs up without one.
type Script = Vec<Option<String>>;

fn answer(status: &str, media_type: &str, body: &str) -> Option<String> {
    let length = body.len();
    Some(format!(
        "HTTP/1.1 {status}\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    ))
}

/// Serves the script and gives what was asked, in order.
async fn serve(script: Script) -> (Client, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = tokio::spawn(async move {
        let mut asked = Vec::new();
        for answer in script {
            let (mut stream, _) = listener.accept().await.unwrap();
            asked.push(request(&mut stream).await);
            if let Some(answer) = answer {
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
        asked
    });
    (client(url), served)
}

fn client(url: String) -> Client {
    drop(rustls::crypto::ring::default_provider().install_default());
    let token = Some("secret".to_owned());
    Client::new(Connection {
        url,
        token,
        workspace: "default".to_owned(),
    })
    .unwrap()
}

/// Head and body of one request.
async fn request(stream: &mut tokio::net::TcpStream) -> String {
    let mut read = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let size = stream.read(&mut chunk).await.unwrap();
        read.extend_from_slice(&chunk[..size]);
        let text = String::from_utf8_lossy(&read).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| {
                line.to_lowercase()
                    .strip_prefix("content-length: ")?
                    .parse()
                    .ok()
            })
            .unwrap_or(0);
        if size == 0 || body.len() >= length {
            return text;
        }
    }
}

fn header_of(request: &str, name: &str) -> Option<String> {
    let prefix = format!("{name}: ");
    request
        .lines()
        .find_map(|line| line.to_lowercase().strip_prefix(&prefix).map(str::to_owned))
}

fn item(seq: u64, kind: &str) -> String {
    let run = format!("run_{}", "0".repeat(32));
    let item = json!({
        "seq": seq, "type": kind, "at": "2026-01-01T12:00:01.000Z", "run": run,
        "step": null, "message": "m", "data": {},
    });
    format!("id: {seq}\nevent: {kind}\ndata: {item}\n\n")
}

#[tokio::test]
async fn a_problem_arrives_with_its_errors_and_verbatim() {
    let body = r#"{"type":"urn:x","title":"Unprocessable","status":422,"code":"invalid_agent","detail":"one line","errors":[{"line":2,"text":"Wiat","message":"no step","nearest":["Wait 5 days"]}]}"#;
    let script = vec![answer(
        "422 Unprocessable Entity",
        "application/problem+json",
        body,
    )];
    let (client, served) = serve(script).await;
    let error = client
        .post_agent::<Value>("agents", "agent: a\n")
        .await
        .unwrap_err();
    assert_eq!(error.exit_kind(), ExitKind::Rejected);
    assert_eq!(error.body(), Some(body));
    let text = error.to_string();
    assert!(text.contains("one line (invalid_agent)"), "{text}");
    assert!(text.contains("line 2: no step"), "{text}");
    assert!(text.contains("did you mean: Wait 5 days"), "{text}");
    let asked = served.await.unwrap();
    assert!(
        asked[0].starts_with("POST /v1/workspaces/default/agents HTTP/1.1"),
        "{}",
        asked[0]
    );
    assert_eq!(
        header_of(&asked[0], "content-type").as_deref(),
        Some("application/yaml")
    );
    assert_eq!(
        header_of(&asked[0], "authorization").as_deref(),
        Some("bearer secret")
    );
}

#[tokio::test]
async fn a_request_is_repeated_under_the_same_key_after_a_lost_connection() {
    let advanced = r#"{"now":"2026-01-06T00:00:00Z","settled":true,"unsettled":[]}"#;
    let (client, served) = serve(vec![None, answer("200 OK", "application/json", advanced)]).await;
    let answer = client.advance_clock("5d").await.unwrap();
    assert!(answer.value.settled);
    assert_eq!(answer.text, advanced);
    let asked = served.await.unwrap();
    let keys: Vec<_> = asked
        .iter()
        .map(|one| header_of(one, "idempotency-key"))
        .collect();
    assert!(keys[0].is_some());
    assert_eq!(keys[0], keys[1]);
    assert!(asked[1].ends_with(r#"{"by":"5d"}"#), "{}", asked[1]);
}

#[tokio::test]
async fn an_unreachable_server_is_named_with_what_to_do() {
    // A socket that does not listen refuses connections, and no other process can take its port.
    let refusing = TcpSocket::new_v4().unwrap();
    refusing.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", refusing.local_addr().unwrap());
    let error = client(url.clone()).clock().await.unwrap_err();
    assert_eq!(error.exit_kind(), ExitKind::Unreachable);
    let text = error.to_string();
    assert!(text.starts_with(&format!("cannot reach {url} (")), "{text}");
    assert!(text.ends_with("is `holdpoint up` running?"), "{text}");
}

#[tokio::test]
async fn a_body_that_is_not_a_problem_is_shown_verbatim_and_202_is_not_done() {
    let script = vec![
        answer("502 Bad Gateway", "text/html", "<h1>proxy</h1>"),
        answer(
            "202 Accepted",
            "application/json",
            r#"{"command_id":"cmd_1"}"#,
        ),
        answer("200 OK", "application/json", "[]"),
    ];
    let (client, _served) = serve(script).await;
    let error = client.clock().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "HTTP 502: <h1>proxy</h1> (unexpected_answer)"
    );
    let error = client.clock().await.unwrap_err();
    assert_eq!(error.exit_kind(), ExitKind::TimedOut);
    assert!(error.to_string().contains("cmd_1"), "{error}");
    let error = client.clock().await.unwrap_err();
    assert!(
        matches!(error, ClientError::NotUnderstood { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn no_text_leads_to_another_path() {
    let client = client("http://127.0.0.1:9".to_owned());
    for run in ["..", ".", "", "a/b", "a?b", "run_1#", "%2e%2e"] {
        let error = client
            .change_run(run, "pause", &json!({}))
            .await
            .unwrap_err();
        assert_eq!(error.exit_kind(), ExitKind::NotFound, "{run}: {error}");
    }
}

#[tokio::test]
async fn filters_are_encoded() {
    let script = vec![answer(
        "200 OK",
        "application/json",
        r#"{"items":[],"next_cursor":null}"#,
    )];
    let (client, served) = serve(script).await;
    let filter = [("label", "a=b c&d".to_owned())];
    let _runs: Body<Value> = client.get("runs", &filter).await.unwrap();
    let asked = served.await.unwrap();
    assert!(
        asked[0].starts_with("GET /v1/workspaces/default/runs?label=a%3Db+c%26d HTTP"),
        "{}",
        asked[0]
    );
}

#[tokio::test]
async fn a_live_history_continues_after_a_lost_connection_without_a_gap() {
    let first = format!(
        ": hello\n\n{}{}id: 3\ndata: {{",
        item(1, "run.started"),
        item(2, "run.waiting")
    );
    let second = format!("event: reset\ndata: {{}}\n\n{}", item(3, "run.completed"));
    let script = vec![
        answer("200 OK", "text/event-stream", &first),
        answer("200 OK", "text/event-stream", &second),
    ];
    let (client, served) = serve(script).await;
    let mut events = client.run_events("run_1").unwrap();
    let mut seen = Vec::new();
    while seen.len() < 4 {
        seen.push(match events.next().await.unwrap() {
            Live::Item(item, _) => item.seq,
            Live::Reset => 0,
        });
    }
    assert_eq!(seen, [1, 2, 0, 3]);
    let asked = served.await.unwrap();
    assert_eq!(header_of(&asked[0], "last-event-id"), None);
    assert_eq!(
        header_of(&asked[0], "accept").as_deref(),
        Some("text/event-stream")
    );
    assert_eq!(header_of(&asked[1], "last-event-id").as_deref(), Some("2"));
}

#[tokio::test]
async fn a_live_history_that_is_refused_says_why() {
    let body = r#"{"status":404,"code":"not_found","detail":"there is no such run"}"#;
    let (client, _served) = serve(vec![answer("404 Not Found", "application/json", body)]).await;
    let error = client
        .run_events("run_1")
        .unwrap()
        .next()
        .await
        .unwrap_err();
    assert_eq!(error.exit_kind(), ExitKind::NotFound);
}

#[test]
fn an_invalid_address_is_a_usage_error() {
    for url in ["ftp://h", "h:1", "", "http://"] {
        let to = Connection {
            url: url.to_owned(),
            token: None,
            workspace: "w".to_owned(),
        };
        let error = Client::new(to).map(drop).unwrap_err();
        assert_eq!(error.exit_kind(), ExitKind::Usage, "{url}: {error}");
    }
}
