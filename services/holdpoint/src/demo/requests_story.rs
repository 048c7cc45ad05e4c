//! The second story: people are asked. A question that is answered after three hours, a warm lead that
//! a person takes over and gives back, an approval without an agent that nobody looks at until it
//! escalates, and a wait without an agent.

use std::time::Duration;

use anyhow::{Context, ensure};
use holdpoint_contracts::handoff::{Decided, RequestView};
use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_contracts::run::{Page, RunStatus, RunView};
use holdpoint_ids::HoldId;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::{Client, StartRun};
use crate::connection::Connection;
use crate::output;

use super::mails::Expected;
use super::narrator::Stage;

/// Real time that anything may take which no clock has to be moved for.
const WITHIN: Duration = Duration::from_secs(30);

/// How often is looked meanwhile.
const LOOK: Duration = Duration::from_millis(20);

const ZOE: &str = "zoe@zoe.example";

/// What a person was told in the application.
#[derive(Deserialize)]
struct Notification {
    #[serde(rename = "type")]
    kind: String,
    title: String,
}

/// A hold that was opened without an agent.
#[derive(Deserialize)]
pub(super) struct Opened {
    pub(super) id: HoldId,
}

/// How a hold without an agent ended.
#[derive(Deserialize)]
struct Ended {
    outcome: Option<HoldOutcome>,
}

/// The cast.
pub(super) struct People<'a> {
    stage: &'a Stage,
    owner: Client,
    nina: Client,
}

impl<'a> People<'a> {
    /// Makes the people, each with a token of their own.
    pub(super) async fn join(stage: &'a Stage, connection: &Connection) -> anyhow::Result<Self> {
        let owner = stage.client.clone();
        let nina = join(&owner, connection, "nina", &["member", "sales"]).await?;
        join(&owner, connection, "omar", &["member", "ops"]).await?;
        Ok(Self { stage, owner, nina })
    }

    /// The one mail that goes to a contact.
    pub(super) fn expected_mails() -> Vec<Expected> {
        vec![(ZOE.to_owned(), "We offer you a pilot".to_owned())]
    }

    /// Plays everything.
    pub(super) async fn tell(&self, agent: &str) -> anyhow::Result<()> {
        let applied = self.owner.apply_agent(agent).await?.value;
        let name = applied.agent.to_string();
        let start = StartRun {
            contact: Some(json!({
                "id": "c-zoe", "name": "Zoe", "email": ZOE, "replied": true, "sentiment": "positive",
                "deals": [{ "name": "Pilot", "value": 12_000, "stage": "proposal", "probability": 0.4 }],
            })),
            ..StartRun::default()
        };
        let run = self
            .owner
            .start_run(&name, &start)
            .await?
            .value
            .id
            .to_string();
        self.question(&run).await?;
        self.warm_lead(&run).await?;
        self.escalation().await?;
        self.wait().await
    }

    async fn question(&self, run: &str) -> anyhow::Result<()> {
        let shown = self.until(run, RunStatus::AwaitingInput).await?;
        self.stage
            .scene(&format!(
                "Agent `{}` asks, and stands: {}",
                shown.agent, shown.message
            ))
            .await?;
        let request = self.request_of(run).await?;
        self.stage.advance("3h").await?;
        self.stage
            .scene(&format!(
                "Three hours later nina answers \"{}\": a pilot.",
                request.question
            ))
            .await?;
        let answer = json!({ "answer": "a pilot" });
        self.decide(&self.nina, request.id, "respond", &answer)
            .await
    }

    async fn warm_lead(&self, run: &str) -> anyhow::Result<()> {
        let shown = self.until(run, RunStatus::Waiting).await?;
        let request = self.request_of(run).await?;
        ensure!(request.warm_lead, "Zoe is interested, and nobody noticed");
        let title = request.title.clone().unwrap_or_default();
        self.stage
            .scene(&format!(
                "nina's inbox: {title}\n  {}\n  {}",
                request.question, shown.message
            ))
            .await?;
        self.stage
            .scene("nina takes over: the clock stops, the agent is fenced off.")
            .await?;
        let path = format!("requests/{}/take-over", request.id);
        let taken: RequestView = self.nina.post(&path, &json!({})).await?.value;
        ensure!(
            taken.assignee.as_deref() == Some("nina"),
            "{:?} has it",
            taken.assignee
        );
        self.stage.advance("10d").await?;
        let waiting = self.owner.run(run).await?.value;
        ensure!(
            waiting.status == RunStatus::Waiting,
            "{run} is {}",
            waiting.status
        );
        self.stage
            .scene("Ten days later she gives the run back.")
            .await?;
        let done = json!({
            "notes": "Called her, she wants the pilot.",
            "outcome_type": "resolved",
            "disposition": "return_to_agent",
        });
        self.decide(&self.nina, request.id, "complete", &done)
            .await?;
        let shown = self.until(run, RunStatus::Completed).await?;
        output::line(&format!("  {}", shown.message))?;
        Ok(())
    }

    /// An approval without an agent; nobody looks at it until the owners are told.
    async fn escalation(&self) -> anyhow::Result<()> {
        self.stage
            .scene("A script asks omar: \"Deploy 4.2?\" - and omar is at lunch.")
            .await?;
        let ask = json!({
            "kind": "approval", "question": "Deploy 4.2?", "to": "@user.omar",
            "timeout": "1h", "on_timeout": "escalate",
        });
        let hold: Opened = self.owner.post("holds", &ask).await?.value;
        self.stage.advance("1h").await?;
        let told = self.told(&self.owner, "escalation").await?;
        self.stage
            .scene(&format!(
                "The hour is over: the owner is told: \"{}\". The owner approves.",
                told.title
            ))
            .await?;
        let comment = json!({ "comment": "go ahead" });
        self.decide(&self.owner, hold.id, "approve", &comment).await
    }

    /// A wait without an agent.
    async fn wait(&self) -> anyhow::Result<()> {
        self.stage.scene("A script waits for two days.").await?;
        let ask = json!({ "kind": "timer", "wait": "2d" });
        let hold: Opened = self.owner.post("holds", &ask).await?.value;
        self.stage.advance("2d").await?;
        let query = [("wait", "10s".to_owned())];
        let path = format!("holds/{}", hold.id);
        let fired: Ended = self.owner.get(&path, &query).await?.value;
        let outcome = fired.outcome.map_or("nothing", |outcome| outcome.as_str());
        ensure!(outcome == "fired", "the wait ended as {outcome}");
        output::line("  It has fired.")?;
        Ok(())
    }

    async fn decide(
        &self,
        who: &Client,
        request: HoldId,
        verb: &str,
        body: &Value,
    ) -> anyhow::Result<()> {
        let path = format!("requests/{request}/{verb}");
        let decided: Decided = who.post(&path, body).await?.value;
        ensure!(decided.recorded, "{verb} of {request} was not recorded");
        Ok(())
    }

    /// The open request of a run, once its owner has it.
    async fn request_of(&self, run: &str) -> anyhow::Result<RequestView> {
        let query = [("run", run.to_owned()), ("status", "open".to_owned())];
        let by = tokio::time::Instant::now() + WITHIN;
        loop {
            let page: Page<RequestView> = self.nina.get("requests", &query).await?.value;
            if let Some(request) = page.items.into_iter().next() {
                return Ok(request);
            }
            ensure!(tokio::time::Instant::now() < by, "run {run} asks nobody");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The newest notification of a type that somebody has.
    async fn told(&self, who: &Client, kind: &str) -> anyhow::Result<Notification> {
        let by = tokio::time::Instant::now() + WITHIN;
        loop {
            let page: Page<Notification> = who.get("notifications", &[]).await?.value;
            if let Some(one) = page.items.into_iter().find(|one| one.kind == kind) {
                return Ok(one);
            }
            ensure!(
                tokio::time::Instant::now() < by,
                "nobody was told of an {kind}"
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn until(&self, run: &str, status: RunStatus) -> anyhow::Result<RunView> {
        let by = tokio::time::Instant::now() + WITHIN;
        loop {
            let shown = self.owner.run(run).await?.value;
            if shown.status == status {
                return Ok(shown);
            }
            let late = tokio::time::Instant::now() > by;
            ensure!(
                !late,
                "run {run} is {}, not {status}: {}",
                shown.status,
                shown.message
            );
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Makes a user, and a client that speaks for them.
pub(super) async fn join(
    owner: &Client,
    connection: &Connection,
    name: &str,
    roles: &[&str],
) -> anyhow::Result<Client> {
    let user = json!({ "name": name, "email": format!("{name}@acme.example"), "roles": roles });
    let _made: Value = owner.post("users", &user).await?.value;
    let made: Value = owner.post("tokens", &json!({ "user": name })).await?.value;
    let token = made
        .get("token")
        .and_then(Value::as_str)
        .context("no token")?;
    let connection = Connection {
        token: Some(token.to_owned()),
        ..connection.clone()
    };
    Ok(Client::new(connection)?)
}
