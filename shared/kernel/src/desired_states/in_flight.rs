//! Which wishes each message carried, until its answer comes.

use std::collections::BTreeMap;

use super::Sent;

/// Wishes whose answers are waited for. Beyond it the oldest messages are forgotten: an answer to
/// them counts no more, and their wishes are sent again.
const WAITING_MAX: usize = 200_000;

/// Messages by the token in their reply subject.
#[derive(Debug, Default)]
pub(crate) struct Open {
    next: u64,
    wishes: usize,
    messages: BTreeMap<u64, Vec<Sent>>,
}

impl Open {
    /// Notes what a message carries; returns its token.
    pub(crate) fn note(&mut self, carried: Vec<Sent>) -> u64 {
        let token = self.next;
        self.next += 1;
        self.wishes += carried.len();
        self.messages.insert(token, carried);
        while self.wishes > WAITING_MAX {
            let Some((_, oldest)) = self.messages.pop_first() else {
                break;
            };
            self.wishes -= oldest.len();
        }
        token
    }

    /// What the message with this token carried; asked once.
    pub(crate) fn take(&mut self, token: u64) -> Option<Vec<Sent>> {
        let carried = self.messages.remove(&token)?;
        self.wishes -= carried.len();
        Some(carried)
    }
}
