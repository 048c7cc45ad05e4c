//! Events that leave by HTTP: who is called of what, and what came of it.

use chrono::{DateTime, Utc};
use holdpoint_ids::{UserName, WebhookId};
use serde::{Deserialize, Serialize};

use super::{DeliveryView, RequestEventKind, SERVICE};
use crate::message::{Command, Query};
use crate::run::{HoldKind, Page, RunStatus};

/// What a webhook is notified in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WebhookFormat {
    /// `{type, timestamp, data}`, as Standard Webhooks has it.
    #[default]
    Standard,
    /// `{text, blocks}`, as Slack's incoming webhooks take it, and what speaks like them.
    Slack,
}

impl WebhookFormat {
    /// Every format.
    pub const ALL: [Self; 2] = [Self::Standard, Self::Slack];

    /// The word in bodies and rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Slack => "slack",
        }
    }
}

/// The name of what happened to a request; none: no user is notified of timers.
#[must_use]
pub const fn event_name(kind: HoldKind, what: RequestEventKind) -> Option<&'static str> {
    Some(match (kind, what) {
        (HoldKind::Timer, _) => return None,
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
    /// Made by the caller, so that asking again adds nothing twice.
    pub id: WebhookId,
    /// Where it is called: http or https.
    pub url: String,
    /// Of what: names such as `approval.requested`, all of a kind (`handoff.*`), or everything (`*`).
    pub events: Vec<String>,
    /// The format.
    #[serde(default)]
    pub format: WebhookFormat,
}
command!(AddWebhook, "add_webhook", WebhookAdded, |it| it
    .id
    .to_string());

/// A webhook with what its calls are signed with: shown this once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookAdded {
    /// The webhook.
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
    /// The id.
    pub id: WebhookId,
    /// Where it is called: http or https.
    pub url: String,
    /// Of what, as for a new one.
    pub events: Vec<String>,
    /// The format.
    #[serde(default)]
    pub format: WebhookFormat,
    /// False: it is not called until a user says otherwise.
    #[serde(default = "yes")]
    pub enabled: bool,
}
command!(ChangeWebhook, "change_webhook", WebhookView, |it| it
    .id
    .to_string());

const fn yes() -> bool {
    true
}

/// Has a program notified nothing any more; what is on its way to it is dropped. Needs the signed assertion
/// of a user who may administer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveWebhook {
    /// The id.
    pub id: WebhookId,
}
command!(RemoveWebhook, "remove_webhook", WebhookView, |it| it
    .id
    .to_string());

/// Whether a webhook is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WebhookStatus {
    /// It is called.
    Active,
    /// It has failed for too long, or for good, or a user said so: nothing goes there any more. The caller who
    /// added it is notified in the application, unless it was a user's word.
    Disabled,
    /// A user removed it.
    Removed,
}

impl WebhookStatus {
    /// The word in bodies and rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Disabled => "disabled",
            Self::Removed => "removed",
        }
    }
}

/// One webhook as the API shows it: without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookView {
    /// The id.
    pub id: WebhookId,
    /// Where it is called.
    pub url: String,
    /// Names of events.
    pub events: Vec<String>,
    /// The format.
    pub format: WebhookFormat,
    /// Its status.
    pub status: WebhookStatus,
    /// Who added it.
    pub created_by: UserName,
    /// The instant.
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    /// Since when no call was taken; none: the last one was.
    #[serde(default, with = "crate::instant::option")]
    pub failing_since: Option<DateTime<Utc>>,
    /// Since when it is not called any more.
    #[serde(default, with = "crate::instant::option")]
    pub disabled_at: Option<DateTime<Utc>>,
    /// The last error.
    pub last_error: Option<String>,
}

/// The webhooks of a workspace, oldest first, without those that were removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListWebhooks {
    /// 1 to 500.
    pub limit: u64,
    /// From the page before.
    pub cursor: Option<String>,
}
query!(ListWebhooks, "webhooks", Page<WebhookView>);

/// One webhook; 404 for one that is not there or was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetWebhook {
    /// The id.
    pub id: WebhookId,
}
query!(GetWebhook, "webhook", WebhookView);

/// What went, or is to go, to one webhook, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListWebhookDeliveries {
    /// The webhook.
    pub webhook: WebhookId,
    /// 1 to 500.
    pub limit: u64,
    /// From the page before.
    pub cursor: Option<String>,
}
query!(
    ListWebhookDeliveries,
    "webhook_deliveries",
    Page<DeliveryView>
);
