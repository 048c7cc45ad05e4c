//! Everything that can happen in this service, and to which aggregate.

use chrono::{DateTime, Utc};
use holdpoint_contracts::handoff::UserChange;
use holdpoint_contracts::notification::{self as contract, RequestEvent, RunEnded, Watched};
use holdpoint_ids::{NotificationId, UserName, WebhookId, Workspace};

use super::{Call, DeliveryKey, EndKey, Key, NoteKey, Report, Webhook, Wording};

/// Everything that can happen to one aggregate.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// The handoff service says what happened to a request; it says so until it is confirmed.
    Told {
        workspace: Workspace,
        fact: Box<RequestEvent>,
    },
    /// The sweep goes on with those who are still to be told.
    GoOn(NoteKey),
    /// The executor says how a run ended that somebody may watch; it says so until it is confirmed.
    Ended {
        workspace: Workspace,
        end: Box<RunEnded>,
    },
    /// The sweep goes on with those who are still to be told of an end.
    EndGoesOn(EndKey),
    /// The executor says that a run had ended before somebody began to watch it.
    EndedBefore {
        workspace: Workspace,
        person: UserName,
        end: Box<RunEnded>,
    },
    /// A person has read their copy.
    Read {
        workspace: Workspace,
        /// Who, as the gateway vouches.
        person: UserName,
        id: NotificationId,
    },
    /// A person has read all that they were told.
    ReadAll {
        workspace: Workspace,
        /// Who, as the gateway vouches.
        person: UserName,
        /// But for what changed after this number; none: all.
        until: Option<u64>,
    },
    /// A person says how they want to be told.
    Prefer {
        workspace: Workspace,
        /// Who, as the gateway vouches.
        person: UserName,
        /// What; it can be read as [`Rules`](super::preferences::Rules).
        said: contract::Preferences,
        /// Signs the calls of a chat that is new.
        fresh: String,
    },
    /// The sweep found that a person is to be mailed of what is open.
    Digest {
        workspace: Workspace,
        person: UserName,
    },
    /// A person wants to be told of something.
    Watch {
        workspace: Workspace,
        /// Who, as the gateway vouches.
        person: UserName,
        of: Watched,
    },
    /// A person wants to be told of it no more.
    Unwatch {
        workspace: Workspace,
        /// Who, as the gateway vouches.
        person: UserName,
        of: Watched,
    },
    /// Somebody who may adds a program that is told of events.
    AddWebhook(Box<Webhook>),
    /// Somebody who may changes one, or has it called again.
    ChangeWebhook {
        workspace: Workspace,
        id: WebhookId,
        /// How it is to be.
        to: Box<Wording>,
        /// Whether it is called.
        enabled: bool,
    },
    /// Somebody who may removes one.
    RemoveWebhook { workspace: Workspace, id: WebhookId },
    /// A sweep repeats for an enabled webhook what the executor is to report. A webhook that was added before
    /// the executor could report the ends of all runs has never asked for them (Mend C-10).
    WatchRunEnds { workspace: Workspace, id: WebhookId },
    /// One was called.
    Called {
        workspace: Workspace,
        id: WebhookId,
        /// What came of it.
        call: Call,
    },
    /// The sweep found a delivery due: it is dispatched, to this process and no other.
    Claim(DeliveryKey),
    /// What came of a try to deliver.
    Reported {
        key: DeliveryKey,
        attempt: u32,
        report: Report,
    },
    /// Somebody wants what callbacks are signed with; it is made where there is none.
    Secret {
        workspace: Workspace,
        /// It becomes this one.
        fresh: String,
    },
    /// The sweep found something that nobody needs any more.
    Forget {
        /// What had ended before this.
        before: DateTime<Utc>,
    },
    /// The handoff service says who is who.
    Users(Vec<UserChange>),
}

impl Input {
    /// The aggregate that it is for.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Self::Told { workspace, fact } => Key::Note(NoteKey {
                workspace: workspace.clone(),
                hold: fact.id,
                rev: fact.rev,
            }),
            Self::Ended { workspace, end } => Key::End(EndKey::of(workspace, end)),
            Self::EndGoesOn(key) => Key::End(key.clone()),
            Self::EndedBefore {
                workspace,
                person,
                end,
            } => Key::Watch(workspace.clone(), person.clone(), Watched::Run(end.run)),
            Self::GoOn(key) => Key::Note(key.clone()),
            Self::Read {
                workspace,
                person,
                id,
            } => Key::Copy(workspace.clone(), person.clone(), *id),
            Self::ReadAll {
                workspace, person, ..
            } => Key::Reading(workspace.clone(), person.clone()),
            Self::Claim(key) | Self::Reported { key, .. } => Key::Delivery(key.clone()),
            Self::Secret { workspace, .. } => Key::Secret(workspace.clone()),
            Self::Prefer {
                workspace, person, ..
            }
            | Self::Digest { workspace, person } => {
                Key::Preferences(workspace.clone(), person.clone())
            }
            Self::Watch {
                workspace,
                person,
                of,
            }
            | Self::Unwatch {
                workspace,
                person,
                of,
            } => Key::Watch(workspace.clone(), person.clone(), of.clone()),
            Self::AddWebhook(new) => Key::Webhook(new.workspace.clone(), new.id),
            Self::RemoveWebhook { workspace, id }
            | Self::ChangeWebhook { workspace, id, .. }
            | Self::WatchRunEnds { workspace, id }
            | Self::Called { workspace, id, .. } => Key::Webhook(workspace.clone(), *id),
            Self::Forget { .. } => Key::Old,
            Self::Users(_) => Key::Users,
        }
    }
}
