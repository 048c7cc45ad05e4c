//! A run applies what was commanded for its agent or workspace before it handles any other input. So it
//! makes no difference whether the sweep has reached the run yet.

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::{PauseNew, PauseWaiting};
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::run::{FailureClass, PauseScope, ResumeMode};

use crate::domain::decision::{Decided, Decision, Lookup, LookupFn, Outcome, Undecided};
use crate::domain::effect::{Effect, Reply};
use crate::domain::model::plan::OnPause;
use crate::domain::model::run::{Run, StepPhase};
use crate::domain::model::scope::{Change, Scope, ScopeChange};
use crate::domain::need::{Aggregate, Fact, Need};
use crate::domain::refusal::Refusal;
use crate::domain::rules::derived_effects::with_derived_effects;
use crate::domain::rules::dispatch_step::dispatch_needs;
use crate::domain::rules::failed_steps::brief_handoffs;
use crate::domain::rules::kept_answers::apply_kept_answers;
use crate::domain::rules::next_steps::start_next_steps;
use crate::domain::rules::open_hold_needs::{load_open_hold_needs, person_hold_needs};
use crate::domain::rules::pauses::{
    add_pause, cancel_by_pause, is_waiting, remove_pause, requeue_steps,
};
use crate::domain::rules::scopes::{KINDS, Scopes};
use crate::domain::transition::RunTransition;

/// A run that applies changes of its scopes.
struct SyncedRun {
    run: Run,
    effects: Vec<Effect>,
    facts: Vec<(Need, Fact)>,
}

/// Applies the scopes of a run, and decides the input on the result. A refusal leaves the changes to the next
/// input or to the sweep. The needs of the input are loaded together with the scopes, because the kernel
/// loads needs at most four times.
pub(crate) fn with_scopes_applied(
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
            needs.extend(open_question_needs(run, lookup));
            needs.extend(also());
            return Err(Undecided::NeedsMore(needs));
        }
        other => other?,
    };
    let Some(mut synced) = apply_scopes(run, &scopes, Some(lookup))? else {
        return decide(run, lookup);
    };
    // A person who owns the run may have answered while it was paused.
    if !synced.run.is_final() && synced.run.pauses.is_empty() {
        continue_run(&mut synced, !run.pauses.is_empty(), lookup, now)?;
    }
    let lookup_synced = synced.lookup(lookup);
    Ok(match decide(&synced.run, &lookup_synced)? {
        Outcome::Decided(decision) => {
            synced.effects.extend(decision.effects);
            synced.facts.extend(decision.facts);
            synced.decided(decision.state, decision.reply)
        }
        Outcome::Unchanged(answer) => {
            let state = Aggregate::Run(synced.run.clone());
            synced.decided(state, answer)
        }
    })
}

/// What the holds of a run need to be opened, frozen or closed. It is loaded with the scopes, so that it
/// costs no round.
fn open_question_needs(run: &Run, lookup: LookupFn<'_>) -> Vec<Need> {
    let mut needs: Vec<_> = run
        .questions()
        .map(|(step, _)| Need::Request(run.id, step.id.clone()))
        .collect();
    for step in &run.steps {
        if matches!(step.phase, StepPhase::Parked(_)) {
            needs.push(Need::Request(run.id, step.id.clone()));
            needs.extend(dispatch_needs(run, step));
        }
    }
    needs.extend(person_hold_needs(run));
    if !needs.is_empty() {
        needs.push(run.plan_need());
    }
    needs.retain(|need| matches!(lookup(need), Lookup::NotLoaded));
    needs
}

/// The run as callers read it, with its scopes applied. Steps that a resume starts are left to the sweep.
#[must_use]
pub fn overlay(run: Run, scopes: &Scopes) -> Run {
    if run.is_final() {
        return run;
    }
    match apply_scopes(&run, scopes, None) {
        Ok(Some(synced)) => synced.run,
        Ok(None) | Err(_) => run,
    }
}

/// Adds the pauses of its scopes to a new run. Refuses the run if a paused scope accepts none. A paused workspace
/// accepts a child run, because it has accepted the parent.
pub(crate) fn inherit_pauses(run: &mut Run, scopes: &Scopes) -> Result<(), Undecided> {
    for kind in KINDS {
        let Some(scope) = scopes.of(kind) else {
            continue;
        };
        if let Some(pause) = &scope.paused
            && pause.new == PauseNew::Refuse
            && (kind != PauseScope::Workspace || run.parent.is_none())
        {
            let agent = (kind == PauseScope::Agent).then(|| run.agent.clone());
            return Err(Refusal::AgentPaused {
                agent,
                by: pause.by.clone(),
            }
            .into());
        }
        run.pauses.extend(scope.paused_by(kind));
        set_applied_epoch(run, kind, scope.epoch);
    }
    Ok(())
}

impl SyncedRun {
    /// Looks up facts of the applied changes, the newest first, before stored ones.
    fn lookup<'l>(&self, lookup: LookupFn<'l>) -> impl Fn(&Need) -> Lookup + use<'l> {
        let facts = self.facts.clone();
        move |need| {
            let fresh = facts.iter().rev().find(|(known, _)| known == need);
            fresh.map_or_else(|| lookup(need), |(_, fact)| Lookup::Found(fact.clone()))
        }
    }

    /// Applies one change of a scope, as of its instant.
    fn apply(
        &mut self,
        lookup: Option<LookupFn<'_>>,
        at: DateTime<Utc>,
        change: impl FnOnce(&mut RunTransition<'_>),
    ) -> Result<(), Undecided> {
        let before = self.run.clone();
        let nothing = |_: &Need| Lookup::NotLoaded;
        let mut transition = RunTransition::new(&before, lookup.unwrap_or(&nothing), at);
        change(&mut transition);
        if lookup.is_some() {
            return self.take(transition);
        }
        self.run = transition.run;
        Ok(())
    }

    fn take(&mut self, mut transition: RunTransition<'_>) -> Result<(), Undecided> {
        // A signal that is overdue at a resume may fail its step. The next steps start with those of the resume.
        brief_handoffs(&mut transition)?;
        if let Outcome::Decided(decided) = with_derived_effects(transition, Reply::Nothing(()))? {
            let Decided {
                state,
                effects,
                facts,
                ..
            } = *decided;
            // The effects belong to this state.
            if let Aggregate::Run(run) = state {
                self.run = run;
            }
            self.effects.extend(effects);
            self.facts.extend(facts);
        }
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

/// Applies every change that the run has not applied, each in a transition at its own instant, so that a
/// later desired state has a higher number. Returns none if there was no change. Without a lookup only the
/// state is changed, and its consequences are left to the sweep.
fn apply_scopes(
    run: &Run,
    scopes: &Scopes,
    lookup: Option<LookupFn<'_>>,
) -> Result<Option<SyncedRun>, Undecided> {
    let later = pending_changes(run, scopes);
    let is_passed_by = |kind: &PauseScope| {
        scopes
            .of(*kind)
            .is_some_and(|it| differs_from_scope(run, *kind, it))
    };
    // The usual case: the run is not even copied.
    if later.is_empty() && !KINDS.iter().any(is_passed_by) {
        return Ok(None);
    }
    let mut synced = SyncedRun {
        run: run.clone(),
        effects: Vec::new(),
        facts: Vec::new(),
    };
    for (kind, change) in later {
        if synced.run.is_final() {
            break;
        }
        synced.apply(lookup, change.at, |transition| {
            apply_change(transition, kind, change);
            set_applied_epoch(&mut transition.run, kind, change.epoch);
        })?;
    }
    for kind in KINDS {
        if let Some(scope) = scopes
            .of(kind)
            .filter(|it| differs_from_scope(&synced.run, kind, it))
        {
            let at = scope.changed_at.unwrap_or(run.created_at);
            synced.apply(lookup, at, |transition| {
                reconcile_scope(transition, kind, scope);
                set_applied_epoch(&mut transition.run, kind, scope.epoch);
            })?;
        }
    }
    Ok((synced.run.version > run.version).then_some(synced))
}

/// Later changes of both scopes, in the order in which they happened.
fn pending_changes<'s>(run: &Run, scopes: &'s Scopes) -> Vec<(PauseScope, &'s Change)> {
    let mut pending = Vec::new();
    for kind in KINDS {
        let changes = scopes.of(kind).into_iter().flat_map(|it| &it.changes);
        let later = changes.filter(|change| change.epoch > applied_epoch(run, kind));
        pending.extend(later.map(|change| (kind, change)));
    }
    pending.sort_by_key(|(_, change)| change.at);
    pending
}

const fn applied_epoch(run: &Run, kind: PauseScope) -> u64 {
    match kind {
        PauseScope::Run | PauseScope::Parent => 0,
        PauseScope::Agent => run.followed.agent,
        PauseScope::Workspace => run.followed.workspace,
    }
}

const fn set_applied_epoch(run: &mut Run, kind: PauseScope, epoch: u64) {
    match kind {
        PauseScope::Run | PauseScope::Parent => {}
        PauseScope::Agent => run.followed.agent = epoch,
        PauseScope::Workspace => run.followed.workspace = epoch,
    }
}

fn has_pause(run: &Run, kind: PauseScope) -> bool {
    run.pauses.iter().any(|pause| pause.scope == kind)
}

/// Whether a live run differs from its scope although it has applied all changes. The sweep could not decide
/// its page, and the scope has deleted those changes since.
fn differs_from_scope(run: &Run, kind: PauseScope, scope: &Scope) -> bool {
    let is_dead = kind == PauseScope::Agent && run.plan <= scope.dead_up_to;
    !run.is_final() && (is_dead || has_pause(run, kind) != scope.paused.is_some())
}

fn reconcile_scope(transition: &mut RunTransition<'_>, kind: PauseScope, scope: &Scope) {
    if kind == PauseScope::Agent && transition.run.plan <= scope.dead_up_to {
        return fail_deleted(transition);
    }
    match &scope.paused {
        Some(pause) => {
            transition.now = pause.at;
            add_pause(transition, kind, &pause.by);
        }
        None => remove_pause(
            transition,
            kind,
            &Actor("holdpoint".to_owned()),
            ResumeMode::Continue,
        ),
    }
}

fn apply_change(transition: &mut RunTransition<'_>, kind: PauseScope, change: &Change) {
    match &change.what {
        ScopeChange::Paused { waiting } => {
            let by_agent = kind == PauseScope::Agent && transition.run.on_pause == OnPause::Cancel;
            let cancels = *waiting == PauseWaiting::Cancel || by_agent;
            if cancels && is_waiting(transition.run.status()) {
                cancel_by_pause(transition, kind, &change.by);
            } else if !has_pause(&transition.run, kind) {
                add_pause(transition, kind, &change.by);
            }
        }
        ScopeChange::Resumed { mode } => {
            if has_pause(&transition.run, kind) {
                remove_pause(transition, kind, &change.by, *mode);
            }
        }
        ScopeChange::Deleted { up_to } => {
            if transition.run.plan <= *up_to {
                transition.ended_by = Some(change.by.to_string());
                fail_deleted(transition);
            }
        }
    }
}

/// S0-AC9: the words are fixed.
fn fail_deleted(transition: &mut RunTransition<'_>) {
    let message = if is_waiting(transition.run.status()) {
        "Agent deleted during wait period"
    } else {
        "Agent deleted"
    };
    transition.fail(FailureClass::Policy, "agent_deleted", message.to_owned());
}

/// Starts the next steps of a run that is no longer paused.
fn continue_run(
    synced: &mut SyncedRun,
    stood: bool,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Result<(), Undecided> {
    let lookup_synced = synced.lookup(lookup);
    let before = synced.run.clone();
    let mut transition = RunTransition::new(&before, &lookup_synced, now);
    if stood {
        load_open_hold_needs(&transition, &[])?;
        requeue_steps(&mut transition);
        apply_kept_answers(&mut transition)?;
    }
    start_next_steps(&mut transition)?;
    synced.take(transition)
}
