//! Commands about standing approvals.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::arguments::{ById, PageArgs};
use crate::parsers;

#[derive(Subcommand)]
pub(crate) enum StandingApprovalCommand {
    /// Approve calls of a tool by an agent in advance
    Create(Box<CreateStandingApproval>),
    /// List standing approvals, newest first
    List {
        /// Only those for calls by this agent
        #[arg(long)]
        agent: Option<String>,
        /// Only those for calls of this tool
        #[arg(long)]
        tool: Option<String>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Show a standing approval with its uses
    Show(ById),
    /// Revoke a standing approval; calls that it has approved remain approved
    Revoke(ById),
}

#[derive(Args)]
pub(crate) struct CreateStandingApproval {
    /// Approval request whose agent, tool and version are meant
    #[arg(long, value_name = "REQUEST", conflicts_with_all = ["agent", "tool", "tool_version"])]
    pub(crate) like: Option<String>,
    /// Agent that makes the calls
    #[arg(long, required_unless_present = "like")]
    pub(crate) agent: Option<String>,
    /// Tool that is called
    #[arg(long, required_unless_present = "like")]
    pub(crate) tool: Option<String>,
    /// Version of the tool, as approval requests show it
    #[arg(long)]
    pub(crate) tool_version: Option<String>,
    /// JSON Schema of the arguments, as JSON or a file that holds it
    #[arg(long, value_name = "FILE|JSON", value_parser = parsers::json_or_file)]
    pub(crate) args_schema: Value,
    /// Maximum number of uses, 1 to 10,000
    #[arg(long, value_name = "NUMBER")]
    pub(crate) uses: u32,
    /// How long it may be used, 1 minute to 90 days
    #[arg(long, value_name = "DURATION", value_parser = parsers::duration)]
    pub(crate) expires_in: String,
    /// Reason, for people who read the list
    #[arg(long)]
    pub(crate) reason: Option<String>,
}
