//! Typed names and ids, and the partition that an id belongs to.
//!
//! Ids sort by the time of their creation (UUIDv7) and have a readable prefix. Only this crate creates random
//! ids. It knows nothing of storage, bus or HTTP.

mod nearest_names;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

pub use nearest_names::nearest;

/// Number of partitions of every command subject (`<p>` in `hp.<ws>.cmd.<service>.<p>.<verb>`).
pub const PARTITIONS: u32 = 16;

/// Longest name of a workspace, agent, contact or tool, in characters.
pub const NAME_CHARS_MAX: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid {kind} `{text:.100}`; expected {expected}")]
pub struct IdError {
    /// The expected kind, such as `run id`.
    pub kind: &'static str,
    pub expected: &'static str,
    pub text: String,
}

/// The partition of an aggregate id: CRC-32 (IEEE) of its text, modulo [`PARTITIONS`].
#[must_use]
pub fn partition(id: &str) -> u32 {
    crc32fast::hash(id.as_bytes()) % PARTITIONS
}

/// A name as one token of a subject or of a consumer's name: a dot is written `~`.
#[must_use]
pub fn subject_token(name: &str) -> String {
    name.replace('.', "~")
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Uuid);

        impl $name {
            /// A new random id. Pure cores never call this; they get ids with their input.
            #[must_use]
            #[expect(clippy::disallowed_methods, reason = "this crate is where ids are made")]
            pub fn fresh() -> Self {
                Self(Uuid::now_v7())
            }

            /// An id from a known UUID, for tests, simulations and rows.
            #[must_use]
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            #[must_use]
            pub const fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0.simple())
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                text.strip_prefix($prefix)
                    .filter(|rest| rest.len() == 32)
                    .and_then(|rest| Uuid::try_parse(rest).ok())
                    .map(Self)
                    .ok_or_else(|| IdError {
                        kind: $kind,
                        expected: concat!("`", $prefix, "` and 32 hexadecimal digits"),
                        text: text.to_owned(),
                    })
            }
        }
    };
}

uuid_id!(
    /// One execution of one agent version.
    RunId,
    "run_",
    "run id"
);
uuid_id!(
    /// One command; retries of the caller have the same id.
    CommandId,
    "cmd_",
    "command id"
);

uuid_id!(
    /// A person's approval of calls in advance.
    StandingApprovalId,
    "sa_",
    "standing approval id"
);

uuid_id!(
    /// One action on all runs that match a filter.
    OperationId,
    "op_",
    "operation id"
);

uuid_id!(
    /// A program that receives events.
    WebhookId,
    "wh_",
    "webhook id"
);

impl RunId {
    /// The id of the run that a schedule starts when it fires at an instant. Derived, so that a fire that is handled
    /// again, or by two replicas, starts one run. `created_ms` distinguishes a schedule from a deleted one of its name.
    /// The id contains the instant, because lists of runs are in the order of ids.
    #[must_use]
    pub fn of_schedule(
        workspace: &Workspace,
        schedule: &ScheduleName,
        created_ms: i64,
        fired_ms: i64,
    ) -> Self {
        Self::derived(
            &format!("{workspace} {schedule} {created_ms} {fired_ms}"),
            fired_ms,
        )
    }

    /// The id of a run that a step of another run starts. Derived, so that a repeated start is the same run. `place`
    /// distinguishes the runs that the hold of the step waits for.
    #[must_use]
    pub fn of_child(hold: HoldId, place: u32, started_ms: i64) -> Self {
        Self::derived(&format!("{hold} {place}"), started_ms)
    }

    /// The id of a rehearsed run. Derived, so that a repeated rehearsal has the same result.
    #[must_use]
    pub fn of_rehearsal(contact: &ContactId, started_ms: i64) -> Self {
        Self::derived(&format!("{contact} is rehearsed"), started_ms)
    }

    fn derived(from: &str, at_ms: i64) -> Self {
        let mut drawn = [0; 10];
        for (byte, digest) in drawn.iter_mut().zip(Sha256::digest(from)) {
            *byte = digest;
        }
        let millis = u64::try_from(at_ms).unwrap_or_default();
        Self::from_uuid(uuid::Builder::from_unix_timestamp_millis(millis, &drawn).into_uuid())
    }
}

/// A hold of a run: the run's id and the number of the hold within the run.
///
/// Derived and not random, so that a pure core can create it, and that the run of a hold is known from its
/// id. A standalone hold has the number 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HoldId {
    pub run: RunId,
    /// From 1 within a run.
    pub number: u32,
}

impl HoldId {
    /// A new id of a standalone hold (M-6). Pure cores never call this.
    #[must_use]
    pub fn standalone() -> Self {
        Self {
            run: RunId::fresh(),
            number: 0,
        }
    }

    /// The id of the hold that asks this one again. Derived, so that a second caller finds the hold of the
    /// first.
    #[must_use]
    pub fn asked_again(self) -> Self {
        Self::derived(&format!("{self} is asked again"))
    }

    /// The id of the task that a step creates. It is the same for every attempt, so that only one task is
    /// created.
    #[must_use]
    pub fn task_of(idempotency_key: &str) -> Self {
        Self::derived(&format!("the task of {idempotency_key}"))
    }

    /// The id under which the notifications of a contact are kept. No request has it.
    #[must_use]
    pub fn of_contact(contact: &ContactId) -> Self {
        Self::derived(&format!("the notifications of contact {contact}"))
    }

    fn derived(from: &str) -> Self {
        let digest = Sha256::digest(from);
        let mut bytes = uuid::Bytes::default();
        for (byte, drawn) in bytes.iter_mut().zip(digest) {
            *byte = drawn;
        }
        let uuid = uuid::Builder::from_custom_bytes(bytes).into_uuid();
        Self {
            run: RunId::from_uuid(uuid),
            number: 0,
        }
    }

    #[must_use]
    pub const fn is_standalone(self) -> bool {
        self.number == 0
    }
}

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hold_{}-{}", self.run.uuid().simple(), self.number)
    }
}

impl FromStr for HoldId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let parse = || {
            let (run, number) = text.strip_prefix("hold_")?.split_once('-')?;
            let run = Uuid::try_parse(run).ok().filter(|_| run.len() == 32)?;
            Some(Self {
                run: RunId::from_uuid(run),
                number: number.parse().ok()?,
            })
        };
        parse().ok_or_else(|| IdError {
            kind: "hold id",
            expected: "`hold_`, 32 hexadecimal digits, `-` and a number",
            text: text.to_owned(),
        })
    }
}

/// A notification; the inbox entries of all users share this id. It is derived from the request's id, so
/// that it is known at once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NotificationId {
    pub hold: HoldId,
    /// The request's version that it reports. `None`: the request was opened.
    pub rev: Option<u64>,
}

impl NotificationId {
    /// The notification that a request was opened.
    #[must_use]
    pub const fn opened(hold: HoldId) -> Self {
        Self { hold, rev: None }
    }

    /// The digest of one day, such as 20260131. It has no request.
    #[must_use]
    pub const fn digest(day: u64) -> Self {
        let run = RunId::from_uuid(Uuid::nil());
        Self {
            hold: HoldId { run, number: 0 },
            rev: Some(day),
        }
    }
}

impl fmt::Display for NotificationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HoldId { run, number } = self.hold;
        write!(f, "note_{}-{number}", run.uuid().simple())?;
        match self.rev {
            Some(rev) => write!(f, "-{rev}"),
            None => Ok(()),
        }
    }
}

impl FromStr for NotificationId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let parse = || {
            let mut parts = text.strip_prefix("note_")?.splitn(3, '-');
            let hold = format!("hold_{}-{}", parts.next()?, parts.next()?);
            let rev = parts.next().map(str::parse).transpose().ok()?;
            Some(Self {
                hold: hold.parse().ok()?,
                rev,
            })
        };
        parse().ok_or_else(|| IdError {
            kind: "notification id",
            expected: "`note_`, 32 hexadecimal digits, `-` and a number, perhaps one more",
            text: text.chars().take(200).collect(),
        })
    }
}

/// Letters, digits, `.`, `_`, `-`; starts with a letter or digit; at most [`NAME_CHARS_MAX`].
fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    text.len() <= NAME_CHARS_MAX
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(allowed)
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        name!(
            $(#[$doc])*
            $name,
            $kind,
            "1 to 100 letters, digits, `.`, `_` or `-`, starting with a letter or digit",
            is_name
        );
    };
    ($(#[$doc:meta])* $name:ident, $kind:literal, without dots) => {
        name!(
            $(#[$doc])*
            $name,
            $kind,
            "1 to 100 letters, digits, `_` or `-`, starting with a letter or digit",
            |text| is_name(text) && !text.contains('.')
        );
    };
    ($(#[$doc:meta])* $name:ident, $kind:literal, $expected:literal, $is_valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(String);

        impl $name {
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let is_valid: fn(&str) -> bool = $is_valid;
                if is_valid(text) {
                    return Ok(Self(text.to_owned()));
                }
                let (kind, expected) = ($kind, $expected);
                Err(IdError { kind, expected, text: text.chars().take(200).collect() })
            }
        }
    };
}

name!(
    /// A tenant; first token of every subject, column of every row.
    Workspace,
    "workspace name",
    without dots
);
name!(
    /// An agent's name within its workspace.
    AgentName,
    "agent name"
);
name!(ToolName, "tool name");
name!(
    /// A contact's id, chosen by the program that stores the contact.
    ContactId,
    "contact id"
);
name!(
    /// A person or program with rights; `@user.<name>`.
    UserName,
    "user name"
);
name!(
    /// A policy for approvals or escalations; requests refer to it by name.
    PolicyName,
    "policy name"
);
name!(
    /// A schedule, which starts runs of an agent.
    ScheduleName,
    "schedule name"
);
name!(
    /// A group of people; `@role.<name>`.
    RoleName,
    "role name"
);
name!(
    /// An inbound hook for other programs: `/hooks/inbound/<name>`.
    HookName,
    "hook name"
);
name!(
    /// A worker process in the mesh.
    NodeName,
    "node name",
    without dots
);

/// Conversions of ids and names to and from the text that they write and read.
macro_rules! text {
    ($($name:ident),+) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;

            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }
    )+};
}

text!(
    RunId,
    CommandId,
    OperationId,
    WebhookId,
    StandingApprovalId,
    HoldId,
    NotificationId
);
text!(
    Workspace,
    AgentName,
    ToolName,
    ContactId,
    UserName,
    PolicyName,
    ScheduleName,
    RoleName,
    HookName,
    NodeName
);

#[cfg(test)]
mod tests;
