//! Which desired states each message carried, until its answer comes.

use std::collections::BTreeMap;

use super::Sent;

/// Desired states whose answers are waited for. Beyond it the oldest messages are forgotten: an answer to
/// them counts no more, and their desired states are sent again.
const WAITING_MAX: usize = 200_000;

/// Messages by the token in their reply subject.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    next: u64,
    desired_states: usize,
    messages: BTreeMap<u64, Vec<Sent>>,
}

impl InFlight {
    /// Notes what a message carries; returns its token.
    pub(crate) fn note(&mut self, carried: Vec<Sent>) -> u64 {
        let token = self.next;
        self.next += 1;
        self.desired_states += carried.len();
        self.messages.insert(token, carried);
        while self.desired_states > WAITING_MAX {
            let Some((_, oldest)) = self.messages.pop_first() else {
                break;
            };
            self.desired_states -= oldest.len();
        }
        token
    }

    /// What the message with this token carried; asked once.
    pub(crate) fn take(&mut self, token: u64) -> Option<Vec<Sent>> {
        let carried = self.messages.remove(&token)?;
        self.desired_states -= carried.len();
        Some(carried)
    }
}
