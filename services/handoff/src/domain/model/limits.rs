//! Limits of what the handoff service stores. Limits of drafts are in `shared/holds`.

/// Most entries of a request's history; see `RequestProgress::add_history`.
pub(crate) const HISTORY_MAX: usize = 100;

/// Longest note of a history entry, in characters; longer notes are cut.
pub(crate) const NOTE_CHARS_MAX: usize = 300;

/// Most handoff events that the executor has not acknowledged; beyond it the oldest is dropped.
pub(crate) const PENDING_EVENTS_MAX: usize = 100;

/// Most policies of a workspace.
pub(crate) const POLICIES_MAX: usize = 200;

/// Most standing approvals of a workspace that have not expired and are not revoked.
pub(crate) const STANDING_APPROVALS_MAX: u64 = 200;

/// Most early approvals of a workspace that have not expired and are not revoked. Each covers one call.
pub(crate) const EARLY_APPROVALS_MAX: u64 = 100_000;

/// Most of them for calls of one tool by one agent: a new request checks the schema of each.
pub(crate) const STANDING_APPROVALS_PER_CALL_MAX: usize = 10;

/// Fewest and most uses of a standing approval.
pub(crate) const STANDING_APPROVAL_USES: std::ops::RangeInclusive<u32> = 1..=10_000;

/// Shortest and longest life of a standing approval, in milliseconds: 1 minute and 90 days.
pub(crate) const STANDING_APPROVAL_LIFE_MS: std::ops::RangeInclusive<u64> =
    60_000..=90 * 86_400_000;

pub(crate) const STANDING_APPROVAL_LIFE_TEXT: &str = "expected 1 minute to 90 days";

/// Longest version of a tool in a standing approval, in characters.
pub(crate) const VERSION_CHARS_MAX: usize = 200;

/// Most holidays of a calendar.
pub(crate) const HOLIDAYS_MAX: usize = 500;

/// Most policy names that a refusal lists.
pub(crate) const NAMES_SHOWN_MAX: usize = 20;

/// Shortest and longest snooze, in milliseconds: 1 minute and 30 days.
pub(crate) const SNOOZE_MS: std::ops::RangeInclusive<u64> = 60_000..=30 * 86_400_000;

pub(crate) const SNOOZE_TEXT: &str = "expected 1 minute to 30 days";

/// Most users who snooze one request; beyond it the snooze that ends first is dropped.
pub(crate) const SNOOZES_MAX: usize = 100;

/// Largest view of a request in an event, in bytes of JSON; a larger view loses its largest fields.
pub(crate) const EVENT_BYTES_MAX: usize = 600 * 1024;

/// Most late answers of a request; further ones are refused and not kept.
pub(crate) const LATE_MAX: usize = 50;

/// Largest sum of a request's late answers, in bytes of JSON: the request must fit a message.
pub(crate) const LATE_BYTES_MAX: usize = 128 * 1024;

/// Longest mail address, in bytes (RFC 5321 and its errata).
pub(crate) const EMAIL_BYTES_MAX: usize = 320;

/// Most roles of a user.
pub(crate) const ROLES_MAX: usize = 50;

/// Users of all texts of one request who are notified of a mention.
pub(crate) const MENTIONED_MAX: usize = 100;
