//! A small HTTP server on loopback that records its calls: the outside world of scenarios.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The size of the response of `/large` in bytes.
const LARGE: usize = 250 * 1024;

/// One received request.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Call {
    /// A header's value, or nothing.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// What the server has seen.
#[derive(Default)]
struct Record {
    calls: Vec<Call>,
    in_progress: usize,
    most_in_progress: usize,
}

impl Record {
    /// Whether it is the first call of its key.
    fn add(&mut self, call: Call) -> bool {
        let key = call.header("idempotency-key");
        let is_first_of_key = !self
            .calls
            .iter()
            .any(|one| one.header("idempotency-key") == key);
        self.calls.push(call);
        self.in_progress += 1;
        self.most_in_progress = self.most_in_progress.max(self.in_progress);
        is_first_of_key
    }
}

/// The server, which ends with the test.
pub(crate) struct Shop {
    address: std::net::SocketAddr,
    record: Arc<Mutex<Record>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shop {
    /// Answers at once.
    pub(crate) async fn open() -> Self {
        Self::slow(Duration::ZERO).await
    }

    /// Answers after some time, so that calls are in progress.
    pub(crate) async fn slow(answer_after: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let record = Arc::<Mutex<Record>>::default();
        let seen = Arc::clone(&record);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer_all(stream, Arc::clone(&seen), answer_after));
            }
        });
        Self {
            address,
            record,
            task,
        }
    }

    /// The address of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The calls so far.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.record.lock().unwrap().calls.clone()
    }

    /// How many calls it had at the same time, at most.
    pub(crate) fn most_in_progress(&self) -> usize {
        self.record.lock().unwrap().most_in_progress
    }
}

async fn answer_all(mut stream: TcpStream, record: Arc<Mutex<Record>>, after: Duration) {
    let mut bytes = Vec::new();
    loop {
        let Some((head, length)) = read_head(&mut stream, &mut bytes).await else {
            return;
        };
        while bytes.len() < length {
            if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                return;
            }
        }
        let body: Vec<u8> = bytes.drain(..length).collect();
        let sent = String::from_utf8_lossy(&body).into_owned();
        let mut lines = head.lines();
        let path = lines
            .next()
            .unwrap_or_default()
            .split(' ')
            .nth(1)
            .unwrap_or_default()
            .to_owned();
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let call = Call {
            headers,
            body: sent.clone(),
        };
        let shown = serde_json::to_string(&call.headers).unwrap();
        let (is_first, is_first_of_key) = {
            let mut record = record.lock().unwrap();
            let is_first_of_key = record.add(call);
            (record.calls.len() == 1, is_first_of_key)
        };
        tokio::time::sleep(after).await;
        record.lock().unwrap().in_progress -= 1;
        let (path, to) = path.split_once("?to=").unwrap_or((&path, ""));
        let (status, body) = match path {
            "/away" => ("302 Found", "{}"),
            "/flaky" if !is_first => ("200 OK", "{}"),
            "/repaired-later" if !is_first_of_key => ("200 OK", "{}"),
            "/gone" | "/repaired-later" => ("410 Gone", "{}"),
            "/broken" | "/flaky" => ("500 Internal Server Error", r#"{"error":"broken"}"#),
            _ => ("200 OK", r#"{"id":"o-1","total":12.5}"#),
        };
        let large = format!("{:?}", "x".repeat(LARGE));
        let body = match path {
            "/large" => &large,
            "/echo" => &sent,
            "/plan" => {
                r#"{"steps": [{"wait": "2 seconds"}, {"tool": "crm.note", "args": {"text": "Hello"}}]}"#
            }
            "/headers" => &shown,
            "/draft-amounts" => &drafted(&sent),
            "/v1/chat/completions" => &completion(&sent),
            _ => body,
        };
        let location = header_of(path, to);
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{location}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The header that a path adds to its answer.
fn header_of(path: &str, to: &str) -> String {
    match (path, to) {
        ("/priced", _) => "holdpoint-cost: 0.25\r\n".to_owned(),
        (_, "") => String::new(),
        (_, to) => format!("location: {to}\r\n"),
    }
}

/// A draft of the amount in the call. With `feedback`, it is a fifth less.
fn drafted(call: &str) -> String {
    let call: serde_json::Value = serde_json::from_str(call).unwrap_or_default();
    let asked = call["amount"].as_u64().unwrap_or_default();
    let amount = if call["feedback"].is_null() {
        asked
    } else {
        asked * 4 / 5
    };
    serde_json::json!({ "amount": amount }).to_string()
}

/// What a language model would answer: a plan in a code block. It obeys a text that asks for refunds.
fn completion(prompt: &str) -> String {
    let step = if prompt.contains("refund everybody") {
        r#"{"tool": "payments.refund", "args": {"amount": 1000}}"#
    } else {
        r#"{"tool": "log", "args": {"message": "Offered {{ input.offer }}."}}"#
    };
    let content = format!("```json\n{{\"steps\": [{{\"wait\": \"2 seconds\"}}, {step}]}}\n```");
    serde_json::json!({ "choices": [{ "message": { "content": content } }] }).to_string()
}

/// Reads up to the empty line; returns the head and the length of the body that follows it.
async fn read_head(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<(String, usize)> {
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            bytes.drain(..end + 4);
            let length = head
                .lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
                .and_then(|(_, value)| value.trim().parse().ok())
                .unwrap_or(0);
            return Some((head, length));
        }
        if stream.read_buf(bytes).await.unwrap_or(0) == 0 {
            return None;
        }
    }
}
