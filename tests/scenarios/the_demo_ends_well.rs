//! The main job, as a newcomer starts it.

use std::process::Stdio;

use holdpoint_testkit::holdpoint_binary;

/// S0-AC1, S0-AC2, S0-AC4, S0-AC5, S0-AC7, S3-R1, M-6 in two stories, on real input and with real mail on disk.
#[tokio::test]
async fn the_demo_sends_exactly_the_expected_mails() {
    let output = tokio::process::Command::new(holdpoint_binary().unwrap())
        .args(["demo", "--fast"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}\n{said}");
    assert!(
        told.contains("All 11 mails to contacts on disk are exactly the expected ones."),
        "{told}"
    );
    assert!(
        told.contains("Agent paused. Will resume in 5 days."),
        "{told}"
    );
    assert!(
        told.contains("Paused by owner; timer hold has 3 days left."),
        "{told}"
    );
}
