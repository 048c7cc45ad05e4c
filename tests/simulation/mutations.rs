//! Mutations of decisions: each breaks one rule, and the simulation must notice it.

use chrono::TimeDelta;
use holdpoint_contracts::hold::{HoldOutcome, HoldState, SetHoldReply};
use holdpoint_contracts::notification::PendingReason;
use holdpoint_decision::Decided;
use holdpoint_handoff::Handoff;
use holdpoint_handoff::domain::{
    Aggregate, Effect, Input, OwnerState, Phase, Refusal, Reply, RequestInput, merge_desired_state,
};
use holdpoint_ids::HoldId;
use holdpoint_notification::Notification;
use holdpoint_notification::domain as notification;

use crate::service::{Mutation, Rewrite};

/// The mutation of the decisions of the handoff service.
pub(crate) fn rewrite(mutation: Mutation) -> Option<Rewrite<Handoff>> {
    match mutation {
        Mutation::DecisionReplaced => Some(replace_decision),
        Mutation::TimeoutStays => Some(keep_timeout),
        Mutation::TimeoutOfOldDeadline => Some(delay_timeouts),
        Mutation::RejectionApproves => Some(approve_rejections),
        Mutation::EditsIgnored => Some(drop_edits),
        Mutation::None
        | Mutation::ReplyBeforeCommit
        | Mutation::PublishBeforeCommit
        | Mutation::DispatchOnce
        | Mutation::DesiredStateOnce
        | Mutation::StartWithoutGrant
        | Mutation::ForgetStartedSteps
        | Mutation::EndlessLease
        | Mutation::UsesUncounted
        | Mutation::LostRightsCount
        | Mutation::EntriesStayUnread
        | Mutation::WebhookCallOnce
        | Mutation::RunEndWithoutWebhooks => None,
    }
}

/// One hold of a run in so many is always refused.
const REFUSED: u64 = 25;

/// Refuses some holds of runs, always the same ones.
pub(crate) fn refuses(input: &Input) -> Option<Refusal> {
    let Input::Request {
        id,
        input: RequestInput::SetDesired { .. },
        ..
    } = input
    else {
        return None;
    };
    is_refused(*id).then(|| Refusal::TimerOfRun(*id))
}

/// Whether a hold is always refused.
pub(crate) fn is_refused(id: HoldId) -> bool {
    let text = id.run.to_string();
    let sum: u64 = text.bytes().map(u64::from).sum::<u64>() + u64::from(id.number);
    // The scripted owner ignores refusals. Its holds have number 1.
    id.number > 1 && sum.is_multiple_of(REFUSED)
}

fn replace_decision(
    known: Option<&Aggregate>,
    input: &Input,
    decision: &mut Decided<holdpoint_handoff::domain::HandoffDomain>,
) {
    let Some(Aggregate::Request(before)) = known else {
        return;
    };
    let Input::Request { input, .. } = input else {
        return;
    };
    let RequestInput::SetDesired { state, .. } = input else {
        return;
    };
    let (Phase::Decided { .. }, HoldState::Open { deadline, .. }) = (&before.phase, state) else {
        return;
    };
    if let Aggregate::Request(after) = &mut decision.state {
        after.phase = Phase::Open {
            deadline: *deadline,
        };
        after.effect = None;
    }
    decision
        .effects
        .retain(|effect| !matches!(effect, Effect::Close(..)));
    decision.reply = Reply::DesiredState(SetHoldReply::Set);
}

fn keep_timeout(
    known: Option<&Aggregate>,
    input: &Input,
    decision: &mut Decided<holdpoint_handoff::domain::HandoffDomain>,
) {
    let Some(Aggregate::Request(before)) = known else {
        return;
    };
    let Input::Request { input, .. } = input else {
        return;
    };
    let RequestInput::SetDesired { state, .. } = input else {
        return;
    };
    let Phase::TimedOut { at } = &before.phase else {
        return;
    };
    let HoldState::Frozen {
        since,
        remaining_ms,
        ..
    } = state
    else {
        return;
    };
    // The mutation must stay in this one cell.
    let cell = merge_desired_state(OwnerState::TimedOut(*at), state);
    assert_eq!(
        *since < *at || *remaining_ms != Some(0),
        cell == holdpoint_handoff::domain::MergeAction::Refreeze
    );
    if let Aggregate::Request(after) = &mut decision.state {
        after.phase = before.phase.clone();
        after.effect = before.effect;
    }
    decision.reply = Reply::DesiredState(SetHoldReply::TimedOut);
}

fn delay_timeouts(
    _: Option<&Aggregate>,
    _: &Input,
    decision: &mut Decided<holdpoint_handoff::domain::HandoffDomain>,
) {
    for effect in &mut decision.effects {
        if let Effect::Close(_, closed) = effect
            && closed.outcome == HoldOutcome::Timeout
        {
            closed.at += TimeDelta::days(400);
        }
    }
}

fn approve_rejections(
    _: Option<&Aggregate>,
    _: &Input,
    decision: &mut Decided<holdpoint_handoff::domain::HandoffDomain>,
) {
    for effect in &mut decision.effects {
        if let Effect::Close(_, closed) = effect
            && closed.outcome == HoldOutcome::Rejected
        {
            closed.outcome = HoldOutcome::Approved;
        }
    }
}

fn drop_edits(
    _: Option<&Aggregate>,
    _: &Input,
    decision: &mut Decided<holdpoint_handoff::domain::HandoffDomain>,
) {
    for effect in &mut decision.effects {
        if let Effect::Close(_, closed) = effect
            && let Some(data) = closed.data.as_object_mut()
        {
            data.remove("edited_args");
        }
    }
}

/// The mutation of the decisions of the notification service.
pub(crate) fn rewrite_notification(mutation: Mutation) -> Option<Rewrite<Notification>> {
    match mutation {
        Mutation::EntriesStayUnread => Some(keep_entries_unread),
        Mutation::WebhookCallOnce => Some(call_webhooks_once),
        Mutation::RunEndWithoutWebhooks => Some(drop_calls_of_run_ends),
        Mutation::None
        | Mutation::ReplyBeforeCommit
        | Mutation::PublishBeforeCommit
        | Mutation::DispatchOnce
        | Mutation::DesiredStateOnce
        | Mutation::StartWithoutGrant
        | Mutation::ForgetStartedSteps
        | Mutation::EndlessLease
        | Mutation::DecisionReplaced
        | Mutation::TimeoutStays
        | Mutation::TimeoutOfOldDeadline
        | Mutation::RejectionApproves
        | Mutation::EditsIgnored
        | Mutation::UsesUncounted
        | Mutation::LostRightsCount => None,
    }
}

fn keep_entries_unread(
    _: Option<&notification::Aggregate>,
    _: &notification::Input,
    decision: &mut Decided<notification::NotificationDomain>,
) {
    let is_kept = |effect: &notification::Effect| {
        !matches!(effect, notification::Effect::ReadRequestEntries { .. })
    };
    decision.effects.retain(is_kept);
}

fn call_webhooks_once(
    _: Option<&notification::Aggregate>,
    _: &notification::Input,
    decision: &mut Decided<notification::NotificationDomain>,
) {
    if let notification::Aggregate::Delivery(delivery) = &mut decision.state
        && matches!(delivery.key.to, notification::DeliveryTarget::Webhook(_))
        && matches!(
            delivery.phase,
            notification::Phase::Pending {
                waits: PendingReason::Retry,
                ..
            }
        )
    {
        delivery.phase = notification::Phase::Failed;
    }
}

fn drop_calls_of_run_ends(
    _: Option<&notification::Aggregate>,
    input: &notification::Input,
    decision: &mut Decided<notification::NotificationDomain>,
) {
    if let notification::Input::RecordRunEnd { .. } = input {
        let is_kept =
            |effect: &notification::Effect| !matches!(effect, notification::Effect::Deliver { .. });
        decision.effects.retain(is_kept);
    }
}
