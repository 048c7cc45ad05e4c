//! Rules on single Rust files: length, what a domain may import, where subjects are spelled.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::requirement_ids;
use crate::shell::root;

const LINES_MAX: usize = 500;
const FOLDERS: [&str; 5] = ["migrations", "services", "shared", "tests", "xtask"];
/// Crates that a pure domain may import. Others would bring in time, randomness or I/O.
const DOMAIN_MAY: [&str; 25] = [
    "std",
    "core",
    "chrono",
    "chrono_tz",
    "croner",
    "serde",
    "serde_json",
    "serde_path_to_error",
    "thiserror",
    "cel",
    "regex",
    "sha2",
    "sha2_for_hmac",
    "url",
    "holdpoint_auth",
    "holdpoint_decision",
    "holdpoint_holds",
    "strum",
    "holdpoint_ids",
    "holdpoint_contracts",
    "holdpoint_calendar",
    "holdpoint_instructions",
    "crate",
    "super",
    "self",
];
/// Paths that a domain must not contain, also without an import.
const DOMAIN_NEVER: [&str; 5] = [
    "sea_orm::",
    "tokio::",
    "async_nats::",
    "axum::",
    "reqwest::",
];
/// The beginning of a subject, as a literal. `concat!` keeps it out of this file.
const SUBJECT: &str = concat!("\"", "h", "p.");

/// A Rust file with its path from the root.
#[derive(Debug)]
pub(crate) struct Source {
    path: PathBuf,
    text: String,
}

/// All Rust files of the repository.
pub(crate) fn all() -> anyhow::Result<Vec<Source>> {
    let root = root();
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(|folder| root.join(folder)).collect();
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path)?;
                sources.push(Source {
                    path: path.strip_prefix(&root)?.to_owned(),
                    text,
                });
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

impl Source {
    #[cfg(test)]
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.into(),
            text: text.into(),
        }
    }

    pub(crate) fn path(&self) -> &str {
        self.path.to_str().unwrap_or_default()
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// A file that is too long; it must be split by subject.
    pub(crate) fn too_long(&self) -> Option<String> {
        let lines = self.text.lines().count();
        (lines > LINES_MAX).then(|| {
            format!(
                "{}: {lines} lines, at most {LINES_MAX}",
                self.path.display()
            )
        })
    }

    /// Forbidden imports in the `domain` of a service.
    pub(crate) fn foreign_in_domain(&self) -> Vec<String> {
        let in_domain = self
            .path
            .iter()
            .any(|part| part == "domain" || part == "domain.rs");
        if !in_domain || self.is_test_file() {
            return Vec::new();
        }
        let own = modules(&self.text);
        self.code_lines(|line| {
            let line = line.trim_start();
            if line.starts_with("//") {
                return None;
            }
            if let Some(name) = DOMAIN_NEVER.iter().find(|name| line.contains(**name)) {
                return Some(format!("a domain must not use {name}"));
            }
            let first = imported(line)?;
            let is_allowed = DOMAIN_MAY.contains(&first) || own.contains(&first);
            (!is_allowed).then(|| format!("a domain must not import {first}"))
        })
    }

    /// Literal subjects outside of the contracts.
    pub(crate) fn subject_literals(&self) -> Vec<String> {
        if self.path.starts_with("shared/contracts") || self.is_test_file() {
            return Vec::new();
        }
        let spelled = |line: &str| line.contains(SUBJECT) && !line.trim_start().starts_with("//");
        self.code_lines(|line| {
            spelled(line).then(|| "a subject must be a constant in shared/contracts".to_owned())
        })
    }

    /// Ids of requirements and findings in comments that no page lists.
    pub(crate) fn unlisted_ids(&self, listed: &BTreeSet<String>) -> Vec<String> {
        let path = self.path.display();
        let numbered = self.text.lines().enumerate();
        numbered
            .flat_map(|(at, line)| {
                requirement_ids::unlisted(line, listed)
                    .into_iter()
                    .map(move |id| (at + 1, id))
            })
            .map(|(at, id)| format!("{path}:{at}: no page in docs lists {id}"))
            .collect()
    }

    /// Whether the file contains only tests or is in a folder `tests`.
    fn is_test_file(&self) -> bool {
        let tests = |part: &std::ffi::OsStr| part == "tests" || part == "tests.rs";
        self.path.iter().any(tests)
    }

    /// Errors of the lines before the tests at the end of the file.
    fn code_lines(&self, check: impl Fn(&str) -> Option<String>) -> Vec<String> {
        let code = self
            .text
            .split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or_default()
            .lines();
        let path: &Path = &self.path;
        code.enumerate()
            .filter_map(|(at, line)| {
                check(line).map(|error| format!("{}:{}: {error}", path.display(), at + 1))
            })
            .collect()
    }
}

/// The first name of the path that a line imports.
fn imported(line: &str) -> Option<&str> {
    let (_, path) = line.split_once("use ").filter(|(before, _)| {
        before.is_empty() || (before.starts_with("pub") && !before.contains("//"))
    })?;
    path.trim_start_matches("::")
        .split([':', ';', ' ', '{'])
        .next()
        .filter(|name| !name.is_empty())
}

/// The modules that a file declares, from which it may import.
fn modules(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| line.split_once("mod ")?.1.strip_suffix(';'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_imports_only_what_is_pure() {
        let text = "mod part;\nuse part::Part;\nuse std::fmt;\npub use crate::domain::X;\n\
                    use rand::Rng;\nfn f() { tokio::spawn(g()) }\n";
        let found = Source::new("services/x/src/domain/decide.rs", text).foreign_in_domain();
        assert_eq!(
            found,
            [
                "services/x/src/domain/decide.rs:5: a domain must not import rand",
                "services/x/src/domain/decide.rs:6: a domain must not use tokio::",
            ]
        );
        assert!(
            Source::new("services/x/src/domain/tests.rs", text)
                .foreign_in_domain()
                .is_empty()
        );
        assert!(
            Source::new("services/x/src/store.rs", text)
                .foreign_in_domain()
                .is_empty()
        );
    }

    #[test]
    fn subjects_are_spelled_in_the_contracts_and_in_tests() {
        let text =
            format!("const A: &str = {SUBJECT}x\";\n#[cfg(test)]\nmod tests {{ {SUBJECT}y\" }}\n");
        assert_eq!(
            Source::new("services/x/src/a.rs", &text)
                .subject_literals()
                .len(),
            1
        );
        assert!(
            Source::new("shared/contracts/src/a.rs", &text)
                .subject_literals()
                .is_empty()
        );
        assert!(
            Source::new("tests/src/a.rs", &text)
                .subject_literals()
                .is_empty()
        );
    }

    #[test]
    fn long_files_are_found() {
        assert!(Source::new("a.rs", &"x\n".repeat(500)).too_long().is_none());
        assert!(Source::new("a.rs", &"x\n".repeat(501)).too_long().is_some());
    }
}
