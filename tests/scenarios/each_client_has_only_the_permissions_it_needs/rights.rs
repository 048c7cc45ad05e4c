//! The permissions of each key, written a second time by hand.

/// Each stream and the only key that creates it.
pub(super) const STREAMS: [(&str, &str); 7] = [
    ("HP_CMD_EXECUTOR", "executor"),
    ("HP_CMD_SCHEDULER", "scheduler"),
    ("HP_CMD_HANDOFF", "handoff"),
    ("HP_CMD_NOTIFICATION", "notification"),
    ("HP_STEPS", "executor"),
    ("HP_TIMERS", "scheduler"),
    ("EVIL", "nobody"),
];

/// Verbs of the owner of a stream: create and update it, and create, list and delete its consumers.
const OWNER: [&str; 6] = [
    "$JS.API.STREAM.CREATE.{}",
    "$JS.API.STREAM.UPDATE.{}",
    "$JS.API.STREAM.INFO.{}",
    "$JS.API.CONSUMER.CREATE.{}.steps-x.hp.*.steps.x",
    "$JS.API.CONSUMER.DELETE.{}.steps-x",
    "$JS.API.CONSUMER.NAMES.{}",
];

/// Verbs of a reader of a stream: take messages of an existing consumer.
const READER: [&str; 3] = [
    "$JS.API.CONSUMER.INFO.{}.steps-x",
    "$JS.API.CONSUMER.MSG.NEXT.{}.steps-x",
    "$JS.ACK.{}.steps-x.1.2.3.4.5",
];

/// Subjects of the JetStream API with `{}` for a stream.
pub(super) const API: [&str; 33] = [
    OWNER[0],
    OWNER[1],
    OWNER[2],
    OWNER[3],
    OWNER[4],
    OWNER[5],
    READER[0],
    READER[1],
    READER[2],
    "$JS.API.STREAM.DELETE.{}",
    "$JS.API.STREAM.PURGE.{}",
    "$JS.API.STREAM.MSG.GET.{}",
    "$JS.API.STREAM.MSG.DELETE.{}",
    "$JS.API.STREAM.SNAPSHOT.{}",
    "$JS.API.STREAM.RESTORE.{}",
    "$JS.API.STREAM.PEER.REMOVE.{}",
    "$JS.API.STREAM.LEADER.STEPDOWN.{}",
    "$JS.API.STREAM.TEMPLATE.CREATE.{}",
    "$JS.API.STREAM.TEMPLATE.DELETE.{}",
    "$JS.API.STREAM.TEMPLATE.INFO.{}",
    "$JS.API.DIRECT.GET.{}",
    "$JS.API.DIRECT.GET.{}.hp.default.steps.x",
    "$JS.API.CONSUMER.CREATE.{}",
    "$JS.API.CONSUMER.DURABLE.CREATE.{}.steps-x",
    "$JS.API.CONSUMER.LIST.{}",
    "$JS.API.CONSUMER.PAUSE.{}.steps-x",
    "$JS.API.CONSUMER.RESET.{}.steps-x",
    "$JS.API.CONSUMER.UNPIN.{}.steps-x",
    "$JS.API.CONSUMER.LEADER.STEPDOWN.{}.steps-x",
    "$JS.FC.{}.steps-x.1",
    "$JS.SNAPSHOT.ACK.{}.x",
    "$JS.SNAPSHOT.RESTORE.{}.x",
    "$KV.{}.x",
];

/// The same for the whole server or account.
pub(super) const SERVER_API: [&str; 12] = [
    "$JS.API.INFO",
    "$JS.API.STREAM.NAMES",
    "$JS.API.STREAM.LIST",
    "$JS.API.STREAM.TEMPLATE.NAMES",
    "$JS.API.META.LEADER.STEPDOWN",
    "$JS.API.SERVER.REMOVE",
    "$JS.API.ACCOUNT.PURGE.$G",
    "$JS.API.ACCOUNT.STREAM.MOVE.$G.HP_STEPS",
    "$SYS.REQ.SERVER.PING",
    "$SYS.REQ.ACCOUNT.$G.CONNZ",
    "$SRV.PING",
    "hp",
];

/// Messages between services: the only sender, and the subject in the stream of the receiver.
const FACTS: [(&str, &str); 11] = [
    ("executor.set_child_runs", "executor"),
    ("executor.child_runs_ended", "executor"),
    ("executor.start_scheduled", "scheduler"),
    ("executor.timers_fired", "scheduler"),
    ("executor.holds_closed", "handoff"),
    ("executor.handoffs_updated", "handoff"),
    ("handoff.set_holds", "executor"),
    ("handoff.timers_fired", "scheduler"),
    ("notification.record_request_events", "handoff"),
    ("notification.record_run_ends", "executor"),
    ("notification.record_contact_events", "executor"),
];

/// Commands of workers to the executor.
const OF_WORKERS: [&str; 9] = [
    "register_tools",
    "start_steps",
    "step_results",
    "suspend_steps",
    "continue_step",
    "put_blob",
    "heartbeat",
    "deregister",
    "request_input",
];

/// Commands that programs may publish in their workspace.
const OF_PROGRAMS: [&str; 18] = [
    "executor.apply_agent",
    "executor.start_run",
    "executor.pause_run",
    "executor.resume_run",
    "executor.retry_run",
    "executor.signal_run",
    "executor.suspend_run",
    "executor.cancel_run",
    "executor.request_input",
    "executor.put_contact",
    "executor.patch_contact",
    "executor.add_activity",
    "executor.delete_contact",
    "executor.put_tool",
    "executor.delete_tool",
    "handoff.open_hold",
    "handoff.ask_again",
    "handoff.withdraw_hold",
];

/// Commands of the built-in tools. Workers and the executor have these tools.
const OF_TOOLS: [&str; 2] = ["executor.patch_contact", "handoff.open_hold"];

/// Whether a key may publish to a subject.
pub(super) fn may_publish(key: &str, subject: &str) -> bool {
    let tokens: Vec<_> = subject.split('.').collect();
    match tokens.as_slice() {
        ["hp", workspace, kind @ ("cmd" | "ask"), service, _, verb] => {
            commands(key, workspace, kind == &"ask", (service, verb))
        }
        ["hp", workspace, "get", service, name] => asks(key, workspace, (service, name)),
        ["hp", _, "live", service] => key == *service,
        ["hp", _, "dead", _] => key == "gateway",
        ["hp", _, "steps", ..] | ["hp", "sys", "node", _] | ["hp", "sys", "calls", "ended"] => {
            key == "executor"
        }
        ["hp", "timers", ..] => key == "scheduler",
        ["hp", "sys", "clock", "advance"] => key == "gateway",
        _ => STREAMS.iter().any(|(stream, owner)| {
            let is = |verb: &str| verb.replace("{}", stream) == subject;
            let is_owner = key == *owner;
            // The executor creates the queues of steps, and workers take from them.
            let reads = match *stream {
                "HP_STEPS" => key.starts_with("worker"),
                _ => is_owner,
            };
            (is_owner && OWNER.iter().any(|verb| is(verb)))
                || (reads && READER.iter().any(|verb| is(verb)))
        }),
    }
}

fn commands(key: &str, workspace: &str, is_asked: bool, (service, verb): (&str, &str)) -> bool {
    let name = format!("{service}.{verb}");
    let is_in = |list: &[&str]| list.contains(&name.as_str());
    if let Some((_, sender)) = FACTS.iter().find(|(fact, _)| *fact == name) {
        return !is_asked && key == *sender;
    }
    if name == "scheduler.set_timers" {
        return !is_asked && (key == "executor" || key == "handoff");
    }
    if name == "executor.watch_run_ends" {
        return key == if is_asked { "gateway" } else { "notification" };
    }
    let is_of_workers = service == "executor" && OF_WORKERS.contains(&verb);
    match key.split('-').next().unwrap_or(key) {
        "worker" => match is_asked {
            true => is_of_workers || is_in(&OF_TOOLS),
            false => verb == "step_results",
        },
        "executor" => is_asked && is_in(&OF_TOOLS),
        "program" => key == format!("program-{workspace}") && is_in(&OF_PROGRAMS),
        "gateway" => is_asked && (!is_of_workers || ["request_input", "put_blob"].contains(&verb)),
        _ => false,
    }
}

/// Queries of the built-in tools, which need the token of a step.
const ASKED_BY_TOOLS: [&str; 2] = ["search_contacts", "mail_thread"];

fn asks(key: &str, workspace: &str, (service, name): (&str, &str)) -> bool {
    let knows_users = workspace == "sys" && (service, name) == ("handoff", "user_changes");
    match key.split('-').next().unwrap_or(key) {
        "gateway" => true,
        "executor" => knows_users || (service == "executor" && ASKED_BY_TOOLS.contains(&name)),
        "notification" => knows_users,
        "worker" => {
            let asked = ["ended_runs", "step_blob"];
            service == "executor" && (asked.contains(&name) || ASKED_BY_TOOLS.contains(&name))
        }
        "program" => {
            let looks = ["request", "requests", "policy", "policies"];
            let is_open = service == "executor" || (service == "handoff" && looks.contains(&name));
            key == format!("program-{workspace}") && is_open
        }
        _ => false,
    }
}

/// Filters that a client could subscribe to.
pub(super) fn filters() -> Vec<String> {
    let named = [
        ">",
        "hp.>",
        "*.*",
        "_INBOX.>",
        "_INBOX.*.>",
        "$JS.>",
        "$JS.API.>",
        "$JS.EVENT.ADVISORY.>",
        "$SYS.>",
        "hp.*.ask.>",
        "hp.*.get.>",
        "hp.*.dead.>",
        "hp.*.cmd.>",
        "hp.*.steps.>",
        "hp.timers.>",
        "hp.default.live.>",
        "hp.other.live.>",
        "hp.*.live.>",
        "hp.*.live.executor",
        "hp.sys.live.handoff",
        "hp.sys.node.*",
        "hp.sys.calls.ended",
        "hp.sys.clock.advance",
    ];
    let of_services = ["executor", "scheduler", "handoff", "notification"];
    let of_services = of_services.iter().flat_map(|service| {
        [
            format!("hp.*.ask.{service}.>"),
            format!("hp.default.ask.{service}.3.*"),
            format!("hp.*.get.{service}.*"),
            format!("hp.*.dead.{service}"),
        ]
    });
    named
        .into_iter()
        .map(str::to_owned)
        .chain(of_services)
        .collect()
}

/// Whether a key may subscribe to a filter. Inboxes are excluded.
pub(super) fn may_hear(key: &str, filter: &str) -> bool {
    let tokens: Vec<_> = filter.split('.').collect();
    match (key.split('-').next().unwrap_or(key), tokens.as_slice()) {
        ("gateway", ["hp", _, "live", ..]) => true,
        ("worker", ["hp", "sys", "node", "*"] | ["hp", _, "live", "executor"]) => true,
        ("program", ["hp", workspace, "live", ..]) => key == format!("program-{workspace}"),
        ("executor" | "notification", ["hp", "sys", "live", "handoff"]) => true,
        ("executor", ["hp", "sys", "calls", "ended"]) => true,
        ("scheduler", ["hp", "sys", "clock", "advance"]) => true,
        (service, ["hp", _, "ask" | "get" | "dead", of, ..]) => service == *of,
        _ => false,
    }
}
