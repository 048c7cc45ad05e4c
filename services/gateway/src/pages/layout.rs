//! The HTML document around every page, and the headers under which it is served.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use holdpoint_contracts::Problem;
use maud::{DOCTYPE, Markup, html};

use super::assets::{ICON, SCRIPT, STYLE};
use super::sanitize::clean;
use crate::problem;

/// Only our own files, nothing inline, and no embedding in frames.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'self'; \
                      frame-ancestors 'none'; object-src 'none'";

/// The clock that the script counts from.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageClock {
    pub(super) now: DateTime<Utc>,
    /// True under `--test-clock`, where nothing counts down by itself.
    pub(super) is_frozen: bool,
}

/// Adds the headers of all pages. The referrer is sent to our own address, because browsers would
/// otherwise send forms with `Origin: null` and the origin check could not work.
pub(super) fn add_security_headers(mut response: Response) -> Response {
    let opener = HeaderName::from_static("cross-origin-opener-policy");
    let headers = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
        (opener, "same-origin"),
    ];
    for (name, value) in headers {
        // A page may have set a stricter value.
        let entry = response.headers_mut().entry(name);
        entry.or_insert(HeaderValue::from_static(value));
    }
    response
}

pub(super) fn set_headers<const N: usize>(
    mut response: Response,
    headers: [(HeaderName, &'static str); N],
) -> Response {
    for (name, value) in headers {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// A narrow page without a signed-in user.
pub(super) fn anonymous_page(title: &str, main: &Markup) -> Markup {
    document(title, None, false, &html! { main.narrow #main { (main) } })
}

pub(super) fn document(
    title: &str,
    clock: Option<PageClock>,
    is_live: bool,
    body: &Markup,
) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (clean(title)) " – Holdpoint" }
                link rel="icon" type="image/svg+xml" href=(ICON.path);
                link rel="stylesheet" href=(STYLE.path);
                script src=(SCRIPT.path) defer {}
            }
            body data-live[is_live] data-now=[clock.map(|clock| clock.now.timestamp_millis())]
                data-frozen[clock.is_some_and(|clock| clock.is_frozen)] {
                a.skip href="#main" { "Skip to content" }
                (body)
                div #say.hidden role="status" aria-live="polite" {}
            }
        }
    }
}

pub(super) fn problem_page(problem: &Problem) -> Response {
    let status = problem::status(problem);
    let title = match status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::FORBIDDEN => "Not allowed",
        StatusCode::SERVICE_UNAVAILABLE => "Temporarily unavailable",
        other => other.canonical_reason().unwrap_or("Error"),
    };
    let main = html! {
        div.panel role="alert" {
            h1 { (title) }
            p { (clean(&problem.detail)) }
            p { a href="/inbox" { "Go to the inbox" } }
        }
    };
    (status, anonymous_page(title, &main)).into_response()
}
