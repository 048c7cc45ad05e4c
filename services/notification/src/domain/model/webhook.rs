//! A program that is notified of requests and run ends: of which events, and whether it still accepts calls.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use holdpoint_contracts::notification::{
    RequestEvent, RequestEventKind, RunEnded, WebhookFormat, WebhookStatus, WebhookView,
    event_name, run_event_name,
};
use holdpoint_contracts::run::{HoldKind, RunStatus};
use holdpoint_contracts::{FieldError, Problem};
use holdpoint_ids::{UserName, WebhookId, Workspace};
use url::Url;

/// Webhooks of one workspace; one more is refused.
pub const WEBHOOKS_MAX: usize = 50;

/// Longest address, in bytes.
pub(super) const URL_BYTES_MAX: usize = 2_048;

/// Most names of events of one webhook.
const EVENTS_MAX: usize = 50;

/// The kinds of requests whose events have names.
const KINDS: [HoldKind; 3] = [HoldKind::Approval, HoldKind::Input, HoldKind::Handoff];

#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    pub workspace: Workspace,
    pub id: WebhookId,
    pub url: String,
    pub events: Vec<String>,
    pub format: WebhookFormat,
    /// `whsec_…`; empty once it was removed.
    pub secret: String,
    pub created_by: UserName,
    pub created_at: DateTime<Utc>,
    pub state: WebhookState,
    pub last_error: Option<String>,
    /// The version at which a person added or changed it last. One notice a configuration reports that it is
    /// too far behind.
    pub configured_version: u64,
    /// Rises with every change.
    pub version: u64,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_tuple("Webhook");
        shown.field(&self.id).field(&self.state).finish()
    }
}

/// The part of a webhook that a person configures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookConfig {
    pub url: String,
    pub events: Vec<String>,
    pub format: WebhookFormat,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookState {
    Active {
        /// When the first of the failed calls was made. `None`: the last call was accepted.
        failing_since: Option<DateTime<Utc>>,
    },
    /// Its calls failed for too long or for good, or a person disabled it.
    Disabled { since: DateTime<Utc> },
    /// A person removed it.
    Removed,
}

/// What decisions about events read of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    pub webhook: Arc<Webhook>,
    /// Deliveries to it that are pending.
    pub pending: u64,
}

impl Webhook {
    /// Whether it is notified of a request event. A chat that was notified of an opened request is notified of
    /// its end, too.
    #[must_use]
    pub fn wants(&self, event: &RequestEvent) -> bool {
        let kind = event.request.kind;
        let named = |what: RequestEventKind| {
            event_name(kind, what).is_some_and(|event| self.has_named(event))
        };
        let follows = match self.format {
            WebhookFormat::Standard => false,
            WebhookFormat::Slack => event.kind.is_end() && named(RequestEventKind::Opened),
        };
        self.is_active() && (named(event.kind) || follows)
    }

    /// Whether it is notified of this end of a run.
    #[must_use]
    pub fn wants_end(&self, end: &RunEnded) -> bool {
        self.is_active() && run_event_name(end.status).is_some_and(|event| self.has_named(event))
    }

    /// Whether it is notified of any end of a run.
    #[must_use]
    pub fn wants_ends(&self) -> bool {
        let mut all = RunStatus::ALL.into_iter().filter_map(run_event_name);
        self.is_active() && all.any(|event| self.has_named(event))
    }

    fn has_named(&self, event: &str) -> bool {
        self.events.iter().any(|wanted| is_meant(wanted, event))
    }
}

/// `*`, `approval.*` or a name.
fn is_meant(wanted: &str, event: &str) -> bool {
    match wanted.strip_suffix('*') {
        Some("") => true,
        Some(kind) => kind.ends_with('.') && event.starts_with(kind),
        None => wanted == event,
    }
}

fn event_names() -> impl Iterator<Item = &'static str> {
    let of = |kind: HoldKind| {
        RequestEventKind::ALL
            .into_iter()
            .filter_map(move |what| event_name(kind, what))
    };
    let ends = RunStatus::ALL.into_iter().filter_map(run_event_name);
    KINDS.into_iter().flat_map(of).chain(ends)
}

/// Checks an address and names of events, and returns every error at once.
///
/// # Errors
/// 422 `invalid_body`.
pub fn check_webhook(url: &str, events: &[String]) -> Result<Url, Problem> {
    let mut errors = Vec::new();
    let parsed = parse_url(url);
    if parsed.is_none() {
        let message =
            format!("url must be an http or https address of at most {URL_BYTES_MAX} bytes");
        errors.push(wrong("/url", url, message));
    }
    if !(1..=EVENTS_MAX).contains(&events.len()) {
        let message = format!("events must have 1 to {EVENTS_MAX} names; `*` is everything");
        errors.push(wrong("/events", "", message));
    }
    for (place, event) in events.iter().enumerate().take(EVENTS_MAX) {
        if !event_names().any(|name| is_meant(event, name)) {
            errors.push(unknown(place, event));
        }
    }
    match parsed {
        Some(url) if errors.is_empty() => Ok(url),
        Some(_) | None => {
            let messages: Vec<_> = errors.iter().map(|error| error.message.as_str()).collect();
            Err(Problem::invalid_body(messages.join("; ")).with_errors(errors))
        }
    }
}

pub(super) fn parse_url(text: &str) -> Option<Url> {
    let is_clean = text.len() <= URL_BYTES_MAX && !text.chars().any(char::is_control);
    let is_web = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    Url::parse(text).ok().filter(|url| is_clean && is_web(url))
}

fn unknown(place: usize, event: &str) -> FieldError {
    let all: Vec<_> = event_names().collect();
    let shown: String = event.chars().take(100).collect();
    let message = format!(
        "unknown event `{shown}`; expected `*`, `approval.*`, `input.*`, `handoff.*`, `run.*`, {}",
        all.join(", ")
    );
    let kind = shown.split('.').next().unwrap_or_default();
    let near = all
        .iter()
        .filter(|name| name.split('.').next() == Some(kind));
    FieldError {
        nearest: near.map(|name| (*name).to_owned()).collect(),
        ..wrong(&format!("/events/{place}"), event, message)
    }
}

fn wrong(pointer: &str, text: &str, message: String) -> FieldError {
    FieldError {
        text: text.chars().take(100).collect(),
        ..FieldError::at(pointer, message)
    }
}

impl Webhook {
    #[must_use]
    pub const fn is_active(&self) -> bool {
        matches!(self.state, WebhookState::Active { .. })
    }

    #[must_use]
    pub fn view(&self) -> WebhookView {
        let (status, failing_since, disabled_at) = match self.state {
            WebhookState::Active { failing_since } => (WebhookStatus::Active, failing_since, None),
            WebhookState::Disabled { since } => (WebhookStatus::Disabled, None, Some(since)),
            WebhookState::Removed => (WebhookStatus::Removed, None, None),
        };
        WebhookView {
            id: self.id,
            url: self.url.clone(),
            events: self.events.clone(),
            format: self.format,
            status,
            created_by: self.created_by.clone(),
            created_at: self.created_at,
            failing_since,
            disabled_at,
            last_error: self.last_error.clone(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallOutcome {
    Accepted,
    /// It failed, and may succeed later.
    Failed(String),
    /// It failed, and a retry cannot help.
    Refused(String),
}
