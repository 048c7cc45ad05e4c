//! One event to a webhook of the workspace, signed as Standard Webhooks says.

use holdpoint_auth::WebhookSecret;
use holdpoint_contracts::instant;
use holdpoint_contracts::notification::{
    RequestEvent, RunEnded, WebhookFormat, event_name, run_event_name,
};
use holdpoint_ids::{WebhookId, Workspace};
use serde_json::{Value, json};

use super::post::Letter;
use super::{Pool, dropped, never, unread};
use crate::domain::{Call, DeliveryKey, Input, OVER, Report, Standing, link};
use crate::slack;
use crate::store::{self, DeliveryPayload, FeedPage};

impl Pool {
    /// What came of it counts for the webhook, too: one that never listens is not called for ever.
    pub(super) async fn call_webhook(
        &self,
        key: &DeliveryKey,
        id: WebhookId,
        parcel: &DeliveryPayload,
    ) -> Report {
        let report = match self.tell_webhook(key, id, parcel).await {
            Ok(report) => report,
            Err(not_called) => return *not_called,
        };
        let call = match &report {
            Report::Sent { .. } => Call::Taken,
            Report::Later(error) => Call::Failed(error.clone()),
            Report::Never(error) => Call::Refused(error.clone()),
            Report::Dropped(_) => return report,
        };
        let input = Input::Called {
            workspace: key.workspace.clone(),
            id,
            call,
        };
        if !self.handle.submit(vec![input]).await {
            tracing::warn!(webhook = %id, "what came of a call is not stored; the next one says it");
        }
        report
    }

    /// What came of the call; or, as an error, why there was none, which is not the other side's doing.
    async fn tell_webhook(
        &self,
        key: &DeliveryKey,
        id: WebhookId,
        parcel: &DeliveryPayload,
    ) -> Result<Report, Box<Report>> {
        let not_called = |report| Err(Box::new(report));
        let found = store::webhook(&self.readers, &key.workspace, id).await;
        let webhook = match found {
            Ok(Some(webhook)) => webhook,
            Ok(None) => return not_called(dropped("The webhook is not there any more.")),
            Err(error) => return not_called(unread("a webhook", &error)),
        };
        match webhook.standing {
            Standing::Active { .. } => {}
            Standing::Disabled { .. } => return not_called(dropped("The webhook is disabled.")),
            Standing::Removed => return not_called(dropped("The webhook is not there any more.")),
        }
        let base = self.outside.public_url.known().and_then(Option::as_deref);
        let body = match webhook.format {
            WebhookFormat::Slack if parcel.of.is_void() => return not_called(dropped(OVER)),
            WebhookFormat::Standard | WebhookFormat::Slack => {
                body(webhook.format, &key.workspace, &parcel.of, base)
            }
        };
        let Ok(secret) = WebhookSecret::read(&webhook.secret) else {
            return not_called(never("What the webhook is signed with cannot be read."));
        };
        let letter = Letter {
            what: "webhook",
            id: key.stable_id(),
            address: &webhook.url,
            secret: &secret,
            body: body.to_string(),
        };
        Ok(self.post(&letter).await)
    }
}

/// What is posted, in the words of a format.
pub(super) fn body(
    format: WebhookFormat,
    workspace: &Workspace,
    news: &FeedPage,
    base: Option<&str>,
) -> Value {
    match (format, news) {
        (WebhookFormat::Standard, FeedPage::Request { note, .. }) => {
            event(workspace, &note.fact, base)
        }
        (WebhookFormat::Slack, FeedPage::Request { note, .. }) => slack::message(&note.fact, base),
        (WebhookFormat::Standard, FeedPage::End(end)) => ended(workspace, end, base),
        (WebhookFormat::Slack, FeedPage::End(end)) => slack::ended(end, base),
    }
}

/// The same of a run that has ended.
fn ended(workspace: &Workspace, end: &RunEnded, base: Option<&str>) -> Value {
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

/// `{type, timestamp, data}`.
fn event(workspace: &Workspace, fact: &RequestEvent, base: Option<&str>) -> Value {
    let request = &fact.request;
    json!({
        "type": event_name(request.kind, fact.kind),
        "timestamp": instant::write(fact.at),
        "data": {
            "workspace": workspace,
            "request": request.id,
            "kind": request.kind,
            "status": request.status,
            "version": fact.rev,
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
            "by": fact.by,
            "outcome": request.outcome,
            "response": request.response,
            "asks_again": request.asks_again,
            "link": base.map(|base| format!("{base}{}", link(request.id))),
        },
    })
}
