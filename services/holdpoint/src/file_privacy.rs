//! Keeps tables, keys and mails private to the user of this process, and raises the limit of open files.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::Path;

use anyhow::{Context, bail};
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit, umask};

const OTHERS: u32 = 0o077;
const WORLD_WRITABLE: u32 = 0o002;
/// Permissions with which a secrets file is refused; the group of a service may read it.
const EXPOSED: u32 = 0o027;
/// Marks a directory that several users share, such as `/tmp`.
const STICKY: u32 = 0o1000;
/// Open files that a process asks for. Each connection needs one, and the usual limit is 1,024.
const FILES_MAX: u64 = 65_536;
/// Names that occur only in a directory of Holdpoint; `new` is in a maildir.
const MARKS: [&str; 9] = [
    "new",
    "up.lock",
    "nats.lock",
    "mails",
    "executor.lock",
    "scheduler.lock",
    "handoff.lock",
    "notification.lock",
    "gateway.lock",
];
/// Directory at the root of a new file system.
const LOST_AND_FOUND: &str = "lost+found";

pub(crate) fn set_private_umask() {
    umask(Mode::from_bits_truncate(OTHERS));
}

/// Raises the limit of open files as far as the system allows.
pub(crate) fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(FILES_MAX, |most| most.min(FILES_MAX));
    if limit.current.is_none_or(|current| current >= wanted) {
        return;
    }
    let raised = Rlimit {
        current: Some(wanted),
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, wanted, "cannot raise the limit of open files; many connections may fail");
    }
}

/// Creates a private directory for tables, keys and mails, or makes an existing one private.
///
/// # Errors
/// When it cannot be created, or when it is not only for Holdpoint: other users may write to it, or it
/// contains other files that they may read.
pub(crate) fn create_private_dir(directory: &Path) -> anyhow::Result<()> {
    let about = match fs::metadata(directory) {
        Ok(about) => about,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut builder = fs::DirBuilder::new();
            return builder
                .recursive(true)
                .mode(0o700)
                .create(directory)
                .with_context(|| format!("cannot create the directory {}", directory.display()));
        }
        Err(error) => {
            return Err(error).with_context(|| format!("cannot use {}", directory.display()));
        }
    };
    restrict(directory, &about).with_context(|| format!("cannot use {}", directory.display()))
}

fn restrict(directory: &Path, about: &Metadata) -> anyhow::Result<()> {
    let mode = about.mode() & 0o7777;
    if mode & OTHERS == 0 {
        return Ok(());
    }
    let is_ours = about.uid() == geteuid().as_raw();
    if is_ours && mode & STICKY == 0 && is_for_holdpoint(directory)? {
        let private = fs::Permissions::from_mode(mode & !OTHERS);
        fs::set_permissions(directory, private)?;
        tracing::info!(directory = %directory.display(), "directory is now private to this user");
        return Ok(());
    }
    if mode & WORLD_WRITABLE != 0 {
        bail!("all users may write to it (mode {mode:o}); give a separate directory");
    }
    if is_ours {
        bail!(
            "it contains other files, and other users may read it (mode {mode:o}); give a separate directory, \
             or make it private: chmod 700 {}",
            directory.display()
        );
    }
    // A volume of a container may belong to another user. Only our files in it can be made private.
    tracing::warn!(directory = %directory.display(), "other users may list this directory, which belongs to another user");
    restrict_files(directory)?;
    Ok(())
}

/// Whether the directory is empty or was used by Holdpoint before.
fn is_for_holdpoint(directory: &Path) -> io::Result<bool> {
    let mut is_empty = true;
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        if MARKS.iter().any(|mark| name == *mark) {
            return Ok(true);
        }
        is_empty &= name == LOST_AND_FOUND;
    }
    Ok(is_empty)
}

/// Makes the files of this user in a directory private.
fn restrict_files(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let about = fs::symlink_metadata(&path)?;
        let mode = about.mode() & 0o7777;
        let is_ours = about.uid() == geteuid().as_raw() && !about.is_symlink();
        if is_ours && mode & OTHERS != 0 {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode & !OTHERS))?;
        }
    }
    Ok(())
}

/// Reads a secrets file.
///
/// # Errors
/// When it cannot be read, or when other users can read or change it.
pub(crate) fn read_secret(path: &Path) -> anyhow::Result<String> {
    let read = || -> anyhow::Result<String> {
        let mut file = File::open(path)?;
        let mode = file.metadata()?.mode() & 0o7777;
        if mode & EXPOSED != 0 {
            bail!(
                "other users may read or change it (mode {mode:o}); create a new one, or run chmod 600 {} if no other \
                 user has read it",
                path.display()
            );
        }
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok(text)
    };
    read().with_context(|| format!("cannot use the secrets file {}", path.display()))
}

/// Creates a file that only this user can read and change.
///
/// # Errors
/// When the file exists or cannot be created.
pub(crate) fn create_private_file(path: &Path) -> anyhow::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true).mode(0o600);
    let file = options.open(path);
    file.with_context(|| format!("cannot write {}", path.display()))
}

/// Whether only the user of this process can read and change an open file.
pub(crate) fn is_private(about: &Metadata) -> bool {
    about.is_file() && about.uid() == geteuid().as_raw() && about.mode() & OTHERS == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    /// Mend A-M7: an existing directory is made private too.
    #[test]
    fn a_directory_is_made_private_or_refused() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("data");
        create_private_dir(&directory).unwrap();
        assert_eq!(mode(&directory), 0o700);
        for open in [0o755, 0o775, 0o777, 0o2775] {
            set(&directory, open);
            create_private_dir(&directory).unwrap();
            assert_eq!(mode(&directory) & 0o777, 0o700, "{open:o}");
        }
        fs::create_dir(directory.join(LOST_AND_FOUND)).unwrap();
        set(&directory, 0o755);
        create_private_dir(&directory).unwrap();

        // The directory of a project, or a shared one, must not be changed.
        fs::write(directory.join("README.md"), "").unwrap();
        set(&directory, 0o755);
        let error = format!("{:#}", create_private_dir(&directory).unwrap_err());
        assert!(
            error.contains("contains other files") && error.contains("chmod 700"),
            "{error}"
        );
        fs::write(directory.join("up.lock"), "").unwrap();
        create_private_dir(&directory).unwrap();
        assert_eq!(mode(&directory), 0o700);
        set(&directory, 0o1777);
        let error = format!("{:#}", create_private_dir(&directory).unwrap_err());
        assert!(error.contains("all users may write"), "{error}");
        assert_eq!(mode(&directory), 0o1777);
    }

    /// Mend A-M7: a volume of another user is not changed, and our files in it are made private.
    #[test]
    fn files_in_a_directory_of_another_user_are_made_private() {
        let home = tempfile::tempdir().unwrap();
        let (table, link) = (home.path().join("executor.db"), home.path().join("link"));
        fs::write(&table, "").unwrap();
        set(&table, 0o644);
        std::os::unix::fs::symlink("/etc/hostname", &link).unwrap();
        restrict_files(home.path()).unwrap();
        assert_eq!(mode(&table), 0o600);
    }

    /// Mend A-M7: secrets that others can read or change are refused.
    #[test]
    fn secrets_that_others_can_read_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("secrets.json");
        fs::write(&path, "{}").unwrap();
        for (mode, is_accepted) in [
            (0o600, true),
            (0o400, true),
            (0o640, true),
            (0o644, false),
            (0o660, false),
        ] {
            set(&path, mode);
            assert_eq!(read_secret(&path).is_ok(), is_accepted, "{mode:o}");
        }
        let error = format!("{:#}", read_secret(&path).unwrap_err());
        assert!(error.contains("chmod 600"), "{error}");
    }
}
