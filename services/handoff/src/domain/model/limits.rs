//! How large what comes from outside may be, and how it is said what is too large.

use holdpoint_contracts::run::HoldKind;
use serde_json::Value;

/// Longest question of a hold that stands alone, in bytes.
pub(crate) const QUESTION_BYTES_MAX: usize = 8 * 1024;

/// Most options of a question.
pub(crate) const OPTIONS_MAX: usize = 100;

/// Longest option, in bytes.
pub(crate) const OPTION_BYTES_MAX: usize = 1_000;

/// Most people and groups that one request is put to.
pub(crate) const TO_MAX: usize = 50;

/// Longest address of a callback, in bytes.
pub(crate) const CALLBACK_BYTES_MAX: usize = 2 * 1024;

/// Largest context of a request, as JSON.
pub(crate) const CONTEXT_BYTES_MAX: usize = 128 * 1024;

/// Largest answer, comment or reason, as JSON.
pub(crate) use holdpoint_contracts::form::ANSWER_BYTES_MAX;

/// Things done with a request that are kept and shown.
pub(crate) const HISTORY_MAX: usize = 100;

/// Things done with a handoff that its run has not heard of, at most; of more, the oldest are left out.
pub(crate) const DEEDS_MAX: usize = 100;

/// Longest note beside one of them, in characters.
pub(crate) const NOTE_CHARS_MAX: usize = 300;

/// Longest headline, in bytes.
pub(crate) const TITLE_BYTES_MAX: usize = 1_000;

/// Largest task, as JSON.
pub(crate) const TASK_BYTES_MAX: usize = 16 * 1024;

/// Longest name of who asked, in bytes.
pub(crate) const REQUESTER_BYTES_MAX: usize = 300;

/// Most approvals that one request may need.
pub(crate) const NEED_MAX: u32 = 20;

/// Most policies of a workspace.
pub(crate) const POLICIES_MAX: usize = 200;

/// Most holidays of a calendar.
pub(crate) const HOLIDAYS_MAX: usize = 500;

/// Most names of policies that are told to whoever names one that is not there.
pub(crate) const NAMES_SHOWN_MAX: usize = 20;

/// Most rungs of a ladder.
pub(crate) const RUNGS_MAX: usize = 20;

/// Shortest and longest snooze: 1 minute and 30 days.
pub(crate) const SNOOZE_MS: std::ops::RangeInclusive<u64> = 60_000..=30 * 24 * 3_600 * 1_000;

/// People who have put one request away at a time.
pub(crate) const SNOOZES_MAX: usize = 100;

/// Largest view of a request in a fact, as JSON; a larger one is told without what makes it large.
pub(crate) const FACT_BYTES_MAX: usize = 600 * 1024;

/// Late answers that are kept and shown; later ones are refused and not kept.
pub(crate) const LATE_MAX: usize = 50;

/// All late answers of a request together, as JSON: the request must fit a message.
pub(crate) const LATE_BYTES_MAX: usize = 128 * 1024;

/// Shortest and longest time of a hold that stands alone (S3-R7): 1 s and 90 days.
pub(crate) const TIMEOUT_MS: std::ops::RangeInclusive<u64> = 1_000..=90 * 24 * 3_600 * 1_000;

/// The time of a hold that says nothing of it, and whose policies do not: 5 minutes for an input (S3-R1),
/// 7 days for anything else (S0-T1).
pub(crate) const fn timeout_ms(kind: HoldKind) -> u64 {
    match kind {
        HoldKind::Input => 5 * 60 * 1_000,
        HoldKind::Approval | HoldKind::Handoff | HoldKind::Timer => 7 * 24 * 3_600 * 1_000,
    }
}

/// Longest mail address, in bytes (RFC 5321 and its errata).
pub(crate) const EMAIL_BYTES_MAX: usize = 320;

/// Most roles of a user.
pub(crate) const ROLES_MAX: usize = 50;

/// How many bytes a value is as JSON.
pub(crate) fn bytes(value: &Value) -> usize {
    serde_json::to_string(value).map_or(usize::MAX, |text| text.len())
}
