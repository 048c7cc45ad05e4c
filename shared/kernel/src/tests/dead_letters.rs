//! Dead letters: listed, shown, replayed and dropped (Mend 6).

use chrono::TimeDelta;
use holdpoint_bus::StreamUse;
use holdpoint_contracts::dead_letter::{DeadLetter, DeadLetterRequest, DeadLetterSummary};
use holdpoint_contracts::problem::Problem;
use holdpoint_ids::Workspace;
use serde_json::Value;

use super::counter::{POISON, acme};
use super::{World, counts, replicas};
use crate::dead_letters::DEAD_LETTERS_MAX;

const SUBJECT: &str = "hp.acme.cmd.counter.0.add";

async fn ask<A: serde::de::DeserializeOwned>(
    world: &World,
    workspace: &Workspace,
    request: DeadLetterRequest,
) -> Result<A, Problem> {
    let bus = &world.deps.bus;
    bus.dead_letters(workspace, "counter", &request).await
}

async fn list(world: &World, workspace: &Workspace) -> Vec<DeadLetterSummary> {
    let (before, limit) = (None, 10);
    let request = DeadLetterRequest::List { before, limit };
    ask(world, workspace, request).await.unwrap()
}

/// A letter as the kernel keeps it, whose cause is mended.
async fn keep(world: &World, name: &str, by: i64) {
    let body = serde_json::to_string(&super::envelope(name, by, None)).unwrap();
    let sql = format!(
        "INSERT INTO dead_letters (subject, body, reason, created_at, digest, workspace) \
         VALUES ('{SUBJECT}', '{body}', 'a fault of an older version', '2026-03-02T09:00:00+00:00', '', 'acme')"
    );
    sea_orm::ConnectionTrait::execute_unprepared(&world.db, &sql)
        .await
        .unwrap();
}

/// S0-NFR, B-11: a batch after their retention deletes old dead letters, and keeps the others.
#[tokio::test]
async fn a_dead_letter_is_deleted_after_its_retention() {
    let world = World::with_stream().await;
    keep(&world, "a", 3).await;
    let kernel = world.start().await;
    let clock = &world.deps.clock;
    let kept_for = world.deps.kept_for;
    clock
        .move_to(clock.now() + kept_for - TimeDelta::hours(1))
        .unwrap();
    // The batch before the second one has deleted what was past its retention.
    for _ in 0..2 {
        world.add("b", 1, None).await.unwrap();
    }
    assert_eq!(list(&world, &acme()).await.len(), 1, "kept for 30 days");
    clock.move_to(clock.now() + TimeDelta::hours(2)).unwrap();
    for _ in 0..2 {
        world.add("b", 1, None).await.unwrap();
    }
    assert_eq!(list(&world, &acme()).await.len(), 0, "and not longer");
    kernel.stop().await;
}

#[tokio::test]
async fn a_replayed_dead_letter_is_decided_once_and_deleted() {
    is_replayed_once(&World::with_stream().await).await;
}

#[tokio::test]
async fn a_replayed_dead_letter_is_decided_once_and_deleted_on_postgres() {
    if let Some((world, _postgres)) = replicas::world().await {
        let bus = &world.deps.bus;
        bus.provide_stream(StreamUse::Steps).await.unwrap();
        is_replayed_once(&world).await;
    }
}

async fn is_replayed_once(world: &World) {
    let kernel = world.start().await;
    keep(world, "a", 3).await;
    let letters = list(world, &acme()).await;
    assert_eq!(letters.len(), 1, "{letters:?}");
    let id = letters[0].id;
    let shown: DeadLetter = ask(world, &acme(), DeadLetterRequest::Show { id })
        .await
        .unwrap();
    assert_eq!(shown.summary, letters[0]);
    assert!(shown.body.contains("\"by\":3"), "{shown:?}");
    let answer: Value = ask(world, &acme(), DeadLetterRequest::Replay { id })
        .await
        .unwrap();
    assert_eq!(answer["value"], 3, "the answer of the message");
    assert_eq!(world.counts().await, counts(&[("a", 3)]));
    let again: Result<Value, _> = ask(world, &acme(), DeadLetterRequest::Replay { id }).await;
    assert_eq!(again.unwrap_err().status, 404);
    assert_eq!(world.number_of("dead_letters").await, 0);
    assert_eq!(world.number_of("suspects").await, 0);
    kernel.stop().await;
}

#[tokio::test]
async fn a_dead_letter_that_fails_again_is_kept_once() {
    let world = World::with_stream().await;
    let kernel = world.start().await;
    keep(&world, POISON, 1).await;
    let id = list(&world, &acme()).await[0].id;
    let replayed: Result<Value, _> = ask(&world, &acme(), DeadLetterRequest::Replay { id }).await;
    assert_eq!(replayed.unwrap_err().status, 500);
    let letters = list(&world, &acme()).await;
    assert_eq!((letters.len(), letters[0].id), (1, id), "{letters:?}");
    let dropped: DeadLetterSummary = ask(&world, &acme(), DeadLetterRequest::Drop { id })
        .await
        .unwrap();
    assert_eq!(dropped.id, id);
    assert_eq!(list(&world, &acme()).await, []);
    kernel.stop().await;
}

#[tokio::test]
async fn another_workspace_neither_sees_nor_changes_a_dead_letter() {
    let world = World::with_stream().await;
    let kernel = world.start().await;
    keep(&world, "a", 3).await;
    let id = list(&world, &acme()).await[0].id;
    let other: Workspace = "other".parse().unwrap();
    assert_eq!(list(&world, &other).await, []);
    for request in [
        DeadLetterRequest::Show { id },
        DeadLetterRequest::Replay { id },
        DeadLetterRequest::Drop { id },
    ] {
        let refused: Result<Value, _> = ask(&world, &other, request).await;
        assert_eq!(refused.unwrap_err().status, 404);
    }
    assert_eq!(world.number_of("dead_letters").await, 1);
    kernel.stop().await;
}

/// Of more than [`DEAD_LETTERS_MAX`] letters of a workspace the oldest go.
#[tokio::test]
async fn the_number_of_dead_letters_is_limited() {
    let world = World::with_stream().await;
    let kernel = world.start().await;
    let more = DEAD_LETTERS_MAX + 5;
    let sql = format!(
        "INSERT INTO dead_letters (subject, body, reason, created_at, digest, workspace) \
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {more}) \
         SELECT '{SUBJECT}', '{{}}', 'reason ' || i, '2026-03-02T09:00:00+00:00', '', 'acme' FROM n"
    );
    sea_orm::ConnectionTrait::execute_unprepared(&world.db, &sql)
        .await
        .unwrap();
    world.publish(&[(POISON, 1)]).await;
    world.all_acked().await;
    assert_eq!(
        world.number_of("dead_letters").await,
        i64::try_from(DEAD_LETTERS_MAX).unwrap()
    );
    let newest = &list(&world, &acme()).await[0];
    assert!(!newest.reason.starts_with("reason "), "{newest:?}");
    kernel.stop().await;
}
