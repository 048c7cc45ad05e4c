//! The third story: two simulated users, Ada and Bob, answer as real people do. They answer after three
//! hours, never, twice, late, with an invalid answer, and both at once. Exactly one answer counts.

use anyhow::{Context, bail, ensure};
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{Decided, RequestView};
use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_ids::HoldId;
use serde_json::{Value, json};

use crate::client::{Client, ClientError};
use crate::command::request::OpenedHold;
use crate::connection::Connection;
use crate::output;

use super::narrator::{Narrator, add_user};

pub(super) struct SimulatedPeople<'a> {
    narrator: &'a Narrator,
    owner: &'a Client,
    ada: Client,
    bob: Client,
}

type Reply = Result<(), Box<Problem>>;

impl<'a> SimulatedPeople<'a> {
    pub(super) async fn new(
        narrator: &'a Narrator,
        connection: &Connection,
    ) -> anyhow::Result<Self> {
        let owner = &narrator.client;
        Ok(Self {
            narrator,
            owner,
            ada: add_user(owner, connection, "ada", &["member"]).await?,
            bob: add_user(owner, connection, "bob", &["member"]).await?,
        })
    }

    /// Plays six cases; an unexpected result is an error.
    pub(super) async fn play(&self) -> anyhow::Result<()> {
        let text = "Story 4: two simulated users, Ada and Bob, behave like real people\n\n\
            Holdpoint asks both of them \"Tell the customer?\" six times. Each question has a deadline \
            of one day.";
        self.narrator.announce(text).await?;
        self.both_at_once().await?;
        self.invalid_answer().await?;
        self.twice().await?;
        let (patient, never, late) = (self.ask().await?, self.ask().await?, self.ask().await?);
        self.narrator.advance("3h").await?;
        self.after_three_hours(patient).await?;
        self.narrator.advance("21h").await?;
        self.never(never).await?;
        self.late(late).await
    }

    async fn both_at_once(&self) -> anyhow::Result<()> {
        let hold = self.ask().await?;
        let (ada, bob) = tokio::join!(
            self.answer(&self.ada, hold, json!("yes")),
            self.answer(&self.bob, hold, json!("no"))
        );
        let (winner, loser, user, problem) = match (ada?, bob?) {
            (Ok(()), Err(problem)) => ("Ada", "Bob", "ada", problem),
            (Err(problem), Ok(())) => ("Bob", "Ada", "bob", problem),
            (Ok(()), Ok(())) => bail!("two answers to {hold} were recorded"),
            (Err(_), Err(_)) => bail!("no answer to {hold} was recorded"),
        };
        let detail = &problem.detail;
        let names_winner = detail.contains(&format!(" by {user} at "));
        ensure!(names_winner, "{loser} gets: {detail}");
        let text = format!("{winner} is first. {loser} gets the reply: {detail}");
        print_case("both at once", &text)
    }

    async fn invalid_answer(&self) -> anyhow::Result<()> {
        let hold = self.ask().await?;
        let Err(problem) = self.answer(&self.ada, hold, json!(true)).await? else {
            bail!("the invalid answer `true` to {hold} was recorded");
        };
        ensure!(
            problem.code == "invalid_answer",
            "the code is {}",
            problem.code
        );
        let text = format!("Ada answers true. Holdpoint refuses it: {}", problem.detail);
        print_case("invalid answer", &text)?;
        self.expect_recorded(&self.ada, hold, "yes").await
    }

    async fn twice(&self) -> anyhow::Result<()> {
        let hold = self.ask().await?;
        self.expect_recorded(&self.ada, hold, "no").await?;
        self.expect_recorded(&self.ada, hold, "no").await?;
        let request = self.request(hold).await?;
        let answers = request.history.iter();
        let answers = answers.filter(|entry| entry.action == "answered").count();
        ensure!(answers == 1, "{hold} has {answers} recorded answers");
        print_case("twice", "Ada answers no twice. Holdpoint records it once.")
    }

    async fn after_three_hours(&self, hold: HoldId) -> anyhow::Result<()> {
        self.expect_recorded(&self.bob, hold, "yes").await?;
        print_case(
            "after three hours",
            "Bob answers yes. Holdpoint records it.",
        )
    }

    async fn never(&self, hold: HoldId) -> anyhow::Result<()> {
        let outcome = self.request(hold).await?.outcome;
        let is_timeout = outcome == Some(HoldOutcome::Timeout);
        ensure!(is_timeout, "the outcome is {outcome:?}");
        let text = "Neither of them answers. Holdpoint reports a timeout to the asking program.";
        print_case("never", text)
    }

    async fn late(&self, hold: HoldId) -> anyhow::Result<()> {
        let Err(problem) = self.answer(&self.bob, hold, json!("yes")).await? else {
            bail!("an answer to {hold} was recorded after the deadline");
        };
        let request = self.request(hold).await?;
        ensure!(request.late.len() == 1, "the late answer was not kept");
        let detail = &problem.detail;
        let text =
            format!("Bob answers yes. Holdpoint keeps it as a late answer and replies: {detail}");
        print_case("late", &text)
    }

    async fn ask(&self) -> anyhow::Result<HoldId> {
        let ask = json!({
            "kind": "input", "question": "Tell the customer?", "options": ["yes", "no"],
            "to": ["@user.ada", "@user.bob"], "timeout": "1d",
        });
        let hold: OpenedHold = self.owner.post("holds", &ask).await?.value;
        Ok(hold.id)
    }

    async fn request(&self, hold: HoldId) -> anyhow::Result<RequestView> {
        let path = format!("requests/{hold}");
        Ok(self.owner.get(&path, &[]).await?.value)
    }

    async fn expect_recorded(
        &self,
        user: &Client,
        hold: HoldId,
        answer: &str,
    ) -> anyhow::Result<()> {
        let reply = self.answer(user, hold, json!(answer)).await?;
        reply.map_err(|problem| anyhow::anyhow!("{answer} to {hold}: {}", problem.detail))
    }

    async fn answer(&self, user: &Client, hold: HoldId, answer: Value) -> anyhow::Result<Reply> {
        let path = format!("requests/{hold}/respond");
        match user
            .post::<Decided>(&path, &json!({ "answer": answer }))
            .await
        {
            Ok(decided) if decided.value.recorded => Ok(Ok(())),
            Ok(_) => bail!("{hold}: the answer was accepted but not recorded"),
            Err(ClientError::Refused { problem, .. }) => Ok(Err(problem)),
            Err(other) => Err(other).context("an answer was lost"),
        }
    }
}

fn print_case(name: &str, text: &str) -> anyhow::Result<()> {
    Ok(output::line(&format!("  {name:<18} {text}"))?)
}
