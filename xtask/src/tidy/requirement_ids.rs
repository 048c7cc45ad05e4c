//! Ids of requirements and findings in comments. A page must list each, so that a reader can look it up.

use std::{collections::BTreeSet, fs};

use anyhow::Context as _;

use crate::shell::root;

/// Pages whose tables list ids in their first column.
const PAGES: [&str; 2] = ["docs/requirements.md", "docs/findings.md"];

/// All ids that the pages list.
pub(crate) fn listed() -> anyhow::Result<BTreeSet<String>> {
    let mut ids = BTreeSet::new();
    for page in PAGES {
        let text = fs::read_to_string(root().join(page)).context(page)?;
        ids.extend(text.lines().filter_map(first_cell).map(str::to_owned));
    }
    Ok(ids)
}

/// The id in the first cell of a table row.
fn first_cell(row: &str) -> Option<&str> {
    let cell = row.strip_prefix('|')?.split('|').next()?.trim();
    is_id(cell).then_some(cell)
}

/// Ids in a comment that no page lists.
pub(crate) fn unlisted<'a>(line: &'a str, listed: &BTreeSet<String>) -> Vec<&'a str> {
    let Some((_, comment)) = line.split_once("//") else {
        return Vec::new();
    };
    comment
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '.'))
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| is_id(word) && !listed.contains(*word))
        .collect()
}

/// Whether a word has the form of an id: `S0-AC4`, `S0-T6.3`, `S0-NFR`, `M-6`, `A-H1`, `B-4`.
fn is_id(word: &str) -> bool {
    let Some((first, rest)) = word.split_once('-') else {
        return false;
    };
    match first {
        "S0" | "S1" | "S2" | "S3" | "S4" => {
            rest == "NFR" || ["AC", "R", "T"].iter().any(|kind| numbered(rest, kind))
        }
        "A" => ["C", "H", "M", "L"].iter().any(|kind| numbered(rest, kind)),
        "M" | "B" | "C" | "D" => numbered(rest, ""),
        _ => false,
    }
}

/// Whether a text is a kind and a number, with further numbers after dots.
fn numbered(text: &str, kind: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    text.strip_prefix(kind)
        .is_some_and(|number| number.split('.').all(is_number))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C-15: an id that no page lists is found, in comments only.
    #[test]
    fn ids_that_nothing_lists_are_found() {
        let listed = BTreeSet::from(["S0-AC4".to_owned(), "A-H1".to_owned()]);
        let find = |line| unlisted(line, &listed);
        // `concat!` hides it from this check.
        let unknown = concat!("S0-", "R9");
        let line = format!("/// S0-AC4, {unknown}: a pause.");
        assert_eq!(unlisted(&line, &listed), [unknown]);
        assert_eq!(find("/// Mend A-H1 and B-4."), ["B-4"]);
        assert_eq!(find("let order = \"B-4\";"), [""; 0]);
        assert_eq!(find("// UTF-8, A-17, S0-X1, M-"), [""; 0]);
        assert_eq!(first_cell("| S0-T6.3 | Pausing |"), Some("S0-T6.3"));
        assert_eq!(first_cell("| id | rule |"), None);
    }
}
