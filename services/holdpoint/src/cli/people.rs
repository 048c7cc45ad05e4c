//! What can be typed about people, and about what waits for them.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::PageArgs;
use crate::value;

/// As in bodies.
pub(super) const PRIORITIES: [&str; 5] = ["low", "normal", "high", "urgent", "critical"];

/// What waits for a person, acting on it, and asking from anywhere (M-6).
#[derive(Subcommand)]
pub(crate) enum RequestCommand {
    /// Show what waits for a person
    Inbox(InboxArgs),
    /// Approve a request by its id, or ask somebody to approve a text
    Approve(ApproveArgs),
    /// Reject a request
    Reject {
        /// Its id
        request: String,
        /// Why
        #[arg(long)]
        reason: String,
    },
    /// Answer a question
    Respond {
        /// Its id
        request: String,
        /// One of its options, a text, or a JSON object where it has a form; `done` or `declined` where it has a link
        answer: String,
    },
    /// Say that a request is yours
    Accept {
        /// Its id
        request: String,
    },
    /// Become the owner of a run that was handed off: its timer stops
    TakeOver {
        /// The request's id
        request: String,
    },
    /// Complete a handoff
    Complete(CompleteArgs),
    /// Give a request to somebody else
    Reassign {
        /// Its id
        request: String,
        /// `@user.<name>` or `@role.<name>`
        #[arg(long)]
        to: String,
    },
    /// Hand something to somebody, from anywhere
    HandOff {
        /// What it is about
        message: String,
        #[command(flatten)]
        to: ToArgs,
    },
    /// Ask somebody a question; as the tool of a step, for its run
    Ask(AskArgs),
    /// Be told when a time has passed, whatever is restarted meanwhile
    Wait {
        /// How long, for example `90m` or `5 days`
        #[arg(value_parser = value::duration)]
        duration: String,
        /// Do not wait here: print the hold's id
        #[arg(long)]
        detach: bool,
    },
}

/// How a handoff is completed.
#[derive(Args)]
pub(crate) struct CompleteArgs {
    /// The request's id
    pub(crate) request: String,
    /// What was done
    #[arg(long, default_value = "")]
    pub(crate) notes: String,
    /// What came of it
    #[arg(long, value_parser = ["resolved", "escalated", "no_action_needed"], default_value = "resolved")]
    pub(crate) outcome: String,
    /// What becomes of the run: it ends, or the agent goes on with its remaining steps
    #[arg(long = "then", value_parser = ["finish", "return_to_agent"])]
    pub(crate) disposition: String,
}

/// What a pause of many does.
#[derive(Args)]
pub(crate) struct PauseArgs {
    /// What becomes of runs that wait
    #[arg(long, value_parser = ["hold", "cancel"], default_value = "hold")]
    pub(crate) waiting: String,
    /// What becomes of runs that are started meanwhile
    #[arg(long, value_parser = ["accept", "refuse"], default_value = "accept")]
    pub(crate) new: String,
}

/// Which requests.
#[derive(Args)]
pub(crate) struct InboxArgs {
    /// Only of this kind
    #[arg(long, value_parser = ["approval", "input", "handoff", "timer"])]
    pub(crate) kind: Option<String>,
    /// Only what this user has, or may take
    #[arg(long = "for", value_name = "USER")]
    pub(crate) assignee: Option<String>,
    /// Only of this priority
    #[arg(long, value_parser = PRIORITIES)]
    pub(crate) priority: Option<String>,
    /// Only what somebody has put away for later
    #[arg(long, conflicts_with = "all")]
    pub(crate) snoozed: bool,
    /// Also those that are decided, or put away for later
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) page: PageArgs,
}

/// A request's id, or a text to be approved.
#[derive(Args)]
pub(crate) struct ApproveArgs {
    /// The id of a request, or what somebody is to approve: `"Deploy 4.2?"`
    #[arg(value_name = "ID|TEXT")]
    pub(crate) what: String,
    /// Why, for the record
    #[arg(long)]
    pub(crate) comment: Option<String>,
    #[command(flatten)]
    pub(crate) to: ToArgs,
}

/// A question to somebody.
#[derive(Args)]
pub(crate) struct AskArgs {
    /// What is asked
    pub(crate) question: String,
    /// An answer there is; may be repeated
    #[arg(long = "option", value_name = "ANSWER")]
    pub(crate) options: Vec<String>,
    /// A form instead: a flat JSON Schema, or a file that holds it
    #[arg(long, value_name = "JSON", value_parser = value::json_or_file, conflicts_with = "options")]
    pub(crate) schema: Option<Value>,
    /// For a secret: a page where the person enters it instead; the answer is `done` or `declined`
    #[arg(long, value_name = "URL", conflicts_with_all = ["options", "schema"])]
    pub(crate) link: Option<String>,
    /// What stands on the link
    #[arg(long, value_name = "TEXT", requires = "link")]
    pub(crate) link_label: Option<String>,
    /// The answer for `--on-timeout default`
    #[arg(long, value_name = "ANSWER")]
    pub(crate) default: Option<String>,
    #[command(flatten)]
    pub(crate) step: StepAskArgs,
    #[command(flatten)]
    pub(crate) to: ToArgs,
}

/// What only the tool of a step says.
#[derive(Args)]
#[command(
    next_help_heading = "As the tool of a step (HOLDPOINT_RUN and a step token in HOLDPOINT_TOKEN)"
)]
pub(crate) struct StepAskArgs {
    /// Names the question within the step: asking again returns the first one and its answer
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Do not wait: exit 75 until there is an answer; let your command end so, and it is called again
    #[arg(long)]
    pub(crate) park: bool,
}

/// Whom a hold is put to, and how long.
#[derive(Args)]
pub(crate) struct ToArgs {
    /// `@user.<name>` or `@role.<name>`; may be repeated [default: the owners]
    #[arg(long, value_name = "WHO")]
    pub(crate) to: Vec<String>,
    /// When time is up [default: 7d]
    #[arg(long, value_parser = value::duration)]
    pub(crate) timeout: Option<String>,
    /// What happens then [default: fail with --wait and in a step; else a question fails, a handoff
    /// continues, an approval escalates]
    #[arg(long, value_parser = ["fail", "skip", "default", "continue", "escalate"])]
    pub(crate) on_timeout: Option<String>,
    /// How urgent it is [default: normal]
    #[arg(long, value_parser = PRIORITIES)]
    pub(crate) priority: Option<String>,
    /// Stay until it is decided; exits 0 approved or answered, 4 rejected, 5 timed out
    #[arg(long)]
    pub(crate) wait: bool,
}

impl ToArgs {
    /// How urgent it is, said or not.
    pub(crate) fn priority(&self) -> &str {
        self.priority.as_deref().unwrap_or("normal")
    }
}

/// Commands about people.
#[derive(Subcommand)]
pub(crate) enum UserCommand {
    /// Add somebody, or change mail and roles of somebody
    Add {
        /// Their name: `@user.<name>`
        name: String,
        /// Where mails go
        #[arg(long)]
        email: Option<String>,
        /// owner, admin, operator, member, viewer, agent; any other is for `@role.` only
        #[arg(long = "role", value_name = "ROLE")]
        roles: Vec<String>,
    },
    /// List people
    List(PageArgs),
    /// Disable somebody: decides nothing any more
    Disable {
        /// Their name
        name: String,
    },
}

/// Commands about tokens.
#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token; it is shown this once
    Create {
        /// Whose
        #[arg(long)]
        user: String,
        /// No more than this role may
        #[arg(long)]
        role: Option<String>,
        /// Until when it is good, for example `30d` [default: for ever]
        #[arg(long, value_parser = value::duration)]
        expires_in: Option<String>,
    },
    /// List tokens, without what opens
    List(PageArgs),
    /// Make a token worthless
    Revoke {
        /// Its id
        id: String,
    },
}

/// Commands about tools.
#[derive(Subcommand)]
pub(crate) enum ToolCommand {
    /// Register a tool, or change it
    Put {
        /// A JSON object with `name` and `http`, or a file that holds one
        #[arg(value_name = "FILE|JSON", value_parser = value::json_or_file)]
        tool: Value,
    },
    /// List registered tools
    List(PageArgs),
    /// Forget a tool
    Delete {
        /// Its name
        name: String,
    },
}

/// Commands about workspaces.
#[derive(Subcommand)]
pub(crate) enum WorkspaceCommand {
    /// Make a workspace; its owner's token is shown this once
    Create {
        /// Its name
        name: String,
    },
    /// Freeze everything in this workspace
    Pause(PauseArgs),
    /// Let everything go on
    Resume {
        /// How waits go on: with the time left, to the old due time, from the start, or ending now
        #[arg(long, value_parser = value::resume_mode())]
        mode: Option<String>,
    },
}
