//! A temporary folder whose processes end with the test, also when the test process aborts or is killed.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;
use tempfile::TempDir;

/// Waits until the test process closes the pipe on stdin, at the latest by its end. Then kills the processes that
/// name the folder in their arguments. It repeats that, because one of them may just be starting another one.
/// The shell and `grep` get the folder by other means and so do not find themselves.
const KILL_AT_END: &str = r#"read -r _
for _ in 1 2 3 4 5 6 7 8 9 10; do
    files=$(printf %s "$FOLDER" | grep -slF -f - /proc/[0-9]*/cmdline)
    [ -n "$files" ] || exit 0
    for file in $files; do
        pid=${file#/proc/}
        kill -9 "${pid%/cmdline}"
    done
    sleep 0.1
done"#;

/// A temporary folder. A process that names it in its arguments is killed when the folder is dropped, and when
/// the test process ends in any other way.
#[derive(Debug)]
pub struct TestFolder {
    killer: Child,
    dir: TempDir,
}

impl TestFolder {
    /// Creates the folder.
    ///
    /// # Errors
    /// When the folder cannot be created, or there is no shell.
    pub fn create() -> anyhow::Result<Self> {
        use std::os::unix::process::CommandExt as _;

        let dir = tempfile::tempdir()?;
        let name = dir.path().file_name().context("no name")?;
        let killer = Command::new("sh")
            .args(["-c", KILL_AT_END])
            .env("FOLDER", name)
            // Ctrl-c at the terminal ends the group of the test.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { killer, dir })
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        drop(self.killer.stdin.take());
        if let Err(error) = self.killer.wait() {
            println!(
                "processes of {} may be left: {error}",
                self.dir.path().display()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use std::{env, fs};

    use super::*;
    use crate::{NatsProcess, until};

    const FILE: &str = "HOLDPOINT_TEST_FOLDER_FILE";

    /// The processes that name `folder` in their arguments.
    fn processes(folder: &str) -> Vec<String> {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let arguments = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        let arguments = arguments.map(|text| String::from_utf8_lossy(&text).into_owned());
        arguments.filter(|text| text.contains(folder)).collect()
    }

    /// Runs itself again as a test process that is killed while its server runs.
    #[tokio::test]
    async fn a_killed_test_process_leaves_no_server() {
        if let Some(file) = env::var_os(FILE) {
            let nats = NatsProcess::start("").await.unwrap();
            fs::write(file, nats.folder().to_str().unwrap()).unwrap();
            return std::future::pending().await;
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut test = Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "folder::tests::a_killed_test_process_leaves_no_server",
            ])
            .env(FILE, file.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let started = async || {
            let folder = fs::read_to_string(file.path()).unwrap();
            (!processes(&folder).is_empty() && !folder.is_empty()).then_some(folder)
        };
        let folder = until(Duration::from_secs(30), "a server", started).await;
        test.kill().unwrap();
        test.wait().unwrap();
        let folder = folder.unwrap();
        let ended = async || processes(&folder).is_empty().then_some(());
        until(Duration::from_secs(10), "the end of the server", ended)
            .await
            .unwrap();
    }
}
