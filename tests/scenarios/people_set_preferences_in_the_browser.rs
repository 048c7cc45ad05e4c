//! Notification preferences and webhooks on the settings page, in Chromium.

use holdpoint_testkit::{Person, until};
use serde_json::{Value, json};

use crate::browser::{Browser, Browsers, DESK, PHONE};
use crate::shop::Shop;
use crate::world::{PATIENCE, World};

/// Waits until the API shows this state.
async fn becomes(world: &World, path: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    until(PATIENCE, what, async || {
        let (status, body) = world.up.get(path).await.unwrap();
        assert_eq!(status, 200, "{body}");
        is_so(&body).then_some(body)
    })
    .await
    .unwrap()
}

/// Sets a field, as a time picker does.
async fn set(browser: &Browser, name: &str, value: &str) {
    let script = format!("document.getElementsByName('{name}')[0].value = '{value}'");
    browser.asks(&script).await;
}

/// An error is shown at its field, and the other input is kept.
#[tokio::test]
async fn a_person_changes_their_preferences() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_real_time().await;
    let browser = browsers.signed_in(&world, &world.up.token, DESK).await;
    browser.click("Settings").await;
    browser.reads("Notification preferences").await;
    browser.reads("Webhooks").await;
    browser.click("Use quiet hours").await;
    set(&browser, "quiet-from", "21:30").await;
    set(&browser, "quiet-to", "06:45").await;
    browser.click("Send me a daily digest").await;
    set(&browser, "zone", "Berlin").await;
    // By the keyboard, from within the field.
    browser.find("#zone").await.click().await.unwrap();
    browser.press_enter().await;
    browser.reads("Did you mean Europe/Berlin?").await;
    let kept =
        "return document.activeElement.value + ' ' + document.querySelector('#quiet-from').value";
    assert_eq!(
        browser.asks(kept).await,
        "Berlin 21:30",
        "input is kept, and the focus is on the wrong field"
    );
    browser.picture("settings-wrong").await;
    set(&browser, "zone", "Europe/Berlin").await;
    browser.click("Save").await;
    browser.reads("Saved.").await;
    let kept = becomes(&world, "/preferences", "it is kept", |said| {
        said["time_zone"] == "Europe/Berlin"
    })
    .await;
    assert_eq!(
        kept["quiet_hours"],
        json!({ "from": "21:30", "to": "06:45", "days": [] })
    );
    assert_eq!(kept["digest"], json!({ "at": "08:00" }));
    browser.picture("settings").await;
    browser.close().await;
}

/// A webhook is added, disabled, enabled and removed. Its secret is shown once.
#[tokio::test]
async fn an_owner_manages_the_webhooks() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_real_time().await;
    let shop = Shop::open().await;
    let browser = browsers.signed_in(&world, &world.up.token, DESK).await;
    browser.go("/settings").await;
    browser.fill("url", &shop.url("/hook")).await;
    browser.click("Add").await;
    browser.reads("shown only once").await;
    browser.reads("whsec_").await;
    browser.reads("Active").await;
    let script = "document.querySelector('.once').scrollIntoView()";
    browser.asks(script).await;
    browser.picture("settings-secret").await;
    let is = |status: &'static str| move |page: &Value| page["items"][0]["status"] == status;
    browser.click("Disable").await;
    browser.reads("Webhook disabled.").await;
    becomes(&world, "/webhooks", "it is disabled", is("disabled")).await;
    assert!(!browser.text().await.contains("whsec_"), "shown once");
    browser
        .asks("document.querySelector('#webhooks').scrollIntoView()")
        .await;
    browser.picture("settings-webhooks").await;
    browser.click("Enable").await;
    browser.reads("Webhook enabled.").await;
    becomes(&world, "/webhooks", "it is enabled", is("active")).await;
    browser.click("Remove…").await;
    browser
        .find("details[open] button.danger")
        .await
        .click()
        .await
        .unwrap();
    browser.reads("Webhook removed.").await;
    becomes(&world, "/webhooks", "it is removed", |page| {
        page["items"] == json!([])
    })
    .await;
    browser.close().await;
}

/// On a phone nothing is cut off, and all of it works without the script. Members see no webhooks.
#[tokio::test]
async fn settings_work_on_a_phone_without_the_script() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_real_time().await;
    let ada = Person::join(&world.up, "ada", &["member"]).await.unwrap();
    let phone = browsers.signed_in(&world, ada.token(), PHONE).await;
    phone.go("/settings").await;
    phone.reads("ada@acme.example").await;
    let wide = "return document.documentElement.scrollWidth > innerWidth";
    assert_eq!(phone.asks(wide).await, false, "nothing is cut off");
    let beside = "return [...document.querySelectorAll('.panel, .panel *')]\
        .some((one) => one.getBoundingClientRect().right > innerWidth)";
    assert_eq!(
        phone.asks(beside).await,
        false,
        "all of it is on the screen"
    );
    phone.picture("settings-phone").await;
    phone
        .asks("document.querySelector('#zone').scrollIntoView()")
        .await;
    phone.picture("settings-phone-end").await;
    phone.close().await;

    let plain = browsers.open(&world, PHONE, false).await;
    plain.sign_in(ada.token()).await;
    plain.click("Settings").await;
    plain.reads("Notification preferences").await;
    assert!(
        !plain.text().await.contains("Add a webhook"),
        "not for members"
    );
    plain.click("Send me emails").await;
    plain.click("Save").await;
    plain.reads("Saved.").await;
    let (status, said) = ada.get(&world.up, "/preferences").await.unwrap();
    assert_eq!(
        (status, &said["channels"]["email"]["enabled"]),
        (200, &json!(false))
    );
    plain.close().await;
}
