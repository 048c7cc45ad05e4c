//! Uploads of large values, and what becomes of them (S1-R9).

use chrono::TimeDelta;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::suspension::{
    BLOB_CHUNK_MAX, BLOBS_MAX, BlobContent, BlobView, SNAPSHOT_BLOB_MAX, ValueReference,
};
use proptest::prelude::*;
use sha2::{Digest as _, Sha256};

use super::*;
use crate::domain::BlobUpload;
use crate::domain::run::UNREFERENCED_MS;

fn hash(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// A chunk of a blob by the current dispatch of `send`.
fn chunk(world: &World, bytes: &[u8], from: usize, to: usize) -> BlobUpload {
    BlobUpload {
        step: "send".to_owned(),
        dispatch: world.dispatch("send"),
        sha256: hash(bytes),
        size: u64::try_from(bytes.len()).unwrap(),
        offset: u64::try_from(from).unwrap(),
        content: BlobContent(bytes[from..to].into()),
    }
}

/// A refusal is its status with its code.
fn put(world: &mut World, upload: BlobUpload) -> Result<BlobView, String> {
    let refused = |problem: Problem| Err(format!("{} {}", problem.status, problem.code));
    match world.give(RunInput::PutBlob(Box::new(upload))) {
        Heard::Decided(Reply::Blob(view)) | Heard::Unchanged(Reply::Blob(view)) => Ok(view),
        Heard::Decided(Reply::Refused(problem)) => refused(*problem),
        Heard::Refused(refusal) => refused(refusal.problem()),
        other => panic!("{other:?}"),
    }
}

fn put_all(world: &mut World, bytes: &[u8]) -> BlobView {
    let mut last = None;
    for from in (0..bytes.len()).step_by(BLOB_CHUNK_MAX) {
        let to = bytes.len().min(from + BLOB_CHUNK_MAX);
        let upload = chunk(world, bytes, from, to);
        last = Some(put(world, upload).unwrap());
    }
    last.unwrap()
}

/// A world whose step `send` is at node-a.
fn working() -> World {
    let mut world = World::started(SEND);
    assert_eq!(world.ask("node-a", "send"), Grant::Go);
    world
}

fn bytes(fill: u8, count: usize) -> Vec<u8> {
    let numbered = (0..count).map(|at| fill.wrapping_add(u8::try_from(at % 251).unwrap()));
    numbered.collect()
}

/// A part whose checkpoint is one blob, and whose write buffer another one.
fn part(checkpoint: &[u8], write_buffer: Option<&[u8]>) -> Supplement {
    let refer = |bytes: &[u8]| {
        json!(ValueReference {
            sha256: hash(bytes),
            ..ValueReference::unread(u64::try_from(bytes.len()).unwrap())
        })
    };
    Supplement {
        checkpoint: refer(checkpoint),
        write_buffer: write_buffer.map_or(Value::Null, refer),
        sandbox: None,
    }
}

fn deliver_part(world: &mut World, part: Supplement) {
    let report = SuspensionReport {
        supplement: Some(part),
        ..report(world, "send")
    };
    assert_eq!(deliver(world, report), Ok(ResultReply::Applied));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever chunks come, in which order and how often: a complete blob has its announced bytes, and nothing else
    /// is ever complete.
    #[test]
    fn a_complete_blob_has_its_bytes(
        count in 1..700_usize,
        chunks in prop::collection::vec((0..12_usize, 1..250_usize, any::<bool>()), 0..40),
    ) {
        let mut world = working();
        let whole = bytes(3, count);
        let mut is_damaged = false;
        for (place, length, is_wrong) in chunks {
            let received = world.run().blobs.first().map_or(0, |blob| blob.received);
            // Mostly the next chunk, sometimes an earlier or a later one.
            let next = usize::try_from(received).unwrap();
            let from = (if place < 8 { next } else { (place - 8) * 64 }).min(count - 1);
            let to = (from + length).min(count);
            let mut upload = chunk(&world, &whole, from, to);
            let is_next = upload.offset == received;
            if is_wrong {
                upload.content = BlobContent(vec![0; to - from].into());
            }
            match put(&mut world, upload) {
                Ok(view) if view.complete => {
                    prop_assert_eq!(world.blobs.get("send", &hash(&whole)).unwrap().0, whole.clone());
                }
                Ok(view) => {
                    is_damaged |= is_wrong && is_next;
                    prop_assert!(view.received < view.size);
                }
                Err(refusal) if refusal == "422 blob_hash_differs" => {
                    prop_assert!(is_damaged || is_wrong);
                    prop_assert!(world.blobs.get("send", &hash(&whole)).is_none());
                    is_damaged = false;
                }
                Err(refusal) => prop_assert!(
                    ["409 blob_offset", "422 invalid_body"].contains(&refusal.as_str()),
                    "{refusal}"
                ),
            }
        }
    }
}

/// S1-R9: a value above 64 KiB is a reference whose content was uploaded.
#[test]
fn a_snapshot_refers_to_uploaded_values() {
    let mut world = working();
    let (large, unknown) = (bytes(1, 1_200_000), bytes(2, 90_000));
    let view = put_all(&mut world, &large);
    assert_eq!((view.received, view.complete), (1_200_000, true));
    let (stored, expires_at) = world.blobs.get("send", &hash(&large)).unwrap();
    assert_eq!(stored, large);
    assert!(expires_at.is_some(), "no snapshot refers to it yet");
    suspend(&mut world);
    deliver_part(&mut world, part(&large, Some(&unknown)));
    let content = world.snapshot.clone().unwrap().snapshot_json;
    assert_eq!(content.checkpoint["stored"], true, "{content:?}");
    assert_eq!(content.write_buffer["stored"], Value::Null, "{content:?}");
    assert_eq!(world.blobs.get("send", &hash(&large)).unwrap().1, None);
}

/// A lost reply is repeated, and two uploads of one value do no harm to each other.
#[test]
fn a_repeated_chunk_changes_nothing() {
    let mut world = working();
    let whole = bytes(1, 200);
    let first = chunk(&world, &whole, 0, 128);
    let last = chunk(&world, &whole, 128, 200);
    assert_eq!(
        put(&mut world, last.clone()),
        Err("409 blob_offset".to_owned())
    );
    assert_eq!(put(&mut world, first.clone()).unwrap().received, 128);
    let version = world.run().version;
    assert_eq!(put(&mut world, first.clone()).unwrap().received, 128);
    let again = chunk(&world, &whole, 64, 128);
    assert_eq!(put(&mut world, again).unwrap().received, 128);
    assert_eq!(world.run().version, version);
    assert!(put(&mut world, last.clone()).unwrap().complete);
    assert!(put(&mut world, last).unwrap().complete);
    assert!(put(&mut world, first).unwrap().complete);
}

#[test]
fn hostile_chunks_are_refused() {
    let mut world = working();
    let whole = bytes(1, 200);
    let good = chunk(&world, &whole, 0, 64);
    let refused = |world: &mut World, change: &dyn Fn(&mut BlobUpload)| {
        let mut upload = good.clone();
        change(&mut upload);
        let before = world.run().clone();
        let error = put(world, upload).unwrap_err();
        assert_eq!(*world.run(), before);
        error
    };
    let mut refused = |change: &dyn Fn(&mut BlobUpload)| refused(&mut world, change);
    assert_eq!(
        refused(&|it| it.sha256 = "x".repeat(64)),
        "422 invalid_body"
    );
    assert_eq!(
        refused(&|it| it.sha256 = it.sha256.to_uppercase()),
        "422 invalid_body"
    );
    assert_eq!(refused(&|it| it.sha256.clear()), "422 invalid_body");
    assert_eq!(refused(&|it| it.size = 0), "422 invalid_body");
    assert_eq!(refused(&|it| it.size = u64::MAX), "413 too_large");
    assert_eq!(
        refused(&|it| it.size = SNAPSHOT_BLOB_MAX + 1),
        "413 too_large"
    );
    assert_eq!(refused(&|it| it.offset = u64::MAX), "422 invalid_body");
    assert_eq!(refused(&|it| it.offset = 64), "409 blob_offset");
    assert_eq!(
        refused(&|it| it.content = BlobContent([].into())),
        "422 invalid_body"
    );
    assert_eq!(
        refused(&|it| it.content = BlobContent([0; 256].into())),
        "422 invalid_body"
    );
    let large = BlobContent(vec![0; BLOB_CHUNK_MAX + 64].into());
    assert_eq!(refused(&|it| it.content = large.clone()), "413 too_large");
    // Another dispatch of the step, and steps that no worker has.
    assert_eq!(refused(&|it| it.dispatch += 1), "401 unauthorized");
    assert_eq!(
        refused(&|it| it.step = "note".to_owned()),
        "401 unauthorized"
    );
    assert_eq!(
        refused(&|it| it.step = "none".to_owned()),
        "401 unauthorized"
    );
    put(&mut world, good.clone()).unwrap();
    let other = BlobUpload {
        size: 199,
        ..chunk(&world, &whole, 64, 128)
    };
    assert_eq!(
        put(&mut world, other),
        Err("409 blob_size_differs".to_owned())
    );
    world.report("send", done(json!({ "id": "m" })));
    assert_eq!(put(&mut world, good), Err("401 unauthorized".to_owned()));
}

/// A wrong hash deletes the upload, and it can begin again.
#[test]
fn a_wrong_hash_deletes_the_upload() {
    let mut world = working();
    let whole = bytes(1, 200);
    let wrong = BlobUpload {
        content: BlobContent([9; 128].into()),
        ..chunk(&world, &whole, 0, 128)
    };
    let last = chunk(&world, &whole, 128, 200);
    put(&mut world, wrong).unwrap();
    assert_eq!(
        put(&mut world, last.clone()),
        Err("422 blob_hash_differs".to_owned())
    );
    assert!(world.run().blobs.is_empty() && world.blobs.get("send", &hash(&whole)).is_none());
    assert_eq!(put(&mut world, last), Err("409 blob_offset".to_owned()));
    assert!(put_all(&mut world, &whole).complete);
}

/// S1-R9: 16 MiB a blob and 64 MiB a run, by announced sizes, and a number of blobs.
#[test]
fn the_blobs_of_a_run_are_bounded() {
    let mut world = working();
    let of_bytes = |world: &World, number: u8, size: u64, bytes_count: usize| BlobUpload {
        size,
        ..chunk(world, &bytes(number, bytes_count), 0, bytes_count)
    };
    let first = |world: &World, number: u8, size: u64| of_bytes(world, number, size, 128);
    // Small chunks would be many rows.
    let small = first(&world, 0, SNAPSHOT_BLOB_MAX);
    assert_eq!(put(&mut world, small), Err("422 invalid_body".to_owned()));
    for number in 0..4 {
        let upload = of_bytes(&world, number, SNAPSHOT_BLOB_MAX, 64 * 1024);
        assert!(!put(&mut world, upload).unwrap().complete);
    }
    let upload = first(&world, 4, 200);
    assert_eq!(put(&mut world, upload), Err("413 too_large".to_owned()));
    // Nothing refers to them, so they make room after a day.
    world.pass(TimeDelta::milliseconds(
        i64::try_from(UNREFERENCED_MS).unwrap(),
    ));
    for number in 0..u8::try_from(BLOBS_MAX).unwrap() {
        let upload = first(&world, number, 200);
        put(&mut world, upload).unwrap();
    }
    let upload = first(&world, 200, 200);
    assert_eq!(put(&mut world, upload), Err("413 too_large".to_owned()));
}

/// A new part replaces the last one with its blobs. A new snapshot keeps what a step that has not ended saved, and lets
/// other blobs expire.
#[test]
fn a_blob_is_kept_as_long_as_a_snapshot_refers_to_it() {
    let mut world = working();
    let (first, second) = (bytes(1, 70_000), bytes(2, 70_000));
    put_all(&mut world, &first);
    suspend(&mut world);
    deliver_part(&mut world, part(&first, None));
    resume(&mut world, StepOnResume::Redo);
    assert!(world.handed.last().unwrap().resumed);
    // Suspended before a worker has the step: nothing is lost.
    suspend(&mut world);
    let content = world.snapshot.clone().unwrap().snapshot_json;
    assert_eq!(content.checkpoint["sha256"], hash(&first));
    assert_eq!(world.blobs.get("send", &hash(&first)).unwrap().1, None);
    resume(&mut world, StepOnResume::Redo);
    assert_eq!(world.ask("node-a", "send"), Grant::Go);
    put_all(&mut world, &second);
    suspend(&mut world);
    assert!(world.blobs.get("send", &hash(&first)).is_some());
    deliver_part(&mut world, part(&second, None));
    assert!(world.blobs.get("send", &hash(&first)).is_none());
    assert_eq!(world.blobs.get("send", &hash(&second)).unwrap().1, None);
    resume(&mut world, StepOnResume::Skip);
    suspend(&mut world);
    let content = world.snapshot.clone().unwrap().snapshot_json;
    assert!(content.other_steps.is_empty(), "{content:?}");
    assert!(world.blobs.get("send", &hash(&second)).unwrap().1.is_some());
}
