//! Pages of lists.

use serde::{Deserialize, Serialize};

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Page<T> {
    /// At most `limit` of them.
    pub items: Vec<T>,
    /// Ask with it for the next page; none at the end.
    pub next_cursor: Option<String>,
}

impl<T> Page<T> {
    /// The first `limit` of these items, one more of which shows that a page follows. The cursor names the last item.
    pub fn cut(mut items: Vec<T>, limit: u64, cursor: impl Fn(&T) -> String) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = items.len() > limit;
        items.truncate(limit);
        let next_cursor = items.last().filter(|_| has_more).map(cursor);
        Self { items, next_cursor }
    }
}

impl<T> From<Vec<T>> for Page<T> {
    /// The only page of a list.
    fn from(items: Vec<T>) -> Self {
        Self {
            items,
            next_cursor: None,
        }
    }
}
