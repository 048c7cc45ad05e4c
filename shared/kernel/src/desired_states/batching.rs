//! Packs desired states into messages. Each message has one kind, workspace and partition, and fits the bus.

use std::collections::{BTreeMap, HashSet};

use holdpoint_bus::Outgoing;
use holdpoint_ids::{Workspace, partition};

use super::rows::{DesiredStateKey, ENVELOPE_BYTES, Sent, Unacknowledged};
use crate::service::Service;

const DESIRED_STATES_PER_MESSAGE: usize = 500;

/// A message and its desired states, in order.
#[derive(Debug)]
pub(crate) struct MessageBatch {
    pub(crate) message: Outgoing,
    pub(crate) carried: Vec<Sent>,
}

#[derive(Debug, Default)]
pub(crate) struct PackedMessages {
    pub(crate) messages: Vec<MessageBatch>,
    /// Desired states that no message can carry, with the reason.
    pub(crate) unsendable: Vec<(Unacknowledged, Unsendable)>,
}

/// Why no message can carry a desired state.
#[derive(Debug, Clone)]
pub(crate) enum Unsendable {
    /// The message is larger than the bus allows.
    TooLarge(String),
    /// This version cannot read the row, but the version that wrote it can.
    Unreadable(String),
}

/// Packs desired states; each of those in `alone` gets a separate message.
pub(crate) fn pack<S: Service>(
    service: &S,
    desired_states: Vec<Unacknowledged>,
    alone: &HashSet<DesiredStateKey>,
    bytes_max: usize,
) -> PackedMessages {
    let mut packed = PackedMessages::default();
    let mut attempts: BTreeMap<(String, String, u32), Vec<Unacknowledged>> = BTreeMap::new();
    for desired_state in desired_states {
        if alone.contains(&desired_state.sent.key) {
            write(service, vec![desired_state], bytes_max, &mut packed);
            continue;
        }
        let key = &desired_state.sent.key;
        let group = (
            key.kind.to_string(),
            key.workspace.clone(),
            partition(aggregate_of(&key.id)),
        );
        attempts.entry(group).or_default().push(desired_state);
    }
    for group in attempts.into_values() {
        let (mut chunk, mut bytes) = (Vec::new(), ENVELOPE_BYTES);
        for desired_state in group {
            let more = desired_state.body.len() + 1;
            let is_full = chunk.len() == DESIRED_STATES_PER_MESSAGE || bytes + more > bytes_max;
            if is_full && !chunk.is_empty() {
                write(service, std::mem::take(&mut chunk), bytes_max, &mut packed);
                bytes = ENVELOPE_BYTES;
            }
            bytes += more;
            chunk.push(desired_state);
        }
        write(service, chunk, bytes_max, &mut packed);
    }
    packed
}

/// The id without the number behind `#`; see [`DesiredState::id`](crate::DesiredState::id).
fn aggregate_of(id: &str) -> &str {
    id.split_once('#').map_or(id, |(aggregate, _)| aggregate)
}

/// Writes one message. If that fails it writes the halves, so that one bad desired state does not block the
/// others.
fn write<S: Service>(
    service: &S,
    first: Vec<Unacknowledged>,
    bytes_max: usize,
    packed: &mut PackedMessages,
) {
    let mut chunks = vec![first];
    while let Some(mut chunk) = chunks.pop() {
        match message(service, &chunk, bytes_max) {
            Ok(message) => packed.messages.push(MessageBatch {
                message,
                carried: chunk.into_iter().map(|one| one.sent).collect(),
            }),
            Err(_) if chunk.len() > 1 => {
                chunks.push(chunk.split_off(chunk.len() / 2));
                chunks.push(chunk);
            }
            Err(why) => {
                let unsendable = chunk.into_iter().map(|one| (one, why.clone()));
                packed.unsendable.extend(unsendable);
            }
        }
    }
}

fn message<S: Service>(
    service: &S,
    chunk: &[Unacknowledged],
    bytes_max: usize,
) -> Result<Outgoing, Unsendable> {
    let unreadable = |error: &dyn std::fmt::Display| Unsendable::Unreadable(error.to_string());
    let first = chunk
        .first()
        .ok_or_else(|| unreadable(&"no desired state to send"))?;
    let first = &first.sent.key;
    let workspace: Workspace = first
        .workspace
        .parse()
        .map_err(|error| unreadable(&format!("workspace `{}`: {error}", first.workspace)))?;
    let bodies: Vec<_> = chunk.iter().map(|one| one.body.as_str()).collect();
    let message = service
        .desired_state_command(&first.kind, &workspace, &bodies)
        .map_err(|error| unreadable(&error))?;
    let bytes = message.subject.len() + message.body.len();
    if bytes > bytes_max {
        return Err(Unsendable::TooLarge(format!(
            "its message has {bytes} bytes and the bus allows {bytes_max}"
        )));
    }
    Ok(message)
}
