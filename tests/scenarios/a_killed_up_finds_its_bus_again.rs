//! `up` starts its own NATS server, and finds it again after a kill.

use holdpoint_testkit::{Up, UpOptions};
use serde_json::json;

use crate::world::log;

/// M-2: the server outlives the killed process, the next process adopts it, and a clean stop ends it.
#[tokio::test]
async fn the_server_of_a_killed_process_is_adopted() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let options = UpOptions {
        test_clock: true,
        ..UpOptions::default()
    };
    let mut up = Up::start(options).await.unwrap();
    let agent = json!({ "agent": "patient", "steps": [{ "wait": "1 day" }, log("after")] });
    let (status, _) = up.post("/agents", &agent).await.unwrap();
    assert_eq!(status, 201);
    let (_, run) = up.post("/agents/patient/runs", &json!({})).await.unwrap();
    let bus = up.nats_url.clone();

    up.kill9().await.unwrap();
    up.restart().await.unwrap();
    assert_eq!(up.nats_url, bus, "the same server, at the same address");
    let moved = up.clock_advance("1d").await.unwrap();
    assert_eq!(moved["settled"], true, "{moved}");
    let id = run["id"].as_str().unwrap();
    let (_, run) = up.get(&format!("/runs/{id}")).await.unwrap();
    assert_eq!(run["status"], "completed", "{run}");

    up.terminate().await.unwrap();
    let plain = holdpoint_bus::without_credentials(&bus);
    let address = plain.trim_start_matches("nats://");
    assert!(
        std::net::TcpStream::connect(address).is_err(),
        "a clean stop stops the server"
    );
}
