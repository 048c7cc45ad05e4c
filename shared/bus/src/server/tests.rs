//! Starts real servers in temporary folders; each test ends its own.

use std::{path::Path, process::Command};

use holdpoint_testkit::{TestFolder, skip};

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
async fn a_server_is_started_adopted_and_stopped() {
    let dir = TestFolder::create().unwrap();
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
    let dir = TestFolder::create().unwrap();
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
    let (dir, other) = (TestFolder::create().unwrap(), TestFolder::create().unwrap());
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
    let dir = TestFolder::create().unwrap();
    let data_dir = DataDir::open(dir.path()).unwrap();
    let config = data_dir.config_to_start().unwrap();
    let error = match child::start(Path::new("/bin/false"), &data_dir, &config).await {
        Ok(running) => panic!("{:?}", running.url),
        Err(error) => error,
    };
    assert!(error.to_string().contains("/bin/false") && error.to_string().contains("ended with"));
}

#[tokio::test]
async fn a_container_is_started_adopted_and_stopped() {
    let named = std::env::var("HOLDPOINT_TEST_NATS_IMAGE");
    let image = named.unwrap_or_else(|_| "nats:2.15".to_owned());
    let asked = Command::new("docker")
        .args(["image", "inspect", &image])
        .output();
    if !asked.is_ok_and(|output| output.status.success()) {
        assert!(
            std::env::var_os("HOLDPOINT_TEST_REQUIRE_DOCKER").is_none(),
            "Docker and the image {image} are required here: cargo xtask images"
        );
        skip(&format!(
            "no Docker, or no image {image} (cargo xtask images)"
        ))
        .unwrap();
        return;
    }
    let dir = TestFolder::create().unwrap();
    let data_dir = DataDir::open(dir.path()).unwrap();
    let config = data_dir.config_to_start().unwrap();
    let (id, url, _) = container::start(&data_dir, &config, Some(&image))
        .await
        .unwrap();
    let adopted = provide(on(dir.path())).await.unwrap();
    assert_eq!(adopted.origin, Origin::Container { id });
    adopted.stop().await;
    assert!(check(&url).await.is_err());
}

/// After a full disk a server refuses to store until it is restarted. Its clients find it at the same address, with
/// its stored messages.
#[tokio::test]
async fn a_server_is_restarted_at_its_address() {
    let dir = TestFolder::create().unwrap();
    let mut own = provide(on(dir.path())).await.unwrap();
    let (url, before) = (own.url.clone(), own.pid().unwrap());
    assert!(own.start_anew().await.unwrap());
    assert_eq!(own.url, url);
    assert!(!alive(before) && own.pid() != Some(before));
    check(&url).await.unwrap();

    // An adopted server is not a child of this process.
    drop(own);
    let mut adopted = provide(on(dir.path())).await.unwrap();
    let before = adopted.pid().unwrap();
    assert!(matches!(adopted.origin, Origin::Adopted { .. }));
    assert!(adopted.start_anew().await.unwrap());
    assert!(!alive(before));
    check(&url).await.unwrap();

    let settings = Settings {
        data_dir: "/nonexistent".into(),
        url: Some(url.clone()),
    };
    let mut given = provide(settings).await.unwrap();
    assert!(!given.start_anew().await.unwrap(), "it is not ours");
    adopted.stop().await;
}

/// Whether a client with this address is let in.
async fn lets_in(url: &str) -> bool {
    crate::Bus::connect(url, "test").await.is_ok()
}

/// Mend A-H9: only clients with the key of the data folder use its bus. The arguments of the process, its log and its
/// `Debug` text do not contain the key.
#[tokio::test]
async fn only_clients_with_the_key_are_let_in() {
    let dir = TestFolder::create().unwrap();
    let own = provide(on(dir.path())).await.unwrap();
    let plain = without_credentials(&own.url);
    let key = own.url.split(['/', '@']).nth(2).unwrap();
    assert_eq!(
        own.url,
        format!("nats://{key}@{}", &plain["nats://".len()..])
    );
    assert!(lets_in(&own.url).await);
    assert!(!lets_in(&plain).await, "without a key");
    assert!(!lets_in(&own.url.replace(key, "another")).await);

    let shown = format!("{own:?}");
    let pid = own.pid().unwrap();
    let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    let log = std::fs::read(dir.path().join("nats-server.log")).unwrap();
    for text in [shown.as_bytes(), &arguments, &log] {
        assert!(!String::from_utf8_lossy(text).contains(key));
    }
    own.stop().await;
}

/// Mend D-2: clients that survive a restart find the bus at its address, with their key.
#[tokio::test]
async fn address_and_key_stay_over_restarts() {
    let dir = TestFolder::create().unwrap();
    let first = provide(on(dir.path())).await.unwrap();
    let url = first.url.clone();
    first.stop().await;
    let second = provide(on(dir.path())).await.unwrap();
    assert!(second.url == url && lets_in(&url).await);
    second.stop().await;

    // Another program on the port may have been sent the key.
    let port: u16 = url.rsplit(':').next().unwrap().parse().unwrap();
    let squatter = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let moved = provide(on(dir.path())).await.unwrap();
    let part = |url: &str, nth| url.split(['@', '/']).nth(nth).unwrap().to_owned();
    assert!(part(&moved.url, 2) != part(&url, 2), "another key");
    assert!(part(&moved.url, 3) != part(&url, 3), "another port");
    drop(squatter);
    moved.stop().await;
}

/// Mend A-H9: a server that an older Holdpoint left without a key is ended, not used.
#[tokio::test]
async fn a_leftover_without_a_key_is_not_adopted() {
    let dir = TestFolder::create().unwrap();
    let left = provide(on(dir.path())).await.unwrap();
    let pid = left.pid().unwrap();
    let data_dir = DataDir::open(dir.path()).unwrap();
    let config = data_dir.config().unwrap();
    // The same server with a configuration that asks for nothing.
    std::fs::write(
        data_dir.config_file(),
        format!("{{\"port\": {}}}", config.port),
    )
    .unwrap();
    drop(left);
    process::end_adopted(pid, &data_dir).await;
    let binary = program().await.unwrap();
    let mut open = child::start(&binary, &data_dir, &config).await.unwrap();
    config.write(&data_dir.config_file()).unwrap();

    let own = provide(on(dir.path())).await.unwrap();
    assert!(matches!(own.origin, Origin::Started { .. }), "{own:?}");
    assert!(!alive(open.pid) || open.child.try_wait().unwrap().is_some());
    assert!(!lets_in(&without_credentials(&own.url)).await);
    own.stop().await;
}
