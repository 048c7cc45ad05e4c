//! The end of a run that somebody watches, or that a webhook wants: who is told, in which words, and by
//! which ways (S0-T4).

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use holdpoint_contracts::duration::describe;
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::notification::{NotificationType, RunEndRecorded, RunEnded, Watched};
use holdpoint_contracts::run::RunStatus;
use holdpoint_ids::{HoldId, NotificationId, RunId, UserName, WebhookId, Workspace};
use serde::{Deserialize, Serialize};

use super::fan_out::{FanOutProgress, PAGE, people};
use super::note::TITLE_CHARS_MAX;
use super::watch::named;
use super::{
    Aggregate, Change, Effect, Hook, Lookup, LookupFn, Need, Notice, Outcome, Person, Posting,
    Recipient, Reply, Rules, Undecided, Watch, active, both, webhook,
};

/// Names the end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndKey {
    pub workspace: Workspace,
    pub run: RunId,
    /// When it ended, in milliseconds since 1970.
    pub rev: u64,
}

impl EndKey {
    /// Of an end that is told.
    #[must_use]
    pub fn of(workspace: &Workspace, end: &RunEnded) -> Self {
        Self {
            workspace: workspace.clone(),
            run: end.run,
            rev: rev(end),
        }
    }
}

/// For whom the executor tells ends of runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndsFor {
    /// Somebody watches.
    Person(UserName),
    /// A webhook wants them.
    Webhook(WebhookId),
}

impl fmt::Display for EndsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person(name) => name.fmt(f),
            Self::Webhook(id) => id.fmt(f),
        }
    }
}

fn rev(end: &RunEnded) -> u64 {
    u64::try_from(end.ended_at.timestamp_millis()).unwrap_or_default()
}

/// How a run ended, and how far telling it has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub workspace: Workspace,
    pub end: RunEnded,
    /// Who is still to be told.
    pub fan: FanOutProgress,
    /// Rises with every page.
    pub version: u64,
}

/// The notification that an end becomes: the same for all who are told, however often it is said.
fn id(end: &RunEnded) -> NotificationId {
    NotificationId {
        hold: HoldId {
            run: end.run,
            number: 0,
        },
        rev: Some(rev(end)),
    }
}

/// What failed may want somebody to do something; what completed does not.
const fn priority(status: RunStatus) -> Priority {
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

/// `Run of outreach failed`
pub(crate) fn title(end: &RunEnded) -> String {
    let was = match end.status == RunStatus::Cancelled {
        true => "was ",
        false => "",
    };
    let title = format!("Run of {} {was}{}", end.agent, end.status);
    title.chars().take(TITLE_CHARS_MAX).collect()
}

/// What the run itself says, and how long it took.
pub(crate) fn message(end: &RunEnded) -> String {
    format!("{} It took {}.", end.message.trim_end(), took(end))
}

/// `2 days 4 hours`; what took a second or longer in whole seconds.
pub(crate) fn took(end: &RunEnded) -> String {
    let took_ms = match end.took_ms() {
        short @ ..1_000 => short,
        long => long - long % 1_000,
    };
    describe(Duration::from_millis(took_ms))
}

/// What people get.
fn notice(end: &RunEnded) -> Notice {
    Notice {
        id: id(end),
        kind: NotificationType::WorkflowComplete,
        title: title(end),
        message: message(end),
        priority: priority(end.status),
        at: end.ended_at,
        end: Some(Box::new(end.clone())),
    }
}

/// What somebody may watch to be told.
fn of(end: &RunEnded) -> Vec<Watched> {
    vec![Watched::Run(end.run), Watched::Agent(end.agent.clone())]
}

/// The executor says that a run has ended. Who watches is told page by page, and webhooks at once. Nothing is
/// kept of an end that nobody wants; where nobody wants any, the executor hears that.
pub(super) fn told(
    workspace: &Workspace,
    end: &RunEnded,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Result<Outcome, Undecided> {
    let watchers = watchers(workspace, end, None, lookup);
    let (watchers, hooks) = both(watchers, webhook::hooks(workspace, lookup))?;
    let wanting = hooks.iter().filter(|hook| hook.wants_end(end));
    let calls: Vec<_> = wanting
        .map(|hook| Posting::at_once(Recipient::Webhook(hook.id), now))
        .collect();
    if watchers.is_empty() && calls.is_empty() {
        let noted = match hooks.iter().any(Hook::wants_ends) {
            true => RunEndRecorded::Told,
            false => RunEndRecorded::Nobody {
                agent: end.agent.clone(),
                watch: end.watch,
                workspace_watch: end.workspace_watch,
            },
        };
        return Ok(Outcome::Unchanged(Reply::RunEndRecorded(noted)));
    }
    // Where only webhooks want it nobody else is to be told.
    let (fan, mut effects) = match watchers.is_empty() {
        true => (FanOutProgress::Done, Vec::new()),
        false => (FanOutProgress::Watchers { after: None }, vec![Effect::More]),
    };
    if !calls.is_empty() {
        effects.extend(posted(workspace, end, Vec::new(), calls));
    }
    Ok(Outcome::Decided(Box::new(Change {
        state: Aggregate::End(Box::new(End {
            workspace: workspace.clone(),
            end: end.clone(),
            fan,
            version: 1,
        })),
        effects,
        facts: Vec::new(),
        reply: Reply::RunEndRecorded(RunEndRecorded::Told),
    })))
}

/// The next page of those who watch. Who has a copy keeps it, so nobody is told twice.
pub(super) fn go_on(
    known: &End,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Result<Outcome, Undecided> {
    let FanOutProgress::Watchers { after } = &known.fan else {
        return Ok(Outcome::Unchanged(Reply::Done));
    };
    let (workspace, end) = (&known.workspace, &known.end);
    let mut names = watchers(workspace, end, after.as_ref(), lookup)?;
    let rest = match names.last() {
        Some(last) if names.len() >= PAGE => FanOutProgress::Watchers {
            after: Some(last.clone()),
        },
        Some(_) | None => FanOutProgress::Done,
    };
    names.retain(|name| end.by.as_deref() != Some(name.as_str()));
    let people = people(workspace, &names, lookup)?;
    let next = End {
        fan: rest,
        version: known.version + 1,
        ..known.clone()
    };
    Ok(Outcome::Decided(Box::new(Change {
        state: Aggregate::End(Box::new(next)),
        effects: tell(workspace, end, &people, now),
        facts: Vec::new(),
        reply: Reply::Done,
    })))
}

/// The run had ended before somebody began to watch it: they are told at once, and that is all there is to
/// watch.
pub(super) fn ended_before(
    watch: &Watch,
    end: &RunEnded,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Result<Outcome, Undecided> {
    if watch.since.is_none() {
        return Ok(Outcome::Unchanged(Reply::Done));
    }
    let people: Vec<_> = follower(watch, lookup)?.into_iter().collect();
    let next = Watch {
        since: None,
        version: watch.version + 1,
        ..watch.clone()
    };
    Ok(Outcome::Decided(Box::new(Change {
        effects: tell(&watch.workspace, end, &people, now),
        state: Aggregate::Watch(Box::new(next)),
        facts: Vec::new(),
        reply: Reply::Done,
    })))
}

/// Whoever watches, unless they are disabled. Somebody who is so new that the copy does not know them yet
/// is told in the application alone: the gateway knew them, and nobody asks a second time.
fn follower(watch: &Watch, lookup: LookupFn<'_>) -> Result<Option<Person>, Undecided> {
    let need = Need::Person(watch.workspace.clone(), watch.person.clone());
    if lookup(&need) == Lookup::Missing {
        return Ok(Some(Person {
            name: watch.person.clone(),
            active: true,
            has_mail: false,
            may_look: true,
            rules: Rules::default(),
        }));
    }
    active(&watch.workspace, &watch.person, lookup)
}

/// In the application, and by the first way that each of them wants. Whoever may not look at runs any
/// more is told nothing.
fn tell(
    workspace: &Workspace,
    end: &RunEnded,
    people: &[Person],
    now: DateTime<Utc>,
) -> Vec<Effect> {
    let people: Vec<_> = people.iter().filter(|person| person.may_look).collect();
    if people.is_empty() {
        return Vec::new();
    }
    let first = |person: &&Person| Posting::first(person, priority(end.status), now);
    let to = people.iter().filter_map(first).collect();
    let names = people.iter().map(|person| person.name.clone()).collect();
    posted(workspace, end, names, to)
}

/// Copies, and what leaves the application beside them.
fn posted(
    workspace: &Workspace,
    end: &RunEnded,
    people: Vec<UserName>,
    to: Vec<Posting>,
) -> Vec<Effect> {
    let copies = Effect::Notice {
        workspace: workspace.clone(),
        notice: Box::new(notice(end)),
        people,
    };
    let deliver = (!to.is_empty()).then(|| Effect::Deliver {
        workspace: workspace.clone(),
        id: id(end),
        priority: priority(end.status),
        to,
    });
    std::iter::once(copies).chain(deliver).collect()
}

fn watchers(
    workspace: &Workspace,
    end: &RunEnded,
    after: Option<&UserName>,
    lookup: LookupFn<'_>,
) -> Result<Vec<UserName>, Undecided> {
    named((workspace, of(end)), after, lookup)
}
