//! The secrets file that all services of one installation share.

use std::path::Path;

use anyhow::Context;
use holdpoint_auth::Secrets;

use crate::file_privacy;

/// # Errors
/// When the file is missing, readable or writable for other users, or not the output of
/// `holdpoint secrets new`.
pub(crate) fn read(path: &Path) -> anyhow::Result<Secrets> {
    let text = file_privacy::read_secret(path)?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} is not a valid secrets file", path.display()))
}

/// Reads the file, or creates it with new secrets, readable only by this user.
pub(crate) fn read_or_create(path: &Path) -> anyhow::Result<Secrets> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;

    if path.exists() {
        return read(path);
    }
    let fresh = Secrets::fresh()?;
    let mut options = std::fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    file.write_all(serde_json::to_string_pretty(&fresh)?.as_bytes())?;
    file.sync_all()?;
    Ok(fresh)
}
