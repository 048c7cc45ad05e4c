//! Several statements in one text.

use sea_orm::{DbBackend, Statement, Values};

/// Several statements as one text.
pub(crate) struct StatementBatch {
    pub(crate) text: Statement,
    pub(crate) statements: usize,
}

impl StatementBatch {
    /// Joins statements. On Postgres each of `before` writes another table, and `last` writes too.
    pub(crate) fn new(before: Vec<Statement>, last: Statement) -> Self {
        let statements = before.len() + 1;
        if before.is_empty() {
            return Self {
                text: last,
                statements,
            };
        }
        let backend = last.db_backend;
        let is_postgres = backend == DbBackend::Postgres;
        let (mut texts, mut all) = (Vec::new(), Vec::new());
        for statement in before.into_iter().chain([last]) {
            texts.push(if is_postgres {
                renumbered(&statement.sql, all.len())
            } else {
                // Placeholders of sea-orm for SQLite have no numbers, so the values follow in the order of the
                // statements.
                statement.sql
            });
            all.extend(
                statement
                    .values
                    .into_iter()
                    .flat_map(|Values(values)| values),
            );
        }
        let text = if is_postgres {
            as_expressions(&texts)
        } else {
            texts.join("; ")
        };
        Self {
            text: Statement::from_sql_and_values(backend, text, all),
            statements,
        }
    }
}

/// One statement for Postgres, which accepts values for a single statement only: all texts but the last one are
/// common table expressions. Postgres completes them from the last to the first one, so they are in reverse order: two
/// commits lock the rows of their tables in the same order.
fn as_expressions(texts: &[String]) -> String {
    let Some((last, before)) = texts.split_last() else {
        return String::new();
    };
    let expressions: Vec<_> = before
        .iter()
        .enumerate()
        .rev()
        .map(|(place, text)| format!("w{place} AS ({text})"))
        .collect();
    format!("WITH {} {last}", expressions.join(", "))
}

/// A text whose placeholders `$1`, `$2`… are counted from `before` on. Quoted names and texts stay as they are.
fn renumbered(text: &str, before: usize) -> String {
    let mut renumbered = String::with_capacity(text.len() + 16);
    let mut quote = None;
    let mut rest = text.chars().peekable();
    while let Some(next) = rest.next() {
        renumbered.push(next);
        match (quote, next) {
            (None, '\'' | '"') => quote = Some(next),
            (Some(begun), _) if begun == next => quote = None,
            (None, '$') => {
                let mut number = 0_usize;
                while let Some(digit) = rest.peek().and_then(|it| it.to_digit(10)) {
                    number = number.saturating_mul(10).saturating_add(digit as usize);
                    rest.next();
                }
                if number > 0 {
                    renumbered.push_str(&number.saturating_add(before).to_string());
                }
            }
            _ => {}
        }
    }
    renumbered
}

/// Whether a statement writes one table, and may be a part of a statement with others.
pub(crate) fn is_write(statement: &Statement) -> bool {
    written_table(&statement.sql).is_some()
}

/// Whether a text names the table that one of these statements writes. It may find a table where a column has its
/// name, which costs a round trip and nothing else.
pub(crate) fn mentions_table_of(text: &str, writes: &[Statement]) -> bool {
    let mut written = writes.iter().filter_map(|it| written_table(&it.sql));
    written.any(|table| text.contains(table))
}

/// The table of `INSERT INTO`, `UPDATE` or `DELETE FROM`, without quotes.
fn written_table(text: &str) -> Option<&str> {
    let rest = ["INSERT INTO ", "UPDATE ", "DELETE FROM "]
        .iter()
        .find_map(|verb| text.strip_prefix(verb))?;
    let rest = rest.trim_start().trim_start_matches('"');
    let end = rest.find(|it: char| !it.is_alphanumeric() && it != '_');
    let (table, _) = rest.split_at(end.unwrap_or(rest.len()));
    (!table.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use sea_orm::Value;

    use super::*;

    fn postgres(sql: &str, values: impl IntoIterator<Item = i64>) -> Statement {
        let values = values.into_iter().map(Value::from);
        Statement::from_sql_and_values(DbBackend::Postgres, sql, values)
    }

    #[test]
    fn statements_for_postgres_become_one_with_all_values() {
        let delete = postgres(r#"DELETE FROM "outbox" WHERE "id" IN ($1, $2)"#, [7, 8]);
        let update = postgres(
            "UPDATE steps SET at = $2, text = '$1' WHERE id = $1",
            [3, 4],
        );
        let insert = postgres(r#"INSERT INTO "history" VALUES ($1) RETURNING "id""#, [5]);
        let batch = StatementBatch::new(vec![delete, update], insert);
        assert_eq!(
            batch.text.sql,
            "WITH w1 AS (UPDATE steps SET at = $4, text = '$1' WHERE id = $3), \
             w0 AS (DELETE FROM \"outbox\" WHERE \"id\" IN ($1, $2)) \
             INSERT INTO \"history\" VALUES ($5) RETURNING \"id\""
        );
        let values: Vec<Value> = [7, 8, 3, 4, 5].into_iter().map(i64::into).collect();
        assert_eq!(batch.text.values, Some(Values(values)));
    }

    #[test]
    fn quoted_texts_keep_their_numbers() {
        for (text, expected) in [
            ("$1", "$11"),
            ("a = '$1' AND b = $12", "a = '$1' AND b = $22"),
            ("a = 'it''s $1' AND b = $2", "a = 'it''s $1' AND b = $12"),
            (r#""$1" = $1"#, r#""$1" = $11"#),
            ("$ $$ $x", "$ $$ $x"),
        ] {
            assert_eq!(renumbered(text, 10), expected);
        }
    }

    #[test]
    fn the_written_table_is_found() {
        for (text, table) in [
            (r#"INSERT INTO "runs" ("id") VALUES ($1)"#, Some("runs")),
            ("INSERT INTO runs(id) VALUES ($1)", Some("runs")),
            (r#"UPDATE "steps" SET a = 1"#, Some("steps")),
            ("DELETE FROM run_values", Some("run_values")),
            ("SELECT 1 FROM runs FOR UPDATE", None),
            ("WITH a AS (SELECT 1) DELETE FROM runs", None),
        ] {
            assert_eq!(written_table(text), table, "{text}");
        }
        let pending = [postgres("DELETE FROM outbox", [])];
        assert!(mentions_table_of("SELECT id FROM outbox", &pending));
        assert!(!mentions_table_of("SELECT id FROM runs", &pending));
    }
}
