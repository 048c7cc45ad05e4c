//! Subjects, streams and durable consumers, as `DESIGN.md` lays them out.
//!
//! Workspace first, so that permissions and tenancy are the server's too. A dot in a name is
//! written `~`. The core subjects (`ask`, `get`, `live`) lie outside every stream: a request there
//! is answered by a service and never by JetStream.

use std::time::Duration;

use holdpoint_ids::{Workspace, subject_token};

/// Work queue of reserved dispatches of steps.
pub const STEPS: &str = "HP_STEPS";
/// Schedules of timer buckets, and what they fire.
pub const TIMERS: &str = "HP_TIMERS";

/// Subjects that [`STEPS`] stores.
pub const STEPS_FILTER: &str = "hp.*.steps.>";
/// Subjects that [`TIMERS`] stores. Not all of `hp.timers`: a workspace may be called `timers`.
pub const TIMERS_FILTERS: [&str; 2] = ["hp.timers.bucket.>", TIMERS_DUE_FILTER];
/// Subjects that the scheduler's durable consumer takes from [`TIMERS`].
pub const TIMERS_DUE_FILTER: &str = "hp.timers.due.>";

/// Number of shards that timer buckets are spread over.
pub const TIMER_SHARDS: u32 = 1;

/// Header of a stored command: the inbox where its sender waits for the answer.
pub const REPLY_HEADER: &str = "hp-reply";

/// The prefix of every inbox. A service answers nowhere else: any other subject could carry its
/// answer into a stream, or to other listeners, in its name.
const INBOX: &str = "_INBOX.";

/// Where the client with this public key listens for answers; other clients may not.
#[must_use]
pub fn inboxes_of(public_key: &str) -> String {
    format!("{INBOX}{public_key}")
}

/// Whether a caller may be answered there.
#[must_use]
pub fn is_inbox(subject: &str) -> bool {
    let is_plain = |token: &str| {
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || c == '*' || c == '>';
        !token.is_empty() && !token.contains(is_odd)
    };
    let rest = subject.strip_prefix(INBOX);
    rest.is_some_and(|rest| rest.split('.').all(is_plain))
}

/// Header of a message that its sender keeps and sends again until the receiver has accepted it: a
/// receiver that cannot read it answers, and keeps no dead letter.
pub const KEPT_HEADER: &str = "hp-kept";

/// Header of a core request for a command: the reply may wait [`EFFECT_WAIT`] for the effect of the decision.
pub const AWAIT_EFFECT_HEADER: &str = "hp-await-effect";

/// How long a reply waits for an effect. Then the caller gets it without.
pub const EFFECT_WAIT: Duration = Duration::from_secs(2);

/// The stream of one service's commands.
#[must_use]
pub fn commands_stream(service: &str) -> String {
    format!("HP_CMD_{}", service.to_ascii_uppercase())
}

/// All commands of one service, in all workspaces.
#[must_use]
pub fn commands_filter(service: &str) -> String {
    format!("hp.*.cmd.{service}.>")
}

/// The commands of one service for the aggregates of one partition, in all workspaces.
#[must_use]
pub fn partition_filter(service: &str, partition: u32) -> String {
    format!("hp.*.cmd.{service}.{partition}.>")
}

/// One command, stored until its owner has handled it.
#[must_use]
pub fn command(workspace: &Workspace, service: &str, partition: u32, verb: &str) -> String {
    format!("hp.{workspace}.cmd.{service}.{partition}.{verb}")
}

/// The same command asked by core request: answered after the commit, stored nowhere.
#[must_use]
pub fn ask(workspace: &Workspace, service: &str, partition: u32, verb: &str) -> String {
    format!("hp.{workspace}.ask.{service}.{partition}.{verb}")
}

/// All core requests for commands of one service.
#[must_use]
pub fn asks_filter(service: &str) -> String {
    format!("hp.*.ask.{service}.>")
}

/// A question that changes nothing, by core request.
#[must_use]
pub fn query(workspace: &Workspace, service: &str, name: &str) -> String {
    format!("hp.{workspace}.get.{service}.{name}")
}

#[must_use]
pub fn queries_filter(service: &str) -> String {
    format!("hp.*.get.{service}.*")
}

/// An operator's core request about a service's dead letters (`dead_letter.rs`).
#[must_use]
pub fn dead_letters(workspace: &Workspace, service: &str) -> String {
    format!("hp.{workspace}.dead.{service}")
}

/// All that operators ask one service about its dead letters.
#[must_use]
pub fn dead_letters_filter(service: &str) -> String {
    format!("hp.*.dead.{service}")
}

/// The workspace of a subject made by [`dead_letters`].
#[must_use]
pub fn dead_letters_workspace(subject: &str) -> Option<Workspace> {
    let workspace = subject.strip_prefix("hp.")?.split_once('.')?.0;
    workspace.parse().ok()
}

/// One core message a batch of a service: whose history has grown (`history::Nudge`), which requests
/// have changed (`handoff::RequestNudge`), whose notifications have.
#[must_use]
pub fn live(workspace: &Workspace, service: &str) -> String {
    format!("hp.{workspace}.live.{service}")
}

/// The nudges of one service in all workspaces.
#[must_use]
pub fn live_filter(service: &str) -> String {
    format!("hp.*.live.{service}")
}

/// The nudges of all services in all workspaces.
pub const LIVE_FILTER: &str = "hp.*.live.>";

/// Workspace and service of a subject made by [`live`].
#[must_use]
pub fn live_parts(subject: &str) -> Option<(Workspace, &str)> {
    let (workspace, service) = subject.strip_prefix("hp.")?.split_once(".live.")?;
    Some((workspace.parse().ok()?, service))
}

/// Users of some workspace have changed; user directories refresh.
#[must_use]
pub fn live_users() -> String {
    format!("hp.{SYSTEM_WORKSPACE}.live.{}", crate::handoff::SERVICE)
}

/// Calls that a replica of the executor has ended and another one may count.
#[must_use]
pub fn ended_calls() -> String {
    format!("hp.{SYSTEM_WORKSPACE}.calls.ended")
}

/// Which messages of a queue of steps. Workers keep some slots free of the overflow (finding B-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    Normal,
    /// Calls of workspaces that have many calls of the queue in progress.
    Overflow,
}

impl Lane {
    pub const ALL: [Self; 2] = [Self::Normal, Self::Overflow];
}

/// Dispatches of one queue; the queue is the tool by default.
#[must_use]
pub fn steps(workspace: &Workspace, queue: &str, lane: Lane) -> String {
    steps_of(workspace.as_str(), queue, lane)
}

/// Dispatches of one queue in all workspaces.
#[must_use]
pub fn steps_queue_filter(queue: &str, lane: Lane) -> String {
    steps_of("*", queue, lane)
}

fn steps_of(workspace: &str, queue: &str, lane: Lane) -> String {
    let queue = subject_token(queue);
    match lane {
        Lane::Normal => format!("hp.{workspace}.steps.{queue}"),
        Lane::Overflow => format!("hp.{workspace}.steps.{queue}.overflow"),
    }
}

/// Durable consumer of one queue and lane.
#[must_use]
pub fn steps_consumer(queue: &str, lane: Lane) -> String {
    let queue = subject_token(queue);
    match lane {
        Lane::Normal => format!("steps-{queue}"),
        Lane::Overflow => format!("overflow-{queue}"),
    }
}

/// Where the schedule of one bucket lies: all timers of a shard that are due within one second.
#[must_use]
pub fn timer_bucket(shard: u32, second: i64) -> String {
    format!("hp.timers.bucket.{shard}.{second}")
}

/// Where a bucket arrives, a margin before its second.
#[must_use]
pub fn timer_due(shard: u32) -> String {
    format!("hp.timers.due.{shard}")
}

/// A core request for a heartbeat of a node at once; any heartbeat answers it.
#[must_use]
pub fn node(name: &holdpoint_ids::NodeName) -> String {
    format!("hp.sys.node.{name}")
}

/// The first workspace: its owners run the installation.
pub const FIRST_WORKSPACE: &str = "default";

/// Workspace of what belongs to no tenant: timers of nodes. No tenant can have its name.
pub const SYSTEM_WORKSPACE: &str = "sys";

/// Moves the test clock; only there with `--test-clock`.
pub const CLOCK_ADVANCE: &str = "hp.sys.clock.advance";

/// The parts of a command, ask or query subject: workspace, service and verb (or query name).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// First token after `hp`.
    pub workspace: Workspace,
    /// The service that handles it.
    pub service: String,
    /// The verb of a command, the name of a query.
    pub verb: String,
}

/// Reads a subject made by [`command`], [`ask`] or [`query`].
#[must_use]
pub fn parse(subject: &str) -> Option<Parts> {
    let mut tokens = subject.split('.');
    if tokens.next() != Some("hp") {
        return None;
    }
    let workspace = tokens.next()?.parse().ok()?;
    let kind = tokens.next()?;
    let service = tokens.next()?.to_owned();
    let verb = match kind {
        "cmd" | "ask" => {
            tokens.next()?.parse::<u32>().ok()?;
            tokens.next()?
        }
        "get" => tokens.next()?,
        _ => return None,
    };
    tokens.next().is_none().then(|| Parts {
        workspace,
        service,
        verb: verb.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// M-1
    #[test]
    fn a_subject_says_workspace_service_and_verb() {
        let workspace: Workspace = "acme".parse().unwrap();
        let parts = parse(&command(&workspace, "executor", 3, "start_run")).unwrap();
        assert_eq!(
            (parts.service.as_str(), parts.verb.as_str()),
            ("executor", "start_run")
        );
        assert_eq!(
            parse(&ask(&workspace, "executor", 3, "start_run")).unwrap(),
            parts
        );
        assert_eq!(
            parse(&query(&workspace, "executor", "run")).unwrap().verb,
            "run"
        );
    }

    /// Mend A-M5: a service answers at inboxes and nowhere else.
    #[test]
    fn only_an_inbox_is_answered() {
        for inbox in ["_INBOX.a", "_INBOX.UABC.x.1", "_INBOX.gateway.x"] {
            assert!(is_inbox(inbox), "{inbox}");
        }
        for other in [
            "",
            "_INBOX",
            "_INBOX.",
            "_INBOX.a..b",
            "_INBOX.>",
            "_INBOX.a.*",
            "_INBOX.a b",
            "_INBOX_x.1",
            "hp.other.cmd.handoff.3.decide_request",
            "$JS.API.STREAM.UPDATE.HP_STEPS",
        ] {
            assert!(!is_inbox(other), "{other}");
        }
    }

    #[test]
    fn invalid_subjects_are_refused() {
        for subject in [
            "",
            "hp",
            "hp.a.cmd.x",
            "hp.a.cmd.x.y.z",
            "hp.a.cmd.x.1.z.more",
            "x.a.get.b.c",
        ] {
            assert_eq!(parse(subject), None, "{subject}");
        }
    }

    #[test]
    fn a_queue_with_a_dot_stays_one_token() {
        let (normal, overflow) = (Lane::Normal, Lane::Overflow);
        assert_eq!(
            steps_queue_filter("crm.find", normal),
            "hp.*.steps.crm~find"
        );
        assert_eq!(
            steps_queue_filter("crm.find", overflow),
            "hp.*.steps.crm~find.overflow"
        );
        assert_eq!(steps_consumer("crm.find", normal), "steps-crm~find");
        assert_eq!(steps_consumer("crm.find", overflow), "overflow-crm~find");
    }
}
