//! What a process leaves on this machine belongs to its user alone: folders, tables, keys, mails. And how
//! many files it may have open.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Context, bail};
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit, umask};

/// Rights of others than the owner.
const OTHERS: u32 = 0o077;
/// The right of everybody to write.
const EVERYBODY_WRITES: u32 = 0o002;
/// Rights with which a file of secrets is refused; a service's group may read it.
const EXPOSED: u32 = 0o027;
/// On a folder that several users share, such as `/tmp`.
const STICKY: u32 = 0o1000;
/// Open files that a process asks for: a connection takes one, and 1,024 are soon gone.
const FILES_MAX: u64 = 65_536;
/// Files that show that a folder is one of Holdpoint; `new` is where a folder of mails has them.
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
/// What a new file system has in its topmost folder.
const LOST_AND_FOUND: &str = "lost+found";

/// From here on files and folders are made for this user alone.
pub(crate) fn keep_from_others() {
    umask(Mode::from_bits_truncate(OTHERS));
}

/// Raises the number of files that may be open to what the system grants.
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
        tracing::warn!(%error, wanted, "the limit of open files stays as it is");
    }
}

/// Makes a folder for tables, keys and mails, or closes one that is there to all but its owner.
///
/// # Errors
/// When it cannot be made, or when it is not for Holdpoint alone: others may write to it, or it holds other
/// things that others may read.
pub(crate) fn make_folder(folder: &Path) -> anyhow::Result<()> {
    let about = match fs::metadata(folder) {
        Ok(about) => about,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut make = fs::DirBuilder::new();
            return make
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .with_context(|| format!("cannot make the folder {}", folder.display()));
        }
        Err(error) => {
            return Err(error).with_context(|| format!("cannot use {}", folder.display()));
        }
    };
    close(folder, &about).with_context(|| format!("cannot use {}", folder.display()))
}

fn close(folder: &Path, about: &Metadata) -> anyhow::Result<()> {
    let mode = about.mode() & 0o7777;
    if mode & OTHERS == 0 {
        return Ok(());
    }
    let is_ours = about.uid() == geteuid().as_raw();
    if is_ours && mode & STICKY == 0 && is_for_us_alone(folder)? {
        let closed = fs::Permissions::from_mode(mode & !OTHERS);
        fs::set_permissions(folder, closed)?;
        tracing::info!(folder = %folder.display(), "closed the folder to other users of this machine");
        return Ok(());
    }
    if mode & EVERYBODY_WRITES != 0 {
        bail!(
            "everybody on this machine may write to it (mode {mode:o}); give a folder of its own"
        );
    }
    if is_ours {
        bail!(
            "it holds other things, and other users may read it (mode {mode:o}); give a folder of its own, \
             or close it: chmod 700 {}",
            folder.display()
        );
    }
    // A volume that belongs to another user, as containers have it: what is in it is closed.
    tracing::warn!(folder = %folder.display(), "other users may list this folder, which is not ours to close");
    close_files(folder)?;
    Ok(())
}

/// Whether the folder is empty, or one of an earlier start.
fn is_for_us_alone(folder: &Path) -> io::Result<bool> {
    let mut is_empty = true;
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if MARKS.iter().any(|mark| name == *mark) {
            return Ok(true);
        }
        is_empty &= name == LOST_AND_FOUND;
    }
    Ok(is_empty)
}

/// Closes the files in a folder that are ours.
fn close_files(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
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

/// A file of secrets that not everybody can read or change.
///
/// # Errors
/// When it cannot be read, or others have those rights.
pub(crate) fn read_secret(path: &Path) -> anyhow::Result<String> {
    let read = || -> anyhow::Result<String> {
        let mut file = File::open(path)?;
        let mode = file.metadata()?.mode() & 0o7777;
        if mode & EXPOSED != 0 {
            bail!(
                "other users may read or change it (mode {mode:o}); make a new one, or run chmod 600 {} if nobody has read it",
                path.display()
            );
        }
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok(text)
    };
    read().with_context(|| format!("cannot use the secrets in {}", path.display()))
}

/// Whether only the user of this process can read and change an open file.
pub(crate) fn is_own(about: &Metadata) -> bool {
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

    /// Mend A-M7: a folder that was there before is closed, too.
    #[test]
    fn a_folder_is_closed_or_refused() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("data");
        make_folder(&folder).unwrap();
        assert_eq!(mode(&folder), 0o700);
        for open in [0o755, 0o775, 0o777, 0o2775] {
            set(&folder, open);
            make_folder(&folder).unwrap();
            assert_eq!(mode(&folder) & 0o777, 0o700, "{open:o}");
        }
        fs::create_dir(folder.join(LOST_AND_FOUND)).unwrap();
        set(&folder, 0o755);
        make_folder(&folder).unwrap();

        // A project's folder, or a shared one, is not ours to change.
        fs::write(folder.join("README.md"), "").unwrap();
        set(&folder, 0o755);
        let told = format!("{:#}", make_folder(&folder).unwrap_err());
        assert!(
            told.contains("holds other things") && told.contains("chmod 700"),
            "{told}"
        );
        fs::write(folder.join("up.lock"), "").unwrap();
        make_folder(&folder).unwrap();
        assert_eq!(mode(&folder), 0o700);
        set(&folder, 0o1777);
        let told = format!("{:#}", make_folder(&folder).unwrap_err());
        assert!(
            told.contains("everybody on this machine may write"),
            "{told}"
        );
        assert_eq!(mode(&folder), 0o1777);
    }

    /// Mend A-M7: a volume of another user stays as it is, and our files in it are closed.
    #[test]
    fn files_in_a_folder_of_another_user_are_closed() {
        let home = tempfile::tempdir().unwrap();
        let (table, link) = (home.path().join("executor.db"), home.path().join("link"));
        fs::write(&table, "").unwrap();
        set(&table, 0o644);
        std::os::unix::fs::symlink("/etc/hostname", &link).unwrap();
        close_files(home.path()).unwrap();
        assert_eq!(mode(&table), 0o600);
    }

    /// Mend A-M7: secrets that others can read or change are refused.
    #[test]
    fn secrets_that_others_can_read_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("secrets.json");
        fs::write(&path, "{}").unwrap();
        for (mode, is_taken) in [
            (0o600, true),
            (0o400, true),
            (0o640, true),
            (0o644, false),
            (0o660, false),
        ] {
            set(&path, mode);
            assert_eq!(read_secret(&path).is_ok(), is_taken, "{mode:o}");
        }
        let told = format!("{:#}", read_secret(&path).unwrap_err());
        assert!(told.contains("chmod 600"), "{told}");
    }
}
