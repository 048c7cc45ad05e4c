//! Data that a decision may lack, and the loaded values.

use chrono::{DateTime, Utc};
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::notification::{Channel, ContactEventKind, PersonalChannel, Watched};
use holdpoint_ids::{HoldId, RoleName, UserName, Workspace};
use strum::EnumTryAs;

use super::model::{DeliveryRules, RequestLifecycle, Subscription};

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Need {
    /// A page of the active users with a role, by name.
    Members {
        workspace: Workspace,
        role: RoleName,
        /// The last name of the page before.
        after: Option<UserName>,
        limit: usize,
    },
    /// A page of the people who watch any of these, by name, each once.
    Watchers {
        workspace: Workspace,
        of: Vec<Watched>,
        /// The last name of the page before.
        after: Option<UserName>,
        limit: usize,
    },
    Person(Workspace, UserName),
    RequestLifecycle(Workspace, HoldId),
    /// Whether the contact of a request's run is erased. Only a late event asks.
    IsErased(Workspace, HoldId),
    /// The number of the newest erasure of a contact, whose notifications have this id.
    LastErasure(Workspace, HoldId),
    /// The number of contact events of a kind since an instant. It is counted up to a bound.
    ContactEvents {
        workspace: Workspace,
        kind: ContactEventKind,
        since: DateTime<Utc>,
        most: u64,
    },
    /// The webhooks of a workspace, with their backlogs.
    Webhooks(Workspace),
    WatchCount(Workspace, UserName),
    /// The number of unread inbox entries of a person.
    Unread {
        workspace: Workspace,
        person: UserName,
        /// Entries that changed after this number are not counted.
        until: Option<u64>,
    },
}

#[derive(Debug, Clone, PartialEq, EnumTryAs)]
pub enum Fact {
    /// For [`Need::Members`] and [`Need::Watchers`].
    Names(Vec<UserName>),
    Person(Person),
    RequestLifecycle(RequestLifecycle),
    Webhooks(Vec<Subscription>),
    /// For [`Need::Unread`], [`Need::WatchCount`], [`Need::LastErasure`] and [`Need::ContactEvents`].
    Count(u64),
    /// For [`Need::IsErased`].
    IsErased(bool),
}

/// What decisions read of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    pub name: UserName,
    /// A disabled user is never notified.
    pub active: bool,
    pub has_mail: bool,
    /// Whether their roles let them read runs and requests.
    pub may_look: bool,
    pub rules: DeliveryRules,
}

impl Person {
    /// The first channel for this priority that the person wants, can receive, and that was not tried.
    #[must_use]
    pub fn next_channel(&self, priority: Priority, tried: &[Channel]) -> Option<PersonalChannel> {
        if self.has_mail {
            return self.rules.next(priority, tried);
        }
        let without_mail: Vec<_> = tried.iter().copied().chain([Channel::Email]).collect();
        self.rules.next(priority, &without_mail)
    }
}
