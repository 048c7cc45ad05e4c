//! The texts by which messages about a contact or a run are found.

use std::collections::BTreeSet;

use holdpoint_ids::{ContactId, RunId};
use holdpoint_store::contains_text;
use sea_orm::sea_query::IntoColumnRef;
use sea_orm::{Condition, ConnectionTrait};

/// Texts that name what is erased. A message that names it in no other way is not found.
#[derive(Debug, Default)]
pub struct Traces(BTreeSet<String>);

/// Texts of one statement. SQLite bounds the depth of an expression.
const TEXTS_PER_STATEMENT: usize = 200;

impl Traces {
    /// Messages that name the run, or a hold of it.
    pub fn add_run(&mut self, run: RunId) {
        self.0.insert(run.uuid().simple().to_string());
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

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a column contains one of the texts: a condition for each statement.
    pub(crate) fn conditions(
        &self,
        db: &impl ConnectionTrait,
        column: impl IntoColumnRef + Copy,
    ) -> Vec<Condition> {
        let texts: Vec<_> = self.0.iter().collect();
        let chunks = texts.chunks(TEXTS_PER_STATEMENT).map(|texts| {
            let contain = texts.iter().map(|text| contains_text(db, column, *text));
            contain.fold(Condition::any(), Condition::add)
        });
        chunks.collect()
    }
}
