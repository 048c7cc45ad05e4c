//! Fixtures of the tests.

use chrono::DateTime;
use holdpoint_contracts::handoff::RequestView;
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::notification::{
    PendingReason, RequestEvent, RequestEventKind, WebhookFormat,
};
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::{HoldId, NotificationId, Workspace};
use serde_json::json;

use super::{
    Delivery, DeliveryKey, DeliveryTarget, FanOutProgress, NotificationEvent, Phase, Subject,
    Webhook, WebhookState,
};

pub(crate) fn acme() -> Workspace {
    "acme".parse().unwrap()
}

pub(crate) fn request(kind: HoldKind) -> RequestView {
    let id: HoldId = "hold_01920000000070008000000000000001-1".parse().unwrap();
    let view = json!({
        "id": id,
        "kind": kind,
        "run": id.run,
        "status": "open",
        "version": 1,
        "to": [],
        "question": "Agent outreach needs your attention for Ann",
        "options": [],
        "context": null,
        "on_timeout": "continue",
        "actions": [],
        "late": [],
        "created_at": "1970-01-01T00:00:00.000Z",
        "title": "Agent handoff: Ann",
        "priority": "high",
        "task": {
            "id": id.to_string(),
            "title": "Personal outreach to Ann",
            "tags": ["agent-handoff"],
            "priority": "high",
        },
    });
    serde_json::from_value(view).unwrap()
}

pub(crate) fn request_event(rev: u64, kind: RequestEventKind, to: &[&str]) -> RequestEvent {
    let request = request(HoldKind::Handoff);
    RequestEvent {
        id: request.id,
        rev,
        kind,
        by: None,
        at: DateTime::UNIX_EPOCH,
        to: to.iter().map(ToString::to_string).collect(),
        request: Box::new(request),
    }
}

/// A stored request event whose fan-out is done.
pub(crate) fn stored(event: RequestEvent, reopened: bool) -> NotificationEvent {
    let event = Box::new(event);
    let subject = Subject::Request { event, reopened };
    NotificationEvent::new(&acme(), subject, FanOutProgress::Done)
}

pub(crate) fn webhook() -> Webhook {
    Webhook {
        workspace: acme(),
        id: "wh_01920000000070008000000000000001".parse().unwrap(),
        url: "https://crm.example/hook".to_owned(),
        events: vec!["*".to_owned()],
        format: WebhookFormat::Standard,
        secret: "whsec_AAAA".to_owned(),
        created_by: "olga".parse().unwrap(),
        created_at: DateTime::UNIX_EPOCH,
        state: WebhookState::Active {
            failing_since: None,
        },
        last_error: None,
        configured_version: 1,
        version: 1,
    }
}

pub(crate) fn delivery() -> Delivery {
    let hold = "hold_01920000000070008000000000000001-1".parse().unwrap();
    Delivery {
        key: DeliveryKey {
            workspace: acme(),
            note: NotificationId::opened(hold),
            to: DeliveryTarget::Mail("ada".parse().unwrap()),
        },
        priority: Priority::Normal,
        after: Vec::new(),
        at: DateTime::UNIX_EPOCH,
        changed_at: DateTime::UNIX_EPOCH,
        phase: Phase::Pending {
            next_at: DateTime::UNIX_EPOCH,
            waits: PendingReason::Queued,
        },
        attempts: 0,
        last_error: None,
        version: 1,
    }
}
