//! Parts that the forms of the settings page share.

use axum::response::{IntoResponse, Redirect, Response};
use holdpoint_contracts::notification::WebhookFormat;
use maud::{Markup, html};

pub(super) const PATH: &str = "/settings";

/// Back to the page, which says what was done.
pub(super) fn redirect_done(done: &str) -> Response {
    Redirect::to(&format!("{PATH}?done={done}")).into_response()
}

/// A radio button or checkbox among others.
pub(super) fn choice(kind: &str, name: &str, value: &str, label: &str, is_checked: bool) -> Markup {
    html! {
        label.choice { input type=(kind) name=(name) value=(value) checked[is_checked]; " " (label) }
    }
}

pub(super) fn format_select(name: &str, format: WebhookFormat, slack_label: &str) -> Markup {
    let is_slack = format == WebhookFormat::Slack;
    html! {
        label for=(name) { "Format" }
        select id=(name) name=(name) {
            option value="standard" selected[!is_slack] { "Standard Webhooks, for a program" }
            option value="slack" selected[is_slack] { (slack_label) }
        }
    }
}
