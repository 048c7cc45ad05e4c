//! `executor.take_over_run`: an operator becomes the owner of a live run.

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{Assign, HoldSpec, OPERATOR_TAKEOVER, OnTimeout, Priority};
use holdpoint_contracts::instant;
use holdpoint_contracts::message::Actor;
use serde_json::{Value, json};

use crate::domain::decision::Undecided;
use crate::domain::definition::people::is_whom;
use crate::domain::model::plan::person_steps::Handoff;
use crate::domain::model::run::{Ownership, PersonHold};
use crate::domain::need::{Key, Need};
use crate::domain::refusal::Refusal;
use crate::domain::rules::handoff_spec::{Offer, handoff_spec, load_briefing};
use crate::domain::rules::open_hold::{next_hold_id, open_hold};
use crate::domain::rules::take_over::{load_running_step_needs, revoke_steps};
use crate::domain::rules::timers::freeze_timers;
use crate::domain::transition::{RunDecision, RunTransition, refuse_ended_run, unchanged_run};
use crate::domain::views::handoff_briefing::HandoffFacts;

pub(crate) fn open_takeover_hold(
    transition: &mut RunTransition<'_>,
    by: &str,
) -> Result<PersonHold, Undecided> {
    let plan = transition.plan()?;
    let mut unknown = Vec::new();
    let facts = load_briefing(transition, &plan, &mut unknown);
    // The needs of the revoked steps are loaded with it.
    if let Err(Undecided::NeedsMore(more)) = load_running_step_needs(transition) {
        unknown.extend(more);
    }
    let contact = transition.run.contact.clone();
    let need = contact.map(|id| Need::State(Key::Contact(transition.run.workspace.clone(), id)));
    let contact = need.and_then(|need| transition.find_value(need, &mut unknown));
    if !unknown.is_empty() {
        return Err(Undecided::NeedsMore(unknown));
    }
    let to = vec![format!("@user.{by}")];
    let handoff = Handoff {
        to: Value::Null,
        message: None,
        priority: Priority::default(),
        assign: Assign::default(),
        timeout_ms: 0,
        time_by_policy: false,
        on_timeout: OnTimeout::Escalate,
        warm_lead: None,
        policies: Vec::new(),
    };
    let id = next_hold_id(&mut transition.run);
    let offer = Offer {
        id,
        to: &to,
        facts: HandoffFacts {
            contact: contact.as_deref().cloned().unwrap_or_default(),
            recommended: format!("{by} took the run over."),
            ..facts
        },
    };
    // It belongs to no step of the plan.
    let spec = HoldSpec {
        reason: Some(OPERATOR_TAKEOVER.to_owned()),
        ..handoff_spec(transition, usize::MAX, &handoff, offer)
    };
    Ok(open_hold(transition, id, &spec, None))
}

pub(crate) fn take_over_run<'a>(mut transition: RunTransition<'a>, by: &Actor) -> RunDecision<'a> {
    refuse_ended_run(&transition)?;
    if !is_whom(&format!("@user.{by}")) {
        return Err(Refusal::NoPerson(by.clone()).into());
    }
    if let Some(taken) = transition.run.taken() {
        let (run, who) = (transition.run.id, taken.by.clone());
        return if who == by.0 {
            Ok(unchanged_run(&transition))
        } else {
            Err(Refusal::AlreadyTaken(run, who).into())
        };
    }
    let mut on = open_takeover_hold(&mut transition, &by.0)?;
    revoke_steps(&mut transition)?;
    freeze_timers(&mut transition);
    on.taken = Some(Ownership {
        by: by.0.clone(),
        at: transition.now,
    });
    let id = on.id;
    transition.run.takeover_hold = Some(Box::new(on));
    transition.event(
        EventType::HandoffTakenOver,
        None,
        format!("{by} has taken over."),
        json!({ "request": id, "by": by, "at": instant::write(transition.now), "operator_takeover": true }),
    );
    transition.changed()
}
