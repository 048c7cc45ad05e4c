//! Policies of a workspace, by name: who approves, and who is notified when no user acts.
//!
//! The same types are the bodies of `/policies`: what is shown can be sent back. A request that names a
//! policy keeps what the policy said when the request was opened.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use holdpoint_ids::PolicyName;
use serde::{Deserialize, Serialize};
use strum::VariantArray;

use crate::hold::{Priority, RungAct};

all_variants!(Weekday);

/// Makes a policy, or changes it; what is open keeps what it was opened with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutPolicy {
    pub name: PolicyName,
    #[serde(flatten)]
    pub rules: PolicyRules,
}

/// Forgets a policy; what is open keeps what it was opened with, and a later use of its name is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeletePolicy {
    pub name: PolicyName,
}

/// One policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetPolicy {
    pub name: PolicyName,
}

/// Policies: those that are built in, then the workspace's own by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListPolicies {}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PolicyRules {
    /// The deciders and their quorum.
    Approval(ApprovalRules),
    /// The ladder of requests.
    Escalation(EscalationRules),
}

/// The deciders and their quorum (S2-R4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRules {
    /// `@user.<name>`, `@role.<name>`; empty: the recipients of the request, or the workspace's owners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(deserialize_with = "one_or_many")]
    pub from: Vec<String>,
    /// Approvals that are needed, each by another person: 1 to 20.
    #[serde(default = "one")]
    pub need: u32,
    /// The requester may not decide it.
    #[serde(default)]
    pub not_requester: bool,
    /// How long a hold, or what a step asks, waits where it says nothing itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(with = "crate::duration::text::option")]
    pub decide_within: Option<u64>,
    /// Longest time in which an approval of a gated call permits it: 1 second to 90 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(with = "crate::duration::text::option")]
    pub valid_for: Option<u64>,
}

const fn one() -> u32 {
    1
}

/// The ladder of requests on which no user acts (S4-R15).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EscalationRules {
    /// At least one; each fires once. Where none of them is the last word, the owners are notified a day
    /// after the last.
    pub rungs: Vec<PolicyRung>,
    /// Actions that stop the rungs, besides a decision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_on: Vec<StopOn>,
    /// When the rungs count and fire; none: always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calendar: Option<Calendar>,
    /// How long a request is quiet once a user has acknowledged it; then its rungs have their turn again:
    /// 1 minute to 30 days. None: as long as its first rung waits, half an hour at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(with = "crate::duration::text::option")]
    pub acknowledged_for: Option<u64>,
}

/// Working time (S4-R15): rungs count it, and fire within it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calendar {
    /// By its name in the time zone database: `Europe/Berlin`.
    pub time_zone: String,
    #[serde(default = "weekdays")]
    pub days: Vec<Weekday>,
    /// When a working day begins: `09:00`.
    pub from: String,
    /// When it ends: `17:30`, at most `24:00`.
    pub to: String,
    /// Days on which no user works.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holidays: Vec<NaiveDate>,
}

fn weekdays() -> Vec<Weekday> {
    Weekday::ALL.into_iter().take(5).collect()
}

/// A day of the week.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, VariantArray,
)]
#[serde(rename_all = "snake_case")]
pub enum Weekday {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

impl From<chrono::Weekday> for Weekday {
    fn from(day: chrono::Weekday) -> Self {
        match day {
            chrono::Weekday::Mon => Self::Mon,
            chrono::Weekday::Tue => Self::Tue,
            chrono::Weekday::Wed => Self::Wed,
            chrono::Weekday::Thu => Self::Thu,
            chrono::Weekday::Fri => Self::Fri,
            chrono::Weekday::Sat => Self::Sat,
            chrono::Weekday::Sun => Self::Sun,
        }
    }
}

/// `"@role.ops"` or `["@role.ops", "@user.ada"]`.
fn one_or_many<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "write `@user.<name>` or `@role.<name>`, one or a list"
    )]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    Ok(match OneOrMany::deserialize(from)? {
        OneOrMany::One(one) => vec![one],
        OneOrMany::Many(many) => many,
    })
}

/// One rung of an escalation policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyRung {
    /// Time from when it was asked.
    #[serde(with = "crate::duration::text")]
    pub after: u64,
    #[serde(rename = "do")]
    pub act: RungAct,
    /// The recipients; empty: the workspace's owners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(deserialize_with = "one_or_many")]
    pub to: Vec<String>,
    /// Whether it happens again; for `notify` and `raise` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Repeat>,
}

/// How often a rung happens again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// Time between two of them.
    #[serde(with = "crate::duration::text")]
    pub every: u64,
    /// How often, besides the first.
    pub times: u32,
}

/// An action that stops the rungs of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopOn {
    /// A user has accepted it: from then on they are reminded after a day, and the owners are notified
    /// after three.
    Accept,
    /// A user has seen it: no rung for [`EscalationRules::acknowledged_for`], and then a new round of
    /// them. It is so for every request, whether it is written or not.
    Acknowledge,
}

/// A policy as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyView {
    pub name: PolicyName,
    #[serde(flatten)]
    pub rules: PolicyRules,
    /// Rises with every change; 0: built in.
    pub version: u64,
    /// Holds where nothing else is said; neither changed nor deleted.
    pub built_in: bool,
    /// The rungs of a built-in one by the priority of the request; `rungs` are those of `normal`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_priority: BTreeMap<Priority, Vec<PolicyRung>>,
}
