//! Who may publish and subscribe to what: NATS permissions, one client at a time.
//!
//! This is the authority of everything that carries no signed assertion, so it says as little as each
//! client needs. `holdpoint nats-config` writes it as a server configuration.

use crate::message::Command;
use crate::subject::{STEPS, TIMERS, commands_stream};
use crate::{executor, handoff, notification, scheduler};
use holdpoint_ids::Workspace;

/// A kind of client of the bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Client {
    /// The executor.
    Executor,
    /// The scheduler.
    Scheduler,
    /// The handoff service.
    Handoff,
    /// The notification service.
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

    /// The name of its connection; its inboxes begin with `_INBOX.<name>.`.
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
}

/// What a client may.
#[must_use]
pub fn permissions(client: &Client) -> Permissions {
    let mut publish = vec!["$JS.API.INFO".to_owned()];
    let mut subscribe = vec![format!("_INBOX.{}.>", client.name())];
    match client {
        Client::Executor => {
            serves(executor::SERVICE, &mut publish, &mut subscribe);
            publish.extend(commands_of(&[scheduler::SERVICE, handoff::SERVICE]));
            publish.extend(command_of::<notification::NoteEnds>());
            publish.extend(["hp.*.steps.>".into(), "hp.sys.node.*".into()]);
            // The built-in tools that it runs itself.
            publish.extend(BUILT_IN_TOOLS.map(str::to_owned));
            publish.extend(stream_api(STEPS));
            knows_users(&mut publish, &mut subscribe);
        }
        Client::Scheduler => {
            serves(scheduler::SERVICE, &mut publish, &mut subscribe);
            publish.extend(commands_of(&[executor::SERVICE, handoff::SERVICE]));
            publish.push("hp.timers.>".into());
            publish.extend([TIMERS, STEPS].into_iter().flat_map(consumer_api));
            subscribe.push(crate::subject::CLOCK_ADVANCE.into());
        }
        Client::Handoff => {
            serves(handoff::SERVICE, &mut publish, &mut subscribe);
            publish.extend(commands_of(&[
                executor::SERVICE,
                scheduler::SERVICE,
                notification::SERVICE,
            ]));
        }
        Client::Notification => {
            serves(notification::SERVICE, &mut publish, &mut subscribe);
            // Which ends of runs it is to be told.
            publish.extend(command_of::<executor::WatchEnds>());
            knows_users(&mut publish, &mut subscribe);
        }
        Client::Gateway => {
            publish.extend(["hp.*.ask.>", "hp.*.get.>"].map(str::to_owned));
            publish.extend(commands_of(&[
                executor::SERVICE,
                handoff::SERVICE,
                notification::SERVICE,
            ]));
            publish.push(crate::subject::CLOCK_ADVANCE.into());
            subscribe.push("hp.*.live.>".into());
        }
        Client::Worker => {
            let ask = |verb: &str| format!("hp.*.ask.executor.*.{verb}");
            publish.extend(WORKER_EXECUTOR.map(ask));
            publish.extend(BUILT_IN_TOOLS.map(str::to_owned));
            publish.push("hp.*.cmd.executor.*.step_results".into());
            publish.extend(consumer_api(STEPS));
            subscribe.push("hp.sys.node.*".into());
            // A tool that waits for an answer is nudged.
            subscribe.push(format!("hp.*.live.{}", executor::SERVICE));
        }
        Client::Program(workspace) => {
            publish.extend(of_program(workspace));
            subscribe.push(format!("hp.{workspace}.live.>"));
        }
    }
    Permissions { publish, subscribe }
}

/// Commands of the executor that a worker asks for.
const WORKER_EXECUTOR: [&str; 5] = [
    "start_steps",
    "step_results",
    "beat",
    "goodbye",
    "request_input",
];

/// What the built-in tools ask for: `update_contact`, and `create_task`.
const BUILT_IN_TOOLS: [&str; 2] = [
    "hp.*.ask.executor.*.patch_contact",
    "hp.*.ask.handoff.*.open_hold",
];

/// Commands of the executor that a program may publish; deciding needs a person.
const PROGRAM_EXECUTOR: [&str; 12] = [
    "apply_agent",
    "start_run",
    "pause_run",
    "resume_run",
    "cancel_run",
    "request_input",
    "put_contact",
    "patch_contact",
    "add_activity",
    "delete_contact",
    "put_tool",
    "delete_tool",
];

/// Commands of the handoff service that a program may publish.
const PROGRAM_HANDOFF: [&str; 3] = ["open_hold", "ask_again", "withdraw_hold"];

/// What a program may ask the handoff service. Users are for those who administer, and what somebody is
/// told is theirs alone: the gateway asks for that, which has seen who wants it.
const PROGRAM_LOOKS: [&str; 4] = ["request", "requests", "policy", "policies"];

/// What a program may publish.
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
    let look = |name: &str| format!("hp.{workspace}.get.{}.{name}", handoff::SERVICE);
    publish.extend(PROGRAM_LOOKS.map(look));
    publish
}

/// What a service on the kernel needs: its own commands and queries, answers, and its stream.
fn serves(service: &str, publish: &mut Vec<String>, subscribe: &mut Vec<String>) {
    subscribe.push(crate::subject::asks_filter(service));
    subscribe.push(crate::subject::queries_filter(service));
    // Callers wait at inboxes of their own.
    publish.push("_INBOX.>".into());
    publish.push(format!("hp.*.live.{service}"));
    publish.extend(consumer_api(&commands_stream(service)));
}

/// A copy of the users: what changed, and that something did.
fn knows_users(publish: &mut Vec<String>, subscribe: &mut Vec<String>) {
    publish.push(format!("hp.sys.get.{}.user_facts", handoff::SERVICE));
    subscribe.push(crate::subject::live_users());
}

/// Commands of other services, and their streams.
fn commands_of(services: &[&str]) -> Vec<String> {
    services
        .iter()
        .flat_map(|service| {
            let mut subjects = stream_api(&commands_stream(service));
            subjects.push(crate::subject::commands_filter(service));
            subjects
        })
        .collect()
}

/// One command of another service, and its stream.
fn command_of<C: Command>() -> Vec<String> {
    let mut subjects = stream_api(&commands_stream(C::SERVICE));
    subjects.push(format!("hp.*.cmd.{}.*.{}", C::SERVICE, C::VERB));
    subjects
}

/// Making a stream and looking at it.
fn stream_api(stream: &str) -> Vec<String> {
    ["CREATE", "UPDATE", "INFO"]
        .map(|verb| format!("$JS.API.STREAM.{verb}.{stream}"))
        .to_vec()
}

/// The same, and reading it through consumers.
fn consumer_api(stream: &str) -> Vec<String> {
    let mut subjects = stream_api(stream);
    for verb in ["CREATE", "DURABLE.CREATE", "INFO", "DELETE", "MSG.NEXT"] {
        subjects.push(format!("$JS.API.CONSUMER.{verb}.{stream}.>"));
    }
    for verb in ["CREATE", "LIST", "NAMES"] {
        subjects.push(format!("$JS.API.CONSUMER.{verb}.{stream}"));
    }
    subjects.push(format!("$JS.ACK.{stream}.>"));
    subjects
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S0-T4: who tells of ends, and who asks for that, may no more for it.
    #[test]
    fn ends_are_told_and_asked_for_and_nothing_else() {
        for (client, subject, may) in [
            (
                Client::Executor,
                "hp.acme.cmd.notification.3.note_ends",
                true,
            ),
            (
                Client::Executor,
                "hp.acme.cmd.notification.3.note_requests",
                false,
            ),
            (
                Client::Notification,
                "hp.acme.cmd.executor.3.watch_ends",
                true,
            ),
            (
                Client::Notification,
                "hp.acme.cmd.executor.3.cancel_run",
                false,
            ),
        ] {
            assert_eq!(may_publish(&client, subject), may, "{subject}");
        }
    }

    /// Whether a permission covers a subject.
    fn covers(pattern: &str, subject: &str) -> bool {
        let (mut pattern, mut subject) = (pattern.split('.'), subject.split('.'));
        loop {
            match (pattern.next(), subject.next()) {
                (Some(">"), Some(_)) | (None, None) => return true,
                (Some("*"), Some(_)) => {}
                (Some(one), Some(other)) if one == other => {}
                _ => return false,
            }
        }
    }

    fn may_publish(client: &Client, subject: &str) -> bool {
        let permissions = permissions(client);
        permissions.publish.iter().any(|one| covers(one, subject))
    }

    /// DESIGN: an unsigned command has the rights its subject has, and never the right to decide.
    #[test]
    fn only_the_gateway_can_bring_a_decision() {
        let decide = "hp.acme.cmd.handoff.3.decide_request";
        let program = Client::Program("acme".parse().unwrap());
        assert!(may_publish(&Client::Gateway, decide));
        for client in [Client::Worker, program] {
            assert!(!may_publish(&client, decide), "{client:?}");
        }
    }

    /// Issue 4, ask again: whoever may open a hold may ask it again, and take it back.
    #[test]
    fn a_program_asks_again_what_it_has_asked() {
        let program = Client::Program("acme".parse().unwrap());
        for verb in ["open_hold", "ask_again", "withdraw_hold"] {
            let subject = format!("hp.acme.cmd.handoff.3.{verb}");
            assert!(may_publish(&program, &subject), "{verb}");
        }
    }

    /// API, Tools: whoever runs the built-in tools may ask for what they do, and for nothing else.
    #[test]
    fn the_built_in_tools_reach_what_they_change() {
        for client in [Client::Worker, Client::Executor] {
            for subject in [
                "hp.acme.ask.executor.3.patch_contact",
                "hp.acme.ask.handoff.3.open_hold",
            ] {
                assert!(may_publish(&client, subject), "{client:?}: {subject}");
            }
            for verb in ["withdraw_hold", "decide_request", "act_on_request"] {
                let subject = format!("hp.acme.ask.handoff.3.{verb}");
                assert!(!may_publish(&client, &subject), "{client:?}: {verb}");
            }
        }
    }

    /// S0-R3: whoever watches requests is nudged, and by their owner alone.
    #[test]
    fn each_service_nudges_for_itself_and_pages_hear_all() {
        let live = "hp.acme.live.handoff";
        assert!(may_publish(&Client::Handoff, live));
        assert!(may_publish(&Client::Handoff, &crate::subject::live_users()));
        for client in [Client::Executor, Client::Gateway, Client::Worker] {
            assert!(!may_publish(&client, live), "{client:?}");
        }
        let gateway = permissions(&Client::Gateway).subscribe;
        assert!(gateway.iter().any(|one| covers(one, live)));
    }

    /// Ground, "Identity": a program looks at runs and requests. Nobody's notifications, ways and watches are
    /// read by it, nor what is for those who administer: users, and where webhooks are.
    #[test]
    fn a_program_reads_nothing_that_is_somebodys_alone() {
        let program = Client::Program("acme".parse().unwrap());
        for look in [
            "executor.runs",
            "executor.history",
            "handoff.request",
            "handoff.policies",
        ] {
            assert!(
                may_publish(&program, &format!("hp.acme.get.{look}")),
                "{look}"
            );
        }
        for other in [
            "notification.notifications",
            "notification.news",
            "notification.preferences",
            "notification.watches",
            "notification.webhooks",
            "handoff.users",
            "handoff.user_facts",
        ] {
            let subject = format!("hp.acme.get.{other}");
            assert!(!may_publish(&program, &subject), "{other}");
            assert!(may_publish(&Client::Gateway, &subject), "{other}");
        }
    }

    #[test]
    fn a_program_stays_in_its_workspace_and_a_worker_reports_only() {
        let program = Client::Program("acme".parse().unwrap());
        assert!(may_publish(&program, "hp.acme.cmd.executor.3.start_run"));
        assert!(!may_publish(&program, "hp.other.cmd.executor.3.start_run"));
        assert!(!may_publish(
            &program,
            "hp.acme.cmd.executor.3.holds_closed"
        ));
        assert!(!may_publish(
            &program,
            "hp.acme.cmd.executor.3.timers_fired"
        ));
        assert!(may_publish(
            &Client::Worker,
            "hp.acme.ask.executor.3.step_results"
        ));
        assert!(!may_publish(
            &Client::Worker,
            "hp.acme.ask.executor.3.start_run"
        ));
        assert!(!may_publish(&Client::Scheduler, "hp.acme.steps.log"));
    }
}
