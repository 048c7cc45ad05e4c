//! Crash points: places where a test build ends itself as `kill -9` would, so that a test can look
//! at what a crash right there leaves behind.
//!
//! `HOLDPOINT_CRASH=<service>:<point>:<n>[:<verb>]` ends the process at the n-th pass (from 1) of that
//! point, in builds with debug assertions only. A pass is a batch; with a verb only batches count
//! that bring a command of that verb.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

const VARIABLE: &str = "HOLDPOINT_CRASH";

/// Where a kernel can be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// Messages were taken, nothing is decided.
    Fetched,
    /// Everything is written, nothing is committed.
    Decided,
    /// Committed, nothing is published.
    Committed,
    /// Published, nobody is answered.
    Published,
    /// Answered, nothing is acked.
    Replied,
    /// Acked; outbox row and confirmed desired states are still there.
    Acked,
}

impl Point {
    fn named(name: &str) -> Option<Self> {
        let all = [
            ("fetched", Self::Fetched),
            ("decided", Self::Decided),
            ("committed", Self::Committed),
            ("published", Self::Published),
            ("replied", Self::Replied),
            ("acked", Self::Acked),
        ];
        let found = all.into_iter().find(|(known, _)| *known == name)?;
        Some(found.1)
    }
}

#[derive(Debug)]
struct Armed {
    service: String,
    point: Point,
    at: u64,
    verb: Option<String>,
    passes: AtomicU64,
}

static ARMED: OnceLock<Option<Armed>> = OnceLock::new();

fn armed() -> Option<&'static Armed> {
    if !cfg!(debug_assertions) {
        return None;
    }
    let read = || {
        let text = std::env::var(VARIABLE).ok()?;
        let armed = parse(&text);
        if armed.is_none() {
            tracing::error!(
                text,
                "{VARIABLE} is <service>:<point>:<n>[:<verb>]; no crash is armed"
            );
        }
        armed
    };
    ARMED.get_or_init(read).as_ref()
}

fn parse(text: &str) -> Option<Armed> {
    let mut parts = text.split(':');
    let armed = Armed {
        service: parts.next()?.to_owned(),
        point: Point::named(parts.next()?)?,
        at: parts.next()?.parse().ok().filter(|at| *at > 0)?,
        verb: parts.next().map(str::to_owned),
        passes: AtomicU64::new(0),
    };
    parts.next().is_none().then_some(armed)
}

/// Whether a crash of this service is armed, so that what was sent has to be on the wire at a point.
pub(crate) fn is_armed(service: &str) -> bool {
    armed().is_some_and(|armed| armed.service == service)
}

/// The verbs of a batch's commands, where a point looks at them.
pub(crate) fn verbs<'t>(subjects: impl Iterator<Item = &'t str>) -> Vec<String> {
    if armed().is_none_or(|armed| armed.verb.is_none()) {
        return Vec::new();
    }
    let last = |subject: &str| subject.rsplit('.').next().map(str::to_owned);
    subjects.filter_map(last).collect()
}

/// Passes a crash point with a batch of commands of these verbs.
pub(crate) fn pass(service: &str, point: Point, verbs: &[String]) {
    let Some(armed) = armed() else { return };
    let is_meant = armed.service == service && armed.point == point;
    let has_verb = armed.verb.as_ref().is_none_or(|verb| verbs.contains(verb));
    if is_meant && has_verb && armed.passes.fetch_add(1, Ordering::AcqRel) + 1 == armed.at {
        tracing::error!(service, ?point, pass = armed.at, "ended by {VARIABLE}");
        std::process::abort();
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_is_no_crash_point_arms_nothing() {
        for text in [
            "",
            "a:committed",
            "a:never:1",
            "a:committed:0",
            "a:acked:1:v:x",
        ] {
            assert!(parse(text).is_none(), "{text}");
        }
        assert_eq!(parse("a:acked:3:add").unwrap().verb.as_deref(), Some("add"));
    }

    /// Runs itself again, where it passes its point three times and is to die at the second.
    #[test]
    fn the_process_ends_at_the_nth_pass_with_the_verb() {
        const MARK: &str = "HOLDPOINT_CRASH_TEST_FILE";
        if let Ok(file) = std::env::var(MARK) {
            let add = ["hp.acme.cmd.counter.1.add".to_owned()];
            for n in 0..3_u8 {
                std::fs::write(&file, [n]).unwrap();
                pass("counter", Point::Acked, &[]);
                pass("counter", Point::Committed, &[]);
                pass(
                    "other",
                    Point::Committed,
                    &verbs(add.iter().map(String::as_str)),
                );
                pass(
                    "counter",
                    Point::Committed,
                    &verbs(add.iter().map(String::as_str)),
                );
            }
            return;
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        let status = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "crash::tests::the_process_ends_at_the_nth_pass_with_the_verb",
            ])
            .env(MARK, file.path())
            .env(VARIABLE, "counter:committed:2:add")
            .output()
            .unwrap()
            .status;
        assert!(!status.success(), "{status}");
        assert_eq!(std::fs::read(file.path()).unwrap(), [1], "the second pass");
    }
}
