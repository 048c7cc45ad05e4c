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
            publish.extend(stream_api(STEPS));
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
            // Its copy of the users: what changed, and that something did.
            publish.push(format!("hp.sys.get.{}.user_facts", handoff::SERVICE));
            subscribe.push(crate::subject::live_users());
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
            for verb in WORKER_EXECUTOR {
                publish.push(format!("hp.*.ask.executor.*.{verb}"));
            }
            publish.push("hp.*.cmd.executor.*.step_results".into());
            publish.extend(consumer_api(STEPS));
            subscribe.push("hp.sys.node.*".into());
            // A tool that waits for an answer is nudged.
            subscribe.push(format!("hp.*.live.{}", executor::SERVICE));
        }
        Client::Program(workspace) => {
            for kind in ["cmd", "ask"] {
                for (service, verbs) in [
                    (executor::SERVICE, PROGRAM_EXECUTOR.as_slice()),
                    (handoff::SERVICE, PROGRAM_HANDOFF.as_slice()),
                ] {
                    let subject = |verb: &&str| format!("hp.{workspace}.{kind}.{service}.*.{verb}");
                    publish.extend(verbs.iter().map(subject));
                }
            }
            publish.push(format!("hp.{workspace}.get.>"));
            subscribe.push(format!("hp.{workspace}.live.>"));
        }
    }
    Permissions { publish, subscribe }
}

/// What a node asks the executor.
const WORKER_EXECUTOR: [&str; 6] = [
    "start_steps",
    "step_results",
    "beat",
    "goodbye",
    "patch_contact",
    "request_input",
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

/// What a service on the kernel needs: its own commands and queries, answers, and its stream.
fn serves(service: &str, publish: &mut Vec<String>, subscribe: &mut Vec<String>) {
    subscribe.push(crate::subject::asks_filter(service));
    subscribe.push(crate::subject::queries_filter(service));
    // Callers wait at inboxes of their own.
    publish.push("_INBOX.>".into());
    publish.push(format!("hp.*.live.{service}"));
    publish.extend(consumer_api(&commands_stream(service)));
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
