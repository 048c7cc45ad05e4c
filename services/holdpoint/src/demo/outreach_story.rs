//! The first story: outreach to the contacts of a file, five days of waiting, one pause, follow-ups.

use std::collections::BTreeMap;

use anyhow::{Context, bail, ensure};
use holdpoint_contracts::agent::AgentView;
use holdpoint_contracts::history::HistoryItem;
use holdpoint_contracts::run::{Page, RunStatus, RunView};
use holdpoint_ids::RunId;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::{Body, Client, Method};
use crate::command::run::contacts_file::Row;
use crate::output;

use super::mails::Expected;
use super::narrator::{Narrator, poll};
use super::timeline::Timeline;

const REPLIES_EVERY: usize = 3;

struct Lead {
    id: String,
    email: String,
    contact: Value,
    replies: bool,
    run: Option<RunId>,
}

impl Lead {
    fn run(&self) -> anyhow::Result<String> {
        Ok(self.run.context("the run was not started")?.to_string())
    }
}

pub(super) struct OutreachStory<'a> {
    narrator: &'a Narrator,
    client: &'a Client,
    leads: Vec<Lead>,
}

#[derive(Deserialize)]
struct History {
    items: Vec<HistoryItem>,
}

impl<'a> OutreachStory<'a> {
    pub(super) fn new(narrator: &'a Narrator, rows: &[Row]) -> anyhow::Result<Self> {
        ensure!(rows.len() >= 2, "the demo needs at least two contacts");
        let leads = rows.iter().enumerate().map(|(index, row)| {
            let email = row.contact.get("email").and_then(Value::as_str);
            let email = email.with_context(|| format!("line {}: `email` is missing", row.line))?;
            Ok(Lead {
                id: row.id.to_string(),
                email: email.to_owned(),
                contact: row.contact.clone(),
                replies: index % REPLIES_EVERY == 1,
                run: None,
            })
        });
        Ok(Self {
            narrator,
            client: &narrator.client,
            leads: leads.collect::<anyhow::Result<Vec<_>>>()?,
        })
    }

    /// One introduction per contact, and one follow-up per contact who did not reply.
    pub(super) fn expected_mails(&self) -> Vec<Expected> {
        let mail = |lead: &Lead, subject: &str| (lead.email.clone(), subject.to_owned());
        let introductions = self.leads.iter().map(|lead| mail(lead, "Introduction"));
        let silent = self.leads.iter().filter(|lead| !lead.replies);
        let follow_ups = silent.map(|lead| mail(lead, "Follow-up"));
        introductions.chain(follow_ups).collect()
    }

    pub(super) async fn play(&mut self, agent: &str) -> anyhow::Result<()> {
        let applied: AgentView = self.client.post_agent("agents", agent).await?.value;
        let name = applied.agent.to_string();
        let text = format!(
            "Story 1: outreach by mail\n\nAgent `{name}` has {} steps:",
            applied.steps.len()
        );
        self.narrator.announce(&text).await?;
        for step in &applied.steps {
            let when = step.when.as_ref().map(|when| format!("  when {when}"));
            let when = when.unwrap_or_default();
            output::line(&format!("  {}  {}{when}", step.id, step.action))?;
        }
        let began = self.client.clock().await?.value.now;
        let mut timeline = Timeline::new(self.client.clone(), began);
        self.start_runs(&name, &mut timeline).await?;
        self.advance("2d", &timeline).await?;
        self.pause_first(&timeline).await?;
        let now = self.client.clock().await?.value.now;
        ensure!((now - began).num_days() == 2, "the clock shows {now}");
        self.set_replies().await?;
        self.advance("3d", &timeline).await?;
        self.expect_only_first_waits().await?;
        self.resume_first(&timeline).await?;
        self.advance("3d", &timeline).await?;
        self.expect_all_completed().await
    }

    async fn start_runs(&mut self, agent: &str, timeline: &mut Timeline) -> anyhow::Result<()> {
        let count = self.leads.len();
        let text = format!("Holdpoint starts one run for each of {count} contacts:");
        self.narrator.announce(&text).await?;
        for lead in &mut self.leads {
            let body = json!({ "contact": lead.contact });
            let run = self.client.start_run(agent, &body).await?.value.id;
            lead.run = Some(run);
            timeline.watch(run, lead.id.clone())?;
        }
        // The clock does not move here; only real work takes time.
        let is_moving =
            |run: &RunView| matches!(run.status, RunStatus::Queued | RunStatus::Running);
        let runs = poll("not all introductions were sent", async || {
            let runs = self.runs().await?;
            Ok((!runs.iter().any(is_moving)).then_some(runs))
        })
        .await?;
        self.print_timeline(timeline).await?;
        for RunView {
            id,
            status,
            message,
            ..
        } in &runs
        {
            ensure!(
                *status == RunStatus::Waiting,
                "{id} is {status}, not waiting"
            );
            let is_expected = message == "Agent paused. Will resume in 5 days.";
            ensure!(is_expected, "the message of {id} is `{message}`");
        }
        Ok(())
    }

    async fn pause_first(&self, timeline: &Timeline) -> anyhow::Result<()> {
        let lead = self.first()?;
        let text = format!(
            "Day 2: an operator pauses the run of {}. Its timer stops.",
            lead.id
        );
        self.narrator.announce(&text).await?;
        let changed = self
            .client
            .change_run(&lead.run()?, "pause", &json!({}))
            .await?;
        let run = changed.value.run;
        ensure!(
            run.status == RunStatus::Waiting,
            "a paused wait stays `waiting`"
        );
        ensure!(run.resume_at.is_none(), "a paused wait has no resume_at");
        self.print_timeline(timeline).await
    }

    async fn set_replies(&self) -> anyhow::Result<()> {
        let replying: Vec<_> = self.leads.iter().filter(|lead| lead.replies).collect();
        let names: Vec<_> = replying.iter().map(|lead| lead.id.as_str()).collect();
        let text = format!("Day 2: replies arrive from {}.", names.join(" and "));
        self.narrator.announce(&text).await?;
        for lead in replying {
            let path = format!("contacts/{}", lead.id);
            let reply = json!({ "replied": true });
            let _contact: Body<Value> = self.client.send_json(Method::PATCH, &path, &reply).await?;
        }
        Ok(())
    }

    async fn expect_only_first_waits(&self) -> anyhow::Result<()> {
        let first = self.first()?.run;
        for RunView { id, status, .. } in self.runs().await? {
            let expected = if Some(id) == first {
                RunStatus::Waiting
            } else {
                RunStatus::Completed
            };
            ensure!(status == expected, "{id} is {status}, not {expected}");
        }
        Ok(())
    }

    async fn resume_first(&self, timeline: &Timeline) -> anyhow::Result<()> {
        let lead = self.first()?;
        let run = self.client.run(&lead.run()?).await?.value;
        let text = format!(
            "Day 5: the run of {} is still paused: \"{}\"",
            lead.id, run.message
        );
        self.narrator.announce(&text).await?;
        let text = "The operator resumes it. It waits for the time that it had left.";
        self.narrator.announce(text).await?;
        let run = lead.run()?;
        self.client.change_run(&run, "resume", &json!({})).await?;
        self.print_timeline(timeline).await
    }

    async fn expect_all_completed(&self) -> anyhow::Result<()> {
        for run in self.runs().await? {
            if run.status != RunStatus::Completed {
                bail!("{} is {}: {}", run.id, run.status, run.message);
            }
        }
        Ok(())
    }

    /// Moves the clock and waits until everything that this triggers is finished and printed.
    async fn advance(&self, by: &str, timeline: &Timeline) -> anyhow::Result<()> {
        self.narrator.advance(by).await?;
        self.print_timeline(timeline).await
    }

    /// Waits until the timeline has printed the whole history of all runs.
    async fn print_timeline(&self, timeline: &Timeline) -> anyhow::Result<()> {
        let mut last_seqs = BTreeMap::new();
        for run in self.leads.iter().filter_map(|lead| lead.run) {
            let query = [("limit", "500".to_owned())];
            let path = format!("runs/{run}/events");
            let history: History = self.client.get(&path, &query).await?.value;
            last_seqs.insert(run, history.items.last().map_or(0, |item| item.seq));
        }
        timeline.wait_until_printed(&last_seqs).await;
        Ok(())
    }

    async fn runs(&self) -> anyhow::Result<Vec<RunView>> {
        let query = [("limit", "500".to_owned())];
        let page: Page<RunView> = self.client.get("runs", &query).await?.value;
        let is_ours = |run: &RunView| self.leads.iter().any(|lead| lead.run == Some(run.id));
        Ok(page.items.into_iter().filter(is_ours).collect())
    }

    fn first(&self) -> anyhow::Result<&Lead> {
        self.leads.first().context("there are no contacts")
    }
}
