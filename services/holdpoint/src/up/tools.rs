//! The built-in worker of `up`, and the mails that it keeps as files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::FutureExt;
use holdpoint_bus::Bus;
use holdpoint_clock::Clock;
use holdpoint_gateway::Mails;
use holdpoint_ids::{NodeName, RunId};
use holdpoint_worker::targets::TargetPolicy;
use holdpoint_worker::tools;
use holdpoint_worker::tools::http_request::{DEFAULT_TIMEOUT, HttpRequest};
use holdpoint_worker::tools::send_email::{self, MailTransport, SendEmail};
use holdpoint_worker::worker::{BusContacts, Worker, WorkerOptions};

/// Steps that the built-in worker does at the same time.
const CONCURRENCY: usize = 256;

/// The worker that does the built-in tools, and the addresses that they may reach.
pub(crate) fn worker(
    bus: Bus,
    clock: Clock,
    node: NodeName,
    targets: TargetPolicy,
    mails: &Path,
) -> anyhow::Result<Worker> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let transport =
        MailTransport::from_env(variable("HOLDPOINT_SMTP_URL").as_deref(), mails.to_owned())?;
    let from = variable("HOLDPOINT_MAIL_FROM");
    let builtin = tools::builtin(
        HttpRequest::new(targets, DEFAULT_TIMEOUT)?,
        SendEmail::new(transport, from.as_deref())?,
        Arc::new(BusContacts::new(bus.clone())),
    );
    let options = WorkerOptions {
        node,
        concurrency: CONCURRENCY,
        clock,
    };
    Ok(builtin
        .into_iter()
        .fold(Worker::new(bus, options), Worker::tool))
}

/// A name of its own for every start, so that a grant to the process before is not taken for one
/// to this.
pub(crate) fn node() -> anyhow::Result<NodeName> {
    let id = RunId::fresh().to_string();
    let nonce: String = id.chars().rev().take(8).collect();
    Ok(format!("builtin-{nonce}").parse()?)
}

/// Lists what `send_email` has kept, for `GET /mails`.
pub(super) fn mails(dir: PathBuf) -> Mails {
    Arc::new(move || {
        let dir = dir.clone();
        async move {
            let list = tokio::task::spawn_blocking(move || send_email::list(&dir)).await??;
            Ok(list
                .into_iter()
                .filter_map(|mail| serde_json::to_value(mail).ok())
                .collect())
        }
        .boxed()
    })
}
