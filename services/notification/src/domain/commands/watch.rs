//! What people watch, and who is told of a fact of a request because of that: in the application, and
//! nowhere else. What they are told of the end of a run: [`end`](super::end).

use chrono::{DateTime, Utc};
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::notification::{
    NotificationType, NotificationView, RequestEvent, RequestEventKind, WatchAdded, WatchView,
    Watched,
};
use holdpoint_ids::{UserName, Workspace};

use super::fan_out::{FanOutProgress, PAGE, Page, people};
use super::note::{TITLE_CHARS_MAX, title as asked, type_of};
use super::{
    Aggregate, Change, Effect, EndsFor, Fact, Lookup, LookupFn, Need, Outcome, Refusal, Reply,
    Undecided, ended,
};

/// Most that one person watches.
pub const WATCHES_MAX: u64 = 200;

/// That somebody watches something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    pub workspace: Workspace,
    pub person: UserName,
    pub of: Watched,
    /// Since when; none: no more.
    pub since: Option<DateTime<Utc>>,
    /// Rises with every change.
    pub version: u64,
}

impl Watch {
    /// As the API shows it; none: it is watched no more.
    #[must_use]
    pub fn view(&self) -> Option<WatchView> {
        self.since.map(|since| WatchView {
            id: self.of.to_string(),
            of: self.of.clone(),
            since,
        })
    }
}

/// Somebody watches something from now on; again changes nothing.
pub(super) fn add(
    known: Option<&Watch>,
    (workspace, person, of): (&Workspace, &UserName, &Watched),
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Result<Outcome, Undecided> {
    let answer = |watch, new| Reply::WatchStatus(Box::new(WatchAdded { watch, new }));
    if let Some(watch) = known.and_then(Watch::view) {
        return Ok(Outcome::Unchanged(answer(watch, false)));
    }
    let need = Need::WatchStatus(workspace.clone(), person.clone());
    let count = match lookup(&need) {
        Lookup::NotLoaded => return Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::WatchStatus(count)) => count,
        Lookup::Found(
            Fact::Members(_)
            | Fact::Person(_)
            | Fact::RequestLifecycle(_)
            | Fact::Webhooks(_)
            | Fact::Unread(_)
            | Fact::Other,
        )
        | Lookup::Missing => 0,
    };
    if count >= WATCHES_MAX {
        return Err(Refusal::TooManyWatches.into());
    }
    let next = Watch {
        workspace: workspace.clone(),
        person: person.clone(),
        of: of.clone(),
        since: Some(now),
        version: known.map_or(1, |one| one.version + 1),
    };
    let answer = next.view().map_or(Reply::Done, |watch| answer(watch, true));
    Ok(Outcome::Decided(Box::new(Change {
        effects: ends(&next).into_iter().collect(),
        state: Aggregate::Watch(Box::new(next)),
        facts: vec![(need, Fact::WatchStatus(count + 1))],
        reply: answer,
    })))
}

/// The executor is to tell how runs end that are watched from now on.
fn ends(watch: &Watch) -> Option<Effect> {
    match watch.of {
        Watched::Request(_) => None,
        Watched::Run(_) | Watched::Agent(_) => Some(Effect::WatchRunEnds {
            workspace: watch.workspace.clone(),
            by: EndsFor::Person(watch.person.clone()),
            of: watch.of.clone().into(),
            rev: watch.version,
        }),
    }
}

/// Somebody watches it no more.
pub(super) fn remove(known: Option<&Watch>, of: &Watched) -> Result<Outcome, Undecided> {
    let seen = known.and_then(|one| Some((one, one.view()?)));
    let (known, view) = seen.ok_or_else(|| Refusal::NoWatch(of.clone()))?;
    let next = Watch {
        since: None,
        version: known.version + 1,
        ..known.clone()
    };
    Ok(Outcome::Decided(Box::new(Change {
        state: Aggregate::Watch(Box::new(next)),
        effects: Vec::new(),
        facts: Vec::new(),
        reply: Reply::Watch(Box::new(view)),
    })))
}

/// What somebody may watch to be told of a fact; nothing: watchers are not told of it.
pub(super) fn of(fact: &RequestEvent) -> Vec<Watched> {
    let is_news = match fact.kind {
        RequestEventKind::Escalated | RequestEventKind::TakenOver => false,
        RequestEventKind::Opened
        | RequestEventKind::Assigned
        | RequestEventKind::Decided
        | RequestEventKind::Expired
        | RequestEventKind::Withdrawn => type_of(fact).is_some(),
    };
    if !is_news {
        return Vec::new();
    }
    let run = fact.request.run.map(Watched::Run);
    let agent = fact.request.agent.clone().map(Watched::Agent);
    let all = [Some(Watched::Request(fact.id)), run, agent];
    all.into_iter().flatten().collect()
}

/// Those who watch what a fact is of, by name, after one; so many at most as are told in one commit.
pub(super) fn watchers(
    workspace: &Workspace,
    fact: &RequestEvent,
    after: Option<&UserName>,
    lookup: LookupFn<'_>,
) -> Result<Vec<UserName>, Undecided> {
    let of = of(fact);
    if of.is_empty() {
        return Ok(Vec::new());
    }
    named((workspace, of), after, lookup)
}

/// Those who watch any of these, by name, after one.
pub(super) fn named(
    (workspace, of): (&Workspace, Vec<Watched>),
    after: Option<&UserName>,
    lookup: LookupFn<'_>,
) -> Result<Vec<UserName>, Undecided> {
    let need = Need::Watchers {
        workspace: workspace.clone(),
        of,
        after: after.cloned(),
        limit: PAGE,
    };
    match lookup(&need) {
        Lookup::NotLoaded => Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::Members(names)) => Ok(names),
        Lookup::Found(
            Fact::WatchStatus(_)
            | Fact::Person(_)
            | Fact::RequestLifecycle(_)
            | Fact::Webhooks(_)
            | Fact::Unread(_)
            | Fact::Other,
        )
        | Lookup::Missing => Ok(Vec::new()),
    }
}

/// The next page of those who watch; nobody is told of what they did themselves.
pub(super) fn page(
    workspace: &Workspace,
    fact: &RequestEvent,
    after: Option<&UserName>,
    lookup: LookupFn<'_>,
) -> Result<Page, Undecided> {
    let mut names = watchers(workspace, fact, after, lookup)?;
    let rest = match names.last() {
        Some(last) if names.len() >= PAGE => FanOutProgress::Watchers {
            after: Some(last.clone()),
        },
        Some(_) | None => FanOutProgress::Done,
    };
    names.retain(|name| fact.by.as_deref() != Some(name.as_str()));
    let people = people(workspace, &names, lookup)?;
    Ok(Page { people, rest })
}

/// A copy as somebody sees it who has it only because they watch: it asks nothing of them, and says
/// nothing that only those may see whom the request concerns.
pub(super) fn shown(fact: &RequestEvent, view: NotificationView) -> NotificationView {
    NotificationView {
        kind: NotificationType::Custom,
        title: title(fact),
        message: ended::short(fact).unwrap_or_else(|| fact.request.question.clone()),
        priority: Priority::Normal,
        action_url: view.link.clone(),
        ..view
    }
}

/// `Asked: Deploy 4.2?`, `With nina now: Deploy 4.2?`; how it ended, as whoever asked is told.
fn title(fact: &RequestEvent) -> String {
    if let Some(title) = ended::title(fact) {
        return title;
    }
    let asked = asked(fact);
    let title = match (fact.kind, &fact.request.assignee) {
        (RequestEventKind::Assigned, Some(name)) => format!("With {name} now: {asked}"),
        (RequestEventKind::Assigned, None) => format!("With somebody else now: {asked}"),
        _ => format!("Asked: {asked}"),
    };
    title.chars().take(TITLE_CHARS_MAX).collect()
}
