//! Policies by name: what one may say, and those that are built in. What a request makes of the ones it
//! names is in [`super::settled`].

use std::collections::{BTreeMap, BTreeSet};

use holdpoint_auth::Right;
use holdpoint_contracts::handoff::{
    ApprovalRules, EscalationRules, PolicyRules, PolicyRung, PolicyView,
};
use holdpoint_contracts::hold::{Priority, Rung, RungAct};
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::{PolicyName, Workspace};
use serde::{Deserialize, Serialize};

use super::audience;
use super::caller::{Caller, allow};
use super::hours::WorkingHours;
use super::ladder::default_times;
use super::limits::{
    HOLIDAYS_MAX, NEED_MAX, POLICIES_MAX, RUNGS_MAX, SNOOZE_MS, TIMEOUT_MS, TO_MAX,
};
use super::refusal::Refusal;
use super::{
    Aggregate, Change, Fact, Lookup, LookupFn, Need, Outcome, PolicyInput, Reply, Undecided,
};

/// How the names of those begin that are built in.
const BUILT_IN: &str = "default-";

/// A policy's state. A deleted one stays known as such: its version goes on rising.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    pub workspace: Workspace,
    pub name: PolicyName,
    pub rules: PolicyRules,
    /// Rises with every change.
    pub version: u64,
    /// Nobody can name it any more.
    pub deleted: bool,
}

impl Policy {
    /// As the API shows it.
    #[must_use]
    pub fn view(&self) -> PolicyView {
        PolicyView {
            name: self.name.clone(),
            rules: self.rules.clone(),
            version: self.version,
            built_in: false,
            by_priority: BTreeMap::new(),
        }
    }
}

/// The kind whose default ladder a name means.
pub(crate) fn built_in(name: &PolicyName) -> Option<HoldKind> {
    match name.as_str().strip_prefix(BUILT_IN)? {
        "approval" => Some(HoldKind::Approval),
        "input" => Some(HoldKind::Input),
        "handoff" => Some(HoldKind::Handoff),
        _ => None,
    }
}

/// The policies that are built in: the default ladders, as they can be named and seen.
#[must_use]
pub fn all_built_in() -> Vec<PolicyView> {
    let kinds = [HoldKind::Approval, HoldKind::Handoff, HoldKind::Input];
    kinds.into_iter().filter_map(view_of).collect()
}

fn view_of(kind: HoldKind) -> Option<PolicyView> {
    let rungs = |priority: Priority| -> Vec<PolicyRung> {
        let (again, owners) = default_times(kind, priority);
        let times = [again, owners];
        let rung = |after| PolicyRung {
            after,
            act: RungAct::Notify,
            to: Vec::new(),
            repeat: None,
        };
        times.into_iter().map(rung).collect()
    };
    Some(PolicyView {
        name: format!("{BUILT_IN}{}", kind.as_str()).parse().ok()?,
        rules: PolicyRules::Escalation(EscalationRules {
            rungs: rungs(Priority::Normal),
            stop_on: Vec::new(),
            calendar: None,
            acknowledged_for: None,
        }),
        version: 0,
        built_in: true,
        by_priority: Priority::ALL.map(|one| (one, rungs(one))).into(),
    })
}

/// Which policy, of which workspace.
pub(crate) struct Place<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) name: &'a PolicyName,
}

pub(crate) fn decide(
    policy: Option<&Policy>,
    place: &Place<'_>,
    caller: &Caller,
    input: &PolicyInput,
    lookup: LookupFn<'_>,
) -> Result<Outcome, Undecided> {
    allow(caller, place.workspace, Right::Administer, lookup)?;
    let name = place.name;
    if name.as_str().starts_with(BUILT_IN) {
        return Err(Refusal::BuiltIn(name.clone()).into());
    }
    let live = policy.filter(|policy| !policy.deleted);
    let mut names = names(place.workspace, lookup)?;
    let next = match input {
        PolicyInput::Assigned(rules) => {
            if let Some(policy) = live.filter(|policy| policy.rules == *rules) {
                return Ok(Outcome::Unchanged(Reply::Policy(Box::new(policy.view()))));
            }
            let errors = faults(rules, place.workspace, lookup)?;
            if !errors.is_empty() {
                return Err(Refusal::InvalidHold(errors).into());
            }
            names.insert(name.clone());
            if names.len() > POLICIES_MAX {
                let message = format!("a workspace has at most {POLICIES_MAX} policies");
                return Err(Refusal::InvalidHold(vec![FieldError::at("/name", message)]).into());
            }
            Policy {
                workspace: place.workspace.clone(),
                name: name.clone(),
                rules: rules.clone(),
                version: policy.map_or(0, |policy| policy.version) + 1,
                deleted: false,
            }
        }
        PolicyInput::Delete => {
            let Some(policy) = live else {
                return Err(Refusal::NoPolicy(name.clone()).into());
            };
            names.remove(name);
            Policy {
                version: policy.version + 1,
                deleted: true,
                ..policy.clone()
            }
        }
    };
    let answer = Reply::Policy(Box::new(next.view()));
    let fact = (
        Need::Policies(place.workspace.clone()),
        Fact::Policies(names),
    );
    Ok(Outcome::Decided(Box::new(Change {
        state: Aggregate::Policy(Box::new(next)),
        effects: Vec::new(),
        facts: vec![fact],
        reply: answer,
    })))
}

/// The names of a workspace's own policies.
pub(crate) fn names(
    workspace: &Workspace,
    lookup: LookupFn<'_>,
) -> Result<BTreeSet<PolicyName>, Undecided> {
    let need = Need::Policies(workspace.clone());
    match lookup(&need) {
        Lookup::NotLoaded => Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::Policies(names)) => Ok(names),
        Lookup::Found(
            Fact::User(_)
            | Fact::Owners(_)
            | Fact::Members(_)
            | Fact::Role(_)
            | Fact::Loads(_)
            | Fact::Policy(_)
            | Fact::Request(_),
        )
        | Lookup::Missing => Ok(BTreeSet::new()),
    }
}

/// Everything that is wrong with what a policy is to say.
fn faults(
    rules: &PolicyRules,
    workspace: &Workspace,
    lookup: LookupFn<'_>,
) -> Result<Vec<FieldError>, Undecided> {
    match rules {
        PolicyRules::Approval(rules) => {
            let mut errors = of_approval(rules);
            errors.extend(audience::faults(&rules.from, "/from", workspace, lookup)?);
            Ok(errors)
        }
        PolicyRules::Escalation(rules) => {
            let mut errors = of_rungs(rules);
            for (place, rung) in rules.rungs.iter().enumerate().take(RUNGS_MAX) {
                let pointer = format!("/rungs/{place}/to");
                errors.extend(audience::faults(&rung.to, &pointer, workspace, lookup)?);
            }
            Ok(errors)
        }
    }
}

fn of_approval(rules: &ApprovalRules) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut wrong_if = |is_wrong: bool, pointer: &str, message: String| {
        errors.extend(is_wrong.then(|| FieldError::at(pointer, message)));
    };
    let too_many = format!("at most {TO_MAX} people and roles");
    wrong_if(rules.from.len() > TO_MAX, "/from", too_many);
    let need = 1..=NEED_MAX;
    wrong_if(
        !need.contains(&rules.need),
        "/need",
        format!("1 to {NEED_MAX}"),
    );
    let within = rules.decide_within;
    wrong_if(
        within.is_some_and(|ms| !TIMEOUT_MS.contains(&ms)),
        "/decide_within",
        "1 second to 90 days".to_owned(),
    );
    let message = "how long an approval of a step counts is not known yet: leave it out";
    wrong_if(rules.valid_for.is_some(), "/valid_for", message.to_owned());
    errors
}

fn of_rungs(rules: &EscalationRules) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let expanded: usize = rules.rungs.iter().map(times).sum();
    if !(1..=RUNGS_MAX).contains(&expanded) {
        let message = format!("1 to {RUNGS_MAX} rungs, each repetition counted");
        errors.push(FieldError::at("/rungs", message));
    }
    let wrong = rules.calendar.as_ref().map(WorkingHours::read);
    if let Some(Err((field, message))) = wrong {
        errors.push(FieldError::at(&format!("/calendar/{field}"), message));
    }
    let quiet = rules.acknowledged_for;
    if quiet.is_some_and(|ms| !SNOOZE_MS.contains(&ms)) {
        let message = "1 minute to 30 days";
        errors.push(FieldError::at("/acknowledged_for", message));
    }
    let holidays = rules.calendar.as_ref().map_or(0, |it| it.holidays.len());
    if holidays > HOLIDAYS_MAX {
        let message = format!("at most {HOLIDAYS_MAX} holidays");
        errors.push(FieldError::at("/calendar/holidays", message));
    }
    for (place, rung) in rules.rungs.iter().enumerate().take(RUNGS_MAX) {
        let mut wrong_if = |is_wrong: bool, field: &str, message: &str| {
            let pointer = format!("/rungs/{place}/{field}");
            errors.extend(is_wrong.then(|| FieldError::at(&pointer, message)));
        };
        let last = expand(rung).last().map_or(0, |rung| rung.after_ms);
        let is_long = !TIMEOUT_MS.contains(&rung.after) || !TIMEOUT_MS.contains(&last);
        wrong_if(
            is_long,
            "after",
            "1 second to 90 days, the last repetition too",
        );
        wrong_if(rung.to.len() > TO_MAX, "to", "at most 50 people and roles");
        let repeats = rung.repeat.is_some();
        let again = matches!(rung.act, RungAct::Notify | RungAct::Raise);
        let message = "only `notify` and `raise` can happen again";
        wrong_if(repeats && !again, "repeat", message);
        let is_short = |it: holdpoint_contracts::handoff::Repeat| {
            !TIMEOUT_MS.contains(&it.every) || it.times == 0
        };
        let message = "`every` from 1 second to 90 days, and `times` from 1";
        wrong_if(rung.repeat.is_some_and(is_short), "repeat", message);
    }
    errors
}

/// How often a rung happens.
fn times(rung: &PolicyRung) -> usize {
    let again = rung.repeat.map_or(0, |repeat| repeat.times);
    usize::try_from(again).map_or(usize::MAX, |again| again.saturating_add(1))
}

/// A rung and its repetitions, each a rung of its own that fires once.
pub(crate) fn expand(rung: &PolicyRung) -> Vec<Rung> {
    let every = rung.repeat.map_or(0, |repeat| repeat.every);
    let count = u64::try_from(times(rung).min(RUNGS_MAX + 1)).unwrap_or(1);
    let one = |place: u64| Rung {
        after_ms: rung.after.saturating_add(every.saturating_mul(place)),
        act: rung.act,
        to: rung.to.clone(),
    };
    (0..count).map(one).collect()
}
