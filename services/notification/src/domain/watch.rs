//! What people watch, and who is told of a fact of a request because of that: in the application, and
//! nowhere else. What they are told of the end of a run: [`end`](super::end).

use chrono::{DateTime, Utc};
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::notification::{
    FactKind, NotificationType, NotificationView, RequestFact, WatchAdded, WatchView, Watched,
};
use holdpoint_ids::{UserName, Workspace};

use super::fan_out::{Fan, PAGE, Page, people};
use super::note::{TITLE_CHARS_MAX, title as asked, type_of};
use super::{
    Aggregate, Answer, Change, Effect, EndsFor, Fact, Found, Look, Need, Refusal, Step, Stop, ended,
};

/// Most that one person watches.
pub const WATCHES_MAX: u64 = 200;

/// That somebody watches something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    /// Whose.
    pub workspace: Workspace,
    /// Who.
    pub person: UserName,
    /// What.
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
    look: Look<'_>,
    now: DateTime<Utc>,
) -> Result<Step, Stop> {
    let answer = |watch, new| Answer::Watching(Box::new(WatchAdded { watch, new }));
    if let Some(watch) = known.and_then(Watch::view) {
        return Ok(Step::Same(answer(watch, false)));
    }
    let need = Need::Watching(workspace.clone(), person.clone());
    let count = match look(&need) {
        Found::Unknown => return Err(Stop::Need(vec![need])),
        Found::Here(Fact::Watching(count)) => count,
        Found::Here(
            Fact::Members(_)
            | Fact::Person(_)
            | Fact::Course(_)
            | Fact::Webhooks(_)
            | Fact::Unread(_)
            | Fact::Other,
        )
        | Found::Absent => 0,
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
    let answer = next
        .view()
        .map_or(Answer::Done, |watch| answer(watch, true));
    Ok(Step::Changed(Box::new(Change {
        effects: ends(&next).into_iter().collect(),
        state: Aggregate::Watch(Box::new(next)),
        facts: vec![(need, Fact::Watching(count + 1))],
        answer,
    })))
}

/// The executor is to tell how runs end that are watched from now on.
fn ends(watch: &Watch) -> Option<Effect> {
    match watch.of {
        Watched::Request(_) => None,
        Watched::Run(_) | Watched::Agent(_) => Some(Effect::WatchEnds {
            workspace: watch.workspace.clone(),
            by: EndsFor::Person(watch.person.clone()),
            of: watch.of.clone().into(),
            rev: watch.version,
        }),
    }
}

/// Somebody watches it no more.
pub(super) fn remove(known: Option<&Watch>, of: &Watched) -> Result<Step, Stop> {
    let seen = known.and_then(|one| Some((one, one.view()?)));
    let (known, view) = seen.ok_or_else(|| Refusal::NoWatch(of.clone()))?;
    let next = Watch {
        since: None,
        version: known.version + 1,
        ..known.clone()
    };
    Ok(Step::Changed(Box::new(Change {
        state: Aggregate::Watch(Box::new(next)),
        effects: Vec::new(),
        facts: Vec::new(),
        answer: Answer::Watch(Box::new(view)),
    })))
}

/// What somebody may watch to be told of a fact; nothing: watchers are not told of it.
pub(super) fn of(fact: &RequestFact) -> Vec<Watched> {
    let is_news = match fact.kind {
        FactKind::Escalated | FactKind::TakenOver => false,
        FactKind::Opened
        | FactKind::Assigned
        | FactKind::Decided
        | FactKind::Expired
        | FactKind::Withdrawn => type_of(fact).is_some(),
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
    fact: &RequestFact,
    after: Option<&UserName>,
    look: Look<'_>,
) -> Result<Vec<UserName>, Stop> {
    let of = of(fact);
    if of.is_empty() {
        return Ok(Vec::new());
    }
    named((workspace, of), after, look)
}

/// Those who watch any of these, by name, after one.
pub(super) fn named(
    (workspace, of): (&Workspace, Vec<Watched>),
    after: Option<&UserName>,
    look: Look<'_>,
) -> Result<Vec<UserName>, Stop> {
    let need = Need::Watchers {
        workspace: workspace.clone(),
        of,
        after: after.cloned(),
        limit: PAGE,
    };
    match look(&need) {
        Found::Unknown => Err(Stop::Need(vec![need])),
        Found::Here(Fact::Members(names)) => Ok(names),
        Found::Here(
            Fact::Watching(_)
            | Fact::Person(_)
            | Fact::Course(_)
            | Fact::Webhooks(_)
            | Fact::Unread(_)
            | Fact::Other,
        )
        | Found::Absent => Ok(Vec::new()),
    }
}

/// The next page of those who watch; nobody is told of what they did themselves.
pub(super) fn page(
    workspace: &Workspace,
    fact: &RequestFact,
    after: Option<&UserName>,
    look: Look<'_>,
) -> Result<Page, Stop> {
    let mut names = watchers(workspace, fact, after, look)?;
    let rest = match names.last() {
        Some(last) if names.len() >= PAGE => Fan::Watchers {
            after: Some(last.clone()),
        },
        Some(_) | None => Fan::Done,
    };
    names.retain(|name| fact.by.as_deref() != Some(name.as_str()));
    let people = people(workspace, &names, look)?;
    Ok(Page { people, rest })
}

/// A copy as somebody sees it who has it only because they watch: it asks nothing of them, and says
/// nothing that only those may see whom the request concerns.
pub(super) fn shown(fact: &RequestFact, view: NotificationView) -> NotificationView {
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
fn title(fact: &RequestFact) -> String {
    if let Some(title) = ended::title(fact) {
        return title;
    }
    let asked = asked(fact);
    let title = match (fact.kind, &fact.request.assignee) {
        (FactKind::Assigned, Some(name)) => format!("With {name} now: {asked}"),
        (FactKind::Assigned, None) => format!("With somebody else now: {asked}"),
        _ => format!("Asked: {asked}"),
    };
    title.chars().take(TITLE_CHARS_MAX).collect()
}
