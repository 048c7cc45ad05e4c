//! The page around the content for a signed-in user: navigation, unread count and keyboard help.

use std::time::Duration;

use holdpoint_auth::Right;
use holdpoint_contracts::notification::{CountUnread, Unread};
use maud::{Markup, html};

use super::fragment::Fragment;
use super::layout::document;
use super::session::{SignedInUser, Viewer};

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Inbox,
    Runs,
    Agents,
    Notifications,
    Settings,
}

/// A whole page for a signed-in user.
pub(super) async fn page(viewer: &Viewer, section: Section, title: &str, main: &Markup) -> Markup {
    let unread = unread_badge(count_unread(viewer).await);
    let entry = |here: Section, path: &str, label: &str, badge: Option<&Fragment>| {
        let current = (section == here).then_some("page");
        html! { a href=(path) aria-current=[current] { (label) @if let Some(badge) = badge { (badge) } } }
    };
    let body = html! {
        header.top {
            a.brand href="/inbox" { span.mark aria-hidden="true" {} "Holdpoint" }
            nav aria-label="Pages" {
                (entry(Section::Inbox, "/inbox", "Inbox", None))
                (entry(Section::Runs, "/runs", "Runs", None))
                (entry(Section::Agents, "/agents", "Agents", None))
                (entry(Section::Notifications, "/notifications", "Notifications", Some(&unread)))
                (entry(Section::Settings, "/settings", "Settings", None))
            }
            div.who {
                (workspace_switch(viewer))
                span.user { (viewer.name()) }
                (viewer.form("/logout", "", &[], &html! { button.quiet { "Sign out" } }))
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
    document(title, Some(viewer.clock()), true, &body)
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
pub(super) async fn count_unread(viewer: &Viewer) -> Option<Unread> {
    viewer.caller.may(Right::Look).ok()?;
    let person = viewer.caller.claims.user.clone();
    viewer
        .query_within(COUNT_TIMEOUT, &CountUnread { person })
        .await
}

/// The number of unread notifications; empty without any.
pub(super) fn unread_badge(unread: Option<Unread>) -> Fragment {
    let number = match unread.map(|unread| (unread.count, unread.more)) {
        None | Some((0, _)) => String::new(),
        Some((count, true)) => format!("{count}+"),
        Some((count, false)) => count.to_string(),
    };
    let has_some = !number.is_empty();
    let say = has_some.then(|| format!("{number} unread notifications"));
    Fragment::new("unread", &number, |key| {
        html! {
            span.count #unread data-key=(key) data-say=[say] {
                @if has_some { (number) span.hidden { " unread" } }
            }
        }
    })
}
