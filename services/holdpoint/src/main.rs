//! The `holdpoint` binary: everything in one process, and the command line that speaks to it.
//!
//! Commands other than `up` and `demo` are clients of the REST API and know nothing that the API
//! does not say.

mod bench;
mod cli;
mod client;
mod command;
mod connection;
mod demo;
mod exit;
mod file_privacy;
mod migrate;
mod nats_config;
mod output;
mod parsers;
mod serve;
mod table;
mod up;
mod worker;

use std::io;
use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command, SecretsCommand};
use crate::client::ClientError;
use crate::exit::Outcome;

/// Statements of hundreds of rows are made and dropped all the time; see `docs/performance.md`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misunderstood(&error),
    };
    let json = cli.global.json;
    match start(cli) {
        Ok(code) => code,
        Err(error) => report(&error, json).into(),
    }
}

fn start(cli: Cli) -> anyhow::Result<ExitCode> {
    // Fails only when there is one already, which will do.
    drop(rustls::crypto::ring::default_provider().install_default());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let code = runtime.block_on(dispatch(cli));
    runtime.shutdown_background();
    code
}

async fn dispatch(cli: Cli) -> anyhow::Result<ExitCode> {
    let Cli { global, command } = cli;
    if keeps_files(&command) {
        file_privacy::keep_from_others();
    }
    match command {
        Command::Up(mut args) => {
            args.data = global.data_dir();
            args.json = global.json;
            Box::pin(up::run(args)).await
        }
        Command::Demo(mut args) => {
            args.data = global.data;
            Box::pin(demo::run(args)).await
        }
        Command::Worker(args) => Box::pin(worker::run(args, &global)).await,
        Command::NatsConfig(args) => {
            nats_config::write(&args)?;
            Ok(Outcome::Ok.into())
        }
        Command::Completions { shell } => {
            command::completions(shell)?;
            Ok(Outcome::Ok.into())
        }
        Command::Serve(args) => Box::pin(serve::run(args)).await,
        Command::Migrate(args) => Box::pin(migrate::run(args)).await,
        Command::Secrets(SecretsCommand::New) => {
            let fresh = holdpoint_auth::Secrets::fresh()?;
            output::line(&serde_json::to_string_pretty(&fresh)?)?;
            Ok(Outcome::Ok.into())
        }
        Command::Bench(args) => Box::pin(bench::run(args)).await,
        Command::BenchWorker(args) => Box::pin(bench::worker(args)).await,
        Command::BenchLoad(args) => Box::pin(bench::load(args)).await,
        Command::Agent(command) => command::client(&global, command).await,
        Command::Run(command) => command::client(&global, command).await,
        Command::Contact(command) => command::client(&global, command).await,
        Command::Clock(command) => command::client(&global, command).await,
        Command::Request(command) => command::client(&global, command).await,
        Command::User(command) => command::client(&global, command).await,
        Command::Token(command) => command::client(&global, command).await,
        Command::Tool(command) => command::client(&global, command).await,
        Command::Notifications(command) => command::client(&global, command).await,
        Command::Follow(command) => command::client(&global, command).await,
        Command::Preferences(command) => command::client(&global, command).await,
        Command::Webhooks(command) => command::client(&global, command).await,
        Command::Policies(command) => command::client(&global, command).await,
        Command::Dead(command) => command::client(&global, command).await,
        Command::Space(command) => command::client(&global, command).await,
        Command::Nodes => command::client(&global, command::Nodes).await,
        Command::Claims => command::client(&global, command::Claims).await,
    }
}

/// Whether a command makes tables, keys or mails. The tools of `worker --tools` are programs of their own,
/// whose files are their business.
fn keeps_files(command: &Command) -> bool {
    if let Command::Worker(args) = command {
        return args.builtin;
    }
    matches!(
        command,
        Command::Up(_)
            | Command::Demo(_)
            | Command::Serve(_)
            | Command::Migrate(_)
            | Command::NatsConfig(_)
            | Command::Bench(_)
            | Command::BenchWorker(_)
            | Command::BenchLoad(_)
    )
}

/// Help and version go to stdout and are no error; a wrong word is usage.
fn misunderstood(error: &clap::Error) -> ExitCode {
    drop(error.print());
    if error.use_stderr() {
        Outcome::Usage.into()
    } else {
        Outcome::Ok.into()
    }
}

/// Tells what went wrong, and gives the code to end with. A reader that went away is no error.
fn report(error: &anyhow::Error, json: bool) -> Outcome {
    let is_broken_pipe = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    if error
        .downcast_ref::<io::Error>()
        .is_some_and(is_broken_pipe)
    {
        return Outcome::Ok;
    }
    let body = error
        .downcast_ref::<ClientError>()
        .and_then(ClientError::body);
    if let Some(body) = body.filter(|_| json) {
        drop(output::line(body));
    }
    output::note(&format!("error: {error:#}"));
    Outcome::of_error(error)
}
