//! The one source of time. Every service reads the [`Clock`]; a pure core never does.
//!
//! Instants are UTC and truncated to milliseconds, so that a value that is read from any database equals the
//! written one. A test clock changes only when it is moved and never goes back. A file keeps it across
//! restarts.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use tokio::sync::watch;

/// Longest sleep before the machine's clock is read again.
const READ_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// A file of a test clock could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ClockError {
    #[error(
        "the test clock's file {path} does not contain an RFC 3339 instant; remove it or the data folder"
    )]
    Unreadable { path: PathBuf },
    #[error("cannot keep the test clock in {path}")]
    Io {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

/// Returns the time, and wakes tasks that wait for an instant.
#[derive(Debug, Clone)]
pub struct Clock(Arc<Kind>);

#[derive(Debug)]
enum Kind {
    /// The machine's clock with an offset in milliseconds, which is 0 except in tests.
    System(AtomicI64),
    Test(TestClock),
}

#[derive(Debug)]
struct TestClock {
    now: watch::Sender<DateTime<Utc>>,
    file: Mutex<Option<PathBuf>>,
}

impl Clock {
    #[must_use]
    pub fn system() -> Self {
        Self(Arc::new(Kind::System(AtomicI64::new(0))))
    }

    /// Shifts the machine's clock as this one shows it, as an operator or NTP may. For tests; it does not
    /// change a test clock.
    pub fn step(&self, by: TimeDelta) {
        match &*self.0 {
            Kind::System(off) => {
                off.fetch_add(by.num_milliseconds(), Ordering::AcqRel);
            }
            Kind::Test(_) => {}
        }
    }

    /// A test clock at `now` without a file.
    #[must_use]
    pub fn standing_at(now: DateTime<Utc>) -> Self {
        Self::test(now, None)
    }

    /// A test clock that starts at the instant in `file`, or at the real time.
    ///
    /// # Errors
    /// [`ClockError`]: the file does not contain an instant, or cannot be read or written.
    pub fn kept_in(file: &Path) -> Result<Self, ClockError> {
        let io = |source| ClockError::Io {
            path: file.to_owned(),
            source,
        };
        let now =
            match std::fs::read_to_string(file) {
                Ok(text) => text.trim().parse::<DateTime<Utc>>().ok().ok_or_else(|| {
                    ClockError::Unreadable {
                        path: file.to_owned(),
                    }
                })?,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Self::system().now(),
                Err(error) => return Err(io(error)),
            };
        write(file, now).map_err(io)?;
        Ok(Self::test(now, Some(file.to_owned())))
    }

    fn test(now: DateTime<Utc>, file: Option<PathBuf>) -> Self {
        let now = watch::Sender::new(now.trunc_subsecs(3));
        Self(Arc::new(Kind::Test(TestClock {
            now,
            file: Mutex::new(file),
        })))
    }

    /// Whether this clock changes only when it is moved.
    #[must_use]
    pub fn is_test(&self) -> bool {
        matches!(*self.0, Kind::Test(_))
    }

    /// The time, UTC, to the millisecond.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn now(&self) -> DateTime<Utc> {
        match &*self.0 {
            Kind::System(off) => {
                let off = TimeDelta::milliseconds(off.load(Ordering::Acquire));
                Utc::now().trunc_subsecs(3) + off
            }
            Kind::Test(clock) => *clock.now.borrow(),
        }
    }

    /// Moves a test clock forward to `to`. It changes nothing if `to` is earlier, or for the machine's clock.
    ///
    /// # Errors
    /// [`ClockError::Io`]: the new time cannot be stored, and the clock has not moved.
    pub fn move_to(&self, to: DateTime<Utc>) -> Result<(), ClockError> {
        let Kind::Test(clock) = &*self.0 else {
            return Ok(());
        };
        let file = clock.file.lock().unwrap_or_else(PoisonError::into_inner);
        let to = to.trunc_subsecs(3);
        if to <= *clock.now.borrow() {
            return Ok(());
        }
        if let Some(path) = &*file {
            write(path, to).map_err(|source| ClockError::Io {
                path: path.clone(),
                source,
            })?;
        }
        clock.now.send_replace(to);
        Ok(())
    }

    /// Waits until the clock shows `due` or later.
    pub async fn reached(&self, due: DateTime<Utc>) {
        match &*self.0 {
            Kind::System(_) => loop {
                let Ok(left) = (due - self.now()).to_std() else {
                    return;
                };
                if left.is_zero() {
                    return;
                }
                // A sleep does not notice a change of the machine's clock.
                tokio::time::sleep(left.min(READ_INTERVAL_MAX)).await;
            },
            Kind::Test(clock) => {
                let mut now = clock.now.subscribe();
                // The sender lives as long as `self`, so waiting cannot fail.
                drop(now.wait_for(|now| *now >= due).await);
            }
        }
    }
}

/// Writes a new file and renames it, so that a crash leaves the old instant or the new one.
fn write(file: &Path, now: DateTime<Utc>) -> std::io::Result<()> {
    let beside = file.with_extension("new");
    std::fs::write(
        &beside,
        now.to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
    )?;
    std::fs::rename(beside, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn a_test_clock_moves_only_forward() {
        let clock = Clock::standing_at(at("2026-01-01T00:00:00.123456Z"));
        assert_eq!(clock.now(), at("2026-01-01T00:00:00.123Z"));
        clock.move_to(at("2026-01-06T00:00:00Z")).unwrap();
        clock.move_to(at("2026-01-02T00:00:00Z")).unwrap();
        assert_eq!(clock.now(), at("2026-01-06T00:00:00Z"));
    }

    #[tokio::test]
    async fn a_task_is_woken_when_its_instant_is_reached() {
        let clock = Clock::standing_at(at("2026-01-01T00:00:00Z"));
        let waiter = clock.clone();
        let waiting = tokio::spawn(async move { waiter.reached(at("2026-01-02T00:00:00Z")).await });
        clock.move_to(at("2026-01-02T00:00:00Z")).unwrap();
        waiting.await.unwrap();
    }

    #[test]
    fn a_restarted_clock_shows_the_stored_instant() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("clock");
        let clock = Clock::kept_in(&file).unwrap();
        let later = clock.now() + TimeDelta::days(5);
        clock.move_to(later).unwrap();
        assert_eq!(Clock::kept_in(&file).unwrap().now(), later);
        std::fs::write(&file, "yesterday").unwrap();
        assert!(matches!(
            Clock::kept_in(&file),
            Err(ClockError::Unreadable { .. })
        ));
    }
}
