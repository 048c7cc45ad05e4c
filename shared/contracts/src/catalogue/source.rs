//! What the crate's own source says of its types: which there are, their fields, their comments.

use std::fs;
use std::path::{Path, PathBuf};

/// All source files of the crate but this catalogue, one after the other.
pub(super) fn all() -> String {
    let mut paths = Vec::new();
    files(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut paths,
    );
    paths.sort();
    let texts = paths.iter().map(|path| fs::read_to_string(path).unwrap());
    texts.collect::<Vec<_>>().join("\n")
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.file_stem().is_some_and(|it| it == "catalogue") {
            continue;
        }
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// A field as its struct declares it.
pub(super) struct Field {
    pub(super) name: String,
    pub(super) type_name: String,
    pub(super) comment: String,
}

/// The comment of a type in one line; nothing where it is not of this crate.
pub(super) fn comment(sources: &str, type_name: &str) -> String {
    declaration(sources, type_name).map_or_else(String::new, |at| above(&sources[..at]))
}

/// The public fields of a struct in their order; nothing where it is not one of this crate.
pub(super) fn fields(sources: &str, type_name: &str) -> Vec<Field> {
    let Some(at) = declaration(sources, type_name) else {
        return Vec::new();
    };
    let text = &sources[at..];
    let text = &text[..text.find("\n}").unwrap()];
    let mut fields = Vec::new();
    for (at, _) in text.match_indices("\n    pub ") {
        let line = text[at + "\n    pub ".len()..].lines().next().unwrap();
        let (name, type_name) = line.split_once(": ").unwrap();
        fields.push(Field {
            name: name.to_owned(),
            type_name: type_name.trim_end_matches(',').to_owned(),
            comment: above(&text[..at + 1]),
        });
    }
    fields
}

fn declaration(sources: &str, type_name: &str) -> Option<usize> {
    ["{", "<"]
        .iter()
        .find_map(|end| {
            let gap = if *end == "{" { " " } else { "" };
            sources.find(&format!("\npub struct {type_name}{gap}{end}"))
        })
        .map(|at| at + 1)
}

/// The comment that a text ends with, attributes left out.
fn above(text: &str) -> String {
    let mut lines: Vec<&str> = text
        .lines()
        .rev()
        .map(str::trim)
        .skip_while(|line| line.starts_with("#["))
        .take_while(|line| line.starts_with("///"))
        .map(|line| line.trim_start_matches("///").trim())
        .collect();
    lines.reverse();
    lines.join(" ")
}
