//! Replies that wait for their effect.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::subject::EFFECT_WAIT;

use super::counter::{Count, Counter, Input, PAIRED, acme};
use super::{World, envelope, key};
use crate::origin::Origin;
use crate::reply::TaskReply;
use crate::task::{Raw, Task};
use crate::writer::delayed_replies::{DelayedReplies, REPLIES_MAX};

impl World {
    /// Adds to a counter; the reply waits until it is complete.
    async fn add_for_effect(&self, name: &str, by: i64) -> Result<Count, Problem> {
        let envelope = envelope(name, by, None);
        self.deps.bus.ask_for_effect(&acme(), &envelope).await
    }
}

/// Swift 2: the reply comes with the decision that completes it, and only its callers wait.
#[tokio::test]
async fn a_later_decision_completes_the_reply() {
    let world = World::with_stream().await;
    let kernel = world.start().await;
    let mut first = Box::pin(world.add_for_effect(PAIRED, 1));
    assert!((&mut first).now_or_never().is_none());
    let committed = async || (world.counts().await.get(PAIRED) == Some(&1)).then_some(());
    tokio::select! {
        reply = &mut first => panic!("{reply:?}"),
        done = holdpoint_testkit::until(super::PATIENCE, "the commit", committed) => done.unwrap(),
    }
    // A refusal, another counter and an incomplete state complete nothing.
    world.add(PAIRED, 0, None).await.unwrap_err();
    assert_eq!(world.add_for_effect("other", 1).await.unwrap().value, 1);
    assert_eq!(world.add(PAIRED, 2, None).await.unwrap().value, 3);
    let mut second = Box::pin(world.add_for_effect(PAIRED, 2));
    tokio::select! {
        biased;
        reply = &mut first => panic!("{reply:?}"),
        reply = &mut second => panic!("{reply:?}"),
        () = tokio::time::sleep(Duration::from_millis(200)) => {}
    }
    assert_eq!(world.add(PAIRED, 1, None).await.unwrap().value, 6);
    let (first, second) = tokio::join!(first, second);
    assert_eq!((first.unwrap().value, second.unwrap().value), (6, 6));
    kernel.stop().await;
}

/// Swift 2: without an effect the reply comes at the deadline, and a stopping service sends it at once.
#[tokio::test]
async fn a_reply_waits_two_seconds_at_most() {
    let world = World::with_stream().await;
    let kernel = world.start().await;
    let began = Instant::now();
    assert_eq!(world.add_for_effect(PAIRED, 1).await.unwrap().value, 1);
    assert!(began.elapsed() >= EFFECT_WAIT);
    let last = world.add_for_effect(PAIRED, 2);
    let stopped = async {
        let committed = async || (world.counts().await.get(PAIRED) == Some(&3)).then_some(());
        let waited = holdpoint_testkit::until(super::PATIENCE, "the commit", committed).await;
        waited.unwrap();
        kernel.stop().await;
    };
    let began = Instant::now();
    let (last, ()) = tokio::join!(last, stopped);
    assert_eq!(last.unwrap().value, 3);
    assert!(began.elapsed() < EFFECT_WAIT, "{:?}", began.elapsed());
}

/// A key replays the first reply at once, although the effect is newer.
#[tokio::test]
async fn a_used_key_does_not_wait() {
    let world = World::with_stream().await;
    let kernel = world.start().await;
    assert_eq!(
        world.add(PAIRED, 1, key("k", "one")).await.unwrap().value,
        1
    );
    let repeated = envelope(PAIRED, 1, key("k", "one"));
    let began = Instant::now();
    let reply = world.deps.bus.ask_for_effect(&acme(), &repeated).await;
    assert_eq!(reply.unwrap().value, 1);
    assert!(began.elapsed() < EFFECT_WAIT);
    kernel.stop().await;
}

/// At the limit further callers get the incomplete reply at once. A completed reply leaves its place.
#[test]
fn a_limited_number_of_replies_wait() {
    let raw = Raw {
        subject: String::new(),
        body: Bytes::new(),
    };
    let input = Input {
        name: PAIRED.to_owned(),
        by: 1,
    };
    let origin = Origin::Ask {
        reply: Some("_INBOX.test".to_owned()),
        awaits_effect: true,
    };
    let task = Task::<Counter>::new(vec![input], origin, raw);
    let count = |value| Count {
        name: PAIRED.to_owned(),
        version: 1,
        value,
    };
    let reply = || TaskReply {
        body: Bytes::from_static(b"1"),
        is_ok: true,
        incomplete: Some(count(1)),
    };
    let mut delayed = DelayedReplies::default();
    for _ in 0..REPLIES_MAX {
        assert_eq!(delayed.delay(&task, reply()), None);
    }
    assert_eq!(delayed.delay(&task, reply()), Some(reply().body));
    let key = PAIRED.to_owned();
    assert!(delayed.complete(&key, &count(3)).is_empty());
    assert_eq!(delayed.complete(&key, &count(4)).len(), REPLIES_MAX);
    assert_eq!(delayed.delay(&task, reply()), None);
    let later = tokio::time::Instant::now() + EFFECT_WAIT;
    assert_eq!(delayed.expire(later).len(), 1);
}
