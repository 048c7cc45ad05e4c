//! One standing approval: its terms, its state and its uses.

use holdpoint_auth::Right;
use holdpoint_contracts::handoff::{StandingApprovalStatus, StandingApprovalView};
use holdpoint_ids::StandingApprovalId;
use maud::{Markup, html};
use serde_json::{Map, Value};

use super::super::labels::{self, Tone};
use super::super::request_forms::unfold;
use super::super::sanitize::{clean, one_line};
use super::super::session::SignedInUser;

pub(super) const PATH: &str = "/standing-approvals";

/// A longer schema opens by a click, in lines.
const LINES_MAX: usize = 20;

pub(super) fn path_of(id: StandingApprovalId) -> String {
    format!("{PATH}/{id}")
}

pub(in crate::pages) fn render(user: &SignedInUser, approval: &StandingApprovalView) -> Markup {
    let path = path_of(approval.id);
    let kind = match approval.call {
        Some(_) => "Early approval",
        None => "Standing approval",
    };
    html! {
        div.chips { span.kind { (kind) } (status_chip(approval.status)) }
        p.lead {
            "Calls of " a href=(path) { code { (one_line(approval.tool.as_str(), 100)) } }
            " by agent " a href={ "/agents/" (approval.agent) } { (approval.agent) }
        }
        @if let Some(reason) = &approval.reason { p.why { (clean(reason)) } }
        (terms(user, approval))
        (limits(approval))
        @if may_revoke(user, approval) {
            (user.form(&format!("{path}/revoke"), "", &[], &revoke_fields(approval)))
        }
    }
}

fn status_chip(status: StandingApprovalStatus) -> Markup {
    let (tone, label) = match status {
        StandingApprovalStatus::Active => (Tone::Good, "Active"),
        StandingApprovalStatus::UsedUp => (Tone::Calm, "Used up"),
        StandingApprovalStatus::Expired => (Tone::Calm, "Expired"),
        StandingApprovalStatus::Revoked => (Tone::Bad, "Revoked"),
    };
    labels::chip(tone, label)
}

fn terms(user: &SignedInUser, approval: &StandingApprovalView) -> Markup {
    let zone = user.zone;
    let is_active = approval.status == StandingApprovalStatus::Active;
    html! {
        p.meta {
            @match &approval.version {
                Some(version) => { span { "Version " strong { (one_line(version, 200)) } } }
                None => { span { "Only calls without a version" } }
            }
            span { "Used " strong { (approval.used) " of " (approval.max_uses) } }
            @if approval.expires_at > user.now {
                span {
                    "Expires on " (labels::instant(approval.expires_at, zone))
                    @if is_active { ", " (labels::countdown(approval.expires_at, user.now)) }
                }
            } @else {
                span { "Expired on " (labels::instant(approval.expires_at, zone)) }
            }
            span { "Created by " strong { (labels::actor(&approval.created_by)) } " on " (labels::instant(approval.created_at, zone)) }
            @if let (Some(by), Some(at)) = (&approval.revoked_by, approval.revoked_at) {
                span { "Revoked by " strong { (labels::actor(by)) } " on " (labels::instant(at, zone)) }
            }
        }
    }
}

/// The calls that it covers. The schema is shown in full, because a summary could promise other limits.
fn limits(approval: &StandingApprovalView) -> Markup {
    if let Some(call) = &approval.call {
        return html! {
            p { "Only the call of step " code { (one_line(&call.step, 100)) } " of "
                a href={ "/runs/" (call.run) } { "one run" } ", with the arguments that were approved." }
        };
    }
    let schema = &approval.args_schema;
    if schema.as_object().is_some_and(Map::is_empty) {
        return html! { p { "All arguments are approved." } };
    }
    let text = json_text(schema);
    html! {
        details open[text.lines().count() <= LINES_MAX] {
            summary { "Limits on arguments (JSON Schema)" }
            pre { (clean(&text)) }
        }
    }
}

pub(super) fn json_text(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// The service decides; the button is shown where revoking is allowed and has an effect.
fn may_revoke(user: &SignedInUser, approval: &StandingApprovalView) -> bool {
    let has_effect = match approval.status {
        StandingApprovalStatus::Active => true,
        // It counts for the limits of the workspace until it expires.
        StandingApprovalStatus::UsedUp => approval.expires_at > user.now,
        StandingApprovalStatus::Expired | StandingApprovalStatus::Revoked => false,
    };
    let is_creator = approval.created_by == user.name();
    has_effect && user.may_approve_in_advance() && (is_creator || user.may(Right::Operate))
}

fn revoke_fields(approval: &StandingApprovalView) -> Markup {
    let consequence = if approval.status == StandingApprovalStatus::UsedUp {
        "It has no uses left. After it is revoked, it no longer counts for the limits of standing approvals."
    } else if approval.call.is_some() {
        "People are asked about the call when its step is reached."
    } else {
        "Later calls are asked of people again. Approvals that it has given remain: an approved call that has not started yet still starts."
    };
    let inside = html! {
        p { (consequence) " A revoked standing approval cannot be restored." }
        button.danger {
            "Revoke"
            span.hidden { ": calls of " (one_line(approval.tool.as_str(), 100)) " by " (approval.agent) }
        }
    };
    unfold("Revoke…", false, &inside)
}

/// The requests that it approved, newest first.
pub(in crate::pages) fn uses(user: &SignedInUser, approval: &StandingApprovalView) -> Markup {
    let shown = u32::try_from(approval.uses.len()).unwrap_or(u32::MAX);
    html! {
        section #uses {
            h2 { "Uses" }
            @if approval.uses.is_empty() { p.muted { "No call has been approved by it." } }
            ul.ended {
                @for one in &approval.uses {
                    li { "Use " (one.number) ": " a href={ "/requests/" (one.request) } { "request" } " on " (labels::instant(one.at, user.zone)) }
                }
            }
            @if approval.used > shown && shown > 0 { p.muted { "Only the newest " (shown) " uses are shown." } }
        }
    }
}
