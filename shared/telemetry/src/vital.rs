//! Tasks that a service cannot work without. A panic in one of them ends the process. The next start continues
//! from the tables; without an end, callers would wait for ever.

use std::future::Future;

/// Ends the process when it is dropped by a panic.
#[derive(Debug)]
pub struct Vital {
    pub service: &'static str,
    pub part: &'static str,
}

impl Vital {
    pub async fn run<F: Future>(self, work: F) -> F::Output {
        let _ends_with_a_panic = self;
        work.await
    }
}

impl Drop for Vital {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { service, part } = self;
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
    use std::process::Command;

    use super::*;

    const MARK: &str = "HOLDPOINT_VITAL_TEST";

    /// Mend B-12: a panic on a separate thread, in a task without a waiter, ends the process. The test runs
    /// its own binary, because the process that panics ends.
    #[test]
    fn a_panic_ends_the_process() {
        match std::env::var(MARK).as_deref() {
            Ok("panics") => on_a_thread(async { panic!("a defect") }),
            Ok("ends") => on_a_thread(async {}),
            Ok(_) | Err(_) => {
                for (case, continues) in [("panics", false), ("ends", true)] {
                    let again = Command::new(std::env::current_exe().unwrap())
                        .args(["--exact", "vital::tests::a_panic_ends_the_process"])
                        .env(MARK, case)
                        .output()
                        .unwrap();
                    assert_eq!(again.status.success(), continues, "{case}: {again:?}");
                }
            }
        }
    }

    fn on_a_thread(work: impl Future<Output = ()> + Send + 'static) {
        let vital = Vital {
            service: "counter",
            part: "database thread",
        };
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            runtime.unwrap().block_on(async {
                // The result of the task is ignored.
                drop(tokio::spawn(vital.run(work)).await);
            });
        });
        thread.join().unwrap();
    }
}
