//! A scope: an agent or a whole workspace, with what was commanded for all runs in it.
//!
//! A command for many is one row, which every decision and every read of a run consults from that
//! commit on. The row numbers its changes; a run remembers which number of each scope it has
//! followed, and follows the later ones, each from its own instant, before anything else happens
//! to it. The pages only bring that to runs to which nothing else happens.

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::{ChangedScope, PauseNew, PauseWaiting, RunEndWatched};
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::run::{PauseScope, PausedBy, ResumeMode};
use holdpoint_ids::{AgentName, RunId, Workspace};
use serde::{Deserialize, Serialize};

use super::agent::Agent;
use super::effect::{Effect, Reply};
use super::need::Aggregate;
use super::refusal::Refusal;
use crate::domain::decision::{Decided, Decision, Outcome, Undecided};

/// Most changes of one scope that not all runs have followed yet; more are refused until the
/// pages have caught up.
pub const CHANGES_MAX: usize = 100;

/// What was commanded for all runs of an agent or a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// Number of the newest change; only ever rises.
    pub epoch: u64,
    pub changed_at: Option<DateTime<Utc>>,
    /// The pause that stands.
    pub paused: Option<ScopePause>,
    /// Versions of the agent up to this one are deleted; always 0 for a workspace.
    pub dead_up_to: u32,
    /// What not every run has followed yet, oldest first.
    pub changes: Vec<Change>,
    /// How far the pages for the newest change have come; none: nowhere yet.
    pub cursor: Option<Cursor>,
}

/// A pause that stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScopePause {
    pub by: Actor,
    /// When; all clocks stand since then.
    pub at: DateTime<Utc>,
    /// What becomes of runs that are started meanwhile.
    pub new: PauseNew,
}

/// One change of a scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub epoch: u64,
    /// When; never earlier than the change before.
    pub at: DateTime<Utc>,
    pub by: Actor,
    pub what: ScopeChange,
}

/// What a change of a scope does to each of its runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum ScopeChange {
    /// It stands still.
    Paused {
        /// What becomes of it if it waits.
        waiting: PauseWaiting,
    },
    /// It goes on, if nothing else stops it.
    Resumed {
        /// How its waits go on.
        mode: ResumeMode,
    },
    /// It fails.
    Deleted {
        /// If it is of a version up to this one.
        up_to: u32,
    },
}

/// The last run of a page; pages go by agent, then by id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cursor {
    pub agent: AgentName,
    pub run: RunId,
}

/// The newest changes that a run has followed; each kind of scope counts for itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedScopes {
    pub agent: u64,
    pub workspace: u64,
}

/// The scope of everything in a workspace. There is none before the first command for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceScope {
    pub workspace: Workspace,
    /// Rises with every decision.
    pub version: u64,
    pub scope: Scope,
    /// Whether the ends of all its runs are told (Mend C-10).
    #[serde(default, skip_serializing_if = "EndsWatch::is_none")]
    pub watch: EndsWatch,
}

/// Whether the notification service is told the ends of all runs of an agent or workspace. It is, until it
/// answers that no person and no webhook needs them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndsWatch {
    /// How often somebody has asked for them. Only ever rises: what was known before the last time is void.
    pub begun: u64,
    /// False: nobody wants them any more.
    pub stands: bool,
}

impl EndsWatch {
    /// Whether nobody ever wanted them.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.begun == 0
    }

    /// The number of the last time; 0: nobody wants them.
    #[must_use]
    pub const fn number(self) -> u64 {
        match self.stands {
            true => self.begun,
            false => 0,
        }
    }

    /// Somebody wants them from now on.
    #[must_use]
    pub const fn begin(self) -> Self {
        Self {
            begun: self.begun + 1,
            stands: true,
        }
    }

    /// Nobody wanted them any more when an end was told. Counts only if nobody has asked since.
    #[must_use]
    pub const fn over(self, watch: u64) -> Option<Self> {
        if watch == 0 || self.number() != watch {
            return None;
        }
        Some(Self {
            stands: false,
            ..self
        })
    }
}

impl WorkspaceScope {
    /// Of a workspace that nothing was commanded for.
    #[must_use]
    pub fn fresh(workspace: &Workspace) -> Self {
        Self {
            workspace: workspace.clone(),
            version: 0,
            scope: Scope::default(),
            watch: EndsWatch::default(),
        }
    }
}

/// What can happen to a scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScopeInput {
    /// A person stops everything in it (S0-AC4, S0-T6).
    Pause {
        by: Actor,
        /// What becomes of runs that wait.
        waiting: PauseWaiting,
        /// What becomes of runs that are started meanwhile.
        new: PauseNew,
    },
    /// A person lets everything in it go on.
    Resume {
        by: Actor,
        /// How waits go on.
        mode: ResumeMode,
    },
    /// A person deletes the agent (S0-AC9); a workspace is left as it is.
    Delete { by: Actor },
    /// The sweep has brought one page of runs up to a change; in the same batch as that page.
    Paged {
        /// The newest change when the page was read: a newer one begins again.
        epoch: u64,
        /// The last run of the page; none: there was no run after the one before.
        upto: Option<Cursor>,
    },
}

impl Scope {
    /// Whether pages are still to come.
    #[must_use]
    pub const fn is_followed(&self) -> bool {
        self.changes.is_empty()
    }

    /// The pause as runs and callers are shown it.
    #[must_use]
    pub fn paused_by(&self, scope: PauseScope) -> Option<PausedBy> {
        self.paused.as_ref().map(|pause| PausedBy {
            scope,
            by: pause.by.0.clone(),
            at: pause.at,
            in_flight: Vec::new(),
        })
    }
}

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
            // Whoever takes the name next begins without the pause.
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
pub(crate) fn decide(
    state: Option<&Aggregate>,
    workspace: &Workspace,
    agent: Option<&AgentName>,
    input: &ScopeInput,
    now: DateTime<Utc>,
) -> Decision {
    match agent {
        None => decide_workspace(
            state.and_then(Aggregate::as_workspace),
            workspace,
            input,
            now,
        ),
        Some(name) => match state.and_then(Aggregate::as_agent) {
            Some(known) if !known.is_deleted() || is_page(input) => decide_agent(known, input, now),
            Some(_) | None => Err(Undecided::Refused(Refusal::AgentNotFound(name.clone()))),
        },
    }
}

const fn is_page(input: &ScopeInput) -> bool {
    match input {
        ScopeInput::Paged { .. } => true,
        ScopeInput::Pause { .. } | ScopeInput::Resume { .. } | ScopeInput::Delete { .. } => false,
    }
}

fn decide_agent(known: &Agent, input: &ScopeInput, now: DateTime<Utc>) -> Decision {
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
    if scope.changes.len() > CHANGES_MAX {
        return Err(Undecided::Refused(Refusal::ScopeBusy));
    }
    let next = Agent {
        version: known.version + 1,
        scope,
        ..known.clone()
    };
    let answer = answer(&next, true);
    decided(Aggregate::Agent(next), answer)
}

fn decide_workspace(
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
    if scope.changes.len() > CHANGES_MAX {
        return Err(Undecided::Refused(Refusal::ScopeBusy));
    }
    let answer = answer(&scope, true);
    decided(
        Aggregate::Workspace(WorkspaceScope {
            version: known.version + 1,
            scope,
            ..known
        }),
        answer,
    )
}

/// A webhook wants the ends of all runs: from this commit on they are told.
pub(crate) fn watch(known: Option<&WorkspaceScope>, workspace: &Workspace) -> Decision {
    let fresh = || WorkspaceScope::fresh(workspace);
    let known = known.cloned().unwrap_or_else(fresh);
    let watch = known.watch.begin();
    watched(known, watch, Reply::Watched(RunEndWatched::default()))
}

/// An end was told, and no webhook wanted any.
pub(crate) fn unwatched(known: Option<&WorkspaceScope>, watch: u64) -> Decision {
    let over = known.and_then(|known| Some((known.clone(), known.watch.over(watch)?)));
    match over {
        Some((known, over)) => watched(known, over, Reply::Nothing(())),
        None => Ok(Outcome::Unchanged(Reply::Nothing(()))),
    }
}

fn watched(known: WorkspaceScope, watch: EndsWatch, answer: Reply) -> Decision {
    let next = WorkspaceScope {
        version: known.version + 1,
        watch,
        ..known
    };
    Ok(Outcome::Decided(Box::new(Decided {
        state: Aggregate::Workspace(next),
        effects: Vec::new(),
        facts: Vec::new(),
        reply: answer,
    })))
}

fn decided(state: Aggregate, answer: Reply) -> Decision {
    Ok(Outcome::Decided(Box::new(Decided {
        state,
        effects: vec![Effect::ScopeSyncPending],
        facts: Vec::new(),
        reply: answer,
    })))
}
