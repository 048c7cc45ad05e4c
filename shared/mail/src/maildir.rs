//! Mails as files, for an installation without a mail server.
//!
//! Owns the folder: what is in `new/` is whole and on disk, and there is one file for one
//! idempotency key. It must never be called on a thread that runs asynchronous work.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
    time::SystemTime,
};

use chrono::{DateTime, Utc};
use mail_parser::{Message, MessageParser};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::{KIND, PERSON, WORKSPACE, escape};

/// How many mails [`list`] reads: the newest ones.
const MAX_LISTED: usize = 1000;

/// Longest readable file name, in bytes; a longer key is hashed.
const MAX_NAME: usize = 180;

/// Tells apart two deliveries of one key at the same time.
static DELIVERY: AtomicU64 = AtomicU64::new(0);

/// A mail that was kept as a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mail {
    /// File name in the folder; the same for every delivery of one step.
    pub file: String,
    /// Recipients' addresses, separated by commas.
    pub to: String,
    /// Subject, decoded.
    pub subject: String,
    /// When it was sent, by the clock of the installation, to the second.
    pub date: Option<DateTime<Utc>>,
    /// With its angle brackets.
    pub message_id: String,
    /// The plain text, decoded, lines ending in `\n`.
    pub body: String,
    /// Why it was written: `step` or `notification`.
    pub kind: String,
    /// Whose workspace it is of; none: it does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Whose notification it is, by name: it may hold a link that acts as that person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
}

/// Stores a mail; one with the same key is replaced. It is on disk when this returns.
pub(crate) fn deliver(dir: &Path, key: &str, mail: &[u8]) -> io::Result<()> {
    for sub in ["tmp", "new", "cur"] {
        fs::create_dir_all(dir.join(sub))?;
    }
    let name = file_name(key);
    let delivery = DELIVERY.fetch_add(1, Ordering::Relaxed);
    let tmp = dir
        .join("tmp")
        .join(format!("{name}.{}.{delivery}", process::id()));
    let written = write_synced(&tmp, mail).and_then(|()| {
        let target = seen(dir, &name)?.unwrap_or_else(|| dir.join("new").join(&name));
        fs::rename(&tmp, &target)?;
        // The new name is safe only when its folder is on disk too.
        match target.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    });
    if written.is_err() {
        // Best effort: a file left in tmp/ is never listed.
        fs::remove_file(&tmp).ok();
    }
    written
}

/// The newest mails of a Maildir, at most 1,000, oldest first. A missing folder has none. Reads
/// files, so call it on a thread that may block.
///
/// # Errors
/// When the folder cannot be read.
pub fn list(dir: &Path) -> io::Result<Vec<Mail>> {
    let mut files: Vec<(SystemTime, PathBuf)> = Vec::new();
    for sub in ["new", "cur"] {
        for path in files_in(&dir.join(sub))? {
            // A file can be moved by a mail reader between listing and reading.
            if let Ok(stored_at) = fs::metadata(&path).and_then(|found| found.modified()) {
                files.push((stored_at, path));
            }
        }
    }
    files.sort();
    let older = files.len().saturating_sub(MAX_LISTED);
    let mut mails: Vec<Mail> = files
        .iter()
        .skip(older)
        .filter_map(|(_, path)| read(path))
        .collect();
    mails.sort_by(|a, b| (a.date, &a.file).cmp(&(b.date, &b.file)));
    Ok(mails)
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Where a mail reader put this mail, having added flags to its name (`name:2,S`).
fn seen(dir: &Path, name: &str) -> io::Result<Option<PathBuf>> {
    let files = files_in(&dir.join("cur"))?;
    Ok(files.into_iter().find(|path| {
        let found = name_of(path);
        found.split(':').next() == Some(name)
    }))
}

fn files_in(dir: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Ok(entries) => entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .map(OsStr::to_string_lossy)
        .unwrap_or_default()
        .into_owned()
}

fn file_name(key: &str) -> String {
    let readable = escape(key, "-_");
    if readable.len() <= MAX_NAME {
        return format!("{readable}.eml");
    }
    let hash = Sha256::digest(key.as_bytes());
    let hex: Vec<String> = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}.eml", hex.concat())
}

fn read(path: &Path) -> Option<Mail> {
    let bytes = fs::read(path).ok()?;
    let message = MessageParser::new().parse(&bytes)?;
    Some(Mail {
        file: name_of(path),
        to: recipients(&message),
        subject: message.subject().unwrap_or_default().to_owned(),
        date: message
            .date()
            .and_then(|date| DateTime::from_timestamp(date.to_timestamp(), 0)),
        message_id: message
            .message_id()
            .map(|id| format!("<{id}>"))
            .unwrap_or_default(),
        body: message
            .body_text(0)
            .map(|text| text.replace("\r\n", "\n"))
            .unwrap_or_default(),
        kind: header(&message, KIND).unwrap_or_else(|| "step".to_owned()),
        workspace: header(&message, WORKSPACE),
        person: header(&message, PERSON),
    })
}

fn header(message: &Message<'_>, name: &'static str) -> Option<String> {
    let text = message.header_raw(name)?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn recipients(message: &Message<'_>) -> String {
    let addresses: Vec<&str> = message
        .to()
        .into_iter()
        .flat_map(|to| to.iter())
        .filter_map(|one| one.address())
        .collect();
    addresses.join(", ")
}
