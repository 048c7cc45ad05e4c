//! What is around every page: head, navigation, and the headers that it is served under.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::notification::{CountUnread, Unread};
use maud::{DOCTYPE, Markup, html};

use super::assets::{ICON, SCRIPT, STYLE};
use super::live::{Fragment, key_of};
use super::session::SignedInUser;
use crate::app::App;
use crate::problem;

/// Nothing from elsewhere, nothing inline, in nobody's frame.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'self'; \
                      frame-ancestors 'none'; object-src 'none'";

/// Which entry of the navigation is lit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Inbox,
    Runs,
    Notifications,
    Settings,
}

/// How long a page waits for the number of what is not read; without it, it shows none.
const COUNT_WITHIN: Duration = Duration::from_millis(500);

/// Puts the headers on that all pages have. A referrer goes to our own address only: without it
/// browsers would send forms with `Origin: null`, and the check of where they come from had nothing
/// to go by.
pub(super) fn secured(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ] {
        // A page may be stricter than all are.
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    response
}

/// A whole page for somebody who is signed in.
pub(super) async fn page(
    app: &App,
    person: &SignedInUser,
    place: Place,
    title: &str,
    main: &Markup,
) -> Markup {
    let unread = unread(app, person).await;
    let lit = |here: Place| (place == here).then_some("page");
    let workspace = &person.caller.workspace;
    whole(
        title,
        Some(person),
        true,
        &html! {
            header.top {
                a.brand href="/inbox" { span.mark aria-hidden="true" {} "Holdpoint" }
                nav aria-label="Pages" {
                    a href="/inbox" aria-current=[lit(Place::Inbox)] { "Inbox" }
                    a href="/runs" aria-current=[lit(Place::Runs)] { "Runs" }
                    a href="/notifications" aria-current=[lit(Place::Notifications)] {
                        "Notifications" (badge(unread))
                    }
                    a href="/settings" aria-current=[lit(Place::Settings)] { "Settings" }
                }
                div.who {
                    @if person.others.is_empty() {
                        span.muted { (workspace) }
                    } @else {
                        form.switch method="post" action="/workspace" {
                            input type="hidden" name="csrf" value=(person.csrf());
                            label.hidden for="workspace" { "Workspace" }
                            select #workspace name="workspace" {
                                option selected { (workspace) }
                                @for other in &person.others { option { (other) } }
                            }
                            button.quiet { "Switch" }
                        }
                    }
                    span.user { (person.name()) }
                    form method="post" action="/logout" {
                        input type="hidden" name="csrf" value=(person.csrf());
                        button.quiet { "Sign out" }
                    }
                }
            }
            main #main tabindex="-1" { (main) }
            (keys())
        },
    )
}

/// How much somebody has not read; none where that cannot be had at once.
pub(super) async fn unread(app: &App, person: &SignedInUser) -> Option<Unread> {
    person.caller.may(Right::Look).ok()?;
    let query = CountUnread {
        person: person.caller.claims.user.clone(),
    };
    let counted = app.bus.query(&person.caller.workspace, &query);
    tokio::time::timeout(COUNT_WITHIN, counted).await.ok()?.ok()
}

/// The number in the navigation, as it is replaced by its id.
pub(super) async fn unread_fragment(app: &App, person: &SignedInUser) -> Option<Fragment> {
    let unread = unread(app, person).await?;
    let number = number(unread);
    Some(Fragment::of("unread", &number, badge(Some(unread))))
}

fn number(unread: Unread) -> String {
    match (unread.count, unread.more) {
        (0, _) => String::new(),
        (count, true) => format!("{count}+"),
        (count, false) => count.to_string(),
    }
}

/// Empty where there is nothing.
fn badge(unread: Option<Unread>) -> Markup {
    let number = unread.map(number).unwrap_or_default();
    let is_some = !number.is_empty();
    let say = is_some.then(|| format!("{number} unread notifications"));
    html! {
        span.count #unread data-key=(key_of(&number)) data-say=[say] {
            @if is_some { (number) span.hidden { " unread" } }
        }
    }
}

/// A page for a person who came by a link, as wide as the others. It counts time by the server's clock
/// and is not live.
pub(super) fn alone(person: &SignedInUser, title: &str, main: &Markup) -> Markup {
    whole(title, Some(person), false, &html! { main #main { (main) } })
}

/// A page for nobody in particular.
pub(super) fn bare(title: &str, main: &Markup) -> Markup {
    whole(title, None, false, &html! { main.narrow #main { (main) } })
}

fn whole(title: &str, person: Option<&SignedInUser>, is_live: bool, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (super::sanitize::clean(title)) " – Holdpoint" }
                link rel="icon" type="image/svg+xml" href=(ICON.path);
                link rel="stylesheet" href=(STYLE.path);
                script src=(SCRIPT.path) defer {}
            }
            body data-live[is_live] data-now=[person.map(|it| it.now.timestamp_millis())]
                data-stands[person.is_some_and(|it| it.time_stands)] {
                a.skip href="#main" { "Skip to the content" }
                (body)
                div #say.hidden role="status" aria-live="polite" {}
            }
        }
    }
}

fn keys() -> Markup {
    let known = [
        ("j", "next card"),
        ("k", "card before"),
        ("Enter", "into the card: its first button or field"),
        ("o", "open the card on a page of its own"),
        ("Esc", "out of a field, back to its card"),
        ("?", "this list"),
    ];
    html! {
        footer.foot {
            details #keys {
                summary { "Keyboard" }
                dl.keys {
                    @for (key, does) in known { dt { kbd { (key) } } dd { (does) } }
                }
            }
            span #link.muted {}
        }
    }
}

/// A problem as a page.
pub(super) fn refused(problem: &Problem) -> Response {
    let status = problem::status(problem);
    let title = match status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::FORBIDDEN => "Not allowed",
        StatusCode::SERVICE_UNAVAILABLE => "Not possible at the moment",
        StatusCode::CONFLICT => "Somebody was first",
        other => other.canonical_reason().unwrap_or("ApiError"),
    };
    let main = html! {
        div.panel role="alert" {
            h1 { (title) }
            p { (super::sanitize::clean(&problem.detail)) }
            p { a href="/inbox" { "To the inbox" } }
        }
    };
    (status, bare(title, &main)).into_response()
}
