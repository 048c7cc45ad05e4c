//! Messages of many that are all done or none.

use holdpoint_bus::StreamUse;
use holdpoint_contracts::message::{Actor, Envelope, IdempotencyKey, Reply};
use holdpoint_contracts::problem::BATCH_ABORTED;

use super::counter::{self, Add, AddAll, acme};
use super::{World, counts, key};

fn all(adds: &[(&str, i64)], asked: Option<IdempotencyKey>) -> Envelope<AddAll> {
    let add = |(name, by): &(&str, i64)| Add {
        name: (*name).to_owned(),
        by: *by,
    };
    Envelope {
        actor: Actor("owner".to_owned()),
        assertion: None,
        key: asked,
        command: AddAll {
            adds: adds.iter().map(add).collect(),
        },
    }
}

/// The replies to the command: each a value, or the code of a problem.
async fn replies(world: &World, command: Envelope<AddAll>) -> Vec<Result<i64, String>> {
    let replies = world.deps.bus.ask(&acme(), &command).await.unwrap();
    let results = replies.into_iter().map(|reply| match reply {
        Reply::Ok(count) => Ok(count.value),
        Reply::Problem(problem) => Err(problem.code),
    });
    results.collect()
}

#[tokio::test]
async fn one_refused_command_aborts_its_batch_and_each_gets_a_reply() {
    let world = World::with_stream().await;
    let kernel = world.start().await;
    world.add("a", 1, None).await.unwrap();
    let none = || Err(BATCH_ABORTED.to_owned());
    let asked = || key("k", "same");
    let refused = [("a", 1), ("b", 2), ("c", 0), ("b", 3)];
    let wanted = [none(), none(), Err("zero".to_owned()), none()];
    assert_eq!(replies(&world, all(&refused, asked())).await, wanted);
    assert_eq!(world.counts().await, counts(&[("a", 1)]));
    let published = world.deps.bus.stored(StreamUse::Steps).await.unwrap();
    assert_eq!(published, 1, "of the refused ones nothing is");
    // A refusal is not remembered under its key; what was done is, with all its answers.
    let done = [("a", 1), ("b", 2), ("b", 3)];
    for _ in 0..2 {
        assert_eq!(
            replies(&world, all(&done, asked())).await,
            [Ok(2), Ok(2), Ok(5)]
        );
    }
    assert_eq!(world.counts().await, counts(&[("a", 2), ("b", 5)]));
    kernel.stop().await;
}

#[tokio::test]
async fn an_atomic_command_is_not_stored_in_part() {
    let world = World::with_stream().await;
    let kernel = world.start().await;
    let command = all(&[("a", 1), (counter::POISON, 1)], None);
    let error = world.deps.bus.ask(&acme(), &command).await.unwrap_err();
    assert_eq!(error.status, 500);
    assert_eq!(world.counts().await, counts(&[]));
    assert_eq!(world.add("a", 4, None).await.unwrap().value, 4);
    kernel.stop().await;
}
