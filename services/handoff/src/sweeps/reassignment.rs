//! Reassigns requests of disabled users, and of roles without an active member, page by page.
//!
//! Each page finds the requests that are left, so that a restart continues. No caller waits for a page: a
//! disabled user cannot decide from the commit on that disabled them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_contracts::message::Actor;
use holdpoint_ids::{HoldId, UserName, Workspace};
use holdpoint_kernel::{PendingSweep, Sweep, SweepPage};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;

use crate::domain::{Caller, Input, Proof, Recipient, RequestInput, User, UserInput};
use crate::service::Handoff;
use crate::store;

/// Most requests of one page.
const PAGE_REQUESTS: u64 = 500;

/// The sweep and its progress. A request that cannot be reassigned is skipped until the next round, so that
/// an unreadable row does not delay others.
#[derive(Debug, Default)]
pub(crate) struct Reassignment {
    pending: Arc<PendingSweep>,
    /// The changes of users that this round finds.
    begun: u64,
    /// The last user who is finished in this round.
    user: Option<(Workspace, UserName)>,
    /// The last request of the page before, with its recipient.
    request: Option<(Recipient, HoldId)>,
}

impl Sweep<Handoff> for Reassignment {
    const NAME: &'static str = "leaving";
    /// A change of a user starts the sweep at once. This finds what a stopped replica has not finished.
    const EVERY: Duration = Duration::from_secs(5);

    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<Handoff>, StoreError>> {
        async move {
            if self.user.is_none() && self.request.is_none() {
                self.begun = self.pending.begun();
            }
            let page = self.next(db).await?;
            let more = page.is_some();
            if !more {
                self.pending.end(self.begun);
            }
            Ok(SweepPage::of_inputs(page.unwrap_or_default(), more))
        }
        .boxed()
    }
}

impl Reassignment {
    pub(crate) fn new(pending: Arc<PendingSweep>) -> Self {
        Self {
            pending,
            ..Self::default()
        }
    }

    /// The next page of a round; none after the last one.
    async fn next(&mut self, db: &DatabaseConnection) -> Result<Option<Vec<Input>>, StoreError> {
        let Some(user) = store::find_leaving(db, self.user.as_ref()).await? else {
            (self.user, self.request) = (None, None);
            return Ok(None);
        };
        let lost = lost_recipients(db, &user).await?;
        let is_at = |(last, _): &(Recipient, HoldId)| lost.iter().position(|one| one == last);
        let begin = self.request.as_ref().and_then(is_at).unwrap_or(0);
        for recipient in lost.iter().skip(begin) {
            let before = self.request.as_ref().filter(|(one, _)| one == recipient);
            let page = (before.map(|(_, id)| *id), PAGE_REQUESTS);
            let theirs = store::list_requests_of(db, &user.workspace, recipient, page).await?;
            let Some(last) = theirs.last() else {
                continue;
            };
            self.request = Some((recipient.clone(), *last));
            let orphaned = |id| Input::Request {
                workspace: user.workspace.clone(),
                id,
                input: RequestInput::RecipientLost {
                    recipient: recipient.clone(),
                },
            };
            return Ok(Some(theirs.into_iter().map(orphaned).collect()));
        }
        self.user = Some((user.workspace.clone(), user.name.clone()));
        // Requests before the cursor may be left, so the user is checked again in the next round.
        if self.request.take().is_some() {
            return Ok(Some(Vec::new()));
        }
        Ok(Some(vec![finish_user(user)]))
    }
}

/// All requests of the user are reassigned, so that the sweep forgets the user.
fn finish_user(user: User) -> Input {
    Input::User {
        workspace: user.workspace,
        name: user.name,
        caller: Caller {
            actor: Actor::service(holdpoint_contracts::handoff::SERVICE),
            proof: Proof::Absent,
        },
        input: UserInput::RequestsReassigned {
            roles: user.left_roles,
        },
    }
}

/// The disabled user, and former roles of the user that have no active member.
async fn lost_recipients(
    db: &DatabaseConnection,
    user: &User,
) -> Result<Vec<Recipient>, StoreError> {
    let roles: Vec<_> = user
        .left_roles
        .iter()
        .map(|role| (&user.workspace, role))
        .collect();
    let empty = store::list_members(db, &roles).await?.into_iter();
    let empty = empty.filter(|(_, _, members)| members.is_empty());
    let themselves = (!user.active).then(|| Recipient::User(user.name.clone()));
    let roles = empty.map(|(_, role, _)| Recipient::Role(role));
    Ok(themselves.into_iter().chain(roles).collect())
}
