//! The story: outreach to the contacts of a file, five days of patience, one pause, follow-ups.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use chrono::{DateTime, Utc};
use holdpoint_contracts::history::HistoryItem;
use holdpoint_contracts::run::{Page, RunStatus, RunView};
use holdpoint_ids::RunId;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::{Client, StartRun};
use crate::command::run::contacts_file::Row;
use crate::output;

use super::mails::Expected;
use super::narrator::Stage;
use super::timeline::Timeline;

/// Every third contact replies.
const REPLIES_EVERY: usize = 3;

/// Real time that the introductions may take.
const INTRODUCTIONS_WITHIN: Duration = Duration::from_secs(30);

/// How often the runs are looked at meanwhile.
const LOOK: Duration = Duration::from_millis(20);

/// A contact, its run, and whether it replies.
struct Lead {
    id: String,
    email: String,
    contact: Value,
    replies: bool,
    run: Option<RunId>,
}

pub(super) struct Story<'a> {
    stage: &'a Stage,
    client: Client,
    leads: Vec<Lead>,
}

/// The newest item of a run's history.
#[derive(Deserialize)]
struct Items {
    items: Vec<HistoryItem>,
}

impl<'a> Story<'a> {
    pub(super) fn new(stage: &'a Stage, rows: &[Row]) -> anyhow::Result<Self> {
        ensure!(rows.len() >= 2, "the story needs at least two contacts");
        let leads = rows.iter().enumerate().map(|(place, row)| {
            let email = row.contact.get("email").and_then(Value::as_str);
            let email = email.with_context(|| format!("line {}: no `email`", row.line))?;
            Ok(Lead {
                id: row.id.to_string(),
                email: email.to_owned(),
                contact: row.contact.clone(),
                replies: place % REPLIES_EVERY == 1,
                run: None,
            })
        });
        let leads = leads.collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Self {
            stage,
            client: stage.client.clone(),
            leads,
        })
    }

    /// One introduction each; one follow-up for who did not reply.
    pub(super) fn expected_mails(&self) -> Vec<Expected> {
        let mail = |lead: &Lead, subject: &str| (lead.email.clone(), subject.to_owned());
        let introductions = self.leads.iter().map(|lead| mail(lead, "Introduction"));
        let silent = self.leads.iter().filter(|lead| !lead.replies);
        introductions
            .chain(silent.map(|lead| mail(lead, "Follow-up")))
            .collect()
    }

    /// Plays everything.
    pub(super) async fn tell(&mut self, agent: &str) -> anyhow::Result<()> {
        let applied = self.client.apply_agent(agent).await?.value;
        let name = applied.agent.to_string();
        self.stage
            .scene(&format!("Agent `{name}`, {} steps:", applied.steps.len()))
            .await?;
        for step in &applied.steps {
            let when = step
                .when
                .as_ref()
                .map(|when| format!("  when {when}"))
                .unwrap_or_default();
            output::line(&format!("  {}  {}{when}", step.id, step.action))?;
        }
        let began = self.client.clock().await?.value.now;
        let mut timeline = Timeline::new(self.client.clone(), began);
        self.start_runs(&name, &mut timeline).await?;
        self.advance("2d", &timeline).await?;
        self.pause_first(began, &timeline).await?;
        self.replies_arrive().await?;
        self.advance("3d", &timeline).await?;
        self.expect_only_paused_is_left().await?;
        self.resume_first(&timeline).await?;
        self.advance("3d", &timeline).await?;
        self.expect_all_completed().await
    }

    async fn start_runs(&mut self, agent: &str, timeline: &mut Timeline) -> anyhow::Result<()> {
        self.stage
            .scene(&format!(
                "Starting a run for each of {} contacts.",
                self.leads.len()
            ))
            .await?;
        for lead in &mut self.leads {
            let start = StartRun {
                contact: Some(lead.contact.clone()),
                ..StartRun::default()
            };
            let run = self.client.start_run(agent, &start).await?.value.id;
            lead.run = Some(run);
            timeline.follow(run, lead.id.clone())?;
        }
        // The clock stands; only real work is waited for here.
        let deadline = tokio::time::Instant::now() + INTRODUCTIONS_WITHIN;
        let waiting = loop {
            let runs = self.runs().await?;
            let moving =
                |run: &RunView| matches!(run.status, RunStatus::Queued | RunStatus::Running);
            if !runs.iter().any(moving) || tokio::time::Instant::now() > deadline {
                break runs;
            }
            tokio::time::sleep(LOOK).await;
        };
        self.caught_up(timeline).await?;
        for run in &waiting {
            ensure!(
                run.status == RunStatus::Waiting,
                "{} is {}, not waiting",
                run.id,
                run.status
            );
            ensure!(
                run.message == "Agent paused. Will resume in 5 days.",
                "{} says `{}`",
                run.id,
                run.message
            );
        }
        Ok(())
    }

    async fn pause_first(&self, began: DateTime<Utc>, timeline: &Timeline) -> anyhow::Result<()> {
        let lead = self.first()?;
        self.stage
            .scene(&format!("Day 2: somebody pauses the run of {}.", lead.id))
            .await?;
        let run = self.client.pause(&run_of(lead)?).await?.value.run;
        ensure!(
            run.status == RunStatus::Waiting,
            "a paused wait stays `waiting`"
        );
        ensure!(run.resume_at.is_none(), "a paused wait has no resume_at");
        self.caught_up(timeline).await?;
        let now = self.client.clock().await?.value.now;
        ensure!((now - began).num_days() == 2, "the clock shows {now}");
        Ok(())
    }

    async fn replies_arrive(&self) -> anyhow::Result<()> {
        let replying: Vec<_> = self.leads.iter().filter(|lead| lead.replies).collect();
        let names: Vec<_> = replying.iter().map(|lead| lead.id.as_str()).collect();
        self.stage
            .scene(&format!(
                "Day 2: replies arrive from {}.",
                names.join(" and ")
            ))
            .await?;
        for lead in replying {
            self.client
                .patch_contact(&lead.id, &json!({ "replied": true }))
                .await?;
        }
        Ok(())
    }

    async fn expect_only_paused_is_left(&self) -> anyhow::Result<()> {
        let paused = run_of(self.first()?)?;
        for run in self.runs().await? {
            let is_paused = run.id.to_string() == paused;
            let expected = if is_paused {
                RunStatus::Waiting
            } else {
                RunStatus::Completed
            };
            ensure!(
                run.status == expected,
                "{} is {}, not {expected}",
                run.id,
                run.status
            );
        }
        Ok(())
    }

    async fn resume_first(&self, timeline: &Timeline) -> anyhow::Result<()> {
        let lead = self.first()?;
        let shown = self.client.run(&run_of(lead)?).await?.value;
        self.stage
            .scene(&format!(
                "Day 5: {} still stands: \"{}\"",
                lead.id, shown.message
            ))
            .await?;
        self.stage
            .scene("It is resumed with the time it had left.")
            .await?;
        self.client.resume(&run_of(lead)?, None).await?;
        self.caught_up(timeline).await
    }

    async fn expect_all_completed(&self) -> anyhow::Result<()> {
        for run in self.runs().await? {
            if run.status != RunStatus::Completed {
                bail!("{} is {}: {}", run.id, run.status, run.message);
            }
        }
        Ok(())
    }

    /// Moves the clock; returns when all that it woke has settled and was printed.
    async fn advance(&self, by: &str, timeline: &Timeline) -> anyhow::Result<()> {
        self.stage.advance(by).await?;
        self.caught_up(timeline).await
    }

    async fn caught_up(&self, timeline: &Timeline) -> anyhow::Result<()> {
        let mut upto = BTreeMap::new();
        for lead in &self.leads {
            let Some(run) = lead.run else { continue };
            let query = [("limit", "500".to_owned())];
            let path = format!("runs/{run}/events");
            let items: Items = self.client.get(&path, &query).await?.value;
            upto.insert(run, items.items.last().map_or(0, |item| item.seq));
        }
        timeline.printed(&upto).await;
        Ok(())
    }

    async fn runs(&self) -> anyhow::Result<Vec<RunView>> {
        let page: Page<RunView> = self
            .client
            .get("runs", &[("limit", "500".to_owned())])
            .await?
            .value;
        let ours = |run: &RunView| self.leads.iter().any(|lead| lead.run == Some(run.id));
        Ok(page.items.into_iter().filter(ours).collect())
    }

    fn first(&self) -> anyhow::Result<&Lead> {
        self.leads.first().context("no contacts")
    }
}

fn run_of(lead: &Lead) -> anyhow::Result<String> {
    Ok(lead.run.context("the run was not started")?.to_string())
}
