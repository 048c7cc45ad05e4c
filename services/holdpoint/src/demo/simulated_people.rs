//! The third story: people as people are. They answer after three hours, never, twice, late, with something
//! that is no answer, and two at once; one answer counts, and everybody is told the same.

use anyhow::{Context, bail, ensure};
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{Decided, RequestView};
use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_ids::HoldId;
use serde_json::{Value, json};

use crate::client::{Client, ClientError};
use crate::connection::Connection;
use crate::output;

use super::narrator::Stage;
use super::requests_story::{Opened, join};

/// Two who are asked the same.
pub(super) struct Habits<'a> {
    stage: &'a Stage,
    owner: Client,
    ada: Client,
    bob: Client,
}

/// What somebody is told of their answer.
enum Told {
    /// It counts.
    Recorded,
    /// It does not, and why.
    Refused(Box<Problem>),
}

impl<'a> Habits<'a> {
    pub(super) async fn join(stage: &'a Stage, connection: &Connection) -> anyhow::Result<Self> {
        let owner = stage.client.clone();
        let ada = join(&owner, connection, "ada", &["member"]).await?;
        let bob = join(&owner, connection, "bob", &["member"]).await?;
        Ok(Self {
            stage,
            owner,
            ada,
            bob,
        })
    }

    /// Plays all six; an end that is not as it should be is an error.
    pub(super) async fn tell(&self) -> anyhow::Result<()> {
        let scene = "ada and bob are asked \"Tell the customer?\" six times, for a day each.";
        self.stage.scene(scene).await?;
        self.two_at_once().await?;
        self.no_answer().await?;
        self.twice().await?;
        let (patient, never, late) = (self.ask().await?, self.ask().await?, self.ask().await?);
        self.stage.advance("3h").await?;
        self.after_three_hours(patient).await?;
        self.stage.advance("21h").await?;
        self.never(never).await?;
        self.late(late).await
    }

    async fn two_at_once(&self) -> anyhow::Result<()> {
        let hold = self.ask().await?;
        let (ada, bob) = tokio::join!(
            self.says(&self.ada, hold, json!("yes")),
            self.says(&self.bob, hold, json!("no"))
        );
        let (winner, loser, problem) = match (ada?, bob?) {
            (Told::Recorded, Told::Refused(problem)) => ("ada", "bob", problem),
            (Told::Refused(problem), Told::Recorded) => ("bob", "ada", problem),
            (Told::Recorded, Told::Recorded) => bail!("two answers to {hold} count"),
            (Told::Refused(_), Told::Refused(_)) => bail!("no answer to {hold} counts"),
        };
        let is_told = problem.detail.contains(&format!(" by {winner} at "));
        ensure!(is_told, "{loser} is told: {}", problem.detail);
        line(
            "two at once",
            &format!("{winner} was first; {loser} reads: {}", problem.detail),
        )
    }

    async fn no_answer(&self) -> anyhow::Result<()> {
        let hold = self.ask().await?;
        let Told::Refused(problem) = self.says(&self.ada, hold, json!(true)).await? else {
            bail!("true is none of the answers to {hold}, and counts");
        };
        ensure!(problem.code == "invalid_answer", "it was {}", problem.code);
        line(
            "no answer",
            &format!("ada says true, and reads: {}", problem.detail),
        )?;
        self.counts(&self.ada, hold, "yes").await
    }

    async fn twice(&self) -> anyhow::Result<()> {
        let hold = self.ask().await?;
        self.counts(&self.ada, hold, "no").await?;
        self.counts(&self.ada, hold, "no").await?;
        let shown = self.look(hold).await?;
        let answers = shown.history.iter().filter(|one| one.action == "answered");
        ensure!(answers.count() == 1, "{hold} was answered twice");
        line("twice", "ada says no, and no again: it is recorded once")
    }

    async fn after_three_hours(&self, hold: HoldId) -> anyhow::Result<()> {
        self.counts(&self.bob, hold, "yes").await?;
        line("after three hours", "bob says yes: it counts")
    }

    async fn never(&self, hold: HoldId) -> anyhow::Result<()> {
        let shown = self.look(hold).await?;
        ensure!(
            shown.outcome == Some(HoldOutcome::Timeout),
            "it is {:?}",
            shown.outcome
        );
        line(
            "never",
            "nobody says anything: whoever asked is told that time was up",
        )
    }

    async fn late(&self, hold: HoldId) -> anyhow::Result<()> {
        let Told::Refused(problem) = self.says(&self.bob, hold, json!("yes")).await? else {
            bail!("an answer to {hold} counts after its time");
        };
        let shown = self.look(hold).await?;
        ensure!(shown.late.len() == 1, "what came late is not kept");
        line(
            "late",
            &format!("bob says yes, and reads: {}", problem.detail),
        )
    }

    async fn ask(&self) -> anyhow::Result<HoldId> {
        let ask = json!({
            "kind": "input", "question": "Tell the customer?", "options": ["yes", "no"],
            "to": ["@user.ada", "@user.bob"], "timeout": "1d",
        });
        let hold: Opened = self.owner.post("holds", &ask).await?.value;
        Ok(hold.id)
    }

    async fn look(&self, hold: HoldId) -> anyhow::Result<RequestView> {
        Ok(self
            .owner
            .get(&format!("requests/{hold}"), &[])
            .await?
            .value)
    }

    async fn counts(&self, who: &Client, hold: HoldId, answer: &str) -> anyhow::Result<()> {
        match self.says(who, hold, json!(answer)).await? {
            Told::Recorded => Ok(()),
            Told::Refused(problem) => bail!("{answer} to {hold}: {}", problem.detail),
        }
    }

    async fn says(&self, who: &Client, hold: HoldId, answer: Value) -> anyhow::Result<Told> {
        let path = format!("requests/{hold}/respond");
        let body = json!({ "answer": answer });
        match who.post::<Decided>(&path, &body).await {
            Ok(decided) if decided.value.recorded => Ok(Told::Recorded),
            Ok(_) => bail!("{hold}: taken, and not recorded"),
            Err(ClientError::Refused { problem, .. }) => Ok(Told::Refused(problem)),
            Err(other) => Err(other).context("an answer was lost"),
        }
    }
}

fn line(habit: &str, what: &str) -> anyhow::Result<()> {
    output::line(&format!("  {habit:<18} {what}"))?;
    Ok(())
}
