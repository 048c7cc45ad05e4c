//! Everything that can happen to the executor's aggregates, each with its source.

use std::collections::BTreeMap;

use holdpoint_contracts::message::Actor;
use holdpoint_contracts::run::{ActionResult, ResumeMode};
use holdpoint_ids::{AgentName, ContactId, HoldId, NodeName, RunId, Workspace};
use serde_json::Value;

use super::contact::ContactInput;
use super::need::Key;
use super::scope::ScopeInput;

/// One input for one aggregate.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Somebody brings an agent's text.
    ApplyAgent {
        /// Whose.
        workspace: Workspace,
        /// Which agent.
        agent: AgentName,
        /// YAML or JSON.
        text: String,
    },
    /// Somebody, or a tool, says something of a contact.
    Contact {
        /// Whose.
        workspace: Workspace,
        /// Whom.
        contact: ContactId,
        /// What.
        input: ContactInput,
    },
    /// Something is commanded for all runs of an agent, or of the whole workspace.
    Scope {
        /// Whose.
        workspace: Workspace,
        /// Which agent; none: everything in the workspace.
        agent: Option<AgentName>,
        /// What.
        input: ScopeInput,
    },
    /// Something happens to a run.
    Run {
        /// The workspace that the message came under; another one's run does not exist for it.
        workspace: Workspace,
        /// Which run.
        run: RunId,
        /// What.
        input: RunInput,
    },
}

/// What can happen to a run.
#[derive(Debug, Clone, PartialEq)]
pub enum RunInput {
    /// A caller starts it.
    Start {
        /// Of this agent's newest version.
        agent: AgentName,
        /// `$input`.
        input: Value,
        /// About whom.
        contact: Option<ContactId>,
        /// To find it again.
        labels: BTreeMap<String, String>,
        /// Who starts it.
        by: Actor,
    },
    /// A person freezes it.
    Pause {
        /// Who.
        by: Actor,
    },
    /// A person lets it go on.
    Resume {
        /// Who.
        by: Actor,
        /// How its waits go on.
        mode: ResumeMode,
    },
    /// A person ends it.
    Cancel {
        /// Who.
        by: Actor,
        /// Why.
        reason: Option<String>,
    },
    /// The sweep brings it up to what was commanded for its agent or workspace.
    Follow,
    /// The scheduler says that an alarm is due.
    TimerFired {
        /// The hold it was set for.
        hold: HoldId,
        /// As it was set.
        rev: u64,
    },
    /// A worker asks whether it may start a delivered step.
    StartStep {
        /// Which worker.
        node: NodeName,
        /// Which step.
        step: String,
        /// Of the hand-out.
        dispatch: u64,
        /// How often the bus has delivered it.
        delivery: u64,
    },
    /// A worker reports.
    StepResult {
        /// Which worker.
        node: NodeName,
        /// Which step.
        step: String,
        /// Of the hand-out.
        dispatch: u64,
        /// What came of it.
        result: ActionResult,
        /// Stable code of a failure.
        error_code: Option<String>,
    },
}

impl Input {
    /// The aggregate it is for.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Self::ApplyAgent {
                workspace, agent, ..
            } => Key::Agent(workspace.clone(), agent.clone()),
            Self::Contact {
                workspace, contact, ..
            } => Key::Contact(workspace.clone(), contact.clone()),
            Self::Scope {
                workspace,
                agent: Some(agent),
                ..
            } => Key::Agent(workspace.clone(), agent.clone()),
            Self::Scope {
                workspace,
                agent: None,
                ..
            } => Key::Workspace(workspace.clone()),
            Self::Run { run, .. } => Key::Run(*run),
        }
    }
}
