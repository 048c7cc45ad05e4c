//! Runs other programs from the root of the repository.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, ensure};
use serde_json::Value;

/// The root of the repository. The variable of `cargo run` counts, because several checkouts may share a
/// target folder.
pub(crate) fn root() -> PathBuf {
    let here = env::var_os("CARGO_MANIFEST_DIR");
    let here = here.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent().map_or_else(|| here.clone(), Path::to_owned)
}

/// A program that runs at the root, without standard input.
pub(crate) fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(root())
        .stdin(Stdio::null());
    // Build scripts read these variables of `cargo run`, and would build most dependencies again after every
    // plain `cargo`.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs a program to the end and shows its output. Fails if the program fails.
pub(crate) fn show(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| name.clone())?;
    ensure!(status.success(), "{name} ended with {status}");
    Ok(())
}

/// Runs a program to the end silently; returns whether it succeeded.
pub(crate) fn succeeds(program: &str, arguments: &[&str]) -> bool {
    command(program, arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs a program to the end; returns its output.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| name.clone())?;
    ensure!(
        output.status.success(),
        "{name} ended with {}",
        output.status
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// The output of `cargo metadata`.
pub(crate) fn metadata(arguments: &[&str]) -> anyhow::Result<Value> {
    let fixed = ["metadata", "--locked", "--format-version", "1"];
    let arguments = [&fixed[..], arguments].concat();
    let text = output(&mut command("cargo", &arguments))?;
    Ok(serde_json::from_str(&text)?)
}

/// A text field of a JSON object; empty if it is missing.
pub(crate) fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The items of a list in a JSON object.
pub(crate) fn list<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    let items = value.get(key).and_then(Value::as_array);
    items.into_iter().flatten()
}
