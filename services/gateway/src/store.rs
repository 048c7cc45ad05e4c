//! Rows of the gateway: the only module with its statements. No row type leaves this folder.

pub(crate) mod commands;
mod crash_points;
pub(crate) mod hooks;
pub(crate) mod rehearsals;
mod row_id;
pub(crate) mod sessions;
#[cfg(test)]
mod tests;
pub(crate) mod tokens;
pub(crate) mod unmatched_replies;
pub(crate) mod workspaces;
