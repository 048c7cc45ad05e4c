//! What can be typed about people, and about what waits for them.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::PageArgs;
use crate::parsers;

/// As in bodies.
pub(super) const PRIORITIES: [&str; 5] = ["low", "normal", "high", "urgent", "critical"];

/// What waits for a person, acting on it, and asking from anywhere (M-6).
#[derive(Subcommand)]
pub(crate) enum RequestCommand {
    /// Show what waits for a person
    Inbox(InboxArgs),
    /// Approve requests by their ids, or ask somebody to approve a text
    Approve(ApproveArgs),
    #[command(flatten)]
    Act(ActCommand),
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
        #[arg(value_parser = parsers::duration)]
        duration: String,
        /// Do not wait here: print the hold's id
        #[arg(long)]
        detach: bool,
    },
}

/// What somebody does with requests that are there.
#[derive(Subcommand)]
pub(crate) enum ActCommand {
    /// Reject requests
    Reject {
        #[command(flatten)]
        which: WhichArgs,
        /// Why
        #[arg(long)]
        reason: String,
    },
    /// Answer a question
    Respond {
        #[command(flatten)]
        which: OneArgs,
        /// One of its options, a text, or a JSON object where it has a form; `done` or `declined` where it has a link
        answer: String,
    },
    /// Say that a request is yours
    Accept(OneArgs),
    /// Become the owner of a run: of one that was handed off, by its request, or of any live run, by its
    /// own id. Its agent stands still until you `complete` it
    TakeOver {
        /// The id of a request, or of a run
        #[arg(value_name = "REQUEST|RUN")]
        id: String,
        /// Only if the request is still as it was at this version
        #[arg(long = "version", value_name = "N")]
        seen: Option<u64>,
    },
    /// Complete handoffs
    Complete(CompleteArgs),
    /// Give a request to somebody else
    Reassign {
        #[command(flatten)]
        which: OneArgs,
        /// `@user.<name>` or `@role.<name>`
        #[arg(long)]
        to: String,
    },
    /// Let somebody else decide a request too; whoever has it keeps it
    Delegate {
        #[command(flatten)]
        which: OneArgs,
        /// `@user.<name>` or `@role.<name>`
        #[arg(long)]
        to: String,
    },
    /// Say that you have seen a request: nobody else is told for a while
    Acknowledge(OneArgs),
    /// Put a request away for later: it leaves your list, and comes back by itself
    Snooze {
        #[command(flatten)]
        which: OneArgs,
        /// For how long: 1 minute to 30 days, never beyond its deadline
        #[arg(long = "for", value_name = "DURATION", value_parser = parsers::duration)]
        time: String,
    },
    /// Take back what belongs to no run: it is not asked any more
    Withdraw(OneArgs),
    /// Ask again what nobody answered in time, or what was taken back: a new request that names the old one
    AskAgain(AskAgainArgs),
}

/// One request, as it was seen.
#[derive(Args)]
pub(crate) struct OneArgs {
    /// The request's id
    pub(crate) request: String,
    /// Only if it is still as it was at this version
    #[arg(long = "version", value_name = "N")]
    pub(crate) seen: Option<u64>,
}

/// One request, or several that are decided alike.
#[derive(Args)]
pub(crate) struct WhichArgs {
    /// The request's id; several are decided alike
    #[arg(required = true, value_name = "REQUEST")]
    pub(crate) requests: Vec<String>,
    #[command(flatten)]
    pub(crate) how: HowArgs,
}

/// What else is said of requests that are decided.
#[derive(Args)]
pub(crate) struct HowArgs {
    /// Only if it is still as it was at this version; of several, once for each, in their order
    #[arg(long = "version", value_name = "N")]
    pub(crate) seen: Vec<u64>,
    /// Of several: all of them, or none
    #[arg(long)]
    pub(crate) all_or_none: bool,
}

/// What is asked again, of whom, and how long.
#[derive(Args)]
pub(crate) struct AskAgainArgs {
    /// The id of the request that ended
    pub(crate) request: String,
    /// `@user.<name>` or `@role.<name>`; may be repeated [default: whom the old one was put to]
    #[arg(long, value_name = "WHO")]
    pub(crate) to: Vec<String>,
    /// When time is up [default: as long as the old one had]
    #[arg(long, value_parser = parsers::duration)]
    pub(crate) timeout: Option<String>,
    /// Stay until it is decided; exits as `approve --wait` does
    #[arg(long)]
    pub(crate) wait: bool,
}

/// How handoffs are completed.
#[derive(Args)]
pub(crate) struct CompleteArgs {
    #[command(flatten)]
    pub(crate) which: WhichArgs,
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

/// Ids of requests, or a text to be approved.
#[derive(Args)]
pub(crate) struct ApproveArgs {
    /// The id of a request, or of several; or what somebody is to approve: `"Deploy 4.2?"`
    #[arg(value_name = "ID|TEXT", required = true)]
    pub(crate) what: Vec<String>,
    #[command(flatten)]
    pub(crate) how: HowArgs,
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
    #[arg(long, value_name = "JSON", value_parser = parsers::json_or_file, conflicts_with = "options")]
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
    /// When time is up [default: what its policies say, else 5m for a question and 7d for anything else]
    #[arg(long, value_parser = parsers::duration)]
    pub(crate) timeout: Option<String>,
    /// What happens then [default: fail with --wait and in a step; else a question fails, a handoff
    /// continues, an approval escalates]
    #[arg(long, value_parser = ["fail", "skip", "default", "continue", "escalate"])]
    pub(crate) on_timeout: Option<String>,
    /// How urgent it is [default: normal]
    #[arg(long, value_parser = PRIORITIES)]
    pub(crate) priority: Option<String>,
    /// Its headline [default: what is asked]
    #[arg(long)]
    pub(crate) title: Option<String>,
    /// Who of those it is put to gets it: whoever is first, or the one with the fewest open requests
    /// [default: anyone]
    #[arg(long, value_parser = ["anyone", "least-loaded"])]
    pub(crate) assign: Option<String>,
    /// A policy by its name: who decides, or who is told when nobody acts; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Vec<String>,
    /// Stay until it is decided; exits 0 approved or answered, 4 rejected, 5 timed out
    #[arg(long)]
    pub(crate) wait: bool,
}

impl ToArgs {
    /// How urgent it is, said or not.
    pub(crate) fn priority(&self) -> &str {
        self.priority.as_deref().unwrap_or("normal")
    }

    /// What only a request has that is opened by it.
    pub(crate) fn opens(&self) -> bool {
        let says = [
            &self.timeout,
            &self.on_timeout,
            &self.priority,
            &self.title,
            &self.assign,
        ];
        let says_how = says.iter().any(|it| it.is_some());
        self.wait || says_how || !self.to.is_empty() || !self.policy.is_empty()
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
        #[arg(long, value_parser = parsers::duration)]
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
        #[arg(value_name = "FILE|JSON", value_parser = parsers::json_or_file)]
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
        #[arg(long, value_parser = parsers::resume_mode())]
        mode: Option<String>,
    },
}
