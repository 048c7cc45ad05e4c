//! One event that people and programs are notified of, how far its fan-out has come, and its inbox entries.

use chrono::{DateTime, Utc};
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::notification::{
    ContactEvent, ContactEventKind, RequestEnd, RequestEvent, RequestEventKind, RunEnded,
};
use holdpoint_contracts::run::RunStatus;
use holdpoint_ids::{HoldId, NotificationId, RoleName, UserName, Workspace};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The text that takes the place of a question.
const ERASED: &str = "erased";

/// Identifies an event. A request has its hold id. Run ends, contacts and notices use number 0 of their run, of an id
/// that is derived from the contact, or of a fresh id. No request has such an id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventKey {
    pub workspace: Workspace,
    pub hold: HoldId,
    /// The version of the request after the event, the instant of the run end in milliseconds, the number of the
    /// contact event, or the revision of the notice.
    pub rev: u64,
}

impl EventKey {
    #[must_use]
    pub fn of_request(workspace: &Workspace, event: &RequestEvent) -> Self {
        Self {
            workspace: workspace.clone(),
            hold: event.id,
            rev: event.rev,
        }
    }

    #[must_use]
    pub fn of_run_end(workspace: &Workspace, end: &RunEnded) -> Self {
        let ended_ms = end.ended_at.timestamp_millis();
        Self {
            workspace: workspace.clone(),
            // A hold id that no request has.
            hold: HoldId {
                run: end.run,
                number: 0,
            },
            rev: u64::try_from(ended_ms).unwrap_or_default(),
        }
    }

    #[must_use]
    pub fn of_contact(workspace: &Workspace, event: &ContactEvent) -> Self {
        Self {
            workspace: workspace.clone(),
            hold: HoldId::of_contact(&event.contact),
            rev: event.number(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    Request {
        event: Box<RequestEvent>,
        /// It was opened before, ended, and is open again.
        #[serde(default)]
        reopened: bool,
    },
    RunEnd(Box<RunEnded>),
    Contact {
        event: Box<ContactEvent>,
        /// Its hour has no room for further events of its kind.
        #[serde(default, skip_serializing_if = "holdpoint_contracts::is_default")]
        is_last: bool,
        /// The contact is erased.
        #[serde(default, skip_serializing_if = "holdpoint_contracts::is_default")]
        erased: bool,
    },
    /// The installation itself has something to report.
    System(Box<SystemNotice>),
}

/// A report of the installation, such as a disabled webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemNotice {
    pub id: NotificationId,
    pub title: String,
    pub message: String,
    pub priority: Priority,
    pub at: DateTime<Utc>,
}

/// A user, or the active users of a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recipient {
    /// `@user.<name>`
    User(UserName),
    /// `@role.<name>`
    Role(RoleName),
}

impl Recipient {
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(name) = text.strip_prefix("@user.") {
            return name.parse().ok().map(Self::User);
        }
        text.strip_prefix("@role.")?.parse().ok().map(Self::Role)
    }

    /// The owners of the workspace. `None` only if `owner` were an invalid role name.
    #[must_use]
    pub fn owners() -> Option<Self> {
        let owner = holdpoint_auth::Role::Owner.as_str();
        owner.parse().ok().map(Self::Role)
    }

    /// The recipients of a request. An unreadable one is left out; without any, the owners are notified.
    #[must_use]
    pub fn parse_all(texts: &[String]) -> Vec<Self> {
        let mut all: Vec<_> = texts.iter().filter_map(|text| Self::parse(text)).collect();
        if all.is_empty() {
            all.extend(Self::owners());
        }
        all
    }
}

/// How far the fan-out has come. The cursor is committed with the inbox entries of its page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FanOutProgress {
    /// The end of a run was stored for one late watcher. The executor has not reported it here, so its
    /// other watchers have yet to be notified.
    NotStarted,
    /// These recipients are pending.
    Recipients {
        /// In order; the first one may be notified in part.
        left: Vec<Recipient>,
        /// The last notified member of the first role.
        after: Option<UserName>,
    },
    /// All recipients are notified; watchers are pending.
    Watchers {
        /// The last notified watcher.
        after: Option<UserName>,
    },
    Done,
}

impl FanOutProgress {
    /// The beginning for some recipients. Watchers follow after them.
    #[must_use]
    pub const fn to(left: Vec<Recipient>) -> Self {
        Self::Recipients { left, after: None }
    }

    /// The number of recipients whom its next page may notify, where a page has at most `page` of them. The first
    /// watchers are not counted, because few events have many.
    #[must_use]
    pub fn most_people(&self, page: usize) -> usize {
        let is_user = |recipient: &Recipient| matches!(recipient, Recipient::User(_));
        match self {
            Self::Recipients { left, .. } if left.iter().all(is_user) => left.len().min(page),
            Self::Recipients { .. } | Self::Watchers { after: Some(_) } => page,
            Self::Watchers { after: None } | Self::NotStarted | Self::Done => 0,
        }
    }

    /// Whether the sweep has to continue it.
    #[must_use]
    pub const fn is_pending(&self) -> bool {
        match self {
            Self::Recipients { .. } | Self::Watchers { .. } => true,
            Self::NotStarted | Self::Done => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NotificationEvent {
    pub workspace: Workspace,
    pub subject: Subject,
    pub fan_out: FanOutProgress,
    /// Recipients who were reached.
    pub notified: u64,
    /// Rises with every page.
    pub version: u64,
}

impl NotificationEvent {
    #[must_use]
    pub fn new(workspace: &Workspace, subject: Subject, fan_out: FanOutProgress) -> Self {
        Self {
            workspace: workspace.clone(),
            subject,
            fan_out,
            notified: 0,
            version: 1,
        }
    }

    #[must_use]
    pub fn key(&self) -> EventKey {
        match &self.subject {
            Subject::Request { event, .. } => EventKey::of_request(&self.workspace, event),
            Subject::RunEnd(end) => EventKey::of_run_end(&self.workspace, end),
            Subject::Contact { event, .. } => EventKey::of_contact(&self.workspace, event),
            Subject::System(notice) => EventKey {
                workspace: self.workspace.clone(),
                hold: notice.id.hold,
                rev: notice.id.rev.unwrap_or_default(),
            },
        }
    }

    /// The public id of its notification. The first opening of a request has the id of the request alone,
    /// whatever its version was.
    #[must_use]
    pub fn id(&self) -> NotificationId {
        let EventKey { hold, rev, .. } = self.key();
        let is_first = match &self.subject {
            Subject::Request { event, reopened } => {
                event.kind == RequestEventKind::Opened && !reopened
            }
            Subject::RunEnd(_) | Subject::Contact { .. } | Subject::System(_) => false,
        };
        NotificationId {
            hold,
            rev: (!is_first).then_some(rev),
        }
    }

    #[must_use]
    pub fn as_request(&self) -> Option<&RequestEvent> {
        if let Subject::Request { event, .. } = &self.subject {
            Some(event)
        } else {
            None
        }
    }

    /// The request of another call of the same fan-out whose notification this new event replaces.
    #[must_use]
    pub fn notified_for(&self) -> Option<HoldId> {
        let request = self.as_request()?;
        let is_notified = request.kind == RequestEventKind::Opened && self.fan_out.is_pending();
        let item = request.request.items.first().filter(|_| is_notified);
        item?.notified_with
    }

    #[must_use]
    pub fn as_run_end(&self) -> Option<&RunEnded> {
        if let Subject::RunEnd(end) = &self.subject {
            Some(end)
        } else {
            None
        }
    }

    #[must_use]
    pub fn at(&self) -> DateTime<Utc> {
        match &self.subject {
            Subject::Request { event, .. } => event.at,
            Subject::RunEnd(end) => end.ended_at,
            Subject::Contact { event, .. } => event.at,
            Subject::System(notice) => notice.at,
        }
    }

    /// Who caused it. `None`: time, or the installation.
    #[must_use]
    pub fn by(&self) -> Option<&str> {
        match &self.subject {
            Subject::Request { event, .. } => event.by.as_deref(),
            Subject::RunEnd(end) => end.by.as_deref(),
            Subject::Contact { .. } | Subject::System(_) => None,
        }
    }

    #[must_use]
    pub fn priority(&self) -> Priority {
        match &self.subject {
            Subject::Request { event, .. } => event.request.priority,
            Subject::RunEnd(end) => run_end_priority(end.status),
            Subject::Contact { event, .. } => contact_priority(event.kind),
            Subject::System(notice) => notice.priority,
        }
    }

    /// Whether its contact is erased.
    #[must_use]
    pub fn is_erased(&self) -> bool {
        match &self.subject {
            Subject::Request { event, .. } => event.request.erased_at.is_some(),
            Subject::RunEnd(end) => end.erased,
            Subject::Contact { erased, .. } => *erased,
            Subject::System(_) => false,
        }
    }

    /// Empties it and ends its notifications. Its row stays until its retention, so that a repeated message is recognized.
    pub fn erase(&mut self, now: DateTime<Utc>) {
        match &mut self.subject {
            Subject::Request { event, .. } => erase_request_event(event, now),
            Subject::RunEnd(end) => {
                end.message.clear();
                end.erased = true;
            }
            Subject::Contact { event, erased, .. } => {
                (event.name, event.deal) = (None, None);
                event.to.clear();
                *erased = true;
            }
            Subject::System(_) => {}
        }
        self.fan_out = FanOutProgress::Done;
        self.version += 1;
    }

    #[must_use]
    pub fn as_contact(&self) -> Option<&ContactEvent> {
        if let Subject::Contact { event, .. } = &self.subject {
            Some(event)
        } else {
            None
        }
    }

    /// Whether a person has named its recipients in a text.
    #[must_use]
    pub fn is_mention(&self) -> bool {
        let request = self.as_request();
        request.is_some_and(|event| event.kind == RequestEventKind::Mentioned)
    }

    /// Whether only people who may look at runs and requests are notified of it. Others have no right to what it names.
    #[must_use]
    pub fn needs_look(&self) -> bool {
        match &self.subject {
            Subject::Request { .. } => self.is_mention(),
            Subject::RunEnd(_) | Subject::Contact { .. } => true,
            Subject::System(_) => false,
        }
    }

    #[must_use]
    pub fn is_request_end(&self) -> bool {
        self.as_request().is_some_and(|event| event.kind.is_end())
    }

    /// What earlier notifications of the request show from now on: how it ended, or who took its run over.
    #[must_use]
    pub fn request_end(&self) -> Option<RequestEnd> {
        let event = self.as_request()?;
        let is_shown = event.kind.is_end() || event.kind == RequestEventKind::TakenOver;
        is_shown.then(|| RequestEnd {
            state: event.kind,
            outcome: event.request.outcome,
            by: event.by.clone(),
            at: event.at,
        })
    }
}

/// Empties what people or agents have written.
pub(crate) fn erase_request_event(event: &mut RequestEvent, now: DateTime<Utc>) {
    let request = &mut *event.request;
    ERASED.clone_into(&mut request.question);
    request.options.clear();
    request.history.clear();
    request.late.clear();
    request.context = Value::Null;
    for item in &mut request.items {
        item.args = Value::Null;
        item.args_schema = None;
    }
    (request.response, request.default, request.schema) = (None, None, None);
    (request.title, request.task) = (None, None);
    (request.link, request.callback) = (None, None);
    request.erased_at = Some(now);
    event.to.clear();
}

/// A failed run may need a person; a completed one does not.
const fn run_end_priority(status: RunStatus) -> Priority {
    match status {
        RunStatus::Failed => Priority::High,
        RunStatus::Completed => Priority::Low,
        RunStatus::Cancelled
        | RunStatus::Queued
        | RunStatus::Running
        | RunStatus::Waiting
        | RunStatus::AwaitingApproval
        | RunStatus::AwaitingInput
        | RunStatus::PausedForIntervention => Priority::Normal,
    }
}

/// A new contact asks for no action at once.
const fn contact_priority(kind: ContactEventKind) -> Priority {
    match kind {
        ContactEventKind::NewLead | ContactEventKind::ContactErased => Priority::Low,
        ContactEventKind::DealWon | ContactEventKind::DealLost => Priority::Normal,
    }
}

/// The newest versions at which a request was opened, ended and taken over. A request that has ended may
/// be opened again: its run was paused at the instant of its deadline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestLifecycle {
    pub opened: Option<u64>,
    pub ended: Option<u64>,
    pub taken: Option<u64>,
    /// The request of another call of the same fan-out whose notification covers this one. It came first.
    pub notified_by: Option<HoldId>,
}

impl RequestLifecycle {
    /// Adds one event. Events may arrive in any order.
    pub fn record(&mut self, kind: RequestEventKind, rev: u64) {
        if kind == RequestEventKind::Opened {
            self.opened = self.opened.max(Some(rev));
        } else if kind.is_end() {
            self.ended = self.ended.max(Some(rev));
        } else if kind == RequestEventKind::TakenOver {
            self.taken = self.taken.max(Some(rev));
        }
    }

    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended > self.opened
    }

    #[must_use]
    pub fn is_open(&self) -> bool {
        self.opened.is_some() && !self.has_ended()
    }

    /// Whether an event of this version asks no action any more: the request has ended, or its run was
    /// taken over later.
    #[must_use]
    pub fn is_settled(&self, rev: u64) -> bool {
        self.has_ended() || self.taken > Some(rev)
    }
}

/// The entry of one person. Its version is 1 until it is read, and 2 afterwards.
#[derive(Debug, Clone, PartialEq)]
pub struct InboxEntry {
    pub workspace: Workspace,
    pub person: UserName,
    pub event: Box<NotificationEvent>,
    /// How the request of the event ended, if it has.
    pub request_end: Option<RequestEnd>,
    /// The person has it only because they watch.
    pub watching: bool,
    pub read_at: Option<DateTime<Utc>>,
}

impl InboxEntry {
    #[must_use]
    pub const fn version(&self) -> u64 {
        if self.read_at.is_some() { 2 } else { 1 }
    }
}
