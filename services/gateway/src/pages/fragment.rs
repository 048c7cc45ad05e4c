//! Parts of a page that the live stream replaces by their id.

use holdpoint_ids::{HoldId, NotificationId};
use maud::{Markup, Render};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// A part of a page with an id.
#[derive(Debug)]
pub(super) struct Fragment {
    pub(super) id: String,
    /// Hash of the data behind the markup: a reader that has it keeps its part.
    pub(super) key: String,
    pub(super) html: Markup,
    /// Set for cards: a card is sent once more after it has left its list.
    pub(super) card: Option<CardId>,
}

/// A request or notification that is shown as a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CardId {
    Request(HoldId),
    Notification(NotificationId),
}

impl Fragment {
    /// A part that is not a card. `html` renders it with the key of its data.
    pub(super) fn new(id: &str, data: &impl Serialize, html: impl FnOnce(&str) -> Markup) -> Self {
        let key = key_of(data);
        Self {
            id: id.to_owned(),
            html: html(&key),
            key,
            card: None,
        }
    }
}

impl Render for Fragment {
    fn render_to(&self, page: &mut String) {
        page.push_str(&self.html.0);
    }
}

pub(super) fn key_of(data: &impl Serialize) -> String {
    let bytes = serde_json::to_vec(data).unwrap_or_default();
    let mut digest = format!("{:x}", Sha256::digest(&bytes));
    digest.truncate(16);
    digest
}
