//! Commands about a workspace: users, tokens, tools, policies, dead letters and the clock.

use clap::Subcommand;
use serde_json::Value;

use super::arguments::{ById, ByName, PageArgs, PauseArgs, ResumeArgs};
use crate::parsers;

#[derive(Subcommand)]
pub(crate) enum UserCommand {
    /// Add a user, or change the given parts of one
    Add {
        /// Name, as in `@user.<name>`
        name: String,
        /// Email address; an empty one removes it
        #[arg(long)]
        email: Option<String>,
        /// Role: owner, admin, operator, member, viewer, agent, or a custom one; repeatable
        #[arg(long = "role", value_name = "ROLE")]
        roles: Vec<String>,
    },
    /// List users
    List(PageArgs),
    /// Disable a user, who can then no longer act
    Disable(ByName),
}

#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token, which is shown once
    Create {
        /// User that the token acts for
        #[arg(long)]
        user: String,
        /// Role that limits what the token may do
        #[arg(long)]
        role: Option<String>,
        /// Lifetime, for example `30d` [default: unlimited]
        #[arg(long, value_parser = parsers::duration)]
        expires_in: Option<String>,
    },
    /// List tokens; secrets are not shown
    List(PageArgs),
    /// Revoke a token
    Revoke(ById),
}

#[derive(Subcommand)]
pub(crate) enum ToolCommand {
    /// Register a tool, or change what counts for a tool of workers
    Put {
        /// JSON object with `name`, and `http` unless workers offer the tool; or a file that holds it
        #[arg(value_name = "FILE|JSON", value_parser = parsers::json_or_file)]
        tool: Value,
    },
    /// List tools
    List(PageArgs),
    /// Show a tool, what nodes have registered, and what operators have changed
    Show(ByName),
    /// Accept the newest registration of a tool by a node
    Accept(ByName),
    /// Delete a tool
    Delete(ByName),
}

#[derive(Subcommand)]
pub(crate) enum MeshCommand {
    /// List worker nodes
    Nodes,
    /// List the steps that nodes are working on
    Claims,
}

#[derive(Subcommand)]
pub(crate) enum PoliciesCommand {
    /// List policies, including the built-in ones
    List,
    /// Show a policy
    Show(ByName),
    /// Store a policy, or change one
    Put {
        /// JSON object with `name` and `kind`, or a file that holds it
        #[arg(value_name = "FILE|JSON", value_parser = parsers::json_or_file)]
        policy: Value,
    },
    /// Remove a policy; open requests keep its rules
    Remove(ByName),
}

#[derive(Subcommand)]
pub(crate) enum WorkspaceCommand {
    /// Create a workspace; its owner's token is shown once
    Create(ByName),
    /// Pause all present and future runs of this workspace
    Pause(PauseArgs),
    /// Resume this workspace
    Resume(ResumeArgs),
}

#[derive(Subcommand)]
pub(crate) enum DeadCommand {
    /// List dead letters of all services, newest first
    List(PageArgs),
    /// Show a dead letter with its reason and body
    Show(ById),
    /// Handle dead letters again and remove them once that is committed
    Replay {
        /// Ids
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Remove dead letters
    Drop {
        /// Ids
        #[arg(required = true)]
        ids: Vec<String>,
    },
}

#[derive(Subcommand)]
pub(crate) enum ClockCommand {
    /// Show the time of Holdpoint
    Show,
    /// Advance a test clock and fire all due timers in order
    Advance {
        /// Duration, for example `5d` or `1d12h`
        #[arg(value_parser = parsers::duration)]
        by: String,
    },
}
