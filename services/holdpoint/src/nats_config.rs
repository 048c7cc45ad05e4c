//! `nats-config`: a server configuration in which every client may only what it needs.
//!
//! Clients prove who they are by a key whose seed only they have (`<client>.seed`, to be given as
//! `HOLDPOINT_NATS_SEED`); the configuration holds the public halves. Running it again keeps the keys.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, anyhow};
use holdpoint_contracts::permission::{Client, Permissions, permissions};
use nkeys::KeyPair;

use crate::cli::NatsConfigArgs;
use crate::output;

/// Largest message: an agent's text of 1 MiB, escaped as JSON, with room.
const PAYLOAD_MAX: &str = "4MB";

/// Writes configuration and keys, and says what to do with them.
pub(crate) fn write(args: &NatsConfigArgs) -> anyhow::Result<()> {
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot make {}", args.out.display()))?;
    let programs = args.programs.iter().cloned().map(Client::Program);
    let mut users = Vec::new();
    for client in Client::SERVICES.into_iter().chain(programs) {
        let file = match &client {
            Client::Program(workspace) => format!("program-{workspace}.seed"),
            Client::Executor
            | Client::Scheduler
            | Client::Handoff
            | Client::Notification
            | Client::Gateway
            | Client::Worker => format!("{}.seed", client.name()),
        };
        let public = key(&args.out.join(&file))?;
        users.push((file, public, permissions(&client)));
    }
    let path = args.out.join("nats.conf");
    std::fs::write(&path, config(args, &users)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    output::line(&format!("nats-server -c {}", path.display()))?;
    for (file, ..) in &users {
        let seed = args.out.join(file);
        output::line(&format!("HOLDPOINT_NATS_SEED=$(cat {})", seed.display()))?;
    }
    Ok(())
}

/// The public key of a seed that is there, or of a fresh one.
fn key(path: &Path) -> anyhow::Result<String> {
    let not_made = |error: nkeys::error::Error| anyhow!("{}: {error}", path.display());
    if path.exists() {
        let seed = std::fs::read_to_string(path)?;
        let pair = KeyPair::from_seed(seed.trim()).map_err(not_made)?;
        return Ok(pair.public_key());
    }
    let pair = KeyPair::new_user();
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    writeln!(file, "{}", pair.seed().map_err(not_made)?)?;
    Ok(pair.public_key())
}

fn config(
    args: &NatsConfigArgs,
    users: &[(String, String, Permissions)],
) -> Result<String, std::fmt::Error> {
    let mut text = String::from(
        "# Written by `holdpoint nats-config`; write it again after an update of Holdpoint.\n",
    );
    writeln!(text, "listen: \"{}\"", args.listen)?;
    writeln!(text, "max_payload: {PAYLOAD_MAX}")?;
    writeln!(
        text,
        "jetstream {{ store_dir: {:?} }}",
        args.store.display().to_string()
    )?;
    writeln!(text, "authorization {{\n  users = [")?;
    for (file, public, permissions) in users {
        writeln!(text, "    # {file}")?;
        writeln!(text, "    {{ nkey: {public}, permissions: {{")?;
        writeln!(text, "      publish: [{}]", quoted(&permissions.publish))?;
        writeln!(
            text,
            "      subscribe: [{}]",
            quoted(&permissions.subscribe)
        )?;
        writeln!(text, "    }} }}")?;
    }
    writeln!(text, "  ]\n}}")?;
    Ok(text)
}

fn quoted(subjects: &[String]) -> String {
    let quoted: Vec<_> = subjects
        .iter()
        .map(|subject| format!("{subject:?}"))
        .collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stay_when_it_is_written_again_and_no_seed_is_in_the_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let args = NatsConfigArgs {
            out: dir.path().join("nats"),
            programs: vec!["acme".parse().unwrap()],
            listen: "127.0.0.1:4222".parse().unwrap(),
            store: "/var/lib/nats".into(),
        };
        write(&args).unwrap();
        let read = |name: &str| std::fs::read_to_string(args.out.join(name)).unwrap();
        let first = read("nats.conf");
        write(&args).unwrap();
        assert_eq!(read("nats.conf"), first);
        for seed in ["executor.seed", "worker.seed", "program-acme.seed"] {
            assert!(!first.contains(read(seed).trim()), "{seed}");
        }
        assert!(first.contains("hp.acme.cmd.executor.*.start_run"));
    }
}
