//! One person's copy of a notification.

use chrono::{DateTime, Utc};
use holdpoint_contracts::notification::{AllRead, NotificationView, RequestEnd};
use holdpoint_ids::{NotificationId, UserName, Workspace};

use super::note::{Note, view};
use super::notice::Notice;
use super::{
    Aggregate, Change, Effect, Fact, Lookup, LookupFn, Need, Outcome, Reply, Undecided, watch,
};

/// Whether somebody has read it. Its version is 1 until then, and 2 after.
#[derive(Debug, Clone, PartialEq)]
pub struct Copy {
    pub workspace: Workspace,
    pub person: UserName,
    pub of: Subject,
    /// They have it only because they watch.
    pub watching: bool,
    /// Since when it counts as read.
    pub read_at: Option<DateTime<Utc>>,
}

/// What a copy is of.
#[derive(Debug, Clone, PartialEq)]
pub enum Subject {
    /// Something that happened to a request, and how that ended, if it has.
    Note(Box<Note>, Option<RequestEnd>),
    /// Something else.
    Notice(Box<Notice>),
}

impl Copy {
    /// What it is known by, together with whose it is.
    #[must_use]
    pub fn id(&self) -> NotificationId {
        match &self.of {
            Subject::Note(note, _) => note.id(),
            Subject::Notice(notice) => notice.id,
        }
    }

    /// Rises by one with the one change that there can be.
    #[must_use]
    pub const fn version(&self) -> u64 {
        match self.read_at {
            None => 1,
            Some(_) => 2,
        }
    }

    /// As its owner sees it; none: it is of a fact that nobody is told of.
    #[must_use]
    pub fn view(&self) -> Option<NotificationView> {
        match &self.of {
            Subject::Note(note, end) => {
                let view = view(note, self.read_at, end.clone())?;
                Some(match self.watching {
                    true => watch::shown(&note.fact, view),
                    false => view,
                })
            }
            Subject::Notice(notice) => Some(notice.view(self.read_at)),
        }
    }
}

pub(super) fn read(copy: &Copy, now: DateTime<Utc>) -> Outcome {
    let next = Copy {
        read_at: copy.read_at.or(Some(now)),
        ..copy.clone()
    };
    let answer = next
        .view()
        .map_or(Reply::Done, |view| Reply::Notification(Box::new(view)));
    if copy.read_at.is_some() {
        return Outcome::Unchanged(answer);
    }
    Outcome::Decided(Box::new(Change {
        effects: vec![Effect::Read {
            workspace: copy.workspace.clone(),
            person: copy.person.clone(),
            id: copy.id(),
        }],
        state: Aggregate::Copy(Box::new(next)),
        facts: Vec::new(),
        reply: answer,
    }))
}

/// All copies of a person that are not read, up to a change.
pub(super) fn read_all(
    workspace: &Workspace,
    person: &UserName,
    until: Option<u64>,
    lookup: LookupFn<'_>,
) -> Result<Outcome, Undecided> {
    let need = Need::Unread {
        workspace: workspace.clone(),
        person: person.clone(),
        until,
    };
    let unread = match lookup(&need) {
        Lookup::NotLoaded => return Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::Unread(count)) => count,
        Lookup::Found(
            Fact::Members(_)
            | Fact::Person(_)
            | Fact::RequestLifecycle(_)
            | Fact::Webhooks(_)
            | Fact::WatchStatus(_)
            | Fact::Other,
        )
        | Lookup::Missing => 0,
    };
    let answer = Reply::AllRead(AllRead { read: unread });
    if unread == 0 {
        return Ok(Outcome::Unchanged(answer));
    }
    Ok(Outcome::Decided(Box::new(Change {
        state: Aggregate::Users,
        effects: vec![Effect::ReadAll {
            workspace: workspace.clone(),
            person: person.clone(),
            until,
        }],
        facts: vec![(need, Fact::Unread(0))],
        reply: answer,
    })))
}
