//! Rows about suspensions (S1).

pub(crate) mod blob_chunk_row;
pub(crate) mod snapshot_row;
pub(crate) mod tool_calls;
