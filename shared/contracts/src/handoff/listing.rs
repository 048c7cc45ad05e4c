//! Filters and order of listed requests.

use holdpoint_ids::{RunId, UserName};
use serde::{Deserialize, Serialize};

use super::RequestStatus;
use crate::hold::Priority;
use crate::run::HoldKind;

/// Requests, newest first unless `order` says otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListRequests {
    /// 1 to 500.
    pub limit: u64,
    pub cursor: Option<String>,
    pub status: Option<RequestStatus>,
    pub kind: Option<HoldKind>,
    pub run: Option<RunId>,
    /// Only requests that this user has, may take or was delegated, by name or by a role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignee: Option<UserName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Only snoozed requests (`true`), or only others (`false`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snoozed: Option<bool>,
    /// The user who snoozed them; none: the assignee.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snoozed_by: Option<UserName>,
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub order: ListOrder,
    /// As cards for people: no timers, which ask no user, and in place of a context above 8 KiB
    /// `{"omitted": true}`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cards: bool,
}

/// In which order requests are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListOrder {
    #[default]
    Newest,
    /// By priority, then by deadline, then the oldest first. Its pages are places in a list that
    /// moves: what is asked between two pages may be missed or come twice.
    Urgency,
}
