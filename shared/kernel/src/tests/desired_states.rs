//! Desired states: rows until their receiver has confirmed them. The receiver is played here, for it has to
//! be deaf at will.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::jetstream::consumer::pull;
use bytes::Bytes;
use futures_util::StreamExt;
use holdpoint_bus::{Outgoing, StreamUse};
use holdpoint_contracts::message::Command as _;
use holdpoint_contracts::problem::Problem;
use holdpoint_testkit::until;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::counter::{
    ACKNOWLEDGEMENTS, Count, Counter, DECIDED, GONE, HUGE, Input, REFUSALS, TOLD, UNWRITABLE, acme,
};
use super::{Kernel, PATIENCE, World, envelope, replicas, start_on};
use crate::completion::CompletionQueue;
use crate::desired_states::rows::{DesiredStateKey, Sent};
use crate::origin::Origin;
use crate::task::{Raw, Task};

const EAR: StreamUse<'_> = StreamUse::Commands("ear");

/// Longer than several rounds of sending again take.
const ROUNDS: Duration = Duration::from_millis(1_500);

/// Who the desired states are for.
struct Ear {
    messages: pull::Stream,
    client: async_nats::Client,
}

/// One message of desired states.
struct Heard {
    desired_states: Vec<Count>,
    reply: String,
}

impl Ear {
    async fn of(world: &World) -> Self {
        let bus = &world.deps.bus;
        bus.provide_stream(EAR).await.unwrap();
        let wait = Duration::from_secs(30);
        Self {
            messages: bus.pull(EAR, "ear", "hp.*.cmd.ear.>", wait).await.unwrap(),
            client: bus.client().clone(),
        }
    }

    async fn hear(&mut self) -> Heard {
        let heard = tokio::time::timeout(PATIENCE, self.messages.next());
        let message = heard
            .await
            .expect("a desired state in time")
            .unwrap()
            .unwrap();
        message.ack().await.unwrap();
        Heard {
            desired_states: serde_json::from_slice(&message.payload).unwrap(),
            reply: message
                .headers
                .as_ref()
                .unwrap()
                .get("hp-reply")
                .unwrap()
                .to_string(),
        }
    }

    /// Whether nothing comes for longer than sending again takes.
    async fn hears_nothing(&mut self) -> bool {
        let next = self.messages.next();
        tokio::time::timeout(ROUNDS, next).await.is_err()
    }

    async fn answer(&self, heard: &Heard, reply: &Value) {
        let body = reply.to_string().into();
        let reply = heard.reply.clone();
        self.client.publish(reply, body).await.unwrap();
    }

    async fn confirm(&self, heard: &Heard) {
        let items: Vec<_> = heard
            .desired_states
            .iter()
            .map(|_| json!({"ok": "set"}))
            .collect();
        self.answer(heard, &json!({"ok": items})).await;
    }
}

impl Heard {
    fn revs(&self) -> BTreeMap<&str, u64> {
        let revs = self.desired_states.iter();
        revs.map(|desired_state| (desired_state.name.as_str(), desired_state.version))
            .collect()
    }
}

impl World {
    async fn desired_states(&self) -> BTreeMap<String, i64> {
        let rows = self.rows("SELECT id, rev FROM desired_states").await;
        rows.into_iter().collect()
    }

    async fn no_desired_state_is_left(&self) {
        let none = async || self.desired_states().await.is_empty().then_some(());
        until(PATIENCE, "all desired states to be confirmed", none)
            .await
            .unwrap();
    }
}

async fn count(kernel: &Kernel, names: &[&str]) {
    let inputs = names.iter().map(|name| Input {
        name: (*name).to_owned(),
        by: 1,
    });
    assert!(kernel.handle.submit(inputs.collect()).await);
}

fn problem(status: u16) -> Value {
    json!({"problem": {"status": status, "code": "no", "detail": "no"}})
}

/// Swift: the decision on an acknowledgement that no caller waits for waits some milliseconds, and is made without other
/// inputs, too.
#[tokio::test]
async fn an_acknowledgement_may_wait_for_other_inputs() {
    let world = World::with_stream().await;
    let mut ear = Ear::of(&world).await;
    let kernel = world.start().await;
    for acknowledged in 1..=2 {
        count(&kernel, &[TOLD]).await;
        let mut heard = ear.hear().await;
        // An older one may have been sent again.
        while heard.revs()[TOLD] < acknowledged {
            heard = ear.hear().await;
        }
        ear.confirm(&heard).await;
        if acknowledged == 2 {
            count(&kernel, &["other"]).await;
        }
        world.no_desired_state_is_left().await;
        let counted = world.counts().await[ACKNOWLEDGEMENTS];
        assert_eq!(counted, acknowledged.cast_signed());
    }
    kernel.stop().await;
}

fn task(name: &str, origin: Origin) -> Task<Counter> {
    let name = name.to_owned();
    let (subject, body) = (String::new(), Bytes::new());
    Task::new(vec![Input { name, by: 1 }], origin, Raw { subject, body })
}

/// Swift: an input waits only if the service says that no caller waits for it.
#[test]
fn only_an_acknowledgement_without_a_caller_waits() {
    let acknowledgement = |name| {
        let key = DesiredStateKey {
            kind: Cow::Borrowed("heard"),
            workspace: acme().to_string(),
            id: TOLD.to_owned(),
        };
        let (sent, completions) = (Sent { key, rev: 1 }, CompletionQueue::default());
        task(name, Origin::DesiredState { sent, completions })
    };
    let waits = |task: Task<Counter>| !task.linger(&Counter).is_zero();
    assert!(waits(acknowledgement(ACKNOWLEDGEMENTS)));
    assert!(!waits(acknowledgement(REFUSALS)));
    assert!(!waits(task(ACKNOWLEDGEMENTS, Origin::ask(None))));
    let poison = Some(Problem::internal());
    assert!(!waits(Task {
        poison,
        ..acknowledgement(ACKNOWLEDGEMENTS)
    }));
}

#[tokio::test]
async fn a_desired_state_is_resent_until_it_is_acknowledged() {
    let world = World::with_stream().await;
    let mut ear = Ear::of(&world).await;
    let kernel = world.start().await;
    count(&kernel, &["ear-a"]).await;
    // Twice the answer is lost, once the receiver's database is unavailable.
    ear.hear().await;
    ear.hear().await;
    let unanswered = ear.hear().await;
    ear.answer(&unanswered, &problem(503)).await;
    let heard = ear.hear().await;
    assert_eq!(heard.revs(), BTreeMap::from([("ear-a", 1)]), "the same");
    assert_eq!(
        world.desired_states().await,
        BTreeMap::from([("ear-a".into(), 1)])
    );
    ear.confirm(&heard).await;
    world.no_desired_state_is_left().await;
    assert!(ear.hears_nothing().await, "it is confirmed");
    kernel.stop().await;
}

#[tokio::test]
async fn a_new_receiver_gets_all_desired_states() {
    let world = World::with_stream().await;
    let kernel = world.start().await;
    count(&kernel, &["ear-a", "b", "ear-b"]).await;
    assert_eq!(world.counts().await.len(), 3, "nobody waits for the ear");
    let mut ear = Ear::of(&world).await;
    while world.number_of("desired_states").await > 0 {
        let heard = ear.hear().await;
        ear.confirm(&heard).await;
        let confirmed = async || {
            let left = world.desired_states().await;
            let is_left = |name: &&str| left.contains_key(*name);
            (!heard.revs().keys().any(is_left)).then_some(())
        };
        until(PATIENCE, "the confirmation", confirmed)
            .await
            .unwrap();
    }
    kernel.stop().await;
}

#[tokio::test]
async fn only_the_newest_desired_state_is_kept_and_an_older_acknowledgement_is_ignored() {
    let world = World::with_stream().await;
    let mut ear = Ear::of(&world).await;
    let kernel = world.start().await;
    count(&kernel, &["ear-a", "ear-a", "ear-a"]).await;
    let third = ear.hear().await;
    assert_eq!(third.revs(), BTreeMap::from([("ear-a", 3)]), "one batch");
    count(&kernel, &["ear-a"]).await;
    ear.confirm(&third).await;
    let fourth = loop {
        let heard = ear.hear().await;
        if heard.revs()["ear-a"] == 4 {
            break heard;
        }
    };
    // The confirmation of the third is through once a later commit is.
    count(&kernel, &["b"]).await;
    assert_eq!(
        world.desired_states().await,
        BTreeMap::from([("ear-a".into(), 4)])
    );
    ear.confirm(&fourth).await;
    world.no_desired_state_is_left().await;
    kernel.stop().await;
}

/// As a crash between commit and publishing leaves it: a row that nobody sends.
#[tokio::test]
async fn the_next_kernel_sends_the_desired_states_of_a_dead_one() {
    let world = World::with_stream().await;
    let mortal = Runtime::new().unwrap();
    let deps = world.deps.clone();
    let kernel = mortal
        .spawn(async move { start_on(&deps).await })
        .await
        .unwrap();
    count(&kernel, &["ear-a"]).await;
    drop(kernel);
    mortal.shutdown_background();
    assert_eq!(
        world.desired_states().await,
        BTreeMap::from([("ear-a".into(), 1)])
    );

    let mut ear = Ear::of(&world).await;
    let kernel = world.start().await;
    let heard = ear.hear().await;
    ear.confirm(&heard).await;
    world.no_desired_state_is_left().await;
    kernel.stop().await;
}

/// Mend B-3: a receiver that cannot read a desired state is of another version. The desired state stays, is
/// reported, holds up no other one, and is taken as soon as the receiver can read it.
#[tokio::test]
async fn a_desired_state_that_its_receiver_cannot_read_is_kept_and_blocks_no_other() {
    let world = World::with_stream().await;
    let mut ear = Ear::of(&world).await;
    let kernel = world.start().await;
    let names: Vec<_> = (0..40).map(|n| format!("ear-{n}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    count(&kernel, &names).await;
    // It refuses every message that has a certain desired state in it.
    let mut refusals = 0;
    while refusals < 4 || world.number_of("desired_states").await > 1 {
        let next = tokio::time::timeout(ROUNDS, ear.hear());
        let Ok(heard) = next.await else { continue };
        match heard.revs().contains_key("ear-7") {
            true => {
                ear.answer(&heard, &problem(422)).await;
                refusals += 1;
            }
            false => ear.confirm(&heard).await,
        }
    }
    assert_eq!(
        world.desired_states().await,
        BTreeMap::from([("ear-7".into(), 1)])
    );
    let status = kernel.handle.status();
    assert!(status.warning().unwrap().starts_with("1 desired"));
    assert!(kernel.handle.is_ready(), "it does its work");
    // Its back-off is longer than any other's and does not grow without an end.
    let heard = ear.hear().await;
    ear.confirm(&heard).await;
    world.no_desired_state_is_left().await;
    let silent = async || status.warning().is_none().then_some(());
    until(PATIENCE, "the end of the warning", silent)
        .await
        .unwrap();
    kernel.stop().await;
}

/// Mend B-3: what the receiver's core refuses goes to the service that desired it.
#[tokio::test]
async fn a_desired_state_that_its_receiver_refuses_is_decided_by_its_service() {
    let world = World::with_stream().await;
    let mut ear = Ear::of(&world).await;
    let kernel = world.start().await;
    count(&kernel, &["ear-kept", GONE, DECIDED, "ear-fine"]).await;
    while world.number_of("desired_states").await > 1 {
        let heard = ear.hear().await;
        let items =
            heard
                .desired_states
                .iter()
                .map(|desired_state| match desired_state.name.as_str() {
                    "ear-fine" => json!({"ok": "set"}),
                    _ => problem(409),
                });
        let items: Vec<_> = items.collect();
        ear.answer(&heard, &json!({ "ok": items })).await;
    }
    let left = BTreeMap::from([("ear-kept".into(), 1)]);
    assert_eq!(world.desired_states().await, left);
    // On a slow machine it is sent again before its row is deleted, and refused once more.
    assert!(
        world
            .counts()
            .await
            .get(REFUSALS)
            .is_some_and(|count| *count >= 1)
    );
    assert!(kernel.handle.status().warning().is_some());
    assert_eq!(world.number_of("dead_letters").await, 0);
    kernel.stop().await;
}

/// Mend B-3: a row that this version cannot read was written by a newer replica, which can.
#[tokio::test]
async fn a_desired_state_that_this_version_cannot_read_is_kept_and_blocks_no_other() {
    let world = World::with_stream().await;
    let mut ear = Ear::of(&world).await;
    let kernel = world.start().await;
    count(&kernel, &["ear-a", UNWRITABLE, "ear-b"]).await;
    // Too large even to be committed.
    let too_large = world.add(HUGE, 1, None).await.unwrap_err();
    assert_eq!(too_large.status, 500);
    let mut heard_names = Vec::new();
    while world.number_of("desired_states").await > 1 {
        let next = tokio::time::timeout(ROUNDS, ear.hear());
        let Ok(heard) = next.await else { continue };
        heard_names.extend(
            heard
                .desired_states
                .iter()
                .map(|desired_state| desired_state.name.clone()),
        );
        ear.confirm(&heard).await;
    }
    heard_names.sort();
    heard_names.dedup();
    assert_eq!(heard_names, ["ear-a", "ear-b"]);
    assert!(ear.hears_nothing().await);
    let left = BTreeMap::from([(UNWRITABLE.to_owned(), 1)]);
    assert_eq!(world.desired_states().await, left);
    assert!(kernel.handle.status().warning().is_some());
    let dead = world.rows("SELECT subject, 1 FROM dead_letters").await;
    assert_eq!(dead.len(), 1, "the one that was too large: {dead:?}");
    assert!(!world.counts().await.contains_key(HUGE));
    kernel.stop().await;
}

/// Mend B-3: a message that its sender keeps is answered where it cannot be read, and leaves no dead letter
/// each time that it comes.
#[tokio::test]
async fn an_unreadable_kept_message_is_answered_and_leaves_no_dead_letter() {
    let world = World::with_stream().await;
    let kernel = world.start().await;
    let client = world.deps.bus.client();
    let inbox = client.new_inbox();
    let mut answers = client.subscribe(inbox.clone()).await.unwrap();
    let add = envelope("a", 1, None);
    let unreadable = Outgoing {
        subject: add.command.subject(&acme()),
        body: "{\"newer\": true}".to_owned(),
        headers: Vec::new(),
    };
    let kept = unreadable.header("hp-reply", inbox).header("hp-kept", "1");
    world.deps.bus.publish_all(vec![kept]).await.unwrap();
    let answer = tokio::time::timeout(PATIENCE, answers.next()).await;
    let answer: Value = serde_json::from_slice(&answer.unwrap().unwrap().payload).unwrap();
    assert_eq!(answer["problem"]["code"], "invalid_body", "{answer}");
    world.all_acked().await;
    assert_eq!(world.number_of("dead_letters").await, 0);
    kernel.stop().await;
}

/// However many stay unconfirmed, page by page each is sent again.
async fn all_are_sent_again(world: &World) {
    let mut ear = Ear::of(world).await;
    let kernel = world.start().await;
    let names: Vec<_> = (0..10).map(|number| format!("ear-{number}")).collect();
    count(
        &kernel,
        &names.iter().map(String::as_str).collect::<Vec<_>>(),
    )
    .await;
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    let is_twice = |times: &BTreeMap<String, u32>| {
        let twice = times.values().filter(|times| **times > 1);
        twice.count() == names.len()
    };
    while !is_twice(&times) {
        for name in ear.hear().await.revs().into_keys() {
            *times.entry(name.to_owned()).or_default() += 1;
        }
    }
    kernel.stop().await;
}

#[tokio::test]
async fn many_unacknowledged_desired_states_are_all_resent() {
    all_are_sent_again(&World::with_stream().await).await;
}

#[tokio::test]
async fn many_unacknowledged_desired_states_are_all_resent_on_postgres() {
    if let Some((world, _postgres)) = replicas::world().await {
        all_are_sent_again(&world).await;
    }
}
