//! The feed of one user's notifications, and marks that they are read.

use std::fmt;
use std::str::FromStr;

use holdpoint_ids::{NotificationId, UserName};
use serde::{Deserialize, Serialize};

use super::NotificationView;

/// A place in the changes of a workspace's notifications, written `<number>_<notification>`: the id of a
/// live event. Changes of one commit have one number; within it the notifications are in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FeedCursor {
    /// The number of the commit; it only rises.
    pub seq: u64,
    pub id: NotificationId,
}

/// The text is no [`FeedCursor`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected `<number>_<notification>`")]
pub struct InvalidFeedCursor;

impl fmt::Display for FeedCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.seq, self.id)
    }
}

impl FromStr for FeedCursor {
    type Err = InvalidFeedCursor;

    fn from_str(text: &str) -> Result<Self, InvalidFeedCursor> {
        let parse = || {
            let (seq, id) = text.split_once('_')?;
            // Rows have 63 bits.
            let seq = u64::try_from(seq.parse::<i64>().ok()?).ok()?;
            let id = id.parse().ok()?;
            Some(Self { seq, id })
        };
        parse().ok_or(InvalidFeedCursor)
    }
}

impl TryFrom<String> for FeedCursor {
    type Error = InvalidFeedCursor;

    fn try_from(text: String) -> Result<Self, InvalidFeedCursor> {
        text.parse()
    }
}

impl From<FeedCursor> for String {
    fn from(mark: FeedCursor) -> Self {
        mark.to_string()
    }
}

/// One person's notifications in the order in which they last changed: came, were read, ended. Only that
/// person may see them: who asks has checked it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetNotificationFeed {
    pub person: UserName,
    /// Only what changed after this; none: from the beginning.
    pub after: Option<FeedCursor>,
    /// Only those that are not read.
    #[serde(default)]
    pub unread: bool,
    /// 1 to 500.
    pub limit: u64,
}

/// A page of what is new.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedPage {
    /// The current states; a notification that changed twice is listed once.
    pub items: Vec<FeedItem>,
    pub more: bool,
    /// Number of the newest change in the workspace: a [`FeedCursor`] beyond it never was one.
    pub newest: u64,
}

/// A notification that has come, or changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedItem {
    /// Its place among the changes.
    pub mark: FeedCursor,
    pub notification: NotificationView,
}

/// How much one person has not read. Only that person may see it: who asks has checked it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountUnread {
    pub person: UserName,
}

/// How much a user has not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unread {
    /// As many, counted up to [`Unread::COUNTED`].
    pub count: u64,
    pub more: bool,
    /// Number of the newest change in the workspace, as [`ReadNotifications`] takes it.
    pub newest: u64,
}

impl Unread {
    /// Beyond this it is only said that there are more.
    pub const COUNTED: u64 = 99;
}

/// Marks all of the caller's copies as read. Needs a signed assertion; again changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadNotifications {
    /// What is read
    pub person: UserName,
    /// Except what changed after this number; none: all.
    pub until: Option<u64>,
}

/// That a person has read all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllRead {
    /// As many were not read before.
    pub read: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feed_cursor_is_parsed_back() {
        let text = "12_note_01920000000070008000000000000001-1-3";
        let mark: FeedCursor = text.parse().unwrap();
        assert_eq!((mark.seq, mark.id.rev), (12, Some(3)));
        assert_eq!(mark.to_string(), text);
        for wrong in [
            "",
            "12",
            "_note_01920000000070008000000000000001-1",
            "-1_note_01920000000070008000000000000001-1",
            "9223372036854775808_note_01920000000070008000000000000001-1",
            "12_hold_01920000000070008000000000000001-1",
        ] {
            assert_eq!(
                wrong.parse::<FeedCursor>(),
                Err(InvalidFeedCursor),
                "{wrong}"
            );
        }
    }
}
