//! Clients that are slow, silent or too large, spoken to byte by byte.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::edge::{Edge, refusal};

/// Longer than every time limit of the edge.
const PATIENCE: Duration = Duration::from_secs(40);

async fn connect(edge: &Edge) -> TcpStream {
    let address = edge.base.strip_prefix("http://").unwrap();
    TcpStream::connect(address).await.unwrap()
}

/// All that comes until the other side closes.
async fn answer(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let all = stream.read_to_end(&mut bytes);
    tokio::time::timeout(PATIENCE, all)
        .await
        .expect("the gateway closes the connection")
        .unwrap();
    String::from_utf8(bytes).unwrap()
}

fn head(token: &str, headers: &str) -> String {
    format!(
        "POST /v1/workspaces/default/agents/plan HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\n{headers}\r\n"
    )
}

/// Mend A-H8: half a head, and none at all, is given up, and others are served all the while.
#[tokio::test]
async fn a_head_that_does_not_end_is_given_up() {
    let edge = Edge::new().await;
    let (mut silent, mut half) = (connect(&edge).await, connect(&edge).await);
    half.write_all(b"GET /livez HTTP/1.1\r\nx-a: ")
        .await
        .unwrap();
    let began = Instant::now();
    let live = edge.bare(Method::GET, "/livez").send().await.unwrap();
    assert_eq!(live.status(), 200);
    let (first, second) = tokio::join!(answer(&mut silent), answer(&mut half));
    assert!(!first.contains("200 OK") && !second.contains("200 OK"));
    assert!(
        began.elapsed() > Duration::from_secs(5),
        "a slow network is no attack"
    );
}

/// Mend A-M14: a body that was announced and does not come is given up on every route, signed in or not.
#[tokio::test]
async fn a_body_that_does_not_arrive_is_given_up() {
    let edge = Edge::new().await;
    let announced = "content-length: 100\r\n";
    let send = async |text: String| {
        let mut stream = connect(&edge).await;
        stream.write_all(text.as_bytes()).await.unwrap();
        answer(&mut stream).await
    };
    let form = "POST /login HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: 100\r\n\r\n";
    let (signed_in, unsigned, form) = tokio::join!(
        send(head(&edge.token, announced)),
        send(head("hp_unknown", announced)),
        send(form.to_owned()),
    );
    assert!(signed_in.starts_with("HTTP/1.1 408 "), "{signed_in}");
    assert!(signed_in.contains("body_too_slow"), "{signed_in}");
    assert!(unsigned.starts_with("HTTP/1.1 401 "), "{unsigned}");
    assert!(form.starts_with("HTTP/1.1 4"), "{form}");
}

/// Mend A-M14: a byte now and then is too few.
#[tokio::test]
async fn a_body_that_trickles_in_is_given_up() {
    let edge = Edge::new().await;
    let (mut reading, mut writing) = connect(&edge).await.into_split();
    let head = head(&edge.token, "content-length: 1000\r\n");
    writing.write_all(head.as_bytes()).await.unwrap();
    let trickle = async {
        let mut tick = tokio::time::interval(Duration::from_millis(200));
        while writing.write_all(b" ").await.is_ok() {
            tick.tick().await;
        }
        std::future::pending::<()>().await;
    };
    let mut bytes = vec![0; 12];
    tokio::select! {
        read = tokio::time::timeout(PATIENCE, reading.read_exact(&mut bytes)) => {
            read.expect("an answer comes").unwrap();
        }
        () = trickle => unreachable!("it is pending"),
    }
    assert_eq!(bytes, *b"HTTP/1.1 408");
}

/// Mend C-12: a client that sends all before it reads sees the answer, also to a body that nobody reads.
#[tokio::test]
async fn a_body_far_above_the_limit_is_read_and_answered() {
    const SENT: usize = 20 * 1024 * 1024;
    let edge = Edge::new().await;
    for (token, status) in [(edge.token.as_str(), "413"), ("hp_unknown", "401")] {
        let mut stream = connect(&edge).await;
        let head = head(
            token,
            &format!("connection: close\r\ncontent-length: {SENT}\r\n"),
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let chunk = vec![b' '; 1024 * 1024];
        for _ in 0..SENT / chunk.len() {
            stream.write_all(&chunk).await.expect("all is read");
        }
        let answer = answer(&mut stream).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
        assert!(answer.contains("\"code\""), "{answer}");
    }
    // A client with `Expect` is refused at once, and sends nothing.
    let mut stream = connect(&edge).await;
    let asks = format!("expect: 100-continue\r\nconnection: close\r\ncontent-length: {SENT}\r\n");
    let head = head(&edge.token, &asks);
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = answer(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

/// Mend A-M1: one reader has so many streams and long polls, and others have theirs.
#[tokio::test]
async fn one_reader_takes_no_streams_of_others() {
    let edge = Edge::new().await;
    edge.play("notification").await;
    edge.user("eve", &["viewer"]).await;
    let eve = edge.token_of("eve", None).await;
    let mut open = Vec::new();
    let refused = loop {
        let stream = edge.live_as(&eve, "/notifications").await;
        if stream.status() != 200 {
            break refusal(stream).await;
        }
        open.push(stream);
        assert!(open.len() <= 100, "there is a limit");
    };
    assert_eq!(refused, (429, "too_many_streams".to_owned()));
    let owner = edge.live_as(&edge.token, "/notifications").await;
    assert_eq!(owner.status(), 200);
    open.pop();
    holdpoint_testkit::until(PATIENCE, "a place that was given back", async || {
        let stream = edge.live_as(&eve, "/notifications").await;
        (stream.status() == 200).then_some(())
    })
    .await
    .unwrap();
}

/// Mend B-12: an owner that is silent may have done it, so that the stored command has the key of the first.
#[tokio::test]
async fn a_command_without_a_key_is_asked_and_stored_under_one() {
    use futures_util::StreamExt;
    use holdpoint_contracts::subject;

    let edge = Edge::without_executor().await;
    let run = "run_0193aaaabbbb7ccc8dddeeeeeeeeeeee";
    let client = edge.bus.client().clone();
    let mut asks = client
        .subscribe(subject::asks_filter("executor"))
        .await
        .unwrap();
    client.flush().await.unwrap();
    let resume = edge.request(Method::POST, &format!("/runs/{run}/resume"));
    let asking = tokio::spawn(async move { resume.json(&json!({})).send().await.unwrap() });
    let mut keys = Vec::new();
    while keys.len() < 2 {
        let ask = tokio::time::timeout(PATIENCE, asks.next())
            .await
            .unwrap()
            .unwrap();
        let body: Value = serde_json::from_slice(&ask.payload).unwrap();
        assert_eq!(body["command"]["run"], run);
        keys.push(body["key"]["key"].as_str().unwrap().to_owned());
    }
    assert_eq!(
        keys[0], keys[1],
        "the first was not answered, the second may be done"
    );
    assert_eq!(asking.await.unwrap().status(), 202);
}
