//! The texts by which messages about a contact or a run are found.

use holdpoint_ids::{ContactId, RunId};
use holdpoint_store::is_sqlite;
use sea_orm::sea_query::{Expr, ExprTrait as _, Func, IntoColumnRef};
use sea_orm::{Condition, ConnectionTrait};

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

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
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
