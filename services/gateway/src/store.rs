//! Rows of the gateway and the only statements on them. No row type leaves this folder.

pub(crate) mod tokens;
