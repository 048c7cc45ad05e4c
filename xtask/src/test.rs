//! `cargo xtask test`: everything between a fresh clone and the sum of all tests.

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
    browser, docker, images,
    shell::{command, output, show},
};

/// Where proptest looks for its seed.
const SEED_NAME: &str = "PROPTEST_RNG_SEED";

/// From which the property tests draw where nobody says otherwise: what passes on one machine passes
/// on every other, as in the simulation. `cargo xtask soak` draws from others.
const SEED: &str = "20261122";

/// What the names of all property tests begin with.
const PROPERTIES: [&str; 2] = ["domain::", "duration::"];

/// Names the file in which tests note that they were skipped.
const SKIPPED: &str = "HOLDPOINT_TEST_SKIPPED";

/// What all test programs together said. A test that cannot run here ends well for the test program, and
/// notes that it was skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Totals {
    ended_well: u64,
    failed: u64,
    ignored: u64,
    /// Program and name of the tests that noted it, and why.
    skipped: BTreeMap<(String, String), String>,
    /// Names of tests that failed.
    failures: BTreeSet<String>,
}

impl Totals {
    /// Adds a line such as `test result: ok. 5 passed; 0 failed; 0 ignored; …`; others are nothing.
    fn add(&mut self, line: &str) {
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
                Some((number, "passed")) => self.ended_well += number.parse().unwrap_or(0),
                Some((number, "failed")) => self.failed += number.parse().unwrap_or(0),
                Some((number, "ignored")) => self.ignored += number.parse().unwrap_or(0),
                Some(_) | None => {}
            }
        }
    }

    /// Adds a note of a skipped test: program, test and reason, with tabs between them. One that failed
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
        self.ended_well.saturating_sub(self.skipped.len() as u64)
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (passed, failed, skipped) = (self.passed(), self.failed, self.skipped());
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// Plays every point of the crash tables instead of those that CI has time for.
const EXHAUSTIVE: (&str, &str) = ("--exhaustive", "HOLDPOINT_TEST_EXHAUSTIVE");

/// Sets up, builds, runs, and closes with `N passed, N failed, N skipped` alone on a line.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let asked = |name: &str| env::var(name).is_ok_and(|value| value == "1");
    let required = asked("HOLDPOINT_TEST_REQUIRE_DOCKER");
    if asked("HOLDPOINT_TEST_REQUIRE_BROWSER") {
        browser::present()?;
    }
    // Held to the end: dropping it stops an engine that was started here.
    let _engine = if required {
        let engine = docker::engine()?;
        images::make()?;
        Some(engine)
    } else {
        None
    };
    let mut variables = variables(docker::answers());
    let (flag, variable) = EXHAUSTIVE;
    let (flags, arguments): (Vec<_>, Vec<_>) =
        arguments.iter().partition(|argument| *argument == flag);
    if !flags.is_empty() {
        variables.push((variable, "1".to_owned()));
    }
    if env::var_os(SEED_NAME).is_none() {
        variables.push((SEED_NAME, SEED.to_owned()));
    }
    // The same selection as the tests: another one would build the dependencies a second time,
    // with other features.
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
    for line in fs::read_to_string(notes.path())?.lines() {
        totals.add_skipped(line);
    }
    for ((program, test), why) in &totals.skipped {
        println!("skipped: {program} {test}: {why}");
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

/// The property tests again and again, each time from a seed that nobody has tried.
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
    println!("{rounds} rounds held");
    Ok(())
}

/// Names images that are here, so that no test tries to pull; what the caller set stays.
fn variables(docker: bool) -> Vec<(&'static str, String)> {
    let mut variables = Vec::new();
    if let Ok(target) = target_dir() {
        variables.push(("HOLDPOINT_BIN", format!("{target}/debug/holdpoint")));
    }
    if !docker {
        println!(
            "xtask: no Docker answers: NATS runs as a process, Postgres only if a URL is given"
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
            println!("xtask: no image {image} (`cargo xtask images` makes it); tests try to pull");
        }
    }
    variables
}

fn target_dir() -> anyhow::Result<String> {
    let arguments = ["metadata", "--no-deps", "--format-version", "1"];
    let metadata: serde_json::Value =
        serde_json::from_str(&output(&mut command("cargo", &arguments))?)?;
    let target = metadata
        .get("target_directory")
        .and_then(serde_json::Value::as_str);
    Ok(target
        .context("cargo metadata names no target directory")?
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mend D-18, C-16: a test that could not run is not among those that passed.
    #[test]
    fn results_of_all_programs_are_summed() {
        let mut totals = Totals::default();
        for line in [
            "running 2 tests",
            "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s",
            "test b::fails ... FAILED",
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out",
        ] {
            totals.add(line);
        }
        assert_eq!(totals.to_string(), "8 passed, 2 failed, 1 skipped");
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
