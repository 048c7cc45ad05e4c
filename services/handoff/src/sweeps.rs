//! Gives what was put to disabled users, and to roles that nobody has any more, to others, page by page.
//!
//! Each page finds what is still theirs: a restart goes on where the pages were. Nobody waits for a
//! page: a disabled user decides nothing from the commit on that disabled them.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_contracts::message::Actor;
use holdpoint_kernel::{Sweep, SweepPage};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;

use crate::Handoff;
use crate::domain::{Caller, Input, Party, Proof, RequestInput, User, UserInput};
use crate::store;

/// Most requests of one page.
const PAGE_REQUESTS: u64 = 500;

/// The sweep of users who leave.
pub(crate) struct Leaving;

impl Sweep<Handoff> for Leaving {
    const NAME: &'static str = "leaving";
    const EVERY: Duration = Duration::from_millis(500);

    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<Handoff>, StoreError>> {
        async move {
            let inputs = page(db).await?;
            Ok(SweepPage {
                more: !inputs.is_empty(),
                inputs,
                messages: Vec::new(),
            })
        }
        .boxed()
    }
}

/// One page of the first user who leaves, or has left a role; their row says so when none is left.
pub(crate) async fn page(db: &DatabaseConnection) -> Result<Vec<Input>, StoreError> {
    let Some(user) = store::leaving(db).await? else {
        return Ok(Vec::new());
    };
    for gone in gone(db, &user).await? {
        let theirs = store::requests_of(db, &user.workspace, &gone, PAGE_REQUESTS).await?;
        if !theirs.is_empty() {
            let orphaned = |id| Input::Request {
                workspace: user.workspace.clone(),
                id,
                input: RequestInput::Orphaned { gone: gone.clone() },
            };
            return Ok(theirs.into_iter().map(orphaned).collect());
        }
    }
    Ok(vec![Input::User {
        workspace: user.workspace,
        name: user.name,
        caller: Caller {
            actor: Actor::service(holdpoint_contracts::handoff::SERVICE),
            proof: Proof::Absent,
        },
        input: UserInput::Left {
            roles: user.left_roles,
        },
    }])
}

/// Who is not there any more: the user, and roles that were theirs and have no active member.
async fn gone(db: &DatabaseConnection, user: &User) -> Result<Vec<Party>, StoreError> {
    let roles: Vec<_> = user
        .left_roles
        .iter()
        .map(|role| (&user.workspace, role))
        .collect();
    let empty = store::members(db, &roles).await?.into_iter();
    let empty = empty.filter(|(_, _, members)| members.is_empty());
    let themselves = (!user.active).then(|| Party::User(user.name.clone()));
    let roles = empty.map(|(_, role, _)| Party::Role(role));
    Ok(themselves.into_iter().chain(roles).collect())
}
