//! Chromium and its driver, for the tests of the pages.

use anyhow::bail;

use crate::docker::{install, is_root};
use crate::shell::succeeds;

/// Names in Debian.
const PACKAGES: [&str; 2] = ["chromium", "chromium-driver"];

/// Installs the browser if it is missing (Debian, as root).
pub(crate) fn install_missing() -> anyhow::Result<()> {
    let starts =
        || succeeds("chromium", &["--version"]) && succeeds("chromedriver", &["--version"]);
    if starts() {
        return Ok(());
    }
    let packages = PACKAGES.join(" and ");
    if !is_root() {
        bail!("a browser is required: install the packages {packages}");
    }
    install(&PACKAGES)?;
    if !starts() {
        bail!("a browser is required, but it does not start after the installation of {packages}");
    }
    Ok(())
}
