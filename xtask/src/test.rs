//! `cargo xtask test`: prepares a fresh clone, runs all tests and adds up their results.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fmt, fs,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    io::{BufRead as _, BufReader, Write as _, stdout},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};

use crate::{
    browser, docker, images, memory_folder,
    shell::{command, metadata, show, text},
};

/// Variable in which proptest reads its seed.
const SEED_NAME: &str = "PROPTEST_RNG_SEED";

/// Default seed of property tests, so that a result is the same on every machine. `cargo xtask soak` uses
/// random seeds.
const SEED: &str = "20261122";

/// Variable with the folder for temporary files.
const FOLDER_NAME: &str = "TMPDIR";

/// Variable in which the test programs read how many tests run at the same time.
const THREADS_NAME: &str = "RUST_TEST_THREADS";

/// One more than CI has cores: tests wait for processes, timers and redeliveries. Four tests start too many browsers
/// at once.
const THREADS: &str = "3";

/// Prefixes of the names of all property tests.
const PROPERTIES: [&str; 2] = ["domain::", "duration::"];

/// Variable with the file in which tests note that they were skipped.
const SKIPPED: &str = "HOLDPOINT_TEST_SKIPPED";

/// Lines of a panic that are printed once more at the end. The log of a failed test is long, and would push them out of
/// the part of CI's output that is kept.
const PANIC_LINES: usize = 10;

/// Lines of all panics that are printed once more at the end.
const FAILURE_LINES_MAX: usize = 100;

/// Results of all test programs. A test that cannot run here succeeds for its test program, and notes that it
/// was skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Totals {
    succeeded: u64,
    failed: u64,
    ignored: u64,
    /// Reasons of skipped tests, by program and name.
    skipped: BTreeMap<(String, String), String>,
    failures: BTreeSet<String>,
    /// The names of failed tests and their panics.
    failure_output: Vec<String>,
    /// How many of the next lines belong to a panic.
    panic_lines: usize,
    /// The last line of a test program that has not printed its result yet.
    unfinished: Option<String>,
}

impl Totals {
    /// Adds a line such as `test result: ok. 5 passed; 0 failed; 0 ignored; …`, or the output of a failed test.
    /// Other lines are ignored.
    fn add(&mut self, line: &str) {
        if is_head(line) {
            self.add_aborted();
            self.unfinished = Some(line.to_owned());
        } else if line.starts_with("test result: ") {
            self.unfinished = None;
        } else if line.starts_with("test ") && self.unfinished.is_some() {
            self.unfinished = Some(line.to_owned());
        }
        if line.starts_with("---- ") {
            self.panic_lines = 1;
        } else if line.contains(" panicked at ") || line.starts_with("Error: ") {
            self.panic_lines = PANIC_LINES;
        } else if line == "failures:" {
            self.panic_lines = 0;
        }
        if self.panic_lines > 0 && self.failure_output.len() < FAILURE_LINES_MAX {
            self.failure_output.push(line.to_owned());
            self.panic_lines -= 1;
        }
        if let Some(name) = line
            .strip_prefix("test ")
            .and_then(|l| l.strip_suffix(" ... FAILED"))
        {
            self.failures.insert(name.to_owned());
        }
        let Some((_, counts)) = line
            .strip_prefix("test result: ")
            .and_then(|l| l.split_once(". "))
        else {
            return;
        };
        for count in counts.split("; ") {
            match count.split_once(' ') {
                Some((number, "passed")) => self.succeeded += number.parse().unwrap_or(0),
                Some((number, "failed")) => self.failed += number.parse().unwrap_or(0),
                Some((number, "ignored")) => self.ignored += number.parse().unwrap_or(0),
                Some(_) | None => {}
            }
        }
    }

    /// Counts a program that was aborted or killed as a failed test. Its output is lost, so its last line has to do.
    fn add_aborted(&mut self) {
        if let Some(line) = self.unfinished.take() {
            self.failed += 1;
            self.failure_output.push(format!(
                "a test program ended without a result after: {line}"
            ));
        }
    }

    /// Adds a note of a skipped test: program, test and reason, separated by tabs. A test that failed
    /// afterwards counts as failed.
    fn add_skipped(&mut self, line: &str) {
        let mut parts = line.splitn(3, '\t').map(str::to_owned);
        if let (Some(program), Some(test), Some(why)) = (parts.next(), parts.next(), parts.next())
            && !self.failures.contains(&test)
        {
            self.skipped.insert((program, test), why);
        }
    }

    fn skipped(&self) -> u64 {
        self.ignored + self.skipped.len() as u64
    }

    fn passed(&self) -> u64 {
        self.succeeded.saturating_sub(self.skipped.len() as u64)
    }
}

/// Whether this is the first line of a test program, such as `running 5 tests`.
fn is_head(line: &str) -> bool {
    let count = line
        .strip_prefix("running ")
        .and_then(|rest| rest.strip_suffix(" tests").or(rest.strip_suffix(" test")));
    count.is_some_and(|count| count.parse::<u32>().is_ok())
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (passed, failed, skipped) = (self.passed(), self.failed, self.skipped());
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// Runs every crash point instead of the selection for CI.
const EXHAUSTIVE: (&str, &str) = ("--exhaustive", "HOLDPOINT_TEST_EXHAUSTIVE");

/// Prepares, builds and runs the tests. The last line is `N passed, N failed, N skipped`.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let asked = |name: &str| env::var(name).is_ok_and(|value| value == "1");
    let required = asked("HOLDPOINT_TEST_REQUIRE_DOCKER");
    if asked("HOLDPOINT_TEST_REQUIRE_BROWSER") {
        browser::install_missing()?;
    }
    // Dropping it stops an engine that was started here.
    let _engine = if required {
        let engine = docker::start_engine()?;
        images::make_missing()?;
        Some(engine)
    } else {
        None
    };
    let mut variables = variables(docker::responds());
    let folder = match env::var_os(FOLDER_NAME) {
        Some(_) => None,
        None => memory_folder::create(),
    };
    if let Some(folder) = &folder {
        variables.push((FOLDER_NAME, folder.path().display().to_string()));
    }
    let (flag, variable) = EXHAUSTIVE;
    let (flags, arguments): (Vec<_>, Vec<_>) =
        arguments.iter().partition(|argument| *argument == flag);
    if !flags.is_empty() {
        variables.push((variable, "1".to_owned()));
    }
    for (name, value) in [(SEED_NAME, SEED), (THREADS_NAME, THREADS)] {
        if env::var_os(name).is_none() {
            variables.push((name, value.to_owned()));
        }
    }
    // The same selection as for the tests, because another one would build the dependencies again with other
    // features.
    show(&mut command(
        "cargo",
        &["build", "--workspace", "--all-targets"],
    ))?;
    let notes = tempfile::NamedTempFile::new()?;
    let mut test = command("cargo", &["test", "--workspace", "--no-fail-fast"]);
    test.args(arguments)
        .envs(variables)
        .env(SKIPPED, notes.path())
        .stdout(Stdio::piped());
    let mut child = test.spawn().context("cargo test")?;
    let mut totals = Totals::default();
    let lines = BufReader::new(child.stdout.take().context("cargo test has no output")?);
    for line in lines.lines() {
        let line = line?;
        writeln!(stdout(), "{line}")?;
        totals.add(&line);
    }
    let status = child.wait()?;
    totals.add_aborted();
    for line in fs::read_to_string(notes.path())?.lines() {
        totals.add_skipped(line);
    }
    for ((program, test), why) in &totals.skipped {
        println!("skipped: {program} {test}: {why}");
    }
    // At the end, because CI keeps only the last lines of its output.
    for line in &totals.failure_output {
        println!("{line}");
    }
    println!("{totals}");
    if !status.success() {
        bail!("cargo test ended with {status}");
    }
    if totals.passed() == 0 {
        bail!("no test ran");
    }
    Ok(())
}

/// Repeats the property tests, each time with a random seed.
pub(crate) fn soak(minutes: Option<&str>) -> anyhow::Result<()> {
    let minutes = minutes.unwrap_or("10");
    let minutes: u64 = minutes.parse().context("`soak` takes whole minutes")?;
    let until = Instant::now() + Duration::from_secs(minutes * 60);
    let mut rounds = 0;
    while rounds == 0 || Instant::now() < until {
        let seed = RandomState::new().build_hasher().finish().to_string();
        println!("xtask: {SEED_NAME}={seed}");
        let mut test = command("cargo", &["test", "--workspace", "--lib", "--quiet", "--"]);
        show(test.args(PROPERTIES).env(SEED_NAME, &seed))?;
        rounds += 1;
    }
    println!("{rounds} rounds passed");
    Ok(())
}

/// Names the images that exist, so that no test pulls one. Variables of the caller stay.
fn variables(docker: bool) -> Vec<(&'static str, String)> {
    let mut variables = Vec::new();
    if let Ok(metadata) = metadata(&["--no-deps"]) {
        let target = text(&metadata, "target_directory");
        variables.push(("HOLDPOINT_BIN", format!("{target}/debug/holdpoint")));
    }
    if !docker {
        println!(
            "xtask: Docker does not respond: NATS runs as a process, Postgres only if a URL is given"
        );
        return variables;
    }
    for (name, image) in [
        ("HOLDPOINT_TEST_NATS_IMAGE", images::NATS),
        ("HOLDPOINT_TEST_POSTGRES_IMAGE", images::POSTGRES),
    ] {
        if env::var_os(name).is_some() {
            continue;
        }
        if images::exists(image) {
            println!("xtask: {name}={image}");
            variables.push((name, image.to_owned()));
        } else {
            println!(
                "xtask: image {image} is missing (`cargo xtask images` makes it); tests pull one"
            );
        }
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_a_result_is_a_failure() {
        let mut totals = Totals::default();
        for line in [
            "running 2 tests",
            "test a::passes ... ok",
            "running 1 test",
            "running along",
            "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s",
            "running 3 tests",
        ] {
            totals.add(line);
        }
        totals.add_aborted();
        assert_eq!(totals.to_string(), "1 passed, 2 failed, 0 skipped");
        assert_eq!(
            totals.failure_output,
            [
                "a test program ended without a result after: test a::passes ... ok",
                "a test program ended without a result after: running 3 tests"
            ]
        );
    }

    /// Mend D-18, C-16: a test that could not run does not count as passed.
    #[test]
    fn results_of_all_programs_are_summed() {
        let mut totals = Totals::default();
        for line in [
            "running 2 tests",
            "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s",
            "test b::fails ... FAILED",
            "failures:",
            "---- b::fails stdout ----",
            "a line of the log",
            "thread 'b::fails' (7) panicked at b.rs:1:2:",
            "a reason",
            "failures:",
            "    b::fails",
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out",
        ] {
            totals.add(line);
        }
        assert_eq!(totals.to_string(), "8 passed, 2 failed, 1 skipped");
        assert_eq!(
            totals.failure_output,
            [
                "---- b::fails stdout ----",
                "thread 'b::fails' (7) panicked at b.rs:1:2:",
                "a reason"
            ]
        );
        for line in [
            "store-1\ton_postgres\tno Postgres: no Docker",
            "store-1\ton_postgres\tno Postgres: no Docker",
            "scenarios-2\ton_postgres\tno Postgres: no Docker",
            "scenarios-2\tb::fails\tno browser",
            "half a line",
        ] {
            totals.add_skipped(line);
        }
        assert_eq!(totals.to_string(), "6 passed, 2 failed, 3 skipped");
    }
}
