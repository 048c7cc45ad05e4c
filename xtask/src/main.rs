//! `cargo xtask …`: what the repository does with itself. Uses only Rust, gcc and Python, and
//! installs Docker and Chromium only when it is root and was told that they are required.
#![expect(clippy::print_stdout, reason = "a program for the terminal")]

mod browser;
mod build_info;
mod docker;
mod images;
mod shell;
mod test;
mod tidy;

use std::{env, process::ExitCode};

const USAGE: &str = "\
cargo xtask test [ARGS]   set up what tests need, build, run `cargo test --workspace ARGS`;
                          --exhaustive plays every point of the crash tables
cargo xtask soak [MIN]    the property tests again and again, from seeds that nobody has tried
cargo xtask tidy          check what the compiler does not: layers, lengths, subjects, licences
cargo xtask licences      write THIRD_PARTY.md, the licences of the crates that ship
cargo xtask images        make the images that tests use, where they are missing
cargo xtask build-info P  print what a program in Go says of its own build (docs/nats-server.md)";

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
