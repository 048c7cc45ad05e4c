//! What can be typed about how people and programs are told, and about policies.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::PageArgs;
use super::requests::PRIORITIES;
use crate::parsers;

/// What you were told.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct NotificationsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<NotificationsCommand>,
    /// Only what you have not read
    #[arg(long)]
    pub(crate) unread: bool,
    /// First what there is, oldest first, then each as it comes or changes, until ctrl-c
    #[arg(long, conflicts_with_all = ["limit", "cursor"])]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) page: PageArgs,
}

/// Commands about what you were told.
#[derive(Subcommand)]
pub(crate) enum NotificationsCommand {
    /// Mark notifications as read
    Read {
        /// Their ids
        #[arg(required_unless_present = "all")]
        ids: Vec<String>,
        /// All that you have not read
        #[arg(long, conflicts_with = "ids")]
        all: bool,
    },
}

/// Commands about how you are told.
#[derive(Subcommand)]
pub(crate) enum PreferencesCommand {
    /// Show by which ways you are told, from which priority on, and when not
    Show,
    /// Change some of it; what is not named stays
    Set(Box<SetPreferences>),
}

/// What changes.
#[derive(Args)]
pub(crate) struct SetPreferences {
    /// Ways in the order in which they are tried: `email,chat`
    #[arg(long, value_delimiter = ',', value_parser = ["email", "chat"])]
    pub(crate) order: Vec<String>,
    /// From which priority on you are mailed
    #[arg(long, value_name = "PRIORITY", value_parser = PRIORITIES)]
    pub(crate) email_from: Option<String>,
    /// Whether you are mailed at all
    #[arg(long, value_name = "YES|NO", value_parser = parsers::yes_or_no)]
    pub(crate) email: Option<bool>,
    /// Incoming webhook of your own chat; `none` forgets it
    #[arg(long, value_name = "URL")]
    pub(crate) chat_url: Option<String>,
    /// What your chat reads
    #[arg(long, value_parser = ["slack", "standard"])]
    pub(crate) chat_format: Option<String>,
    /// From which priority on your chat is told
    #[arg(long, value_name = "PRIORITY", value_parser = PRIORITIES)]
    pub(crate) chat_from: Option<String>,
    /// Where you live: `Europe/Berlin`
    #[arg(long, value_name = "ZONE")]
    pub(crate) time_zone: Option<String>,
    /// When nothing is to reach you, every day: `22:00-07:00`; `none`: always
    #[arg(long, value_name = "FROM-TO", value_parser = parsers::hours)]
    pub(crate) quiet_hours: Option<Value>,
    /// When you are mailed once a day of what is open and too little urgent for more: `08:00`; `none`
    #[arg(long, value_name = "TIME")]
    pub(crate) digest: Option<String>,
}

/// Commands about programs and channels that are told of what happens to requests.
#[derive(Subcommand)]
pub(crate) enum WebhooksCommand {
    /// List webhooks
    List(PageArgs),
    /// Have an address called; what its calls are signed with is shown this once
    Add {
        /// Where: http or https
        #[arg(value_name = "URL")]
        address: String,
        /// Of what: `approval.requested`, `handoff.*`, `*`; may be repeated
        #[arg(long = "event", value_name = "EVENT", default_value = "*")]
        events: Vec<String>,
        /// In which words
        #[arg(long, value_parser = ["standard", "slack"], default_value = "standard")]
        format: String,
    },
    /// Have it called again
    Enable {
        /// Its id
        id: String,
    },
    /// Have it called no more, until it is enabled
    Disable {
        /// Its id
        id: String,
    },
    /// Show what went, or is to go, to a webhook, newest first
    Deliveries {
        /// Its id
        id: String,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Remove it; what is on its way is dropped
    Remove {
        /// Its id
        id: String,
    },
}

/// Commands about who approves, and who is told when nobody acts.
#[derive(Subcommand)]
pub(crate) enum PoliciesCommand {
    /// List policies, those that are built in too
    List,
    /// Show one policy
    Show {
        /// Its name
        name: String,
    },
    /// Store a policy, or change it
    Put {
        /// A JSON object with `name` and `kind`, or a file that holds one
        #[arg(value_name = "FILE|JSON", value_parser = parsers::json_or_file)]
        policy: Value,
    },
    /// Forget a policy; requests that were asked by it keep what it said
    Remove {
        /// Its name
        name: String,
    },
}

/// Commands about what you follow.
#[derive(Subcommand)]
pub(crate) enum FollowCommand {
    /// Be told what becomes of a request, or what a run or the runs of an agent ask, and how they end
    Follow {
        /// What it is
        #[arg(value_parser = ["request", "run", "agent"])]
        kind: String,
        /// Its id, or the agent's name
        id: String,
    },
    /// Be told of it no more
    Unfollow {
        /// As `following` shows it, or an agent's name
        id: String,
    },
    /// Show what you follow
    Following,
}
