//! `http_request` against a server on loopback that answers what a test tells it.

use std::{net::SocketAddr, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::mpsc,
};

use super::{
    super::{
        HttpRequest,
        http_request::{DEFAULT_TIMEOUT, MAX_REQUEST_BODY, MAX_RESPONSE_BODY},
    },
    call, failure,
};
use crate::{
    targets::EgressPolicy,
    tool::{Tool, ToolFailure},
};

pub(super) fn install_tls() {
    // The second test of the process finds it installed.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
}

pub(super) fn tool(policy: EgressPolicy) -> HttpRequest {
    install_tls();
    HttpRequest::new(policy, DEFAULT_TIMEOUT).unwrap()
}

/// A server that gives the n-th connection the n-th answer and shows each request as it came.
pub(super) async fn server(answers: Vec<Vec<u8>>) -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let (seen, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            seen.send(read_request(&mut stream).await).unwrap();
            // A client that has read enough may be gone.
            stream.write_all(&answer).await.ok();
            stream.shutdown().await.ok();
        }
    });
    (at, requests)
}

async fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0_u8; 4096];
    loop {
        let count = stream.read(&mut buffer).await.unwrap();
        bytes.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            assert!(count > 0, "the request ended in its head");
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.parse::<usize>().unwrap());
        if body.len() >= length || count == 0 {
            return text;
        }
    }
}

pub(super) fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
    )
    .into_bytes()
}

async fn failed(policy: EgressPolicy, args: Value) -> ToolFailure {
    failure(&tool(policy), args).await
}

/// S2-R10
#[tokio::test]
async fn a_call_says_which_step_calls_and_its_answer_is_the_result() {
    let body = r#"{"ok":true}"#;
    let (at, mut requests) = server(vec![answer(
        "201 Created",
        "content-type: application/json\r\n",
        body,
    )])
    .await;
    let args = json!({
        "method": "post",
        "url": format!("http://{at}/orders?id=1"),
        "headers": { "X-Shop": "main" },
        "body": { "amount": 5 },
        "idempotent": true,
    });
    let call = call(args);
    let done = tool(EgressPolicy::AllowPrivate).call(&call).await.unwrap();
    assert_eq!(done.data["status"], 201);
    assert_eq!(done.data["body"], json!({ "ok": true }));
    assert_eq!(done.data["headers"]["content-type"], "application/json");
    assert_eq!(done.description, "POST 127.0.0.1 answered 201 Created");
    let request = requests.recv().await.unwrap();
    for line in [
        "POST /orders?id=1 HTTP/1.1\r\n",
        "holdpoint-run: run_01920000000070008000000000000001\r\n",
        "holdpoint-step: step-01\r\n",
        "holdpoint-attempt: 2\r\n",
        "idempotency-key: run_01920000000070008000000000000001/step-01\r\n",
        "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n",
        "x-shop: main\r\n",
        "content-type: application/json\r\n",
        "\r\n\r\n{\"amount\":5}",
    ] {
        assert!(request.contains(line), "{line:?} is not in {request}");
    }
    // Mend A-H6: the step token opens the API, and any address may be called here.
    assert!(!request.contains("st_secret"), "{request}");
}

/// S0-R5
#[tokio::test]
async fn a_text_answer_is_kept_as_text() {
    let (at, mut requests) =
        server(vec![answer("200 OK", "x-a: 1\r\nx-a: 2\r\n", "{\"no\"")]).await;
    let mut call = call(json!({ "url": format!("http://{at}/") }));
    call.dispatch.token = None;
    let done = tool(EgressPolicy::AllowPrivate).call(&call).await.unwrap();
    assert_eq!(done.data["body"], "{\"no\"");
    assert_eq!(done.data["headers"]["x-a"], "1, 2");
    let request = requests.recv().await.unwrap();
    assert!(request.starts_with("GET / HTTP/1.1\r\n"));
    assert!(!request.contains("holdpoint-token"));
}

/// S0-R5
#[tokio::test]
async fn an_error_status_fails_the_step_and_shows_only_the_status() {
    let (at, _requests) = server(vec![answer("503 Service Unavailable", "", "pg://secret")]).await;
    let url = format!("http://{at}/?key=hunter2");
    let failure = failed(EgressPolicy::AllowPrivate, json!({ "url": url })).await;
    assert_eq!(failure.code, "http_status");
    assert_eq!(
        failure.message,
        "127.0.0.1 answered 503 Service Unavailable."
    );
}

/// S0-R5
#[tokio::test]
async fn an_answer_above_the_limit_of_a_result_fails_the_step() {
    let fits = "a".repeat(MAX_RESPONSE_BODY - 1024);
    let too_long = "a".repeat(MAX_RESPONSE_BODY + 1);
    let grows_when_escaped = "\u{1}".repeat(MAX_RESPONSE_BODY / 2);
    let (at, _requests) = server(vec![
        answer("200 OK", "", &fits),
        answer("200 OK", "", &too_long),
        answer("200 OK", "", &grows_when_escaped),
    ])
    .await;
    let tool = tool(EgressPolicy::AllowPrivate);
    let args = json!({ "url": format!("http://{at}/") });
    let done = tool.call(&call(args.clone())).await.unwrap();
    assert_eq!(done.data["body"], Value::from(fits));
    for _ in 0..2 {
        let failure = failure(&tool, args.clone()).await;
        assert_eq!(failure.code, "response_too_large");
        assert!(failure.message.contains("262144 bytes"), "{failure:?}");
    }
}

/// S0-R5
#[tokio::test]
async fn a_redirect_to_another_origin_carries_no_header_of_the_step() {
    let (second, mut second_requests) = server(vec![answer("200 OK", "", "there")]).await;
    let location = format!("location: http://{second}/next\r\n");
    let (first, mut first_requests) = server(vec![
        answer("307 Temporary Redirect", "location: /again\r\n", ""),
        answer("307 Temporary Redirect", &location, ""),
    ])
    .await;
    let args = json!({
        "url": format!("http://{first}/"),
        "headers": { "x-api-key": "hunter2" },
    });
    let done = tool(EgressPolicy::AllowPrivate)
        .call(&call(args))
        .await
        .unwrap();
    assert_eq!(done.data["body"], "there");
    for path in ["GET / ", "GET /again "] {
        let request = first_requests.recv().await.unwrap();
        assert!(request.starts_with(path), "{request}");
        assert!(request.contains("hunter2"), "{request}");
    }
    let request = second_requests.recv().await.unwrap();
    assert!(request.starts_with("GET /next "), "{request}");
    assert!(
        !request.contains("holdpoint-") && !request.contains("hunter2"),
        "{request}"
    );
}

/// Mend A-L8: a body that was written for one origin goes to no other.
#[tokio::test]
async fn a_redirect_carries_a_body_to_its_own_origin_only() {
    for status in ["307 Temporary Redirect", "308 Permanent Redirect"] {
        let (second, mut second_requests) = server(vec![answer("200 OK", "", "there")]).await;
        let location = format!("location: http://{second}/next\r\n");
        let (first, mut first_requests) = server(vec![
            answer(status, "location: /again\r\n", ""),
            answer(status, &location, ""),
        ])
        .await;
        let url = format!("http://{first}/");
        let args = json!({ "method": "POST", "url": url, "body": { "card": "hunter2" } });
        let failure = failed(EgressPolicy::AllowPrivate, args).await;
        assert_eq!(failure.code, "redirect_refused");
        assert!(failure.message.contains("another origin"), "{failure:?}");
        for path in ["POST / ", "POST /again "] {
            let request = first_requests.recv().await.unwrap();
            assert!(request.starts_with(path), "{request}");
            assert!(request.contains("hunter2"), "{request}");
        }
        assert!(second_requests.try_recv().is_err(), "{status}");
    }
}

/// S0-R5
#[tokio::test]
async fn a_post_that_is_redirected_by_303_becomes_a_get_without_body() {
    let (at, mut requests) = server(vec![
        answer("303 See Other", "location: /done\r\n", ""),
        answer("200 OK", "", ""),
    ])
    .await;
    let args = json!({ "method": "POST", "url": format!("http://{at}/"), "body": "text" });
    tool(EgressPolicy::AllowPrivate)
        .call(&call(args))
        .await
        .unwrap();
    let first = requests.recv().await.unwrap();
    assert!(first.contains("text/plain"));
    let second = requests.recv().await.unwrap();
    assert!(
        second.starts_with("GET /done ") && !second.contains("content-type"),
        "{second}"
    );
}

/// S0-R5
#[tokio::test]
async fn the_sixth_redirect_is_not_followed() {
    let hop = || answer("302 Found", "location: /\r\n", "");
    let (at, mut requests) = server((0..6).map(|_| hop()).collect()).await;
    let args = json!({ "url": format!("http://{at}/") });
    let failure = failed(EgressPolicy::AllowPrivate, args).await;
    assert_eq!(failure.code, "too_many_redirects");
    let mut count = 0;
    while requests.recv().await.is_some() {
        count += 1;
    }
    assert_eq!(count, 6);
}

/// S0-R5
#[tokio::test]
async fn private_targets_are_refused_as_address_as_name_and_after_a_redirect() {
    for url in [
        "http://127.0.0.1:9/",
        "http://[::1]:9/",
        "http://localhost:9/?key=hunter2",
        "http://169.254.169.254/latest/",
        "ftp://example.com/",
    ] {
        let failure = failed(EgressPolicy::PublicOnly, json!({ "url": url })).await;
        assert_eq!(failure.code, "target_refused", "{url}: {failure:?}");
        assert!(!failure.message.contains("hunter2"));
    }
    let (at, _requests) = server(vec![answer(
        "302 Found",
        "location: file:///etc/passwd\r\n",
        "",
    )])
    .await;
    let args = json!({ "url": format!("http://{at}/") });
    let hop = failed(EgressPolicy::AllowPrivate, args).await;
    assert_eq!(hop.code, "http_failed", "the first address was called");
}

/// S0-R5
#[tokio::test]
async fn a_call_to_a_silent_server_times_out() {
    install_tls();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tool = HttpRequest::new(EgressPolicy::AllowPrivate, Duration::from_millis(50)).unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let silent = failure(&tool, json!({ "url": url })).await;
    assert_eq!(silent.code, "timeout");
    assert_eq!(silent.message, "No full answer within 50 milliseconds.");
}

/// S0-R5
#[tokio::test]
async fn an_unreachable_server_is_reported_without_its_address() {
    // A socket that does not listen refuses connections, and no other process can take its port.
    let refusing = TcpSocket::new_v4().unwrap();
    refusing.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}/?key=hunter2", refusing.local_addr().unwrap());
    let absent = failed(EgressPolicy::AllowPrivate, json!({ "url": url })).await;
    assert_eq!(absent.code, "connect_failed");
    assert_eq!(absent.message, "The address could not be reached.");
}

/// Gate 3: the status is known, so a server that sends no body, or breaks off, does not make the effect unknown.
#[tokio::test]
async fn a_failed_call_keeps_its_status_whatever_becomes_of_its_body() {
    let head = "HTTP/1.1 500 Oh No\r\ncontent-type: text/plain\r\ncontent-length: 9\r\n\r\n";
    let (cut, _requests) = server(vec![format!("{head}brok").into_bytes()]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream).await;
        stream.write_all(head.as_bytes()).await.unwrap();
        std::future::pending::<()>().await;
    });
    for (at, body) in [(cut, "brok"), (silent, "")] {
        let args = json!({ "method": "post", "url": format!("http://{at}/"), "body": {} });
        let failure = failed(EgressPolicy::AllowPrivate, args).await;
        assert_eq!(failure.code, "http_status", "{failure:?}");
        let kept = json!({ "status": 500, "content_type": "text/plain", "body": body });
        assert_eq!(failure.data, kept);
    }
    serving.abort();
}

/// Gate 3: only a connection that was never made shows that nothing happened. A redirect may follow an effect.
#[tokio::test]
async fn a_connection_that_breaks_after_the_request_has_a_code_of_its_own() {
    let (silent, _requests) = server(vec![Vec::new()]).await;
    let (cut, _requests) = server(vec![
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\ncut".to_vec(),
    ])
    .await;
    let refusing = TcpSocket::new_v4().unwrap();
    refusing.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let moved = format!("location: http://{}/\r\n", refusing.local_addr().unwrap());
    let (redirects, _requests) = server(vec![answer("303 See Other", &moved, "")]).await;
    let (nowhere, _requests) = server(vec![answer("302 Found", "location: http://\r\n", "")]).await;
    for at in [silent, cut, redirects, nowhere] {
        let args = json!({ "method": "post", "url": format!("http://{at}/"), "body": {} });
        let failure = failed(EgressPolicy::AllowPrivate, args).await;
        assert_eq!(failure.code, "http_failed", "{failure:?}");
    }
}

/// S0-R5
#[tokio::test]
async fn a_request_that_cannot_be_made_says_what_to_change() {
    let big = "a".repeat(MAX_REQUEST_BODY + 1);
    let cases = [
        (
            json!({ "url": "/relative" }),
            "invalid_args",
            "`url` must be an absolute address",
        ),
        (
            json!({ "url": "http://a/", "method": "BREW" }),
            "invalid_args",
            "`method` must be GET",
        ),
        (
            json!({ "url": "http://a/", "headers": { "Holdpoint-Token": "x" } }),
            "invalid_args",
            "may not set Holdpoint-Token",
        ),
        (
            json!({ "url": "http://a/", "headers": { "Host": "x" } }),
            "invalid_args",
            "may not set Host",
        ),
        (
            json!({ "url": "http://a/", "headers": { "x-a": "hunter2\r\nx-b: 1" } }),
            "invalid_args",
            "header x-a has a name or value",
        ),
        (
            json!({ "url": "http://a/", "body": big }),
            "request_too_large",
            "1048576 bytes",
        ),
    ];
    for (args, code, part) in cases {
        let failure = failed(EgressPolicy::AllowPrivate, args).await;
        assert_eq!(failure.code, code);
        assert!(failure.message.contains(part), "{failure:?}");
        assert!(!failure.message.contains("hunter2"), "{failure:?}");
    }
}
