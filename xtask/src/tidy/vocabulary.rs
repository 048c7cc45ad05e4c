//! Words that the glossary has replaced must not be identifiers or file names.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Context as _;

use super::sources::Source;
use crate::shell::root;

const GLOSSARY: &str = "docs/glossary.md";

/// Each replaced identifier with the term that replaces it.
pub(crate) fn replaced() -> anyhow::Result<BTreeMap<String, String>> {
    let text = fs::read_to_string(root().join(GLOSSARY)).context(GLOSSARY)?;
    Ok(text.lines().flat_map(row).collect())
}

/// The identifiers in the third cell of a table row, and the term in its first one.
fn row(line: &str) -> Vec<(String, String)> {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let (Some(term), Some(words)) = (cells.get(1), cells.get(3)) else {
        return Vec::new();
    };
    let quoted = words.split('`').skip(1).step_by(2);
    quoted
        .map(|word| (word.to_owned(), (*term).to_owned()))
        .collect()
}

/// Replaced words among the identifiers and in the name of a file.
pub(crate) fn check(source: &Source, replaced: &BTreeMap<String, String>) -> Vec<String> {
    let path = source.path();
    let stem = path.rsplit('/').next().unwrap_or(path);
    let name = replaced.get_key_value(stem.trim_end_matches(".rs"));
    let in_name = name.map(|(word, term)| format!("{path}: `{word}` is called {term}"));
    let in_code = source.text().lines().enumerate().flat_map(|(at, line)| {
        let code = line.split("//").next().unwrap_or_default();
        identifiers(code).filter_map(move |word| {
            let term = replaced.get(word)?;
            Some(format!("{path}:{}: `{word}` is called {term}", at + 1))
        })
    });
    in_name.into_iter().chain(in_code).collect()
}

/// Words of a line that are outside of string literals.
fn identifiers(code: &str) -> impl Iterator<Item = &str> {
    code.split('"').step_by(2).flat_map(|part| {
        part.split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .filter(|word| !word.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_word_is_found_in_code_and_in_the_name_of_a_file() {
        let replaced: BTreeMap<_, _> =
            row("| quorum | how many must agree | `Few`, `few`, enough |")
                .into_iter()
                .collect();
        assert_eq!(replaced.len(), 2);
        let source = Source::new(
            "a/src/few.rs",
            "struct Few; // few\nlet few_more = \"few\";\n",
        );
        let found = check(&source, &replaced);
        assert_eq!(
            found,
            [
                "a/src/few.rs: `few` is called quorum",
                "a/src/few.rs:1: `Few` is called quorum"
            ]
        );
    }
}
