//! A value that one entry accepts passes every later stage: it is stored, listed, shown and sent (Mend B-2,
//! Deliver 2).
//!
//! Random values go through each entry. A refusal is a 4xx with a code. An accepted value must not make a later
//! reader fail, and all work must end.
//!
//! A failure prints its seed, and `HOLDPOINT_SEED=<n>` plays it again. `HOLDPOINT_VALUES=<n>` sets the number of
//! values.

use std::collections::BTreeMap;

use holdpoint_auth::WebhookSecret;
use holdpoint_contracts::value_limits::DEPTH_MAX;
use holdpoint_testkit::until;
use reqwest::Client;
use serde_json::{Map, Value, json};

use crate::chance::Chance;
use crate::shop::Shop;
use crate::world::{PATIENCE, World, dead_letters};

/// Default number of values.
const VALUES: u64 = 25;

/// Texts that may break readers, also as keys.
const TEXTS: [&str; 14] = [
    "",
    " ",
    "a.b",
    "$ref",
    "{{ input.v }}",
    "</script><b>",
    "\u{202e}txt",
    "\u{feff}",
    "\u{1b}[31m",
    "e\u{301}\u{301}\u{301}",
    "👩‍👩‍👧‍👦",
    "\u{fffd}\u{ffff}",
    "'; DROP TABLE runs; --",
    "\r\n\r\nX: y",
];

fn text(chance: &mut Chance) -> String {
    let word = TEXTS[chance.place(TEXTS.len())];
    match chance.below(6) {
        0 => word.repeat(1 + chance.place(5_000)),
        1 => "x".repeat(chance.place(300_000)),
        2 => format!("{word}\0"),
        _ => word.to_owned(),
    }
}

fn scalar(chance: &mut Chance) -> Value {
    match chance.below(9) {
        0 => json!(f64::MAX),
        1 => json!(f64::MIN_POSITIVE),
        2 => json!(u64::MAX),
        3 => json!(i64::MIN),
        4 => json!(-0.0),
        5 => Value::Null,
        6 => json!(true),
        _ => json!(text(chance)),
    }
}

/// A value within its limits, near one, or beyond it.
fn value(chance: &mut Chance) -> Value {
    match chance.below(6) {
        0 => {
            let near = DEPTH_MAX - 8 + chance.place(12);
            let depth = if chance.one_in(5) { 120 } else { near };
            (0..depth).fold(scalar(chance), |inner, level| match level % 2 {
                0 => json!([inner]),
                _ => json!({ "k": inner }),
            })
        }
        1 => {
            let most = if chance.one_in(4) { 101_000 } else { 3_000 };
            Value::Array(vec![json!(1); chance.place(most)])
        }
        2 => {
            let fields = (0..chance.below(30)).map(|_| (text(chance), scalar(chance)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        3 => (0..chance.below(20)).map(|_| scalar(chance)).collect(),
        _ => scalar(chance),
    }
}

/// A browser and the API, which read everything after each value.
struct Readers<'w> {
    world: &'w World,
    client: Client,
    cookie: String,
}

impl<'w> Readers<'w> {
    async fn of(world: &'w World) -> Self {
        let client = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap();
        let form = format!("token={}", world.up.token);
        let request = client.post(format!("{}/login", world.up.url)).body(form);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let answer = request.send().await.unwrap();
        let cookie = answer.headers()["set-cookie"].to_str().unwrap();
        let cookie = cookie.split(';').next().unwrap().to_owned();
        Self {
            world,
            client,
            cookie,
        }
    }

    /// Checks that all lists and pages still work.
    async fn all_read(&self, paths: &[String], pages: &[String], what: &str) {
        for path in paths {
            let (status, body) = self.world.up.get(path).await.unwrap();
            assert_eq!(status, 200, "{what}: {path}: {body}");
        }
        for page in pages {
            let request = self.client.get(format!("{}{page}", self.world.up.url));
            let answer = request.header("cookie", &self.cookie).send().await.unwrap();
            assert_eq!(answer.status(), 200, "{what}: {page}");
        }
    }
}

/// How often each entry accepted and refused a value.
#[derive(Debug, Default)]
struct Doors(BTreeMap<&'static str, [u64; 2]>);

impl Doors {
    /// Whether an entry accepted a value. A refusal has a code and is not a 5xx.
    fn took(&mut self, answer: &(u16, Value), door: &'static str) -> bool {
        let (status, body) = answer;
        let is_taken = (200..300).contains(status);
        let is_explained = body["code"].is_string() || is_taken;
        assert!(*status < 500 && is_explained, "{door}: {status} {body}");
        self.0.entry(door).or_default()[usize::from(is_taken)] += 1;
        is_taken
    }
}

/// Sends one value through every entry. Returns the request that waits for an answer.
async fn through_doors(
    doors: &mut Doors,
    world: &World,
    hook: (&str, &WebhookSecret),
    (v, t): (&Value, &str),
    n: u64,
) -> Vec<String> {
    let up = &world.up;
    let mut shown = Vec::new();
    let contact = format!("c-{n}");
    let fields = json!({ "email": format!("c{n}@x.example"), "odd": v });
    let put = up
        .put(&format!("/contacts/{contact}"), &fields)
        .await
        .unwrap();
    let has_contact = doors.took(&put, "contact");
    if has_contact {
        shown.push(format!("/contacts/{contact}"));
        let said = json!({ "kind": "note", "text": t });
        let path = format!("/contacts/{contact}/activities");
        doors.took(&up.post(&path, &said).await.unwrap(), "activity");
        shown.push(path);
    }
    let agent = json!({
        "agent": format!("odd-{n}"),
        "steps": [{ "tool": "log", "args": { "message": "m", "odd": v } }],
    });
    if doors.took(&up.post("/agents", &agent).await.unwrap(), "agent") {
        shown.push(format!("/agents/odd-{n}"));
    }
    let mut start = json!({ "input": { "v": v, "t": t }, "labels": { "l": t } });
    let labelled = up.post("/agents/calls/runs", &start).await.unwrap();
    if !doors.took(&labelled, "labels") {
        start = json!({ "input": { "v": v, "t": t } });
    }
    if has_contact {
        start["contact"] = json!(contact);
    }
    for agent in ["calls", "asks"] {
        let path = format!("/agents/{agent}/runs");
        let run = up.post(&path, &start).await.unwrap();
        if doors.took(&run, "run") {
            let id = run.1["id"].as_str().unwrap();
            shown.extend([
                format!("/runs/{id}"),
                format!("/runs/{id}/events?limit=500"),
            ]);
        }
    }
    let hold = json!({
        "kind": "input", "question": "Which?", "to": "@user.owner", "timeout": "1h",
        "data": v, "title": t, "default": v,
    });
    let plain = json!({
        "kind": "input", "question": "Which?", "to": "@user.owner", "timeout": "1h", "data": v,
    });
    for hold in [hold, plain] {
        let opened = up.post("/holds", &hold).await.unwrap();
        if doors.took(&opened, "hold") {
            shown.push(format!("/holds/{}", opened.1["id"].as_str().unwrap()));
        }
    }
    let reply = json!({ "contact": contact, "text": t });
    post_reply(doors, world, hook, &reply).await;
    shown
}

/// A signed reply to the inbound hook.
async fn post_reply(doors: &mut Doors, world: &World, hook: (&str, &WebhookSecret), reply: &Value) {
    let up = &world.up;
    let (path, secret) = hook;
    let body = reply.to_string();
    let clock = up
        .call(reqwest::Method::GET, "/v1/clock", None)
        .await
        .unwrap();
    let now: chrono::DateTime<chrono::Utc> = clock.1["now"].as_str().unwrap().parse().unwrap();
    let id = reply["contact"].as_str().unwrap().to_owned();
    let signature = secret.sign(&id, now.timestamp(), &body).unwrap();
    let request = Client::new().post(format!("{}{path}", up.url)).body(body);
    let request = request
        .header("webhook-id", id)
        .header("webhook-timestamp", now.timestamp())
        .header("webhook-signature", signature);
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    doors.took(&(status, answer.json().await.unwrap()), "hook");
}

/// Answers all open requests, with the value where it is accepted.
async fn answer_all(doors: &mut Doors, world: &World, v: &Value) {
    let (status, open) = world
        .up
        .get("/requests?status=open&limit=100")
        .await
        .unwrap();
    assert_eq!(status, 200, "{open}");
    for request in open["items"].as_array().unwrap() {
        let path = format!("/requests/{}/respond", request["id"].as_str().unwrap());
        let odd = world.up.post(&path, &json!({ "answer": v })).await.unwrap();
        if !doors.took(&odd, "answer") {
            let plain = json!({ "answer": "plain" });
            doors.took(&world.up.post(&path, &plain).await.unwrap(), "answer");
        }
    }
}

/// One agent calls a service with the value and logs the reply. Another one asks with it.
async fn apply_agents(world: &World, shop: &Shop) {
    let call = json!({ "method": "POST", "url": shop.url("/echo"), "body": "{{ input.v }}" });
    let calls = json!([
        { "id": "call", "tool": "http_request", "args": call },
        { "tool": "log", "args": { "message": "{{ input.v }} {{ $call.body }}" } },
    ]);
    world.agent("calls", calls).await;
    let asks = json!([
        { "id": "q", "ask": { "to": "@user.owner", "question": "What of {{ input.t }}?" } },
        { "tool": "log", "args": { "message": "{{ $q.answer }}" } },
    ]);
    world.agent("asks", asks).await;
}

/// Mend B-2: an accepted value stops nothing.
#[tokio::test]
async fn an_accepted_value_stops_nothing() {
    let given = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().unwrap())
    };
    let seed = given("HOLDPOINT_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let (mut chance, mut doors) = (Chance::of(seed), Doors::default());
    let (world, shop) = (World::with_test_clock().await, Shop::open().await);
    apply_agents(&world, &shop).await;
    let made = world
        .up
        .post("/hooks/inbound", &json!({ "name": "odd" }))
        .await
        .unwrap()
        .1;
    let secret = WebhookSecret::read(made["secret"].as_str().unwrap()).unwrap();
    let hook = (made["path"].as_str().unwrap(), &secret);
    let readers = Readers::of(&world).await;
    for n in 0..given("HOLDPOINT_VALUES").unwrap_or(VALUES) {
        let (v, t) = (value(&mut chance), text(&mut chance));
        let what = format!("HOLDPOINT_SEED={seed}, value {n}");
        let mut paths = through_doors(&mut doors, &world, hook, (&v, &t), n).await;
        world.settle().await;
        answer_all(&mut doors, &world, &v).await;
        world.settle().await;
        let mut pages: Vec<String> = vec!["/inbox".into(), "/notifications".into()];
        pages.extend(
            paths
                .iter()
                .filter(|path| path.starts_with("/runs/") && !path.contains("events"))
                .cloned(),
        );
        let lists = [
            "/runs",
            "/requests",
            "/contacts",
            "/agents",
            "/notifications",
            "/tools",
            "/mails",
        ];
        paths.extend(lists.map(str::to_owned));
        readers.all_read(&paths, &pages, &what).await;
    }
    let rest = until(PATIENCE, "all runs have ended", async || {
        let (_, page) = world.up.get("/runs?limit=500").await.unwrap();
        let runs = page["items"].as_array().unwrap().clone();
        let is_final = |run: &Value| matches!(run["status"].as_str(), Some("completed" | "failed"));
        runs.iter().all(is_final).then_some(runs.len())
    });
    assert!(rest.await.unwrap() > 0, "HOLDPOINT_SEED={seed}");
    let used = doors.0.iter().filter(|(_, [_, taken])| *taken > 0);
    assert!(used.count() >= 7, "HOLDPOINT_SEED={seed}: {doors:?}");
    assert_eq!(dead_letters(&world.up.data_dir()).await.unwrap(), 0);
    let ready = Client::new()
        .get(format!("{}/readyz", world.up.url))
        .send()
        .await
        .unwrap();
    let ready: Value = ready.json().await.unwrap();
    assert!(!ready.to_string().contains("desired"), "{ready}");
}
