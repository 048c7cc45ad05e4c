//! Gives what was put to disabled users to others, page by page.
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
use crate::domain::{Caller, Input, Proof, RequestInput, UserInput};
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

/// One page of the first user who leaves; their row says so when none is left.
pub(crate) async fn page(db: &DatabaseConnection) -> Result<Vec<Input>, StoreError> {
    let Some((workspace, name)) = store::leaving(db).await? else {
        return Ok(Vec::new());
    };
    let theirs = store::requests_of(db, &workspace, &name, PAGE_REQUESTS).await?;
    if theirs.is_empty() {
        return Ok(vec![Input::User {
            workspace,
            name,
            caller: Caller {
                actor: Actor::service(holdpoint_contracts::handoff::SERVICE),
                proof: Proof::Absent,
            },
            input: UserInput::Left,
        }]);
    }
    let inputs = theirs.into_iter().map(|id| Input::Request {
        workspace: workspace.clone(),
        id,
        input: RequestInput::Orphaned { name: name.clone() },
    });
    Ok(inputs.collect())
}
