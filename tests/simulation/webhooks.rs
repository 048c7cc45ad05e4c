//! Webhooks: administrators add, disable and enable them, and their receivers accept calls, fail or refuse them.
//!
//! Each event that an active webhook wants must be called at least once, or end as given up after its retries.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use holdpoint_contracts::notification::{
    AddWebhook, ChangeWebhook, PendingReason, WebhookFormat, event_name, run_event_name,
};
use holdpoint_ids::{NotificationId, WebhookId};
use holdpoint_notification::domain::{
    Aggregate, AttemptReport, CallOutcome, Delivery, DeliveryKey, DeliveryTarget, Effect,
    FanOutProgress, Input, Key, NotificationEvent, Phase, Subject, Subscription, TRIES_MAX,
    Webhook,
};

use crate::features::Feature;
use crate::notification::deliveries;
use crate::service::Env;
use crate::world::{World, acme, env_of};

/// A webhook of a history.
struct Hook {
    id: &'static str,
    /// The administrator who adds it, as an index into the people.
    person: usize,
    url: &'static str,
    events: &'static [&'static str],
}

/// The first one wants every event, so that it must be called for every run end.
const HOOKS: [Hook; 2] = [
    Hook {
        id: "wh_00000000000000000000000000000001",
        person: 0,
        url: "https://all.example.com/events",
        events: &["*"],
    },
    Hook {
        id: "wh_00000000000000000000000000000002",
        person: 1,
        url: "https://some.example.com/events",
        events: &["approval.*", "handoff.completed", "run.failed"],
    },
];

impl Hook {
    fn id(&self) -> WebhookId {
        self.id.parse().unwrap()
    }

    fn wants(&self, event: &str) -> bool {
        self.events.iter().any(|wanted| {
            let prefix = wanted.strip_suffix('*');
            prefix.map_or(*wanted == event, |prefix| event.starts_with(prefix))
        })
    }
}

/// How the receiver of a webhook behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Receiver {
    #[default]
    Accepts,
    /// It fails until it recovers. A webhook that fails for days is disabled.
    Fails,
    /// It refuses for good, which disables the webhook.
    Refuses,
}

/// Observations of webhooks, for the checks at the end.
#[derive(Default)]
pub(crate) struct WebhookCalls {
    /// Events that an active webhook wanted when they were recorded.
    wanted: BTreeSet<(NotificationId, WebhookId)>,
    /// Webhooks that were disabled at some time.
    disabled: BTreeSet<WebhookId>,
    /// Calls that their receiver has refused for good.
    refused: BTreeSet<DeliveryKey>,
    /// Calls that were not made because the webhook was disabled.
    not_made: BTreeSet<DeliveryKey>,
}

impl WebhookCalls {
    /// Notes which events of a commit have to be called. A webhook that the same commit changes may go either way.
    pub(crate) fn observe(&mut self, before: &HashMap<Key, Aggregate>, after: &[(Key, Aggregate)]) {
        let changed: Vec<_> = after
            .iter()
            .filter_map(|(_, state)| state.as_webhook())
            .collect();
        let disabled = changed.iter().filter(|webhook| !webhook.is_active());
        self.disabled.extend(disabled.map(|webhook| webhook.id));
        for (key, state) in after {
            let Some(name) = state.as_event().and_then(event_to_call) else {
                continue;
            };
            let known = before.get(key).and_then(Aggregate::as_event);
            if known.and_then(event_to_call).is_some() {
                continue;
            }
            for hook in HOOKS.iter().filter(|hook| hook.wants(name)) {
                let id = hook.id();
                let webhook = before.get(&Key::Webhook(acme(), id));
                let was_active = webhook
                    .and_then(Aggregate::as_webhook)
                    .is_some_and(Webhook::is_active);
                let mut changes = changed.iter().filter(|webhook| webhook.id == id);
                if was_active && changes.all(|webhook| webhook.is_active()) {
                    let event = state.as_event().unwrap();
                    self.wanted.insert((event.id(), id));
                }
            }
        }
    }
}

/// The name of a recorded event. `None`: it has no name, or it is stored for a late watcher only.
fn event_to_call(event: &NotificationEvent) -> Option<&'static str> {
    match &event.subject {
        Subject::Request { event, .. } => event_name(event.request.kind, event.kind),
        Subject::RunEnd(_) if event.fan_out == FanOutProgress::NotStarted => None,
        Subject::RunEnd(end) => run_event_name(end.status),
        Subject::Contact { .. } | Subject::System(_) => None,
    }
}

/// The webhooks of the workspace with their pending deliveries, oldest first.
pub(crate) fn subscriptions(states: &HashMap<Key, Aggregate>) -> Vec<Subscription> {
    let webhooks = states.values().filter_map(Aggregate::as_webhook);
    let mut all: Vec<_> = webhooks
        .map(|webhook| {
            let is_pending = |one: &&Delivery| {
                one.phase.as_pending().is_some()
                    && one.key.to == DeliveryTarget::Webhook(webhook.id)
            };
            let pending = states
                .values()
                .filter_map(Aggregate::as_delivery)
                .filter(is_pending)
                .count();
            Subscription {
                webhook: Arc::new(webhook.clone()),
                pending: pending as u64,
            }
        })
        .collect();
    all.sort_by_key(|one| one.webhook.id);
    all
}

/// The deliveries of a webhook that wait for a retry are due now.
pub(crate) fn retry_now(
    states: &mut HashMap<Key, Aggregate>,
    effect: &Effect,
    now: chrono::DateTime<chrono::Utc>,
) {
    let Effect::RetryWebhook { id, .. } = effect else {
        return;
    };
    for state in states.values_mut() {
        if let Aggregate::Delivery(one) = state
            && one.key.to == DeliveryTarget::Webhook(*id)
            && let Phase::Pending { next_at, waits } = &mut one.phase
            && *waits == PendingReason::Retry
            && *next_at > now
        {
            *next_at = now;
            *waits = PendingReason::Queued;
        }
    }
}

impl World {
    pub(crate) fn add_webhooks(&mut self) {
        if !self.features.has(Feature::Webhooks) {
            return;
        }
        for hook in &HOOKS {
            let command = AddWebhook {
                id: hook.id(),
                url: hook.url.to_owned(),
                events: hook.events.iter().map(|one| (*one).to_owned()).collect(),
                format: WebhookFormat::Standard,
            };
            self.signed(hook.person, command);
        }
    }

    /// An administrator disables a webhook, or enables it again.
    pub(crate) fn change_webhook(&mut self) {
        let hook = &HOOKS[self.chance.place(HOOKS.len())];
        let command = ChangeWebhook {
            id: hook.id(),
            url: hook.url.to_owned(),
            events: hook.events.iter().map(|one| (*one).to_owned()).collect(),
            format: WebhookFormat::Standard,
            enabled: !self.chance.one_in(4),
        };
        self.signed(hook.person, command);
    }

    /// A receiver breaks, or recovers.
    pub(crate) fn change_receiver(&mut self) {
        let id = HOOKS[self.chance.place(HOOKS.len())].id();
        let receiver = match self.chance.below(8) {
            0..=3 => Receiver::Fails,
            4 => Receiver::Refuses,
            _ => Receiver::Accepts,
        };
        self.pool.receivers.insert(id, receiver);
    }

    /// Lets the receivers recover, except those that fail for ever, so that calls are given up.
    pub(crate) fn recover_receivers(&mut self) {
        if !self.features.has(Feature::Webhooks) {
            return;
        }
        for hook in &HOOKS {
            let receiver = match self.chance.one_in(4) {
                true => Receiver::Fails,
                false => Receiver::Accepts,
            };
            self.pool.receivers.insert(hook.id(), receiver);
        }
    }

    /// `sweeps.rs` of the service.
    pub(crate) fn sweep_run_end_watches(&mut self) {
        let repeats = self.features.has(Feature::Webhooks) && self.chaos && self.chance.one_in(4);
        if !repeats {
            return;
        }
        let subscriptions = subscriptions(&self.notification.states);
        let wanting = subscriptions.iter().map(|one| &one.webhook);
        let wanting = wanting.filter(|webhook| webhook.wants_ends());
        let inputs: Vec<_> = wanting
            .map(|webhook| Input::WatchRunEnds {
                workspace: acme(),
                id: webhook.id,
            })
            .collect();
        if !inputs.is_empty() {
            self.notification.submit(inputs, &mut env_of!(self));
        }
    }

    /// `sending/signed_calls.rs` of the service: one call, and its result at the webhook.
    pub(crate) fn call_webhook(&mut self, key: &DeliveryKey, id: WebhookId) -> AttemptReport {
        let webhook = self.notification.states.get(&Key::Webhook(acme(), id));
        if !webhook
            .and_then(Aggregate::as_webhook)
            .is_some_and(Webhook::is_active)
        {
            self.webhook_calls().not_made.insert(key.clone());
            return AttemptReport::Dropped("The webhook is disabled.".to_owned());
        }
        let receiver = self.pool.receivers.get(&id).copied().unwrap_or_default();
        let error = "The receiver fails.".to_owned();
        let (report, outcome) = match receiver {
            Receiver::Accepts if self.chaos && self.chance.one_in(8) => (
                AttemptReport::Later(error.clone()),
                CallOutcome::Failed(error),
            ),
            Receiver::Accepts => (
                AttemptReport::Sent {
                    receipt: "HTTP 200".to_owned(),
                },
                CallOutcome::Accepted,
            ),
            Receiver::Fails => (
                AttemptReport::Later(error.clone()),
                CallOutcome::Failed(error),
            ),
            Receiver::Refuses => {
                self.webhook_calls().refused.insert(key.clone());
                (
                    AttemptReport::Never(error.clone()),
                    CallOutcome::Refused(error),
                )
            }
        };
        let recorded = Input::RecordCall {
            workspace: acme(),
            id,
            outcome,
        };
        self.notification.submit(vec![recorded], &mut env_of!(self));
        report
    }

    fn webhook_calls(&mut self) -> &mut WebhookCalls {
        &mut self.notification.rows.webhook_calls
    }

    /// No event that had to be called is lost: each is accepted, given up after its retries, refused for good, or
    /// dropped because its webhook was disabled.
    pub(crate) fn check_webhook_calls(&self) {
        let calls = &self.notification.rows.webhook_calls;
        for (note, id) in &calls.wanted {
            let key = call_key(*note, *id);
            let state = self.notification.states.get(&Key::Delivery(key));
            let delivery = state.and_then(Aggregate::as_delivery);
            assert!(delivery.is_some(), "{note} is lost: {id} is not called");
        }
        let all = HOOKS[0].id();
        let must_report = self.features.has(Feature::Webhooks) && !calls.disabled.contains(&all);
        for run in crate::sweeps::runs(&self.executor) {
            let is_reported = calls
                .wanted
                .iter()
                .any(|(note, id)| *id == all && note.hold.run == run.id && note.hold.number == 0);
            assert!(
                !must_report || !run.is_final() || is_reported,
                "the end of this run is lost: {run:#?}"
            );
        }
    }

    /// A webhook call may end without being accepted only for these reasons.
    pub(crate) fn check_unaccepted_call(&self, delivery: &Delivery) {
        let calls = &self.notification.rows.webhook_calls;
        let is_explained = match &delivery.phase {
            Phase::Failed => {
                delivery.attempts >= TRIES_MAX || calls.refused.contains(&delivery.key)
            }
            Phase::Dropped => calls.not_made.contains(&delivery.key),
            Phase::Pending { .. } | Phase::Sent { .. } => false,
        };
        assert!(is_explained, "given up without a reason: {delivery:#?}");
    }

    /// The last outcomes of [`COVERAGE`](crate::requests::COVERAGE) in this history.
    pub(crate) fn webhook_coverage(&self) -> [bool; 4] {
        let all = deliveries(&self.notification.states);
        let is_call = |one: &&Delivery| matches!(one.key.to, DeliveryTarget::Webhook(_));
        let calls: Vec<_> = all.into_iter().filter(is_call).collect();
        let is_sent = |one: &Delivery| matches!(one.phase, Phase::Sent { .. });
        let times = |one: &Delivery| self.pool.arrivals(&one.key);
        [
            calls.iter().any(|one| is_sent(one) && one.attempts > 1),
            calls.iter().any(|one| times(one) > 1),
            calls
                .iter()
                .any(|one| one.phase == Phase::Failed && one.attempts >= TRIES_MAX),
            calls.iter().any(|one| one.phase == Phase::Dropped),
        ]
    }
}

fn call_key(note: NotificationId, id: WebhookId) -> DeliveryKey {
    DeliveryKey {
        workspace: acme(),
        note,
        to: DeliveryTarget::Webhook(id),
    }
}
