//! Which requests a user looks for, and in which order.

use holdpoint_ids::{RunId, UserName};
use serde::{Deserialize, Serialize};

use super::{RequestStatus, RequestView, SERVICE};
use crate::hold::Priority;
use crate::message::Query;
use crate::run::{HoldKind, Page};

/// Requests, newest first unless `order` says otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListRequests {
    /// 1 to 500.
    pub limit: u64,
    /// From the page before.
    pub cursor: Option<String>,
    /// Only with this status.
    pub status: Option<RequestStatus>,
    /// Only of this kind.
    pub kind: Option<HoldKind>,
    /// Only of this run.
    pub run: Option<RunId>,
    /// Only what this user has, or may take, or was delegated: by name, or by one of their roles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignee: Option<UserName>,
    /// Only of this priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Only what is put away for later (`true`), or only what is not (`false`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snoozed: Option<bool>,
    /// By whom; none: by the assignee.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snoozed_by: Option<UserName>,
    /// The order.
    #[serde(default, skip_serializing_if = "ListOrder::is_newest")]
    pub order: ListOrder,
    /// As cards for people: no timers, which ask no user, and in place of a context above 8 KiB
    /// `{"omitted": true}`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cards: bool,
}
query!(ListRequests, "requests", Page<RequestView>);

/// In which order requests are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListOrder {
    /// The newest first.
    #[default]
    Newest,
    /// By priority, then by deadline, then the oldest first. Its pages are places in a list that
    /// moves: what is asked between two pages may be missed or come twice.
    Urgency,
}

impl ListOrder {
    /// Whether nothing was said of it.
    #[must_use]
    pub const fn is_newest(&self) -> bool {
        matches!(self, Self::Newest)
    }
}
