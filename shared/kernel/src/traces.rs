//! Erases what the kernel has kept of messages about a contact or a run: replies under idempotency keys, and dead
//! letters.

use holdpoint_ids::{ContactId, RunId, Workspace};
use holdpoint_store::{StoreError, Transaction, is_sqlite, mark_for_compaction};
use sea_orm::sea_query::{Expr, ExprTrait as _, Func, IntoColumnRef};
use sea_orm::{Condition, ConnectionTrait};

use crate::{dead_letters, desired_states, idempotency};

/// Texts that name what is erased. A message that names it in no other way is not found.
#[derive(Debug, Default)]
pub struct Traces(Vec<String>);

impl Traces {
    /// Messages that name the run, or a hold of it.
    pub fn add_run(&mut self, run: RunId) {
        self.0.push(run.uuid().simple().to_string());
    }

    /// Messages whose JSON has the contact as `contact`, and replies that are the contact itself. Programs may write a
    /// space after the colon.
    ///
    /// # Errors
    /// When the id cannot be written as JSON.
    pub fn add_contact(&mut self, contact: &ContactId) -> Result<(), serde_json::Error> {
        let id = serde_json::to_string(contact)?;
        let texts = [r#""contact":"#, r#""contact": "#, r#"{"ok":{"id":"#];
        self.0.extend(texts.map(|before| format!("{before}{id}")));
        Ok(())
    }

    /// Whether a column contains one of the texts.
    pub(crate) fn are_in(
        &self,
        db: &impl ConnectionTrait,
        column: impl IntoColumnRef + Copy,
    ) -> Condition {
        self.0.iter().fold(Condition::any(), |any, text| {
            any.add(holds_text(db, column, text))
        })
    }
}

/// Whether a column contains a text. The comparison is by bytes, unlike `LIKE`.
pub(crate) fn holds_text(
    db: &impl ConnectionTrait,
    column: impl IntoColumnRef,
    text: &str,
) -> Expr {
    let place = if is_sqlite(db) { "instr" } else { "strpos" };
    Expr::expr(Func::cust(place).args([Expr::col(column), Expr::val(text)])).gt(0)
}

/// Replaces the replies and deletes the dead letters of a workspace that name what is erased. SQLite then writes its
/// file anew, because deleted bytes stay in it until then.
///
/// # Errors
/// [`StoreError`] when the database refuses.
pub async fn erase_traces(
    db: &Transaction,
    workspace: &Workspace,
    traces: &Traces,
) -> Result<(), StoreError> {
    if !traces.0.is_empty() {
        idempotency::erase(db, workspace, traces).await?;
        dead_letters::erase(db, workspace, traces).await?;
    }
    mark_for_compaction(db).await
}

/// The desired states of a kind and workspace that are not acknowledged and whose body contains a text.
///
/// # Errors
/// [`StoreError`] when the database is unavailable.
pub async fn count_unacknowledged(
    db: &impl ConnectionTrait,
    kind: &str,
    workspace: &Workspace,
    text: &str,
) -> Result<u64, StoreError> {
    desired_states::rows::count(db, kind, workspace, text).await
}
