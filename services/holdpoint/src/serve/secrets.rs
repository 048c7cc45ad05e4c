//! The secrets file that all services of one installation share.

use std::io::Write as _;
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
    if path.exists() {
        return read(path);
    }
    let fresh = Secrets::fresh()?;
    let mut file = file_privacy::create_private_file(path)?;
    file.write_all(serde_json::to_string_pretty(&fresh)?.as_bytes())?;
    file.sync_all()?;
    Ok(fresh)
}
