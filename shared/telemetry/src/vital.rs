//! Tasks that a service cannot work without. A panic in one of them ends the process. The next start continues
//! from the tables; without an end, callers would wait for ever.

use std::future::{Future, poll_fn};
use std::pin::pin;

/// Ends the process when its work panics. Work that is dropped because another task or a test panics ends nothing.
#[derive(Debug)]
pub struct Vital {
    pub service: &'static str,
    pub part: &'static str,
}

impl Vital {
    pub async fn run<F: Future>(self, work: F) -> F::Output {
        let mut work = pin!(work);
        poll_fn(|context| {
            let _ends_with_a_panic = Poll(&self);
            work.as_mut().poll(context)
        })
        .await
    }
}

/// One poll of vital work.
struct Poll<'a>(&'a Vital);

impl Drop for Poll<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Vital { service, part } = self.0;
            tracing::error!(
                service,
                part,
                "panicked; the process ends, and its next start continues from the tables"
            );
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::process::Command;

    use super::*;

    const MARK: &str = "HOLDPOINT_VITAL_TEST";

    /// Mend B-12: a panic on a separate thread, in a task without a waiter, ends the process. A panic outside of the
    /// work drops it and fails its test only. The test runs its own binary, because the process that panics ends.
    #[test]
    fn a_panic_in_the_work_ends_the_process() {
        match std::env::var(MARK).as_deref() {
            Ok("panics") => beside(async { panic!("a defect") }, async {}),
            Ok("ends") => beside(async {}, async {}),
            Ok("dropped") => beside(pending(), async { panic!("a failed test") }),
            Ok(_) | Err(_) => {
                // A process that was aborted has no exit code. The test program exits with 101 after a failed test.
                for (case, code) in [("panics", None), ("ends", Some(0)), ("dropped", Some(101))] {
                    let again = Command::new(std::env::current_exe().unwrap())
                        .args([
                            "--exact",
                            "vital::tests::a_panic_in_the_work_ends_the_process",
                        ])
                        .env(MARK, case)
                        .output()
                        .unwrap();
                    assert_eq!(again.status.code(), code, "{case}: {again:?}");
                }
            }
        }
    }

    /// Runs `work` as a vital task of a thread that continues with `other`.
    fn beside(
        work: impl Future<Output = ()> + Send + 'static,
        other: impl Future<Output = ()> + Send + 'static,
    ) {
        let vital = Vital {
            service: "counter",
            part: "database thread",
        };
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            runtime.unwrap().block_on(async {
                tokio::spawn(vital.run(work));
                tokio::task::yield_now().await;
                other.await;
            });
        });
        thread.join().unwrap();
    }
}
