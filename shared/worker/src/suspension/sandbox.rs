//! The directory that a worker gives to the tool of one run and step (S1-R8).
//!
//! Owns its place, its manifest and its removal. It is made when a tool asks for it, survives a suspension, and is
//! removed when the run has ended.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use holdpoint_contracts::steps::StepDispatch;
use holdpoint_contracts::suspension::{
    ContinuedStep, SNAPSHOT_BLOB_MAX, SNAPSHOT_MAX, Sandbox, SandboxFile, SandboxState, Supplement,
    ValueReference,
};
use holdpoint_ids::{NodeName, RunId, Workspace};
use rustix::fs::{Mode, OFlags};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Files of one manifest. Further ones are counted.
pub const FILES_MAX: usize = 1_000;

/// Deepest directory of a manifest.
const DEPTH_MAX: usize = 16;

/// Files and directories that are looked at for a manifest. What is behind them counts as one omitted file.
pub(super) const ENTRIES_MAX: usize = 10_000;

/// The file in which a command saves `{write_buffer, checkpoint}`.
pub const SUPPLEMENT_FILE: &str = ".holdpoint-supplement.json";

/// The sandboxes of a worker.
#[derive(Debug, Clone)]
pub struct Sandboxes {
    root: PathBuf,
    node: NodeName,
}

/// One sandbox. It may not exist yet.
#[derive(Debug, Clone)]
pub struct SandboxDir {
    path: PathBuf,
    node: NodeName,
}

impl Sandboxes {
    #[must_use]
    pub const fn new(root: PathBuf, node: NodeName) -> Self {
        Self { root, node }
    }

    #[must_use]
    pub fn of(&self, step: &StepDispatch) -> SandboxDir {
        let run = self.of_run(&step.workspace, step.run);
        SandboxDir {
            path: run.join(file_name(&step.step)),
            node: self.node.clone(),
        }
    }

    fn of_run(&self, workspace: &Workspace, run: RunId) -> PathBuf {
        self.root.join(workspace.as_str()).join(run.to_string())
    }

    /// The runs that have sandboxes, in order after the given one, at most `max`.
    #[must_use]
    pub fn runs(&self, after: Option<&(Workspace, RunId)>, max: usize) -> Vec<(Workspace, RunId)> {
        let mut runs = Vec::new();
        for workspace in names(&self.root) {
            let Ok(id) = workspace.parse::<Workspace>() else {
                continue;
            };
            let of_workspace = names(&self.root.join(&workspace)).into_iter();
            let of_workspace =
                of_workspace.filter_map(|name| Some((id.clone(), name.parse().ok()?)));
            runs.extend(of_workspace);
        }
        runs.retain(|run| after.is_none_or(|after| run > after));
        runs.sort();
        runs.truncate(max);
        runs
    }

    /// Removes the sandboxes of a run, or does nothing if there are none.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn remove(&self, workspace: &Workspace, run: RunId) -> io::Result<()> {
        match fs::remove_dir_all(self.of_run(workspace, run)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Removes the sandboxes of a run in whichever workspace it is. Returns whether there were any.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn remove_run(&self, run: RunId) -> io::Result<bool> {
        let mut has_removed = false;
        for name in names(&self.root) {
            let Ok(workspace) = name.parse::<Workspace>() else {
                continue;
            };
            // A link counts, also one to nothing.
            if fs::symlink_metadata(self.of_run(&workspace, run)).is_ok() {
                self.remove(&workspace, run)?;
                has_removed = true;
            }
        }
        Ok(has_removed)
    }
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.collect()
}

/// A step id as the name of a directory. Other characters than letters, digits, `-` and `_` are written as numbers.
fn file_name(step: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let written = |c: char| {
        if plain(c) {
            c.to_string()
        } else {
            format!("+{:x}+", u32::from(c))
        }
    };
    step.chars().map(written).collect()
}

impl SandboxDir {
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the directory, which only the user of the worker can read.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn create(&self) -> io::Result<&Path> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&self.path)?;
        Ok(&self.path)
    }

    #[must_use]
    pub fn supplement_file(&self) -> PathBuf {
        self.path.join(SUPPLEMENT_FILE)
    }

    /// Writes what an earlier call saved, unless the file is as that call left it, or newer.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn restore(&self, continued: &ContinuedStep) -> io::Result<()> {
        let ContinuedStep {
            write_buffer,
            checkpoint,
            sandbox,
            saved_at,
        } = continued;
        let is_unchanged = sandbox
            .as_ref()
            .is_some_and(|found| found.state == SandboxState::Unchanged);
        let has_nothing = checkpoint.is_null() && write_buffer.is_null();
        let file = self.supplement_file();
        let written_at = fs::symlink_metadata(&file).and_then(|data| data.modified());
        let is_newer = written_at.is_ok_and(|at| {
            saved_at.is_none_or(|saved_at| chrono::DateTime::<chrono::Utc>::from(at) > saved_at)
        });
        if has_nothing || is_unchanged || is_newer {
            return Ok(());
        }
        let saved = json!({ "checkpoint": checkpoint, "write_buffer": write_buffer });
        // A renamed file replaces a link, which the tool of an earlier call may have made.
        let fresh = self.path.join(format!("{SUPPLEMENT_FILE}.new"));
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut options = File::options();
        options.write(true).create_new(true).mode(0o600);
        options
            .open(&fresh)?
            .write_all(saved.to_string().as_bytes())?;
        fs::rename(&fresh, &file)
    }

    /// What the tool has saved in it, and its manifest; none: it does not exist.
    pub(super) fn read(&self) -> Option<Supplement> {
        let sandbox = self.manifest()?;
        let mut supplement = saved_values(&self.supplement_file()).unwrap_or_default();
        supplement.sandbox = Some(sandbox);
        Some(supplement)
    }

    /// Its files with their hashes; none: it does not exist. Links are not followed.
    #[must_use]
    pub fn manifest(&self) -> Option<Sandbox> {
        if !fs::symlink_metadata(&self.path).ok()?.is_dir() {
            return None;
        }
        let mut walk = Walk {
            root: &self.path,
            files: Vec::new(),
            omitted: 0,
            bytes_left: SNAPSHOT_MAX,
            entries_left: ENTRIES_MAX,
        };
        walk.visit(&self.path, 0);
        let Walk {
            mut files, omitted, ..
        } = walk;
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Some(Sandbox {
            node: self.node.clone(),
            path: self.path.display().to_string(),
            files,
            omitted,
            found: None,
        })
    }
}

struct Walk<'s> {
    root: &'s Path,
    files: Vec<SandboxFile>,
    omitted: u64,
    /// Bytes that may still be hashed.
    bytes_left: u64,
    /// Entries that may still be looked at.
    entries_left: usize,
}

impl Walk<'_> {
    fn visit(&mut self, path: &Path, depth: usize) {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            let Some(left) = self.entries_left.checked_sub(1) else {
                self.omitted += 1;
                return;
            };
            self.entries_left = left;
            let path = entry.path();
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() && depth < DEPTH_MAX {
                self.visit(&path, depth + 1);
            } else if kind.is_file() {
                match self.file(&path) {
                    Some(file) => self.files.push(file),
                    None => self.omitted += 1,
                }
            } else {
                self.omitted += 1;
            }
        }
    }

    fn file(&mut self, path: &Path) -> Option<SandboxFile> {
        if self.files.len() >= FILES_MAX {
            return None;
        }
        let (file, size) = open(path).ok()?;
        self.bytes_left = self.bytes_left.checked_sub(size)?;
        let (sha256, size) = hash(file, size).ok()?;
        Some(SandboxFile {
            path: path.strip_prefix(self.root).ok()?.to_str()?.to_owned(),
            size,
            sha256,
        })
    }
}

/// A regular file, and its length. A tool may replace a file at any time, so the open file is checked: a link is not
/// followed, and a pipe does not block.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let data = file.metadata()?;
    if data.is_file() {
        Ok((file, data.len()))
    } else {
        Err(io::ErrorKind::InvalidInput.into())
    }
}

/// Hash and length of a file, at most `max` bytes of it: a tool may still write.
fn hash(file: File, max: u64) -> io::Result<(String, u64)> {
    let (mut digest, mut file) = (Sha256::new(), file.take(max));
    let size = io::copy(&mut file, &mut digest)?;
    Ok((format!("{:x}", digest.finalize()), size))
}

/// The values that a command has saved in its file; none: the file is missing, or it has other content.
fn saved_values(path: &Path) -> Option<Supplement> {
    let (file, size) = open(path).ok()?;
    if size > SNAPSHOT_BLOB_MAX {
        // Not read into memory. The executor refuses it, and says so.
        return Some(Supplement {
            checkpoint: json!(ValueReference::unread(size)),
            ..Supplement::default()
        });
    }
    let mut text = String::new();
    file.take(SNAPSHOT_BLOB_MAX)
        .read_to_string(&mut text)
        .ok()?;
    let mut saved: Value = match serde_json::from_str(&text) {
        Ok(saved) => saved,
        Err(error) => {
            tracing::warn!(%error, "saved values of a command are not JSON; the snapshot lacks them");
            return None;
        }
    };
    let mut take = |name| saved.get_mut(name).map(Value::take).unwrap_or_default();
    Some(Supplement {
        write_buffer: take("write_buffer"),
        checkpoint: take("checkpoint"),
        sandbox: None,
    })
}
