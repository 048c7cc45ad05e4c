//! Dependencies: each one that a crate names is used, and each one that ships has its licence listed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::sources::Source;
use crate::shell::{list, metadata, root, text};

const NOTICES: &str = "THIRD_PARTY.md";

const HEAD: &str = "# Third-party licences

Holdpoint is built from these crates. `cargo xtask licences` writes this page from `Cargo.lock`.

| crate | version | licence |
|---|---|---|
";

/// Dependencies that no file of their crate names.
pub(crate) fn unused(sources: &[Source]) -> anyhow::Result<Vec<String>> {
    let metadata = metadata(&["--no-deps"])?;
    let mut found = Vec::new();
    for package in list(&metadata, "packages") {
        let manifest = text(package, "manifest_path");
        let folder = manifest
            .strip_prefix(&format!("{}/", root().display()))
            .and_then(|path| path.strip_suffix("Cargo.toml"))
            .with_context(|| manifest.to_owned())?;
        let in_crate = |source: &&Source| source.path().starts_with(folder);
        let files: Vec<&Source> = sources.iter().filter(in_crate).collect();
        for dependency in list(package, "dependencies") {
            let name = match text(dependency, "rename") {
                "" => text(dependency, "name"),
                rename => rename,
            };
            let ident = name.replace('-', "_");
            let is_named = files.iter().any(|source| source.text().contains(&ident));
            if !is_named {
                found.push(format!("{folder}Cargo.toml: `{name}` is not used"));
            }
        }
    }
    Ok(found)
}

/// Writes the page of licences.
pub(crate) fn write_notices() -> anyhow::Result<()> {
    Ok(fs::write(root().join(NOTICES), notices()?)?)
}

/// Fails when the page of licences is stale.
pub(crate) fn check_notices() -> anyhow::Result<()> {
    let found = fs::read_to_string(root().join(NOTICES)).unwrap_or_default();
    if found != notices()? {
        bail!("{NOTICES} is stale; `cargo xtask licences` writes it");
    }
    Ok(())
}

/// The crates that the binary is built from: neither tests nor build tools.
fn notices() -> anyhow::Result<String> {
    let metadata = metadata(&["--filter-platform", "x86_64-unknown-linux-gnu"])?;
    let packages: BTreeMap<&str, &Value> = list(&metadata, "packages")
        .map(|package| (text(package, "id"), package))
        .collect();
    let binary = packages
        .values()
        .find(|package| text(package, "name") == "holdpoint")
        .map(|package| text(package, "id"))
        .context("no package `holdpoint`")?;
    let resolve = metadata.get("resolve").context("no resolve")?;
    let nodes: BTreeMap<&str, &Value> = list(resolve, "nodes")
        .map(|node| (text(node, "id"), node))
        .collect();
    let mut reached = BTreeSet::new();
    let mut next = vec![binary];
    while let Some(id) = next.pop() {
        if !reached.insert(id) {
            continue;
        }
        let node = nodes.get(id).context("a node is missing")?;
        for dependency in list(node, "deps") {
            let ships = list(dependency, "dep_kinds")
                .any(|kind| kind.get("kind").is_some_and(Value::is_null));
            if ships {
                next.push(text(dependency, "pkg"));
            }
        }
    }
    let reached = reached.iter().filter_map(|id| packages.get(id));
    let mut rows: Vec<_> = reached
        .filter(|package| package.get("source").is_some_and(Value::is_string))
        .map(|package| ["name", "version", "license"].map(|key| text(package, key)))
        .collect();
    rows.sort_unstable();
    let mut page = HEAD.to_owned();
    for [name, version, licence] in rows {
        if licence.is_empty() {
            bail!("{name} {version} names no licence");
        }
        writeln!(page, "| {name} | {version} | {licence} |")?;
    }
    Ok(page)
}
