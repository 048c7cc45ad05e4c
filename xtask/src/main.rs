//! `cargo xtask …`: tests, checks and pages of the repository. It needs only Rust, gcc and Python. It installs
//! Docker and Chromium only as root and only if a variable says that they are required.
#![expect(clippy::print_stdout, reason = "a program for the terminal")]

mod browser;
mod build_info;
mod docker;
mod images;
mod memory_folder;
mod shell;
mod test;
mod tidy;

use std::{env, process::ExitCode};

const USAGE: &str = "\
cargo xtask test [ARGS]   prepare, build and run `cargo test --workspace ARGS`;
                          --exhaustive runs every crash point
cargo xtask soak [MIN]    repeat the property tests with random seeds
cargo xtask tidy          check rules that the compiler does not know, such as layers and words
cargo xtask licences      write THIRD_PARTY.md, the licences of the crates that ship
cargo xtask images        make missing images for tests
cargo xtask build-info P  print the build information of a Go program (docs/nats-server.md)";

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let done = match arguments.next().as_deref() {
        Some("test") => test::run(&arguments.collect::<Vec<_>>()),
        Some("soak") => test::soak(arguments.next().as_deref()),
        Some("tidy") => tidy::run(),
        Some("licences") => tidy::dependencies::write_notices(),
        Some("images") => images::run(),
        Some("build-info") => build_info::run(arguments.next().as_deref()),
        Some(_) | None => {
            println!("{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
