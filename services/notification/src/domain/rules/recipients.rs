//! Who is told, page by page: the cursor is part of the note, and is committed with what it wrote.

use holdpoint_ids::{RoleName, UserName, Workspace};
use serde::{Deserialize, Serialize};

use super::{Fact, Lookup, LookupFn, Need, Person, Undecided};

/// People that are told in one commit.
pub const PAGE: usize = 1_000;

/// Some of those who are told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Audience {
    /// `@user.<name>`
    User(UserName),
    /// `@role.<name>`: everybody who is active and has it.
    Role(RoleName),
}

impl Audience {
    /// Reads `@user.<name>` or `@role.<name>`.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        if let Some(name) = text.strip_prefix("@user.") {
            return name.parse().ok().map(Self::User);
        }
        text.strip_prefix("@role.")?.parse().ok().map(Self::Role)
    }

    /// The workspace's owners; none only where `owner` were no name.
    #[must_use]
    pub fn owners() -> Option<Self> {
        holdpoint_auth::Role::Owner
            .as_str()
            .parse()
            .ok()
            .map(Self::Role)
    }

    /// Whom a fact concerns: what cannot be read is left out, and nobody means the owners.
    #[must_use]
    pub fn all_of(to: &[String]) -> Vec<Self> {
        let mut all: Vec<_> = to.iter().filter_map(|text| Self::read(text)).collect();
        if all.is_empty() {
            all.extend(Self::owners());
        }
        all
    }
}

/// How far telling has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FanOutProgress {
    /// Everybody has it.
    Done,
    /// These are still to be told.
    People {
        /// In order; the first one perhaps in part.
        left: Vec<Audience>,
        /// The last one of the first role who was told.
        after: Option<UserName>,
    },
    /// Those whom it concerns have it; those who watch are still to be told.
    Watchers {
        /// The last one who was told.
        after: Option<UserName>,
    },
}

/// Whom one page reaches, and what is left after it.
#[derive(Debug, PartialEq)]
pub(super) struct Page {
    pub(super) people: Vec<Person>,
    pub(super) rest: FanOutProgress,
}

/// Takes one page of at most `limit` people.
pub(super) fn page(
    workspace: &Workspace,
    left: &[Audience],
    after: Option<&UserName>,
    limit: usize,
    lookup: LookupFn<'_>,
) -> Result<Page, Undecided> {
    let roles = Roles {
        workspace,
        after,
        limit,
        lookup,
    };
    let members = roles.of_all(left)?;
    let mut names: Vec<UserName> = Vec::new();
    let mut rest = FanOutProgress::Done;
    for (place, (audience, members)) in left.iter().zip(members).enumerate() {
        let room = limit.saturating_sub(names.len());
        if room == 0 {
            rest = going_on(left, place, None);
            break;
        }
        match audience {
            Audience::User(name) => names.push(name.clone()),
            Audience::Role(_) => {
                let is_whole = members.len() < limit && members.len() <= room;
                names.extend(members.into_iter().take(room));
                if !is_whole {
                    rest = going_on(left, place, names.last().cloned());
                    break;
                }
            }
        }
    }
    names.sort_unstable();
    names.dedup();
    let people = people(workspace, &names, lookup)?;
    Ok(Page { people, rest })
}

fn going_on(left: &[Audience], place: usize, after: Option<UserName>) -> FanOutProgress {
    FanOutProgress::People {
        left: left.get(place..).unwrap_or_default().to_vec(),
        after,
    }
}

struct Roles<'a> {
    workspace: &'a Workspace,
    after: Option<&'a UserName>,
    limit: usize,
    lookup: LookupFn<'a>,
}

impl Roles<'_> {
    /// The members of each audience, nobody for a user; all needs are named at once.
    fn of_all(&self, left: &[Audience]) -> Result<Vec<Vec<UserName>>, Undecided> {
        let mut needs = Vec::new();
        let mut all = Vec::with_capacity(left.len());
        for (place, audience) in left.iter().enumerate() {
            let Audience::Role(role) = audience else {
                all.push(Vec::new());
                continue;
            };
            let need = Need::Members {
                workspace: self.workspace.clone(),
                role: role.clone(),
                after: self.after.filter(|_| place == 0).cloned(),
                limit: self.limit,
            };
            match (self.lookup)(&need) {
                Lookup::NotLoaded => needs.push(need),
                Lookup::Found(Fact::Members(names)) => all.push(names),
                Lookup::Found(
                    Fact::Person(_)
                    | Fact::RequestLifecycle(_)
                    | Fact::Webhooks(_)
                    | Fact::Unread(_)
                    | Fact::WatchStatus(_)
                    | Fact::Other,
                )
                | Lookup::Missing => {
                    all.push(Vec::new());
                }
            }
        }
        if needs.is_empty() {
            Ok(all)
        } else {
            Err(Undecided::NeedsMore(needs))
        }
    }
}

/// Those of the names who are there and not disabled.
pub(super) fn people(
    workspace: &Workspace,
    names: &[UserName],
    lookup: LookupFn<'_>,
) -> Result<Vec<Person>, Undecided> {
    let mut needs = Vec::new();
    let mut people = Vec::with_capacity(names.len());
    for name in names {
        let need = Need::Person(workspace.clone(), name.clone());
        match lookup(&need) {
            Lookup::NotLoaded => needs.push(need),
            Lookup::Found(Fact::Person(user)) if user.active => people.push(user),
            Lookup::Found(
                Fact::Person(_)
                | Fact::Members(_)
                | Fact::RequestLifecycle(_)
                | Fact::Webhooks(_)
                | Fact::Unread(_)
                | Fact::WatchStatus(_)
                | Fact::Other,
            )
            | Lookup::Missing => {}
        }
    }
    if needs.is_empty() {
        Ok(people)
    } else {
        Err(Undecided::NeedsMore(needs))
    }
}
