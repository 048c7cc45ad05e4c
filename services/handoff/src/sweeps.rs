//! Gives what was put to disabled users, and to roles that nobody has any more, to others, page by page.
//!
//! Each page finds what is still theirs: a restart goes on where the pages were. Nobody waits for a
//! page: a disabled user decides nothing from the commit on that disabled them.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_contracts::message::Actor;
use holdpoint_ids::{HoldId, UserName, Workspace};
use holdpoint_kernel::{Sweep, SweepPage};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;

use crate::Handoff;
use crate::domain::{Caller, Input, Proof, Recipient, RequestInput, User, UserInput};
use crate::store;

/// Most requests of one page.
const PAGE_REQUESTS: u64 = 500;

/// The sweep of users who leave, and how far it has come. What does not move is passed over until the
/// next round: a request whose row cannot be read holds up no other.
#[derive(Debug, Default)]
pub(crate) struct Reassignment {
    /// The user who is done in this round.
    user: Option<(Workspace, UserName)>,
    /// The last request of the page before, and who it was put to.
    request: Option<(Recipient, HoldId)>,
}

impl Sweep<Handoff> for Reassignment {
    const NAME: &'static str = "leaving";
    const EVERY: Duration = Duration::from_millis(500);

    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<Handoff>, StoreError>> {
        async move {
            let page = self.next(db).await?;
            Ok(SweepPage {
                more: page.is_some(),
                inputs: page.unwrap_or_default(),
                messages: Vec::new(),
            })
        }
        .boxed()
    }
}

impl Reassignment {
    /// The next page of a round; none: the round is over.
    async fn next(&mut self, db: &DatabaseConnection) -> Result<Option<Vec<Input>>, StoreError> {
        let Some(user) = store::leaving(db, self.user.as_ref()).await? else {
            *self = Self::default();
            return Ok(None);
        };
        let parties = gone(db, &user).await?;
        let is_at = |(party, _): &(Recipient, HoldId)| parties.iter().position(|one| one == party);
        let begin = self.request.as_ref().and_then(is_at).unwrap_or(0);
        for gone in parties.iter().skip(begin) {
            let before = self.request.as_ref().filter(|(party, _)| party == gone);
            let page = (before.map(|(_, id)| *id), PAGE_REQUESTS);
            let theirs = store::requests_of(db, &user.workspace, gone, page).await?;
            let Some(last) = theirs.last() else {
                continue;
            };
            self.request = Some((gone.clone(), *last));
            let orphaned = |id| Input::Request {
                workspace: user.workspace.clone(),
                id,
                input: RequestInput::Orphaned { gone: gone.clone() },
            };
            return Ok(Some(theirs.into_iter().map(orphaned).collect()));
        }
        self.user = Some((user.workspace.clone(), user.name.clone()));
        // Something of theirs may be left behind the cursor: the next round looks.
        if self.request.take().is_some() {
            return Ok(Some(Vec::new()));
        }
        Ok(Some(vec![left(user)]))
    }
}

/// Nothing is put to the user any more; their row says so.
fn left(user: User) -> Input {
    Input::User {
        workspace: user.workspace,
        name: user.name,
        caller: Caller {
            actor: Actor::service(holdpoint_contracts::handoff::SERVICE),
            proof: Proof::Absent,
        },
        input: UserInput::Left {
            roles: user.left_roles,
        },
    }
}

/// Who is not there any more: the user, and roles that were theirs and have no active member.
async fn gone(db: &DatabaseConnection, user: &User) -> Result<Vec<Recipient>, StoreError> {
    let roles: Vec<_> = user
        .left_roles
        .iter()
        .map(|role| (&user.workspace, role))
        .collect();
    let empty = store::members(db, &roles).await?.into_iter();
    let empty = empty.filter(|(_, _, members)| members.is_empty());
    let themselves = (!user.active).then(|| Recipient::User(user.name.clone()));
    let roles = empty.map(|(_, role, _)| Recipient::Role(role));
    Ok(themselves.into_iter().chain(roles).collect())
}
