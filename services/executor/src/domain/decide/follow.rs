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
use crate::domain::effect::{Answer, Effect};
use crate::domain::need::{Aggregate, Fact, Found, Lookup, Need};
use crate::domain::plan::OnPause;
use crate::domain::refusal::Refusal;
use crate::domain::run::{Phase, Run, StepPhase};
use crate::domain::scope::{Change, Scope, ScopeChange, WorkspaceScope};
use chrono::{DateTime, Utc};

use super::turn::{Stop, Turn};
use super::{Decision, Verdict, advance, control, people, uncertain};

/// The scopes that a run stands in; none: nothing was ever commanded.
#[derive(Debug, Clone, Default)]
pub struct Scopes {
    /// Its agent, of whatever version.
    pub agent: Option<Arc<Agent>>,
    /// Its workspace.
    pub workspace: Option<Arc<WorkspaceScope>>,
}

/// The kinds of scope, the greater first.
const KINDS: [PauseScope; 2] = [PauseScope::Workspace, PauseScope::Agent];

/// A run on its way through the changes that it has not followed.
struct Caught {
    run: Run,
    effects: Vec<Effect>,
    facts: Vec<(Need, Fact)>,
}

/// Brings a run up to its scopes, and decides the input on what it is then. A refusal leaves the
/// catching up to the next input or to its page. What the input may lack in any case is asked for with the
/// scopes: both may have conditions to look at, and rounds are few.
pub(super) fn then(
    run: &Run,
    also: impl FnOnce() -> Vec<Need>,
    look: Lookup<'_>,
    now: DateTime<Utc>,
    decide: impl FnOnce(&Run, Lookup<'_>) -> Result<Verdict, Stop>,
) -> Result<Verdict, Stop> {
    if run.is_final() {
        return decide(run, look);
    }
    let scopes = match Scopes::look_up(&run.workspace, &run.agent, look) {
        Err(Stop::Need(mut needs)) => {
            needs.extend(of_questions(run, look));
            needs.extend(also());
            return Err(Stop::Need(needs));
        }
        other => other?,
    };
    let Some(mut caught) = follow(run, &scopes, Some(look))? else {
        return decide(run, look);
    };
    // A person who owns the run may have said something while it stood.
    if !caught.run.is_final() && caught.run.pauses.is_empty() {
        go_on(&mut caught, !run.pauses.is_empty(), look, now)?;
    }
    let see = caught.sees(look);
    Ok(match decide(&caught.run, &see)? {
        Verdict::Decided(decision) => {
            caught.effects.extend(decision.effects);
            caught.facts.extend(decision.facts);
            caught.decided(decision.state, decision.answer)
        }
        Verdict::Unchanged(answer) => {
            let state = Aggregate::Run(caught.run.clone());
            caught.decided(state, answer)
        }
        other @ (Verdict::Need(_) | Verdict::Refused(_)) => other,
    })
}

/// What the questions of a run lack to begin, freeze, thaw or end: asked for with its scopes, so that
/// it costs no round of its own.
fn of_questions(run: &Run, look: Lookup<'_>) -> Vec<Need> {
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
    needs.retain(|need| matches!(look(need), Found::Unknown));
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
pub(super) fn stand_in(run: &mut Run, scopes: &Scopes) -> Result<(), Stop> {
    for kind in KINDS {
        let Some(scope) = scopes.of(kind) else {
            continue;
        };
        if let Some(pause) = &scope.paused
            && pause.new == PauseNew::Refuse
        {
            let agent = (kind == PauseScope::Agent).then(|| run.agent.clone());
            return Err(Stop::Refused(Refusal::AgentPaused {
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
        look: Lookup<'_>,
    ) -> Result<Self, Stop> {
        let mut scopes = Self::default();
        let mut unknown = Vec::new();
        for need in Self::needs(workspace, agent) {
            match look(&need) {
                Found::Here(Fact::Agent(agent)) => scopes.agent = Some(agent),
                Found::Here(Fact::Workspace(workspace)) => scopes.workspace = Some(workspace),
                Found::Unknown => unknown.push(need),
                Found::Absent
                | Found::Here(
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
        Err(Stop::Need(unknown))
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

impl Caught {
    /// A look that finds what the catching up has come to before what is stored.
    fn sees<'l>(&self, look: Lookup<'l>) -> impl Fn(&Need) -> Found + use<'l> {
        let facts = self.facts.clone();
        move |need| {
            let fresh = facts.iter().find(|(known, _)| known == need);
            fresh.map_or_else(|| look(need), |(_, fact)| Found::Here(fact.clone()))
        }
    }

    /// Keeps what one turn came to.
    fn take(&mut self, turn: Turn<'_>) -> Result<(), Stop> {
        let run = turn.run.clone();
        match turn.decided(Answer::Nothing(())) {
            Verdict::Decided(decision) => {
                self.run = run;
                self.effects.extend(decision.effects);
                self.facts.extend(decision.facts);
            }
            Verdict::Unchanged(_) => self.run = run,
            Verdict::Need(needs) => return Err(Stop::Need(needs)),
            Verdict::Refused(refusal) => return Err(Stop::Refused(refusal)),
        }
        Ok(())
    }

    fn decided(self, state: Aggregate, answer: Answer) -> Verdict {
        Verdict::Decided(Box::new(Decision {
            state,
            effects: self.effects,
            facts: self.facts,
            answer,
        }))
    }
}

/// Takes the run through every change that it has not followed, each a turn at its own instant:
/// a wish of a later one has a higher number. None: it has followed them all. Without a look-up
/// only the state is wanted, and what follows from it is left to the page.
fn follow(run: &Run, scopes: &Scopes, look: Option<Lookup<'_>>) -> Result<Option<Caught>, Stop> {
    let later = pending(run, scopes);
    let is_passed_by =
        |kind: &PauseScope| scopes.of(*kind).is_some_and(|it| differs(run, *kind, it));
    // As nearly always: not even a copy of the run is made.
    if later.is_empty() && !KINDS.iter().any(is_passed_by) {
        return Ok(None);
    }
    let nothing = |_: &Need| Found::Unknown;
    let see: Lookup<'_> = look.unwrap_or(&nothing);
    let mut caught = Caught {
        run: run.clone(),
        effects: Vec::new(),
        facts: Vec::new(),
    };
    for (kind, change) in later {
        if caught.run.is_final() {
            break;
        }
        let before = caught.run.clone();
        let mut turn = Turn::new(&before, see, change.at);
        apply(&mut turn, kind, change);
        set_followed(&mut turn.run, kind, change.epoch);
        match look {
            Some(_) => caught.take(turn)?,
            None => caught.run = turn.run,
        }
    }
    for kind in KINDS {
        if let Some(scope) = scopes.of(kind).filter(|it| differs(&caught.run, kind, it)) {
            let at = scope.changed_at.unwrap_or(run.created_at);
            let before = caught.run.clone();
            let mut turn = Turn::new(&before, see, at);
            reconcile(&mut turn, kind, scope);
            set_followed(&mut turn.run, kind, scope.epoch);
            match look {
                Some(_) => caught.take(turn)?,
                None => caught.run = turn.run,
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

fn reconcile(turn: &mut Turn<'_>, kind: PauseScope, scope: &Scope) {
    if kind == PauseScope::Agent && turn.run.plan <= scope.dead_up_to {
        return delete(turn);
    }
    match &scope.paused {
        Some(pause) => {
            turn.now = pause.at;
            control::stand(turn, kind, &pause.by);
        }
        None => lift(
            turn,
            kind,
            &Actor("holdpoint".to_owned()),
            ResumeMode::Continue,
        ),
    }
}

fn apply(turn: &mut Turn<'_>, kind: PauseScope, change: &Change) {
    match &change.what {
        ScopeChange::Paused { waiting } => {
            let by_agent = kind == PauseScope::Agent && turn.run.on_pause == OnPause::Cancel;
            let cancels = *waiting == PauseWaiting::Cancel || by_agent;
            if cancels && waits(turn.run.status()) {
                cancel(turn, kind, &change.by);
            } else if !stands(&turn.run, kind) {
                control::stand(turn, kind, &change.by);
            }
        }
        ScopeChange::Resumed { mode } => {
            if stands(&turn.run, kind) {
                lift(turn, kind, &change.by, *mode);
            }
        }
        ScopeChange::Deleted { up_to } => {
            if turn.run.plan <= *up_to {
                turn.ended_by = Some(change.by.to_string());
                delete(turn);
            }
        }
    }
}

/// Takes one pause away; once none is left, the waits go on.
fn lift(turn: &mut Turn<'_>, kind: PauseScope, by: &Actor, mode: ResumeMode) {
    turn.run.pauses.retain(|pause| pause.scope != kind);
    if turn.run.pauses.is_empty() {
        control::thaw_holds(turn, by, mode);
        advance::complete_if_all_ended(turn);
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
pub(super) fn cancel(turn: &mut Turn<'_>, kind: PauseScope, by: &Actor) {
    let message = "Agent paused manually".to_owned();
    let failure = Failure {
        class: FailureClass::Cancelled,
        code: "agent_paused".to_owned(),
        message: message.clone(),
    };
    turn.ended_by = Some(by.to_string());
    turn.end(Phase::Cancelled {
        at: turn.now,
        failure,
    });
    let data = json!({ "by": by, "reason": message, "scope": kind });
    turn.event(EventType::RunCancelled, None, message, data);
}

/// S0-AC9: the words are fixed.
fn delete(turn: &mut Turn<'_>) {
    let message = if waits(turn.run.status()) {
        "Agent deleted during wait period"
    } else {
        "Agent deleted"
    };
    turn.fail(Failure {
        class: FailureClass::Policy,
        code: "agent_deleted".to_owned(),
        message: message.to_owned(),
    });
}

/// What a run that stands still no more begins, now.
fn go_on(
    caught: &mut Caught,
    stood: bool,
    look: Lookup<'_>,
    now: DateTime<Utc>,
) -> Result<(), Stop> {
    let see = caught.sees(look);
    let before = caught.run.clone();
    let mut turn = Turn::new(&before, &see, now);
    if stood {
        uncertain::prepare(&turn, &[])?;
        control::requeue(&mut turn);
        uncertain::apply_answers(&mut turn)?;
    }
    advance::advance(&mut turn)?;
    caught.take(turn)
}
