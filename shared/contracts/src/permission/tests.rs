//! Who may what, subject by subject.

use super::*;

/// S0-T4: who tells of ends, and who asks for that, may no more for it.
#[test]
fn notification_and_executor_exchange_only_run_ends() {
    for (client, subject, may) in [
        (
            Client::Executor,
            "hp.acme.cmd.notification.3.record_run_ends",
            true,
        ),
        (
            Client::Executor,
            "hp.acme.cmd.notification.3.record_request_events",
            false,
        ),
        (
            Client::Notification,
            "hp.acme.cmd.executor.3.watch_run_ends",
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
    let permissions = permissions(client, "_INBOX.X");
    permissions.publish.iter().any(|one| covers(one, subject))
}

/// DESIGN: an unsigned command has the rights its subject has, and never the right to decide.
#[test]
fn only_the_gateway_can_bring_a_decision() {
    let program = Client::Program("acme".parse().unwrap());
    let asked = "hp.acme.ask.handoff.3.decide_request";
    assert!(may_publish(&Client::Gateway, asked));
    for kind in ["ask", "cmd"] {
        let decide = format!("hp.acme.{kind}.handoff.3.decide_request");
        for client in [Client::Worker, program.clone()] {
            assert!(!may_publish(&client, &decide), "{client:?}");
        }
    }
}

fn all() -> Vec<Client> {
    let program = Client::Program("acme".parse().unwrap());
    Client::SERVICES.into_iter().chain([program]).collect()
}

/// Mend A-C1: what a service tells another comes from that service alone, and only through its stream.
#[test]
fn a_fact_has_one_sender() {
    for (verb, sender) in [
        ("executor.3.timers_fired", Client::Scheduler),
        ("executor.3.holds_closed", Client::Handoff),
        ("executor.3.handoffs_updated", Client::Handoff),
        ("handoff.3.set_holds", Client::Executor),
        ("handoff.3.timers_fired", Client::Scheduler),
        ("notification.3.record_request_events", Client::Handoff),
        ("notification.3.record_run_ends", Client::Executor),
    ] {
        for client in all() {
            let stored = format!("hp.acme.cmd.{verb}");
            let is_sender = client == sender;
            assert_eq!(
                may_publish(&client, &stored),
                is_sender,
                "{client:?} {verb}"
            );
            let asked = format!("hp.acme.ask.{verb}");
            assert!(!may_publish(&client, &asked), "{client:?} {verb}");
        }
    }
}

/// Mend A-C1: a stream's settings let the server publish anywhere, so its owner alone sets them.
#[test]
fn only_its_owner_changes_a_stream_and_no_client_reads_it_by_its_api() {
    for (stream, owner) in [
        ("HP_CMD_EXECUTOR", Client::Executor),
        ("HP_CMD_SCHEDULER", Client::Scheduler),
        ("HP_CMD_HANDOFF", Client::Handoff),
        ("HP_CMD_NOTIFICATION", Client::Notification),
        ("HP_STEPS", Client::Executor),
        ("HP_TIMERS", Client::Scheduler),
    ] {
        for client in all() {
            for verb in ["STREAM.CREATE", "STREAM.UPDATE", "CONSUMER.CREATE"] {
                let subject = format!("$JS.API.{verb}.{stream}");
                let subject = match verb {
                    "CONSUMER.CREATE" => format!("{subject}.name.hp.*.steps.x"),
                    _ => subject,
                };
                let is_owner = client == owner;
                assert_eq!(
                    may_publish(&client, &subject),
                    is_owner,
                    "{client:?} {subject}"
                );
            }
            for verb in ["DELETE", "PURGE", "MSG.GET", "MSG.DELETE", "SNAPSHOT"] {
                let subject = format!("$JS.API.STREAM.{verb}.{stream}");
                assert!(!may_publish(&client, &subject), "{client:?} {subject}");
            }
        }
    }
}

/// Mend A-H1: a client listens at its own inboxes.
#[test]
fn inboxes_belong_to_one_key() {
    for client in all() {
        let subscribe = permissions(&client, "_INBOX.UAAA").subscribe;
        let may = |subject: &str| subscribe.iter().any(|one| covers(one, subject));
        assert!(may("_INBOX.UAAA.x"), "{client:?}");
        for other in ["_INBOX.UBBB.x", "_INBOX.program.x", "_INBOX.UAAA"] {
            assert!(!may(other), "{client:?} {other}");
        }
    }
}

/// Issue 4, ask again: the caller who may open a hold may ask it again, and take it back.
#[test]
fn a_program_may_repeat_its_requests() {
    let program = Client::Program("acme".parse().unwrap());
    for verb in ["open_hold", "ask_again", "withdraw_hold"] {
        let subject = format!("hp.acme.cmd.handoff.3.{verb}");
        assert!(may_publish(&program, &subject), "{verb}");
    }
}

/// API, Tools: the caller who runs the built-in tools may ask for what they do, and for nothing else.
#[test]
fn the_built_in_tools_may_send_their_commands() {
    for client in [Client::Worker, Client::Executor] {
        for subject in [
            "hp.acme.ask.executor.3.patch_contact",
            "hp.acme.ask.handoff.3.open_hold",
            "hp.acme.get.executor.search_contacts",
            "hp.acme.get.executor.mail_thread",
        ] {
            assert!(may_publish(&client, subject), "{client:?}: {subject}");
        }
        for verb in ["withdraw_hold", "decide_request", "act_on_request"] {
            let subject = format!("hp.acme.ask.handoff.3.{verb}");
            assert!(!may_publish(&client, &subject), "{client:?}: {verb}");
        }
        // Contacts are read with the token of a step only.
        for query in ["contacts", "contact", "activities"] {
            let subject = format!("hp.acme.get.executor.{query}");
            assert!(!may_publish(&client, &subject), "{client:?}: {query}");
        }
    }
}

/// S0-R3: the caller who watches requests is nudged, and by their owner alone.
#[test]
fn each_service_publishes_its_nudges_and_the_gateway_receives_all() {
    let live = "hp.acme.live.handoff";
    assert!(may_publish(&Client::Handoff, live));
    assert!(may_publish(&Client::Handoff, &subject::live_users()));
    for client in [Client::Executor, Client::Gateway, Client::Worker] {
        assert!(!may_publish(&client, live), "{client:?}");
    }
    let gateway = permissions(&Client::Gateway, "_INBOX.X").subscribe;
    assert!(gateway.iter().any(|one| covers(one, live)));
}

/// Ground, "Identity": a program looks at runs and requests. No user's notifications, ways and watches are
/// read by it, nor what is for those who administer: users, and where webhooks are.
#[test]
fn a_program_reads_no_personal_data() {
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
        "handoff.user_changes",
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
