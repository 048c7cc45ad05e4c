//! A browser on the pages of a running system: clicks, input and visible text.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fantoccini::elements::Element;
use fantoccini::key::Key;
use fantoccini::{Client, ClientBuilder, Locator};
use holdpoint_bus::Bus;
use holdpoint_contracts::handoff::{OpenHold, RequestView};
use holdpoint_contracts::hold::HoldSpec;
use holdpoint_contracts::message::Envelope;
use holdpoint_ids::HoldId;
use holdpoint_testkit::{TestDriver, driver, until};
use hyper_util::client::legacy::connect::HttpConnector;

use crate::world::{PATIENCE, World};

/// The window size of a desktop and of a phone.
pub(crate) const DESK: (u32, u32) = (1_200, 900);
pub(crate) const PHONE: (u32, u32) = (360, 740);

/// A browser on one system.
pub(crate) struct Browser {
    pub(crate) client: Client,
    base: String,
}

/// The browsers of one test.
pub(crate) struct Browsers(TestDriver);

impl Browsers {
    /// Absent without Chromium; the reason is printed.
    pub(crate) async fn new() -> Option<Self> {
        driver().await.unwrap().map(Self)
    }

    /// A browser of this size, signed in with a token.
    pub(crate) async fn signed_in(&self, world: &World, token: &str, size: (u32, u32)) -> Browser {
        let browser = self.open(world, size, true).await;
        browser.sign_in(token).await;
        browser
    }

    /// A browser without a session.
    pub(crate) async fn open(&self, world: &World, size: (u32, u32), script: bool) -> Browser {
        self.open_with(world, size, script, &[]).await
    }

    /// The same with more flags.
    pub(crate) async fn open_with(
        &self,
        world: &World,
        size: (u32, u32),
        script: bool,
        flags: &[&str],
    ) -> Browser {
        let wanted = self.0.capabilities(size, script, flags).unwrap();
        let mut builder = ClientBuilder::new(HttpConnector::new());
        let client = builder.capabilities(wanted).connect(&self.0.url).await;
        let client = client.unwrap();
        client.set_window_size(size.0, size.1).await.unwrap();
        Browser {
            client,
            base: world.up.url.clone(),
        }
    }
}

impl Browser {
    pub(crate) async fn go(&self, path: &str) {
        let url = format!("{}{path}", self.base);
        self.client.goto(&url).await.unwrap();
    }

    pub(crate) async fn sign_in(&self, token: &str) {
        self.go("/login").await;
        self.find("#token").await.send_keys(token).await.unwrap();
        self.find("form button").await.click().await.unwrap();
        self.reads("Inbox").await;
    }

    /// Waits for the first element of a CSS selector.
    pub(crate) async fn find(&self, css: &str) -> Element {
        until(PATIENCE, css, async || {
            self.client.find(Locator::Css(css)).await.ok()
        })
        .await
        .unwrap()
    }

    /// Clicks the button or link with this text once it can be clicked.
    pub(crate) async fn click(&self, label: &str) {
        let path = format!(
            "//*[self::button or self::summary or self::a or self::label][contains(normalize-space(.), \"{label}\")]"
        );
        until(PATIENCE, label, async || {
            let all = self.client.find_all(Locator::XPath(&path)).await.ok()?;
            for one in all {
                if one.is_displayed().await.ok()? && one.click().await.is_ok() {
                    return Some(());
                }
            }
            None
        })
        .await
        .unwrap();
    }

    /// Types into the first field of this name.
    pub(crate) async fn fill(&self, name: &str, text: &str) {
        let field = self
            .find(&format!("[name=\"{name}\"]:not([type=hidden])"))
            .await;
        field.send_keys(text).await.unwrap();
    }

    /// Presses a key where the focus is.
    pub(crate) async fn press(&self, key: &str) {
        let focused = self.client.active_element().await.unwrap();
        focused.send_keys(key).await.unwrap();
    }

    pub(crate) async fn press_enter(&self) {
        self.press(&String::from(char::from(Key::Enter))).await;
    }

    /// The visible text of the page.
    pub(crate) async fn text(&self) -> String {
        let body = self.client.find(Locator::Css("body")).await;
        match body {
            Ok(body) => body.text().await.unwrap_or_default(),
            Err(_) => String::new(),
        }
    }

    /// Waits until this text is visible.
    pub(crate) async fn reads(&self, words: &str) {
        let found = until(PATIENCE, words, async || {
            self.text().await.contains(words).then_some(())
        });
        if let Err(error) = found.await {
            panic!("{error} in: {}", self.text().await);
        }
    }

    /// The result of a script.
    pub(crate) async fn asks(&self, script: &str) -> serde_json::Value {
        self.client.execute(script, Vec::new()).await.unwrap()
    }

    /// Saves a screenshot.
    pub(crate) async fn picture(&self, name: &str) {
        let folder = screenshots();
        std::fs::create_dir_all(&folder).unwrap();
        let png = self.client.screenshot().await.unwrap();
        std::fs::write(folder.join(format!("{name}.png")), png).unwrap();
    }

    pub(crate) async fn close(self) {
        self.client.close().await.unwrap();
    }
}

/// `target/screenshots`.
fn screenshots() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    target.join("screenshots")
}

/// Opens a hold as a program on the bus does, with any specification.
pub(crate) async fn ask(world: &World, spec: HoldSpec, timeout: Duration) -> RequestView {
    let bus = Bus::connect(&world.up.nats_url, "program").await.unwrap();
    let open = OpenHold {
        id: HoldId::standalone(),
        spec,
        timeout_ms: u64::try_from(timeout.as_millis()).unwrap(),
    };
    let envelope = Envelope::of_service("program", open);
    let workspace = world.up.workspace.parse().unwrap();
    bus.ask(&workspace, &envelope).await.unwrap()
}
