//! Golden files: a message that was once on the bus can be read for ever.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Body, Entry, all};

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

fn files() -> Vec<PathBuf> {
    let entries = fs::read_dir(dir()).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Name and number of a golden file.
fn name_and_number(path: &Path) -> (String, u32) {
    let file = path.file_name().unwrap().to_str().unwrap();
    let stem = file
        .strip_suffix(".json")
        .unwrap_or_else(|| panic!("{file}"));
    let (name, number) = stem.rsplit_once('.').unwrap();
    (name.to_owned(), number.parse().unwrap())
}

fn newest_number(name: &str) -> Option<u32> {
    let numbers = files().into_iter().map(|path| name_and_number(&path));
    numbers
        .filter(|(known, _)| known == name)
        .map(|(_, number)| number)
        .max()
}

fn path(name: &str, number: u32) -> PathBuf {
    dir().join(format!("{name}.{number}.json"))
}

/// The sample of a message.
pub(super) fn newest(name: &str) -> String {
    let number = newest_number(name).unwrap_or_else(|| {
        let file = path(name, 1);
        panic!("write a sample of the message to {}", file.display())
    });
    fs::read_to_string(path(name, number)).unwrap()
}

/// Bodies by the name of their files.
fn bodies() -> Vec<(String, Body)> {
    let mut bodies = Vec::new();
    for Entry {
        name, body, reply, ..
    } in all()
    {
        if let Some(reply) = reply {
            bodies.push((format!("{name}.reply"), reply));
        }
        bodies.push((name, body));
    }
    bodies
}

/// The newest file of each body is what is written today. `HOLDPOINT_WRITE_DOCS=1` adds a file with the
/// next number, and never changes an older one.
#[test]
fn golden_files_match_the_written_form() {
    for (name, Body { text, rewrite }) in bodies() {
        let written = rewrite(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        if written == text {
            continue;
        }
        let next = path(&name, newest_number(&name).unwrap_or(0) + 1);
        assert!(
            std::env::var_os("HOLDPOINT_WRITE_DOCS").is_some(),
            "`{name}` is written differently now:\n{written}\nIf old readers survive that: \
             HOLDPOINT_WRITE_DOCS=1 cargo test -p holdpoint-contracts adds {}",
            next.display()
        );
        fs::write(next, &written).unwrap();
    }
}

/// Every golden file, however old, can be read.
#[test]
fn golden_files_are_read_back() {
    let bodies = bodies();
    for path in files() {
        let (name, _) = name_and_number(&path);
        let (_, body) = bodies
            .iter()
            .find(|(known, _)| *known == name)
            .unwrap_or_else(|| panic!("no message is named like {}", path.display()));
        let text = fs::read_to_string(&path).unwrap();
        (body.rewrite)(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

/// The page for writers of workers shows what the golden files say, and nothing older.
#[test]
fn examples_of_the_protocol_are_golden_files() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.md");
    let page = fs::read_to_string(page).unwrap();
    let bodies = bodies();
    let examples: Vec<_> = page
        .split("```json\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert_eq!(
        examples.len(),
        18,
        "dispatch; start, continuation, results, heartbeat, questions, suspended steps, parts of a blob and registration with their replies; deregistration"
    );
    for example in examples {
        let is_known = bodies.iter().any(|(_, body)| body.text == example);
        assert!(
            is_known,
            "no sample is written like this any more:\n{example}"
        );
    }
}
