//! What a person does with a request short of deciding it: accept, take over, reassign, delegate,
//! acknowledge, snooze. And what becomes of it when whoever has it leaves.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::duration::describe;
use holdpoint_contracts::handoff::RequestAction;
use holdpoint_contracts::hold::{DeedKind, OnTimeout};
use holdpoint_contracts::notification::FactKind;
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::UserName;

use super::audience::{self, Party, Plan, Rules};
use super::caller::{Caller, active_user};
use super::deciding::{Addressed, addressed, already_decided, is_free, may_decide};
use super::handling::Mark;
use super::ladder;
use super::limits::SNOOZE_MS;
use super::refusal::Refusal;
use super::request::{BY_SERVICE, Phase, Request};
use super::standalone::shown;
use super::turn::Turn;
use super::{Answer, Scene, Step, Stop};

pub(crate) fn act(
    request: Option<&Request>,
    caller: &Caller,
    action: &RequestAction,
    version: Option<u64>,
    scene: &Scene<'_>,
) -> Result<Step, Stop> {
    let addressed = addressed(request, caller, scene)?;
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
    let deed = Deed { request, me, scene };
    match action {
        RequestAction::Accept => deed.accept(),
        RequestAction::TakeOver if spec.kind != HoldKind::Handoff => {
            Err(wrong_kind(request, spec.kind, "take_over"))
        }
        RequestAction::TakeOver => deed.take_over(),
        RequestAction::Reassign { to } => deed.reassign(to),
        RequestAction::Delegate { to } => deed.delegate(to),
        RequestAction::Acknowledge => Ok(deed.acknowledge()),
        RequestAction::Snooze { for_ms } => deed.snooze(*for_ms),
    }
}

/// Whether somebody has what is wanted: who that is is told, and not only that something has changed.
const fn is_somebodys(request: &Request, action: &RequestAction) -> bool {
    let (taken, accepted) = (
        request.handling.taken_over.is_some(),
        request.handling.accepted.is_some(),
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

fn wrong_kind(request: &Request, kind: HoldKind, action: &'static str) -> Stop {
    let id = request.id;
    Refusal::WrongKind { id, kind, action }.into()
}

/// Somebody who may, about to do something with a request that stands.
struct Deed<'a> {
    request: &'a Request,
    me: UserName,
    scene: &'a Scene<'a>,
}

impl Deed<'_> {
    fn mark(&self) -> Mark {
        Mark {
            by: self.me.to_string(),
            at: self.scene.now,
        }
    }

    fn note(&self, turn: &mut Turn, action: &str, note: Option<String>) {
        turn.note(action, self.me.as_str(), self.scene.now, note);
    }

    fn tell(&self, turn: &mut Turn, kind: FactKind, to: Vec<String>) {
        turn.tell_people(kind, Some(self.me.as_str()), self.scene.now, to);
    }

    /// Somebody else was first; by the same person it is done already.
    fn is_done(&self, mark: Option<&Mark>, what: &'static str) -> Result<bool, Stop> {
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

    fn accept(&self) -> Result<Step, Stop> {
        may_decide(self.request, &self.me)?;
        let handling = &self.request.handling;
        self.is_done(handling.taken_over.as_ref(), "taken_over")?;
        if self.is_done(handling.accepted.as_ref(), "accepted")? {
            return Ok(Step::Same(shown(self.request)));
        }
        let mut turn = Turn::on(self.request);
        turn.request.handling.assignee = Some(self.me.clone());
        turn.request.handling.accepted = Some(self.mark());
        turn.request.handling.is_back();
        if turn.request.handling.settled.stops_on_accept {
            turn.request.handling.ladder.begin_again(self.scene.now);
        }
        self.note(&mut turn, "accepted", None);
        turn.deed(DeedKind::Accepted, self.me.as_str(), self.scene.now);
        Ok(turn.end(shown))
    }

    /// The timer stops here and now; the executor is told by the same wish that will say how it ends.
    fn take_over(&self) -> Result<Step, Stop> {
        may_decide(self.request, &self.me)?;
        // What was given away again is anybody's of those who have it now.
        if self.is_done(self.request.owned(), "taken_over")? {
            return Ok(Step::Same(shown(self.request)));
        }
        let to = self.request.deciders();
        let mut turn = Turn::on(self.request);
        turn.request.phase = match self.request.phase.clone() {
            Phase::Open { .. } => Phase::Open { deadline: None },
            Phase::Frozen { since, .. } => Phase::Frozen {
                since,
                remaining_ms: None,
            },
            phase @ (Phase::Decided { .. } | Phase::TimedOut { .. } | Phase::Gone { .. }) => phase,
        };
        let handling = &mut turn.request.handling;
        handling.assignee = Some(self.me.clone());
        handling.taken_over = Some(self.mark());
        handling.is_back();
        handling.ladder.begin(self.scene.now);
        turn.deed(DeedKind::TakenOver, self.me.as_str(), self.scene.now);
        turn.taken_over();
        self.note(&mut turn, "taken_over", None);
        self.tell(&mut turn, FactKind::TakenOver, to);
        Ok(turn.end(shown))
    }

    /// Whom it can be given to.
    fn receiver(&self, to: &str, pointer: &str) -> Result<(Vec<String>, Option<UserName>), Stop> {
        let to = vec![to.to_owned()];
        let mut errors = audience::faults(&to, pointer, self.scene.workspace, self.scene.look)?;
        if errors.is_empty() {
            let rules = Rules {
                barred: self.request.barred(),
                ..Rules::default()
            };
            match audience::plan(&to, &rules, self.scene)? {
                Plan::Put(put) if put.moved_to.is_none() => return Ok((to, put.assignee)),
                Plan::Put(put) if put.only_never => {
                    let message = "whoever asked may not decide it, and nobody else is there";
                    errors.push(FieldError::at(pointer, message));
                }
                Plan::Put(_) => errors.push(FieldError::at(pointer, "nobody active has this role")),
                Plan::Inactive(name) => {
                    errors.push(FieldError::at(pointer, audience::not_active(&name)));
                }
            }
        }
        Err(Refusal::InvalidHold(errors).into())
    }

    fn reassign(&self, to: &str) -> Result<Step, Stop> {
        let (to, assignee) = self.receiver(to, "/action/reassign/to")?;
        let mut turn = Turn::on(self.request);
        turn.request.handling.give(to.clone(), assignee.clone());
        // Whoever has it now owns the run.
        if let (Some(owned), Some(name)) = (&mut turn.request.handling.taken_over, assignee) {
            *owned = Mark {
                by: name.to_string(),
                at: self.scene.now,
            };
        }
        turn.request.handling.ladder.begin_again(self.scene.now);
        let note = format!("to {}", audience::words(&to));
        self.note(&mut turn, "reassigned", Some(note));
        turn.deed(DeedKind::Reassigned, self.me.as_str(), self.scene.now);
        self.tell(&mut turn, FactKind::Assigned, to);
        Ok(turn.end(shown))
    }

    fn delegate(&self, to: &str) -> Result<Step, Stop> {
        let (to, _) = self.receiver(to, "/action/delegate/to")?;
        let mut turn = Turn::on(self.request);
        turn.request.also(&to);
        let note = format!("to {}", audience::words(&to));
        self.note(&mut turn, "delegated", Some(note));
        self.tell(&mut turn, FactKind::Assigned, to);
        Ok(turn.end(shown))
    }

    /// Quiet for a while. Who then does nothing is told again, and so are the others: every rung has its
    /// turn once more.
    fn acknowledge(&self) -> Step {
        let quiet_ms = ladder::quiet_ms(self.request);
        let mut turn = Turn::on(self.request);
        let ladder = &mut turn.request.handling.ladder;
        ladder.seen(self.scene.now, quiet_ms);
        let note = quiet_words(&turn.request, quiet_ms);
        self.note(&mut turn, "acknowledged", Some(note));
        turn.end(shown)
    }

    /// Whether nobody else has it.
    fn is_mine_alone(&self) -> bool {
        let mine = format!("@user.{}", self.me);
        let is_mine = |to: &String| *to == mine;
        let audience = self.request.audience();
        !audience.is_empty()
            && audience.iter().all(is_mine)
            && self.request.handling.also.iter().all(is_mine)
    }

    fn snooze(&self, for_ms: u64) -> Result<Step, Stop> {
        let time = i64::try_from(for_ms)
            .ok()
            .filter(|_| SNOOZE_MS.contains(&for_ms));
        let Some(time) = time else {
            let error = FieldError::at("/action/snooze/for_ms", "1 minute to 30 days");
            return Err(Refusal::InvalidHold(vec![error]).into());
        };
        let wanted = self.scene.now + TimeDelta::milliseconds(time);
        let deadline = self.request.next_deadline();
        let until = deadline.map_or(wanted, |deadline| wanted.min(deadline));
        // Nobody else sees it otherwise: what they have seen they still decide.
        let mut turn = Turn::beside(self.request);
        turn.request
            .handling
            .snooze(&self.me, self.scene.now, until);
        // Where others have it too, it is theirs as before.
        if self.is_mine_alone() {
            ladder::not_before(&mut turn.request, until);
            turn.request.handling.snoozed_until = Some(until);
        }
        let note = holdpoint_contracts::instant::write(until);
        self.note(&mut turn, "snoozed", Some(format!("until {note}")));
        Ok(turn.end(shown))
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
    gone: &Party,
    scene: &Scene<'_>,
) -> Result<Step, Stop> {
    let same = || Ok(Step::Same(Answer::Noted));
    let Some(request) = request.filter(|request| request.is_standing()) else {
        return same();
    };
    let word = gone.to_string();
    let assignee = request.handling.assignee.as_ref();
    let is_put_to = request.deciders().contains(&word);
    let (has_it, is_there) = match gone {
        Party::User(name) => {
            let is_there = active_user(scene.workspace, name, scene.look)?.is_some();
            (assignee == Some(name), is_there)
        }
        // Who has it stays, whatever becomes of the role.
        Party::Role(_) if assignee.is_some() => return same(),
        Party::Role(role) => (false, !audience::members(role, scene)?.is_empty()),
    };
    if is_there || !(has_it || is_put_to) {
        return same();
    }
    let left =
        |all: &[String]| -> Vec<_> { all.iter().filter(|one| **one != word).cloned().collect() };
    let to = audience::of_rung(&left(request.put_to()), scene)?;
    let mut turn = Turn::on(request);
    turn.request.handling.also = left(&request.handling.also);
    if has_it {
        turn.request.handling.give(to.clone(), None);
        turn.request.handling.ladder.begin_again(scene.now);
    } else {
        turn.request.handling.moved_to = Some(to.clone());
    }
    let why = match gone {
        Party::User(name) => format!("{name} was disabled"),
        Party::Role(role) => format!("nobody active is in @role.{role}"),
    };
    let note = format!("{why}: back to {}", audience::words(&to));
    // Whoever has it keeps it, and knows of it.
    let action = if has_it { "reassigned" } else { "passed_on" };
    turn.note(action, BY_SERVICE, scene.now, Some(note));
    if has_it {
        turn.deed(DeedKind::Reassigned, BY_SERVICE, scene.now);
    }
    if has_it || to.is_empty() {
        turn.tell_people(FactKind::Assigned, None, scene.now, to);
    }
    Ok(turn.end(|_| Answer::Noted))
}
