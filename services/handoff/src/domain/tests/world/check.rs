//! Invariants of every decision.

use super::*;

/// Whether nothing else has changed than that the scheduler confirmed a cleared timer.
fn is_timer_acknowledgement(before: Option<&Request>, next: &Request) -> bool {
    before.is_some_and(|before| {
        let mut confirmed = before.clone();
        confirmed.timer.is_acknowledged = true;
        confirmed.version = next.version;
        !before.timer.is_acknowledged && confirmed == *next
    })
}

/// The version of the change itself. A mention is an event with the version after it.
fn changed_version(before: Option<&Request>, next: &Request, effects: &[Effect]) -> u64 {
    let is_mention = |effect: &&Effect| matches!(effect, Effect::RequestEvent(_, event) if event.kind == RequestEventKind::Mentioned);
    let mentions = effects.iter().filter(is_mention).count();
    let changed = before.map_or(0, |it| it.version) + 1;
    assert!(mentions <= 1);
    let is_nudge = |effect: &&Effect| matches!(effect, Effect::Changed { .. });
    let nudges = effects.iter().filter(is_nudge).count();
    let is_seen = !is_timer_acknowledgement(before, next) || next.kind() == Some(HoldKind::Handoff);
    let expected = usize::from(is_seen);
    assert_eq!(nudges, expected, "watchers are nudged once for each change");
    assert_eq!(next.version, changed + mentions as u64);
    changed
}

/// Checks the invariants of a change.
pub(super) fn check(before: Option<&Request>, next: &Request, effects: &[Effect]) {
    let changed = changed_version(before, next, effects);
    // Nothing waits without a waker: a timer is set, or the owners were notified and the deadline has passed.
    if let Phase::Open { deadline } = next.phase {
        let is_timer = next.spec.as_ref().unwrap().kind == HoldKind::Timer;
        // A reassignment to other users does not count the earlier notification of the owners.
        let owners_were = |one: &&RequestHistoryEntry| {
            let note = one.note.as_deref().unwrap_or_default();
            note.contains("the owners")
        };
        let said = next.progress.history.iter().rev();
        let mut since = said.take_while(|one| one.action != "reassigned" || owners_were(one));
        let is_known = since.any(|one| owners_were(&one));
        // The owner of a taken-over run needs no timer. The sweep reassigns the requests of leaving users.
        assert!(
            next.timer.due.is_some() || next.is_owned() || (is_known && !is_timer),
            "{next:?}"
        );
        let is_escalated = next
            .escalated_at
            .is_some_and(|at| deadline.is_none_or(|due| due <= at));
        let first = deadline.filter(|_| !is_escalated);
        assert!(
            first.is_none_or(|due| next.timer.due.is_some_and(|timer| timer <= due)),
            "{next:?}"
        );
    } else {
        assert_eq!(next.timer.due, None, "a timer that no request waits for");
    }
    for effect in effects {
        match effect {
            Effect::Timer(_, timer) => {
                assert_eq!((timer.rev, timer.due), (next.timer.rev, next.timer.due));
            }
            Effect::Close(_, closed) => assert_eq!(Some(closed.rev), next.closed_rev),
            Effect::HandoffUpdate(_, handled) => {
                assert_eq!((handled.id, handled.rev), (next.id, changed));
                let is_closing = next.effect == Some(DecisionEffect::Pending);
                assert!(!is_closing, "a history is in order: {next:?}");
            }
            Effect::RequestEvent(_, fact) => {
                let is_mention = fact.kind == RequestEventKind::Mentioned;
                let version = changed + u64::from(is_mention);
                assert_eq!((fact.id, fact.rev), (next.id, version));
                assert_eq!(fact.request.version, version);
            }
            Effect::Changed { id, version, .. } => {
                assert_eq!((*id, *version), (next.id, next.version));
            }
            Effect::StandingApprovalUsed { request, .. } => assert_eq!(*request, next.id),
            Effect::Erased { id, .. } => assert_eq!(*id, next.id),
            Effect::UserChanged(..) | Effect::DeleteExpired { .. } => {
                panic!("a request changed something else")
            }
        }
    }
    if let Some(Request {
        phase: phase @ Phase::Decided { .. },
        ..
    }) = before
    {
        let mut recorded = Request {
            phase: phase.clone(),
            ..next.clone()
        };
        if let Some(at) = next.erased_at {
            recorded.erase(at);
        }
        assert_eq!(
            recorded.phase, next.phase,
            "a recorded decision never changes"
        );
    }
}
