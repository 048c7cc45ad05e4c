//! The `holdpoint` binary: all services in one process, single services, workers and the command line.
//!
//! Most commands are clients of the REST API and know nothing that the API does not say.

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
mod service_group;
mod stop_signal;
mod table;
mod up;
mod worker;

use std::io;
use std::process::ExitCode;

use clap::Parser;

use crate::cli::processes::SecretsCommand;
use crate::cli::{Cli, Command};
use crate::client::{ClientError, exit_kind_of};
use crate::command::run_client_command;
use crate::exit::ExitKind;

/// Chosen because large SQL statements are allocated and freed all the time; see `docs/performance.md`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return print_parse_error(&error),
    };
    let json = cli.global.json;
    match start(cli) {
        Ok(code) => code,
        Err(error) => report(&error, json).into(),
    }
}

fn start(cli: Cli) -> anyhow::Result<ExitCode> {
    // Fails only if a provider is installed already, which is good enough.
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
    if writes_private_files(&command) {
        file_privacy::set_private_umask();
    }
    let global = &global;
    match command {
        Command::Up(args) => Box::pin(up::run(args, global)).await,
        Command::Demo(args) => Box::pin(demo::run(args, global.data.as_deref())).await,
        Command::Worker(args) => Box::pin(worker::run(args, global)).await,
        Command::NatsConfig(args) => done(nats_config::write(&args)),
        Command::Completions { shell } => done(command::print_completions(shell)),
        Command::Serve(args) => Box::pin(serve::run(args)).await,
        Command::Migrate(args) => Box::pin(migrate::run(args)).await,
        Command::Secrets(SecretsCommand::New) => {
            let secrets = holdpoint_auth::Secrets::fresh()?;
            output::line(&serde_json::to_string_pretty(&secrets)?)?;
            Ok(ExitKind::Ok.into())
        }
        Command::Bench(args) => Box::pin(bench::run(args)).await,
        Command::BenchWorker(args) => Box::pin(bench::run_worker(args)).await,
        Command::BenchLoad(args) => Box::pin(bench::run_load(args)).await,
        Command::Agent(command) => run_client_command(global, command).await,
        Command::Rehearsal(command) => run_client_command(global, command).await,
        Command::Run(command) => run_client_command(global, command).await,
        Command::Operation(command) => run_client_command(global, command).await,
        Command::Contact(command) => run_client_command(global, command).await,
        Command::Clock(command) => run_client_command(global, command).await,
        Command::Request(command) => run_client_command(global, command).await,
        Command::User(command) => run_client_command(global, command).await,
        Command::Token(command) => run_client_command(global, command).await,
        Command::Tool(command) => run_client_command(global, command).await,
        Command::Template(command) => run_client_command(global, command).await,
        Command::Calendar(command) => run_client_command(global, command).await,
        Command::Notifications(command) => run_client_command(global, command).await,
        Command::Follow(command) => run_client_command(global, command).await,
        Command::Preferences(command) => run_client_command(global, command).await,
        Command::Webhooks(command) => run_client_command(global, command).await,
        Command::Policies(command) => run_client_command(global, command).await,
        Command::StandingApproval(command) => run_client_command(global, command).await,
        Command::Schedule(command) => run_client_command(global, command).await,
        Command::Dead(command) => run_client_command(global, command).await,
        Command::Workspace(command) => run_client_command(global, command).await,
        Command::Mesh(command) => run_client_command(global, command).await,
    }
}

fn done(result: anyhow::Result<()>) -> anyhow::Result<ExitCode> {
    result.map(|()| ExitKind::Ok.into())
}

/// Whether a command writes tables, keys or mails. The tools of `worker --tools` are separate programs,
/// and the umask of their files is not ours to set.
fn writes_private_files(command: &Command) -> bool {
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

/// Help and version go to stdout and are not errors.
fn print_parse_error(error: &clap::Error) -> ExitCode {
    drop(error.print());
    if error.use_stderr() {
        ExitKind::Usage.into()
    } else {
        ExitKind::Ok.into()
    }
}

/// Prints an error. A closed stdout (`| head`) is not an error.
fn report(error: &anyhow::Error, json: bool) -> ExitKind {
    let io_error = error.downcast_ref::<io::Error>();
    if io_error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
        return ExitKind::Ok;
    }
    let client_error = error.downcast_ref::<ClientError>();
    if let Some(body) = client_error.and_then(ClientError::body).filter(|_| json) {
        drop(output::line(body));
    }
    output::note(&format!("error: {error:#}"));
    exit_kind_of(error)
}
