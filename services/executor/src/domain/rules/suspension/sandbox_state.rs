//! Whether a sandbox is still as the manifest of a suspension lists it (S1-R8).

use std::collections::BTreeMap;

use holdpoint_contracts::suspension::{Sandbox, SandboxState};

/// Compares the files by path, size and hash. A manifest that leaves out files says nothing of those.
pub(crate) fn sandbox_state(saved: &Sandbox, found: Option<&Sandbox>) -> SandboxState {
    let Some(found) = found else {
        return SandboxState::Absent;
    };
    let known = |sandbox: &Sandbox| -> BTreeMap<String, (u64, String)> {
        let files = sandbox.files.iter();
        files
            .map(|file| (file.path.clone(), (file.size, file.sha256.clone())))
            .collect()
    };
    let (before, after) = (known(saved), known(found));
    let is_same = |path: &String| match (before.get(path), after.get(path)) {
        (Some(one), Some(other)) => one == other,
        (Some(_), None) => found.omitted > 0,
        (None, Some(_)) => saved.omitted > 0,
        (None, None) => true,
    };
    let has_new_files = saved.omitted == 0 && found.omitted > 0;
    if before.keys().chain(after.keys()).all(is_same) && !has_new_files {
        SandboxState::Unchanged
    } else {
        SandboxState::Changed
    }
}

#[cfg(test)]
mod tests {
    use holdpoint_contracts::suspension::SandboxFile;

    use super::*;

    fn sandbox(files: &[(&str, u64, &str)], omitted: u64) -> Sandbox {
        let file = |(path, size, sha256): &(&str, u64, &str)| SandboxFile {
            path: (*path).to_owned(),
            size: *size,
            sha256: (*sha256).to_owned(),
        };
        Sandbox {
            node: "n".parse().unwrap(),
            path: "/s".to_owned(),
            files: files.iter().map(file).collect(),
            omitted,
            found: None,
        }
    }

    /// S1-R8: resume tells when the sandbox no longer matches its manifest.
    #[test]
    fn a_new_a_missing_and_a_different_file_are_changes() {
        use SandboxState::{Absent, Changed, Unchanged};
        let saved = sandbox(&[("a", 1, "aa"), ("b", 2, "bb")], 0);
        type Files = &'static [(&'static str, u64, &'static str)];
        let cases: [(Files, u64, SandboxState); 7] = [
            (&[("a", 1, "aa"), ("b", 2, "bb")], 0, Unchanged),
            (&[("b", 2, "bb"), ("a", 1, "aa")], 0, Unchanged),
            (&[("a", 1, "aa"), ("b", 2, "xx")], 0, Changed),
            (&[("a", 1, "aa"), ("b", 3, "bb")], 0, Changed),
            (&[("a", 1, "aa")], 0, Changed),
            (&[("a", 1, "aa"), ("b", 2, "bb"), ("c", 0, "")], 0, Changed),
            (&[("a", 1, "aa"), ("b", 2, "bb")], 1, Changed),
        ];
        for (files, omitted, state) in cases {
            let found = sandbox(files, omitted);
            assert_eq!(sandbox_state(&saved, Some(&found)), state, "{files:?}");
        }
        assert_eq!(sandbox_state(&saved, None), Absent);
        let empty = sandbox(&[], 0);
        assert_eq!(sandbox_state(&empty, Some(&empty)), Unchanged);
        assert_eq!(sandbox_state(&empty, Some(&saved)), Changed);
    }

    #[test]
    fn a_manifest_says_nothing_of_the_files_that_it_leaves_out() {
        let saved = sandbox(&[("a", 1, "aa")], 2);
        let all = sandbox(&[("a", 1, "aa"), ("b", 2, "bb")], 1);
        assert_eq!(sandbox_state(&saved, Some(&all)), SandboxState::Unchanged);
        let other = sandbox(&[("a", 1, "xx"), ("b", 2, "bb")], 1);
        assert_eq!(sandbox_state(&saved, Some(&other)), SandboxState::Changed);
    }
}
