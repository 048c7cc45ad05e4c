//! Runs other programs from the root of the repository.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, ensure};

/// The root of the repository, as `cargo run` tells it now: a target folder may be shared by
/// several checkouts.
pub(crate) fn root() -> PathBuf {
    let told = env::var_os("CARGO_MANIFEST_DIR");
    let here = told.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent().map_or_else(|| here.clone(), Path::to_owned)
}

/// A program to be run at the root, without standard input.
pub(crate) fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(root())
        .stdin(Stdio::null());
    // What `cargo run` says of this program: build scripts look at some of it, and would make most
    // dependencies again after every plain `cargo`.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs to the end with its output shown; fails when it fails.
pub(crate) fn show(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| name.clone())?;
    ensure!(status.success(), "{name} ended with {status}");
    Ok(())
}

/// Runs to the end silently; whether it succeeded.
pub(crate) fn succeeds(program: &str, arguments: &[&str]) -> bool {
    command(program, arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs to the end; its output.
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
