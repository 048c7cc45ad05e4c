//! The mails that the steps of an agent can name.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Each mail by the name of its template, as arguments of `send_email`.
#[derive(Debug, Default)]
pub(super) struct Mails {
    pub(super) by_name: BTreeMap<String, Map<String, Value>>,
    /// Bytes that the steps have taken from them. Many steps with one long mail would make a plan too large.
    pub(super) used_bytes: usize,
}
