//! A table of contacts in a CSV file: a column `id`, all others are fields of the contact.
//!
//! The whole file is read and checked before anything is sent, so that a mistake in its last line
//! does not leave half of it started.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use csv::StringRecord;
use holdpoint_ids::ContactId;
use serde_json::{Map, Value};

use crate::exit::Usage;
use crate::value::typed;

/// Most rows of a file.
const ROWS_MAX: usize = 100_000;

/// One contact and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// Line of the file, from 1.
    pub(crate) line: u64,
    pub(crate) id: ContactId,
    /// Its fields with its id, as a run is started with.
    pub(crate) contact: Value,
}

/// Reads a file of contacts.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Row>> {
    let file =
        std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
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
        let record = record.map_err(|error| Usage(unreadable(&error)))?;
        let row = row(&columns, &record)?;
        if let Some(line) = lines.insert(row.id.clone(), row.line) {
            bail!(Usage(format!(
                "line {}: `{}` is in line {line}, too",
                row.line, row.id
            )));
        }
        rows.push(row);
        if rows.len() > ROWS_MAX {
            bail!(Usage(format!("more than {ROWS_MAX} rows; split the file")));
        }
    }
    if rows.is_empty() {
        bail!(Usage("there are no rows under the heading".to_owned()));
    }
    Ok(rows)
}

/// Names of the columns; some editors put a mark before the first one.
fn columns(heading: &StringRecord) -> Result<Vec<String>, Usage> {
    let mut seen = BTreeSet::new();
    let mut names = Vec::with_capacity(heading.len());
    for (index, name) in heading.iter().enumerate() {
        let name = name.trim_start_matches('\u{feff}').trim();
        let column = index + 1;
        if name.is_empty() {
            return Err(Usage(format!(
                "line 1, column {column}: a column needs a name"
            )));
        }
        if !seen.insert(name.to_owned()) {
            return Err(Usage(format!(
                "line 1, column {column}: `{name}` is there twice"
            )));
        }
        names.push(name.to_owned());
    }
    if seen.contains("id") {
        return Ok(names);
    }
    let nearest = names.iter().position(|name| {
        let name = name.to_lowercase();
        name == "id" || name.ends_with("_id") || name == "contact"
    });
    let hint = nearest.and_then(|index| {
        let name = names.get(index)?;
        Some(format!(" (is it column {}, `{name}`?)", index + 1))
    });
    Err(Usage(format!(
        "line 1: there is no column `id`, the contact's id{}",
        hint.unwrap_or_default()
    )))
}

fn row(columns: &[String], record: &StringRecord) -> Result<Row, Usage> {
    let line = record.position().map_or(0, csv::Position::line);
    let mut id = None;
    let mut fields = Map::new();
    for (index, (name, cell)) in columns.iter().zip(record).enumerate() {
        if name == "id" {
            let parsed = cell.parse::<ContactId>().map_err(|error| {
                Usage(format!("line {line}, column {} (`id`): {error}", index + 1))
            })?;
            fields.insert(name.clone(), Value::from(parsed.as_str()));
            id = Some(parsed);
        } else if !cell.is_empty() {
            fields.insert(name.clone(), typed(cell));
        }
    }
    let id = id.ok_or_else(|| Usage(format!("line {line}: there is no `id`")))?;
    Ok(Row {
        line,
        id,
        contact: Value::Object(fields),
    })
}

fn unreadable(error: &csv::Error) -> String {
    let line = error.position().map_or(0, csv::Position::line);
    match error.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => {
            let column = (*len).min(*expected_len) + 1;
            format!(
                "line {line}, column {column}: {len} cells where the heading has {expected_len}"
            )
        }
        csv::ErrorKind::Utf8 { err, .. } => {
            format!("line {line}, column {}: this is not UTF-8", err.field() + 1)
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
    fn a_mistake_is_told_with_line_and_column() {
        let cases = [
            ("name\nAda\n", "line 1: there is no column `id`"),
            ("contact_id,name\n1,Ada\n", "is it column 1, `contact_id`?"),
            ("id,,name\n", "line 1, column 2: a column needs a name"),
            ("id,name,name\n", "line 1, column 3: `name` is there twice"),
            (
                "id,name\nc1,Ada\nc 2,Bob\n",
                "line 3, column 1 (`id`): invalid contact id `c 2`",
            ),
            (
                "id,name\nc1,Ada,more\n",
                "line 2, column 3: 3 cells where the heading has 2",
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
                .contains("line 2, column 2: this is not UTF-8"),
            "{error:#}"
        );
    }
}
