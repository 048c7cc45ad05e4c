//! Which aggregate an input is for, and what it does there.

use chrono::{DateTime, Utc};
use holdpoint_contracts::Problem;
use holdpoint_contracts::notification::{
    EventRecorded, PendingReason, RunEndRecorded, WebhookSecretView,
};
use holdpoint_decision::Decider;
use holdpoint_ids::Workspace;

use super::{
    Aggregate, Change, Copy, Delivery, Effect, End, Fact, FanOutProgress, Input, Key, LookupFn,
    Need, Note, NotificationDomain, Outcome, Phase, Preferences, Refusal, Reply, Secret, Undecided,
    Watch, Webhook, copy, delivery, end, note, preferences, watch, webhook,
};

impl Decider for NotificationDomain {
    type Key = Key;
    type State = Aggregate;
    type Input = Input;
    type Need = Need;
    type Fact = Fact;
    type Effect = Effect;
    type Refusal = Refusal;
    type Reply = Reply;

    fn key(input: &Input) -> Key {
        input.key()
    }

    fn decide(
        state: Option<&Aggregate>,
        input: &Input,
        lookup: LookupFn<'_>,
        now: DateTime<Utc>,
    ) -> Result<Outcome, Undecided> {
        decide(state, input, lookup, now)
    }

    fn aggregate(need: &Need) -> Option<Key> {
        match need {
            Need::Members { .. }
            | Need::Person(..)
            | Need::RequestLifecycle(..)
            | Need::Webhooks(_)
            | Need::Watchers { .. }
            | Need::WatchStatus(..)
            | Need::Unread { .. } => None,
        }
    }

    fn fact(_: &Aggregate) -> Option<Fact> {
        None
    }

    fn version(state: &Aggregate) -> u64 {
        match state {
            Aggregate::Note(note) => note.version,
            Aggregate::End(end) => end.version,
            Aggregate::Copy(copy) => copy.version(),
            Aggregate::Delivery(delivery) => delivery.version,
            Aggregate::Preferences(preferences) => preferences.version,
            Aggregate::Webhook(webhook) => webhook.version,
            Aggregate::Watch(watch) => watch.version,
            Aggregate::Secret(_) | Aggregate::Users => 1,
        }
    }

    /// A fact whose people are still being told is soon decided again.
    fn is_hot(state: &Aggregate) -> bool {
        match state {
            Aggregate::Note(note) => note.fan != FanOutProgress::Done,
            Aggregate::End(end) => end.fan != FanOutProgress::Done,
            // Claimed: what came of it is soon told. What waits longer is read anew each time: a person
            // may have changed when it is due, beside its state.
            Aggregate::Delivery(one) => {
                let is_out = |waits: &PendingReason| *waits == PendingReason::Answer;
                matches!(&one.phase, Phase::Pending { waits, .. } if is_out(waits))
            }
            Aggregate::Copy(_)
            | Aggregate::Secret(_)
            | Aggregate::Preferences(_)
            | Aggregate::Webhook(_)
            | Aggregate::Watch(_)
            | Aggregate::Users => false,
        }
    }

    fn problem(refusal: &Refusal) -> Problem {
        refusal.problem()
    }
}

/// Decides what an input does. Total and pure: same arguments, same answer.
pub(crate) fn decide(
    state: Option<&Aggregate>,
    input: &Input,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Result<Outcome, Undecided> {
    let known = Known::of(state);
    match input {
        Input::Told { workspace, fact } => match state {
            Some(_) => Ok(Outcome::Unchanged(Reply::EventRecorded(
                EventRecorded::Known,
            ))),
            None => note::told(workspace, fact, lookup, now),
        },
        Input::GoOn(_) => known
            .note
            .map_or_else(nothing, |note| note::go_on(note, lookup, now)),
        Input::Ended { workspace, end } => match state {
            Some(_) => Ok(Outcome::Unchanged(Reply::RunEndRecorded(
                RunEndRecorded::Known,
            ))),
            None => end::told(workspace, end, lookup, now),
        },
        Input::EndGoesOn(_) => known
            .end
            .map_or_else(nothing, |known| end::go_on(known, lookup, now)),
        Input::EndedBefore { end, .. } => known
            .watch
            .map_or_else(nothing, |watch| end::ended_before(watch, end, lookup, now)),
        Input::Read { id, .. } => known
            .copy
            .map(|copy| copy::read(copy, now))
            .ok_or_else(|| Refusal::NoNotification(*id).into()),
        Input::ReadAll {
            workspace,
            person,
            until,
        } => copy::read_all(workspace, person, *until, lookup),
        Input::Claim(_) => known
            .delivery
            .map_or_else(nothing, |one| delivery::claim(one, lookup, now)),
        Input::Reported {
            attempt, report, ..
        } => known.delivery.map_or_else(nothing, |one| {
            delivery::reported(one, (*attempt, report), lookup, now)
        }),
        Input::Secret { workspace, fresh } => Ok(known.secret.map_or_else(
            || made(workspace, fresh),
            |one| Outcome::Unchanged(shown(one)),
        )),
        Input::Prefer {
            workspace,
            person,
            said,
            fresh,
        } => preferences::put(known.preferences, (workspace, person), (said, fresh), now),
        Input::Digest { .. } => known
            .preferences
            .map_or_else(nothing, |said| Ok(preferences::digest(said, now))),
        Input::Watch {
            workspace,
            person,
            of,
        } => watch::add(known.watch, (workspace, person, of), lookup, now),
        Input::Unwatch { of, .. } => watch::remove(known.watch, of),
        Input::AddWebhook(new) => webhook::add(known.webhook, new, lookup),
        Input::RemoveWebhook { id, .. } => known
            .webhook
            .map_or_else(|| Err(Refusal::NoWebhook(*id).into()), webhook::remove),
        Input::ChangeWebhook {
            id, to, enabled, ..
        } => known.webhook.map_or_else(
            || Err(Refusal::NoWebhook(*id).into()),
            |one| webhook::put(one, to, *enabled, now),
        ),
        Input::WatchRunEnds { .. } => known
            .webhook
            .map_or_else(nothing, |one| Ok(webhook::watch_run_ends(one))),
        Input::Called { call, .. } => known
            .webhook
            .map_or_else(nothing, |one| webhook::called(one, call, lookup, now)),
        Input::Forget { before } => Ok(alone(Effect::Forget { before: *before })),
        Input::Users(facts) => Ok(alone(Effect::Users(facts.clone()))),
    }
}

/// The aggregate as what it is: a key names one kind, so of these one is there at most.
#[derive(Default)]
struct Known<'s> {
    note: Option<&'s Note>,
    end: Option<&'s End>,
    copy: Option<&'s Copy>,
    delivery: Option<&'s Delivery>,
    secret: Option<&'s Secret>,
    preferences: Option<&'s Preferences>,
    webhook: Option<&'s Webhook>,
    watch: Option<&'s Watch>,
}

impl<'s> Known<'s> {
    fn of(state: Option<&'s Aggregate>) -> Self {
        let mut known = Self::default();
        match state {
            Some(Aggregate::Note(note)) => known.note = Some(note),
            Some(Aggregate::End(end)) => known.end = Some(end),
            Some(Aggregate::Copy(copy)) => known.copy = Some(copy),
            Some(Aggregate::Delivery(one)) => known.delivery = Some(one),
            Some(Aggregate::Secret(secret)) => known.secret = Some(secret),
            Some(Aggregate::Preferences(said)) => known.preferences = Some(said),
            Some(Aggregate::Webhook(webhook)) => known.webhook = Some(webhook),
            Some(Aggregate::Watch(watch)) => known.watch = Some(watch),
            Some(Aggregate::Users) | None => {}
        }
        known
    }
}

/// A sweep found it in the tables, and it has gone since.
const fn nothing() -> Result<Outcome, Undecided> {
    Ok(Outcome::Unchanged(Reply::Done))
}

/// An effect without a state of its own.
fn alone(effect: Effect) -> Outcome {
    Outcome::Decided(Box::new(Change {
        state: Aggregate::Users,
        effects: vec![effect],
        facts: Vec::new(),
        reply: Reply::Done,
    }))
}

fn made(workspace: &Workspace, fresh: &str) -> Outcome {
    let secret = Secret {
        workspace: workspace.clone(),
        text: fresh.to_owned(),
    };
    let answer = shown(&secret);
    Outcome::Decided(Box::new(Change {
        state: Aggregate::Secret(Box::new(secret)),
        effects: Vec::new(),
        facts: Vec::new(),
        reply: answer,
    }))
}

fn shown(secret: &Secret) -> Reply {
    Reply::Secret(WebhookSecretView {
        secret: secret.text.clone(),
    })
}
