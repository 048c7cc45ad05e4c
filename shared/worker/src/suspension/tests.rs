use std::fs;

use serde_json::json;

use super::sandbox::{ENTRIES_MAX, FILES_MAX, Sandboxes};
use super::*;
use crate::redaction::SECRET;
use crate::worker::tests::fixture::step;

fn sandboxes(root: &std::path::Path) -> Sandboxes {
    Sandboxes::new(root.to_owned(), "node-a".parse().unwrap())
}

/// S1-R2, S1-R9: the token of the step is removed, and large values become references.
#[tokio::test]
async fn saved_values_have_no_token_and_are_bounded() {
    let suspension = CallSuspension::default();
    assert_eq!(
        suspension.collect(None).await.supplement,
        Supplement::default()
    );
    suspension.save_checkpoint(json!({ "page": 7, "with": ["a hps_secret b"] }));
    suspension.save_write_buffer(json!("x".repeat(SNAPSHOT_INLINE_MAX)));
    let kept = suspension.collect(Some("hps_secret")).await.supplement;
    assert_eq!(
        kept.checkpoint,
        json!({ "page": 7, "with": ["a [token] b"] })
    );
    assert_eq!(kept.write_buffer["size"], SNAPSHOT_INLINE_MAX + 2);
    assert_eq!(kept.write_buffer["sha256"].as_str().unwrap().len(), 64);
    assert!(!format!("{suspension:?}").contains("page"));
    assert!(!suspension.is_requested());
    suspension.request();
    suspension.requested().await;
}

/// S1-R8: made when it is needed, with a manifest; it stays until its run has ended.
#[tokio::test]
async fn a_sandbox_has_a_manifest_and_survives() {
    let root = tempfile::tempdir().unwrap();
    let all = sandboxes(root.path());
    let mut dispatch = step(true);
    dispatch.step = "../odd/é".to_owned();
    let sandbox = all.of(&dispatch);
    assert!(sandbox.path().starts_with(root.path()));
    assert!(sandbox.manifest().is_none() && all.runs(None, 9).is_empty());
    let suspension = CallSuspension::in_sandbox(sandbox.clone());
    assert_eq!(
        suspension.collect(None).await.supplement,
        Supplement::default()
    );
    let path = sandbox.create().unwrap();
    fs::create_dir(path.join("out")).unwrap();
    fs::write(path.join("out/part"), "abc").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", path.join("link")).unwrap();
    fs::write(
        sandbox.supplement_file(),
        r#"{"checkpoint": {"page": 7}, "else": 1}"#,
    )
    .unwrap();
    suspension.save_write_buffer(json!("half"));
    let known = suspension.collect(None).await.supplement;
    assert_eq!(
        (known.checkpoint, known.write_buffer),
        (json!({ "page": 7 }), json!("half"))
    );
    let manifest = known.sandbox.unwrap();
    assert_eq!((manifest.files.len(), manifest.omitted), (2, 1));
    assert_eq!(manifest.files[1].path, "out/part");
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(
        (manifest.files[1].sha256.as_str(), manifest.files[1].size),
        (abc, 3)
    );
    // The next call of the step gets the same directory.
    assert_eq!(all.of(&dispatch).manifest().unwrap(), manifest);
    let run = (dispatch.workspace.clone(), dispatch.run);
    assert_eq!(all.runs(None, 9), [run]);
    all.remove(&dispatch.workspace, dispatch.run).unwrap();
    all.remove(&dispatch.workspace, dispatch.run).unwrap();
    assert!(all.runs(None, 9).is_empty());
}

/// S1-R8, S1-R9: too many files are counted, and values that cannot be read are left out.
#[tokio::test]
async fn a_hostile_sandbox_is_bounded() {
    let root = tempfile::tempdir().unwrap();
    let sandbox = sandboxes(root.path()).of(&step(true));
    let path = sandbox.create().unwrap().to_owned();
    for number in 0..FILES_MAX + 5 {
        fs::write(path.join(format!("{number}")), "").unwrap();
    }
    let deep: std::path::PathBuf = (0..40).map(|_| "d").collect();
    fs::create_dir_all(path.join(deep)).unwrap();
    let suspension = CallSuspension::in_sandbox(sandbox.clone());
    for odd in ["{", "7", "[]", "\u{0}"] {
        fs::write(sandbox.supplement_file(), odd).unwrap();
        let known = suspension.collect(None).await.supplement;
        assert!(known.checkpoint.is_null(), "{odd}");
        let manifest = known.sandbox.unwrap();
        assert_eq!(manifest.files.len(), FILES_MAX);
        assert!(manifest.omitted >= 6, "{}", manifest.omitted);
    }
    let file = fs::File::create(sandbox.supplement_file()).unwrap();
    file.set_len(100 * 1024 * 1024).unwrap();
    let known = suspension.collect(None).await.supplement;
    assert_eq!(known.checkpoint["size"], 100 * 1024 * 1024);
}

/// S1-R9: the token is also removed from names of fields and files.
#[tokio::test]
async fn names_have_no_token() {
    let root = tempfile::tempdir().unwrap();
    let sandbox = sandboxes(root.path()).of(&step(true));
    let path = sandbox.create().unwrap().to_owned();
    fs::write(path.join("hps_secret.txt"), "").unwrap();
    let suspension = CallSuspension::in_sandbox(sandbox);
    suspension.save_checkpoint(json!([{ "hps_secret": { "a hps_secret": 7 } }]));
    let kept = suspension.collect(Some("hps_secret")).await.supplement;
    assert_eq!(kept.checkpoint, json!([{ "[token]": { "a [token]": 7 } }]));
    assert_eq!(kept.sandbox.unwrap().files[0].path, "[token].txt");
}

/// S1-R9: a snapshot is stored and shown, so it has no secrets of the node.
#[tokio::test]
async fn saved_values_have_no_secrets() {
    let root = tempfile::tempdir().unwrap();
    let sandbox = sandboxes(root.path()).of(&step(true));
    let path = sandbox.create().unwrap().to_owned();
    fs::write(path.join("k-123.txt"), "").unwrap();
    let suspension = CallSuspension::in_sandbox(sandbox);
    let mut secrets = Redaction::default();
    secrets.add("k-123", SECRET);
    suspension.hide(&secrets);
    suspension.save_checkpoint(json!({ "url": "https://x.example/?key=k-123" }));
    suspension.save_write_buffer(json!(["k-123", "hps_secret"]));
    let kept = suspension.collect(Some("hps_secret")).await.supplement;
    assert_eq!(
        kept.checkpoint,
        json!({ "url": "https://x.example/?key=[secret]" })
    );
    assert_eq!(kept.write_buffer, json!(["[secret]", "[token]"]));
    assert_eq!(kept.sandbox.unwrap().files[0].path, "[secret].txt");
}

/// S1-R8: neither many directories nor pipes and links in the place of a file keep the worker busy.
#[tokio::test]
async fn a_manifest_looks_at_few_entries_and_opens_only_files() {
    let root = tempfile::tempdir().unwrap();
    let sandbox = sandboxes(root.path()).of(&step(true));
    let path = sandbox.create().unwrap().to_owned();
    rustix::fs::mkfifoat(rustix::fs::CWD, sandbox.supplement_file(), 0o600.into()).unwrap();
    fs::write(path.join("file"), "abc").unwrap();
    std::os::unix::fs::symlink(path.join("file"), path.join("link")).unwrap();
    let suspension = CallSuspension::in_sandbox(sandbox.clone());
    let kept = suspension.collect(None).await.supplement;
    let manifest = kept.sandbox.unwrap();
    assert!(kept.checkpoint.is_null());
    assert_eq!((manifest.files.len(), manifest.omitted), (1, 2));
    for number in 0..=ENTRIES_MAX {
        fs::create_dir(path.join(format!("d{number}"))).unwrap();
    }
    let manifest = suspension.collect(None).await.supplement.sandbox.unwrap();
    assert!(manifest.omitted >= 1, "the rest is omitted");
}
