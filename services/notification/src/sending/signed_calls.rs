//! Calls that are signed as Standard Webhooks requires: one event to a webhook or a person's own chat, and the
//! outcome of a standalone hold to its callback (M-6).

use holdpoint_auth::WebhookSecret;
use holdpoint_contracts::instant;
use holdpoint_contracts::notification::{
    ContactEvent, RequestEvent, RequestEventKind, RunEnded, WebhookFormat, event_name,
    run_event_name,
};
use holdpoint_ids::{WebhookId, Workspace};
use serde_json::{Value, json};

use super::signed_request::SignedRequest;
use super::{BARRED, Pool, dropped, later, never, unread};
use crate::domain::{
    AttemptReport, CallOutcome, DeliveryKey, Input, NotificationEvent, PERSON_GONE, SETTLED,
    Subject, WebhookState, contact_message, contact_title, link, mention_title,
};
use crate::slack;
use crate::store::{self, DeliveryPayload, may_look};

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

    /// Dropped if the person was disabled in the meantime, or if the request needs no action any more.
    pub(super) async fn chat(&self, key: &DeliveryKey, payload: &DeliveryPayload) -> AttemptReport {
        let Some(person) = payload.person.as_ref().filter(|person| person.active) else {
            return dropped(PERSON_GONE);
        };
        if payload.is_void() {
            return dropped(SETTLED);
        }
        if payload.event.needs_look() && !may_look(&person.roles) {
            return dropped(BARRED);
        }
        let said = store::preferences(&self.readers, &key.workspace, &person.name).await;
        let said = match said {
            Ok(said) => said.unwrap_or_default(),
            Err(error) => return unread("preferences", &error),
        };
        let chat = said.channels.chat.as_ref();
        let known = chat.and_then(|chat| Some((chat, chat.url.as_deref()?)));
        let Some((chat, address)) = known else {
            return never("The person has no chat any more.");
        };
        let secret = chat.secret.as_deref().unwrap_or_default();
        let Ok(secret) = WebhookSecret::read(secret) else {
            return never("The signing key of the chat cannot be read.");
        };
        let base = self.outside.public_url.known().and_then(Option::as_deref);
        let request = SignedRequest {
            what: "chat",
            id: key.stable_id(),
            address,
            secret: &secret,
            body: body(chat.format, &key.workspace, &payload.event, base).to_string(),
        };
        self.post(&request).await
    }

    pub(super) async fn call_back(
        &self,
        key: &DeliveryKey,
        payload: &DeliveryPayload,
    ) -> AttemptReport {
        let Some(event) = payload.event.as_request() else {
            return never("Only a request has a callback.");
        };
        let address = event.request.callback.as_deref().unwrap_or_default();
        let Some(secret) = self.secret(key).await else {
            return later("The signing key of callbacks could not be read.");
        };
        let body = outcome(event).to_string();
        let request = SignedRequest {
            what: "callback",
            id: key.stable_id(),
            address,
            secret: &secret,
            body,
        };
        self.post(&request).await
    }

    /// Made when it is first used.
    async fn secret(&self, key: &DeliveryKey) -> Option<WebhookSecret> {
        if let Some(text) = self.stored_secret(key).await {
            return WebhookSecret::read(&text).ok();
        }
        let input = Input::ShowSecret {
            workspace: key.workspace.clone(),
            fresh: WebhookSecret::fresh().write(),
        };
        if !self.handle.submit(vec![input]).await {
            return None;
        }
        WebhookSecret::read(&self.stored_secret(key).await?).ok()
    }

    async fn stored_secret(&self, key: &DeliveryKey) -> Option<String> {
        let found = store::secret(&self.readers, &key.workspace).await;
        found
            .inspect_err(|error| tracing::warn!(%error, "a webhook secret cannot be read"))
            .ok()?
    }
}

fn body(
    format: WebhookFormat,
    workspace: &Workspace,
    event: &NotificationEvent,
    base: Option<&str>,
) -> Value {
    match (format, &event.subject) {
        (WebhookFormat::Standard, Subject::Request { event, .. })
            if event.kind == RequestEventKind::Mentioned =>
        {
            mention_body(workspace, event, base)
        }
        (WebhookFormat::Standard, Subject::Contact { event, is_last, .. }) => {
            contact_body(workspace, event, *is_last)
        }
        (WebhookFormat::Slack, Subject::Contact { event, is_last, .. }) => {
            slack::contact_message(event, *is_last)
        }
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

/// `{type, timestamp, data}` of a contact event, for a person's own chat.
fn contact_body(workspace: &Workspace, event: &ContactEvent, is_last: bool) -> Value {
    json!({
        "type": event.kind,
        "timestamp": instant::write(event.at),
        "data": {
            "workspace": workspace,
            "contact": event.contact,
            "title": contact_title(event),
            "message": contact_message(event, is_last),
        },
    })
}

/// `{type, timestamp, data}` of a mention, for a person's own chat. It has no answer, because the person may be no
/// recipient of the request.
fn mention_body(workspace: &Workspace, event: &RequestEvent, base: Option<&str>) -> Value {
    let request = &event.request;
    json!({
        "type": "mention",
        "timestamp": instant::write(event.at),
        "data": {
            "workspace": workspace,
            "request": request.id,
            "run": request.run,
            "agent": request.agent,
            "title": mention_title(event),
            "by": event.by,
            "link": base.map(|base| format!("{base}{}", link(request.id))),
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

/// `{id, outcome, data, by, at}`. `asks_again` names the earlier hold that it repeats: the receiver may know
/// only that one.
fn outcome(event: &RequestEvent) -> Value {
    let mut body = json!({
        "id": event.id,
        "outcome": event.request.outcome,
        "data": event.request.response,
        "by": event.request.decided_by,
        "at": instant::write(event.at),
    });
    if let (Some(before), Some(fields)) = (event.request.asks_again, body.as_object_mut()) {
        fields.insert("asks_again".to_owned(), json!(before));
    }
    body
}
