//! Time and memory of the compiler of instructions for hostile texts of 64 KiB (Words).
//!
//! `cargo bench -p holdpoint-instructions --bench hostile_texts` prints one JSON line, and fails above the limits. Tests count
//! the work instead, because a clock says little on a machine that is busy.

#![expect(clippy::print_stdout, reason = "the result of a benchmark")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use allocation_counter::measure;
use holdpoint_instructions::{INSTRUCTIONS_BYTES_MAX, compile};

#[path = "../src/tests/hostile_texts.rs"]
mod hostile_texts;

use hostile_texts::{PIECES, line};

/// Longest time for one text: the median of its takes.
const TIME_MAX: Duration = Duration::from_millis(50);

/// Most memory in use at once, in bytes.
const MEMORY_MAX: u64 = 64 * 1024 * 1024;

/// Measurements of each text.
const TAKES: usize = 5;

fn main() -> ExitCode {
    let mut slowest = (Duration::ZERO, "");
    let mut largest = (0, "");
    for (before, piece) in PIECES {
        let text = line(before, piece);
        let mut takes: Vec<Duration> = (0..TAKES).map(|_take| time_of(&text)).collect();
        takes.sort_unstable();
        let median = takes.get(TAKES / 2).copied().unwrap_or_default();
        slowest = slowest.max((median, piece));
        let used = measure(|| drop(compile(&text)));
        largest = largest.max((used.bytes_max, piece));
    }
    let result = serde_json::json!({
        "texts": PIECES.len(), "bytes_of_each": INSTRUCTIONS_BYTES_MAX, "takes": TAKES,
        "slowest_ms": slowest.0.as_secs_f64() * 1e3, "slowest_text": slowest.1,
        "most_memory_bytes": largest.0, "largest_text": largest.1,
    });
    println!("{result}");
    if slowest.0 > TIME_MAX || largest.0 > MEMORY_MAX {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn time_of(text: &str) -> Duration {
    let since = Instant::now();
    drop(compile(text));
    since.elapsed()
}
