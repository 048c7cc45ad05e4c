//! `executor.pause_scope`, `resume_scope`, `delete_agent`: an operator stops, resumes or deletes all runs of
//! an agent or a workspace. The sweep reports how many of them have applied it.

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::ChangedScope;
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::run::PauseScope;
use holdpoint_ids::{AgentName, Workspace};

use crate::domain::decision::{Decision, Outcome, decided};
use crate::domain::effect::{Effect, Reply};
use crate::domain::input::ScopeInput;
use crate::domain::model::agent::Agent;
use crate::domain::model::scope::{CHANGES_MAX, Change, Scope, ScopeChange, ScopePause};
use crate::domain::need::Aggregate;
use crate::domain::refusal::Refusal;
use crate::domain::rules::scopes::commanded_scope;

impl Scope {
    /// The scope after an input; none where that changes nothing. `newest` is the agent's version.
    fn after(&self, input: &ScopeInput, newest: u32, now: DateTime<Utc>) -> Option<Self> {
        let at = self.changed_at.map_or(now, |before| before.max(now));
        match input {
            ScopeInput::Pause { by, waiting, new } => {
                let pause = ScopePause {
                    by: by.clone(),
                    at,
                    new: *new,
                };
                let what = ScopeChange::Paused { waiting: *waiting };
                self.paused.is_none().then(|| Self {
                    paused: Some(pause),
                    ..self.with(what, by, at)
                })
            }
            ScopeInput::Resume { by, mode } => self.paused.is_some().then(|| Self {
                paused: None,
                ..self.with(ScopeChange::Resumed { mode: *mode }, by, at)
            }),
            // A new agent of that name begins without the pause.
            ScopeInput::Delete { by } => (newest > self.dead_up_to).then(|| Self {
                paused: None,
                dead_up_to: newest,
                ..self.with(ScopeChange::Deleted { up_to: newest }, by, at)
            }),
            ScopeInput::Paged { epoch, .. } if *epoch != self.epoch || self.is_followed() => None,
            ScopeInput::Paged { upto: None, .. } => Some(Self {
                changes: Vec::new(),
                cursor: None,
                ..self.clone()
            }),
            ScopeInput::Paged { upto, .. } => (*upto > self.cursor).then(|| Self {
                cursor: upto.clone(),
                ..self.clone()
            }),
        }
    }

    /// One change more; the pages begin again.
    fn with(&self, what: ScopeChange, by: &Actor, at: DateTime<Utc>) -> Self {
        let mut next = self.clone();
        next.epoch += 1;
        next.changed_at = Some(at);
        next.cursor = None;
        next.changes.push(Change {
            epoch: next.epoch,
            at,
            by: by.clone(),
            what,
        });
        next
    }
}

pub(crate) fn change_scope(
    state: Option<&Aggregate>,
    workspace: &Workspace,
    agent: Option<&AgentName>,
    input: &ScopeInput,
    now: DateTime<Utc>,
) -> Decision {
    let is_page = matches!(input, ScopeInput::Paged { .. });
    let mut next = match state {
        // A deleted agent still has runs that follow its deletion.
        Some(known) if is_page => known.clone(),
        Some(_) | None => commanded_scope(state, workspace, agent)?,
    };
    // A workspace has no version of an agent, so it cannot be deleted this way.
    let newest = next.try_as_agent_ref().map_or(0, |agent| agent.newest);
    let mut changed = false;
    if let Some((version, scope, _)) = next.scope_mut()
        && let Some(after) = scope.after(input, newest, now)
    {
        if after.changes.len() > CHANGES_MAX {
            return Err(Refusal::ScopeBusy.into());
        }
        (*version, *scope, changed) = (*version + 1, after, true);
    }
    let reply = if is_page {
        Reply::Nothing(())
    } else {
        Reply::Scope(Box::new(view(&next, changed)))
    };
    if changed {
        decided(next, vec![Effect::ScopeSyncPending], reply)
    } else {
        Ok(Outcome::Unchanged(reply))
    }
}

fn view(next: &Aggregate, changed: bool) -> ChangedScope {
    let agent = next.try_as_agent_ref();
    let paused_by = match (agent, next.try_as_workspace_ref()) {
        (Some(agent), _) => agent.scope.paused_by(PauseScope::Agent),
        (None, all) => all.and_then(|all| all.scope.paused_by(PauseScope::Workspace)),
    };
    let of_all = paused_by.as_ref().map_or("active", |_| "paused");
    ChangedScope {
        agent: agent.map(|agent| agent.name.clone()),
        status: agent.map_or(of_all, Agent::status).to_owned(),
        paused_by,
        changed,
    }
}
