//! Compares the mails on disk with the expected ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use holdpoint_worker::tools::send_email;

/// Recipient and subject of a mail that must be there once.
pub(super) type Expected = (String, String);

/// Texts about missing and unexpected mails.
pub(super) fn compare(dir: &Path, expected: &[Expected]) -> anyhow::Result<Vec<String>> {
    let found = send_email::list(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let mut missing: BTreeMap<Expected, i64> = BTreeMap::new();
    for mail in expected {
        *missing.entry(mail.clone()).or_default() += 1;
    }
    // Notifications go to users and not to contacts.
    for mail in found.into_iter().filter(|mail| mail.kind == "step") {
        *missing.entry((mail.to, mail.subject)).or_default() -= 1;
    }
    missing.retain(|_, count| *count != 0);
    let differences = missing.into_iter().map(|((to, subject), count)| {
        let problem = if count > 0 { "missing" } else { "unexpected" };
        format!("{} {problem} mail(s) \"{subject}\" to {to}", count.abs())
    });
    Ok(differences.collect())
}

/// The file of the newest mail to a contact.
pub(super) fn newest(dir: &Path) -> anyhow::Result<Option<PathBuf>> {
    let found = send_email::list(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let newest = found.into_iter().rfind(|mail| mail.kind == "step");
    Ok(newest.map(|mail| dir.join("new").join(mail.file)))
}
