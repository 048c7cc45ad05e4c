//! `executor.pause_scope`, `resume_scope`, `delete_agent`: an operator stops, resumes or deletes all runs of
//! an agent or a workspace. The sweep reports how many of them have applied it.

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::ChangedScope;
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::run::PauseScope;
use holdpoint_ids::{AgentName, Workspace};

use crate::domain::decision::{Decision, Outcome, Undecided, decided};
use crate::domain::effect::{Effect, Reply};
use crate::domain::input::ScopeInput;
use crate::domain::model::agent::Agent;
use crate::domain::model::scope::{
    CHANGES_MAX, Change, Scope, ScopeChange, ScopePause, WorkspaceScope,
};
use crate::domain::need::Aggregate;
use crate::domain::refusal::Refusal;

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

/// Decides what an input does to an agent's scope, or to that of the whole workspace.
pub(crate) fn change_scope(
    state: Option<&Aggregate>,
    workspace: &Workspace,
    agent: Option<&AgentName>,
    input: &ScopeInput,
    now: DateTime<Utc>,
) -> Decision {
    match agent {
        None => change_workspace_scope(
            state.and_then(Aggregate::try_as_workspace_ref),
            workspace,
            input,
            now,
        ),
        Some(name) => match state.and_then(Aggregate::try_as_agent_ref) {
            Some(known) if !known.is_deleted() || is_page(input) => {
                change_agent_scope(known, input, now)
            }
            Some(_) | None => Err(Refusal::AgentNotFound(name.clone()).into()),
        },
    }
}

fn check_changes(scope: &Scope) -> Result<(), Undecided> {
    if scope.changes.len() > CHANGES_MAX {
        return Err(Refusal::ScopeBusy.into());
    }
    Ok(())
}

const fn is_page(input: &ScopeInput) -> bool {
    match input {
        ScopeInput::Paged { .. } => true,
        ScopeInput::Pause { .. } | ScopeInput::Resume { .. } | ScopeInput::Delete { .. } => false,
    }
}

fn change_agent_scope(known: &Agent, input: &ScopeInput, now: DateTime<Utc>) -> Decision {
    let answer = |agent: &Agent, changed| {
        if is_page(input) {
            return Reply::Nothing(());
        }
        Reply::Scope(Box::new(ChangedScope {
            agent: Some(agent.name.clone()),
            status: agent.status().to_owned(),
            paused_by: agent.scope.paused_by(PauseScope::Agent),
            changed,
        }))
    };
    let Some(scope) = known.scope.after(input, known.newest, now) else {
        return Ok(Outcome::Unchanged(answer(known, false)));
    };
    check_changes(&scope)?;
    let next = Agent {
        version: known.version + 1,
        scope,
        ..known.clone()
    };
    let answer = answer(&next, true);
    decided(
        Aggregate::Agent(next),
        vec![Effect::ScopeSyncPending],
        answer,
    )
}

fn change_workspace_scope(
    known: Option<&WorkspaceScope>,
    workspace: &Workspace,
    input: &ScopeInput,
    now: DateTime<Utc>,
) -> Decision {
    let fresh = || WorkspaceScope::fresh(workspace);
    let known = known.cloned().unwrap_or_else(fresh);
    let answer = |scope: &Scope, changed| {
        if is_page(input) {
            return Reply::Nothing(());
        }
        let paused_by = scope.paused_by(PauseScope::Workspace);
        let status = paused_by.as_ref().map_or("active", |_| "paused");
        Reply::Scope(Box::new(ChangedScope {
            agent: None,
            status: status.to_owned(),
            paused_by,
            changed,
        }))
    };
    // No version of an agent: a workspace cannot be deleted this way.
    let Some(scope) = known.scope.after(input, 0, now) else {
        return Ok(Outcome::Unchanged(answer(&known.scope, false)));
    };
    check_changes(&scope)?;
    let answer = answer(&scope, true);
    decided(
        Aggregate::Workspace(WorkspaceScope {
            version: known.version + 1,
            scope,
            ..known
        }),
        vec![Effect::ScopeSyncPending],
        answer,
    )
}
