//! Tests that cannot run here print why, and `cargo xtask test` counts them as skipped.

use std::{env, fs::OpenOptions, io::Write as _, path::Path, thread};

use anyhow::Context as _;

/// Names the file in which tests note that they were skipped.
const FILE: &str = "HOLDPOINT_TEST_SKIPPED";

/// Prints that the test on this thread cannot run here, and adds it to the skipped tests.
///
/// # Errors
/// When it cannot be added: the test would count as passed.
pub fn skip(why: &str) -> anyhow::Result<()> {
    let thread = thread::current();
    let test = thread.name().unwrap_or("a test");
    println!("skipped: {test}: {why}");
    let Some(file) = env::var_os(FILE) else {
        return Ok(());
    };
    let program = env::current_exe().unwrap_or_default();
    let program = program.file_stem().unwrap_or_default().to_string_lossy();
    note(Path::new(&file), &format!("{program}\t{test}\t{why}"))
        .with_context(|| format!("{FILE}={}", file.display()))
}

/// One write a line, so that programs at the same time do not mix theirs.
fn note(file: &Path, line: &str) -> std::io::Result<()> {
    let line = format!("{}\n", line.replace('\n', " "));
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    file.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mend D-18, C-16: a note has the program, the test and the reason on one line.
    #[test]
    fn skipped_tests_are_noted_one_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("skipped");
        note(&file, "a\tb\tno Docker:\nnot found").unwrap();
        note(&file, "c\td\te").unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text, "a\tb\tno Docker: not found\nc\td\te\n");
    }
}
