//! Limits of the machine at this moment, and the usage of a process, from `/proc`.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Duration of the measurement of a limit.
const MEASURE: Duration = Duration::from_secs(1);

/// Ticks per second in `/proc/PID/stat` on Linux.
const TICKS_PER_S: u64 = 100;

/// Usage of a process since its start.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Usage {
    pub(super) cpu_ms: u64,
    pub(super) written: u64,
    pub(super) peak_kb: u64,
    /// Memory at this instant.
    pub(super) rss_kb: u64,
}

impl Usage {
    /// Values that cannot be read are 0.
    pub(super) fn of(pid: u32) -> Self {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}"));
        let stat = read("stat").unwrap_or_default();
        // The process name may contain anything, so fields count from its closing bracket.
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let fields = fields.split_whitespace().skip(11).take(2);
        let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
        let status = read("status").unwrap_or_default();
        Self {
            cpu_ms: ticks * 1_000 / TICKS_PER_S,
            written: number_after(&read("io").unwrap_or_default(), "write_bytes:"),
            peak_kb: number_after(&status, "VmHWM:"),
            rss_kb: number_after(&status, "VmRSS:"),
        }
    }

    /// The difference, except for the memory.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            cpu_ms: self.cpu_ms.saturating_sub(before.cpu_ms),
            written: self.written.saturating_sub(before.written),
            peak_kb: self.peak_kb,
            rss_kb: self.rss_kb,
        }
    }
}

fn number_after(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let word = line.and_then(|rest| rest.split_whitespace().next());
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// File syncs per second in a directory, and the speed of one thread.
pub(super) fn limits(directory: &Path) -> Value {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().map(ToOwned::to_owned);
    let (per_cpu_s, share) = hash_for_a_while();
    json!({
        "append_4k_fsync_per_s": count_syncs(directory).ok(),
        "sha256_mib_per_cpu_s": per_cpu_s,
        "cpu_share_of_one_thread": share,
        "load_average_1m": load,
    })
}

fn count_syncs(directory: &Path) -> std::io::Result<u64> {
    let path = directory.join("limits");
    let mut file = File::create(&path)?;
    let began = Instant::now();
    let mut count = 0;
    while began.elapsed() < MEASURE {
        file.write_all(&[7; 4_096])?;
        file.sync_all()?;
        count += 1;
    }
    std::fs::remove_file(path)?;
    Ok(count)
}

/// MiB hashed per second of CPU time, and the share of a CPU that this thread got.
#[expect(clippy::cast_precision_loss, reason = "shown with two places")]
fn hash_for_a_while() -> (f64, f64) {
    let cpu_ns = || {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let first = text.split_whitespace().next();
        first.and_then(|it| it.parse::<u64>().ok()).unwrap_or(0)
    };
    let (began, before) = (Instant::now(), cpu_ns());
    let block = vec![7_u8; 1 << 20];
    let mut blocks = 0_u32;
    while began.elapsed() < MEASURE / 2 {
        std::hint::black_box(Sha256::digest(&block));
        blocks += 1;
    }
    let cpu_s = cpu_ns().saturating_sub(before) as f64 / 1e9;
    let share = cpu_s / began.elapsed().as_secs_f64();
    let per_cpu_s = f64::from(blocks) / cpu_s;
    (per_cpu_s.round(), (share * 100.0).round() / 100.0)
}
