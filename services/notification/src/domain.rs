//! The pure core: what happened to requests, who is told of it, and by which ways.
//!
//! It knows no clock, database or bus. What it lacks it names as a [`Need`].

mod brief;
mod copy;
mod decide;
mod decision;
mod delivery;
mod end;
mod ended;
mod fan_out;
mod input;
mod note;
mod notice;
mod preferences;
mod refusal;
mod watch;
mod webhook;

#[cfg(test)]
pub(crate) mod tests;

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::RunEndsOf;
use holdpoint_contracts::handoff::UserChange;
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::notification::{
    self as contract, AllRead, Channel, EventRecorded, NotificationView, PersonalChannel,
    RunEndRecorded, WatchAdded, WatchView, Watched, WebhookAdded, WebhookSecretView, WebhookView,
};
use holdpoint_ids::{HoldId, NotificationId, RoleName, UserName, WebhookId, Workspace};
use serde::Serialize;

pub use copy::{Copy, Subject};
#[cfg(test)]
pub(crate) use decide::decide;
pub use decision::{Change, Lookup, LookupFn, NotificationDomain, Outcome, Undecided};
pub use delivery::{
    Delivery, DeliveryKey, GONE, OVER, Phase, Posting, Recipient, Report, TRIES_MAX,
};
pub use end::{End, EndKey, EndsFor};
pub(crate) use end::{message as end_message, title as end_title, took};
pub use fan_out::{Audience, FanOutProgress, PAGE};
pub use input::Input;
pub use note::{Note, RequestLifecycle, action_url, link};
pub(crate) use note::{asks_somebody, title};
pub use notice::Notice;
pub(crate) use preferences::shown;
pub use preferences::{Preferences, Rules};
pub use refusal::Refusal;
pub use watch::{WATCHES_MAX, Watch};
pub use webhook::{Call, Hook, Standing, WEBHOOKS_MAX, Webhook, Wording, check};

/// One fact: which request, and which version of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NoteKey {
    pub workspace: Workspace,
    pub hold: HoldId,
    /// The request's version after what happened.
    pub rev: u64,
}

/// Names one aggregate. The workspace is part of it, so that none reaches into another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// What happened to a request.
    Note(NoteKey),
    /// How a run ended that somebody watches.
    End(EndKey),
    /// One person's copy of a notification.
    Copy(Workspace, UserName, NotificationId),
    /// All copies of a person; they have no state in common.
    Reading(Workspace, UserName),
    /// Something that leaves the application.
    Delivery(DeliveryKey),
    /// What a workspace's callbacks are signed with.
    Secret(Workspace),
    /// How a person wants to be told.
    Preferences(Workspace, UserName),
    /// A program that is told of events.
    Webhook(Workspace, WebhookId),
    /// That a person watches something.
    Watch(Workspace, UserName, Watched),
    /// The read copy of users; it has no state of its own.
    Users,
    /// What nobody needs any more; it has no state of its own.
    Old,
}

/// What a workspace's callbacks are signed with; made once, and never changed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    pub workspace: Workspace,
    /// `whsec_…`
    pub text: String,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Secret").field(&self.workspace).finish()
    }
}

/// An aggregate's state.
#[derive(Debug, Clone, PartialEq)]
pub enum Aggregate {
    /// What happened, and how far telling it has come.
    Note(Box<Note>),
    /// How a run ended, and how far telling it has come.
    End(Box<End>),
    /// Whether somebody has read it.
    Copy(Box<Copy>),
    /// How far something has come that leaves the application.
    Delivery(Box<Delivery>),
    /// What a workspace's callbacks are signed with.
    Secret(Box<Secret>),
    /// How a person wants to be told.
    Preferences(Box<Preferences>),
    /// A program that is told of events.
    Webhook(Box<Webhook>),
    /// That a person watches something, or no more.
    Watch(Box<Watch>),
    /// The facts about users guard themselves by their versions; and what is old has no other state.
    Users,
}

/// Something that a decision may lack.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Need {
    /// Active users with a role, by name, after one.
    Members {
        workspace: Workspace,
        role: RoleName,
        /// The last one of the page before.
        after: Option<UserName>,
        /// How many at most.
        limit: usize,
    },
    /// One user.
    Person(Workspace, UserName),
    /// When a request was asked, and when it ended.
    RequestLifecycle(Workspace, HoldId),
    /// The programs that are told of events of a workspace.
    Webhooks(Workspace),
    /// People who watch one of these things, by name, each once, after one.
    Watchers {
        workspace: Workspace,
        of: Vec<Watched>,
        /// The last one of the page before.
        after: Option<UserName>,
        /// How many at most.
        limit: usize,
    },
    /// How much a person watches.
    WatchStatus(Workspace, UserName),
    /// How much a person has not read.
    Unread {
        workspace: Workspace,
        person: UserName,
        /// But for what changed after this number.
        until: Option<u64>,
    },
}

/// What a decision may know of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    pub name: UserName,
    /// False: disabled, and told nothing.
    pub active: bool,
    /// Whether there is an address for mails.
    pub has_mail: bool,
    /// Whether they may look at runs and requests.
    pub may_look: bool,
    /// How they want to be told.
    pub rules: Rules,
}

impl Person {
    /// The first way by which they want to be told of something of this priority, and can be; but for
    /// those that were tried.
    #[must_use]
    pub fn next(&self, priority: Priority, tried: &[Channel]) -> Option<PersonalChannel> {
        if self.has_mail {
            return self.rules.next(priority, tried);
        }
        let without: Vec<_> = tried.iter().copied().chain([Channel::Email]).collect();
        self.rules.next(priority, &without)
    }
}

/// What is found for a need.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// To [`Need::Members`] and [`Need::Watchers`].
    Members(Vec<UserName>),
    /// To [`Need::Person`].
    Person(Person),
    /// To [`Need::RequestLifecycle`].
    RequestLifecycle(RequestLifecycle),
    /// To [`Need::Webhooks`].
    Webhooks(Vec<Hook>),
    /// To [`Need::Unread`].
    Unread(u64),
    /// To [`Need::WatchStatus`].
    WatchStatus(u64),
    /// No decision looks at another aggregate.
    Other,
}

/// What is to be stored beside the state, sent, or both.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// People get their copies; who has one keeps it.
    Copies {
        workspace: Workspace,
        id: NotificationId,
        people: Vec<UserName>,
        at: DateTime<Utc>,
        /// Set where nobody has to do anything any more.
        read_at: Option<DateTime<Utc>>,
        /// They are told because they watch.
        watching: bool,
        /// A reminder, which takes the place of an earlier one of its request.
        renews: bool,
    },
    /// These people are told of something that is of no request.
    Notice {
        workspace: Workspace,
        notice: Box<Notice>,
        people: Vec<UserName>,
    },
    /// This is to leave the application; what is there already stays.
    Deliver {
        workspace: Workspace,
        id: NotificationId,
        /// How urgent it is.
        priority: Priority,
        /// To whom, how, and from when on. Whoever is told of it already, by whichever way, is not told
        /// by another, unless that one has failed.
        to: Vec<Posting>,
    },
    /// A request has ended: the chats that were told that it is asked are told of that, too.
    FollowUp {
        workspace: Workspace,
        id: NotificationId,
        /// How urgent the request is.
        priority: Priority,
    },
    /// A person wants to be told differently: what waits for them, for the end of quiet hours or for
    /// another try, is due, and decided anew.
    Reconsider {
        workspace: Workspace,
        person: UserName,
    },
    /// A claimed delivery is to be tried now.
    Send { key: DeliveryKey, attempt: u32 },
    /// The executor is to tell how this ends.
    WatchRunEnds {
        workspace: Workspace,
        /// Who wants to know.
        by: EndsFor,
        /// What: a run, an agent, or all.
        of: RunEndsOf,
        /// Version of the watch, or of the webhook.
        rev: u64,
    },
    /// More people are to be told: the sweep goes on at once.
    More,
    /// Nobody has to do anything with a request any more: its copies count as read.
    Settle { workspace: Workspace, hold: HoldId },
    /// A person has read a copy.
    Read {
        workspace: Workspace,
        person: UserName,
        id: NotificationId,
    },
    /// A person has read all of theirs.
    ReadAll {
        workspace: Workspace,
        person: UserName,
        /// But for what changed after this number.
        until: Option<u64>,
    },
    /// One page of what is known of requests that had ended before this goes.
    Forget { before: DateTime<Utc> },
    /// The read copy of users is to take these over.
    Users(Vec<UserChange>),
}

/// What the caller is told.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Reply {
    /// To [`Input::Told`].
    EventRecorded(EventRecorded),
    /// To [`Input::Ended`].
    RunEndRecorded(RunEndRecorded),
    /// To [`Input::Read`].
    Notification(Box<NotificationView>),
    /// To [`Input::ReadAll`].
    AllRead(AllRead),
    /// To [`Input::Secret`].
    Secret(WebhookSecretView),
    /// To [`Input::Prefer`].
    Preferences(contract::Preferences),
    /// To [`Input::AddWebhook`].
    WebhookAdded(Box<WebhookAdded>),
    /// To [`Input::RemoveWebhook`] and [`Input::ChangeWebhook`].
    Webhook(Box<WebhookView>),
    /// To [`Input::Watch`].
    WatchStatus(Box<WatchAdded>),
    /// To [`Input::Unwatch`].
    Watch(Box<WatchView>),
    /// To what nobody waits for.
    Done,
}

/// Somebody who is there and not disabled.
pub(crate) fn active(
    workspace: &Workspace,
    name: &UserName,
    lookup: LookupFn<'_>,
) -> Result<Option<Person>, Undecided> {
    let need = Need::Person(workspace.clone(), name.clone());
    match lookup(&need) {
        Lookup::NotLoaded => Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::Person(person)) => Ok(Some(person).filter(|person| person.active)),
        Lookup::Found(
            Fact::Members(_)
            | Fact::RequestLifecycle(_)
            | Fact::Webhooks(_)
            | Fact::Unread(_)
            | Fact::WatchStatus(_)
            | Fact::Other,
        )
        | Lookup::Missing => Ok(None),
    }
}

/// Two things that a decision looks at: what both lack is asked for at once.
pub(crate) fn both<A, B>(
    one: Result<A, Undecided>,
    other: Result<B, Undecided>,
) -> Result<(A, B), Undecided> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok((one, other)),
        (Err(Undecided::NeedsMore(mut needs)), Err(Undecided::NeedsMore(more))) => {
            needs.extend(more);
            Err(Undecided::NeedsMore(needs))
        }
        (Err(stop), _) | (_, Err(stop)) => Err(stop),
    }
}
