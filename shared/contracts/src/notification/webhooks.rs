//! Events that leave by HTTP: who is called of what, and what came of it.

use chrono::{DateTime, Utc};
use holdpoint_ids::{UserName, WebhookId};
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use super::RequestEventKind;
use crate::run::{HoldKind, RunStatus};

words!(WebhookFormat, WebhookStatus);
all_variants!(WebhookFormat);

/// The format of a webhook's calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(IntoStaticStr, VariantArray)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum WebhookFormat {
    /// `{type, timestamp, data}`, as Standard Webhooks has it.
    #[default]
    Standard,
    /// `{text, blocks}`, as Slack's incoming webhooks take it, and what speaks like them.
    Slack,
}

/// The name of what happened to a request; none: no program is notified of timers and mentions.
#[must_use]
pub const fn event_name(kind: HoldKind, what: RequestEventKind) -> Option<&'static str> {
    Some(match (kind, what) {
        (HoldKind::Timer | HoldKind::Signal | HoldKind::ChildRun, _)
        | (_, RequestEventKind::Mentioned) => return None,
        (HoldKind::Approval, RequestEventKind::Opened) => "approval.requested",
        (HoldKind::Approval, RequestEventKind::Assigned) => "approval.reassigned",
        (HoldKind::Approval, RequestEventKind::Escalated) => "approval.escalated",
        (HoldKind::Approval, RequestEventKind::TakenOver) => "approval.taken_over",
        (HoldKind::Approval, RequestEventKind::Decided) => "approval.decided",
        (HoldKind::Approval, RequestEventKind::Expired) => "approval.expired",
        (HoldKind::Approval, RequestEventKind::Withdrawn) => "approval.withdrawn",
        (HoldKind::Input, RequestEventKind::Opened) => "input.requested",
        (HoldKind::Input, RequestEventKind::Assigned) => "input.reassigned",
        (HoldKind::Input, RequestEventKind::Escalated) => "input.escalated",
        (HoldKind::Input, RequestEventKind::TakenOver) => "input.taken_over",
        (HoldKind::Input, RequestEventKind::Decided) => "input.answered",
        (HoldKind::Input, RequestEventKind::Expired) => "input.expired",
        (HoldKind::Input, RequestEventKind::Withdrawn) => "input.withdrawn",
        (HoldKind::Handoff, RequestEventKind::Opened) => "handoff.offered",
        (HoldKind::Handoff, RequestEventKind::Assigned) => "handoff.reassigned",
        (HoldKind::Handoff, RequestEventKind::Escalated) => "handoff.escalated",
        (HoldKind::Handoff, RequestEventKind::TakenOver) => "handoff.taken_over",
        (HoldKind::Handoff, RequestEventKind::Decided) => "handoff.completed",
        (HoldKind::Handoff, RequestEventKind::Expired) => "handoff.expired",
        (HoldKind::Handoff, RequestEventKind::Withdrawn) => "handoff.withdrawn",
    })
}

/// The name of how a run ended; none: it has not.
#[must_use]
pub const fn run_event_name(status: RunStatus) -> Option<&'static str> {
    match status {
        RunStatus::Completed => Some("run.completed"),
        RunStatus::Failed => Some("run.failed"),
        RunStatus::Cancelled => Some("run.cancelled"),
        RunStatus::Queued
        | RunStatus::Running
        | RunStatus::Waiting
        | RunStatus::AwaitingApproval
        | RunStatus::AwaitingInput
        | RunStatus::PausedForIntervention => None,
    }
}

/// Has a program notified of what happens to requests, and of how runs end. Needs the signed assertion of a user who may
/// administer; 422 `invalid_body` says what is wrong where, 409 `too_many_webhooks` that there is no
/// room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddWebhook {
    /// Made by the caller, so that a repetition adds nothing.
    pub id: WebhookId,
    /// Where it is called: http or https.
    pub url: String,
    /// Names of events such as `approval.requested`, all of a kind (`handoff.*`), or everything (`*`).
    pub events: Vec<String>,
    #[serde(default)]
    pub format: WebhookFormat,
}

/// A webhook with what its calls are signed with: shown this once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookAdded {
    #[serde(flatten)]
    pub webhook: WebhookView,
    /// `whsec_` and base64.
    pub secret: String,
}

/// Has a program called elsewhere, or notified of other things, or called again after it was disabled: all of
/// it is as said here, and what is left out is as by default. What it is signed with stays. Needs the
/// signed assertion of a user who may administer; 422 `invalid_body` says what is wrong where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeWebhook {
    pub id: WebhookId,
    /// Where it is called: http or https.
    pub url: String,
    /// Names of events, as for a new one.
    pub events: Vec<String>,
    #[serde(default)]
    pub format: WebhookFormat,
    /// False: it is not called until a user says otherwise.
    #[serde(default = "yes")]
    pub enabled: bool,
}

const fn yes() -> bool {
    true
}

/// Ends the notifications of a program; its pending deliveries are dropped. Needs the signed assertion
/// of a user who may administer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveWebhook {
    pub id: WebhookId,
}

/// Whether a webhook is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum WebhookStatus {
    /// It is called.
    Active,
    /// It failed for too long or for good, or a user disabled it: it is not called. After failures the user who added
    /// it is notified in the application.
    Disabled,
    Removed,
}

/// One webhook as the API shows it: without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookView {
    pub id: WebhookId,
    /// Where it is called.
    pub url: String,
    pub events: Vec<String>,
    pub format: WebhookFormat,
    pub status: WebhookStatus,
    pub created_by: UserName,
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    /// Since when no call was taken; none: the last one was.
    #[serde(default, with = "crate::instant::option")]
    pub failing_since: Option<DateTime<Utc>>,
    /// Since when it is not called.
    #[serde(default, with = "crate::instant::option")]
    pub disabled_at: Option<DateTime<Utc>>,
    pub last_error: Option<String>,
}

/// The webhooks of a workspace, oldest first, without those that were removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListWebhooks {
    /// 1 to 500.
    pub limit: u64,
    pub cursor: Option<String>,
}

/// One webhook; 404 for one that is not there or was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetWebhook {
    pub id: WebhookId,
}

/// The deliveries to one webhook, done and pending, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListWebhookDeliveries {
    pub webhook: WebhookId,
    /// 1 to 500.
    pub limit: u64,
    pub cursor: Option<String>,
}
