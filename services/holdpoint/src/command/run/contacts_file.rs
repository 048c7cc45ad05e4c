//! Contacts in a CSV file: a column `id`; all other columns are fields of the contact.
//!
//! The whole file is checked before anything is sent, so that an error in the last line does not
//! leave half of the runs started.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use csv::StringRecord;
use holdpoint_ids::ContactId;
use serde_json::{Map, Value};

use crate::exit::Usage;
use crate::parsers::typed;

const ROWS_MAX: usize = 100_000;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// Line in the file, from 1.
    pub(crate) line: u64,
    pub(crate) id: ContactId,
    /// The fields including the id, as the body of a new run has them.
    pub(crate) contact: Value,
}

pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Row>> {
    let file = std::fs::File::open(path);
    let file = file.with_context(|| format!("cannot read {}", path.display()))?;
    rows(file).with_context(|| path.display().to_string())
}

fn rows(source: impl Read) -> anyhow::Result<Vec<Row>> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(source);
    let heading = reader.headers()?.clone();
    let columns = columns(&heading)?;
    let mut rows = Vec::new();
    let mut lines = BTreeMap::new();
    for record in reader.records() {
        let record = record.map_err(|error| Usage(error_text(&error)))?;
        let row = row(&columns, &record)?;
        if let Some(line) = lines.insert(row.id.clone(), row.line) {
            bail!(Usage(format!(
                "line {}: `{}` is already in line {line}",
                row.line, row.id
            )));
        }
        rows.push(row);
        if rows.len() > ROWS_MAX {
            bail!(Usage(format!(
                "the file has more than {ROWS_MAX} rows; split it"
            )));
        }
    }
    if rows.is_empty() {
        bail!(Usage("the file has no rows below the heading".to_owned()));
    }
    Ok(rows)
}

/// Names of the columns. Some editors write a byte order mark before the first name.
fn columns(heading: &StringRecord) -> Result<Vec<String>, Usage> {
    let mut seen = BTreeSet::new();
    let mut names = Vec::with_capacity(heading.len());
    for (name, column) in heading.iter().zip(1..) {
        let name = name.trim_start_matches('\u{feff}').trim();
        if name.is_empty() {
            let error = format!("line 1, column {column}: the name is missing");
            return Err(Usage(error));
        }
        if !seen.insert(name.to_owned()) {
            let error = format!("line 1, column {column}: `{name}` occurs twice");
            return Err(Usage(error));
        }
        names.push(name.to_owned());
    }
    if seen.contains("id") {
        return Ok(names);
    }
    let is_similar = |name: &String| {
        let name = name.to_lowercase();
        name == "id" || name.ends_with("_id") || name == "contact"
    };
    let similar = names.iter().zip(1..).find(|(name, _)| is_similar(name));
    let hint = similar.map(|(name, column)| format!(" (is it column {column}, `{name}`?)"));
    Err(Usage(format!(
        "line 1: the column `id` with the contact's id is missing{}",
        hint.unwrap_or_default()
    )))
}

fn row(columns: &[String], record: &StringRecord) -> Result<Row, Usage> {
    let line = record.position().map_or(0, csv::Position::line);
    let mut id = None;
    let mut fields = Map::new();
    for ((name, cell), column) in columns.iter().zip(record).zip(1..) {
        if name == "id" {
            let parsed = cell.parse::<ContactId>();
            let at = format!("line {line}, column {column} (`id`)");
            let parsed = parsed.map_err(|error| Usage(format!("{at}: {error}")))?;
            fields.insert(name.clone(), Value::from(parsed.as_str()));
            id = Some(parsed);
        } else if !cell.is_empty() {
            fields.insert(name.clone(), typed(cell));
        }
    }
    let id = id.ok_or_else(|| Usage(format!("line {line}: `id` is missing")))?;
    Ok(Row {
        line,
        id,
        contact: Value::Object(fields),
    })
}

fn error_text(error: &csv::Error) -> String {
    let line = error.position().map_or(0, csv::Position::line);
    match error.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => {
            let column = (*len).min(*expected_len) + 1;
            format!(
                "line {line}, column {column}: the row has {len} cells, but the heading has {expected_len}"
            )
        }
        csv::ErrorKind::Utf8 { err, .. } => {
            format!("line {line}, column {}: invalid UTF-8", err.field() + 1)
        }
        csv::ErrorKind::Io(_)
        | csv::ErrorKind::Seek
        | csv::ErrorKind::Serialize(_)
        | csv::ErrorKind::Deserialize { .. }
        | _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(text: &str) -> String {
        format!("{:#}", rows(text.as_bytes()).unwrap_err())
    }

    #[test]
    fn columns_become_typed_fields_and_empty_cells_are_absent() {
        let text = "\u{feff}id, name,score,replied,zip,note\n\
            c-1,\"Ada, Countess\" ,7,true,01234,\n\
            42,\"two\nlines\",1.5,FALSE,+49,x\n\
            c-3,,,,,\n";
        let rows = rows(text.as_bytes()).unwrap();
        let contacts: Vec<_> = rows.iter().map(|row| row.contact.clone()).collect();
        let expected = [
            json!({"id": "c-1", "name": "Ada, Countess", "score": 7, "replied": true, "zip": "01234"}),
            json!({"id": "42", "name": "two\nlines", "score": 1.5, "replied": false, "zip": "+49", "note": "x"}),
            json!({"id": "c-3"}),
        ];
        assert_eq!(contacts, expected);
        assert_eq!(
            rows.iter().map(|row| row.line).collect::<Vec<_>>(),
            [2, 3, 5]
        );
        assert_eq!(rows[1].id.as_str(), "42");
    }

    #[test]
    fn an_error_names_line_and_column() {
        let cases = [
            ("name\nAda\n", "line 1: the column `id`"),
            ("contact_id,name\n1,Ada\n", "is it column 1, `contact_id`?"),
            ("id,,name\n", "line 1, column 2: the name is missing"),
            ("id,name,name\n", "line 1, column 3: `name` occurs twice"),
            (
                "id,name\nc1,Ada\nc 2,Bob\n",
                "line 3, column 1 (`id`): invalid contact id `c 2`",
            ),
            (
                "id,name\nc1,Ada,more\n",
                "line 2, column 3: the row has 3 cells, but the heading has 2",
            ),
            ("id,name\n", "no rows"),
        ];
        for (text, expected) in cases {
            let message = message(text);
            assert!(message.contains(expected), "{text:?}: {message}");
        }
        let error = rows(&b"id,name\nc1,\xff\n"[..]).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("line 2, column 2: invalid UTF-8"),
            "{error:#}"
        );
    }
}
