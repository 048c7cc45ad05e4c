//! The limits of a text of instructions.

/// Longest text of instructions, in bytes of UTF-8. A longer text is refused and not read. Repeated lines have the same
/// limit, counted once for each time.
pub const INSTRUCTIONS_BYTES_MAX: usize = 64 * 1024;

/// Most steps of one text.
pub const STEPS_MAX: usize = 1_000;
