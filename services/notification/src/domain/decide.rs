//! Which aggregate an input is for, and what it does there.

use chrono::{DateTime, Utc};
use holdpoint_contracts::notification::{EndNoted, Noted, WebhookSecretView};
use holdpoint_ids::Workspace;

use super::{
    Aggregate, Answer, Change, Copy, Delivery, Effect, End, Input, Look, Note, Preferences,
    Refusal, Secret, Step, Stop, Watch, Webhook, copy, delivery, end, note, preferences, watch,
    webhook,
};

/// Decides what an input does. Total and pure: same arguments, same answer.
pub(crate) fn decide(
    state: Option<&Aggregate>,
    input: &Input,
    look: Look<'_>,
    now: DateTime<Utc>,
) -> Result<Step, Stop> {
    let known = Known::of(state);
    match input {
        Input::Told { workspace, fact } => match state {
            Some(_) => Ok(Step::Same(Answer::Noted(Noted::Known))),
            None => note::told(workspace, fact, look, now),
        },
        Input::GoOn(_) => known
            .note
            .map_or_else(nothing, |note| note::go_on(note, look, now)),
        Input::Ended { workspace, end } => match state {
            Some(_) => Ok(Step::Same(Answer::EndNoted(EndNoted::Known))),
            None => end::told(workspace, end, look, now),
        },
        Input::EndGoesOn(_) => known
            .end
            .map_or_else(nothing, |known| end::go_on(known, look, now)),
        Input::EndedBefore { end, .. } => known
            .watch
            .map_or_else(nothing, |watch| end::ended_before(watch, end, look, now)),
        Input::Read { id, .. } => known
            .copy
            .map(|copy| copy::read(copy, now))
            .ok_or_else(|| Refusal::NoNotification(*id).into()),
        Input::ReadAll {
            workspace,
            person,
            until,
        } => copy::read_all(workspace, person, *until, look),
        Input::Claim(_) => known
            .delivery
            .map_or_else(nothing, |one| delivery::claim(one, look, now)),
        Input::Reported {
            attempt, report, ..
        } => known.delivery.map_or_else(nothing, |one| {
            delivery::reported(one, (*attempt, report), look, now)
        }),
        Input::Secret { workspace, fresh } => Ok(known
            .secret
            .map_or_else(|| made(workspace, fresh), |one| Step::Same(shown(one)))),
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
        } => watch::add(known.watch, (workspace, person, of), look, now),
        Input::Unwatch { of, .. } => watch::remove(known.watch, of),
        Input::AddWebhook(new) => webhook::add(known.webhook, new, look),
        Input::RemoveWebhook { id, .. } => known
            .webhook
            .map_or_else(|| Err(Refusal::NoWebhook(*id).into()), webhook::remove),
        Input::ChangeWebhook {
            id, to, enabled, ..
        } => known.webhook.map_or_else(
            || Err(Refusal::NoWebhook(*id).into()),
            |one| webhook::put(one, to, *enabled, now),
        ),
        Input::Called { call, .. } => known
            .webhook
            .map_or_else(nothing, |one| webhook::called(one, call, look, now)),
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
const fn nothing() -> Result<Step, Stop> {
    Ok(Step::Same(Answer::Done))
}

/// An effect without a state of its own.
fn alone(effect: Effect) -> Step {
    Step::Changed(Box::new(Change {
        state: Aggregate::Users,
        effects: vec![effect],
        facts: Vec::new(),
        answer: Answer::Done,
    }))
}

fn made(workspace: &Workspace, fresh: &str) -> Step {
    let secret = Secret {
        workspace: workspace.clone(),
        text: fresh.to_owned(),
    };
    let answer = shown(&secret);
    Step::Changed(Box::new(Change {
        state: Aggregate::Secret(Box::new(secret)),
        effects: Vec::new(),
        facts: Vec::new(),
        answer,
    }))
}

fn shown(secret: &Secret) -> Answer {
    Answer::Secret(WebhookSecretView {
        secret: secret.text.clone(),
    })
}
