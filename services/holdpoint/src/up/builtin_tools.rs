//! Built-in tools: for workers, for the executor, and the mails that they keep as files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::FutureExt;
use holdpoint_bus::Bus;
use holdpoint_clock::Clock;
use holdpoint_contracts::run::{ActionResult, Page};
use holdpoint_contracts::steps::StepDispatch;
use holdpoint_executor::InlineTools;
use holdpoint_gateway::{Mails, WantedMails};
use holdpoint_ids::{NodeName, ToolName};
use holdpoint_mail::{MailHead, Mailer};
use holdpoint_notification::{Outside, PublicUrl};
use holdpoint_worker::targets::{self, EgressPolicy};
use holdpoint_worker::tool::{BoxFuture, Tool};
use holdpoint_worker::tools;
use holdpoint_worker::tools::http_request::{DEFAULT_TIMEOUT, HttpRequest};
use holdpoint_worker::tools::send_email::{self, MailTransport, SendEmail};
use holdpoint_worker::worker::{Worker, WorkerOptions, call_tool};

use crate::file_privacy;

/// Steps that the built-in worker runs concurrently.
const CONCURRENCY: usize = 256;

/// A worker with the built-in tools; `targets` are the addresses that they may reach.
pub(crate) fn worker(
    bus: Bus,
    clock: Clock,
    node: NodeName,
    targets: EgressPolicy,
    mails: &Path,
) -> anyhow::Result<Worker> {
    let tools = builtin(bus.clone(), targets, mails)?;
    let options = WorkerOptions {
        concurrency: CONCURRENCY,
        clock,
        ..WorkerOptions::new(node)
    };
    let worker = Worker::new(bus, options);
    Ok(tools.into_iter().fold(worker, Worker::tool))
}

/// Access of the notification service to the outside. Mails go the same way as those of `send_email`.
pub(crate) fn notification_outside(
    targets: EgressPolicy,
    mails: &Path,
    public_url: PublicUrl,
) -> anyhow::Result<Outside> {
    let (transport, from) = mail_transport(mails)?;
    Ok(Outside {
        mailer: Mailer::new(transport, from.as_deref())?,
        targets,
        public_url,
    })
}

/// Transport and sender of mails. Links in mails act as the user, so a directory of mails is private.
fn mail_transport(mails: &Path) -> anyhow::Result<(MailTransport, Option<String>)> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let transport =
        MailTransport::from_env(variable("HOLDPOINT_SMTP_URL").as_deref(), mails.to_owned())?;
    if let MailTransport::Maildir(folder) = &transport {
        file_privacy::create_private_dir(folder)?;
    }
    Ok((transport, variable("HOLDPOINT_MAIL_FROM")))
}

/// The egress policy outside of `up`: private addresses only with `HOLDPOINT_ALLOW_PRIVATE_TARGETS`.
pub(crate) fn production_egress() -> EgressPolicy {
    let allowed = std::env::var(targets::ALLOW_PRIVATE).ok();
    EgressPolicy::of_serve(allowed.as_deref())
}

/// `HOLDPOINT_PUBLIC_URL`: the address under which users reach the installation.
pub(crate) fn public_url() -> Option<String> {
    let url = std::env::var("HOLDPOINT_PUBLIC_URL").ok();
    url.filter(|url| !url.trim().is_empty())
}

fn builtin(bus: Bus, targets: EgressPolicy, mails: &Path) -> anyhow::Result<Vec<Arc<dyn Tool>>> {
    let (transport, from) = mail_transport(mails)?;
    Ok(tools::builtin(
        HttpRequest::new(targets, DEFAULT_TIMEOUT)?,
        SendEmail::new(transport, from.as_deref())?.with_threads(tools::query_over(bus.clone())),
        tools::send_over(bus.clone()),
        tools::send_over(bus.clone()),
        tools::query_over(bus),
    ))
}

/// The built-in tools for the executor, which itself runs idempotent steps that no node takes (S2-R7).
pub(crate) struct InlineBuiltins {
    tools: Vec<Arc<dyn Tool>>,
    clock: Clock,
}

impl InlineBuiltins {
    pub(crate) fn new(
        bus: Bus,
        clock: Clock,
        targets: EgressPolicy,
        mails: &Path,
    ) -> anyhow::Result<Arc<Self>> {
        let tools = builtin(bus, targets, mails)?;
        Ok(Arc::new(Self { tools, clock }))
    }

    fn find(&self, name: &ToolName) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|tool| tool.name() == name.as_str())
    }
}

impl InlineTools for InlineBuiltins {
    fn knows(&self, tool: &ToolName) -> bool {
        self.find(tool).is_some()
    }

    fn call<'c>(
        &'c self,
        step_dispatch: &'c StepDispatch,
    ) -> BoxFuture<'c, (ActionResult, Option<String>)> {
        async move {
            match self.find(&step_dispatch.tool) {
                Some(tool) => call_tool(Arc::clone(tool), step_dispatch, &self.clock).await,
                None => {
                    let error = format!("`{}` is not a built-in tool", step_dispatch.tool);
                    let result = ActionResult {
                        success: false,
                        description: error.clone(),
                        error: Some(error),
                        data: serde_json::Value::Null,
                        duration_ms: 0,
                    };
                    (result, Some("unknown_tool".to_owned()))
                }
            }
        }
        .boxed()
    }
}

/// Lists the mails on disk, for `GET /mails`.
pub(super) fn mail_reader(dir: PathBuf) -> Mails {
    Arc::new(move |wanted: WantedMails| {
        let dir = dir.clone();
        async move {
            let WantedMails { shown, skip, limit } = wanted;
            let page = tokio::task::spawn_blocking(move || {
                let shown =
                    |head: &MailHead| shown(head.workspace.as_deref(), head.person.as_deref());
                send_email::page(&dir, shown, (skip, limit))
            });
            let (mails, next) = page.await??;
            let mails = mails.into_iter();
            let items = mails.filter_map(|mail| serde_json::to_value(mail).ok());
            Ok(Page {
                items: items.collect(),
                next_cursor: next.map(|next| next.to_string()),
            })
        }
        .boxed()
    })
}
