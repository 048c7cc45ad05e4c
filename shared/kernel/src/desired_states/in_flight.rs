//! The desired states of each sent message, until the reply to it arrives.

use std::collections::BTreeMap;

use super::rows::Sent;

/// Desired states whose replies are awaited. Beyond it the oldest messages are dropped: their replies are
/// ignored, and their desired states are sent again.
const AWAITED_MAX: usize = 200_000;

/// Messages by the token in their reply subject.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    next: u64,
    desired_states: usize,
    messages: BTreeMap<u64, Vec<Sent>>,
}

impl InFlight {
    /// Adds the desired states of a message; returns its token.
    pub(crate) fn add(&mut self, carried: Vec<Sent>) -> u64 {
        let token = self.next;
        self.next += 1;
        self.desired_states += carried.len();
        self.messages.insert(token, carried);
        while self.desired_states > AWAITED_MAX {
            let Some((_, oldest)) = self.messages.pop_first() else {
                break;
            };
            self.desired_states -= oldest.len();
        }
        token
    }

    /// Removes and returns the desired states of the message with this token.
    pub(crate) fn take(&mut self, token: u64) -> Option<Vec<Sent>> {
        let carried = self.messages.remove(&token)?;
        self.desired_states -= carried.len();
        Some(carried)
    }
}
