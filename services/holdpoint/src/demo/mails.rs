//! Compares the mails on disk with the expected ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use holdpoint_worker::tools::send_email;

/// A mail that must be there once: to whom, and under which subject.
pub(super) type Expected = (String, String);

/// What is missing, too many, or should not be there at all; nothing if all is as expected.
pub(super) fn check(dir: &Path, expected: &[Expected]) -> anyhow::Result<Vec<String>> {
    let found = send_email::list(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let mut counts: BTreeMap<Expected, i64> = BTreeMap::new();
    for mail in expected {
        *counts.entry(mail.clone()).or_default() += 1;
    }
    // What people were told is none of the story.
    for mail in found.into_iter().filter(|mail| mail.kind == "step") {
        *counts.entry((mail.to, mail.subject)).or_default() -= 1;
    }
    let faults = counts
        .into_iter()
        .filter_map(|((to, subject), left)| match left {
            0 => None,
            1.. => Some(format!("{left} mail(s) \"{subject}\" to {to} missing")),
            ..0 => Some(format!("{} mail(s) \"{subject}\" to {to} too many", -left)),
        });
    Ok(faults.collect())
}

/// The file of the newest mail of the story; none where there is none.
pub(super) fn newest(dir: &Path) -> anyhow::Result<Option<PathBuf>> {
    let found = send_email::list(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let newest = found.into_iter().rfind(|mail| mail.kind == "step");
    Ok(newest.map(|mail| dir.join("new").join(mail.file)))
}
