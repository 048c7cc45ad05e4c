//! A Chromium for one test: `chromedriver` on a port of the system's choice. Both are Debian packages
//! (`chromium`, `chromium-driver`).

use std::{env, fs, process::Stdio, time::Duration};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::{TestFolder, skip, until};

const START_WAIT: Duration = Duration::from_secs(30);
const PROGRAM: &str = "chromedriver";
/// Headless, as root, and quiet: nothing is asked of the network but our own pages.
const FLAGS: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
];

/// A driver that listens. It and its browsers end at drop.
#[derive(Debug)]
pub struct TestDriver {
    /// What a WebDriver client connects to.
    pub url: String,
    _child: Child,
    /// Browsers survive their driver. They name this folder in their arguments and end with it.
    home: TestFolder,
}

/// Starts a driver. `None`: there is none here, and the reason is printed.
///
/// # Errors
/// When it does not start, or is not there although `HOLDPOINT_TEST_REQUIRE_BROWSER=1`.
pub async fn driver() -> anyhow::Result<Option<TestDriver>> {
    let home = TestFolder::create()?;
    let log = home.path().join("driver.log");
    let mut command = Command::new(PROGRAM);
    let command = command
        .arg("--port=0")
        .env("TMPDIR", home.path())
        .stdin(Stdio::null())
        .stdout(fs::File::create(&log)?)
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let child = match command.spawn() {
        Ok(child) => child,
        Err(why) => return missing(&why.to_string()),
    };
    let port = until(START_WAIT, "the port of chromedriver", async || {
        port(&fs::read_to_string(&log).ok()?)
    });
    let port = port.await?;
    Ok(Some(TestDriver {
        url: format!("http://127.0.0.1:{port}"),
        _child: child,
        home,
    }))
}

fn missing(why: &str) -> anyhow::Result<Option<TestDriver>> {
    let required = env::var("HOLDPOINT_TEST_REQUIRE_BROWSER").is_ok_and(|value| value == "1");
    if required {
        bail!(
            "a browser is required here, but {PROGRAM} does not start: {why}; install the packages chromium and chromium-driver"
        );
    }
    skip(&format!(
        "no browser: {PROGRAM} does not start: {why} (packages chromium and chromium-driver)"
    ))?;
    Ok(None)
}

/// From `ChromeDriver was started successfully on port 39871.`
fn port(log: &str) -> Option<u16> {
    let (_, rest) = log.split_once("started successfully on port ")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    rest.len().gt(&digits.len()).then(|| digits.parse().ok())?
}

impl TestDriver {
    /// The capabilities of a browser of this driver, with a window of this size, and with or without scripts.
    ///
    /// # Errors
    /// When its folder cannot be made.
    pub fn capabilities(
        &self,
        (width, height): (u32, u32),
        script: bool,
        more: &[&str],
    ) -> anyhow::Result<serde_json::Map<String, Value>> {
        let profile = tempfile::Builder::new()
            .prefix("profile")
            .tempdir_in(self.home.path())?;
        let mut flags: Vec<String> = FLAGS
            .iter()
            .chain(more)
            .map(|flag| (*flag).to_owned())
            .collect();
        flags.push(format!("--window-size={width},{height}"));
        flags.push(format!("--user-data-dir={}", profile.keep().display()));
        let scripts = if script { 1 } else { 2 };
        let wanted = json!({ "goog:chromeOptions": {
            "args": flags,
            "prefs": { "profile.managed_default_content_settings.javascript": scripts },
        }});
        wanted
            .as_object()
            .cloned()
            .context("capabilities are an object")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_complete_port_is_read() {
        let log = "Starting ChromeDriver\nChromeDriver was started successfully on port 39871.\n";
        assert_eq!(port(log), Some(39_871));
        assert_eq!(
            port("ChromeDriver was started successfully on port 398"),
            None
        );
        assert_eq!(port(""), None);
    }
}
