//! `handoff.put_policy`: an administrator creates or changes a policy.

use holdpoint_calendar::WorkingHours;
use holdpoint_contracts::handoff::{
    ApprovalRules, EscalationRules, PolicyRules, PolicyRung, Repeat,
};
use holdpoint_contracts::hold::RungAct;
use holdpoint_contracts::problem::FieldError;
use holdpoint_holds::check_recipients;
use holdpoint_holds::deadline::{RANGE_TEXT, TIMEOUT_MS};
use holdpoint_holds::ladder::{count_firings, expand_rung};
use holdpoint_holds::limits::{NEED_MAX, RUNGS_MAX};
use holdpoint_ids::PolicyName;

use crate::domain::decision::{Outcome, Undecided};
use crate::domain::effect::Reply;
use crate::domain::input::Caller;
use crate::domain::lookup::Facts;
use crate::domain::model::limits::{HOLIDAYS_MAX, POLICIES_MAX, SNOOZE_MS, SNOOZE_TEXT};
use crate::domain::model::policy::Policy;
use crate::domain::refusal::Refusal;
use crate::domain::rules::audience::find_inactive_users;
use crate::domain::rules::policy_change::{require_policy_change, save_policy};

pub(crate) fn put_policy(
    policy: Option<&Policy>,
    name: &PolicyName,
    rules: &PolicyRules,
    caller: &Caller,
    facts: Facts<'_>,
) -> Result<Outcome, Undecided> {
    let mut names = require_policy_change(name, caller, facts)?;
    let same = policy.filter(|policy| !policy.deleted && policy.rules == *rules);
    if let Some(policy) = same {
        return Ok(Outcome::Unchanged(Reply::Policy(Box::new(policy.view()))));
    }
    let errors = validate(rules, facts)?;
    if !errors.is_empty() {
        return Err(Refusal::InvalidFields(errors).into());
    }
    names.insert(name.clone());
    if names.len() > POLICIES_MAX {
        let message = format!("a workspace has at most {POLICIES_MAX} policies");
        return Err(Refusal::invalid_field("/name", message).into());
    }
    let next = Policy {
        workspace: facts.workspace.clone(),
        name: name.clone(),
        rules: rules.clone(),
        version: policy.map_or(0, |policy| policy.version) + 1,
        deleted: false,
    };
    Ok(save_policy(next, names))
}

fn validate(rules: &PolicyRules, facts: Facts<'_>) -> Result<Vec<FieldError>, Undecided> {
    match rules {
        PolicyRules::Approval(rules) => {
            let mut errors = validate_approval(rules);
            errors.extend(find_inactive_users(&rules.from, "/from", facts)?);
            Ok(errors)
        }
        PolicyRules::Escalation(rules) => {
            let mut errors = validate_escalation(rules);
            for (place, rung) in rules.rungs.iter().enumerate().take(RUNGS_MAX) {
                let pointer = format!("/rungs/{place}/to");
                errors.extend(find_inactive_users(&rung.to, &pointer, facts)?);
            }
            Ok(errors)
        }
    }
}

fn validate_approval(rules: &ApprovalRules) -> Vec<FieldError> {
    let mut errors = check_recipients(&rules.from, "/from");
    if !(1..=NEED_MAX).contains(&rules.need) {
        errors.push(FieldError::at("/need", format!("expected 1 to {NEED_MAX}")));
    }
    let times = [
        ("/decide_within", rules.decide_within),
        ("/valid_for", rules.valid_for),
    ];
    for (pointer, time) in times {
        if time.is_some_and(|ms| !TIMEOUT_MS.contains(&ms)) {
            errors.push(FieldError::at(pointer, RANGE_TEXT));
        }
    }
    errors
}

fn validate_escalation(rules: &EscalationRules) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let expanded: usize = rules.rungs.iter().map(count_firings).sum();
    if !(1..=RUNGS_MAX).contains(&expanded) {
        let message = format!("expected 1 to {RUNGS_MAX} rungs, counting each repetition");
        errors.push(FieldError::at("/rungs", message));
    }
    if let Some(Err((field, message))) = rules.calendar.as_ref().map(WorkingHours::read) {
        errors.push(FieldError::at(&format!("/calendar/{field}"), message));
    }
    if rules
        .acknowledged_for
        .is_some_and(|ms| !SNOOZE_MS.contains(&ms))
    {
        errors.push(FieldError::at("/acknowledged_for", SNOOZE_TEXT));
    }
    let holidays = rules.calendar.as_ref().map_or(0, |it| it.holidays.len());
    if holidays > HOLIDAYS_MAX {
        let message = format!("expected at most {HOLIDAYS_MAX} holidays");
        errors.push(FieldError::at("/calendar/holidays", message));
    }
    for (place, rung) in rules.rungs.iter().enumerate().take(RUNGS_MAX) {
        validate_rung(rung, &format!("/rungs/{place}"), &mut errors);
    }
    errors
}

fn validate_rung(rung: &PolicyRung, pointer: &str, errors: &mut Vec<FieldError>) {
    let last = expand_rung(rung).last().map_or(0, |rung| rung.after_ms);
    if !TIMEOUT_MS.contains(&rung.after) || !TIMEOUT_MS.contains(&last) {
        let message = format!("{RANGE_TEXT}, including the last repetition");
        errors.push(FieldError::at(&format!("{pointer}/after"), message));
    }
    errors.extend(check_recipients(&rung.to, &format!("{pointer}/to")));
    let pointer = format!("{pointer}/repeat");
    if rung.repeat.is_some() && !matches!(rung.act, RungAct::Notify | RungAct::Raise) {
        let message = "only `notify` and `raise` can repeat";
        errors.push(FieldError::at(&pointer, message));
    }
    let is_wrong = |repeat: Repeat| !TIMEOUT_MS.contains(&repeat.every) || repeat.times == 0;
    if rung.repeat.is_some_and(is_wrong) {
        let message = "expected `every` from 1 second to 90 days and `times` of at least 1";
        errors.push(FieldError::at(&pointer, message));
    }
}
