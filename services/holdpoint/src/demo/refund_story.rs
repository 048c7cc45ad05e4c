//! The third story: a risky step. A shop fails twice before it finds the order, and the owner approves a smaller
//! refund than the agent asked for. The bank gets exactly one call, with the approved amount.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, ensure};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use holdpoint_contracts::agent::AgentView;
use holdpoint_contracts::handoff::RequestView;
use holdpoint_contracts::run::{Page, RunStatus, RunView};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio_util::task::AbortOnDropHandle;

use crate::client::Client;
use crate::output;

use super::narrator::{Narrator, decide, poll};

/// How often the shop fails before it finds the order.
const FAILURES: u32 = 2;
const ASKED: u32 = 250;
const APPROVED: u32 = 125;

/// A call that the bank got: its arguments and its idempotency key.
type Refund = (Value, String);

/// The shop and the bank of this story: real HTTP servers that stand in for other companies.
#[derive(Clone, Default)]
struct Companies {
    searches: Arc<AtomicU32>,
    refunds: Arc<Mutex<Vec<Refund>>>,
}

impl Companies {
    /// Serves both until the handle is dropped. Returns the address.
    async fn start(&self) -> anyhow::Result<(String, AbortOnDropHandle<()>)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = format!("http://{}", listener.local_addr()?);
        let (shop, bank) = (self.clone(), self.clone());
        let routes = Router::new()
            .route("/orders", post(async move || shop.find_order()))
            .route("/drafts", post(draft_refund))
            .route(
                "/refunds",
                post(async move |headers, args| bank.refund(headers, args).await),
            );
        let serving = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, routes).await {
                tracing::error!(%error, "the companies of the demo have stopped");
            }
        });
        Ok((address, AbortOnDropHandle::new(serving)))
    }

    fn find_order(&self) -> Result<Json<Value>, StatusCode> {
        if self.searches.fetch_add(1, Ordering::Relaxed) < FAILURES {
            return Err(StatusCode::INTERNAL_SERVER_ERROR);
        }
        Ok(Json(json!({ "order": "o-17", "total": ASKED })))
    }

    async fn refund(&self, headers: HeaderMap, Json(args): Json<Value>) -> Json<Value> {
        let key = headers.get("idempotency-key");
        let key = key.and_then(|key| key.to_str().ok()).unwrap_or_default();
        self.refunds.lock().await.push((args, key.to_owned()));
        Json(json!({ "paid": true }))
    }
}

/// The shop drafts what the customer asks for.
async fn draft_refund(Json(asked): Json<Value>) -> Json<Value> {
    Json(json!({ "amount": asked.get("amount") }))
}

pub(super) struct RefundStory<'a> {
    narrator: &'a Narrator,
    owner: &'a Client,
}

impl<'a> RefundStory<'a> {
    pub(super) const fn new(narrator: &'a Narrator) -> Self {
        Self {
            narrator,
            owner: &narrator.client,
        }
    }

    pub(super) async fn play(&self, agent: &str) -> anyhow::Result<()> {
        let companies = Companies::default();
        let (address, _serving) = companies.start().await?;
        for (name, risk, path) in [
            ("orders.find", "low", "orders"),
            ("refunds.draft", "low", "drafts"),
            ("payments.refund", "high", "refunds"),
        ] {
            let tool = json!({
                "name": name, "risk": risk, "idempotent": true,
                "http": { "url": format!("{address}/{path}") },
            });
            self.owner.post::<Value>("tools", &tool).await?;
        }
        let applied: AgentView = self.owner.post_agent("agents", agent).await?.value;
        let body = json!({ "input": { "order": "o-17", "amount": ASKED } });
        let started = self.owner.start_run(applied.agent.as_str(), &body).await?;
        let run = started.value.id.to_string();
        self.retries(&run).await?;
        self.approval(&run).await?;
        let refunds = companies.refunds.lock().await;
        let key = format!("{run}/pay");
        ensure!(
            *refunds == [(json!({ "order": "o-17", "amount": APPROVED }), key)],
            "the bank got {refunds:?}"
        );
        Ok(output::line(&format!(
            "  The bank got one call, for {APPROVED} and not for {ASKED}."
        ))?)
    }

    /// The shop fails, and the step is tried again after one and after two seconds.
    async fn retries(&self, run: &str) -> anyhow::Result<()> {
        let text = format!(
            "Story 3: a risky step\n\n\
             A run of `refund` looks up an order. The shop answers 500, {FAILURES} times:"
        );
        self.narrator.announce(&text).await?;
        for attempt in 2..=FAILURES + 1 {
            let expected = format!("attempt {attempt} of");
            let shown = self
                .wait_for(run, "the step is not retried", |run| {
                    run.message.contains(&expected)
                })
                .await?;
            output::line(&format!("  {}", shown.message))?;
            self.narrator.advance("2s").await?;
        }
        Ok(())
    }

    async fn approval(&self, run: &str) -> anyhow::Result<()> {
        let shown = self
            .wait_for(run, "the run asks for no approval", |run| {
                run.status == RunStatus::AwaitingApproval
            })
            .await?;
        let text = format!(
            "The next tool pays money back. Its risk is `high`, so it never runs without an approval:\n  {}",
            shown.message
        );
        self.narrator.announce(&text).await?;
        let query = [("run", run.to_owned()), ("status", "open".to_owned())];
        let request = poll("the run has not asked for the approval", async || {
            let page: Page<RequestView> = self.owner.get("requests", &query).await?.value;
            Ok(page.items.into_iter().next())
        })
        .await?;
        let item = request.items.first().context("the request has no call")?;
        let text = format!(
            "The owner sees the call `{} {}` and approves {APPROVED} instead:",
            item.tool, item.args
        );
        self.narrator.announce(&text).await?;
        let approval = json!({
            "edited_args": { "order": "o-17", "amount": APPROVED },
            "digest": item.digest,
            "comment": "Half is enough",
        });
        decide(self.owner, request.id, "approve", &approval).await?;
        let shown = self
            .wait_for(run, "the run did not complete", |run| {
                run.status == RunStatus::Completed
            })
            .await?;
        Ok(output::line(&format!("  {}", shown.message))?)
    }

    async fn wait_for(
        &self,
        run: &str,
        missing: &str,
        is_there: impl Fn(&RunView) -> bool,
    ) -> anyhow::Result<RunView> {
        poll(&format!("run {run}: {missing}"), async || {
            let shown = self.owner.run(run).await?.value;
            Ok(is_there(&shown).then_some(shown))
        })
        .await
    }
}
