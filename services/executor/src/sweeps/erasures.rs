//! Erases the runs of contacts, page by page: cancels the live ones and deletes the ended ones.
//!
//! A deleted run is not found again, so a restart continues there, and a page that two replicas have read takes effect
//! once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_ids::{ContactId, HoldId, RunId, Workspace};
use holdpoint_kernel::{PendingSweep, Sweep, SweepPage};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;

use crate::domain::contact::Erasure;
use crate::domain::tool::CREATE_TASK;
use crate::domain::{Contact, Input, REVISIONS_MAX, Run, RunInput};
use crate::executor::Executor;
use crate::store::{self, OfContact};

/// Most runs of one page of all erasures. Other commands wait for its commit.
const PAGE_RUNS: u64 = 50;

/// Most holds of the runs of one page, unless the first run alone has more.
const PAGE_HOLDS: u32 = 5_000;

/// Most erasures of one page; further ones wait until some of these are complete.
const PAGE_ERASURES: u64 = 10;

pub(super) struct Erasures {
    pending: Arc<PendingSweep>,
    pages: ErasurePages,
}

impl Erasures {
    pub(super) fn new(pending: &Arc<PendingSweep>) -> Self {
        Self {
            pending: Arc::clone(pending),
            pages: ErasurePages::default(),
        }
    }
}

impl Sweep<Executor> for Erasures {
    const NAME: &'static str = "erasures";
    /// A command starts the sweep at once. This finds what a stopped replica has not finished.
    const EVERY: Duration = Duration::from_secs(5);

    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<Executor>, StoreError>> {
        async move {
            let begun = self.pending.begun();
            let (inputs, more) = self.pages.next(db).await?;
            if !more {
                self.pending.end(begun);
            }
            Ok(SweepPage::of_inputs(inputs, more))
        }
        .boxed()
    }
}

/// Where the newest page of each erasure ended. It only saves time: an erasure is complete after a page from the
/// beginning has found no run.
#[derive(Debug, Default)]
pub(crate) struct ErasurePages(HashMap<(Workspace, ContactId), RunId>);

impl ErasurePages {
    /// The inputs of the next page of each erasure, and whether there is another one.
    pub(crate) async fn next(
        &mut self,
        db: &DatabaseConnection,
    ) -> Result<(Vec<Input>, bool), StoreError> {
        let contacts = store::unfinished_erasures(db, PAGE_ERASURES).await?;
        let mut inputs = Vec::new();
        for contact in &contacts {
            // One commit has the pages of all contacts.
            let runs = PAGE_RUNS.saturating_sub(u64::try_from(inputs.len()).unwrap_or(u64::MAX));
            if let Some(erasure) = contact.erasure.as_ref().filter(|_| runs > 0) {
                inputs.extend(self.page_of(db, contact, erasure, runs).await?);
            }
        }
        Ok((inputs, !contacts.is_empty()))
    }

    async fn page_of(
        &mut self,
        db: &DatabaseConnection,
        contact: &Contact,
        erasure: &Erasure,
        runs: u64,
    ) -> Result<Vec<Input>, StoreError> {
        let key = (contact.workspace.clone(), contact.id.clone());
        let after = self.0.remove(&key);
        let of = OfContact {
            after,
            limit: runs,
            ..runs_of(contact, erasure)
        };
        let runs = within_holds(store::runs_of_contact(db, of).await?);
        if runs.is_empty() {
            // Runs before the place of the last page may have been live or retried then.
            let is_complete = after.is_none();
            return Ok(Vec::from_iter(is_complete.then(|| {
                Input::ErasureCompleted {
                    workspace: contact.workspace.clone(),
                    contact: contact.id.clone(),
                    at: erasure.at,
                }
            })));
        }
        if runs.iter().all(Run::is_final)
            && let Some(run) = runs.last()
        {
            self.0.insert(key, run.id);
        }
        inputs_of(db, contact, erasure, &runs).await
    }
}

/// The runs of an erasure. A run that was created later belongs to it as long as the contact was not stored again: the
/// start may have read the contact just before.
pub(crate) fn runs_of<'c>(contact: &'c Contact, erasure: &Erasure) -> OfContact<'c> {
    OfContact {
        workspace: &contact.workspace,
        contact: &contact.id,
        created_until: (!contact.deleted).then_some(erasure.at),
        after: None,
        limit: 1,
    }
}

/// Cancels the live runs, which the next page finds again, and erases the others.
async fn inputs_of(
    db: &DatabaseConnection,
    contact: &Contact,
    erasure: &Erasure,
    runs: &[Run],
) -> Result<Vec<Input>, StoreError> {
    let ids: Vec<_> = runs.iter().map(|run| run.id).collect();
    let mut tasks: HashMap<RunId, Vec<HoldId>> = HashMap::new();
    for (run, step) in store::steps_with_tool(db, &ids, CREATE_TASK).await? {
        tasks.entry(run).or_default().extend(tasks_of(run, &step));
    }
    let input = |run: &Run| {
        if run.is_final() {
            return Input::EraseRun {
                workspace: run.workspace.clone(),
                run: run.id,
                contact: contact.id.clone(),
                tasks: tasks.remove(&run.id).unwrap_or_default(),
            };
        }
        Input::Run {
            workspace: run.workspace.clone(),
            run: run.id,
            input: RunInput::Cancel {
                by: erasure.by.clone(),
                reason: None,
            },
        }
    };
    Ok(runs.iter().map(input).collect())
}

/// The ids of the tasks that a step can have created: one for each revision of it.
fn tasks_of(run: RunId, step: &str) -> impl Iterator<Item = HoldId> + use<> {
    let key = format!("{run}/{step}");
    let revised = (1..=REVISIONS_MAX).map({
        let key = key.clone();
        move |revision| HoldId::task_of(&format!("{key}~{revision}"))
    });
    std::iter::once(HoldId::task_of(&key)).chain(revised)
}

/// The first of these runs, as far as they have few holds together.
fn within_holds(mut runs: Vec<Run>) -> Vec<Run> {
    let mut holds = 0_u32;
    let mut count = 0;
    for run in &runs {
        holds = holds.saturating_add(run.holds);
        if count > 0 && holds > PAGE_HOLDS {
            break;
        }
        count += 1;
    }
    runs.truncate(count);
    runs
}
