//! What a person does with a request short of deciding it: accept, take over, reassign, delegate,
//! acknowledge, snooze. And what becomes of it when whoever has it leaves.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::duration::describe;
use holdpoint_contracts::handoff::RequestAction;
use holdpoint_contracts::hold::{HandoffEventKind, OnTimeout};
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::UserName;

use super::audience::{self, Plan, Recipient, Rules};
use super::caller::{Caller, active_user};
use super::deciding::{Addressed, addressed, already_decided, is_free, may_decide};
use super::ladder;
use super::limits::SNOOZE_MS;
use super::progress::AuditStamp;
use super::refusal::Refusal;
use super::request::{BY_SERVICE, Phase, Request};
use super::standalone::shown;
use super::transition::RequestTransition;
use super::{DecisionContext, Outcome, Reply, Undecided};

pub(crate) fn act(
    request: Option<&Request>,
    caller: &Caller,
    action: &RequestAction,
    version: Option<u64>,
    context: &DecisionContext<'_>,
) -> Result<Outcome, Undecided> {
    let addressed = addressed(request, caller, context)?;
    let request = addressed.request;
    if let Some(end) = request.end() {
        return Err(already_decided(request, end, false).into());
    }
    if addressed.spec.kind == HoldKind::Timer {
        return Err(wrong_kind(request, addressed.spec.kind, "action"));
    }
    if !is_somebodys(request, action) {
        request.is_at(version)?;
    }
    match action {
        // They say themselves who was first.
        RequestAction::Accept | RequestAction::TakeOver => {}
        RequestAction::Reassign { .. }
        | RequestAction::Delegate { .. }
        | RequestAction::Acknowledge
        | RequestAction::Snooze { .. } => is_free(&addressed)?,
    }
    let Addressed { spec, name: me, .. } = addressed;
    let handoff_event = HandoffEvent {
        request,
        me,
        context,
    };
    match action {
        RequestAction::Accept => handoff_event.accept(),
        RequestAction::TakeOver if spec.kind != HoldKind::Handoff => {
            Err(wrong_kind(request, spec.kind, "take_over"))
        }
        RequestAction::TakeOver => handoff_event.take_over(),
        RequestAction::Reassign { to } => handoff_event.reassign(to),
        RequestAction::Delegate { to } => handoff_event.delegate(to),
        RequestAction::Acknowledge => Ok(handoff_event.acknowledge()),
        RequestAction::Snooze { for_ms } => handoff_event.snooze(*for_ms),
    }
}

/// Whether somebody has what is wanted: who that is is told, and not only that something has changed.
const fn is_somebodys(request: &Request, action: &RequestAction) -> bool {
    let (taken, accepted) = (
        request.progress.taken_over.is_some(),
        request.progress.accepted.is_some(),
    );
    match action {
        RequestAction::Accept => taken || accepted,
        RequestAction::TakeOver => taken,
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

/// Somebody who may, about to do something with a request that stands.
struct HandoffEvent<'a> {
    request: &'a Request,
    me: UserName,
    context: &'a DecisionContext<'a>,
}

impl HandoffEvent<'_> {
    fn mark(&self) -> AuditStamp {
        AuditStamp {
            by: self.me.to_string(),
            at: self.context.now,
        }
    }

    fn note(&self, transition: &mut RequestTransition, action: &str, note: Option<String>) {
        transition.note(action, self.me.as_str(), self.context.now, note);
    }

    fn tell(&self, transition: &mut RequestTransition, kind: RequestEventKind, to: Vec<String>) {
        transition.tell_people(kind, Some(self.me.as_str()), self.context.now, to);
    }

    /// Somebody else was first; by the same person it is done already.
    fn is_done(&self, mark: Option<&AuditStamp>, what: &'static str) -> Result<bool, Undecided> {
        match mark {
            None => Ok(false),
            Some(mark) if mark.by == self.me.as_str() => Ok(true),
            Some(mark) => Err(Refusal::IsSomebodys {
                id: self.request.id,
                what,
                mark: mark.clone(),
            }
            .into()),
        }
    }

    fn accept(&self) -> Result<Outcome, Undecided> {
        may_decide(self.request, &self.me)?;
        let progress = &self.request.progress;
        self.is_done(progress.taken_over.as_ref(), "taken_over")?;
        if self.is_done(progress.accepted.as_ref(), "accepted")? {
            return Ok(Outcome::Unchanged(shown(self.request)));
        }
        let mut transition = RequestTransition::on(self.request);
        transition.request.progress.assignee = Some(self.me.clone());
        transition.request.progress.accepted = Some(self.mark());
        transition.request.progress.is_back();
        if transition.request.progress.settled.stops_on_accept {
            transition
                .request
                .progress
                .ladder
                .begin_again(self.context.now);
        }
        self.note(&mut transition, "accepted", None);
        transition.handoff_event(
            HandoffEventKind::Accepted,
            self.me.as_str(),
            self.context.now,
        );
        Ok(transition.end(shown))
    }

    /// The timer stops here and now; the executor is told by the same desired state that will say how it ends.
    fn take_over(&self) -> Result<Outcome, Undecided> {
        may_decide(self.request, &self.me)?;
        // What was given away again is anybody's of those who have it now.
        if self.is_done(self.request.owned(), "taken_over")? {
            return Ok(Outcome::Unchanged(shown(self.request)));
        }
        let to = self.request.deciders();
        let mut transition = RequestTransition::on(self.request);
        transition.request.phase = match self.request.phase.clone() {
            Phase::Open { .. } => Phase::Open { deadline: None },
            Phase::Frozen { since, .. } => Phase::Frozen {
                since,
                remaining_ms: None,
            },
            phase @ (Phase::Decided { .. } | Phase::TimedOut { .. } | Phase::Withdrawn { .. }) => {
                phase
            }
        };
        let progress = &mut transition.request.progress;
        progress.assignee = Some(self.me.clone());
        progress.taken_over = Some(self.mark());
        progress.is_back();
        progress.ladder.begin(self.context.now);
        transition.handoff_event(
            HandoffEventKind::TakenOver,
            self.me.as_str(),
            self.context.now,
        );
        transition.taken_over();
        self.note(&mut transition, "taken_over", None);
        self.tell(&mut transition, RequestEventKind::TakenOver, to);
        Ok(transition.end(shown))
    }

    /// Whom it can be given to.
    fn receiver(
        &self,
        to: &str,
        pointer: &str,
    ) -> Result<(Vec<String>, Option<UserName>), Undecided> {
        let to = vec![to.to_owned()];
        let mut errors =
            audience::faults(&to, pointer, self.context.workspace, self.context.lookup)?;
        if errors.is_empty() {
            let rules = Rules {
                barred: self.request.barred(),
                ..Rules::default()
            };
            match audience::plan(&to, &rules, self.context)? {
                Plan::Assigned(put) if put.reassigned_to.is_none() => {
                    return Ok((to, put.assignee));
                }
                Plan::Assigned(put) if put.only_never => {
                    let message = "whoever asked may not decide it, and nobody else is there";
                    errors.push(FieldError::at(pointer, message));
                }
                Plan::Assigned(_) => {
                    errors.push(FieldError::at(pointer, "nobody active has this role"))
                }
                Plan::Inactive(name) => {
                    errors.push(FieldError::at(pointer, audience::not_active(&name)));
                }
            }
        }
        Err(Refusal::InvalidHold(errors).into())
    }

    fn reassign(&self, to: &str) -> Result<Outcome, Undecided> {
        let (to, assignee) = self.receiver(to, "/action/reassign/to")?;
        let mut transition = RequestTransition::on(self.request);
        transition
            .request
            .progress
            .give(to.clone(), assignee.clone());
        // Whoever has it now owns the run.
        if let (Some(owned), Some(name)) = (&mut transition.request.progress.taken_over, assignee) {
            *owned = AuditStamp {
                by: name.to_string(),
                at: self.context.now,
            };
        }
        transition
            .request
            .progress
            .ladder
            .begin_again(self.context.now);
        let note = format!("to {}", audience::words(&to));
        self.note(&mut transition, "reassigned", Some(note));
        transition.handoff_event(
            HandoffEventKind::Reassigned,
            self.me.as_str(),
            self.context.now,
        );
        self.tell(&mut transition, RequestEventKind::Assigned, to);
        Ok(transition.end(shown))
    }

    fn delegate(&self, to: &str) -> Result<Outcome, Undecided> {
        let (to, _) = self.receiver(to, "/action/delegate/to")?;
        let mut transition = RequestTransition::on(self.request);
        transition.request.also(&to);
        let note = format!("to {}", audience::words(&to));
        self.note(&mut transition, "delegated", Some(note));
        self.tell(&mut transition, RequestEventKind::Assigned, to);
        Ok(transition.end(shown))
    }

    /// Quiet for a while. Who then does nothing is told again, and so are the others: every rung has its
    /// turn once more.
    fn acknowledge(&self) -> Outcome {
        let quiet_ms = ladder::quiet_ms(self.request);
        let mut transition = RequestTransition::on(self.request);
        let ladder = &mut transition.request.progress.ladder;
        ladder.seen(self.context.now, quiet_ms);
        let note = quiet_words(&transition.request, quiet_ms);
        self.note(&mut transition, "acknowledged", Some(note));
        transition.end(shown)
    }

    /// Whether nobody else has it.
    fn is_mine_alone(&self) -> bool {
        let mine = format!("@user.{}", self.me);
        let is_mine = |to: &String| *to == mine;
        let audience = self.request.audience();
        !audience.is_empty()
            && audience.iter().all(is_mine)
            && self.request.progress.also.iter().all(is_mine)
    }

    fn snooze(&self, for_ms: u64) -> Result<Outcome, Undecided> {
        let time = i64::try_from(for_ms)
            .ok()
            .filter(|_| SNOOZE_MS.contains(&for_ms));
        let Some(time) = time else {
            let error = FieldError::at("/action/snooze/for_ms", "1 minute to 30 days");
            return Err(Refusal::InvalidHold(vec![error]).into());
        };
        let wanted = self.context.now + TimeDelta::milliseconds(time);
        let deadline = self.request.next_deadline();
        let until = deadline.map_or(wanted, |deadline| wanted.min(deadline));
        // Nobody else sees it otherwise: what they have seen they still decide.
        let mut transition = RequestTransition::beside(self.request);
        transition
            .request
            .progress
            .snooze(&self.me, self.context.now, until);
        // Where others have it too, it is theirs as before.
        if self.is_mine_alone() {
            ladder::not_before(&mut transition.request, until);
            transition.request.progress.snoozed_until = Some(until);
        }
        let note = holdpoint_contracts::instant::write(until);
        self.note(&mut transition, "snoozed", Some(format!("until {note}")));
        Ok(transition.end(shown))
    }
}

/// For how long it is quiet now, and what comes then: its next rung, or the end of its time.
fn quiet_words(seen: &Request, quiet_ms: u64) -> String {
    let then = match seen.spec.as_ref().map(|spec| spec.on_timeout) {
        Some(OnTimeout::Escalate) => "then the next people are told, and it stays open",
        Some(OnTimeout::Default) => "then its default answer counts",
        Some(OnTimeout::Fail | OnTimeout::Skip | OnTimeout::Continue) | None => {
            "then it ends without an answer"
        }
    };
    let rung = ladder::next(seen).map(|(_, due)| due);
    let is_first = |end: &DateTime<Utc>| rung.is_none_or(|rung| *end <= rung);
    if let Some(end) = seen.next_deadline().filter(is_first) {
        let at = holdpoint_contracts::instant::write(end);
        return format!("quiet until its time is up at {at}; {then}");
    }
    if seen.frozen_ms().is_some_and(|left_ms| left_ms <= quiet_ms) {
        return format!("quiet until its time is up, once it goes on; {then}");
    }
    let time = describe(Duration::from_millis(quiet_ms));
    format!("quiet for {time}; if nothing is done, it is told again")
}

/// Somebody was disabled, or a role has no active member any more: what they had goes to the others it
/// is put to, or to the owners.
pub(crate) fn orphaned(
    request: Option<&Request>,
    gone: &Recipient,
    context: &DecisionContext<'_>,
) -> Result<Outcome, Undecided> {
    let same = || Ok(Outcome::Unchanged(Reply::EventRecorded));
    let Some(request) = request.filter(|request| request.is_open()) else {
        return same();
    };
    let word = gone.to_string();
    let assignee = request.progress.assignee.as_ref();
    let is_put_to = request.deciders().contains(&word);
    let (has_it, is_there) = match gone {
        Recipient::User(name) => {
            let is_there = active_user(context.workspace, name, context.lookup)?.is_some();
            (assignee == Some(name), is_there)
        }
        // Who has it stays, whatever becomes of the role.
        Recipient::Role(_) if assignee.is_some() => return same(),
        Recipient::Role(role) => (false, !audience::members(role, context)?.is_empty()),
    };
    if is_there || !(has_it || is_put_to) {
        return same();
    }
    let left =
        |all: &[String]| -> Vec<_> { all.iter().filter(|one| **one != word).cloned().collect() };
    let to = audience::of_rung(&left(request.addressed_to()), context)?;
    let mut transition = RequestTransition::on(request);
    transition.request.progress.also = left(&request.progress.also);
    if has_it {
        transition.request.progress.give(to.clone(), None);
        transition.request.progress.ladder.begin_again(context.now);
    } else {
        transition.request.progress.reassigned_to = Some(to.clone());
    }
    let why = match gone {
        Recipient::User(name) => format!("{name} was disabled"),
        Recipient::Role(role) => format!("nobody active is in @role.{role}"),
    };
    let note = format!("{why}: back to {}", audience::words(&to));
    // Whoever has it keeps it, and knows of it.
    let action = if has_it { "reassigned" } else { "passed_on" };
    transition.note(action, BY_SERVICE, context.now, Some(note));
    if has_it {
        transition.handoff_event(HandoffEventKind::Reassigned, BY_SERVICE, context.now);
    }
    if has_it || to.is_empty() {
        transition.tell_people(RequestEventKind::Assigned, None, context.now, to);
    }
    Ok(transition.end(|_| Reply::EventRecorded))
}
