//! `handoff.act_on_request`: a person accepts, takes over, reassigns, delegates, acknowledges or snoozes a
//! request without deciding it.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::duration::describe;
use holdpoint_contracts::handoff::{ActOnRequest, RequestAction};
use holdpoint_contracts::hold::{HandoffEventKind, OnTimeout};
use holdpoint_contracts::instant;
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::HoldKind;
use holdpoint_holds::{Recipient, check_recipients, inactive_text};
use holdpoint_ids::UserName;

use crate::domain::decision::{Outcome, Undecided};
use crate::domain::effect::Reply;
use crate::domain::input::Caller;
use crate::domain::lookup::DecisionContext;
use crate::domain::model::limits::{SNOOZE_MS, SNOOZE_TEXT};
use crate::domain::model::progress::AuditStamp;
use crate::domain::model::request::{Phase, Request};
use crate::domain::refusal::Refusal;
use crate::domain::rules::audience::{self, Assignment, AssignmentRules};
use crate::domain::rules::authorization::{
    AuthorizedDecider, require_decider, require_not_excluded, require_run_owner, require_version,
};
use crate::domain::rules::escalation;
use crate::domain::transition::RequestTransition;

pub(crate) fn act_on_request(
    request: Option<&Request>,
    caller: &Caller,
    command: &ActOnRequest,
    context: &DecisionContext<'_>,
) -> Result<Outcome, Undecided> {
    let action = &command.action;
    let decider = require_decider(request, caller, context)?;
    let request = decider.request;
    if let Some(end) = request.end() {
        return Err(Refusal::already_decided(request.id, end, false).into());
    }
    if decider.spec.kind == HoldKind::Timer {
        return Err(wrong_kind(request, decider.spec.kind, "action"));
    }
    if !has_other_assignee(request, action) {
        require_version(request, command.version)?;
    }
    match action {
        // These two refuse with the name of the person who was first.
        RequestAction::Accept | RequestAction::TakeOver => {}
        RequestAction::Reassign { .. }
        | RequestAction::Delegate { .. }
        | RequestAction::Acknowledge
        | RequestAction::Snooze { .. } => require_run_owner(&decider)?,
    }
    let AuthorizedDecider { spec, name, .. } = decider;
    let action_by = ActionBy {
        request,
        name,
        context,
    };
    match action {
        RequestAction::Accept => action_by.accept(),
        RequestAction::TakeOver if spec.kind != HoldKind::Handoff => {
            Err(wrong_kind(request, spec.kind, "take_over"))
        }
        RequestAction::TakeOver => action_by.take_over(),
        RequestAction::Reassign { to } => action_by.reassign(to),
        RequestAction::Delegate { to } => action_by.delegate(to),
        RequestAction::Acknowledge => Ok(action_by.acknowledge()),
        RequestAction::Snooze { for_ms } => action_by.snooze(*for_ms),
    }
}

/// Whether another person was first. The refusal then names that person instead of a changed version.
const fn has_other_assignee(request: &Request, action: &RequestAction) -> bool {
    let progress = &request.progress;
    match action {
        RequestAction::Accept => progress.taken_over.is_some() || progress.accepted.is_some(),
        RequestAction::TakeOver => progress.taken_over.is_some(),
        RequestAction::Reassign { .. }
        | RequestAction::Delegate { .. }
        | RequestAction::Acknowledge
        | RequestAction::Snooze { .. } => false,
    }
}

fn wrong_kind(request: &Request, kind: HoldKind, action: &'static str) -> Undecided {
    let id = request.id;
    Refusal::WrongKind { id, kind, action }.into()
}

/// An authorized person who acts on an open request.
struct ActionBy<'a> {
    request: &'a Request,
    name: UserName,
    context: &'a DecisionContext<'a>,
}

impl ActionBy<'_> {
    fn transition(&self) -> RequestTransition {
        RequestTransition::on(self.request, self.context.now)
    }

    fn stamp(&self) -> AuditStamp {
        AuditStamp::new(self.name.as_str(), self.context.now)
    }

    /// Whether this person has done it already. Refuses if another person was first.
    fn is_done(&self, stamp: Option<&AuditStamp>, what: &'static str) -> Result<bool, Undecided> {
        match stamp {
            None => Ok(false),
            Some(stamp) if stamp.by == self.name.as_str() => Ok(true),
            Some(stamp) => Err(Refusal::HasAssignee {
                id: self.request.id,
                what,
                stamp: stamp.clone(),
            }
            .into()),
        }
    }

    fn accept(&self) -> Result<Outcome, Undecided> {
        require_not_excluded(self.request, &self.name)?;
        let progress = &self.request.progress;
        self.is_done(progress.taken_over.as_ref(), "taken_over")?;
        if self.is_done(progress.accepted.as_ref(), "accepted")? {
            return Ok(Outcome::Unchanged(Reply::of_request(self.request)));
        }
        let by = self.name.as_str();
        let mut transition = self.transition();
        let progress = &mut transition.request.progress;
        progress.assignee = Some(self.name.clone());
        progress.accepted = Some(self.stamp());
        progress.clear_snoozes();
        if progress.resolved_policies.stops_on_accept {
            progress.ladder.restart_if_running(self.context.now);
        }
        transition.add_history("accepted", by, None);
        transition.add_handoff_event(HandoffEventKind::Accepted, by);
        Ok(transition.finish(Reply::of_request))
    }

    /// The timer stops at once. The executor learns it by the desired state that later carries the end.
    fn take_over(&self) -> Result<Outcome, Undecided> {
        require_not_excluded(self.request, &self.name)?;
        // After a reassignment to several people, each of them may take the run over.
        if self.is_done(self.request.run_owner(), "taken_over")? {
            return Ok(Outcome::Unchanged(Reply::of_request(self.request)));
        }
        let to = self.request.deciders();
        let by = self.name.as_str();
        let mut transition = self.transition();
        match &mut transition.request.phase {
            Phase::Open { deadline } => *deadline = None,
            Phase::Frozen { remaining_ms, .. } => *remaining_ms = None,
            Phase::Decided { .. } | Phase::TimedOut { .. } | Phase::Withdrawn { .. } => {}
        }
        let progress = &mut transition.request.progress;
        progress.assignee = Some(self.name.clone());
        progress.taken_over = Some(self.stamp());
        progress.clear_snoozes();
        progress.ladder.start(self.context.now);
        transition.add_handoff_event(HandoffEventKind::TakenOver, by);
        transition.send_take_over();
        transition.add_history("taken_over", by, None);
        transition.notify(RequestEventKind::TakenOver, Some(by), to);
        Ok(transition.finish(Reply::of_request))
    }

    /// The new recipient and assignee. Refuses a recipient who cannot decide.
    fn require_receiver(
        &self,
        to: &str,
        pointer: &str,
    ) -> Result<(Vec<String>, Option<UserName>), Undecided> {
        let to = vec![to.to_owned()];
        let mut errors = check_recipients(&to, pointer);
        if errors.is_empty() {
            let rules = AssignmentRules {
                excluded: self.request.excluded(),
                ..AssignmentRules::default()
            };
            let message = match audience::assign(&to, &rules, self.context)? {
                Assignment::Assigned(assigned) if assigned.reassigned_to.is_none() => {
                    return Ok((to, assigned.assignee));
                }
                Assignment::Assigned(assigned) if assigned.all_excluded => {
                    "the requester may not decide it, and no other user is active".to_owned()
                }
                Assignment::Assigned(_) => "no active user has this role".to_owned(),
                Assignment::Inactive(name) => inactive_text(&name),
            };
            errors.push(FieldError::at(pointer, message));
        }
        Err(Refusal::InvalidFields(errors).into())
    }

    fn reassign(&self, to: &str) -> Result<Outcome, Undecided> {
        let (to, assignee) = self.require_receiver(to, "/action/reassign/to")?;
        let by = self.name.as_str();
        let mut transition = self.transition();
        let progress = &mut transition.request.progress;
        progress.reassign(to.clone(), assignee.clone());
        // The new assignee owns a run that was taken over.
        if let (Some(owned), Some(name)) = (&mut progress.taken_over, assignee) {
            *owned = AuditStamp::new(name, self.context.now);
        }
        progress.ladder.restart_if_running(self.context.now);
        let note = format!("to {}", audience::describe(&to));
        transition.add_history("reassigned", by, Some(note));
        transition.add_handoff_event(HandoffEventKind::Reassigned, by);
        transition.notify(RequestEventKind::Assigned, Some(by), to);
        Ok(transition.finish(Reply::of_request))
    }

    fn delegate(&self, to: &str) -> Result<Outcome, Undecided> {
        let (to, _) = self.require_receiver(to, "/action/delegate/to")?;
        let by = self.name.as_str();
        let mut transition = self.transition();
        transition.request.add_deciders(&to);
        let note = format!("to {}", audience::describe(&to));
        transition.add_history("delegated", by, Some(note));
        transition.notify(RequestEventKind::Assigned, Some(by), to);
        Ok(transition.finish(Reply::of_request))
    }

    /// Delays reminders. Afterwards every rung fires once more.
    fn acknowledge(&self) -> Outcome {
        let quiet_ms = escalation::quiet_ms(self.request);
        let mut transition = self.transition();
        let ladder = &mut transition.request.progress.ladder;
        ladder.start_round(self.context.now, quiet_ms);
        let note = describe_quiet(&transition.request, quiet_ms);
        transition.add_history("acknowledged", self.name.as_str(), Some(note));
        transition.finish(Reply::of_request)
    }

    /// Whether no other person may decide it.
    fn is_only_recipient(&self) -> bool {
        let mine = Recipient::user_text(&self.name);
        let audience = self.request.audience();
        let additional = &self.request.progress.additional_deciders;
        !audience.is_empty() && audience.iter().chain(additional).all(|to| *to == mine)
    }

    fn snooze(&self, for_ms: u64) -> Result<Outcome, Undecided> {
        let time = i64::try_from(for_ms)
            .ok()
            .filter(|_| SNOOZE_MS.contains(&for_ms));
        let Some(time) = time else {
            let pointer = "/action/snooze/for_ms";
            return Err(Refusal::invalid_field(pointer, SNOOZE_TEXT).into());
        };
        let wanted = self.context.now + TimeDelta::milliseconds(time);
        let deadline = self.request.next_deadline();
        let until = deadline.map_or(wanted, |deadline| wanted.min(deadline));
        // Other people see no change, so that their decisions on the version before still count.
        let mut transition = RequestTransition::invisible(self.request, self.context.now);
        let progress = &mut transition.request.progress;
        progress.snooze(&self.name, self.context.now, until);
        // Other recipients keep their reminders.
        if self.is_only_recipient() {
            escalation::delay_until(&mut transition.request, until);
            transition.request.progress.snoozed_until = Some(until);
        }
        let note = format!("until {}", instant::write(until));
        transition.add_history("snoozed", self.name.as_str(), Some(note));
        Ok(transition.finish(Reply::of_request))
    }
}

/// The time without reminders, and what follows it: the next rung or the deadline.
fn describe_quiet(request: &Request, quiet_ms: u64) -> String {
    let then = match request.spec.as_ref().map(|spec| spec.on_timeout) {
        Some(OnTimeout::Escalate) => "then the next people are notified, and it stays open",
        Some(OnTimeout::Default) => "then its default answer counts",
        Some(OnTimeout::Fail | OnTimeout::Skip | OnTimeout::Continue) | None => {
            "then it ends without an answer"
        }
    };
    let rung = escalation::next_rung(request).map(|(_, due)| due);
    let is_first = |end: &DateTime<Utc>| rung.is_none_or(|rung| *end <= rung);
    if let Some(end) = request.next_deadline().filter(is_first) {
        let at = instant::write(end);
        return format!("no reminders until the deadline at {at}; {then}");
    }
    if request
        .frozen_ms()
        .is_some_and(|left_ms| left_ms <= quiet_ms)
    {
        return format!("no reminders until the deadline after the pause; {then}");
    }
    let time = describe(Duration::from_millis(quiet_ms));
    format!("no reminders for {time}")
}
