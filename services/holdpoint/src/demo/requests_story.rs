//! The second story: people get requests. Nina answers a question after three hours, takes over a warm
//! lead and returns it. An approval escalates, and a script waits for a timer.

use anyhow::ensure;
use holdpoint_contracts::agent::AgentView;
use holdpoint_contracts::handoff::RequestView;
use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_contracts::run::{Page, RunStatus, RunView};
use serde::Deserialize;
use serde_json::json;

use crate::client::Client;
use crate::command::request::OpenedHold;
use crate::connection::Connection;
use crate::output;

use super::mails::Expected;
use super::narrator::{Narrator, add_user, decide, poll};

const ZOE: &str = "zoe@zoe.example";

#[derive(Deserialize)]
struct Notification {
    #[serde(rename = "type")]
    kind: String,
    title: String,
}

pub(super) struct RequestsStory<'a> {
    narrator: &'a Narrator,
    owner: &'a Client,
    nina: Client,
}

impl<'a> RequestsStory<'a> {
    pub(super) async fn new(
        narrator: &'a Narrator,
        connection: &Connection,
    ) -> anyhow::Result<Self> {
        let owner = &narrator.client;
        let nina = add_user(owner, connection, "nina", &["member", "sales"]).await?;
        add_user(owner, connection, "omar", &["member", "ops"]).await?;
        Ok(Self {
            narrator,
            owner,
            nina,
        })
    }

    /// The only mail of this story to a contact.
    pub(super) fn expected_mail() -> Expected {
        (ZOE.to_owned(), "We offer you a pilot".to_owned())
    }

    pub(super) async fn play(&self, agent: &str) -> anyhow::Result<()> {
        let applied: AgentView = self.owner.post_agent("agents", agent).await?.value;
        let contact = json!({
            "id": "c-zoe", "name": "Zoe", "email": ZOE, "replied": true, "sentiment": "positive",
            "deals": [{ "name": "Pilot", "value": 12_000, "stage": "proposal", "probability": 0.4 }],
        });
        let (agent, body) = (applied.agent.to_string(), json!({ "contact": contact }));
        let started = self.owner.start_run(&agent, &body).await?;
        let run = started.value.id.to_string();
        self.question(&run).await?;
        self.warm_lead(&run).await?;
        self.escalation().await?;
        self.timer().await
    }

    async fn question(&self, run: &str) -> anyhow::Result<()> {
        let shown = self.wait_for(run, RunStatus::AwaitingInput).await?;
        let (agent, message) = (&shown.agent, &shown.message);
        let text = format!(
            "Story 2: requests to people\n\n\
             Holdpoint starts a run of `{agent}` for Zoe. Its first step asks a question:\n  {message}"
        );
        self.narrator.announce(&text).await?;
        let request = self.open_request(run).await?;
        self.narrator.advance("3h").await?;
        let text = format!(
            "Three hours later, Nina answers \"{}\" with \"a pilot\".",
            request.question
        );
        self.narrator.announce(&text).await?;
        let answer = json!({ "answer": "a pilot" });
        decide(&self.nina, request.id, "respond", &answer).await
    }

    async fn warm_lead(&self, run: &str) -> anyhow::Result<()> {
        let shown = self.wait_for(run, RunStatus::Waiting).await?;
        let request = self.open_request(run).await?;
        ensure!(
            request.warm_lead,
            "Zoe is interested, but the request is not a warm lead"
        );
        let title = request.title.as_deref().unwrap_or_default();
        let (question, message) = (&request.question, &shown.message);
        let text = format!(
            "The run hands Zoe to Nina as a warm lead. Nina's inbox shows:\n  \
             {title}\n  {question}\n  {message}"
        );
        self.narrator.announce(&text).await?;
        let text =
            "Nina takes over. The timer of the run stops, and its agent can do nothing more.";
        self.narrator.announce(text).await?;
        let path = format!("requests/{}/take-over", request.id);
        let taken: RequestView = self.nina.post(&path, &json!({})).await?.value;
        let assignee = taken.assignee.as_deref();
        ensure!(
            assignee == Some("nina"),
            "the request is assigned to {assignee:?}"
        );
        self.narrator.advance("10d").await?;
        let status = self.owner.run(run).await?.value.status;
        ensure!(status == RunStatus::Waiting, "{run} is {status}");
        let text = "Ten days later, Nina returns the run to the agent, which finishes it:";
        self.narrator.announce(text).await?;
        let done = json!({
            "notes": "Called her, she wants the pilot.",
            "outcome_type": "resolved",
            "disposition": "return_to_agent",
        });
        decide(&self.nina, request.id, "complete", &done).await?;
        let shown = self.wait_for(run, RunStatus::Completed).await?;
        Ok(output::line(&format!("  {}", shown.message))?)
    }

    /// A standalone approval that its recipient ignores until it escalates to the owners.
    async fn escalation(&self) -> anyhow::Result<()> {
        let text =
            "A script asks Omar to approve \"Deploy 4.2?\" within an hour. Omar is at lunch.";
        self.narrator.announce(text).await?;
        let ask = json!({
            "kind": "approval", "question": "Deploy 4.2?", "to": "@user.omar",
            "timeout": "1h", "on_timeout": "escalate",
        });
        let hold: OpenedHold = self.owner.post("holds", &ask).await?.value;
        self.narrator.advance("1h").await?;
        let notification = poll("the owner got no escalation", async || {
            let page: Page<Notification> = self.owner.get("notifications", &[]).await?.value;
            let mut items = page.items.into_iter();
            Ok(items.find(|item| item.kind == "escalation"))
        })
        .await?;
        let text = format!(
            "After one hour without an answer, the request escalates. Holdpoint notifies the owner: \
             \"{}\". The owner approves it.",
            notification.title
        );
        self.narrator.announce(&text).await?;
        let comment = json!({ "comment": "go ahead" });
        decide(self.owner, hold.id, "approve", &comment).await
    }

    async fn timer(&self) -> anyhow::Result<()> {
        let text = "A script waits for two days with a durable timer.";
        self.narrator.announce(text).await?;
        let ask = json!({ "kind": "timer", "wait": "2d" });
        let hold: OpenedHold = self.owner.post("holds", &ask).await?.value;
        self.narrator.advance("2d").await?;
        let query = [("wait", "10s".to_owned())];
        let path = format!("holds/{}", hold.id);
        let closed: RequestView = self.owner.get(&path, &query).await?.value;
        let outcome = closed.outcome;
        ensure!(
            outcome == Some(HoldOutcome::Fired),
            "the timer ended as {outcome:?}"
        );
        Ok(output::line("  The timer has fired.")?)
    }

    async fn open_request(&self, run: &str) -> anyhow::Result<RequestView> {
        let query = [("run", run.to_owned()), ("status", "open".to_owned())];
        poll(&format!("run {run} has no open request"), async || {
            let page: Page<RequestView> = self.nina.get("requests", &query).await?.value;
            Ok(page.items.into_iter().next())
        })
        .await
    }

    async fn wait_for(&self, run: &str, status: RunStatus) -> anyhow::Result<RunView> {
        poll(&format!("run {run} did not become {status}"), async || {
            let shown = self.owner.run(run).await?.value;
            Ok((shown.status == status).then_some(shown))
        })
        .await
    }
}
