//! Rows of the gateway and the only statements on them. No row type leaves this folder.

pub(crate) mod commands;
pub(crate) mod hooks;
pub(crate) mod sessions;
#[cfg(test)]
mod tests;
pub(crate) mod tokens;
pub(crate) mod workspaces;
