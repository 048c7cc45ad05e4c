//! Packs wishes into messages: one kind, workspace and partition each, within the bus's size.

use std::collections::{BTreeMap, HashSet};

use holdpoint_bus::Outgoing;
use holdpoint_ids::{Workspace, partition};

use super::{ENVELOPE_BYTES, Sent, Unconfirmed, WishKey};
use crate::Service;

/// Wishes that one message carries at most.
const WISHES_PER_MESSAGE: usize = 500;

/// A message and the wishes in it, in its order.
#[derive(Debug)]
pub(crate) struct Letter {
    pub(crate) message: Outgoing,
    pub(crate) carried: Vec<Sent>,
}

/// What became of wishes that were to be packed.
#[derive(Debug, Default)]
pub(crate) struct Packed {
    pub(crate) letters: Vec<Letter>,
    /// No message can carry these, with the reason.
    pub(crate) unsendable: Vec<(Unconfirmed, Unsendable)>,
}

/// Why no message can carry a wish.
#[derive(Debug, Clone)]
pub(crate) enum Unsendable {
    /// The bus does not take a message of its size.
    TooLarge(String),
    /// This version cannot read the row; the version that wrote it can.
    Unreadable(String),
}

/// Packs wishes; those in `alone` each into a message of their own.
pub(crate) fn pack<S: Service>(
    service: &S,
    wishes: Vec<Unconfirmed>,
    alone: &HashSet<WishKey>,
    bytes_max: usize,
) -> Packed {
    let mut packed = Packed::default();
    let mut groups: BTreeMap<(String, String, u32), Vec<Unconfirmed>> = BTreeMap::new();
    for wish in wishes {
        if alone.contains(&wish.sent.key) {
            write(service, vec![wish], bytes_max, &mut packed);
            continue;
        }
        let key = &wish.sent.key;
        let group = (
            key.kind.to_string(),
            key.workspace.clone(),
            partition(&key.id),
        );
        groups.entry(group).or_default().push(wish);
    }
    for group in groups.into_values() {
        let (mut chunk, mut bytes) = (Vec::new(), ENVELOPE_BYTES);
        for wish in group {
            let more = wish.body.len() + 1;
            let is_full = chunk.len() == WISHES_PER_MESSAGE || bytes + more > bytes_max;
            if is_full && !chunk.is_empty() {
                write(service, std::mem::take(&mut chunk), bytes_max, &mut packed);
                bytes = ENVELOPE_BYTES;
            }
            bytes += more;
            chunk.push(wish);
        }
        write(service, chunk, bytes_max, &mut packed);
    }
    packed
}

/// Writes one message; what cannot be written together is written in halves, so that one bad wish
/// holds up no other.
fn write<S: Service>(service: &S, first: Vec<Unconfirmed>, bytes_max: usize, packed: &mut Packed) {
    let mut chunks = vec![first];
    while let Some(mut chunk) = chunks.pop() {
        match message(service, &chunk, bytes_max) {
            Ok(message) => packed.letters.push(Letter {
                message,
                carried: chunk.into_iter().map(|wish| wish.sent).collect(),
            }),
            Err(_) if chunk.len() > 1 => {
                chunks.push(chunk.split_off(chunk.len() / 2));
                chunks.push(chunk);
            }
            Err(why) => {
                let alone = chunk.into_iter().map(|wish| (wish, why.clone()));
                packed.unsendable.extend(alone);
            }
        }
    }
}

fn message<S: Service>(
    service: &S,
    chunk: &[Unconfirmed],
    bytes_max: usize,
) -> Result<Outgoing, Unsendable> {
    let unreadable = |error: &dyn std::fmt::Display| Unsendable::Unreadable(error.to_string());
    let first = chunk
        .first()
        .ok_or_else(|| unreadable(&"nothing to send"))?;
    let first = &first.sent.key;
    let workspace: Workspace = first
        .workspace
        .parse()
        .map_err(|error| unreadable(&format!("workspace `{}`: {error}", first.workspace)))?;
    let bodies: Vec<_> = chunk.iter().map(|wish| wish.body.as_str()).collect();
    let message = service
        .wish_message(&first.kind, &workspace, &bodies)
        .map_err(|error| unreadable(&error))?;
    let bytes = message.subject.len() + message.body.len();
    if bytes > bytes_max {
        return Err(Unsendable::TooLarge(format!(
            "its message has {bytes} bytes, and the bus takes {bytes_max}"
        )));
    }
    Ok(message)
}
