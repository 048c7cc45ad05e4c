//! Columns of keys that several tables have.

use holdpoint_ids::NotificationId;

/// The columns `workspace` and `hold`.
pub(super) type HoldRow = (String, String);

/// The number of a notification's id, as rows have it.
pub(super) const fn stored_rev(id: NotificationId) -> u64 {
    match id.rev {
        Some(rev) => rev,
        None => 0,
    }
}
