//! Starts real servers in temporary folders; each test ends its own.

use std::{path::Path, process::Command};

use super::*;

fn on(dir: &Path) -> Settings {
    Settings {
        data_dir: dir.to_owned(),
        url: None,
    }
}

fn alive(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

#[tokio::test]
async fn a_server_is_started_taken_back_and_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let first = provide(on(dir.path())).await.unwrap();
    let Origin::Started { pid, ref binary } = first.origin else {
        panic!("{:?}", first.origin)
    };
    assert!(binary.is_file() && first.version >= OLDEST && alive(pid));
    assert_eq!(check(&first.url).await.unwrap(), first.version);

    let busy = provide(on(dir.path())).await.unwrap_err();
    assert!(matches!(busy, ServerError::InUse { .. }), "{busy}");

    // A killed parent: the lock is gone, the server is not.
    let url = first.url.clone();
    drop(first);
    let second = provide(on(dir.path())).await.unwrap();
    assert_eq!(
        (&second.origin, &second.url),
        (&Origin::Adopted { pid }, &url)
    );
    second.stop().await;
    assert!(!alive(pid) && check(&url).await.is_err());

    let third = provide(on(dir.path())).await.unwrap();
    assert!(matches!(third.origin, Origin::Started { pid: now, .. } if now != pid));
    third.stop().await;
}

#[tokio::test]
async fn a_given_server_is_used_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let own = provide(on(dir.path())).await.unwrap();
    let settings = Settings {
        data_dir: "/nonexistent".into(),
        url: Some(own.url.clone()),
    };
    let given = provide(settings).await.unwrap();
    assert_eq!(given.origin, Origin::Given);
    given.stop().await;
    check(&own.url).await.unwrap();
    own.stop().await;
}

#[tokio::test]
async fn a_leftover_is_killed_only_on_its_own_folder() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let left = provide(on(dir.path())).await.unwrap();
    let pid = left.pid().unwrap();
    drop(left);
    assert!(!kill_leftover(other.path()) && alive(pid));
    assert!(kill_leftover(dir.path()));
    let again = provide(on(dir.path())).await.unwrap();
    assert_ne!(again.pid(), Some(pid));
    again.stop().await;
}

#[tokio::test]
async fn a_program_that_ends_at_once_is_reported_with_its_log() {
    let dir = tempfile::tempdir().unwrap();
    let place = Place::open(dir.path()).unwrap();
    let error = match child::start(Path::new("/bin/false"), &place, None).await {
        Ok(running) => panic!("{:?}", running.url),
        Err(error) => error,
    };
    assert!(error.to_string().contains("/bin/false") && error.to_string().contains("ended with"));
}

#[tokio::test]
async fn a_container_is_started_taken_back_and_stopped() {
    let asked = Command::new("docker")
        .args(["image", "inspect", "nats:2.15"])
        .output();
    if !asked.is_ok_and(|output| output.status.success()) {
        assert!(
            std::env::var_os("HOLDPOINT_TEST_REQUIRE_DOCKER").is_none(),
            "Docker and the image nats:2.15 are required here: cargo xtask images"
        );
        println!("skipped: no Docker, or no image nats:2.15 (cargo xtask images makes it)");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let place = Place::open(dir.path()).unwrap();
    let (id, url, _) = container::start(&place).await.unwrap();
    let taken_back = provide(on(dir.path())).await.unwrap();
    assert_eq!(taken_back.origin, Origin::Container { id });
    taken_back.stop().await;
    assert!(check(&url).await.is_err());
}

/// A server that has met a full disk refuses to store until it is started anew; whoever is connected
/// finds it at the same address, with what it has stored.
#[tokio::test]
async fn a_server_is_started_anew_at_its_address() {
    let dir = tempfile::tempdir().unwrap();
    let mut own = provide(on(dir.path())).await.unwrap();
    let (url, before) = (own.url.clone(), own.pid().unwrap());
    assert!(own.start_anew().await.unwrap());
    assert_eq!(own.url, url);
    assert!(!alive(before) && own.pid() != Some(before));
    check(&url).await.unwrap();

    // One that was taken back is no child of this process.
    drop(own);
    let mut taken_back = provide(on(dir.path())).await.unwrap();
    let before = taken_back.pid().unwrap();
    assert!(matches!(taken_back.origin, Origin::Adopted { .. }));
    assert!(taken_back.start_anew().await.unwrap());
    assert!(!alive(before));
    check(&url).await.unwrap();

    let settings = Settings {
        data_dir: "/nonexistent".into(),
        url: Some(url.clone()),
    };
    let mut given = provide(settings).await.unwrap();
    assert!(!given.start_anew().await.unwrap(), "it is not ours");
    taken_back.stop().await;
}
