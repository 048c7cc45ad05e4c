//! Background passes that read rows page by page.

pub(crate) mod digests;
pub(crate) mod due_deliveries;
pub(crate) mod fan_out;
mod retention;
pub(crate) mod run_end_watches;
