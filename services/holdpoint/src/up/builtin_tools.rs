//! The built-in worker of `up`, and the mails that it keeps as files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::FutureExt;
use holdpoint_bus::Bus;
use holdpoint_clock::Clock;
use holdpoint_contracts::run::{ActionResult, Page};
use holdpoint_contracts::steps::StepDispatch;
use holdpoint_executor::InlineTools;
use holdpoint_gateway::{Mails, WantedMails};
use holdpoint_ids::{NodeName, RunId, ToolName};
use holdpoint_mail::{MailHead, Mailer};
use holdpoint_notification::{Outside, PublicUrl};
use holdpoint_worker::targets::EgressPolicy;
use holdpoint_worker::tool::{BoxFuture, Tool};
use holdpoint_worker::tools;
use holdpoint_worker::tools::http_request::{DEFAULT_TIMEOUT, HttpRequest};
use holdpoint_worker::tools::send_email::{self, MailTransport, SendEmail};
use holdpoint_worker::worker::{BusContacts, BusTasks, Worker, WorkerOptions, call_tool};

use crate::file_privacy;

/// Steps that the built-in worker does at the same time.
const CONCURRENCY: usize = 256;

/// The worker that does the built-in tools, and the addresses that they may reach.
pub(crate) fn worker(
    bus: Bus,
    clock: Clock,
    node: NodeName,
    targets: EgressPolicy,
    mails: &Path,
) -> anyhow::Result<Worker> {
    let builtin = builtin(bus.clone(), targets, mails)?;
    let options = WorkerOptions {
        node,
        concurrency: CONCURRENCY,
        clock,
    };
    Ok(builtin
        .into_iter()
        .fold(Worker::new(bus, options), Worker::tool))
}

/// The ways out of the application for notifications: mails as the tool `send_email` sends them.
pub(crate) fn outside(
    targets: EgressPolicy,
    mails: &Path,
    public_url: PublicUrl,
) -> anyhow::Result<Outside> {
    let (transport, from) = mail_ways(mails)?;
    Ok(Outside {
        mailer: Mailer::new(transport, from.as_deref())?,
        targets,
        public_url,
    })
}

/// Where mails go and in whose name. Their links act as the person, so a folder of mails is closed to others.
fn mail_ways(mails: &Path) -> anyhow::Result<(MailTransport, Option<String>)> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let transport =
        MailTransport::from_env(variable("HOLDPOINT_SMTP_URL").as_deref(), mails.to_owned())?;
    if let MailTransport::Maildir(folder) = &transport {
        file_privacy::make_folder(folder)?;
    }
    Ok((transport, variable("HOLDPOINT_MAIL_FROM")))
}

/// The value of `HOLDPOINT_PUBLIC_URL`: where people reach the installation.
pub(crate) fn public_url() -> Option<String> {
    let url = std::env::var("HOLDPOINT_PUBLIC_URL").ok();
    url.filter(|url| !url.trim().is_empty())
}

/// The tools that every installation has.
fn builtin(bus: Bus, targets: EgressPolicy, mails: &Path) -> anyhow::Result<Vec<Arc<dyn Tool>>> {
    let (transport, from) = mail_ways(mails)?;
    Ok(tools::builtin(
        HttpRequest::new(targets, DEFAULT_TIMEOUT)?,
        SendEmail::new(transport, from.as_deref())?,
        Arc::new(BusContacts::new(bus.clone())),
        Arc::new(BusTasks::new(bus)),
    ))
}

/// The built-in tools for the executor, which runs what is idempotent and nobody takes (S2-R7).
pub(crate) struct Inline {
    tools: Vec<Arc<dyn Tool>>,
    clock: Clock,
}

impl Inline {
    /// With the addresses that they may reach.
    pub(crate) fn new(
        bus: Bus,
        clock: Clock,
        targets: EgressPolicy,
        mails: &Path,
    ) -> anyhow::Result<Arc<Self>> {
        let tools = builtin(bus, targets, mails)?;
        Ok(Arc::new(Self { tools, clock }))
    }

    fn named(&self, name: &ToolName) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|tool| tool.name() == name.as_str())
    }
}

impl InlineTools for Inline {
    fn knows(&self, tool: &ToolName) -> bool {
        self.named(tool).is_some()
    }

    fn call<'c>(
        &'c self,
        step_dispatch: &'c StepDispatch,
    ) -> BoxFuture<'c, (ActionResult, Option<String>)> {
        async move {
            match self.named(&step_dispatch.tool) {
                Some(tool) => call_tool(Arc::clone(tool), step_dispatch, &self.clock).await,
                None => (
                    ActionResult {
                        success: false,
                        description: "There is no such tool here.".to_owned(),
                        error: Some("There is no such tool here.".to_owned()),
                        data: serde_json::Value::Null,
                        duration_ms: 0,
                    },
                    Some("unknown_tool".to_owned()),
                ),
            }
        }
        .boxed()
    }
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
    Arc::new(move |wanted: WantedMails| {
        let dir = dir.clone();
        async move {
            let WantedMails { shown, skip, limit } = wanted;
            let reading = tokio::task::spawn_blocking(move || {
                let shown =
                    |head: &MailHead| shown(head.workspace.as_deref(), head.person.as_deref());
                send_email::page(&dir, shown, (skip, limit))
            });
            let (mails, next) = reading.await??;
            let items = mails.into_iter();
            Ok(Page {
                items: items
                    .filter_map(|mail| serde_json::to_value(mail).ok())
                    .collect(),
                next_cursor: next.map(|next| next.to_string()),
            })
        }
        .boxed()
    })
}
