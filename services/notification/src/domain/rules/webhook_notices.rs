//! What people are told of that is of no request: that a webhook is disabled, in the application and
//! nowhere else; and how a run ended ([`end`](super::end)).

use chrono::{DateTime, Utc};
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::notification::{NotificationType, NotificationView, RunEnded};
use holdpoint_ids::{HoldId, NotificationId, RunId, UserName};
use serde::{Deserialize, Serialize};

use super::fan_out::Audience;
use super::{Effect, Fact, Lookup, LookupFn, Need, Undecided, Webhook, active};

/// Owners that are told where whoever it concerns is gone.
const OWNERS_MAX: usize = 100;

/// Longest headline, in characters.
const TITLE_CHARS_MAX: usize = 200;

/// What is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// By which it is known.
    pub id: NotificationId,
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: NotificationType,
    pub title: String,
    pub message: String,
    /// How urgent it is.
    pub priority: Priority,
    pub at: DateTime<Utc>,
    /// The end of a run, where it tells of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Box<RunEnded>>,
}

impl Notice {
    /// A webhook is called no more: why, and what to do. Known by the version at which that happened, so
    /// that it is told once.
    pub(super) fn disabled(webhook: &Webhook, at: DateTime<Utc>) -> Self {
        let Webhook { id, url, .. } = webhook;
        let host = url::Url::parse(url).ok();
        let host = host.as_ref().and_then(url::Url::host_str);
        let title = format!("Webhook to {} is disabled", host.unwrap_or("nowhere"));
        let why = webhook.last_error.as_deref();
        let message = format!(
            "{} It is not called any more, and what happens meanwhile does not go there. Once it listens \
             again, enable it: holdpoint webhooks enable {id}",
            why.unwrap_or("It took no call.")
        );
        Self {
            id: NotificationId {
                hold: HoldId {
                    run: RunId::from_uuid(id.uuid()),
                    number: 0,
                },
                rev: Some(webhook.version),
            },
            kind: NotificationType::System,
            title: title.chars().take(TITLE_CHARS_MAX).collect(),
            message,
            priority: Priority::High,
            at,
            end: None,
        }
    }

    /// One person's copy.
    pub(super) fn view(&self, read_at: Option<DateTime<Utc>>) -> NotificationView {
        let run = self.end.as_ref().map(|end| end.run);
        let link = run.map_or_else(|| "/".to_owned(), |run| format!("/runs/{run}"));
        NotificationView {
            id: self.id,
            kind: self.kind,
            title: self.title.clone(),
            message: self.message.clone(),
            priority: self.priority,
            action_url: link.clone(),
            link,
            run,
            request: None,
            at: self.at,
            read_at,
            decided: None,
            ended: self.end.as_ref().map(|end| end.shown()),
        }
    }
}

/// Whoever added a webhook is told that it was disabled; the owners, where that person is gone.
pub(super) fn tell(
    webhook: &Webhook,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Result<Effect, Undecided> {
    let by = &webhook.created_by;
    let people = match active(&webhook.workspace, by, lookup)? {
        Some(person) => vec![person.name],
        None => owners(webhook, lookup)?,
    };
    Ok(Effect::Notice {
        workspace: webhook.workspace.clone(),
        notice: Box::new(Notice::disabled(webhook, now)),
        people,
    })
}

fn owners(webhook: &Webhook, lookup: LookupFn<'_>) -> Result<Vec<UserName>, Undecided> {
    let Some(Audience::Role(role)) = Audience::owners() else {
        return Ok(Vec::new());
    };
    let need = Need::Members {
        workspace: webhook.workspace.clone(),
        role,
        after: None,
        limit: OWNERS_MAX,
    };
    match lookup(&need) {
        Lookup::NotLoaded => Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::Members(names)) => Ok(names),
        Lookup::Found(
            Fact::Person(_)
            | Fact::RequestLifecycle(_)
            | Fact::Webhooks(_)
            | Fact::Unread(_)
            | Fact::WatchStatus(_)
            | Fact::Other,
        )
        | Lookup::Missing => Ok(Vec::new()),
    }
}
