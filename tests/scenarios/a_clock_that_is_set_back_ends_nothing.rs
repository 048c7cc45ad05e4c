//! The clock is set back by an hour. Leases, deadlines, snoozes, sessions, tokens, idempotency keys and timers read
//! it. The services run in this process, so that the test can set their clock.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use holdpoint_auth::Secrets;
use holdpoint_bus::Bus;
use holdpoint_clock::Clock;
use holdpoint_kernel::{Deps, RETENTION_DEFAULT};
use holdpoint_scheduler::KernelRegistry;
use holdpoint_store::Location;
use holdpoint_testkit::{TestNats, nats, until};
use holdpoint_worker::targets::EgressPolicy;
use holdpoint_worker::tools::HttpRequest;
use holdpoint_worker::worker::{Worker, WorkerOptions};
use reqwest::header::COOKIE;
use reqwest::redirect::Policy;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::fleet::Api;
use crate::shop::Shop;
use crate::world::PATIENCE;

/// How far the clock is set back.
const STEP: TimeDelta = TimeDelta::hours(1);

/// Duration of a call: several leases of a second.
const AT_WORK: Duration = Duration::from_secs(4);

/// Executor, handoff, scheduler, gateway and a node with one clock.
struct System {
    clock: Clock,
    url: String,
    token: String,
    api: Api,
    stop: CancellationToken,
    tracker: TaskTracker,
    _nats: TestNats,
    _dir: TempDir,
}

impl System {
    async fn start() -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        let (nats, dir) = (nats().await.unwrap(), tempfile::tempdir().unwrap());
        let clock = Clock::system();
        let (stop, tracker) = (CancellationToken::new(), TaskTracker::new());
        let secrets = Secrets::fresh().unwrap();
        let bus = Bus::connect(&nats.url, "test").await.unwrap();
        let deps = |service: &str| Deps {
            bus: bus.clone(),
            clock: clock.clone(),
            store: Location::Sqlite(dir.path().join(format!("{service}.db"))),
            keys: secrets.keys().unwrap(),
            kept_for: RETENTION_DEFAULT,
        };
        let scheduler = deps("scheduler");
        holdpoint_scheduler::start(
            &scheduler,
            KernelRegistry::default(),
            stop.clone(),
            &tracker,
        )
        .await
        .unwrap();
        holdpoint_handoff::start(&deps("handoff"), stop.clone(), &tracker)
            .await
            .unwrap();
        holdpoint_executor::start(&deps("executor"), None, stop.clone(), &tracker)
            .await
            .unwrap();
        let http = HttpRequest::new(EgressPolicy::AllowPrivate, PATIENCE).unwrap();
        let mut options = WorkerOptions::new("node".parse().unwrap());
        options.clock = clock.clone();
        let worker = Worker::new(bus.clone(), options).tool(Arc::new(http));
        tracker.spawn(worker.run(stop.clone()));
        let gateway = holdpoint_gateway::Deps {
            bus: bus.clone(),
            clock: clock.clone(),
            store: deps("gateway").store,
            signer: Arc::new(secrets.signer().unwrap()),
            keys: secrets.keys().unwrap(),
            mails: None,
            not_ready: None,
        };
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let config = holdpoint_gateway::Config { http: any };
        let gateway = holdpoint_gateway::start(gateway, config).await.unwrap();
        let workspace = "default".parse().unwrap();
        let token = gateway.owner_token(&workspace).await.unwrap();
        let url = format!("http://{}", gateway.address());
        let api = Api::at(&url, &token);
        tracker.spawn(gateway.serve(stop.clone()));
        Self {
            clock,
            url,
            token,
            api,
            stop,
            tracker,
            _nats: nats,
            _dir: dir,
        }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// A browser that has signed in.
    async fn browser(&self) -> (Client, String) {
        let client = Client::builder().redirect(Policy::none()).no_proxy();
        let client = client.build().unwrap();
        let form = format!("token={}", self.token);
        let request = client.post(format!("{}/login", self.url)).body(form);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let answer = request.send().await.unwrap();
        let cookie = answer.headers()["set-cookie"].to_str().unwrap();
        (client, cookie.split(';').next().unwrap().to_owned())
    }

    /// Whether a browser sees the inbox. Without a session it is redirected to the login.
    async fn is_signed_in(&self, (client, cookie): &(Client, String)) -> bool {
        let inbox = client.get(format!("{}/inbox", self.url));
        inbox.header(COOKIE, cookie).send().await.unwrap().status() == 200
    }

    async fn open(&self, body: Value) -> String {
        let (status, hold) = self.api.post("/holds", &body).await;
        assert_eq!(status, 201, "{hold}");
        format!("/requests/{}", hold["id"].as_str().unwrap())
    }

    async fn start_run(&self, agent: &str) -> String {
        let (status, run) = self
            .api
            .post(&format!("/agents/{agent}/runs"), &json!({}))
            .await;
        assert_eq!(status, 201, "{run}");
        format!("/runs/{}", run["id"].as_str().unwrap())
    }

    async fn becomes(&self, path: &str, field: &str, wanted: &str) -> Value {
        until(PATIENCE, &format!("{path} is {wanted}"), async || {
            let shown = self.api.get(path).await;
            (shown[field] == wanted).then_some(shown)
        })
        .await
        .unwrap()
    }

    /// How often an event is in a history without gaps.
    async fn times(&self, run: &str, kind: &str) -> usize {
        let page = self.api.get(&format!("{run}/events?limit=500")).await;
        let items = page["items"].as_array().unwrap();
        let numbers = items.iter().map(|item| item["seq"].as_u64().unwrap());
        assert!(numbers.eq(1..=items.len() as u64), "{items:?}");
        items.iter().filter(|item| item["type"] == kind).count()
    }
}

/// Work in progress when the clock is set back.
struct Begun {
    asks: String,
    works: String,
    snoozed: String,
    timer: String,
    /// Opened under the key `one`.
    kept: Value,
}

fn question() -> Value {
    json!({ "kind": "input", "question": "Now?", "timeout": "30m" })
}

async fn begin(system: &System, shop: &Shop) -> Begun {
    let api = &system.api;
    let call = json!({ "method": "POST", "url": shop.url("/orders"), "idempotent": true });
    let work = json!([{ "tool": "http_request", "args": call, "claim_timeout": "1s" }]);
    let ask = json!({
        "to": "@user.owner", "question": "Well?", "timeout": "30m", "on_timeout": "skip",
    });
    for (agent, steps) in [
        ("works", work),
        ("asks", json!([{ "ask": ask }])),
        ("waits", json!([{ "wait": "1s" }])),
    ] {
        let agent = json!({ "agent": agent, "steps": steps });
        assert_eq!(api.post("/agents", &agent).await.0, 201);
    }
    let asks = system.start_run("asks").await;
    system.becomes(&asks, "status", "awaiting_input").await;
    let snoozed = system.open(question()).await;
    let snooze = json!({ "for": "10m" });
    let (status, response) = api.post(&format!("{snoozed}/snooze"), &snooze).await;
    assert_eq!(status, 200, "{response}");
    let timer = json!({ "kind": "timer", "wait": "30m" });
    let timer = system.open(timer).await;
    let (status, kept) = api.post_under("one", "/holds", &question()).await;
    assert_eq!(status, 201, "{kept}");
    let works = system.start_run("works").await;
    until(PATIENCE, "the call is under way", async || {
        (shop.calls().len() == 1).then_some(())
    })
    .await
    .unwrap();
    Begun {
        asks,
        works,
        snoozed,
        timer,
        kept,
    }
}

/// Ground, 8, "clock stepped back": nothing ends, repeats or is lost. When the clock is right again, each due timer
/// fires once.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_back_ends_doubles_and_loses_nothing() {
    let system = System::start().await;
    let api = &system.api;
    let shop = Shop::slow(AT_WORK).await;
    let (status, made) = api.post("/tokens", &json!({ "user": "owner" })).await;
    assert_eq!(status, 201, "{made}");
    let other = api.with_token(made["token"].as_str().unwrap());
    let browser = system.browser().await;
    let signed_out = (browser.0.clone(), String::new());
    assert!(
        !system.is_signed_in(&signed_out).await,
        "a browser without a session is not"
    );
    let begun = begin(&system, &shop).await;

    system.clock.step(-STEP);
    // Sessions and idempotency keys are still valid.
    assert!(system.is_signed_in(&browser).await);
    assert_eq!(other.call(Method::GET, "/runs", &Value::Null).await.0, 200);
    let (status, again) = api.post_under("one", "/holds", &question()).await;
    assert_eq!((status, &again["id"]), (201, &begun.kept["id"]), "{again}");
    let otherwise = json!({ "kind": "input", "question": "Something else?" });
    let (status, refused) = api.post_under("one", "/holds", &otherwise).await;
    let reused = json!("idempotency_key_reused");
    assert_eq!((status, &refused["code"]), (422, &reused));
    // A new wait has its full length, and heartbeats still renew a lease.
    let waits = system.start_run("waits").await;
    system.becomes(&waits, "status", "completed").await;
    let ended = system.becomes(&begun.works, "status", "completed").await;
    assert_eq!(shop.calls().len(), 1, "dispatched once: {ended}");
    assert_eq!(system.times(&begun.works, "step.succeeded").await, 1);
    // No request has ended, and an answer counts.
    for request in [&begun.snoozed, &begun.timer] {
        assert_eq!(api.get(request).await["status"], "open");
    }
    let decided = format!("/requests/{}", begun.kept["id"].as_str().unwrap());
    let answer = json!({ "answer": "yes" });
    let (status, response) = api.post(&format!("{decided}/respond"), &answer).await;
    assert_eq!(status, 200, "{response}");
    assert_eq!(api.get(&begun.asks).await["status"], "awaiting_input");

    // The clock is right again and an hour passes: each due timer fires once.
    system.clock.step(STEP);
    assert_eq!(api.get(&begun.timer).await["status"], "open");
    system.clock.step(STEP);
    system.becomes(&begun.asks, "status", "completed").await;
    system.becomes(&begun.timer, "outcome", "fired").await;
    system.becomes(&begun.snoozed, "status", "expired").await;
    assert_eq!(api.get(&decided).await["outcome"], "answered", "it stays");
    assert_eq!(system.times(&begun.asks, "run.completed").await, 1);
    assert_eq!(system.times(&waits, "run.resumed").await, 1);
    assert_eq!(other.call(Method::GET, "/runs", &Value::Null).await.0, 200);
    assert!(system.is_signed_in(&browser).await);
    system.stop().await;
}
