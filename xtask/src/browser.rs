//! A Chromium and its driver, for the tests of the pages.

use anyhow::bail;

use crate::docker::{install, is_root};
use crate::shell::succeeds;

/// As Debian names them.
const PACKAGES: [&str; 2] = ["chromium", "chromium-driver"];

/// Installs what is missing (Debian, by root).
pub(crate) fn present() -> anyhow::Result<()> {
    let is_here =
        || succeeds("chromium", &["--version"]) && succeeds("chromedriver", &["--version"]);
    if is_here() {
        return Ok(());
    }
    let packages = PACKAGES.join(" and ");
    if !is_root() {
        bail!("a browser is required: install the packages {packages}");
    }
    install(&PACKAGES)?;
    if !is_here() {
        bail!("a browser is required, and after installing {packages} it does not start");
    }
    Ok(())
}
