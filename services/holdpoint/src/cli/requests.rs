//! Commands about requests: list them, act on them, and open standalone holds (M-6).

use clap::{Args, Subcommand};
use serde_json::Value;

use super::arguments::{PRIORITIES, PageArgs};
use crate::parsers;

#[derive(Subcommand)]
pub(crate) enum RequestCommand {
    /// List open requests
    Inbox(InboxArgs),
    /// Show a request
    #[command(subcommand)]
    Request(ShowCommand),
    /// Approve requests, or open an approval with a text
    Approve(ApproveArgs),
    #[command(flatten)]
    Act(ActCommand),
    /// Open a handoff
    HandOff {
        /// Description of the work
        message: String,
        #[command(flatten)]
        hold: HoldOptions,
    },
    /// Ask a question; as the tool of a step, ask it for the run
    Ask(AskArgs),
    /// Wait for a duration with a durable timer
    Wait {
        /// Duration, for example `90m` or `5 days`
        #[arg(value_parser = parsers::duration)]
        duration: String,
        /// Print the id of the timer and exit
        #[arg(long)]
        detach: bool,
    },
}

#[derive(Subcommand)]
pub(crate) enum ShowCommand {
    /// Show a request with its call, its votes and its history
    Show {
        /// Id of the request
        request: String,
    },
}

/// Actions on existing requests.
#[derive(Subcommand)]
pub(crate) enum ActCommand {
    /// Reject requests
    Reject {
        #[command(flatten)]
        requests: RequestRefs,
        /// Reason
        #[arg(long, visible_alias = "comment")]
        reason: String,
    },
    /// Send approvals back: the step that made the arguments runs again
    Revise {
        #[command(flatten)]
        requests: RequestRefs,
        /// What the agent should change
        #[arg(long)]
        instructions: String,
    },
    /// Answer a question
    Respond {
        #[command(flatten)]
        request: RequestRef,
        /// Option, text, JSON object for a form, or `done` or `declined` for a link
        #[arg(value_parser = parsers::answer)]
        answer: Value,
    },
    /// Accept a request: become its assignee
    Accept(RequestRef),
    /// Take over the run of a handoff, or any live run, until `complete`
    TakeOver {
        /// Id of a request or a run
        #[arg(value_name = "REQUEST|RUN")]
        id: String,
        /// Fail if the request changed since version N
        #[arg(long = "version", value_name = "N")]
        seen: Option<u64>,
    },
    /// Complete handoffs
    Complete(CompleteArgs),
    /// Reassign a request to another user or role
    Reassign {
        #[command(flatten)]
        request: RequestRef,
        /// New recipient: `@user.<name>` or `@role.<name>`
        #[arg(long)]
        to: String,
    },
    /// Let another user or role decide a request too
    Delegate {
        #[command(flatten)]
        request: RequestRef,
        /// Additional recipient: `@user.<name>` or `@role.<name>`
        #[arg(long)]
        to: String,
    },
    /// Acknowledge a request, which delays reminders and escalation
    Acknowledge(RequestRef),
    /// Hide a request from your list for some time
    Snooze {
        #[command(flatten)]
        request: RequestRef,
        /// Duration: 1 minute to 30 days, at most until the deadline
        #[arg(long = "for", value_name = "DURATION", value_parser = parsers::duration)]
        time: String,
    },
    /// Withdraw a request that does not belong to a run
    Withdraw(RequestRef),
    /// Open a withdrawn or timed-out request again
    AskAgain(AskAgainArgs),
}

/// One request, and the version that the user has seen.
#[derive(Args)]
pub(crate) struct RequestRef {
    /// Id of the request
    pub(crate) request: String,
    /// Fail if the request changed since version N
    #[arg(long = "version", value_name = "N")]
    pub(crate) seen: Option<u64>,
}

/// Requests that get the same decision.
#[derive(Args)]
pub(crate) struct RequestRefs {
    /// Ids of requests that get the same decision
    #[arg(required = true, value_name = "REQUEST")]
    pub(crate) requests: Vec<String>,
    #[command(flatten)]
    pub(crate) options: DecisionOptions,
}

#[derive(Args)]
pub(crate) struct DecisionOptions {
    /// Fail if the request changed since version N; repeat per request, in order
    #[arg(long = "version", value_name = "N")]
    pub(crate) seen: Vec<u64>,
    /// Decide all requests or none
    #[arg(long)]
    pub(crate) all_or_none: bool,
}

#[derive(Args)]
pub(crate) struct AskAgainArgs {
    /// Id of the ended request
    pub(crate) request: String,
    /// Recipient: `@user.<name>` or `@role.<name>`; repeatable [default: those of the request]
    #[arg(long, value_name = "RECIPIENT")]
    pub(crate) to: Vec<String>,
    /// Time limit [default: that of the request]
    #[arg(long, value_parser = parsers::duration)]
    pub(crate) timeout: Option<String>,
    /// Wait for the decision; exit as `approve --wait` does
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Args)]
pub(crate) struct CompleteArgs {
    #[command(flatten)]
    pub(crate) requests: RequestRefs,
    /// Description of what you did
    #[arg(long, default_value = "")]
    pub(crate) notes: String,
    /// Outcome
    #[arg(long, value_parser = ["resolved", "escalated", "no_action_needed"], default_value = "resolved")]
    pub(crate) outcome: String,
    /// What the run does next: end, or continue with its remaining steps
    #[arg(long = "then", value_parser = ["finish", "return_to_agent"])]
    pub(crate) disposition: String,
}

/// A filter on the list of requests.
#[derive(Args)]
pub(crate) struct InboxArgs {
    /// Only requests of this kind
    #[arg(long, value_parser = ["approval", "input", "handoff", "timer"])]
    pub(crate) kind: Option<String>,
    /// Only requests that this user owns or may accept
    #[arg(long = "for", value_name = "USER")]
    pub(crate) assignee: Option<String>,
    /// Only requests of this priority
    #[arg(long, value_parser = PRIORITIES)]
    pub(crate) priority: Option<String>,
    /// Only snoozed requests
    #[arg(long, conflicts_with = "all")]
    pub(crate) snoozed: bool,
    /// Include decided and snoozed requests
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) page: PageArgs,
}

#[derive(Args)]
pub(crate) struct ApproveArgs {
    /// Ids of requests, or the text of a new approval: `"Deploy 4.2?"`
    #[arg(value_name = "ID|TEXT", required = true)]
    pub(crate) ids_or_text: Vec<String>,
    #[command(flatten)]
    pub(crate) options: DecisionOptions,
    /// Comment, recorded in the history
    #[arg(long)]
    pub(crate) comment: Option<String>,
    /// Arguments of the gated call instead of the requested ones: JSON, or a file that holds it
    #[arg(long, value_name = "JSON|FILE", value_parser = parsers::json_or_file)]
    pub(crate) args: Option<Value>,
    /// Fail if the digest of the requested call is not DIGEST; `request show` shows it
    #[arg(long)]
    pub(crate) digest: Option<String>,
    #[command(flatten)]
    pub(crate) hold: HoldOptions,
}

#[derive(Args)]
pub(crate) struct AskArgs {
    /// Question
    pub(crate) question: String,
    /// Allowed answer; repeatable
    #[arg(long = "option", value_name = "ANSWER")]
    pub(crate) options: Vec<String>,
    /// Form: a flat JSON Schema, or a file that holds it
    #[arg(long, value_name = "JSON", value_parser = parsers::json_or_file, conflicts_with = "options")]
    pub(crate) schema: Option<Value>,
    /// Page that collects a secret; the answer is only `done` or `declined`
    #[arg(long, value_name = "URL", conflicts_with_all = ["options", "schema"])]
    pub(crate) link: Option<String>,
    /// Label of the link
    #[arg(long, value_name = "TEXT", requires = "link")]
    pub(crate) link_label: Option<String>,
    /// Answer for `--on-timeout default`
    #[arg(long, value_name = "ANSWER", value_parser = parsers::answer)]
    pub(crate) default: Option<Value>,
    #[command(flatten)]
    pub(crate) step: StepAskArgs,
    #[command(flatten)]
    pub(crate) hold: HoldOptions,
}

/// Options for the tool of a step.
#[derive(Args)]
#[command(next_help_heading = "Options for the tool of a step (with HOLDPOINT_RUN and step token)")]
pub(crate) struct StepAskArgs {
    /// Key of the question in the step; a repeated key returns the first question and its answer
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Exit 75 until there is an answer; end your command with it to be called again
    #[arg(long)]
    pub(crate) park: bool,
}

/// Recipients, time limit and priority of a new hold.
#[derive(Args, Default)]
#[command(next_help_heading = "Options of a new request")]
pub(crate) struct HoldOptions {
    /// Recipient: `@user.<name>` or `@role.<name>`; repeatable [default: the owners]
    #[arg(long, value_name = "RECIPIENT")]
    pub(crate) to: Vec<String>,
    /// Time limit [default: by policy, else 5m for a question, 7d otherwise]
    #[arg(long, value_parser = parsers::duration)]
    pub(crate) timeout: Option<String>,
    /// Effect of the timeout [default: fail with --wait or in a step, else by kind: a question
    /// fails, a handoff continues, an approval escalates]
    #[arg(long, value_parser = ["fail", "skip", "default", "continue", "escalate"])]
    pub(crate) on_timeout: Option<String>,
    /// Priority [default: normal]
    #[arg(long, value_parser = PRIORITIES)]
    pub(crate) priority: Option<String>,
    /// Title [default: the question or message]
    #[arg(long)]
    pub(crate) title: Option<String>,
    /// Assignment: the first user who accepts, or the one with the fewest open requests
    /// [default: anyone]
    #[arg(long, value_parser = ["anyone", "least-loaded"])]
    pub(crate) assign: Option<String>,
    /// Approval or escalation policy; repeatable
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Vec<String>,
    /// Wait for the outcome; exit 0 if approved, answered or completed, 4 if rejected, 5 if timed out
    #[arg(long)]
    pub(crate) wait: bool,
}

impl HoldOptions {
    pub(crate) fn priority(&self) -> &str {
        self.priority.as_deref().unwrap_or("normal")
    }

    /// Whether an option is set that only a new hold can have.
    pub(crate) fn is_set(&self) -> bool {
        let options = [
            &self.timeout,
            &self.on_timeout,
            &self.priority,
            &self.title,
            &self.assign,
        ];
        let has_option = options.iter().any(|it| it.is_some());
        self.wait || has_option || !self.to.is_empty() || !self.policy.is_empty()
    }
}
