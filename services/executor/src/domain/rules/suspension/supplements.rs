//! What a worker adds to a snapshot, and its limits (S1-R2, S1-R9).

use holdpoint_contracts::size::json_bytes;
use holdpoint_contracts::suspension::{
    SNAPSHOT_BLOB_MAX, SNAPSHOT_INLINE_MAX, SNAPSHOT_MAX, SandboxFile, Snapshot, Supplement,
    ValueReference,
};
use holdpoint_contracts::value_limits;
use serde::Deserialize as _;
use serde_json::Value;

use crate::domain::refusal::Refusal;
use crate::domain::rules::suspension::snapshot::inline_or_reference;

/// Most bytes that the parts of all workers have inline in one snapshot.
const SUPPLEMENTS_BYTES_MAX: usize = 512 * 1024;

/// Adds the part of a worker. Values that are too large for the snapshot become references.
pub(crate) fn add_supplement(
    snapshot: &mut Snapshot,
    step: &str,
    supplement: &Supplement,
) -> Result<(), Refusal> {
    check_values(supplement)?;
    let known = referred_bytes(snapshot);
    let bytes = known.saturating_add(bytes_of(supplement));
    if bytes > SNAPSHOT_MAX {
        return Err(Refusal::SnapshotTooLarge(bytes));
    }
    let mut left = SUPPLEMENTS_BYTES_MAX.saturating_sub(inline_bytes(snapshot));
    let Supplement {
        write_buffer,
        checkpoint,
        sandbox,
    } = supplement.clone();
    let write_buffer = inline_or_reference(write_buffer, &mut left);
    let checkpoint = inline_or_reference(checkpoint, &mut left);
    let sandbox = sandbox.map(|mut sandbox| {
        let mut room = left.min(SNAPSHOT_INLINE_MAX);
        let has_room = |file: &SandboxFile| {
            let rest = room.checked_sub(json_bytes(file));
            room = rest.unwrap_or_default();
            rest.is_some()
        };
        let listed = sandbox.files.len();
        let files = std::mem::take(&mut sandbox.files);
        sandbox.files = files.into_iter().take_while(has_room).collect();
        let omitted = listed - sandbox.files.len();
        let omitted = u64::try_from(omitted).unwrap_or(u64::MAX);
        sandbox.omitted = sandbox.omitted.saturating_add(omitted);
        sandbox
    });
    let part = Supplement {
        write_buffer,
        checkpoint,
        sandbox,
    };
    set_part(snapshot, step, part);
    Ok(())
}

/// Replaces the part of a step.
pub(crate) fn set_part(snapshot: &mut Snapshot, step: &str, part: Supplement) {
    if snapshot.current_step.as_deref() == Some(step) {
        snapshot.write_buffer = part.write_buffer;
        snapshot.checkpoint = part.checkpoint;
        snapshot.sandbox = part.sandbox;
    } else {
        snapshot.other_steps.insert(step.to_owned(), part);
    }
}

/// Replaces the current step. The parts of steps stay theirs.
pub(crate) fn set_current_step(snapshot: &mut Snapshot, step: Option<String>) {
    if snapshot.current_step == step {
        return;
    }
    let last = snapshot.current_step.take();
    if let Some(last) = last {
        let part = own_part(snapshot);
        if part != Supplement::default() {
            snapshot.other_steps.insert(last, part);
        }
    }
    let part = step
        .as_ref()
        .and_then(|step| snapshot.other_steps.remove(step));
    snapshot.current_step.clone_from(&step);
    if let Some(step) = step {
        set_part(snapshot, &step, part.unwrap_or_default());
    }
}

/// The part of a step; none: its worker has added none.
pub(crate) fn part_of(snapshot: &Snapshot, step: &str) -> Option<Supplement> {
    if snapshot.current_step.as_deref() == Some(step) {
        Some(own_part(snapshot)).filter(|part| *part != Supplement::default())
    } else {
        snapshot.other_steps.get(step).cloned()
    }
}

/// The limits of one part.
pub(crate) fn check_values(supplement: &Supplement) -> Result<(), Refusal> {
    for value in [&supplement.write_buffer, &supplement.checkpoint] {
        if let Err(exceeded) = value_limits::check(value) {
            return Err(Refusal::InvalidSupplement(exceeded.to_string()));
        }
        match reference(value) {
            Some(it) if it.size > SNAPSHOT_BLOB_MAX => {
                return Err(Refusal::SnapshotValueTooLarge(it.size));
            }
            Some(_) | None => {}
        }
    }
    let texts = supplement.sandbox.iter().flat_map(|sandbox| {
        let files = sandbox.files.iter();
        let texts = files.flat_map(|file| [&file.path, &file.sha256]);
        texts.chain([&sandbox.path])
    });
    for text in texts {
        if text.contains('\0') || text.len() > PATH_BYTES_MAX {
            let detail =
                format!("a path of a sandbox has a zero byte or more than {PATH_BYTES_MAX} bytes");
            return Err(Refusal::InvalidSupplement(detail));
        }
    }
    Ok(())
}

/// Longest path of a sandbox or in it, in bytes, as on Linux.
const PATH_BYTES_MAX: usize = 4_096;

/// A value as a reference, if it is one.
pub(crate) fn reference(value: &Value) -> Option<ValueReference> {
    let fields = value.as_object()?;
    // Only a small object can be one.
    (3..=4)
        .contains(&fields.len())
        .then(|| ValueReference::deserialize(value).ok())?
}

fn bytes_of(supplement: &Supplement) -> u64 {
    let values = [&supplement.write_buffer, &supplement.checkpoint];
    let values = values.map(|value| match reference(value) {
        Some(it) => it.size,
        None => u64::try_from(json_bytes(value)).unwrap_or(u64::MAX),
    });
    values.into_iter().fold(0, u64::saturating_add)
}

fn referred_bytes(snapshot: &Snapshot) -> u64 {
    let parts = snapshot.other_steps.values().map(bytes_of);
    let own = bytes_of(&own_part(snapshot));
    parts.fold(own, u64::saturating_add)
}

fn inline_bytes(snapshot: &Snapshot) -> usize {
    json_bytes(&own_part(snapshot)) + json_bytes(&snapshot.other_steps)
}

fn own_part(snapshot: &Snapshot) -> Supplement {
    Supplement {
        write_buffer: snapshot.write_buffer.clone(),
        checkpoint: snapshot.checkpoint.clone(),
        sandbox: snapshot.sandbox.clone(),
    }
}
