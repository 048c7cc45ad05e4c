//! A separate worker outlives `up`, which has its bus at the same address after a restart.

use std::time::Duration;

use holdpoint_testkit::{Up, UpOptions, until};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::json;

use crate::toolbox::Toolbox;
use crate::world::PATIENCE;

async fn completes(up: &Up, path: &str) {
    let (status, run) = up.post(path, &json!({})).await.unwrap();
    assert_eq!(status, 201, "{run}");
    let run = format!("/runs/{}", run["id"].as_str().unwrap());
    until(PATIENCE, "the run completes", async || {
        let (_, run) = up.get(&run).await.ok()?;
        (run["status"] == "completed").then_some(())
    })
    .await
    .unwrap();
}

/// Mend D-2: a worker that found the bus by cli.json continues after `up` has stopped and started again.
#[tokio::test]
async fn a_worker_continues_after_a_restart_of_up() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut up = Up::start(UpOptions::default()).await.unwrap();
    let steps = json!([{ "tool": "shell.say" }]);
    let agent = json!({ "agent": "says", "steps": steps });
    let (status, body) = up.post("/agents", &agent).await.unwrap();
    assert_eq!(status, 201, "{body}");
    let _toolbox = Toolbox::found_by(&up, "shell.say", "cat").await;
    completes(&up, "/agents/says/runs").await;

    let before = up.nats_url.clone();
    up.terminate().await.unwrap();
    up.restart().await.unwrap();
    assert_eq!(up.nats_url, before, "address and key");
    completes(&up, "/agents/says/runs").await;
}

/// Mend A-H8: without file descriptors `up` cannot check its bus. It does not assume that the bus has ended, and
/// continues when it has descriptors again.
#[tokio::test]
async fn up_continues_after_it_was_out_of_file_descriptors() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut up = Up::start(UpOptions::default()).await.unwrap();
    let pid = up.pid().unwrap();
    let maximum = getrlimit(Resource::Nofile).maximum;
    let limit = |current| {
        let limits = Rlimit { current, maximum };
        let target = Pid::from_raw(i32::try_from(pid).unwrap());
        prlimit(target, Resource::Nofile, limits).unwrap()
    };
    let before = limit(Some(0));
    let granted = maximum.map_or(65_536, |most| most.min(65_536));
    assert!(before.current.unwrap() >= granted, "raised: {before:?}");
    // It checks the bus every half second.
    let ended = up.ended(Duration::from_secs(3)).await;
    assert!(ended.is_err(), "{ended:?}: {}", up.stderr_tail());
    limit(before.current);
    until(PATIENCE, "it answers", async || up.get("/runs").await.ok())
        .await
        .unwrap();
}
