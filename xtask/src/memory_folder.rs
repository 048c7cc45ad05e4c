//! A folder in memory for the files of tests.
//!
//! Hundreds of databases sync each commit. A disk then stalls for many seconds, and timeouts expire. No test cuts the
//! power, so the files need not survive it.

use std::fs;

use tempfile::TempDir;

use crate::shell::{command, output};

const MOUNT: &str = "/dev/shm";

/// Free room that the file system must have, in KiB.
const ROOM_KIB: u64 = 4 * 1_024 * 1_024;

/// A new folder, if the machine has a file system in memory with room for programs and files of tests.
pub(crate) fn create() -> Option<TempDir> {
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    if !is_in_memory(&mounts) {
        return None;
    }
    let room = output(&mut command("df", &["-k", "--output=avail", MOUNT])).ok()?;
    let has_room = room_of(&room)? >= ROOM_KIB;
    let make = || {
        tempfile::Builder::new()
            .prefix("holdpoint-tests-")
            .tempdir_in(MOUNT)
    };
    has_room.then(make)?.ok()
}

/// Whether [`MOUNT`] is in memory and may contain programs. A later mount hides an earlier one.
fn is_in_memory(mounts: &str) -> bool {
    let fields = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let mut of_mount = fields.filter(|fields| fields.get(1) == Some(&MOUNT));
    of_mount.next_back().is_some_and(|fields| {
        let options = fields.get(3).copied().unwrap_or_default();
        fields.get(2) == Some(&"tmpfs") && options.split(',').all(|one| one != "noexec")
    })
}

/// The number below the heading of `df`.
fn room_of(text: &str) -> Option<u64> {
    text.lines().nth(1)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_memory_that_may_contain_programs_is_used() {
        let memory = "tmpfs /dev/shm tmpfs rw,relatime,size=24683656k 0 0\n";
        assert!(is_in_memory(memory));
        assert!(!is_in_memory("tmpfs /dev/shm tmpfs rw,noexec 0 0\n"));
        assert!(!is_in_memory(&format!(
            "{memory}/dev/vda /dev/shm ext4 rw 0 0\n"
        )));
        assert!(!is_in_memory("tmpfs /run tmpfs rw 0 0\n"));
        assert_eq!(room_of("   Avail\n24683656\n"), Some(24_683_656));
        assert_eq!(room_of("df: no such file\n"), None);
    }
}
