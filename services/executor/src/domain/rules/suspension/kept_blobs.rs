//! Which blobs of a run are kept: those that its newest snapshot refers to (S1-R9). Others expire.

use holdpoint_contracts::suspension::{Snapshot, Supplement, ValueReference};
use serde_json::{Value, json};

use crate::domain::effect::{BlobChange, Effect};
use crate::domain::model::run::{Blob, UNREFERENCED_MS};
use crate::domain::model::time::after;
use crate::domain::rules::suspension::supplements::{part_of, reference};
use crate::domain::transition::RunTransition;

pub(crate) fn change_blob(transition: &mut RunTransition<'_>, blob: &Blob, change: BlobChange) {
    transition.effect(Effect::Blob {
        run: transition.run.id,
        step: blob.step.clone(),
        sha256: blob.sha256.clone(),
        change,
    });
}

/// Deletes blobs with their chunks.
pub(crate) fn remove_blobs(transition: &mut RunTransition<'_>, is_removed: impl Fn(&Blob) -> bool) {
    let removed = transition.run.blobs.extract_if(.., |blob| is_removed(blob));
    for blob in removed.collect::<Vec<_>>() {
        change_blob(transition, &blob, BlobChange::Delete);
    }
}

/// Keeps the blobs that the new part of a step refers to, and deletes those that its last part referred to.
pub(crate) fn keep_blobs_of_part(
    transition: &mut RunTransition<'_>,
    step: &str,
    part: &Supplement,
) {
    let referred = |blob: &Blob| blob.step == step && blob.is_complete() && refers_to(part, blob);
    remove_blobs(transition, |blob| {
        blob.step == step && blob.expires_at.is_none() && !referred(blob)
    });
    let now = transition.now;
    for index in 0..transition.run.blobs.len() {
        let blob = transition.run.blobs.get_mut(index);
        if let Some(blob) = blob.filter(|blob| referred(blob) && !blob.has_expired(now)) {
            blob.expires_at = None;
            let blob = blob.clone();
            change_blob(transition, &blob, BlobChange::Expire(None));
        }
    }
}

/// Lets the blobs expire to which a new snapshot does not refer.
pub(crate) fn release_blobs(transition: &mut RunTransition<'_>, snapshot: &Snapshot) {
    let expires_at = Some(after(transition.now, UNREFERENCED_MS));
    for index in 0..transition.run.blobs.len() {
        let blob = transition.run.blobs.get_mut(index);
        let is_referred =
            |blob: &Blob| part_of(snapshot, &blob.step).is_some_and(|part| refers_to(&part, blob));
        if let Some(blob) = blob.filter(|blob| blob.expires_at.is_none() && !is_referred(blob)) {
            blob.expires_at = expires_at;
            let blob = blob.clone();
            change_blob(transition, &blob, BlobChange::Expire(expires_at));
        }
    }
}

/// A part in which each reference says whether its content was uploaded.
pub(crate) fn with_stored(
    transition: &RunTransition<'_>,
    step: &str,
    part: &Supplement,
) -> Supplement {
    let mut part = part.clone();
    for value in [&mut part.write_buffer, &mut part.checkpoint] {
        let Some(known) = reference(value) else {
            continue;
        };
        let mut blobs = transition.run.blobs.iter();
        let stored = blobs.any(|blob| {
            blob.is(step, &known.sha256)
                && blob.size == known.size
                && blob.is_complete()
                && !blob.has_expired(transition.now)
        });
        *value = json!(ValueReference { stored, ..known });
    }
    part
}

fn refers_to(part: &Supplement, blob: &Blob) -> bool {
    let is_it = |value: &Value| reference(value).is_some_and(|it| it.sha256 == blob.sha256);
    is_it(&part.write_buffer) || is_it(&part.checkpoint)
}
