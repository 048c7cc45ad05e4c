//! Figures of a measurement.

use std::time::Duration;

use serde_json::{Value, json};

/// Percentiles of measurements in microseconds.
pub(super) fn percentiles(mut micros: Vec<u64>) -> Value {
    micros.sort_unstable();
    let at = |percent: usize| {
        let index = (micros.len() * percent / 100).min(micros.len().saturating_sub(1));
        micros.get(index).map(|it| ms(*it))
    };
    json!({ "p50_ms": at(50), "p99_ms": at(99), "max_ms": micros.last().map(|it| ms(*it)) })
}

/// Milliseconds with two places.
#[expect(clippy::cast_precision_loss, reason = "shown with two places")]
pub(super) fn ms(micros: u64) -> f64 {
    (micros as f64 / 10.0).round() / 100.0
}

pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a count of at most some millions"
)]
pub(super) fn per_second(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds
}

pub(super) fn round(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}
