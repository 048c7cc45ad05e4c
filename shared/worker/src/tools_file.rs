//! Tools without Rust: a file that lists commands and HTTP calls (`worker --tools FILE`).
//!
//! Owns the format of that file. It must never guess. An unknown field, or a tool that is neither a command
//! nor an HTTP call, is refused with its position before the worker receives anything.

mod command;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use holdpoint_contracts::duration::{self, DurationError};
use holdpoint_contracts::secret::{ADDRESS_ERROR, SecretPart, read_references};
use holdpoint_contracts::tool::{HttpCall, Risk};
use holdpoint_holds::json_schema::schema_error;
use holdpoint_holds::redaction::paths_error;
use holdpoint_ids::{IdError, NodeName, ToolName};
use serde::Deserialize;
use serde_json::Value;

use self::command::CommandTool;
use crate::tool::{Tool, ToolDefinition, ToolRetry};
use crate::tools::{HttpRequest, HttpTool};
use crate::worker::new_node_name;

/// Largest file, in bytes.
pub const FILE_MAX: usize = 1024 * 1024;

/// Tools of one file at most: each needs a queue.
pub const TOOLS_MAX: usize = 200;

/// Additional variables of a command at most.
pub const ENV_MAX: usize = 64;

/// Longest name of a variable, in bytes.
pub const ENV_NAME_MAX: usize = 128;

/// Default time limit of a command.
pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Why a tools file is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ToolsFileError {
    /// More than [`FILE_MAX`].
    #[error("the file has more than {FILE_MAX} bytes")]
    TooLarge,
    /// Unexpected content, or neither YAML nor JSON.
    #[error("`{place}`: {error}")]
    Form {
        place: String,
        /// With line and column.
        error: String,
    },
    #[error("the file lists {0} tools; expected 1 to {TOOLS_MAX}")]
    Number(usize),
    #[error("two tools have the name `{0}`; tool names must be unique")]
    Twice(ToolName),
    /// Neither or both of `command` and `http`, or an empty command.
    #[error("tool `{0}` needs either `command: [program, argument, …]` or `http: {{url: …}}`")]
    Kind(ToolName),
    /// How much harm a tool can do is never guessed.
    #[error("tool `{0}` needs `risk: low`, `risk: medium` or `risk: high`")]
    Risk(ToolName),
    #[error("tool `{tool}`: invalid `timeout`")]
    Timeout {
        tool: ToolName,
        #[source]
        source: DurationError,
    },
    /// A command must not get this variable.
    #[error(
        "tool `{tool}`: `env` cannot name {name:?}; expected at most {ENV_MAX} names of 1 to {ENV_NAME_MAX} letters, digits and `_`, none that begins with HOLDPOINT_"
    )]
    Env {
        tool: ToolName,
        /// The first name that is refused.
        name: String,
    },
    /// A schema that cannot be checked.
    #[error("tool `{tool}`: {error}")]
    Schema { tool: ToolName, error: String },
    /// A number or a time outside the limits of `retry`.
    #[error("tool `{tool}`: {error}")]
    Retry { tool: ToolName, error: String },
    /// A path that names no part of arguments or results, or too many.
    #[error("tool `{tool}`: {error}")]
    Redaction { tool: ToolName, error: String },
    /// A reference to a secret in `env` or `http`.
    #[error("tool `{tool}`: {error}")]
    Secret { tool: ToolName, error: &'static str },
    /// The node's name is too long to append a random ending.
    #[error("`node` is too long")]
    Node(#[from] IdError),
}

/// The content of a tools file.
pub struct ToolsFile {
    /// The file's `node` with a random ending, because each start needs a new name.
    pub node: NodeName,
    /// In the order of the file.
    pub tools: Vec<Arc<dyn Tool>>,
}

impl fmt::Debug for ToolsFile {
    /// Leaves out what may hold secrets: commands and headers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolsFile")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

impl ToolsFile {
    /// Reads YAML or JSON: `{node, tools: [{name, risk, version?, idempotent?,
    /// args_schema?, result_schema?, timeout?, retry?, redaction?, env?, command: [..] | http: {method?, url, headers?}}]}`. `http` makes the HTTP
    /// calls, and `url` is the API's address for commands. A command without `timeout` has [`COMMAND_TIMEOUT`].
    ///
    /// # Errors
    /// [`ToolsFileError`] with the position of the error.
    pub fn read(text: &str, http: &HttpRequest, url: Option<&str>) -> Result<Self, ToolsFileError> {
        if text.len() > FILE_MAX {
            return Err(ToolsFileError::TooLarge);
        }
        let mut track = serde_path_to_error::Track::new();
        let form = serde_saphyr::with_deserializer_from_str(text, |reader| {
            Form::deserialize(serde_path_to_error::Deserializer::new(reader, &mut track))
        });
        let form = form.map_err(|error| ToolsFileError::Form {
            place: track.path().to_string(),
            error: error.without_snippet().to_string(),
        })?;
        if !(1..=TOOLS_MAX).contains(&form.tools.len()) {
            return Err(ToolsFileError::Number(form.tools.len()));
        }
        let (node, mut tools) = (new_node_name(form.node.as_str())?, Vec::new());
        let mut names = BTreeSet::new();
        for entry in form.tools {
            if !names.insert(entry.name.clone()) {
                return Err(ToolsFileError::Twice(entry.name));
            }
            tools.push(entry.tool(http, url)?);
        }
        Ok(Self { node, tools })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    node: NodeName,
    tools: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: ToolName,
    version: Option<String>,
    risk: Option<Risk>,
    #[serde(default)]
    idempotent: bool,
    args_schema: Option<Value>,
    result_schema: Option<Value>,
    timeout: Option<String>,
    retry: Option<ToolRetry>,
    #[serde(default)]
    redaction: BTreeSet<String>,
    /// Additional variables of the command.
    #[serde(default)]
    env: Variables,
    /// The command gets a directory of its own for each run and step.
    #[serde(default)]
    sandbox: bool,
    /// The command gets SIGTERM at a suspension, and may stop with [`EXIT_SUSPENDED`](command::EXIT_SUSPENDED).
    #[serde(default)]
    suspendable: bool,
    command: Option<Vec<String>>,
    http: Option<HttpCall>,
}

/// Variables that a command gets from its worker, or that the file sets.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a list of names, or names with texts")]
enum Variables {
    Inherited(Vec<String>),
    /// A text may name secrets.
    Set(BTreeMap<String, String>),
}

impl Default for Variables {
    fn default() -> Self {
        Self::Inherited(Vec::new())
    }
}

impl Entry {
    fn read_timeout(&self) -> Result<Duration, ToolsFileError> {
        let timeout = self.timeout.as_deref();
        let timeout = timeout.map_or(Ok(COMMAND_TIMEOUT), duration::parse);
        timeout.map_err(|source| ToolsFileError::Timeout {
            tool: self.name.clone(),
            source,
        })
    }

    /// What the worker registers of the tool.
    fn definition(&self, timeout: Duration) -> Result<ToolDefinition, ToolsFileError> {
        let tool = || self.name.clone();
        let schemas = [&self.args_schema, &self.result_schema];
        if let Some(error) = schemas.into_iter().flatten().find_map(schema_error) {
            return Err(ToolsFileError::Schema {
                tool: tool(),
                error,
            });
        }
        let secrets = self.secrets();
        let secrets = secrets.map_err(|error| ToolsFileError::Secret {
            tool: tool(),
            error,
        })?;
        if let Some(error) = self.retry.as_ref().and_then(ToolRetry::error) {
            return Err(ToolsFileError::Retry {
                tool: tool(),
                error,
            });
        }
        let redaction: Vec<_> = self.redaction.iter().cloned().collect();
        if let Some(error) = paths_error(&redaction) {
            return Err(ToolsFileError::Redaction {
                tool: tool(),
                error,
            });
        }
        Ok(ToolDefinition {
            version: self.version.clone(),
            args_schema: self.args_schema.clone(),
            result_schema: self.result_schema.clone(),
            timeout: self.timeout.as_ref().map(|_| timeout),
            retry: self.retry.clone(),
            secrets,
            redaction: self.redaction.clone(),
        })
    }

    /// Names of the secrets in variables and headers.
    fn secrets(&self) -> Result<BTreeSet<String>, &'static str> {
        if self
            .http
            .as_ref()
            .is_some_and(|call| call.url.contains("{{"))
        {
            return Err(ADDRESS_ERROR);
        }
        let variables = match &self.env {
            Variables::Inherited(_) => None,
            Variables::Set(texts) => Some(texts.values()),
        };
        let headers = self.http.iter().flat_map(|call| call.headers.values());
        let mut names = BTreeSet::new();
        for text in variables.into_iter().flatten().chain(headers) {
            for part in read_references(text)? {
                if let SecretPart::Secret(name) = part {
                    names.insert(name.to_owned());
                }
            }
        }
        Ok(names)
    }

    fn tool(self, http: &HttpRequest, url: Option<&str>) -> Result<Arc<dyn Tool>, ToolsFileError> {
        let timeout = self.read_timeout()?;
        let definition = self.definition(timeout)?;
        let Some(risk) = self.risk else {
            return Err(ToolsFileError::Risk(self.name));
        };
        let (env, set_env) = match self.env {
            Variables::Inherited(names) => (names, BTreeMap::new()),
            Variables::Set(texts) => (Vec::new(), texts),
        };
        let mut names = env.iter().chain(set_env.keys());
        let refused = names.clone().nth(ENV_MAX);
        if let Some(name) = refused.or_else(|| names.find(|name| !may_be_given(name))) {
            return Err(ToolsFileError::Env {
                tool: self.name,
                name: name.chars().take(ENV_NAME_MAX).collect(),
            });
        }
        match (self.command, self.http) {
            (Some(command), None) => {
                let mut words = command.into_iter();
                let Some(program) = words.next().filter(|program| !program.is_empty()) else {
                    return Err(ToolsFileError::Kind(self.name));
                };
                Ok(Arc::new(CommandTool {
                    name: self.name.to_string(),
                    program,
                    arguments: words.collect(),
                    risk,
                    is_idempotent: self.idempotent,
                    definition,
                    timeout,
                    url: url.map(str::to_owned),
                    env,
                    set_env,
                    has_sandbox: self.sandbox,
                    is_suspendable: self.suspendable,
                }))
            }
            (None, Some(target)) => Ok(Arc::new(HttpTool {
                name: self.name.to_string(),
                risk,
                is_idempotent: self.idempotent,
                definition,
                http: http.clone(),
                target: Some(target),
            })),
            (Some(_), Some(_)) | (None, None) => Err(ToolsFileError::Kind(self.name)),
        }
    }
}

/// Whether a command may inherit this variable. The variables of Holdpoint contain keys of the worker, and
/// a command gets different values under the same names.
fn may_be_given(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (1..=ENV_NAME_MAX).contains(&name.len())
        && name.chars().all(is_plain)
        && !name.to_ascii_uppercase().starts_with("HOLDPOINT_")
}
