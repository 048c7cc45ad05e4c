//! How much a sandbox may hold (S1-R8).
//!
//! It is measured after the fact: every two seconds during a call, and at the end of a call. A tool can write more than
//! the limit before the worker stops it.

use std::fs;
use std::time::Duration;

use super::sandbox::SandboxDir;

/// Most bytes of the files of a sandbox: 256 MiB.
pub const SANDBOX_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Most files and directories of a sandbox.
pub const SANDBOX_ENTRIES_MAX: u64 = 10_000;

/// Code of a call whose sandbox is too large. It is not retried, because the tool may have had its effect.
pub const SANDBOX_TOO_LARGE: &str = "sandbox_too_large";

/// How often the sandbox of a call is measured.
const EVERY: Duration = Duration::from_secs(2);

/// Limits of one sandbox.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SandboxLimit {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

impl Default for SandboxLimit {
    fn default() -> Self {
        Self {
            bytes: SANDBOX_BYTES_MAX,
            entries: SANDBOX_ENTRIES_MAX,
        }
    }
}

impl SandboxLimit {
    /// Which limit the sandbox exceeds, in words; none: it exceeds none, or does not exist.
    fn excess(self, sandbox: &SandboxDir) -> Option<String> {
        let (mut bytes, mut entries) = (0_u64, 0_u64);
        let mut open = vec![sandbox.path().to_owned()];
        while let Some(path) = open.pop() {
            for entry in fs::read_dir(path).into_iter().flatten().flatten() {
                // Of a link, not of its target.
                let Ok(data) = entry.metadata() else {
                    continue;
                };
                entries += 1;
                if data.is_dir() {
                    open.push(entry.path());
                } else {
                    bytes = bytes.saturating_add(data.len());
                }
                if entries > self.entries {
                    let max = self.entries;
                    return Some(format!("more than {max} files and directories"));
                }
                if bytes > self.bytes {
                    let max = self.bytes;
                    return Some(format!("more than {max} bytes"));
                }
            }
        }
        None
    }

    /// As [`Self::excess`], on a thread of its own.
    pub(crate) async fn measure(self, sandbox: Option<&SandboxDir>) -> Option<String> {
        let sandbox = sandbox?.clone();
        let measured = tokio::task::spawn_blocking(move || self.excess(&sandbox));
        measured.await.ok().flatten()
    }

    /// Ends when the sandbox exceeds a limit; without a sandbox never.
    pub(crate) async fn exceeded(self, sandbox: Option<&SandboxDir>) -> String {
        if sandbox.is_none() {
            std::future::pending::<()>().await;
        }
        loop {
            tokio::time::sleep(EVERY).await;
            if let Some(excess) = self.measure(sandbox).await {
                return excess;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suspension::sandbox::Sandboxes;
    use crate::worker::tests::fixture::step;

    #[tokio::test]
    async fn bytes_and_entries_are_bounded_and_links_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let all = Sandboxes::new(root.path().to_owned(), "node-a".parse().unwrap());
        let sandbox = all.of(&step(true));
        let limit = SandboxLimit {
            bytes: 10,
            entries: 3,
        };
        assert_eq!(limit.measure(None).await, None);
        assert_eq!(limit.measure(Some(&sandbox)).await, None);
        let path = sandbox.create().unwrap().to_owned();
        fs::create_dir(path.join("deep")).unwrap();
        fs::write(path.join("deep/ten"), "0123456789").unwrap();
        assert_eq!(limit.measure(Some(&sandbox)).await, None);
        fs::write(path.join("deep/one"), "0").unwrap();
        let excess = limit.measure(Some(&sandbox)).await.unwrap();
        assert_eq!(excess, "more than 10 bytes");
        fs::write(path.join("deep/ten"), "").unwrap();
        let large = path.parent().unwrap().join("large");
        fs::write(&large, vec![0; 100]).unwrap();
        fs::remove_file(path.join("deep/one")).unwrap();
        std::os::unix::fs::symlink(&root, path.join("l")).unwrap();
        let long = SandboxLimit {
            bytes: 1_000,
            ..limit
        };
        assert_eq!(long.measure(Some(&sandbox)).await, None);
        fs::write(path.join("more"), "").unwrap();
        let excess = long.exceeded(Some(&sandbox)).await;
        assert_eq!(excess, "more than 3 files and directories");
    }
}
