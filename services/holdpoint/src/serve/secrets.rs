//! The secrets that all services of one installation share: one JSON file.

use std::path::Path;

use anyhow::Context;
use holdpoint_auth::Secrets;

use crate::file_privacy;

/// Reads the file.
///
/// # Errors
/// When it is not there, when others can read or change it, or when it is not what `holdpoint secrets new`
/// prints.
pub(crate) fn read(path: &Path) -> anyhow::Result<Secrets> {
    let text = file_privacy::read_secret(path)?;
    serde_json::from_str(&text).with_context(|| format!("{} cannot be read", path.display()))
}

/// Reads the file, or makes it with fresh ones, readable by this user alone.
///
/// # Errors
/// When it can neither be read nor made.
pub(crate) fn read_or_make(path: &Path) -> anyhow::Result<Secrets> {
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
