//! `demo` as a newcomer starts it.

use std::path::Path;
use std::process::{Output, Stdio};

use holdpoint_testkit::holdpoint_binary;

async fn demo(kept: Option<&Path>) -> Output {
    let mut command = tokio::process::Command::new(holdpoint_binary().unwrap());
    command.args(["demo", "--fast"]);
    if let Some(data) = kept {
        command.arg("--data").arg(data);
    }
    command
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap()
}

/// S0-AC1, S0-AC2, S0-AC4, S0-AC5, S0-AC7, S3-R1, M-6 in two parts, with two simulated users (issue 4, Deliver 9), real
/// input and mails on disk.
#[tokio::test]
async fn the_demo_sends_exactly_the_expected_mails() {
    let output = demo(None).await;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{stderr}");
    assert!(
        stdout.contains("All 11 expected mails to contacts are on disk, and no others."),
        "{stdout}"
    );
    assert!(
        stdout.contains("Agent paused. Will resume in 5 days."),
        "{stdout}"
    );
    assert!(
        stdout.contains("Paused by owner; timer hold has 3 days left."),
        "{stdout}"
    );
    assert!(stdout.contains("`demo --data DIR` keeps it"), "{stdout}");
    for case in [
        "both at once       ",
        "invalid answer     Ada answers true. Holdpoint refuses it: ",
        "twice              Ada answers no twice. Holdpoint records it once.",
        "after three hours  Bob answers yes. Holdpoint records it.",
        "never              Neither of them answers.",
        "late               Bob answers yes. Holdpoint keeps it as a late answer and replies: ",
    ] {
        assert!(stdout.contains(&format!("\n  {case}")), "{case}: {stdout}");
    }
}

/// Issue 4, "Show": mails that a reader can open. A named directory is kept, and only a new one is
/// accepted, because the clock of a user's system must not be moved.
#[tokio::test]
async fn the_mails_of_the_demo_can_be_opened() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("kept");
    let output = demo(Some(&data)).await;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{stderr}");
    let (_, path) = stdout.split_once("A mail to open: ").unwrap();
    let mail = std::fs::read_to_string(path.trim()).unwrap();
    assert!(mail.contains("Subject: "), "{mail}");
    assert!(Path::new(path.trim()).starts_with(&data), "{path}");

    let again = demo(Some(&data)).await;
    let stderr = String::from_utf8_lossy(&again.stderr);
    assert_eq!(again.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("is not empty"), "{stderr}");
}
