//! What the machine can do at this moment, and what a process has used: from `/proc`.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// How long each limit is measured.
const MEASURE: Duration = Duration::from_secs(1);

/// Ticks a second in `/proc/PID/stat`, on every Linux.
const TICKS: u64 = 100;

/// What a process has used since it started.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Used {
    pub(super) cpu_ms: u64,
    pub(super) written: u64,
    pub(super) peak_kb: u64,
}

impl Used {
    /// Zeroes for what cannot be read.
    pub(super) fn by(pid: u32) -> Self {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}"));
        let stat = read("stat").unwrap_or_default();
        // The name may hold anything; fields count from behind its bracket.
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let mut fields = fields.split_whitespace().skip(11);
        let mut ticks = || {
            fields
                .next()
                .and_then(|it| it.parse::<u64>().ok())
                .unwrap_or(0)
        };
        let ticks = ticks() + ticks();
        Self {
            cpu_ms: ticks * 1_000 / TICKS,
            written: named(&read("io").unwrap_or_default(), "write_bytes:"),
            peak_kb: named(&read("status").unwrap_or_default(), "VmHWM:"),
        }
    }

    /// What came since.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            cpu_ms: self.cpu_ms.saturating_sub(before.cpu_ms),
            written: self.written.saturating_sub(before.written),
            peak_kb: self.peak_kb,
        }
    }
}

fn named(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let word = line.and_then(|rest| rest.split_whitespace().next());
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Syncs a second of one file in this folder, and how fast one thread computes.
pub(super) fn limits(folder: &Path) -> Value {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().map(ToOwned::to_owned);
    let (per_cpu_s, share) = spin();
    json!({
        "append_4k_fsync_per_s": syncs(folder).ok(),
        "sha256_mib_per_cpu_s": per_cpu_s,
        "cpu_share_of_one_thread": share,
        "load_average_1m": load,
    })
}

fn syncs(folder: &Path) -> std::io::Result<u64> {
    let path = folder.join("limits");
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

/// MiB hashed in a second of CPU, and the share of a CPU that this thread got.
#[expect(clippy::cast_precision_loss, reason = "shown with two places")]
fn spin() -> (f64, f64) {
    let cpu_ns = || {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let first = text
            .split_whitespace()
            .next()
            .and_then(|it| it.parse::<u64>().ok());
        first.unwrap_or(0)
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
    (
        (f64::from(blocks) / cpu_s).round(),
        (share * 100.0).round() / 100.0,
    )
}
