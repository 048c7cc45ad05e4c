//! One fact about a request: what it means for people, and telling them.

use chrono::{DateTime, Utc};
use holdpoint_contracts::handoff::RequestView;
use holdpoint_contracts::hold::OPERATOR_TAKEOVER;
use holdpoint_contracts::notification::{
    EventRecorded, NotificationType, NotificationView, RequestEnd, RequestEvent, RequestEventKind,
};
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::{HoldId, NotificationId, UserName, Workspace};
use serde::{Deserialize, Serialize};

use super::brief::brief;
use super::fan_out::{Audience, FanOutProgress, PAGE, page};
use super::{
    Aggregate, Change, Effect, Fact, Hook, Lookup, LookupFn, Need, NoteKey, Outcome, Person,
    Posting, Recipient, Reply, Undecided, both, ended, watch, webhook,
};

/// Longest headline, in characters; the rest is in the message.
pub(super) const TITLE_CHARS_MAX: usize = 200;

/// What happened, and how far telling it has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Note {
    pub workspace: Workspace,
    pub fact: RequestEvent,
    /// It was asked before, and ended, and is asked again.
    #[serde(default)]
    pub again: bool,
    /// Who is still to be told.
    pub fan: FanOutProgress,
    pub told: u64,
    /// Rises with every page.
    pub version: u64,
}

impl Note {
    /// By which it is known.
    #[must_use]
    pub fn key(&self) -> NoteKey {
        NoteKey {
            workspace: self.workspace.clone(),
            hold: self.fact.id,
            rev: self.fact.rev,
        }
    }

    /// The notification that it becomes. That a request was first asked is known by the request alone,
    /// whatever its version was.
    #[must_use]
    pub fn id(&self) -> NotificationId {
        let is_first = self.fact.kind == RequestEventKind::Opened && !self.again;
        NotificationId {
            hold: self.fact.id,
            rev: (!is_first).then_some(self.fact.rev),
        }
    }

    /// What is said of earlier notifications, if that is what happened: how the request ended, or that
    /// somebody has taken its run over.
    #[must_use]
    pub fn end(&self) -> Option<RequestEnd> {
        let says_so = self.fact.kind.is_end() || self.fact.kind == RequestEventKind::TakenOver;
        says_so.then(|| RequestEnd {
            state: self.fact.kind,
            outcome: self.fact.request.outcome,
            by: self.fact.by.clone(),
            at: self.fact.at,
        })
    }
}

/// When a request was last asked, and when it last ended, by its versions. One that has ended may be
/// asked again: its run was paused at the instant of its deadline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestLifecycle {
    /// Newest version at which it was asked.
    pub opened: Option<u64>,
    /// Newest version at which it had ended.
    pub ended: Option<u64>,
    /// Newest version at which somebody had taken its run over.
    pub taken: Option<u64>,
}

impl RequestLifecycle {
    /// Takes one more fact in, in whatever order they come.
    pub fn note(&mut self, kind: RequestEventKind, rev: u64) {
        if kind == RequestEventKind::Opened {
            self.opened = self.opened.max(Some(rev));
        } else if kind.is_end() {
            self.ended = self.ended.max(Some(rev));
        } else if kind == RequestEventKind::TakenOver {
            self.taken = self.taken.max(Some(rev));
        }
    }

    /// Whether nobody has to do anything any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ended > self.opened
    }

    /// Whether nobody has to do anything because of what was told at a version: it is over, or somebody has
    /// taken the run over since.
    #[must_use]
    pub fn is_settled(&self, rev: u64) -> bool {
        self.is_over() || self.taken > Some(rev)
    }
}

/// What people see of a fact; none: nobody is told, or only that it is over.
#[must_use]
pub(super) fn type_of(fact: &RequestEvent) -> Option<NotificationType> {
    let asked = match fact.request.kind {
        HoldKind::Timer => return None,
        HoldKind::Approval => NotificationType::ApprovalRequested,
        HoldKind::Input => NotificationType::InputRequested,
        // Nothing is handed over: a step has created a task, and its run goes on.
        HoldKind::Handoff if is_task(fact) => NotificationType::TaskAssigned,
        HoldKind::Handoff => NotificationType::AgentHandoff,
    };
    match fact.kind {
        RequestEventKind::Opened => Some(asked),
        RequestEventKind::Assigned if fact.request.kind == HoldKind::Handoff => Some(asked),
        RequestEventKind::Assigned => Some(NotificationType::TaskAssigned),
        RequestEventKind::Escalated if is_due(fact) => Some(NotificationType::TaskDue),
        RequestEventKind::Escalated => Some(NotificationType::Escalation),
        RequestEventKind::TakenOver => None,
        RequestEventKind::Decided | RequestEventKind::Expired | RequestEventKind::Withdrawn => {
            Some(NotificationType::Custom)
        }
    }
}

/// Whether a step has created a to-do, and its run does not wait for it.
fn is_task(fact: &RequestEvent) -> bool {
    fact.request.run.is_none() && fact.request.task.is_some()
}

/// Whether it is a task whose time is up (S0-T4).
fn is_due(fact: &RequestEvent) -> bool {
    is_task(fact) && fact.request.deadline.is_some_and(|due| due <= fact.at)
}

/// One person's copy.
pub(super) fn view(
    note: &Note,
    read_at: Option<DateTime<Utc>>,
    decided: Option<RequestEnd>,
) -> Option<NotificationView> {
    let request = &note.fact.request;
    Some(NotificationView {
        id: note.id(),
        kind: type_of(&note.fact)?,
        title: ended::title(&note.fact).unwrap_or_else(|| title(&note.fact)),
        message: ended::message(&note.fact).unwrap_or_else(|| request.question.clone()),
        priority: request.priority,
        action_url: action_url(request),
        link: link(request.id),
        run: request.run,
        request: Some(request.id),
        at: note.fact.at,
        read_at,
        decided,
        ended: None,
    })
}

/// The headline, or the beginning of what is asked.
pub(crate) fn title(fact: &RequestEvent) -> String {
    let request = &fact.request;
    let text = request.title.as_deref().unwrap_or(&request.question);
    let line = text.lines().next().unwrap_or_default();
    let late = match fact.kind {
        RequestEventKind::Escalated if is_due(fact) => "Due: ",
        RequestEventKind::Escalated => "Nobody has acted yet: ",
        RequestEventKind::Opened
        | RequestEventKind::Assigned
        | RequestEventKind::TakenOver
        | RequestEventKind::Decided
        | RequestEventKind::Expired
        | RequestEventKind::Withdrawn => "",
    };
    late.chars()
        .chain(line.chars())
        .take(TITLE_CHARS_MAX)
        .collect()
}

/// Where a person acts on a request, below the address of the installation (S0-T4).
#[must_use]
pub fn action_url(request: &RequestView) -> String {
    let action = match request.kind {
        HoldKind::Handoff => "handoff",
        HoldKind::Approval => "approve",
        HoldKind::Input | HoldKind::Timer => "respond",
    };
    let own = request.id.to_string();
    let task = request.task.as_ref().map_or(&own, |task| &task.id);
    format!("/tasks/{task}?action={action}")
}

/// Where a person looks at a request, below the address of the installation.
#[must_use]
pub fn link(id: HoldId) -> String {
    format!("/requests/{id}")
}

/// A fact that is new: it is stored, and the sweep tells people, page by page.
pub(super) fn told(
    workspace: &Workspace,
    fact: &RequestEvent,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Result<Outcome, Undecided> {
    let (mut course, hooks) = known(workspace, fact.id, lookup)?;
    let again = fact.kind == RequestEventKind::Opened && course.opened.is_some();
    course.note(fact.kind, fact.rev);
    let left = whom(fact);
    let fan = match left.is_empty() {
        false => FanOutProgress::People { left, after: None },
        true if watch::watchers(workspace, fact, None, lookup)?.is_empty() => FanOutProgress::Done,
        true => FanOutProgress::Watchers { after: None },
    };
    let note = Note {
        workspace: workspace.clone(),
        fact: bounded(fact),
        again,
        fan,
        told: 0,
        version: 1,
    };
    let mut effects = Vec::new();
    if note.fan != FanOutProgress::Done {
        effects.push(Effect::More);
    }
    // Whoever took a run over has it: the others need not look.
    if (fact.kind.is_end() && course.is_over()) || fact.kind == RequestEventKind::TakenOver {
        effects.push(Effect::Settle {
            workspace: workspace.clone(),
            hold: fact.id,
        });
    }
    let programs = programs(fact, &hooks);
    if !programs.is_empty() {
        effects.push(Effect::Deliver {
            workspace: workspace.clone(),
            id: note.id(),
            priority: fact.request.priority,
            to: programs
                .into_iter()
                .map(|to| Posting::at_once(to, now))
                .collect(),
        });
    }
    if fact.kind.is_end() && course.is_over() {
        effects.push(Effect::FollowUp {
            workspace: workspace.clone(),
            id: note.id(),
            priority: fact.request.priority,
        });
    }
    let need = Need::RequestLifecycle(workspace.clone(), fact.id);
    Ok(Outcome::Decided(Box::new(Change {
        state: Aggregate::Note(Box::new(note)),
        effects,
        facts: vec![(need, Fact::RequestLifecycle(course))],
        reply: Reply::EventRecorded(EventRecorded::Stored),
    })))
}

/// Whom a fact is told to in the application: those it concerns; how it ended, whoever wanted it asked.
/// Nobody is told of what they did themselves, but for what they asked of themselves: that may have been
/// their script.
#[must_use]
pub(super) fn whom(fact: &RequestEvent) -> Vec<Audience> {
    if type_of(fact).is_none() {
        return Vec::new();
    }
    if fact.kind.is_end() {
        return ended::whom(fact);
    }
    // Whoever takes over has the run: the request only says so.
    let is_own = fact.kind == RequestEventKind::Opened
        && fact.request.reason.as_deref() == Some(OPERATOR_TAKEOVER);
    if is_own {
        return Vec::new();
    }
    Audience::all_of(&fact.to)
}

/// The programs that are told: whoever asked for a hold that stands alone, of its end, and the webhooks
/// that want to be.
fn programs(fact: &RequestEvent, hooks: &[Hook]) -> Vec<Recipient> {
    let is_called_back = fact.kind.is_end() && fact.request.callback.is_some();
    let callback = is_called_back.then_some(Recipient::Callback);
    let wanting = hooks.iter().filter(|hook| hook.wants(fact));
    let webhooks = wanting.map(|hook| Recipient::Webhook(hook.id));
    callback.into_iter().chain(webhooks).collect()
}

/// What is kept of a fact: a few lines of what helps to decide; all of it is where it is decided.
fn bounded(fact: &RequestEvent) -> RequestEvent {
    let mut fact = fact.clone();
    fact.request.context = brief(&fact.request.context).into();
    fact.request.history.clear();
    fact.request.late.clear();
    fact
}

/// The next page of a fact: those whom it concerns, and after them those who watch. Who has a copy keeps
/// it, so nobody is told twice.
pub(super) fn go_on(
    note: &Note,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Result<Outcome, Undecided> {
    match &note.fan {
        FanOutProgress::Done => Ok(Outcome::Unchanged(Reply::Done)),
        FanOutProgress::People { left, after } => {
            concerned(note, (left, after.as_ref()), lookup, now)
        }
        FanOutProgress::Watchers { after } => {
            let reached = watch::page(&note.workspace, &note.fact, after.as_ref(), lookup);
            let (course, reached) = both(course(&note.workspace, note.fact.id, lookup), reached)?;
            let is_over = course.is_settled(note.fact.rev);
            let mut next = note.clone();
            next.version += 1;
            next.fan = reached.rest;
            let copies = copies(note, reached.people, (is_over, true));
            Ok(went_on(next, copies.into_iter().collect()))
        }
    }
}

fn went_on(next: Note, effects: Vec<Effect>) -> Outcome {
    Outcome::Decided(Box::new(Change {
        state: Aggregate::Note(Box::new(next)),
        effects,
        facts: Vec::new(),
        reply: Reply::Done,
    }))
}

/// The copies of some people, if there are any.
fn copies(note: &Note, people: Vec<Person>, (is_over, watching): (bool, bool)) -> Option<Effect> {
    let has_to_act = !is_over || note.fact.kind.is_end();
    (!people.is_empty()).then(|| Effect::Copies {
        workspace: note.workspace.clone(),
        id: note.id(),
        people: people.into_iter().map(|user| user.name).collect(),
        at: note.fact.at,
        read_at: (!has_to_act).then_some(note.fact.at),
        watching,
        renews: note.fact.kind == RequestEventKind::Escalated,
    })
}

/// A page of those whom it concerns. Where nobody at all could be told, the owners are. With the last
/// one go the first of those who watch, which are looked up beside them: rounds are few.
fn concerned(
    note: &Note,
    (left, after): (&[Audience], Option<&UserName>),
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Result<Outcome, Undecided> {
    let reached = page(&note.workspace, left, after, PAGE, lookup);
    let watching = watch::page(&note.workspace, &note.fact, None, lookup);
    let people = both(reached, watching);
    let (course, (reached, watching)) =
        both(course(&note.workspace, note.fact.id, lookup), people)?;
    let is_over = course.is_settled(note.fact.rev);
    let mut next = note.clone();
    next.version += 1;
    next.fan = reached.rest;
    next.told += u64::try_from(reached.people.len()).unwrap_or(u64::MAX);
    let is_end = note.fact.kind.is_end();
    // Somebody must act on what is asked; how it ended may be nobody's news.
    if next.fan == FanOutProgress::Done && next.told == 0 && !is_end {
        next.fan = to_owners(left);
    }
    let mut effects = Vec::new();
    let priority = note.fact.request.priority;
    let told: Vec<_> = reached
        .people
        .iter()
        .filter(|person| !is_over && leaves(&note.fact, person))
        .filter_map(|person| Posting::first(person, priority, now))
        .collect();
    if !told.is_empty() {
        effects.push(Effect::Deliver {
            workspace: note.workspace.clone(),
            id: note.id(),
            priority,
            to: told,
        });
    }
    effects.extend(copies(note, reached.people, (is_over, false)));
    if next.fan == FanOutProgress::Done {
        next.fan = watching.rest;
        effects.extend(copies(note, watching.people, (is_over, true)));
    }
    Ok(went_on(next, effects))
}

/// Whether it leaves the application for a person, beside their copy: whoever is asked for something is
/// told. What somebody took for themselves they know; what they asked of themselves may have been
/// their script.
fn leaves(fact: &RequestEvent, person: &Person) -> bool {
    let has_acted = fact.by.as_deref() == Some(person.name.as_str());
    let knows = has_acted && fact.kind != RequestEventKind::Opened;
    !knows && type_of(fact).is_some_and(asks_somebody)
}

/// The types of what happens to requests that leave the application (S0-T4); the others wait until somebody
/// looks. How a run ended is no request, and leaves by [`end`](super::end).
pub(crate) const fn asks_somebody(kind: NotificationType) -> bool {
    match kind {
        NotificationType::ApprovalRequested
        | NotificationType::InputRequested
        | NotificationType::AgentHandoff
        | NotificationType::Escalation
        | NotificationType::Mention
        | NotificationType::TaskDue
        | NotificationType::TaskAssigned => true,
        NotificationType::DealWon
        | NotificationType::DealLost
        | NotificationType::NewLead
        | NotificationType::WorkflowComplete
        | NotificationType::System
        | NotificationType::Custom => false,
    }
}

/// An emptied role, a disabled user: the owners, unless it was them.
fn to_owners(tried: &[Audience]) -> FanOutProgress {
    match Audience::owners() {
        Some(owners) if tried != [owners.clone()] => FanOutProgress::People {
            left: vec![owners],
            after: None,
        },
        Some(_) | None => FanOutProgress::Done,
    }
}

/// How far the request has come, and which webhooks there are; both are named at once.
fn known(
    workspace: &Workspace,
    hold: HoldId,
    lookup: LookupFn<'_>,
) -> Result<(RequestLifecycle, Vec<Hook>), Undecided> {
    let course = course(workspace, hold, lookup);
    both(course, webhook::hooks(workspace, lookup))
}

/// When a request was asked, and when it ended.
pub(super) fn course(
    workspace: &Workspace,
    hold: HoldId,
    lookup: LookupFn<'_>,
) -> Result<RequestLifecycle, Undecided> {
    let need = Need::RequestLifecycle(workspace.clone(), hold);
    match lookup(&need) {
        Lookup::NotLoaded => Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::RequestLifecycle(course)) => Ok(course),
        Lookup::Found(
            Fact::Members(_)
            | Fact::Person(_)
            | Fact::Webhooks(_)
            | Fact::Unread(_)
            | Fact::WatchStatus(_)
            | Fact::Other,
        )
        | Lookup::Missing => Ok(RequestLifecycle::default()),
    }
}
