//! The NATS permissions of each client to publish and subscribe.
//!
//! This is the authority of everything that carries no signed assertion, so it says as little as each
//! client needs. `holdpoint nats-config` writes it as a server configuration.
//!
//! A stream is made and changed by the one service that owns it, for its settings can make the server
//! publish what its owner may not. No user may delete, purge or read a stream by its API.

#[cfg(test)]
mod tests;

use crate::asking::RequestInput;
use crate::erasure::EraseContact;
use crate::executor::{
    AddActivity, ApplyAgent, CancelRun, ChildRunsEnded, DeleteAgent, DeleteContact,
    DeleteLibraryEntry, DeleteTool, GetMailThread, HandoffsUpdated, HoldsClosed, MigrateRun,
    PatchContact, PatchContext, PauseRun, PauseScope, PutContact, PutLibraryEntry, PutTool,
    ResumeRun, ResumeScope, RetryRun, SearchContacts, SetChildRuns, SignalRun, StartRun,
    StartScheduled, TakeOverRun, TimersFired, WatchRunEnds,
};
use crate::handoff::{
    ActOnRequest, AskAgain, CreateStandingApproval, DecideRequest, DecideRequests, DeletePolicy,
    DisableUser, OpenHold, PutPolicy, PutUser, RequestTimersFired, RevokeStandingApproval,
    SetHolds, WithdrawHold,
};
use crate::message::{Command, Query};
use crate::notification::{
    AddWebhook, ChangeWebhook, PutPreferences, ReadNotification, ReadNotifications,
    RecordContactEvents, RecordRequestEvents, RecordRunEnds, RemoveWebhook, ShowWebhookSecret,
    Unwatch, Watch,
};
use crate::operation::{CancelOperation, StartOperation};
use crate::scheduler::{DeleteSchedule, PutSchedule, SetTimers};
use crate::steps::{Deregister, Heartbeat, StartSteps, StepResults};
use crate::subject::{self, STEPS, TIMERS, commands_stream};
use crate::suspension::{ContinueStep, EndedRuns, GetStepBlob, PutBlob, SuspendRun, SuspendSteps};
use crate::tool::RegisterTools;
use crate::{dead_letter, executor, handoff, notification, scheduler};
use holdpoint_ids::Workspace;

/// Commands of other services, put into their streams.
macro_rules! stored {
    ($($command:ty),+) => {
        vec![$(format!("hp.*.cmd.{}.*.{}", <$command>::SERVICE, <$command>::VERB)),+]
    };
}

/// Commands as core requests.
macro_rules! asked {
    ($($command:ty),+) => {
        vec![$(format!("hp.*.ask.{}.*.{}", <$command>::SERVICE, <$command>::VERB)),+]
    };
}

/// A kind of client of the bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Client {
    Executor,
    Scheduler,
    Handoff,
    Notification,
    /// The gateway: asks every service on behalf of callers, with assertions.
    Gateway,
    /// A node: takes steps, and reports.
    Worker,
    /// Any other program that publishes commands, of one workspace.
    Program(Workspace),
}

impl Client {
    /// Every client that belongs to no workspace.
    pub const SERVICES: [Self; 6] = [
        Self::Executor,
        Self::Scheduler,
        Self::Handoff,
        Self::Notification,
        Self::Gateway,
        Self::Worker,
    ];

    /// The name of its connection.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Executor => executor::SERVICE,
            Self::Scheduler => scheduler::SERVICE,
            Self::Handoff => handoff::SERVICE,
            Self::Notification => notification::SERVICE,
            Self::Gateway => "gateway",
            Self::Worker => "worker",
            Self::Program(_) => "program",
        }
    }
}

/// Subjects that a client may publish and subscribe to; anything else is refused by the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permissions {
    /// Subjects, with wildcards.
    pub publish: Vec<String>,
    /// Subjects, with wildcards.
    pub subscribe: Vec<String>,
    /// Whether it may answer a request that it has received, once, at the inbox named there.
    pub responds: bool,
}

/// The permissions of a client. `inboxes` is the prefix of its inboxes, which no other client may share:
/// [`inboxes_of`](subject::inboxes_of) makes it from the public half of the client's key.
#[must_use]
pub fn permissions(client: &Client, inboxes: &str) -> Permissions {
    let mut publish = Vec::new();
    let mut subscribe = vec![format!("{inboxes}.>")];
    match client {
        Client::Executor => {
            serves(executor::SERVICE, &mut publish, &mut subscribe);
            publish.extend(stored! {
                SetTimers, SetHolds, RecordRunEnds, RecordContactEvents, SetChildRuns, ChildRunsEnded
            });
            publish.extend(["hp.*.steps.>".into(), "hp.sys.node.*".into()]);
            publish.push(subject::ended_calls());
            subscribe.push(subject::ended_calls());
            // The built-in tools that it runs itself.
            publish.extend(built_in_tools());
            publish.extend(stream_owner(STEPS));
            knows_users(&mut publish, &mut subscribe);
        }
        Client::Scheduler => {
            serves(scheduler::SERVICE, &mut publish, &mut subscribe);
            publish.extend(stored! { TimersFired, RequestTimersFired, StartScheduled });
            publish.push("hp.timers.>".into());
            publish.extend(stream_owner(TIMERS));
            publish.extend(stream_reader(TIMERS));
            subscribe.push(subject::CLOCK_ADVANCE.into());
        }
        Client::Handoff => {
            serves(handoff::SERVICE, &mut publish, &mut subscribe);
            publish.extend(stored! {
                HoldsClosed, HandoffsUpdated, SetTimers, RecordRequestEvents
            });
        }
        Client::Notification => {
            serves(notification::SERVICE, &mut publish, &mut subscribe);
            // The runs whose ends it records.
            publish.extend(stored! { WatchRunEnds });
            knows_users(&mut publish, &mut subscribe);
        }
        Client::Gateway => {
            publish.extend(of_gateway());
            publish.push("hp.*.get.>".into());
            publish.extend(dead_letter::SERVICES.map(subject::dead_letters_filter));
            publish.push(subject::CLOCK_ADVANCE.into());
            subscribe.push("hp.*.live.>".into());
        }
        Client::Worker => {
            publish.extend(asked! { RegisterTools, StartSteps, StepResults, SuspendSteps, ContinueStep, PutBlob, Heartbeat, Deregister, RequestInput });
            publish.extend(stored! { StepResults });
            let queries = [EndedRuns::NAME, GetStepBlob::NAME];
            publish.extend(queries.map(|name| format!("hp.*.get.{}.{name}", executor::SERVICE)));
            publish.extend(built_in_tools());
            // The executor makes the stream and its consumers: their settings name subjects that the
            // server publishes to.
            publish.extend(stream_reader(STEPS));
            subscribe.push("hp.sys.node.*".into());
            // A tool that waits for an answer is nudged.
            subscribe.push(subject::live_filter(executor::SERVICE));
        }
        Client::Program(workspace) => {
            publish.extend(of_program(workspace));
            subscribe.push(format!("hp.{workspace}.live.>"));
        }
    }
    Permissions {
        publish,
        subscribe,
        // A node answers requests for a heartbeat.
        responds: *client == Client::Worker,
    }
}

/// Commands of the executor that a program may publish; deciding needs a person.
const PROGRAM_EXECUTOR: [&str; 15] = [
    ApplyAgent::VERB,
    StartRun::VERB,
    PauseRun::VERB,
    ResumeRun::VERB,
    CancelRun::VERB,
    RetryRun::VERB,
    SignalRun::VERB,
    SuspendRun::VERB,
    RequestInput::VERB,
    PutContact::VERB,
    PatchContact::VERB,
    AddActivity::VERB,
    DeleteContact::VERB,
    PutTool::VERB,
    DeleteTool::VERB,
];

/// Commands of the handoff service that a program may publish.
const PROGRAM_HANDOFF: [&str; 3] = [OpenHold::VERB, AskAgain::VERB, WithdrawHold::VERB];

/// Queries of the handoff service that a program may send. Only administrators see users, and a user sees only their
/// notifications: the gateway queries both after it has authenticated the caller.
const PROGRAM_QUERIES: [&str; 4] = ["request", "requests", "policy", "policies"];

/// Whether programs or workers may publish a command too: then its actor is a name that no user vouches
/// for, and is never taken for a service.
#[must_use]
pub fn is_open_to_programs(service: &str, verb: &str) -> bool {
    match service {
        executor::SERVICE => PROGRAM_EXECUTOR.contains(&verb),
        handoff::SERVICE => PROGRAM_HANDOFF.contains(&verb),
        _ => false,
    }
}

/// The subjects that a program may publish.
fn of_program(workspace: &Workspace) -> Vec<String> {
    let mut publish = Vec::new();
    for kind in ["cmd", "ask"] {
        for (service, verbs) in [
            (executor::SERVICE, PROGRAM_EXECUTOR.as_slice()),
            (handoff::SERVICE, PROGRAM_HANDOFF.as_slice()),
        ] {
            let subject = |verb: &&str| format!("hp.{workspace}.{kind}.{service}.*.{verb}");
            publish.extend(verbs.iter().map(subject));
        }
    }
    publish.push(format!("hp.{workspace}.get.{}.>", executor::SERVICE));
    let query = |name: &str| format!("hp.{workspace}.get.{}.{name}", handoff::SERVICE);
    publish.extend(PROGRAM_QUERIES.map(query));
    publish
}

/// The commands that the gateway sends on behalf of users and their programs. Messages between services are not
/// among them.
fn of_gateway() -> Vec<String> {
    asked! {
        ApplyAgent, DeleteAgent, PutTool, DeleteTool, PutLibraryEntry, DeleteLibraryEntry,
        PutContact, PatchContact, AddActivity,
        DeleteContact, EraseContact, StartRun, PauseRun, ResumeRun, CancelRun, RetryRun, MigrateRun, PatchContext, SignalRun, SuspendRun,
        TakeOverRun, PauseScope, ResumeScope, StartOperation, CancelOperation, RequestInput, PutBlob, OpenHold, AskAgain, WithdrawHold, DecideRequest, DecideRequests,
        ActOnRequest, PutUser, DisableUser, PutPolicy, DeletePolicy,
        CreateStandingApproval, RevokeStandingApproval, ReadNotification,
        ReadNotifications, PutPreferences, AddWebhook, ChangeWebhook, RemoveWebhook,
        ShowWebhookSecret, Watch, Unwatch, WatchRunEnds, PutSchedule, DeleteSchedule
    }
}

/// The commands of the built-in tools that change contacts and of `create_task`, and the queries of `search_contacts`
/// and `send_email`, which need the token of a step.
fn built_in_tools() -> Vec<String> {
    let mut publish = asked! { PatchContact, OpenHold };
    let queries = [SearchContacts::NAME, GetMailThread::NAME];
    publish.extend(queries.map(|query| format!("hp.*.get.{}.{query}", SearchContacts::SERVICE)));
    publish
}

/// The subjects of a service on the kernel: its commands and queries, replies, and its stream.
fn serves(service: &str, publish: &mut Vec<String>, subscribe: &mut Vec<String>) {
    subscribe.push(subject::asks_filter(service));
    subscribe.push(subject::queries_filter(service));
    subscribe.push(subject::dead_letters_filter(service));
    // Callers wait at inboxes of their own.
    publish.push("_INBOX.>".into());
    publish.push(subject::live_filter(service));
    publish.extend(stream_owner(&commands_stream(service)));
    publish.extend(stream_reader(&commands_stream(service)));
}

/// A copy of the users: what changed, and that something did.
fn knows_users(publish: &mut Vec<String>, subscribe: &mut Vec<String>) {
    publish.push(format!("hp.sys.get.{}.user_changes", handoff::SERVICE));
    subscribe.push(subject::live_users());
}

/// Making a stream and its consumers, and changing them.
fn stream_owner(stream: &str) -> Vec<String> {
    let mut subjects: Vec<_> = ["CREATE", "UPDATE", "INFO"]
        .map(|verb| format!("$JS.API.STREAM.{verb}.{stream}"))
        .to_vec();
    subjects.push(format!("$JS.API.CONSUMER.CREATE.{stream}.>"));
    subjects.push(format!("$JS.API.CONSUMER.DELETE.{stream}.*"));
    subjects.push(format!("$JS.API.CONSUMER.NAMES.{stream}"));
    subjects
}

/// Taking what lies in a stream, through consumers that are there.
fn stream_reader(stream: &str) -> Vec<String> {
    vec![
        format!("$JS.API.CONSUMER.INFO.{stream}.*"),
        format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.*"),
        format!("$JS.ACK.{stream}.>"),
    ]
}
