//! Commands and queries of the executor.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, ContactId, RunId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::agent::{AgentView, PlannedStepView};
use crate::contact::{Activity, ContactView};
use crate::history::HistoryItem;
use crate::message::{Command, Query};
use crate::problem::FieldError;
use crate::run::{ChangedRun, HoldKind, Page, ResumeMode, RunStatus, RunView};

mod pauses;
mod watching;

pub use pauses::{PauseNew, PauseWaiting};
pub use watching::{RunEndWatched, RunEndsOf, WatchRunEnds};

/// Name of the service, as in subjects.
pub const SERVICE: &str = "executor";

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
    /// The contact.
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
    /// The contact.
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
    /// The contact.
    pub contact: ContactId,
}
command!(DeleteContact, "delete_contact", (), |it| it
    .contact
    .to_string());

/// Says what was said to or by a contact; the same id again adds nothing (S0-AC7).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddActivity {
    /// The contact.
    pub contact: ContactId,
    /// Made by the caller.
    pub id: String,
    /// The activity.
    pub activity: Activity,
    /// What changes of the contact with it, such as `replied` and `sentiment` (RFC 7386).
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub patch: Map<String, Value>,
}
command!(AddActivity, "add_activity", ContactView, |it| it
    .contact
    .to_string());

/// The last activities of a contact, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListActivities {
    /// The contact.
    pub contact: ContactId,
    /// 1 to 200.
    pub limit: u64,
}
query!(ListActivities, "activities", Page<Activity>);

/// Starts a run of the newest version of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartRun {
    /// Made by the caller, so that asking again starts nothing twice.
    pub run: RunId,
    /// The agent.
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
    /// The run.
    pub run: RunId,
    /// Whether a run that waits is held or cancelled.
    #[serde(default, skip_serializing_if = "PauseWaiting::is_hold")]
    pub waiting: PauseWaiting,
}
command!(PauseRun, "pause_run", ChangedRun, |it| it.run.to_string());

/// Lets a paused run go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResumeRun {
    /// The run.
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
    /// The run.
    pub run: RunId,
    /// Reason in one sentence.
    #[serde(default)]
    pub reason: Option<String>,
}
command!(CancelRun, "cancel_run", ChangedRun, |it| it.run.to_string());

/// An operator becomes the owner of a live run: its other live steps are revoked, the agent is fenced
/// off, and a handoff of that person stands until they complete it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TakeOverRun {
    /// The run.
    pub run: RunId,
}
command!(TakeOverRun, "take_over_run", ChangedRun, |it| it
    .run
    .to_string());

/// Freezes an agent, or the whole workspace: every waiting run of it, whatever their number, and
/// every later one (S0-AC4, S0-T6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PauseScope {
    /// Which agent; none: the whole workspace.
    pub agent: Option<AgentName>,
    /// What becomes of runs that wait.
    #[serde(default)]
    pub waiting: PauseWaiting,
    /// What becomes of runs that are started meanwhile.
    #[serde(default)]
    pub new: PauseNew,
}
command!(PauseScope, "pause_scope", ChangedScope, |it| scope_id(
    it.agent.as_ref()
));

/// Lifts the pause of an agent or of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResumeScope {
    /// Which agent; none: the whole workspace.
    pub agent: Option<AgentName>,
    /// How the waits of its runs go on.
    #[serde(default)]
    pub mode: ResumeMode,
}
command!(ResumeScope, "resume_scope", ChangedScope, |it| scope_id(
    it.agent.as_ref()
));

/// Deletes an agent: its open runs fail from that commit on (S0-AC9); its name is free again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteAgent {
    /// The agent.
    pub agent: AgentName,
}
command!(DeleteAgent, "delete_agent", ChangedScope, |it| scope_id(
    Some(&it.agent)
));

fn scope_id(agent: Option<&AgentName>) -> String {
    agent.map_or_else(|| "*".to_owned(), ToString::to_string)
}

/// A scope after a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangedScope {
    /// Which agent; none: the whole workspace.
    pub agent: Option<AgentName>,
    /// `active`, `paused` or `deleted`.
    pub status: String,
    /// Who paused it, and when; with the steps that were at work only where they are few.
    pub paused_by: Option<crate::run::PausedBy>,
    /// False: it was so already.
    pub changed: bool,
}

/// How holds on people were closed; one message a batch of the handoff service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HoldsClosed {
    /// At least one.
    pub closed: Vec<crate::hold::HoldClosed>,
}
command!(
    HoldsClosed,
    "holds_closed",
    Vec<crate::message::Reply<crate::hold::CloseReply>>,
    |it| it
        .closed
        .first()
        .map(|first| first.id.to_string())
        .unwrap_or_default()
);

/// What was done with handoffs that stand, for the histories of their runs; one message a batch of the
/// handoff service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffsUpdated {
    /// At least one.
    pub handled: Vec<crate::hold::HandoffUpdate>,
}
command!(
    HandoffsUpdated,
    "handoffs_updated",
    Vec<crate::message::Reply<crate::hold::HandoffUpdateReply>>,
    |it| it
        .handled
        .first()
        .map(|first| first.id.to_string())
        .unwrap_or_default()
);

/// Registers a tool that is an HTTP call, or changes it (`POST /tools`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutTool {
    /// What it is and whom it calls.
    pub tool: crate::tool::ToolSpec,
}
command!(PutTool, "put_tool", crate::tool::ToolView, |it| it
    .tool
    .name
    .to_string());

/// Forgets a registered tool; steps that call it then fail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteTool {
    /// The name.
    pub name: holdpoint_ids::ToolName,
}
command!(DeleteTool, "delete_tool", (), |it| it.name.to_string());

/// Alarms that have come due; one message a batch of the scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimersFired {
    /// At least one.
    pub fired: Vec<TimerFired>,
}
command!(
    TimersFired,
    "timers_fired",
    Vec<crate::message::Reply<TimerReply>>,
    |it| it
        .fired
        .first()
        .map(|first| first.id.clone())
        .unwrap_or_default()
);

/// One timer that has come due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimerFired {
    /// The owner's id for it: a hold's id, or `node_` and a node's name.
    pub id: String,
    /// As it was set; an older one is dropped and counted.
    pub rev: u64,
    /// When it was due.
    #[serde(with = "crate::instant")]
    pub due: DateTime<Utc>,
}

/// What became of a fired timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimerReply {
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
    /// What is allowed and probably not meant, such as a tool that nothing offers.
    #[serde(default)]
    pub warnings: Vec<FieldError>,
}

/// One agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetAgent {
    /// The agent.
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
    /// The contact.
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
    /// Only with this mail address, in capitals or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
}
query!(ListContacts, "contacts", Page<ContactView>);

/// One run with its steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetRun {
    /// The run.
    pub run: RunId,
    /// Whether error texts are shown as the tools said them, too: for operators only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub raw_errors: bool,
}

impl GetRun {
    /// The run as everybody may see it who may look.
    #[must_use]
    pub const fn of(run: RunId) -> Self {
        Self {
            run,
            raw_errors: false,
        }
    }
}
query!(GetRun, "run", RunView);

/// Registered tools by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListTools {
    /// 1 to 500.
    pub limit: u64,
    /// From the page before.
    pub cursor: Option<String>,
}
query!(ListTools, "tools", Page<crate::tool::ToolView>);

/// Nodes that work for this workspace, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListNodes {}
query!(ListNodes, "nodes", Page<crate::steps::NodeView>);

/// Leases that stand, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListClaims {
    /// 1 to 500.
    pub limit: u64,
}
query!(ListClaims, "claims", Page<crate::steps::ClaimView>);

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
    /// Only those that wait on a hold of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldKind>,
}
query!(ListRuns, "runs", Page<RunView>);

/// History of a run from a number on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetHistory {
    /// The run.
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
