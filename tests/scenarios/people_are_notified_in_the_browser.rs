//! Notifications appear live on every page and are read there, in Chromium.

use std::time::Duration;

use holdpoint_contracts::hold::HoldSpec;
use holdpoint_contracts::run::HoldKind;
use holdpoint_testkit::until;

use crate::browser::{Browser, Browsers, DESK, PHONE, ask};
use crate::world::{PATIENCE, World};

const TIMEOUT: Duration = Duration::from_hours(52);

async fn asks(world: &World, title: &str, question: &str) {
    let spec = HoldSpec {
        title: Some(title.to_owned()),
        ..HoldSpec::asking(HoldKind::Approval, question)
    };
    ask(world, spec, TIMEOUT).await;
}

/// Waits until the badge beside `Notifications` shows this number.
async fn shows_unread(browser: &Browser, number: &str) {
    let shown = "const one = document.getElementById('unread'); \
                 return one ? (one.firstChild ? one.firstChild.textContent : '') : null";
    until(PATIENCE, "the number of unread", async || {
        (browser.asks(shown).await == number).then_some(())
    })
    .await
    .unwrap();
}

/// The unread count is live on every page. A notification appears live, leads to its request, and is
/// marked as read by a click or by the keyboard.
#[tokio::test]
async fn a_notification_appears_and_is_read() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_real_time().await;
    let browser = browsers.signed_in(&world, &world.up.token, DESK).await;
    browser.go("/notifications").await;
    browser.reads("No notifications").await;
    browser.go("/runs").await;
    shows_unread(&browser, "").await;
    let question = "The customer sent the parcel back. May the agent pay the whole amount?";
    asks(&world, "Refund 250.00 EUR to Ada Lovelace", question).await;
    shows_unread(&browser, "1").await;
    browser.click("Notifications").await;
    browser.reads("Refund 250.00 EUR to Ada Lovelace").await;
    browser.reads("New").await;
    asks(
        &world,
        "Delete the old export?",
        "Nobody has opened it for a year.",
    )
    .await;
    browser.reads("Delete the old export?").await;
    asks(&world, "Publish the price list?", "It applies from Monday.").await;
    browser.reads("Publish the price list?").await;
    shows_unread(&browser, "3").await;
    browser.picture("notifications").await;

    // By the keyboard: the newest card, then its button.
    browser.press("j").await;
    browser.press_enter().await;
    browser.press_enter().await;
    shows_unread(&browser, "2").await;
    let first = "return document.querySelector('.card.note').classList.contains('unread')";
    assert_eq!(
        browser.asks(first).await,
        false,
        "the newest notification is read"
    );

    browser.click("Refund 250.00 EUR").await;
    browser.reads("May the agent pay the whole amount?").await;
    browser.click("Approve").await;
    browser.reads("Approved by owner").await;
    shows_unread(&browser, "1").await;
    browser.go("/notifications").await;
    browser.reads("Approved by owner").await;
    browser.click("Mark all as read").await;
    shows_unread(&browser, "").await;
    let left = "return document.querySelectorAll('.card.note.unread').length";
    assert_eq!(browser.asks(left).await, 0);
    browser.picture("notifications-read").await;
    browser.close().await;
}

/// On a phone nothing is cut off, and all of it works without the script.
#[tokio::test]
async fn notifications_work_on_a_phone_without_the_script() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_real_time().await;
    let title = "Refund the whole amount of order A-10442 to the card that it came from, today";
    asks(&world, title, "The customer sent the parcel back.").await;
    asks(
        &world,
        "Delete the old export?",
        "Nobody has opened it for a year.",
    )
    .await;
    let phone = browsers.signed_in(&world, &world.up.token, PHONE).await;
    shows_unread(&phone, "2").await;
    phone.go("/notifications").await;
    phone.reads("Delete the old export?").await;
    let wide = "return document.documentElement.scrollWidth > innerWidth";
    assert_eq!(phone.asks(wide).await, false, "nothing is cut off");
    phone.picture("notifications-phone").await;
    phone.close().await;

    let plain = browsers.open(&world, PHONE, false).await;
    plain.sign_in(&world.up.token).await;
    plain.click("Notifications").await;
    plain.reads("Delete the old export?").await;
    plain.click("Mark as read").await;
    plain.reads("Mark all as read").await;
    let unread = plain
        .client
        .find_all(fantoccini::Locator::Css(".card.note.unread"))
        .await;
    assert_eq!(unread.unwrap().len(), 1);
    plain.click("Mark all as read").await;
    plain.reads("Delete the old export?").await;
    let unread = plain
        .client
        .find_all(fantoccini::Locator::Css(".card.note.unread"))
        .await;
    assert_eq!(unread.unwrap().len(), 0);
    plain.close().await;
}
