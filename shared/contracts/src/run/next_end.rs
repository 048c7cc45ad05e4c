//! The wait of a run that lists show.

use chrono::{DateTime, Utc};

use super::{HoldKind, RunView};

/// The wait of a run that ends next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextEnd {
    pub at: DateTime<Utc>,
    pub kind: HoldKind,
    /// What else the run waits for.
    pub more: usize,
}

impl RunView {
    /// The wait that ends next after an instant. After the deadline of a request, a run may go on waiting.
    #[must_use]
    pub fn next_end(&self, after: DateTime<Utc>) -> Option<NextEnd> {
        let ends = self
            .waiting_on
            .iter()
            .filter_map(|on| Some((on.until?, on.kind)));
        let next = ends.filter(|(at, _)| *at > after).min_by_key(|(at, _)| *at);
        next.map(|(at, kind)| NextEnd {
            at,
            kind,
            more: self.waiting_on.len().saturating_sub(1),
        })
    }
}
