//! The result of one attempt of a tool.

/// The result of a successful call; becomes the step's response (S0-R5).
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSuccess {
    /// One sentence for people, without a full stop.
    pub description: String,
    /// Later steps refer to it as `$step-01.…`.
    pub data: serde_json::Value,
}

/// Why a call failed. All of it is stored and shown to people (S0-R5).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolFailure {
    /// Stable snake_case code, for programs.
    pub code: String,
    /// For people. It must not contain secrets, paths, SQL or stack traces.
    pub message: String,
    /// What the tool got before it failed, such as the response of a server. At most
    /// [`FAILED_DATA_BYTES_MAX`](holdpoint_contracts::run::FAILED_DATA_BYTES_MAX) of it are kept. As the message, it must
    /// not contain secrets.
    pub data: serde_json::Value,
}

/// Code of the "failure" that parks a tool.
pub const PARKED: &str = "parked";

/// Code of the "failure" of a tool that stops at a suspension.
pub const SUSPENDED: &str = "suspended";

impl ToolFailure {
    /// Not a failure: the tool was asked to stop, has saved what it knows, and ends without a result (S1-R2). Code
    /// [`SUSPENDED`].
    #[must_use]
    pub fn suspended() -> Self {
        Self::new(SUSPENDED, "It has stopped at a suspension.")
    }

    /// Not a failure: the tool has asked people, ends, and is called again with the answer (S3-R2). Code
    /// [`PARKED`].
    #[must_use]
    pub fn parked() -> Self {
        Self::new(PARKED, "It has asked people and waits for their answer.")
    }

    /// A failure with a stable code and a message for people (S0-R5).
    #[must_use]
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
            data: serde_json::Value::Null,
        }
    }

    /// With what the tool got before it failed.
    #[must_use]
    pub fn with_data(self, data: serde_json::Value) -> Self {
        Self { data, ..self }
    }
}

/// Outcome of one attempt.
pub type ToolResult = Result<ToolSuccess, ToolFailure>;
