//! `up` on a machine with other users: its bus needs a key, its folder is private, and it has one token.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use holdpoint_bus::{Bus, without_credentials};
use holdpoint_testkit::{Up, UpOptions};
use serde_json::{Value, json};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

fn left(up: &Up) -> Value {
    serde_json::from_slice(&fs::read(up.data_dir().join("cli.json")).unwrap()).unwrap()
}

/// Mend A-H9: another account of the machine knows the port of the bus and is refused. Only this user can read the
/// key, and the server of a killed `up` still requires it.
#[tokio::test]
async fn the_bus_of_up_needs_its_key() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut up = Up::start(UpOptions::default()).await.unwrap();
    for _ in 0..2 {
        let plain = without_credentials(&up.nats_url);
        assert_ne!(plain, up.nats_url);
        assert!(Bus::connect(&plain, "stranger").await.is_err());
        assert!(Bus::connect(&up.nats_url, "owner").await.is_ok());
        assert_eq!(left(&up)["nats_url"], up.nats_url);
        for file in ["cli.json", "nats.conf"] {
            assert_eq!(mode(&up.data_dir().join(file)), 0o600, "{file}");
        }
        let key = up.nats_url.split(['/', '@']).nth(2).unwrap().to_owned();
        assert!(!up.stderr_tail().contains(&key), "{}", up.stderr_tail());
        up.kill9().await.unwrap();
        up.restart().await.unwrap();
    }
}

/// Mend A-M7: an existing folder that others can read is made private, with all new files in it.
#[tokio::test]
async fn a_folder_that_was_open_is_closed() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut up = Up::start(UpOptions::default()).await.unwrap();
    let (status, _) = up
        .post(
            "/agents",
            &json!({ "agent": "a", "steps": [{ "wait": "1d" }] }),
        )
        .await
        .unwrap();
    assert_eq!(status, 201);
    up.terminate().await.unwrap();
    let folder = up.data_dir();
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    up.restart().await.unwrap();
    assert_eq!(mode(&folder), 0o700);
    let mut files = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
        files += 1;
    }
    assert!(files > 10, "tables, locks and keys");
}

/// Mend D-3: a folder has one token, which survives restarts. `--new-token` replaces and revokes it.
#[tokio::test]
async fn the_token_stays_until_it_is_replaced() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut up = Up::start(UpOptions::default()).await.unwrap();
    let first = up.token.clone();
    up.restart().await.unwrap();
    assert_eq!(up.token, first);
    let (_, tokens) = up.get("/tokens").await.unwrap();
    assert_eq!(tokens["items"].as_array().unwrap().len(), 1, "{tokens}");

    up.options_mut().args = vec!["--new-token".to_owned()];
    up.restart().await.unwrap();
    assert_ne!(up.token, first);
    assert_eq!(left(&up)["token"], up.token);
    let (status, tokens) = up.get("/tokens").await.unwrap();
    assert_eq!(
        (status, tokens["items"].as_array().unwrap().len()),
        (200, 1)
    );
    up.options_mut().args = Vec::new();

    // Without the file, or with a revoked token, `up` makes a new one.
    let second = std::mem::replace(&mut up.token, first);
    let (status, _) = up.get("/tokens").await.unwrap();
    assert_eq!(status, 401, "the first was revoked");
    up.terminate().await.unwrap();
    let path = up.data_dir().join("cli.json");
    let stale = fs::read_to_string(&path)
        .unwrap()
        .replace(&second, &up.token);
    fs::write(&path, stale).unwrap();
    up.restart().await.unwrap();
    let (status, _) = up.get("/runs").await.unwrap();
    assert_eq!(status, 200);
}
