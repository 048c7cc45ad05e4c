//! Golden files of stored state: a row that a release has written can be read for ever.

use std::path::Path;
use std::{env, fs};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Reads `golden/<name>.1.json`, `.2.json`, … of the crate in `crate_dir` (`env!("CARGO_MANIFEST_DIR")`)
/// as `T` and returns the newest one. Each file holds a JSON array of states.
///
/// The newest file must be what is written today. `HOLDPOINT_WRITE_DOCS=1` adds a file with the next
/// number; an older file is never changed.
///
/// # Panics
/// When a file cannot be read, or when the newest one is written differently now.
#[expect(clippy::panic, clippy::unwrap_used, reason = "fails the test")]
pub fn stored_states<T: Serialize + DeserializeOwned>(crate_dir: &str, name: &str) -> Vec<T> {
    let dir = Path::new(crate_dir).join("golden");
    let path = |number: u32| dir.join(format!("{name}.{number}.json"));
    let mut newest = None;
    let mut next = 1;
    while let Ok(text) = fs::read_to_string(path(next)) {
        let states: Vec<T> = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", path(next).display()));
        newest = Some((text, states));
        next += 1;
    }
    let Some((text, states)) = newest else {
        panic!("write an array of states to {}", path(1).display());
    };
    let written = serde_json::to_string_pretty(&states).unwrap() + "\n";
    if written != text {
        assert!(
            env::var_os("HOLDPOINT_WRITE_DOCS").is_some(),
            "`{name}` is stored differently now:\n{written}\nIf rows that exist survive that: \
             HOLDPOINT_WRITE_DOCS=1 adds {}",
            path(next).display()
        );
        fs::write(path(next), &written).unwrap();
    }
    states
}
