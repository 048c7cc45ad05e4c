//! Wakes calls and streams that wait for a change. One subscription receives the nudges of all services, and each
//! waiter is woken by its topic.
//!
//! A nudge may be lost, so waiters also read again from time to time.

use std::time::Duration;

use async_nats::Message;
use futures_util::StreamExt;
use holdpoint_bus::{Bus, Waiters};
use holdpoint_contracts::handoff::RequestNudge;
use holdpoint_contracts::history::Nudge as RunNudge;
use holdpoint_contracts::notification::NotificationNudge;
use holdpoint_contracts::{executor, handoff, notification, subject};
use holdpoint_ids::{HoldId, RunId, UserName, Workspace};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

/// Pause before a refused subscription is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What a waiter waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    Request(HoldId),
    Run(RunId),
    NotificationsOf(Workspace, UserName),
    /// Any run or request of a workspace.
    Workspace(Workspace),
}

/// The waiters of a gateway. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Nudges(Waiters<Topic>);

/// The changes of one topic since the subscription.
pub(crate) type Changes = holdpoint_bus::Changes<Topic>;

impl Nudges {
    /// See [`Waiters::subscribe`].
    pub(crate) fn subscribe(&self, topic: Topic) -> Changes {
        self.0.subscribe(topic)
    }

    /// Receives nudges until the gateway stops.
    pub(crate) async fn receive(self, bus: Bus, closing: CancellationToken) {
        while !closing.is_cancelled() {
            match bus.client().subscribe(subject::LIVE_FILTER).await {
                Ok(mut messages) => {
                    while let Some(Some(message)) =
                        closing.run_until_cancelled(messages.next()).await
                    {
                        self.wake_by(&message);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot subscribe to nudges; waiting calls notice changes later");
                }
            }
            let pause = tokio::time::sleep(RETRY_AFTER);
            closing.run_until_cancelled(pause).await;
        }
    }

    fn wake_by(&self, message: &Message) {
        if self.0.is_empty() {
            return;
        }
        let Some((workspace, service)) = subject::live_parts(&message.subject) else {
            return;
        };
        match service {
            executor::SERVICE => {
                let nudge = read::<RunNudge>(message);
                let runs = nudge.into_iter().flat_map(|nudge| nudge.runs);
                self.0.wake(runs.map(|(run, _)| Topic::Run(run)));
                self.0.wake([Topic::Workspace(workspace)]);
            }
            handoff::SERVICE => {
                let nudge = read::<RequestNudge>(message);
                let requests = nudge.into_iter().flat_map(|nudge| nudge.requests);
                self.0.wake(requests.map(|(id, _)| Topic::Request(id)));
                self.0.wake([Topic::Workspace(workspace)]);
            }
            notification::SERVICE => match read::<NotificationNudge>(message) {
                Some(nudge) if nudge.people.is_empty() => self.wake_all_users(&workspace),
                Some(nudge) => {
                    let of = |user| Topic::NotificationsOf(workspace.clone(), user);
                    self.0.wake(nudge.people.into_iter().map(of));
                }
                None => {}
            },
            _ => {}
        }
    }

    /// Wakes all that wait for notifications in a workspace.
    fn wake_all_users(&self, workspace: &Workspace) {
        let is_of =
            |topic: &Topic| matches!(topic, Topic::NotificationsOf(of, _) if of == workspace);
        self.0.wake_matching(is_of);
    }
}

/// User directories also use a subject of the handoff service, with the body `null`.
fn read<N: DeserializeOwned>(message: &Message) -> Option<N> {
    let nudge = serde_json::from_slice::<Option<N>>(&message.payload);
    nudge
        .inspect_err(|error| tracing::warn!(%error, subject = %message.subject, "nudge cannot be read and is ignored"))
        .ok()
        .flatten()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use serde_json::json;

    use super::*;

    fn message(service: &str, body: &serde_json::Value) -> Message {
        let workspace = "acme".parse().unwrap();
        Message {
            subject: subject::live(&workspace, service).into(),
            reply: None,
            payload: body.to_string().into(),
            headers: None,
            status: None,
            description: None,
            length: 0,
        }
    }

    /// Swift 2: waiters are woken by id, and leave nothing behind.
    #[test]
    fn a_nudge_wakes_the_waiters_of_its_topics() {
        let nudges = Nudges::default();
        let acme: Workspace = "acme".parse().unwrap();
        let (one, other) = (HoldId::standalone(), HoldId::standalone());
        let ada = "ada".parse().unwrap();
        let mut first = nudges.subscribe(Topic::Request(one));
        let mut second = nudges.subscribe(Topic::Request(one));
        let mut not_named = nudges.subscribe(Topic::Request(other));
        let mut workspace = nudges.subscribe(Topic::Workspace(acme.clone()));
        let mut of_ada = nudges.subscribe(Topic::NotificationsOf(acme, ada));
        for garbage in [json!(null), json!(7), json!({"requests": 3})] {
            nudges.wake_by(&message(handoff::SERVICE, &garbage));
        }
        assert!(first.next().now_or_never().is_none());
        assert!(workspace.next().now_or_never().is_some());
        let nudge = json!({"requests": {(one.to_string()): 2}});
        nudges.wake_by(&message(handoff::SERVICE, &nudge));
        for changes in [&mut first, &mut second, &mut workspace] {
            assert!(changes.next().now_or_never().is_some());
            assert!(changes.next().now_or_never().is_none(), "woken once");
        }
        assert!(not_named.next().now_or_never().is_none());
        for (people, is_woken) in [
            (json!(["bob"]), false),
            (json!(["ada"]), true),
            (json!([]), true),
        ] {
            nudges.wake_by(&message(
                notification::SERVICE,
                &json!({ "people": people }),
            ));
            assert_eq!(of_ada.next().now_or_never().is_some(), is_woken, "{people}");
        }
        drop(first);
        nudges.wake_by(&message(handoff::SERVICE, &nudge));
        assert!(second.next().now_or_never().is_some());
        drop((second, not_named, workspace, of_ada));
        assert!(nudges.0.is_empty());
    }
}
