//! What a decision may ask for, and the aggregates there are.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdpoint_contracts::run::RunStatus;
use holdpoint_ids::{AgentName, ContactId, RunId, Workspace};
use serde_json::Value;

use super::agent::Agent;
use super::contact::Contact;
use super::expression::Reference;
use super::plan::Plan;
use super::run::Run;
use super::scope::WorkspaceScope;

/// Names one aggregate.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// An agent.
    Agent(Workspace, AgentName),
    /// A contact.
    Contact(Workspace, ContactId),
    /// A run.
    Run(RunId),
    /// What was commanded for a whole workspace.
    Workspace(Workspace),
}

/// An aggregate's control state.
#[derive(Debug, Clone)]
pub enum Aggregate {
    /// An agent: which version is the newest.
    Agent(Agent),
    /// A contact: what is known of it.
    Contact(Contact),
    /// A run: where its steps stand.
    Run(Run),
    /// What was commanded for a whole workspace.
    Workspace(WorkspaceScope),
}

impl Aggregate {
    /// The agent, if it is one.
    #[must_use]
    pub fn agent(&self) -> Option<&Agent> {
        if let Self::Agent(agent) = self {
            return Some(agent);
        }
        None
    }

    /// The scope of a workspace, if it is one.
    #[must_use]
    pub fn workspace(&self) -> Option<&WorkspaceScope> {
        if let Self::Workspace(workspace) = self {
            return Some(workspace);
        }
        None
    }
}

/// Something a decision lacks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Need {
    /// The agent as it is now.
    Agent(Workspace, AgentName),
    /// What was commanded for the whole workspace.
    Workspace(Workspace),
    /// The contact as it is now.
    Contact(Workspace, ContactId),
    /// One version of an agent; never changes.
    Plan(Workspace, AgentName, u32),
    /// What a run was started with ([`INPUT`]), or what one of its steps returned.
    Value(RunId, String),
}

/// Name of the value that a run was started with; no step can be called so.
pub const INPUT: &str = "$input";

/// What is found for a need.
#[derive(Debug, Clone)]
pub enum Fact {
    /// For [`Need::Agent`].
    Agent(Arc<Agent>),
    /// For [`Need::Workspace`].
    Workspace(Arc<WorkspaceScope>),
    /// For [`Need::Contact`]: its fields and its id.
    Contact(Arc<Value>),
    /// For [`Need::Plan`].
    Plan(Arc<PlanFact>),
    /// For [`Need::Value`].
    Value(Arc<Value>),
    /// What other aggregates may know of a run.
    Run(RunStatus),
}

/// A plan, and what each of its steps refers to.
#[derive(Debug)]
pub struct PlanFact {
    /// The plan.
    pub plan: Plan,
    /// For each step in order.
    pub references: Vec<BTreeSet<Reference>>,
}

impl PlanFact {
    /// Looks the references up once, for every run of the plan.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        let references = (0..plan.steps.len())
            .map(|index| plan.references(index))
            .collect();
        Self { plan, references }
    }
}

/// What there is to know about a need.
#[derive(Debug, Clone)]
pub enum Found {
    /// Nobody has looked yet.
    Unknown,
    /// Looked, and there is no such thing.
    Absent,
    /// Here it is.
    Here(Fact),
}

/// How a decision looks something up.
pub type Lookup<'a> = &'a dyn Fn(&Need) -> Found;
