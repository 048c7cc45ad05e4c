//! Crash points: places where a test build ends its process as `kill -9` would, so that a test can check the
//! recovery.
//!
//! `HOLDPOINT_CRASH=<service>:<point>:<n>[:<verb>]` ends the process at the n-th pass (from 1) of that
//! point, in builds with debug assertions only. A pass is a batch. With a verb only batches with such a
//! command count.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use strum::EnumString;

const VARIABLE: &str = "HOLDPOINT_CRASH";

/// A place where the process can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum Point {
    /// Messages were received, nothing is decided.
    Fetched,
    /// Everything is written, nothing is committed.
    Decided,
    /// Committed, nothing is published.
    Committed,
    /// Published, no caller has a reply.
    Published,
    /// Replied, nothing is acked.
    Replied,
    /// Acked; the outbox row and acknowledged desired states still exist.
    Acked,
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
                "invalid {VARIABLE}; expected <service>:<point>:<n>[:<verb>]; no crash is armed"
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
        point: parts.next()?.parse().ok()?,
        at: parts.next()?.parse().ok().filter(|at| *at > 0)?,
        verb: parts.next().map(str::to_owned),
        passes: AtomicU64::new(0),
    };
    parts.next().is_none().then_some(armed)
}

/// Whether a crash of this service is armed. Sent messages must then be flushed before a point.
pub fn is_armed(service: &str) -> bool {
    armed().is_some_and(|armed| armed.service == service)
}

/// The verbs of a batch's commands, if the armed point needs them.
pub fn verbs<'t>(subjects: impl Iterator<Item = &'t str>) -> Vec<String> {
    if armed().is_none_or(|armed| armed.verb.is_none()) {
        return Vec::new();
    }
    let last = |subject: &str| subject.rsplit('.').next().map(str::to_owned);
    subjects.filter_map(last).collect()
}

/// Passes a crash point with a batch of commands of these verbs. A service without a kernel names what it does.
pub fn pass<V: AsRef<str>>(service: &str, point: Point, verbs: &[V]) {
    let Some(armed) = armed() else { return };
    let is_meant = armed.service == service && armed.point == point;
    let is_it = |wanted: &String| verbs.iter().any(|verb| verb.as_ref() == wanted);
    let has_verb = armed.verb.as_ref().is_none_or(is_it);
    if is_meant && has_verb && armed.passes.fetch_add(1, Ordering::AcqRel) + 1 == armed.at {
        tracing::error!(
            service,
            ?point,
            pass = armed.at,
            "process ended by {VARIABLE}"
        );
        std::process::abort();
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn an_invalid_crash_point_arms_nothing() {
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
                pass::<String>("counter", Point::Acked, &[]);
                pass::<String>("counter", Point::Committed, &[]);
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
