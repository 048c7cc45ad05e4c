//! A program that is told of what happens to requests, and how runs end: of what, and whether it still
//! listens.

#[cfg(test)]
mod tests;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::executor::RunEndsOf;
use holdpoint_contracts::notification::{
    RequestEvent, RequestEventKind, RunEnded, WebhookAdded, WebhookFormat, WebhookStatus,
    WebhookView, event_name, run_event_name,
};
use holdpoint_contracts::run::{HoldKind, RunStatus};
use holdpoint_contracts::{FieldError, Problem};
use holdpoint_ids::{UserName, WebhookId, Workspace};
use url::Url;

use super::{
    Aggregate, Change, Effect, EndsFor, Fact, Lookup, LookupFn, Need, Outcome, Refusal, Reply,
    Undecided, notice,
};

/// Webhooks of one workspace; one more is refused.
pub const WEBHOOKS_MAX: usize = 50;

/// Whoever takes no call for so long is not called any more. Longer than all tries of one delivery.
const DISABLED_AFTER: TimeDelta = TimeDelta::days(5);

/// Longest address, in bytes.
pub(super) const URL_BYTES_MAX: usize = 2_048;

/// Most names of events of one webhook.
const EVENTS_MAX: usize = 50;

/// Longest stored sentence about what went wrong, in characters.
const ERROR_CHARS_MAX: usize = 300;

/// Everything that has a name.
const KINDS: [HoldKind; 3] = [HoldKind::Approval, HoldKind::Input, HoldKind::Handoff];
const WHATS: [RequestEventKind; 7] = [
    RequestEventKind::Opened,
    RequestEventKind::Assigned,
    RequestEventKind::Escalated,
    RequestEventKind::TakenOver,
    RequestEventKind::Decided,
    RequestEventKind::Expired,
    RequestEventKind::Withdrawn,
];

/// One webhook.
#[derive(Clone, PartialEq)]
pub struct Webhook {
    pub workspace: Workspace,
    pub id: WebhookId,
    /// Where it is called.
    pub url: String,
    pub events: Vec<String>,
    pub format: WebhookFormat,
    /// `whsec_…`; empty once it was removed.
    pub secret: String,
    pub created_by: UserName,
    pub created_at: DateTime<Utc>,
    /// Whether it is called.
    pub standing: Standing,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// Rises with every change.
    pub version: u64,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_tuple("Webhook");
        shown.field(&self.id).field(&self.standing).finish()
    }
}

/// Where a webhook is called, of what and how, as somebody says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wording {
    pub url: String,
    pub events: Vec<String>,
    pub format: WebhookFormat,
}

/// Whether a webhook is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It is.
    Active {
        /// Since when no call was taken; none: the last one was.
        failing_since: Option<DateTime<Utc>>,
    },
    /// It has failed for too long, or for good.
    Disabled { since: DateTime<Utc> },
    /// Somebody removed it.
    Removed,
}

/// What decisions about requests know of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    pub id: WebhookId,
    /// Of what it is told.
    pub events: Vec<String>,
    pub format: WebhookFormat,
    /// False: disabled.
    pub active: bool,
}

impl Hook {
    /// Whether it is told of a fact. A channel of people that was told that something is asked is told
    /// how that ended, too.
    #[must_use]
    pub fn wants(&self, fact: &RequestEvent) -> bool {
        let kind = fact.request.kind;
        let named = |what: RequestEventKind| {
            event_name(kind, what).is_some_and(|event| self.has_named(event))
        };
        let follows = match self.format {
            WebhookFormat::Standard => false,
            WebhookFormat::Slack => fact.kind.is_end() && named(RequestEventKind::Opened),
        };
        self.active && (named(fact.kind) || follows)
    }

    /// Whether it is told of the end of a run.
    #[must_use]
    pub fn wants_end(&self, end: &RunEnded) -> bool {
        self.active && run_event_name(end.status).is_some_and(|event| self.has_named(event))
    }

    /// Whether it is told of any end.
    #[must_use]
    pub fn wants_ends(&self) -> bool {
        let mut all = RunStatus::ALL.into_iter().filter_map(run_event_name);
        self.active && all.any(|event| self.has_named(event))
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

/// Every name that there is.
fn names() -> impl Iterator<Item = &'static str> {
    let of = |kind: HoldKind| {
        WHATS
            .into_iter()
            .filter_map(move |what| event_name(kind, what))
    };
    let ends = RunStatus::ALL.into_iter().filter_map(run_event_name);
    KINDS.into_iter().flat_map(of).chain(ends)
}

/// What is wrong with an address and with names of events, all at once.
///
/// # Errors
/// 422 `invalid_body`.
pub fn check(url: &str, events: &[String]) -> Result<Url, Problem> {
    let mut errors = Vec::new();
    let read = address(url);
    if read.is_none() {
        let message = format!("url is an http or https address of at most {URL_BYTES_MAX} bytes");
        errors.push(wrong("/url", url, message));
    }
    if !(1..=EVENTS_MAX).contains(&events.len()) {
        let message = format!("events has 1 to {EVENTS_MAX} names; `*` is everything");
        errors.push(wrong("/events", "", message));
    }
    for (place, event) in events.iter().enumerate().take(EVENTS_MAX) {
        if !names().any(|name| is_meant(event, name)) {
            errors.push(unknown(place, event));
        }
    }
    match read {
        Some(url) if errors.is_empty() => Ok(url),
        Some(_) | None => {
            let told: Vec<_> = errors.iter().map(|error| error.message.as_str()).collect();
            Err(Problem::invalid_body(told.join("; ")).with_errors(errors))
        }
    }
}

pub(super) fn address(text: &str) -> Option<Url> {
    let is_clean = text.len() <= URL_BYTES_MAX && !text.chars().any(char::is_control);
    let is_web = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    Url::parse(text).ok().filter(|url| is_clean && is_web(url))
}

fn unknown(place: usize, event: &str) -> FieldError {
    let all: Vec<_> = names().collect();
    let shown: String = event.chars().take(100).collect();
    let message = format!(
        "`{shown}` is no event; there are `*`, `approval.*`, `input.*`, `handoff.*`, `run.*`, {}",
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
    /// What decisions about requests know of it; none: it was removed.
    #[must_use]
    pub fn hook(&self) -> Option<Hook> {
        let active = match self.standing {
            Standing::Active { .. } => true,
            Standing::Disabled { .. } => false,
            Standing::Removed => return None,
        };
        Some(Hook {
            id: self.id,
            events: self.events.clone(),
            format: self.format,
            active,
        })
    }

    /// As the API shows it.
    #[must_use]
    pub fn view(&self) -> WebhookView {
        let (status, failing_since, disabled_at) = match self.standing {
            Standing::Active { failing_since } => (WebhookStatus::Active, failing_since, None),
            Standing::Disabled { since } => (WebhookStatus::Disabled, None, Some(since)),
            Standing::Removed => (WebhookStatus::Removed, None, None),
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

/// Adds one; the same again is answered alike.
pub(super) fn add(
    known: Option<&Webhook>,
    new: &Webhook,
    lookup: LookupFn<'_>,
) -> Result<Outcome, Undecided> {
    let added = |webhook: &Webhook| {
        Reply::WebhookAdded(Box::new(WebhookAdded {
            webhook: webhook.view(),
            secret: webhook.secret.clone(),
        }))
    };
    if let Some(known) = known {
        return Ok(Outcome::Unchanged(added(known)));
    }
    let mut all = hooks(&new.workspace, lookup)?;
    if all.len() >= WEBHOOKS_MAX {
        return Err(Refusal::TooManyWebhooks.into());
    }
    all.extend(new.hook());
    let answer = added(new);
    let mut change = change(new.clone(), answer);
    change.effects.extend(ends(new));
    let need = Need::Webhooks(new.workspace.clone());
    change.facts.push((need, Fact::Webhooks(all)));
    Ok(Outcome::Decided(Box::new(change)))
}

/// Removes one; one that was removed before is not there.
pub(super) fn remove(known: &Webhook) -> Result<Outcome, Undecided> {
    if known.standing == Standing::Removed {
        return Err(Refusal::NoWebhook(known.id).into());
    }
    let mut next = known.clone();
    next.version += 1;
    next.standing = Standing::Removed;
    next.secret.clear();
    let answer = Reply::Webhook(Box::new(next.view()));
    Ok(Outcome::Decided(Box::new(change(next, answer))))
}

/// It is as somebody says: one that failed begins anew where it is called elsewhere, or again.
pub(super) fn put(
    known: &Webhook,
    to: &Wording,
    enabled: bool,
    now: DateTime<Utc>,
) -> Result<Outcome, Undecided> {
    let is_elsewhere = known.url != to.url;
    let standing = match (&known.standing, enabled) {
        (Standing::Removed, _) => return Err(Refusal::NoWebhook(known.id).into()),
        (Standing::Active { failing_since }, true) => Standing::Active {
            failing_since: failing_since.filter(|_| !is_elsewhere),
        },
        (Standing::Disabled { .. }, true) => Standing::Active {
            failing_since: None,
        },
        (Standing::Active { .. }, false) => Standing::Disabled { since: now },
        (Standing::Disabled { since }, false) => Standing::Disabled { since: *since },
    };
    let is_new = is_elsewhere || matches!(known.standing, Standing::Disabled { .. }) && enabled;
    let next = Webhook {
        url: to.url.clone(),
        events: to.events.clone(),
        format: to.format,
        standing,
        last_error: known.last_error.clone().filter(|_| !is_new),
        version: known.version + 1,
        ..known.clone()
    };
    let ends = ends(&next);
    let answer = Reply::Webhook(Box::new(next.view()));
    let mut change = change(next, answer);
    change.effects.extend(ends);
    Ok(Outcome::Decided(Box::new(change)))
}

/// Repeats what the executor is to report. A repetition is a new revision: the executor may have forgotten
/// the one that it acknowledged.
pub(super) fn watch_run_ends(known: &Webhook) -> Outcome {
    let next = Webhook {
        version: known.version + 1,
        ..known.clone()
    };
    let Some(watch) = ends(&next) else {
        return Outcome::Unchanged(Reply::Done);
    };
    let mut change = change(next, Reply::Done);
    change.effects.push(watch);
    Outcome::Decided(Box::new(change))
}

/// The executor is to tell the ends of all runs, if the webhook wants any (Mend C-10).
fn ends(webhook: &Webhook) -> Option<Effect> {
    webhook
        .hook()
        .is_some_and(|hook| hook.wants_ends())
        .then(|| Effect::WatchRunEnds {
            workspace: webhook.workspace.clone(),
            by: EndsFor::Webhook(webhook.id),
            of: RunEndsOf::All,
            rev: webhook.version,
        })
}

/// What came of a call: taken, not taken, or never to be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// The other side has it.
    Taken,
    /// Not this time.
    Failed(String),
    /// Calling again cannot help.
    Refused(String),
}

/// Takes down what came of a call. Whoever added it is told when it is called no more.
pub(super) fn called(
    known: &Webhook,
    call: &Call,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Result<Outcome, Undecided> {
    let Standing::Active { failing_since } = known.standing else {
        return Ok(Outcome::Unchanged(Reply::Done));
    };
    let mut next = known.clone();
    next.version += 1;
    match call {
        Call::Taken if failing_since.is_none() => return Ok(Outcome::Unchanged(Reply::Done)),
        Call::Taken => {
            next.standing = Standing::Active {
                failing_since: None,
            };
        }
        Call::Failed(error) => {
            let error: String = error.chars().take(ERROR_CHARS_MAX).collect();
            let since = failing_since.unwrap_or(now);
            let is_over = now - since >= DISABLED_AFTER;
            let is_known = failing_since.is_some() && known.last_error.as_ref() == Some(&error);
            if is_known && !is_over {
                return Ok(Outcome::Unchanged(Reply::Done));
            }
            next.last_error = Some(error);
            next.standing = if is_over {
                Standing::Disabled { since: now }
            } else {
                Standing::Active {
                    failing_since: Some(since),
                }
            };
        }
        Call::Refused(error) => {
            next.last_error = Some(error.chars().take(ERROR_CHARS_MAX).collect());
            next.standing = Standing::Disabled { since: now };
        }
    }
    let told = match next.standing {
        Standing::Disabled { .. } => Some(notice::tell(&next, lookup, now)?),
        Standing::Active { .. } | Standing::Removed => None,
    };
    let mut change = change(next, Reply::Done);
    change.effects.extend(told);
    Ok(Outcome::Decided(Box::new(change)))
}

fn change(next: Webhook, answer: Reply) -> Change {
    Change {
        state: Aggregate::Webhook(Box::new(next)),
        effects: Vec::new(),
        facts: Vec::new(),
        reply: answer,
    }
}

/// The webhooks of a workspace.
pub(super) fn hooks(workspace: &Workspace, lookup: LookupFn<'_>) -> Result<Vec<Hook>, Undecided> {
    let need = Need::Webhooks(workspace.clone());
    match lookup(&need) {
        Lookup::NotLoaded => Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::Webhooks(all)) => Ok(all),
        Lookup::Found(
            Fact::Members(_)
            | Fact::Person(_)
            | Fact::RequestLifecycle(_)
            | Fact::Unread(_)
            | Fact::WatchStatus(_)
            | Fact::Other,
        )
        | Lookup::Missing => Ok(Vec::new()),
    }
}
