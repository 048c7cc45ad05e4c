//! Golden files: what was once on the bus can be read for ever.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Body, Entry, all};

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

/// Bodies by the name of their files.
fn bodies(entries: Vec<Entry>) -> Vec<(String, Body)> {
    let mut bodies = Vec::new();
    for entry in entries {
        if let Some(answer) = entry.answer {
            bodies.push((format!("{}.answer", entry.name), answer));
        }
        bodies.push((entry.name, entry.body));
    }
    bodies
}

/// Name and number of a golden file.
fn parts(path: &Path) -> (String, u32) {
    let file = path.file_name().unwrap().to_str().unwrap();
    let stem = file
        .strip_suffix(".json")
        .unwrap_or_else(|| panic!("{file}"));
    let (name, number) = stem.rsplit_once('.').unwrap();
    (name.to_owned(), number.parse().unwrap())
}

fn files() -> Vec<PathBuf> {
    let entries = fs::read_dir(dir()).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// The newest file of each body is the sample as it is written today. `HOLDPOINT_WRITE_DOCS=1` adds
/// a file with the next number, and never touches one that is there.
#[test]
fn golden_files_say_what_is_written() {
    for (name, body) in bodies(all()) {
        let files = files();
        let numbers = files.iter().map(|path| parts(path));
        let newest = numbers
            .filter(|(known, _)| *known == name)
            .map(|(_, number)| number)
            .max();
        let path = |number: u32| dir().join(format!("{name}.{number}.json"));
        let found = newest.map(|number| fs::read_to_string(path(number)).unwrap());
        // Readers see no order in JSON; forms have one all the same, and tests of their own.
        let value = |text: &String| serde_json::from_str::<Value>(text).unwrap();
        if found.as_ref().map(value) == Some(value(&body.text)) {
            continue;
        }
        let next = path(newest.unwrap_or(0) + 1);
        assert!(
            std::env::var_os("HOLDPOINT_WRITE_DOCS").is_some(),
            "`{name}` is written differently now:\n{}\nIf that is meant, and old readers survive it: \
             HOLDPOINT_WRITE_DOCS=1 cargo test -p holdpoint-contracts adds {}",
            body.text,
            next.display()
        );
        fs::write(next, &body.text).unwrap();
    }
}

/// Every golden file, however old, can be read; the newest comes out as it went in.
#[test]
fn golden_files_are_read_back() {
    let bodies = bodies(all());
    for path in files() {
        let (name, number) = parts(&path);
        let (_, body) = bodies
            .iter()
            .find(|(known, _)| *known == name)
            .unwrap_or_else(|| panic!("nobody reads {} any more", path.display()));
        let text = fs::read_to_string(&path).unwrap();
        let read = (body.read)(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let is_newest = !dir().join(format!("{name}.{}.json", number + 1)).exists();
        if is_newest {
            assert_eq!(read, text, "{}", path.display());
        }
    }
}

/// The page for writers of workers shows what the golden files say, and nothing older.
#[test]
fn examples_of_the_protocol_are_golden_files() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.md");
    let page = fs::read_to_string(page).unwrap();
    let bodies = bodies(all());
    let examples: Vec<_> = page
        .split("```json\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert_eq!(
        examples.len(),
        10,
        "dispatch; start, results, beat and questions with their answers; deregistration"
    );
    for example in examples {
        let is_known = bodies.iter().any(|(_, body)| body.text == example);
        assert!(
            is_known,
            "no sample is written like this any more:\n{example}"
        );
    }
}
