//! Documents have short sentences and no words that need a second reading.

use std::fs;
use std::path::PathBuf;

use crate::shell::root;

/// Longest sentence of a document, in words. The aim is 25.
const WORDS_MAX: usize = 30;

/// Words that documents must not use, in lower case.
const UNUSED: [&str; 15] = [
    "nobody",
    "whoever",
    "whomever",
    "somebody",
    "unless said",
    "but for",
    "is none",
    "what is known",
    "has a say",
    "goes with it",
    "in our words",
    "is no ",
    "what opens",
    "put away",
    "behind it",
];

/// A text in backticks that begins with one of these is a path.
const FOLDERS: [&str; 7] = [
    "services/",
    "shared/",
    "migrations/",
    "tests/",
    "xtask/",
    "docs/",
    "examples/",
];

/// Pages that tests write from the code.
const GENERATED: [&str; 3] = ["holds.md", "messages.md", "states.md"];

/// Sentences that are too long, unused words, and paths that do not exist.
pub(crate) fn check() -> anyhow::Result<Vec<String>> {
    let mut folders = vec![root(), root().join("docs"), root().join("docs/decisions")];
    let mut pages: Vec<PathBuf> = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.ends_with(".md") && !GENERATED.contains(&name.as_ref()) {
                pages.push(path);
            }
        }
    }
    pages.sort();
    let mut found = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page)?;
        let path = page.strip_prefix(root())?.display().to_string();
        let missing = paths(&text).filter(|path| !root().join(path).exists());
        let missing = missing.map(|path| format!("`{path}` does not exist"));
        let errors = errors(&text).into_iter().chain(missing);
        found.extend(errors.map(|error| format!("{path}: {error}")));
    }
    Ok(found)
}

/// Files and folders of the repository that a page names. A pattern is not a path.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|word| {
        FOLDERS.iter().any(|folder| word.starts_with(folder))
            && !word.contains(['{', '*', '<', ' ', '…', ':'])
    })
}

fn errors(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for paragraph in paragraphs(text) {
        let lower = paragraph.to_lowercase();
        for words in UNUSED.iter().filter(|words| has(&lower, words)) {
            found.push(format!("`{}` in: {paragraph}", words.trim()));
        }
        for sentence in sentences(&paragraph) {
            let count = sentence.split_whitespace().count();
            if count > WORDS_MAX {
                found.push(format!("{count} words, at most {WORDS_MAX}: {sentence}"));
            }
        }
    }
    found
}

/// Whether a text contains these whole words.
fn has(text: &str, words: &str) -> bool {
    text.match_indices(words).any(|(at, _)| {
        let before = text.get(..at).and_then(|text| text.chars().next_back());
        let after = text
            .get(at + words.len()..)
            .and_then(|text| text.chars().next());
        let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        !is_letter(before) && (words.ends_with(' ') || !is_letter(after))
    })
}

/// Prose without code blocks, tables and headings. Code in a line counts as one word.
fn paragraphs(text: &str) -> Vec<String> {
    let mut paragraphs = Vec::new();
    let mut current = String::new();
    let mut is_code = false;
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with("```") {
            is_code = !is_code;
        }
        let is_prose = !is_code && !line.starts_with(['|', '#', '<', '!']);
        let begins = line.starts_with("- ") || line.starts_with("* ") || numbered(line);
        if !is_prose || line.is_empty() || begins {
            paragraphs.push(std::mem::take(&mut current));
        }
        if is_prose && !line.is_empty() {
            current.push_str(line);
            current.push(' ');
        }
    }
    paragraphs.push(current);
    paragraphs.retain(|text| !text.is_empty());
    paragraphs.into_iter().map(|text| plain(&text)).collect()
}

fn numbered(line: &str) -> bool {
    line.split_once(". ")
        .is_some_and(|(number, _)| number.parse::<u32>().is_ok())
}

/// Code in backticks becomes one word without a full stop.
fn plain(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts
        .map(|(at, part)| if at % 2 == 0 { part } else { "CODE" })
        .collect()
}

fn sentences(paragraph: &str) -> impl Iterator<Item = &str> {
    paragraph.split_inclusive(['.', '!', '?', ':', ';'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_sentence_and_an_unused_word_are_found() {
        let long = "word ".repeat(31).trim_end().to_owned();
        let text =
            format!("# A\n\nFine.\n\n{long}.\n\n```\n{long}\n```\n\n| {long} |\n- Whoever.\n");
        let found = errors(&text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("31 words"), "{found:?}");
        assert!(found[1].starts_with("`whoever`"), "{found:?}");
    }

    #[test]
    fn paths_are_found_and_patterns_are_not() {
        let text = "`docs/x.md`, `docs/*.md`, `cargo test`, `services/a/src/b.rs`";
        assert!(paths(text).eq(["docs/x.md", "services/a/src/b.rs"]));
    }

    #[test]
    fn a_part_of_a_word_is_not_the_word() {
        assert!(errors("This is noted. It is nothing.").is_empty());
        assert_eq!(errors("`x` is no text.").len(), 1);
    }
}
