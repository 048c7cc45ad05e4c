//! One event to a webhook of the workspace, signed as Standard Webhooks requires.

use holdpoint_auth::WebhookSecret;
use holdpoint_contracts::instant;
use holdpoint_contracts::notification::{
    RequestEvent, RunEnded, WebhookFormat, event_name, run_event_name,
};
use holdpoint_ids::{WebhookId, Workspace};
use serde_json::{Value, json};

use super::signed_request::SignedRequest;
use super::{Pool, dropped, never, unread};
use crate::domain::{
    AttemptReport, CallOutcome, DeliveryKey, Input, NotificationEvent, SETTLED, Subject,
    WebhookState, link,
};
use crate::slack;
use crate::store::{self, DeliveryPayload};

impl Pool {
    /// Calls a webhook and records the result at it: a webhook that accepts no call is disabled after a while.
    pub(super) async fn call_webhook(
        &self,
        key: &DeliveryKey,
        id: WebhookId,
        payload: &DeliveryPayload,
    ) -> AttemptReport {
        let report = match self.send_to_webhook(key, id, payload).await {
            Ok(report) => report,
            Err(not_called) => return *not_called,
        };
        let outcome = match &report {
            AttemptReport::Sent { .. } => CallOutcome::Accepted,
            AttemptReport::Later(error) => CallOutcome::Failed(error.clone()),
            AttemptReport::Never(error) => CallOutcome::Refused(error.clone()),
            AttemptReport::Dropped(_) => return report,
        };
        let input = Input::RecordCall {
            workspace: key.workspace.clone(),
            id,
            outcome,
        };
        if !self.handle.submit(vec![input]).await {
            tracing::warn!(webhook = %id, "the result of a call is not stored; the next call will be recorded");
        }
        report
    }

    /// The report of the call. The error is the reason why no call was made; it does not count against the
    /// webhook.
    async fn send_to_webhook(
        &self,
        key: &DeliveryKey,
        id: WebhookId,
        payload: &DeliveryPayload,
    ) -> Result<AttemptReport, Box<AttemptReport>> {
        let not_called = |report| Err(Box::new(report));
        let found = store::webhook(&self.readers, &key.workspace, id).await;
        let webhook = match found {
            Ok(Some(webhook)) => webhook,
            Ok(None) => return not_called(dropped("The webhook was removed.")),
            Err(error) => return not_called(unread("a webhook", &error)),
        };
        match webhook.state {
            WebhookState::Active { .. } => {}
            WebhookState::Disabled { .. } => {
                return not_called(dropped("The webhook is disabled."));
            }
            WebhookState::Removed => return not_called(dropped("The webhook was removed.")),
        }
        if webhook.format == WebhookFormat::Slack && payload.is_void() {
            return not_called(dropped(SETTLED));
        }
        let base = self.outside.public_url.known().and_then(Option::as_deref);
        let body = body(webhook.format, &key.workspace, &payload.event, base);
        let Ok(secret) = WebhookSecret::read(&webhook.secret) else {
            return not_called(never("The signing key of the webhook cannot be read."));
        };
        let request = SignedRequest {
            what: "webhook",
            id: key.stable_id(),
            address: &webhook.url,
            secret: &secret,
            body: body.to_string(),
        };
        Ok(self.post(&request).await)
    }
}

pub(super) fn body(
    format: WebhookFormat,
    workspace: &Workspace,
    event: &NotificationEvent,
    base: Option<&str>,
) -> Value {
    match (format, &event.subject) {
        (WebhookFormat::Standard, Subject::Request { event, .. }) => {
            request_body(workspace, event, base)
        }
        (WebhookFormat::Slack, Subject::Request { event, .. }) => slack::message(event, base),
        (WebhookFormat::Standard, Subject::RunEnd(end)) => run_end_body(workspace, end, base),
        (WebhookFormat::Slack, Subject::RunEnd(end)) => slack::run_end_message(end, base),
        // No rule delivers a system notice.
        (WebhookFormat::Standard | WebhookFormat::Slack, Subject::System(_)) => Value::Null,
    }
}

/// `{type, timestamp, data}` of a run end.
fn run_end_body(workspace: &Workspace, end: &RunEnded, base: Option<&str>) -> Value {
    json!({
        "type": run_event_name(end.status),
        "timestamp": instant::write(end.ended_at),
        "data": {
            "workspace": workspace,
            "run": end.run,
            "agent": end.agent,
            "status": end.status,
            "message": end.message,
            "by": end.by,
            "started_at": instant::write(end.started_at),
            "ended_at": instant::write(end.ended_at),
            "took_ms": end.took_ms(),
            "link": base.map(|base| format!("{base}/runs/{}", end.run)),
        },
    })
}

/// `{type, timestamp, data}` of a request event.
fn request_body(workspace: &Workspace, event: &RequestEvent, base: Option<&str>) -> Value {
    let request = &event.request;
    json!({
        "type": event_name(request.kind, event.kind),
        "timestamp": instant::write(event.at),
        "data": {
            "workspace": workspace,
            "request": request.id,
            "kind": request.kind,
            "status": request.status,
            "version": event.rev,
            "run": request.run,
            "step": request.step,
            "agent": request.agent,
            "title": request.title,
            "question": request.question,
            "options": request.options,
            "priority": request.priority,
            "to": request.to,
            "assignee": request.assignee,
            "deadline": request.deadline.map(instant::write),
            "by": event.by,
            "outcome": request.outcome,
            "response": request.response,
            "asks_again": request.asks_again,
            "link": base.map(|base| format!("{base}{}", link(request.id))),
        },
    })
}
