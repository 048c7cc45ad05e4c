//! Stores mails as files, for an installation without a mail server.
//!
//! Owns the folder. A file in `new/` is complete and on disk, and there is one file per idempotency key. It
//! must never be called on a thread that runs asynchronous work.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
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

/// Most mails of a list, the newest ones.
const MAX_LISTED: usize = 1000;

/// Text of one page, in bytes. One mail may exceed it.
const PAGE_BYTES_MAX: usize = 512 * 1024;

/// Bytes that are read at a time until the end of the headers.
const HEAD_STEP: usize = 4 * 1024;

/// Longest readable file name, in bytes. A longer key is hashed.
const MAX_NAME: usize = 180;

/// Distinguishes two simultaneous deliveries of one key.
static DELIVERY: AtomicU64 = AtomicU64::new(0);

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mail {
    /// File name in the folder; the same for every delivery of one step.
    pub file: String,
    /// Recipients' addresses, separated by commas.
    pub to: String,
    pub subject: String,
    /// The time of sending by the installation's clock, in seconds.
    pub date: Option<DateTime<Utc>>,
    /// With angle brackets.
    pub message_id: String,
    /// The plain text, decoded, lines ending in `\n`.
    pub body: String,
    /// `step` or `notification`.
    pub kind: String,
    /// `None`: the mail does not contain it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The user who gets the notification. The mail may contain a link that acts as this user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
}

/// A stored mail without its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailHead {
    path: PathBuf,
    date: Option<DateTime<Utc>>,
    /// As in [`Mail`].
    pub workspace: Option<String>,
    /// As in [`Mail`].
    pub person: Option<String>,
}

/// Stores a mail and replaces one with the same key. It is on disk when this returns.
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
        // The new name is durable only when its folder is on disk, too.
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

/// The newest mails of a Maildir, at most 1,000, oldest first. A missing folder has none. It blocks on files.
///
/// # Errors
/// The folder cannot be read.
pub fn list(dir: &Path) -> io::Result<Vec<Mail>> {
    let heads = heads(dir)?;
    Ok(heads.iter().filter_map(|head| read(&head.path)).collect())
}

/// A page of the `wanted` mails: at most `limit` after the first `skip`, with about 512 KiB of text. Only the
/// headers of other mails are read. Also returns where the next page begins.
///
/// # Errors
/// The folder cannot be read.
pub fn page(
    dir: &Path,
    wanted: impl Fn(&MailHead) -> bool,
    (skip, limit): (usize, usize),
) -> io::Result<(Vec<Mail>, Option<usize>)> {
    let mut heads = heads(dir)?;
    heads.retain(wanted);
    Ok(read_page(&heads, (skip, limit), |head| read(&head.path)))
}

/// Deletes the mails that contain any of these texts, and returns the first error. It blocks on files.
pub(crate) fn erase(dir: &Path, texts: &[String]) -> io::Result<()> {
    let mut first = Ok(());
    for sub in ["tmp", "new", "cur"] {
        for path in files_in(&dir.join(sub))? {
            let erased = erase_file(&path, texts);
            // A mail reader can move a file after it was listed, and a sender renames its own.
            let is_moved = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
            if erased.as_ref().is_err_and(|error| !is_moved(error)) {
                first = first.and(erased);
            }
        }
    }
    first
}

fn erase_file(path: &Path, texts: &[String]) -> io::Result<()> {
    let mail = fs::read(path)?;
    if texts.iter().any(|text| contains(&mail, text)) {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// Whether a mail has a text in its headers, or in a decoded part.
fn contains(mail: &[u8], text: &str) -> bool {
    if mail
        .windows(text.len())
        .any(|window| window == text.as_bytes())
    {
        return true;
    }
    let Some(message) = MessageParser::new().parse(mail) else {
        return false;
    };
    let mut parts = message.parts.iter().filter_map(|part| part.text_contents());
    parts.any(|part| part.contains(text))
}

/// Reads one page; also returns where the next one begins.
fn read_page(
    heads: &[MailHead],
    (skip, limit): (usize, usize),
    mut read: impl FnMut(&MailHead) -> Option<Mail>,
) -> (Vec<Mail>, Option<usize>) {
    let (mut mails, mut bytes, mut next) = (Vec::new(), 0, skip);
    for head in heads.iter().skip(skip).take(limit) {
        if bytes >= PAGE_BYTES_MAX {
            break;
        }
        next += 1;
        // A mail that was removed since then still counts.
        if let Some(mail) = read(head) {
            bytes += mail.body.len();
            mails.push(mail);
        }
    }
    (mails, (next < heads.len()).then_some(next))
}

/// The headers of the newest mails, one file after the other, in the order of [`list`].
fn heads(dir: &Path) -> io::Result<Vec<MailHead>> {
    let mut files: Vec<(SystemTime, PathBuf)> = Vec::new();
    for sub in ["new", "cur"] {
        for path in files_in(&dir.join(sub))? {
            // A mail reader can move a file between listing and reading.
            if let Ok(stored_at) = fs::metadata(&path).and_then(|found| found.modified()) {
                files.push((stored_at, path));
            }
        }
    }
    files.sort();
    let older = files.len().saturating_sub(MAX_LISTED);
    let newest = files.into_iter().skip(older);
    let mut heads: Vec<_> = newest
        .filter_map(|(_, path)| MailHead::read(path))
        .collect();
    heads.sort_by_cached_key(|head| (head.date, name_of(&head.path)));
    Ok(heads)
}

impl MailHead {
    fn read(path: PathBuf) -> Option<Self> {
        let bytes = head(File::open(&path).ok()?).ok()?;
        let message = MessageParser::new().parse_headers(&bytes)?;
        Some(Self {
            date: date(&message),
            workspace: header(&message, WORKSPACE),
            person: header(&message, PERSON),
            path,
        })
    }
}

/// Reads the headers of a mail and not much more.
fn head(mut mail: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(HEAD_STEP);
    loop {
        let before = bytes.len();
        let step = u64::try_from(HEAD_STEP).unwrap_or(u64::MAX);
        mail.by_ref().take(step).read_to_end(&mut bytes)?;
        // The end may be split across two reads.
        let new = bytes.get(before.saturating_sub(3)..).unwrap_or_default();
        let ends = |end: &[u8]| new.windows(end.len()).any(|window| window == end);
        if bytes.len() == before || ends(b"\r\n\r\n") || ends(b"\n\n") {
            return Ok(bytes);
        }
    }
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// The path of a mail that a mail reader has moved, with flags in its name (`name:2,S`).
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
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn file_name(key: &str) -> String {
    let readable = escape(key, "-_");
    if readable.len() <= MAX_NAME {
        return format!("{readable}.eml");
    }
    format!("{:x}.eml", Sha256::digest(key.as_bytes()))
}

fn read(path: &Path) -> Option<Mail> {
    let bytes = fs::read(path).ok()?;
    let message = MessageParser::new().parse(&bytes)?;
    Some(Mail {
        file: name_of(path),
        to: recipients(&message),
        subject: message.subject().unwrap_or_default().to_owned(),
        date: date(&message),
        message_id: message
            .message_id()
            .map(|id| format!("<{id}>"))
            .unwrap_or_default(),
        body: message
            .body_text(0)
            .unwrap_or_default()
            .replace("\r\n", "\n"),
        kind: header(&message, KIND).unwrap_or_else(|| "step".to_owned()),
        workspace: header(&message, WORKSPACE),
        person: header(&message, PERSON),
    })
}

fn date(message: &Message<'_>) -> Option<DateTime<Utc>> {
    let date = message.date()?;
    DateTime::from_timestamp(date.to_timestamp(), 0)
}

fn header(message: &Message<'_>, name: &'static str) -> Option<String> {
    let text = message.header_raw(name)?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn recipients(message: &Message<'_>) -> String {
    let recipients = message.to().into_iter().flat_map(|to| to.iter());
    let addresses: Vec<_> = recipients.filter_map(|to| to.address()).collect();
    addresses.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(dir: &Path, number: usize, person: Option<&str>, body: &str) {
        let person = person.map_or_else(String::new, |name| format!("{PERSON}: {name}\r\n"));
        let mail = format!(
            "Date: Fri, 02 Jan 2026 10:00:{number:02} +0000\r\nSubject: mail {number}\r\n\
             To: a@b.example\r\n{WORKSPACE}: acme\r\n{person}\r\n{body}\r\n"
        );
        deliver(dir, &format!("key-{number}"), mail.as_bytes()).unwrap();
    }

    #[test]
    fn mails_with_a_text_are_deleted() {
        let dir = tempfile::tempdir().unwrap();
        stored(dir.path(), 0, None, "about run_17");
        stored(dir.path(), 1, None, "about run_18");
        let encoded =
            "Subject: x\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nrun=\r\n_17";
        deliver(dir.path(), "encoded", encoded.as_bytes()).unwrap();
        erase(dir.path(), &["run_17".to_owned()]).unwrap();
        let left = files_in(&dir.path().join("new")).unwrap();
        let left: Vec<_> = left.iter().map(|path| name_of(path)).collect();
        assert_eq!(left, ["key-1.eml"]);
        erase(&dir.path().join("missing"), &["run_17".to_owned()]).unwrap();
    }

    /// Mend A-M10: a page reads its mails, and only the headers of all others.
    #[test]
    fn a_page_reads_no_other_mails() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..5 {
            stored(dir.path(), number, (number == 1).then_some("ada"), "text");
        }
        let heads = heads(dir.path()).unwrap();
        let read_of = |skip, limit| {
            let mut count = 0;
            let (mails, next) = read_page(&heads, (skip, limit), |head| {
                count += 1;
                read(&head.path)
            });
            let subjects: Vec<_> = mails.into_iter().map(|mail| mail.subject).collect();
            (subjects, next, count)
        };
        assert_eq!(read_of(0, 1), (vec!["mail 0".to_owned()], Some(1), 1));
        assert_eq!(read_of(4, 9), (vec!["mail 4".to_owned()], None, 1));
        assert_eq!(read_of(9, 9), (vec![], None, 0));

        let is_unaddressed = |head: &MailHead| head.person.is_none();
        let (mails, next) = page(dir.path(), is_unaddressed, (0, 2)).unwrap();
        let files: Vec<_> = mails.iter().map(|mail| mail.subject.as_str()).collect();
        assert_eq!((files, next), (vec!["mail 0", "mail 2"], Some(2)));
        assert_eq!(list(dir.path()).unwrap().len(), 5);
    }

    /// Mend A-M10: large mails make a page short, and the rest follows.
    #[test]
    fn a_page_of_large_mails_is_short() {
        let dir = tempfile::tempdir().unwrap();
        let large = "x".repeat(PAGE_BYTES_MAX / 2 + 1);
        for number in 0..3 {
            stored(dir.path(), number, None, &large);
        }
        let read_page = |skip| {
            let (mails, next) = page(dir.path(), |_| true, (skip, 500)).unwrap();
            (mails.len(), next)
        };
        assert_eq!(read_page(0), (2, Some(2)));
        assert_eq!(read_page(2), (1, None));
    }

    /// Mend A-M10: only the headers of a mail outside the page are read, however long they are.
    #[test]
    fn headers_are_read_to_their_end() {
        for (long, end) in [
            (10, "\r\n\r\n"),
            (HEAD_STEP - 12, "\r\n\r\n"),
            (9_000, "\n\n"),
        ] {
            let headers = format!("Subject: {}{end}", "s".repeat(long));
            let text = format!("{headers}{}", "x".repeat(1_000_000));
            let found = head(text.as_bytes()).unwrap();
            assert!(found.starts_with(headers.as_bytes()), "{long}");
            assert!(found.len() <= headers.len() + HEAD_STEP, "{long}");
        }
        assert_eq!(head(&b"Subject: x"[..]).unwrap(), b"Subject: x");
    }
}
