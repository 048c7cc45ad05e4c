//! Commands about notifications: the feed, watches, preferences and webhooks.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::arguments::{ById, PRIORITIES, PageArgs};
use crate::parsers;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct NotificationsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<NotificationsCommand>,
    /// Only unread notifications
    #[arg(long)]
    pub(crate) unread: bool,
    /// Print present notifications, oldest first, and then each new or changed one until ctrl-c
    #[arg(long, conflicts_with_all = ["limit", "cursor"])]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) page: PageArgs,
}

#[derive(Subcommand)]
pub(crate) enum NotificationsCommand {
    /// Mark notifications as read
    Read {
        /// Ids
        #[arg(required_unless_present = "all")]
        ids: Vec<String>,
        /// Mark all unread notifications
        #[arg(long, conflicts_with = "ids")]
        all: bool,
    },
}

#[derive(Subcommand)]
pub(crate) enum FollowCommand {
    /// Get notified of a request, a run or the runs of an agent
    Follow {
        /// Kind of object
        #[arg(value_parser = ["request", "run", "agent"])]
        kind: String,
        /// Id, or the name of the agent
        id: String,
    },
    /// Stop following a request, a run or an agent
    Unfollow {
        /// Id as `following` shows it, or the name of the agent
        id: String,
    },
    /// List what you follow
    Following,
}

#[derive(Subcommand)]
pub(crate) enum PreferencesCommand {
    /// Show your channels, their minimum priorities, quiet hours and digest
    Show,
    /// Change your preferences; omitted options stay as they are
    Set(Box<SetPreferences>),
}

#[derive(Args, Default)]
pub(crate) struct SetPreferences {
    /// Channels in the order in which they are tried: `email,chat`
    #[arg(long, value_delimiter = ',', value_parser = ["email", "chat"])]
    pub(crate) order: Vec<String>,
    /// Minimum priority for email
    #[arg(long, value_name = "PRIORITY", value_parser = PRIORITIES)]
    pub(crate) email_from: Option<String>,
    /// Turn email on or off
    #[arg(long, value_name = "YES|NO", value_parser = parsers::yes_or_no)]
    pub(crate) email: Option<bool>,
    /// Incoming webhook of your chat, or `none`
    #[arg(long, value_name = "URL")]
    pub(crate) chat_url: Option<String>,
    /// Message format of your chat
    #[arg(long, value_parser = ["slack", "standard"])]
    pub(crate) chat_format: Option<String>,
    /// Minimum priority for chat
    #[arg(long, value_name = "PRIORITY", value_parser = PRIORITIES)]
    pub(crate) chat_from: Option<String>,
    /// Your time zone, for example `Europe/Berlin`
    #[arg(long, value_name = "ZONE")]
    pub(crate) time_zone: Option<String>,
    /// Daily quiet hours, for example `22:00-07:00`, or `none`
    #[arg(long, value_name = "FROM-TO", value_parser = parsers::hours)]
    pub(crate) quiet_hours: Option<Value>,
    /// Time of a daily summary by email, for example `08:00`, or `none`
    #[arg(long, value_name = "TIME")]
    pub(crate) digest: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum WebhooksCommand {
    /// List webhooks
    List(PageArgs),
    /// Add a webhook; its signing secret is shown once
    Add {
        /// HTTP or HTTPS address
        #[arg(value_name = "URL")]
        address: String,
        /// Event: `approval.requested`, `handoff.*` or `*`; repeatable
        #[arg(long = "event", value_name = "EVENT", default_value = "*")]
        events: Vec<String>,
        /// Message format
        #[arg(long, value_parser = ["standard", "slack"], default_value = "standard")]
        format: String,
    },
    /// Enable a webhook
    Enable(ById),
    /// Disable a webhook until it is enabled
    Disable(ById),
    /// List sent and pending deliveries of a webhook, newest first
    Deliveries {
        #[command(flatten)]
        webhook: ById,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Remove a webhook and drop its pending deliveries
    Remove(ById),
}
