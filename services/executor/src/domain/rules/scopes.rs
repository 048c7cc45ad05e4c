//! The agent and the workspace whose commands a run must apply.

use std::sync::Arc;

use holdpoint_contracts::run::PauseScope;
use holdpoint_ids::{AgentName, Workspace};

use crate::domain::decision::{Lookup, LookupFn, Undecided};
use crate::domain::model::agent::Agent;
use crate::domain::model::scope::{Scope, WorkspaceScope};
use crate::domain::need::{Aggregate, Fact, Key, Need};
use crate::domain::refusal::Refusal;

/// The scopes of a run; none: nothing was ever commanded for it.
#[derive(Debug, Clone, Default)]
pub struct Scopes {
    pub agent: Option<Arc<Agent>>,
    pub workspace: Option<Arc<WorkspaceScope>>,
}

/// The kinds of scope, the greater first.
pub(crate) const KINDS: [PauseScope; 2] = [PauseScope::Workspace, PauseScope::Agent];

/// The agent or the whole workspace that a command is for. Nothing was commanded for a new workspace.
pub(crate) fn commanded_scope(
    state: Option<&Aggregate>,
    workspace: &Workspace,
    agent: Option<&AgentName>,
) -> Result<Aggregate, Undecided> {
    let Some(name) = agent else {
        let fresh = || Aggregate::Workspace(WorkspaceScope::fresh(workspace));
        return Ok(state.cloned().unwrap_or_else(fresh));
    };
    let known = state.and_then(Aggregate::try_as_agent_ref);
    match known.filter(|known| !known.is_deleted()) {
        Some(known) => Ok(Aggregate::Agent(known.clone())),
        None => Err(Refusal::AgentNotFound(name.clone()).into()),
    }
}

impl Scopes {
    pub(crate) fn needs(workspace: &Workspace, agent: &AgentName) -> [Need; 2] {
        [
            Need::State(Key::Agent(workspace.clone(), agent.clone())),
            Need::State(Key::Workspace(workspace.clone())),
        ]
    }

    pub(crate) fn look_up(
        workspace: &Workspace,
        agent: &AgentName,
        lookup: LookupFn<'_>,
    ) -> Result<Self, Undecided> {
        let mut scopes = Self::default();
        let mut unknown = Vec::new();
        for need in Self::needs(workspace, agent) {
            match lookup(&need) {
                Lookup::Found(Fact::Agent(agent)) => scopes.agent = Some(agent),
                Lookup::Found(Fact::Workspace(workspace)) => scopes.workspace = Some(workspace),
                Lookup::NotLoaded => unknown.push(need),
                Lookup::Missing | Lookup::Found(_) => {}
            }
        }
        if unknown.is_empty() {
            return Ok(scopes);
        }
        Err(Undecided::NeedsMore(unknown))
    }

    pub(crate) fn of(&self, kind: PauseScope) -> Option<&Scope> {
        match kind {
            PauseScope::Run | PauseScope::Parent => None,
            PauseScope::Agent => self.agent.as_ref().map(|agent| &agent.scope),
            PauseScope::Workspace => self.workspace.as_ref().map(|it| &it.scope),
        }
    }

    /// Whether any run in them may read differently from its row.
    #[must_use]
    pub fn are_followed(&self) -> bool {
        let mut scopes = KINDS.iter().filter_map(|kind| self.of(*kind));
        scopes.all(Scope::is_followed)
    }
}
