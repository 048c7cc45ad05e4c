//! Commands and queries of the executor.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, ContactId, HoldId, RunId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::history::HistoryItem;
use crate::message::{Command, Query};
use crate::run::{
    AgentView, ChangedRun, ContactView, Page, PlannedStepView, ResumeMode, RunStatus, RunView,
};

/// Name of the service, as in subjects.
pub const SERVICE: &str = "executor";

macro_rules! command {
    ($type:ty, $verb:literal, $answer:ty, |$this:ident| $aggregate:expr) => {
        impl Command for $type {
            const SERVICE: &'static str = SERVICE;
            const VERB: &'static str = $verb;
            type Answer = $answer;

            fn aggregate(&self) -> String {
                let $this = self;
                $aggregate
            }
        }
    };
}

macro_rules! query {
    ($type:ty, $name:literal, $answer:ty) => {
        impl Query for $type {
            const SERVICE: &'static str = SERVICE;
            const NAME: &'static str = $name;
            type Answer = $answer;
        }
    };
}

/// Makes an agent, or a new version of it where the text says something new.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplyAgent {
    /// As the text says it; decides the partition.
    pub agent: AgentName,
    /// YAML or JSON.
    pub text: String,
}
command!(ApplyAgent, "apply_agent", AppliedAgent, |it| it
    .agent
    .to_string());

/// The agent, and whether this was news.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AppliedAgent {
    /// As it now stands.
    #[serde(flatten)]
    pub agent: AgentView,
    /// False: the newest version says the same already.
    pub changed: bool,
}

/// Replaces what is known of a contact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutContact {
    /// Whom.
    pub contact: ContactId,
    /// Everything that is known from now on.
    pub fields: Map<String, Value>,
}
command!(PutContact, "put_contact", ContactView, |it| it
    .contact
    .to_string());

/// Changes some of what is known of a contact (RFC 7386 merge patch).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatchContact {
    /// Whom.
    pub contact: ContactId,
    /// `null` removes a field.
    pub patch: Map<String, Value>,
}
command!(PatchContact, "patch_contact", ContactView, |it| it
    .contact
    .to_string());

/// Forgets a contact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteContact {
    /// Whom.
    pub contact: ContactId,
}
command!(DeleteContact, "delete_contact", (), |it| it
    .contact
    .to_string());

/// Starts a run of the newest version of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartRun {
    /// Made by the caller, so that asking again starts nothing twice.
    pub run: RunId,
    /// Which agent.
    pub agent: AgentName,
    /// What the steps see as `$input`.
    #[serde(default)]
    pub input: Value,
    /// Whom it is about; must be known.
    #[serde(default)]
    pub contact: Option<ContactId>,
    /// To find it again.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}
command!(StartRun, "start_run", RunView, |it| it.run.to_string());

/// Freezes a run: its clocks stop, nothing new starts (S0-AC4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PauseRun {
    /// Which.
    pub run: RunId,
}
command!(PauseRun, "pause_run", ChangedRun, |it| it.run.to_string());

/// Lets a paused run go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResumeRun {
    /// Which.
    pub run: RunId,
    /// How its waits go on.
    #[serde(default)]
    pub mode: ResumeMode,
}
command!(ResumeRun, "resume_run", ChangedRun, |it| it.run.to_string());

/// Ends a run; nothing of it starts any more (S2-R13).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CancelRun {
    /// Which.
    pub run: RunId,
    /// Why, for people.
    #[serde(default)]
    pub reason: Option<String>,
}
command!(CancelRun, "cancel_run", ChangedRun, |it| it.run.to_string());

/// Alarms that have come due; one message a batch of the scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimersFired {
    /// At least one.
    pub fired: Vec<TimerFired>,
}
command!(
    TimersFired,
    "timers_fired",
    Vec<crate::message::Reply<TimerAnswer>>,
    |it| it
        .fired
        .first()
        .map(|first| first.id.to_string())
        .unwrap_or_default()
);

/// One alarm that has come due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimerFired {
    /// The hold it belongs to.
    pub id: HoldId,
    /// As it was set; an older one is dropped and counted.
    pub rev: u64,
    /// When it was due.
    #[serde(with = "crate::instant")]
    pub due: DateTime<Utc>,
}

/// What became of a fired alarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimerAnswer {
    /// The hold ended.
    Applied,
    /// The hold had ended, moved or was frozen already.
    Stale,
}

/// What an agent's text would compile to; nothing is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanAgent {
    /// YAML or JSON.
    pub text: String,
}
query!(PlanAgent, "plan_agent", PlannedAgent);

/// A compiled agent that was not stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedAgent {
    /// Its name.
    pub agent: AgentName,
    /// Its steps in order.
    pub steps: Vec<PlannedStepView>,
}

/// One agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetAgent {
    /// Which.
    pub agent: AgentName,
}
query!(GetAgent, "agent", AgentView);

/// Agents by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListAgents {
    /// 1 to 500.
    pub limit: u64,
    /// From the page before.
    pub cursor: Option<String>,
}
query!(ListAgents, "agents", Page<AgentView>);

/// One contact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetContact {
    /// Whom.
    pub contact: ContactId,
}
query!(GetContact, "contact", ContactView);

/// Contacts by id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListContacts {
    /// 1 to 500.
    pub limit: u64,
    /// From the page before.
    pub cursor: Option<String>,
}
query!(ListContacts, "contacts", Page<ContactView>);

/// One run with its steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetRun {
    /// Which.
    pub run: RunId,
}
query!(GetRun, "run", RunView);

/// Runs, newest first, without their steps.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListRuns {
    /// 1 to 500.
    pub limit: u64,
    /// From the page before.
    pub cursor: Option<String>,
    /// Only with this status.
    pub status: Option<RunStatus>,
    /// Only of this agent.
    pub agent: Option<AgentName>,
    /// Only with this label, `name=value`.
    pub label: Option<String>,
    /// Only later ones.
    #[serde(default, with = "crate::instant::option")]
    pub created_after: Option<DateTime<Utc>>,
}
query!(ListRuns, "runs", Page<RunView>);

/// History of a run from a number on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetHistory {
    /// Whose.
    pub run: RunId,
    /// Items with a greater number; 0 is the beginning.
    pub after: u64,
    /// 1 to 500.
    pub limit: u64,
}
query!(GetHistory, "history", HistoryPage);

/// A part of a run's history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryPage {
    /// In order of `seq`.
    pub items: Vec<HistoryItem>,
    /// Number of the newest item there is.
    pub last_seq: u64,
    /// Whether the run has ended, so that nothing more will come.
    pub run_final: bool,
}
