//! A run follows what was commanded for its agent or its workspace, before anything else happens
//! to it: whether its page has come makes no difference to anybody.

use std::sync::Arc;

use holdpoint_contracts::executor::{PauseNew, PauseWaiting};
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::run::{Failure, FailureClass, PauseScope, ResumeMode, RunStatus};
use holdpoint_ids::{AgentName, Workspace};
use serde_json::json;

use crate::domain::agent::Agent;
use crate::domain::effect::{Effect, Reply};
use crate::domain::need::{Aggregate, Fact, Need};
use crate::domain::plan::OnPause;
use crate::domain::refusal::Refusal;
use crate::domain::run::{Phase, Run, StepPhase};
use crate::domain::scope::{Change, Scope, ScopeChange, WorkspaceScope};
use chrono::{DateTime, Utc};

use super::transition::RunTransition;
use super::{advance, control, people, uncertain};
use crate::domain::decision::{Decided, Decision, Lookup, LookupFn, Outcome, Undecided};

/// The scopes that a run stands in; none: nothing was ever commanded.
#[derive(Debug, Clone, Default)]
pub struct Scopes {
    /// Its agent, of whatever version.
    pub agent: Option<Arc<Agent>>,
    pub workspace: Option<Arc<WorkspaceScope>>,
}

/// The kinds of scope, the greater first.
const KINDS: [PauseScope; 2] = [PauseScope::Workspace, PauseScope::Agent];

/// A run on its way through the changes that it has not followed.
struct SyncedRun {
    run: Run,
    effects: Vec<Effect>,
    facts: Vec<(Need, Fact)>,
    /// How the last change that resumed it lets its waits go on.
    resume_mode: ResumeMode,
}

/// Brings a run up to its scopes, and decides the input on what it is then. A refusal leaves the
/// catching up to the next input or to its page. What the input may lack in any case is asked for with the
/// scopes: both may have conditions to look at, and rounds are few.
pub(super) fn then(
    run: &Run,
    also: impl FnOnce() -> Vec<Need>,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
    decide: impl FnOnce(&Run, LookupFn<'_>) -> Decision,
) -> Decision {
    if run.is_final() {
        return decide(run, lookup);
    }
    let scopes = match Scopes::look_up(&run.workspace, &run.agent, lookup) {
        Err(Undecided::NeedsMore(mut needs)) => {
            needs.extend(of_questions(run, lookup));
            needs.extend(also());
            return Err(Undecided::NeedsMore(needs));
        }
        other => other?,
    };
    let Some(mut caught) = follow(run, &scopes, Some(lookup))? else {
        return decide(run, lookup);
    };
    // A person who owns the run may have said something while it stood.
    if !caught.run.is_final() && caught.run.pauses.is_empty() {
        go_on(&mut caught, !run.pauses.is_empty(), lookup, now)?;
    }
    let see = caught.sees(lookup);
    Ok(match decide(&caught.run, &see)? {
        Outcome::Decided(decision) => {
            caught.effects.extend(decision.effects);
            caught.facts.extend(decision.facts);
            caught.decided(decision.state, decision.reply)
        }
        Outcome::Unchanged(answer) => {
            let state = Aggregate::Run(caught.run.clone());
            caught.decided(state, answer)
        }
    })
}

/// What the questions of a run lack to begin, freeze, thaw or end: asked for with its scopes, so that
/// it costs no round of its own.
fn of_questions(run: &Run, lookup: LookupFn<'_>) -> Vec<Need> {
    let mut needs: Vec<_> = run
        .questions()
        .map(|(step, _)| Need::Request(run.id, step.id.clone()))
        .collect();
    for step in &run.steps {
        if matches!(step.phase, StepPhase::Parked(_)) {
            needs.push(Need::Request(run.id, step.id.clone()));
            needs.extend(people::asking::needs(run.id, step));
        }
    }
    needs.extend(people::needs(run));
    if !needs.is_empty() {
        needs.push(Need::Plan(
            run.workspace.clone(),
            run.agent.clone(),
            run.plan,
        ));
    }
    needs.retain(|need| matches!(lookup(need), Lookup::NotLoaded));
    needs
}

/// The run as it is to be read: as if its page had come. What follows from a resume beyond its
/// holds (the next step) is left to the page.
#[must_use]
pub fn overlay(run: Run, scopes: &Scopes) -> Run {
    if run.is_final() {
        return run;
    }
    match follow(&run, scopes, None) {
        Ok(Some(caught)) => caught.run,
        Ok(None) | Err(_) => run,
    }
}

/// What a new run begins under: refuses where its agent or workspace takes none.
pub(super) fn inherit_pauses(run: &mut Run, scopes: &Scopes) -> Result<(), Undecided> {
    for kind in KINDS {
        let Some(scope) = scopes.of(kind) else {
            continue;
        };
        if let Some(pause) = &scope.paused
            && pause.new == PauseNew::Refuse
        {
            let agent = (kind == PauseScope::Agent).then(|| run.agent.clone());
            return Err(Undecided::Refused(Refusal::AgentPaused {
                agent,
                by: pause.by.clone(),
            }));
        }
        run.pauses.extend(scope.paused_by(kind));
        set_followed(run, kind, scope.epoch);
    }
    Ok(())
}

impl Scopes {
    /// What must be looked up.
    pub(super) fn needs(workspace: &Workspace, agent: &AgentName) -> [Need; 2] {
        [
            Need::Agent(workspace.clone(), agent.clone()),
            Need::Workspace(workspace.clone()),
        ]
    }

    /// Looks them up.
    pub(super) fn look_up(
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
                Lookup::Missing
                | Lookup::Found(
                    Fact::Contact(_)
                    | Fact::Plan(_)
                    | Fact::Value(_)
                    | Fact::Run(_)
                    | Fact::Tool(_)
                    | Fact::User(_)
                    | Fact::Nothing,
                ) => {}
            }
        }
        if unknown.is_empty() {
            return Ok(scopes);
        }
        Err(Undecided::NeedsMore(unknown))
    }

    fn of(&self, kind: PauseScope) -> Option<&Scope> {
        match kind {
            PauseScope::Run => None,
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

impl SyncedRun {
    /// A look that finds what the catching up has come to before what is stored.
    fn sees<'l>(&self, lookup: LookupFn<'l>) -> impl Fn(&Need) -> Lookup + use<'l> {
        let facts = self.facts.clone();
        move |need| {
            let fresh = facts.iter().find(|(known, _)| known == need);
            fresh.map_or_else(|| lookup(need), |(_, fact)| Lookup::Found(fact.clone()))
        }
    }

    /// Keeps what one turn came to.
    fn take(&mut self, transition: RunTransition<'_>) -> Result<(), Undecided> {
        let run = transition.run.clone();
        if let Outcome::Decided(decided) = transition.decided(Reply::Nothing(()))? {
            self.effects.extend(decided.effects);
            self.facts.extend(decided.facts);
        }
        self.run = run;
        Ok(())
    }

    fn decided(self, state: Aggregate, answer: Reply) -> Outcome {
        Outcome::Decided(Box::new(Decided {
            state,
            effects: self.effects,
            facts: self.facts,
            reply: answer,
        }))
    }
}

/// Takes the run through every change that it has not followed, each a turn at its own instant:
/// a desired state of a later one has a higher number. None: it has followed them all. Without a look-up
/// only the state is wanted, and what follows from it is left to the page.
fn follow(
    run: &Run,
    scopes: &Scopes,
    lookup: Option<LookupFn<'_>>,
) -> Result<Option<SyncedRun>, Undecided> {
    let later = pending(run, scopes);
    let is_passed_by =
        |kind: &PauseScope| scopes.of(*kind).is_some_and(|it| differs(run, *kind, it));
    // As nearly always: not even a copy of the run is made.
    if later.is_empty() && !KINDS.iter().any(is_passed_by) {
        return Ok(None);
    }
    let nothing = |_: &Need| Lookup::NotLoaded;
    let see: LookupFn<'_> = lookup.unwrap_or(&nothing);
    let mut caught = SyncedRun {
        run: run.clone(),
        effects: Vec::new(),
        facts: Vec::new(),
        resume_mode: ResumeMode::Continue,
    };
    for (kind, change) in later {
        if caught.run.is_final() {
            break;
        }
        let before = caught.run.clone();
        let mut transition = RunTransition::new(&before, see, change.at);
        apply(&mut transition, kind, change);
        set_followed(&mut transition.run, kind, change.epoch);
        caught.resume_mode = transition.resume_mode;
        match lookup {
            Some(_) => caught.take(transition)?,
            None => caught.run = transition.run,
        }
    }
    for kind in KINDS {
        if let Some(scope) = scopes.of(kind).filter(|it| differs(&caught.run, kind, it)) {
            let at = scope.changed_at.unwrap_or(run.created_at);
            let before = caught.run.clone();
            let mut transition = RunTransition::new(&before, see, at);
            reconcile(&mut transition, kind, scope);
            set_followed(&mut transition.run, kind, scope.epoch);
            match lookup {
                Some(_) => caught.take(transition)?,
                None => caught.run = transition.run,
            }
        }
    }
    Ok((caught.run.version > run.version).then_some(caught))
}

/// Later changes of both scopes, in the order in which they happened.
fn pending<'s>(run: &Run, scopes: &'s Scopes) -> Vec<(PauseScope, &'s Change)> {
    let mut pending = Vec::new();
    for kind in KINDS {
        let changes = scopes.of(kind).into_iter().flat_map(|it| &it.changes);
        let later = changes.filter(|change| change.epoch > followed(run, kind));
        pending.extend(later.map(|change| (kind, change)));
    }
    pending.sort_by_key(|(_, change)| change.at);
    pending
}

const fn followed(run: &Run, kind: PauseScope) -> u64 {
    match kind {
        PauseScope::Run => 0,
        PauseScope::Agent => run.followed.agent,
        PauseScope::Workspace => run.followed.workspace,
    }
}

const fn set_followed(run: &mut Run, kind: PauseScope, epoch: u64) {
    match kind {
        PauseScope::Run => {}
        PauseScope::Agent => run.followed.agent = epoch,
        PauseScope::Workspace => run.followed.workspace = epoch,
    }
}

fn stands(run: &Run, kind: PauseScope) -> bool {
    run.pauses.iter().any(|pause| pause.scope == kind)
}

/// Whether a live run is not what its scope wants although it has followed all changes: it was
/// passed by (its page could not be decided), and the scope has forgotten them since.
fn differs(run: &Run, kind: PauseScope, scope: &Scope) -> bool {
    let is_dead = kind == PauseScope::Agent && run.plan <= scope.dead_up_to;
    !run.is_final() && (is_dead || stands(run, kind) != scope.paused.is_some())
}

fn reconcile(transition: &mut RunTransition<'_>, kind: PauseScope, scope: &Scope) {
    if kind == PauseScope::Agent && transition.run.plan <= scope.dead_up_to {
        return delete(transition);
    }
    match &scope.paused {
        Some(pause) => {
            transition.now = pause.at;
            control::stand(transition, kind, &pause.by);
        }
        None => lift(
            transition,
            kind,
            &Actor("holdpoint".to_owned()),
            ResumeMode::Continue,
        ),
    }
}

fn apply(transition: &mut RunTransition<'_>, kind: PauseScope, change: &Change) {
    match &change.what {
        ScopeChange::Paused { waiting } => {
            let by_agent = kind == PauseScope::Agent && transition.run.on_pause == OnPause::Cancel;
            let cancels = *waiting == PauseWaiting::Cancel || by_agent;
            if cancels && waits(transition.run.status()) {
                cancel(transition, kind, &change.by);
            } else if !stands(&transition.run, kind) {
                control::stand(transition, kind, &change.by);
            }
        }
        ScopeChange::Resumed { mode } => {
            if stands(&transition.run, kind) {
                lift(transition, kind, &change.by, *mode);
            }
        }
        ScopeChange::Deleted { up_to } => {
            if transition.run.plan <= *up_to {
                transition.ended_by = Some(change.by.to_string());
                delete(transition);
            }
        }
    }
}

/// Takes one pause away; once none is left, the waits go on.
fn lift(transition: &mut RunTransition<'_>, kind: PauseScope, by: &Actor, mode: ResumeMode) {
    transition.run.pauses.retain(|pause| pause.scope != kind);
    if transition.run.pauses.is_empty() {
        control::thaw_holds(transition, by, mode);
        advance::complete_if_all_ended(transition);
    }
}

/// Whether a run of that status stands because of a hold or a person.
pub(super) const fn waits(status: RunStatus) -> bool {
    match status {
        RunStatus::Waiting
        | RunStatus::AwaitingApproval
        | RunStatus::AwaitingInput
        | RunStatus::PausedForIntervention => true,
        RunStatus::Queued
        | RunStatus::Running
        | RunStatus::Completed
        | RunStatus::Failed
        | RunStatus::Cancelled => false,
    }
}

/// S0-T6.3: the words are fixed.
pub(super) fn cancel(transition: &mut RunTransition<'_>, kind: PauseScope, by: &Actor) {
    let message = "Agent paused manually".to_owned();
    let failure = Failure {
        class: FailureClass::Cancelled,
        code: "agent_paused".to_owned(),
        message: message.clone(),
    };
    transition.ended_by = Some(by.to_string());
    transition.end(Phase::Cancelled {
        at: transition.now,
        failure,
    });
    let data = json!({ "by": by, "reason": message, "scope": kind });
    transition.event(EventType::RunCancelled, None, message, data);
}

/// S0-AC9: the words are fixed.
fn delete(transition: &mut RunTransition<'_>) {
    let message = if waits(transition.run.status()) {
        "Agent deleted during wait period"
    } else {
        "Agent deleted"
    };
    transition.fail(Failure {
        class: FailureClass::Policy,
        code: "agent_deleted".to_owned(),
        message: message.to_owned(),
    });
}

/// What a run that stands still no more begins, now.
fn go_on(
    caught: &mut SyncedRun,
    stood: bool,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Result<(), Undecided> {
    let see = caught.sees(lookup);
    let before = caught.run.clone();
    let mut transition = RunTransition::new(&before, &see, now);
    transition.resume_mode = caught.resume_mode;
    if stood {
        uncertain::prepare(&transition, &[])?;
        control::requeue(&mut transition);
        uncertain::apply_answers(&mut transition)?;
    }
    advance::advance(&mut transition)?;
    caught.take(transition)
}
