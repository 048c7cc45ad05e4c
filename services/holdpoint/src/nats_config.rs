//! `nats-config`: a server configuration that gives each client only the permissions it needs.
//!
//! A client authenticates with the seed of its key (`<client>.seed`, passed as `HOLDPOINT_NATS_SEED`).
//! The configuration contains only public keys. A second call keeps existing keys.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, anyhow};
use holdpoint_contracts::permission::{Client, Permissions, permissions};
use holdpoint_contracts::subject;
use nkeys::KeyPair;

use crate::cli::processes::{NatsConfigArgs, ServerTls};
use crate::file_privacy::create_private_file;
use crate::output;

/// Largest message. The text of an agent has at most 1 MiB and grows when it is escaped as JSON.
const PAYLOAD_MAX: &str = "4MB";

/// Writes the configuration and the seeds, and prints how to use them.
pub(crate) fn write(args: &NatsConfigArgs) -> anyhow::Result<()> {
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot create {}", args.out.display()))?;
    let services = Client::SERVICES.into_iter();
    let services = services.map(|client| (format!("{}.seed", client.name()), client));
    let workers = args.workers.iter();
    let workers = workers.map(|name| (format!("worker-{name}.seed"), Client::Worker));
    let programs = args.programs.iter().map(|workspace| {
        let client = Client::Program(workspace.clone());
        (format!("program-{workspace}.seed"), client)
    });
    let mut users = Vec::new();
    for (file, client) in services.chain(workers).chain(programs) {
        let public = read_or_create_key(&args.out.join(&file))?;
        let inboxes = subject::inboxes_of(&public);
        let permissions = permissions(&client, &inboxes);
        users.push(User {
            file,
            public,
            inboxes,
            permissions,
        });
    }
    warn_if_unencrypted(args);
    let path = args.out.join("nats.conf");
    std::fs::write(&path, config(args, &users)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    output::line(&format!("nats-server -c {}", path.display()))?;
    for user in &users {
        let (seed, inboxes) = (args.out.join(&user.file), &user.inboxes);
        let seed = seed.display();
        output::line(&format!(
            "HOLDPOINT_NATS_SEED=$(cat {seed})  # inboxes: {inboxes}"
        ))?;
    }
    Ok(())
}

struct User {
    file: String,
    public: String,
    /// Subjects on which it receives replies.
    inboxes: String,
    permissions: Permissions,
}

/// Without TLS, contacts, answers and step tokens travel in plain text.
fn warn_if_unencrypted(args: &NatsConfigArgs) {
    if args.tls.is_none() && !args.listen.ip().is_loopback() {
        output::note(&format!(
            "warning: {} is reachable from other machines without encryption; give a certificate with \
             --tls-cert and --tls-key",
            args.listen
        ));
    }
}

/// The public key of an existing seed, or of a new one.
fn read_or_create_key(path: &Path) -> anyhow::Result<String> {
    let invalid = |error: nkeys::error::Error| anyhow!("{}: {error}", path.display());
    if path.exists() {
        let seed = std::fs::read_to_string(path)?;
        let pair = KeyPair::from_seed(seed.trim()).map_err(invalid)?;
        return Ok(pair.public_key());
    }
    let pair = KeyPair::new_user();
    let mut file = create_private_file(path)?;
    writeln!(file, "{}", pair.seed().map_err(invalid)?)?;
    Ok(pair.public_key())
}

fn config(args: &NatsConfigArgs, users: &[User]) -> Result<String, std::fmt::Error> {
    let mut text = String::from(
        "# Written by `holdpoint nats-config`. Write it again after an update of Holdpoint.\n",
    );
    writeln!(text, "listen: \"{}\"", args.listen)?;
    writeln!(text, "max_payload: {PAYLOAD_MAX}")?;
    writeln!(text, "jetstream {{ store_dir: {:?} }}", args.store)?;
    if let Some(tls) = &args.tls {
        write_tls(&mut text, tls)?;
    }
    writeln!(text, "authorization {{\n  users = [")?;
    for user in users {
        let Permissions {
            publish,
            subscribe,
            responds,
        } = &user.permissions;
        writeln!(text, "    # {}", user.file)?;
        writeln!(text, "    {{ nkey: {}, permissions: {{", user.public)?;
        writeln!(text, "      publish: [{}]", quoted(publish))?;
        writeln!(text, "      subscribe: [{}]", quoted(subscribe))?;
        if *responds {
            writeln!(text, "      allow_responses: {{ max: 1, expires: \"5s\" }}")?;
        }
        writeln!(text, "    }} }}")?;
    }
    writeln!(text, "  ]\n}}")?;
    Ok(text)
}

fn write_tls(text: &mut String, tls: &ServerTls) -> std::fmt::Result {
    writeln!(text, "tls {{")?;
    writeln!(text, "  cert_file: {:?}", tls.tls_cert)?;
    writeln!(text, "  key_file: {:?}", tls.tls_key)?;
    if let Some(ca) = &tls.tls_client_ca {
        writeln!(text, "  ca_file: {ca:?}")?;
        writeln!(text, "  verify: true")?;
    }
    writeln!(text, "}}")
}

fn quoted(subjects: &[String]) -> String {
    let quoted = subjects.iter().map(|subject| format!("{subject:?}"));
    quoted.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(dir: &Path, tls: Option<ServerTls>) -> NatsConfigArgs {
        NatsConfigArgs {
            out: dir.join("nats"),
            programs: vec!["acme".parse().unwrap(), "other".parse().unwrap()],
            workers: vec!["emea".parse().unwrap()],
            listen: "127.0.0.1:4222".parse().unwrap(),
            store: "/var/lib/nats".into(),
            tls,
        }
    }

    #[test]
    fn keys_stay_when_it_is_written_again_and_no_seed_is_in_the_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let args = args(dir.path(), None);
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

    /// Mend A-H1: no two keys share inboxes, not even those of two workspaces or two workers.
    #[test]
    fn no_two_keys_share_inboxes() {
        let dir = tempfile::tempdir().unwrap();
        let tls = ServerTls {
            tls_cert: "/etc/nats/cert.pem".into(),
            tls_key: "/etc/nats/key.pem".into(),
            tls_client_ca: Some("/etc/nats/ca.pem".into()),
        };
        let args = args(dir.path(), Some(tls));
        write(&args).unwrap();
        let config = std::fs::read_to_string(args.out.join("nats.conf")).unwrap();
        let inboxes: Vec<_> = config
            .lines()
            .filter(|line| line.trim().starts_with("subscribe:"))
            .map(|line| {
                line.split('"')
                    .find(|word| word.starts_with("_INBOX"))
                    .unwrap()
            })
            .collect();
        let distinct: std::collections::BTreeSet<_> = inboxes.iter().collect();
        assert_eq!((inboxes.len(), distinct.len()), (9, 9), "{inboxes:?}");
        assert!(inboxes.iter().all(|inbox| inbox.starts_with("_INBOX.U")));
        // Mend A-M9.
        assert!(config.contains("cert_file: \"/etc/nats/cert.pem\""));
        assert!(config.contains("verify: true"));
    }
}
