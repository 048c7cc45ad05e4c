//! The page around the content for a signed-in user: navigation, unread count and keyboard help.

use std::time::Duration;

use holdpoint_auth::Right;
use holdpoint_contracts::notification::{CountUnread, Unread};
use maud::{Markup, html};

use super::fragment::{Fragment, key_of};
use super::layout::document;
use super::session::SignedInUser;
use crate::app::App;

/// Time to wait for the unread count; a page without it shows no number.
const COUNT_TIMEOUT: Duration = Duration::from_millis(500);

const KEYS: [(&str, &str); 6] = [
    ("j", "next card"),
    ("k", "previous card"),
    ("Enter", "focus the first button or field of the card"),
    ("o", "open the card's page"),
    ("Esc", "return from a field to its card"),
    ("?", "show or hide this list"),
];

/// An entry of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Inbox,
    Runs,
    Notifications,
    Settings,
}

/// A whole page for a signed-in user.
pub(super) async fn page(
    app: &App,
    user: &SignedInUser,
    section: Section,
    title: &str,
    main: &Markup,
) -> Markup {
    let unread = count_unread(app, user).await;
    let entry = |here: Section, path: &str, label: &str, badge: Markup| {
        let current = (section == here).then_some("page");
        html! { a href=(path) aria-current=[current] { (label) (badge) } }
    };
    let none = || html! {};
    let body = html! {
        header.top {
            a.brand href="/inbox" { span.mark aria-hidden="true" {} "Holdpoint" }
            nav aria-label="Pages" {
                (entry(Section::Inbox, "/inbox", "Inbox", none()))
                (entry(Section::Runs, "/runs", "Runs", none()))
                (entry(Section::Notifications, "/notifications", "Notifications", unread_badge(unread)))
                (entry(Section::Settings, "/settings", "Settings", none()))
            }
            div.who {
                (workspace_switch(user))
                span.user { (user.name()) }
                (user.form("/logout", "", &[], &html! { button.quiet { "Sign out" } }))
            }
        }
        main #main tabindex="-1" { (main) }
        footer.foot {
            details #keys {
                summary { "Keyboard" }
                dl.keys { @for (key, action) in KEYS { dt { kbd { (key) } } dd { (action) } } }
            }
            span #link.muted {}
        }
    };
    document(title, Some(user.clock()), true, &body)
}

fn workspace_switch(user: &SignedInUser) -> Markup {
    let workspace = &user.caller.workspace;
    if user.other_workspaces.is_empty() {
        return html! { span.muted { (workspace) } };
    }
    let inside = html! {
        label.hidden for="workspace" { "Workspace" }
        select #workspace name="workspace" {
            option selected { (workspace) }
            @for other in &user.other_workspaces { option { (other) } }
        }
        button.quiet { "Switch" }
    };
    user.form("/workspace", "switch", &[], &inside)
}

/// The user's unread notifications; absent if notification does not reply in time.
pub(super) async fn count_unread(app: &App, user: &SignedInUser) -> Option<Unread> {
    user.caller.may(Right::Look).ok()?;
    let person = user.caller.claims.user.clone();
    let query = CountUnread { person };
    let counted = app.bus.query(&user.caller.workspace, &query);
    tokio::time::timeout(COUNT_TIMEOUT, counted)
        .await
        .ok()?
        .ok()
}

pub(super) async fn unread_fragment(app: &App, user: &SignedInUser) -> Option<Fragment> {
    let unread = count_unread(app, user).await?;
    let number = unread_number(unread);
    Some(Fragment::new("unread", &number, unread_badge(Some(unread))))
}

/// Empty without unread notifications.
fn unread_number(unread: Unread) -> String {
    match (unread.count, unread.more) {
        (0, _) => String::new(),
        (count, true) => format!("{count}+"),
        (count, false) => count.to_string(),
    }
}

fn unread_badge(unread: Option<Unread>) -> Markup {
    let number = unread.map(unread_number).unwrap_or_default();
    let has_some = !number.is_empty();
    let say = has_some.then(|| format!("{number} unread notifications"));
    html! {
        span.count #unread data-key=(key_of(&number)) data-say=[say] {
            @if has_some { (number) span.hidden { " unread" } }
        }
    }
}
