//! The common parts of commands, queries and replies.

use holdpoint_ids::Workspace;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::problem::Problem;
use crate::subject;

/// The sender: the name of a user, or of a service (`service:scheduler`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Actor(pub String);

impl Actor {
    /// A service of Holdpoint that acts by itself.
    #[must_use]
    pub fn service(name: &str) -> Self {
        Self(format!("service:{name}"))
    }
}

impl std::fmt::Display for Actor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Something that is to be done by the service that owns the aggregate.
pub trait Command: Serialize + DeserializeOwned + Send {
    /// The service that handles it.
    const SERVICE: &'static str;
    /// Last token of its subject, imperative.
    const VERB: &'static str;
    /// The reply of the owner, after its commit.
    type Reply: Serialize + DeserializeOwned + Send;

    /// Id of the aggregate it is for: decides the partition.
    fn aggregate(&self) -> String;

    /// Subject in the service's command stream.
    fn subject(&self, workspace: &Workspace) -> String {
        let partition = holdpoint_ids::partition(&self.aggregate());
        subject::command(workspace, Self::SERVICE, partition, Self::VERB)
    }

    /// Subject of the same command as a core request.
    fn ask_subject(&self, workspace: &Workspace) -> String {
        let partition = holdpoint_ids::partition(&self.aggregate());
        subject::ask(workspace, Self::SERVICE, partition, Self::VERB)
    }
}

/// A question that changes nothing.
pub trait Query: Serialize + DeserializeOwned + Send {
    /// The service that answers.
    const SERVICE: &'static str;
    /// Last token of its subject.
    const NAME: &'static str;
    /// The successful reply.
    type Reply: Serialize + DeserializeOwned + Send;

    /// Subject of the request.
    fn subject(&self, workspace: &Workspace) -> String {
        subject::query(workspace, Self::SERVICE, Self::NAME)
    }
}

/// The body of a command on the bus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope<C> {
    /// The actor on whose behalf it is sent.
    pub actor: Actor,
    /// The caller, signed by the gateway (`holdpoint-auth`). Without it the command has the
    /// rights that its subject has, and never the right to decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assertion: Option<String>,
    /// Given by the caller: the same key with the same content is done once and answered alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<IdempotencyKey>,
    pub command: C,
}

impl<C> Envelope<C> {
    /// A command of a service of Holdpoint that acts by itself.
    pub fn of_service(service: &str, command: C) -> Self {
        Self {
            actor: Actor::service(service),
            assertion: None,
            key: None,
            command,
        }
    }
}

/// The command within an envelope, as it was written: what a signature is over. None where the body is
/// not an envelope.
#[must_use]
pub fn command_text(body: &[u8]) -> Option<&str> {
    #[derive(Deserialize)]
    struct Written<'a> {
        #[serde(borrow)]
        command: &'a RawValue,
    }
    let written: Written<'_> = serde_json::from_slice(body).ok()?;
    Some(written.command.get())
}

/// An idempotency key in the caller's scope, and a digest of the request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IdempotencyKey {
    /// Digest of workspace, actor, route and the caller's `Idempotency-Key`.
    pub key: String,
    /// Digest of the body: another body under the same key is refused.
    pub digest: String,
}

/// The reply to a command or a query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply<T> {
    /// Done (after the commit), or found.
    Ok(T),
    /// Refused, or failed; nothing was changed.
    Problem(Problem),
}

impl<T> From<Reply<T>> for Result<T, Problem> {
    fn from(reply: Reply<T>) -> Self {
        match reply {
            Reply::Ok(answer) => Ok(answer),
            Reply::Problem(problem) => Err(problem),
        }
    }
}

impl<T> From<Result<T, Problem>> for Reply<T> {
    fn from(result: Result<T, Problem>) -> Self {
        match result {
            Ok(answer) => Self::Ok(answer),
            Err(problem) => Self::Problem(problem),
        }
    }
}
