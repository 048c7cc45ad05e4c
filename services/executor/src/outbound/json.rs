//! Writes the bodies of messages and desired states.

use serde::Serialize;

/// Our types always become JSON. If one does not, the log says so and a sweep repairs the loss.
pub(super) fn write<T: Serialize>(body: &T) -> Option<String> {
    serde_json::to_string(body)
        .inspect_err(
            |error| tracing::error!(%error, "message cannot be written; a sweep sends it again"),
        )
        .ok()
}
