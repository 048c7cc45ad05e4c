//! `executor.suspend_steps`: a worker reports a step of a suspended run, or shuts down (S1-R2, S1-R5). The number of
//! the dispatch fences every report.

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::steps::ResultReply;
use holdpoint_contracts::suspension::SnapshotView;
use serde_json::json;

use crate::domain::decision::{Lookup, Undecided};
use crate::domain::effect::Reply;
use crate::domain::input::SuspensionReport;
use crate::domain::model::run::{SavedPart, Step, StepGrant, StepPhase};
use crate::domain::need::{Fact, Need};
use crate::domain::refusal::Refusal;
use crate::domain::rules::open_hold_needs::load_open_hold_needs;
use crate::domain::rules::released_steps::release_step;
use crate::domain::rules::suspension::kept_blobs::{keep_blobs_of_part, with_stored};
use crate::domain::rules::suspension::new_snapshot::new_snapshot;
use crate::domain::rules::suspension::supplements::{add_supplement, set_current_step};
use crate::domain::rules::suspension::suspend::{SHUTDOWN, suspend};
use crate::domain::rules::uncertain_steps::Doubt;
use crate::domain::transition::{RunDecision, RunOutcome, RunTransition};

pub(crate) fn suspend_step<'a>(
    mut transition: RunTransition<'a>,
    report: &SuspensionReport,
) -> RunDecision<'a> {
    let Some(index) = transition.open_position(&report.step)? else {
        return Ok(replied(ResultReply::Late));
    };
    let step = transition.step(index);
    let step = step.filter(|step| step.dispatch == report.dispatch);
    let grant = step.and_then(|step| step.phase.grant());
    let Some(grant) = grant.filter(|grant| grant.node == report.node).cloned() else {
        return Ok(replied(ResultReply::Late));
    };
    let is_held = step.is_some_and(|step| matches!(step.phase, StepPhase::Granted(_)));
    let is_lost = is_held && (report.stopped || report.shutdown);
    if is_lost {
        load_open_hold_needs(&transition, &[index])?;
    }
    if transition.run.suspension.is_none() && is_held && report.shutdown {
        snapshot_before_shutdown(&mut transition, index, &grant)?;
    }
    let added = supplement_snapshot(&mut transition, index, report)?;
    if is_lost {
        release_step(&mut transition, index, grant, Doubt::Stopped)?;
    }
    match added {
        Supplemented::Refused(refusal) if is_lost => {
            transition.decided(Reply::Refused(Box::new(refusal.problem())))
        }
        Supplemented::Refused(refusal) => Err(refusal.into()),
        Supplemented::Added => transition.decided(Reply::Result(ResultReply::Applied)),
        Supplemented::Known | Supplemented::Late if is_lost => {
            transition.decided(Reply::Result(ResultReply::Applied))
        }
        Supplemented::Known => Ok(replied(ResultReply::Known)),
        Supplemented::Late => Ok(replied(ResultReply::Late)),
    }
}

/// Suspends the run of a step that may have had its effect. Any other step is dispatched again without a person.
fn snapshot_before_shutdown(
    transition: &mut RunTransition<'_>,
    index: usize,
    grant: &StepGrant,
) -> Result<(), Undecided> {
    let is_parking = transition.step(index).is_some_and(Step::is_parking);
    if !grant.handed.idempotent && !is_parking {
        return suspend(transition, grant.node.as_str(), SHUTDOWN);
    }
    let mut snapshot = new_snapshot(transition, SHUTDOWN)?;
    snapshot.auto_resumable = true;
    let id = transition.step(index).map(|step| step.id.clone());
    set_current_step(&mut snapshot, id.clone());
    transition.snapshot = Some(Box::new(SnapshotView {
        run: transition.run.id,
        snapshot_json: snapshot,
        suspended_at: transition.now,
        complete: true,
    }));
    // A paused run stays paused.
    if transition.run.moves() {
        let node = &grant.node;
        let message = format!("{node} shuts down; another node continues.");
        let data = json!({
            "run_id": transition.run.id, "reason": SHUTDOWN, "by": node, "auto_resumable": true,
        });
        transition.event(EventType::RunSuspended, id.as_deref(), message, data);
        let data = json!({ "by": node, "mode": "continue", "resume_at": null });
        let message = "Resumed: another node continues.".to_owned();
        transition.event(EventType::RunResumed, None, message, data);
    }
    Ok(())
}

enum Supplemented {
    Added,
    /// Its worker has reported before.
    Known,
    /// The run was resumed, or too much time has passed.
    Late,
    Refused(Refusal),
}

fn supplement_snapshot(
    transition: &mut RunTransition<'_>,
    index: usize,
    report: &SuspensionReport,
) -> Result<Supplemented, Undecided> {
    let is_auto = transition.run.suspension.is_none();
    if is_auto && transition.snapshot.is_none() {
        return Ok(Supplemented::Late);
    }
    if !is_auto {
        let Some(step) = transition.step(index) else {
            return Ok(Supplemented::Late);
        };
        let suspension = transition.run.suspension.as_deref();
        let is_open = suspension.is_some_and(|it| transition.now <= it.supplement_until());
        if !is_open {
            return Ok(Supplemented::Late);
        }
        if !suspension.is_some_and(|it| it.awaits(step)) {
            return Ok(Supplemented::Known);
        }
    }
    let mut view = load_snapshot(transition)?;
    if let Some(supplement) = &report.supplement {
        let supplement = with_stored(transition, &report.step, supplement);
        let added = add_supplement(&mut view.snapshot_json, &report.step, &supplement);
        if let Err(refusal) = added {
            if let Some(own) = &mut transition.snapshot {
                own.complete = false;
            }
            return Ok(Supplemented::Refused(refusal));
        }
        keep_blobs_of_part(transition, &report.step, &supplement);
        if let Some(step) = transition.step_mut(index) {
            step.saved_part = Some(SavedPart::default());
        }
    }
    if let Some(suspension) = &mut transition.run.suspension {
        for one in &mut suspension.in_flight {
            one.is_reported |= one.step == report.step && one.dispatch == report.dispatch;
        }
    }
    let suspension = transition.run.suspension.as_deref();
    view.complete = suspension.is_none_or(|it| it.is_complete(&transition.run));
    transition.snapshot = Some(Box::new(view));
    Ok(Supplemented::Added)
}

fn load_snapshot(transition: &RunTransition<'_>) -> Result<SnapshotView, Undecided> {
    if let Some(view) = &transition.snapshot {
        return Ok((**view).clone());
    }
    let need = Need::Snapshot(transition.run.id);
    match transition.lookup(&need) {
        Lookup::Found(Fact::Snapshot(view)) => Ok((*view).clone()),
        Lookup::NotLoaded => Err(Undecided::NeedsMore(vec![need])),
        Lookup::Missing | Lookup::Found(_) => {
            Err(Refusal::SnapshotMissing(transition.run.id).into())
        }
    }
}

const fn replied<'a>(reply: ResultReply) -> RunOutcome<'a> {
    RunOutcome::Unchanged(Reply::Result(reply))
}
