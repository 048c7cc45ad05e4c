//! `cargo xtask tidy`: rules that the compiler and clippy do not know. Each check returns the lines that break
//! it. Nothing is changed.

pub(crate) mod dependencies;
mod english;
mod imports;
mod layers;
mod parameters;
mod requirement_ids;
mod sources;
mod vocabulary;

use std::fs;

use anyhow::bail;

use crate::shell::root;

/// Crates that would need C build tools or a second TLS library beside rustls with ring.
const BANNED: [&str; 6] = [
    "aws-lc-rs",
    "aws-lc-sys",
    "openssl-sys",
    "native-tls",
    "cmake",
    "openssl",
];

/// Functions with a tuple parameter that are left; the number only falls.
const TUPLE_PARAMETERS_MAX: usize = 37;

/// Runs all checks and prints their findings.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut found = layers::check(&layers::workspace()?);
    found.extend(banned(&fs::read_to_string(root().join("Cargo.lock"))?));
    let sources = sources::all()?;
    let ids = requirement_ids::listed()?;
    let replaced = vocabulary::replaced()?;
    let mut parameters = Vec::new();
    found.extend(english::check()?);
    found.extend(dependencies::unused(&sources)?);
    dependencies::check_notices()?;
    for source in &sources {
        found.extend(source.too_long());
        found.extend(source.foreign_in_domain());
        found.extend(source.subject_literals());
        found.extend(source.unlisted_ids(&ids));
        found.extend(vocabulary::check(source, &replaced));
        parameters.extend(parameters::check(source));
    }
    let imports = imports::check(&sources);
    found.extend(imports.upward);
    found.extend(imports.circles);
    if parameters.len() > TUPLE_PARAMETERS_MAX {
        found.extend(parameters);
    }
    for finding in &found {
        println!("tidy: {finding}");
    }
    if !found.is_empty() {
        bail!("{} findings", found.len());
    }
    println!("tidy: {} files, no findings", sources.len());
    Ok(())
}

fn banned(lock: &str) -> Vec<String> {
    let name = |krate: &&str| {
        lock.lines()
            .any(|line| line == format!("name = \"{krate}\""))
    };
    BANNED
        .iter()
        .filter(|krate| name(krate))
        .map(|krate| format!("Cargo.lock must not contain {krate}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banned_crates_are_found_by_their_whole_name() {
        let lock = "name = \"cmake\"\nversion = \"1\"\nname = \"openssl-probe\"\n";
        assert_eq!(banned(lock), ["Cargo.lock must not contain cmake"]);
    }
}
