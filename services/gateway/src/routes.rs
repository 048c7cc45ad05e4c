//! One file for each resource with its routes. A handler translates, calls and answers.

pub(crate) mod agents;
pub(crate) mod asking;
pub(crate) mod clock;
pub(crate) mod commands;
pub(crate) mod contacts;
pub(crate) mod dead_letters;
pub(crate) mod health;
pub(crate) mod holds;
pub(crate) mod inbound_hooks;
pub(crate) mod library;
pub(crate) mod mails;
pub(crate) mod notifications;
pub(crate) mod operations;
pub(crate) mod policies;
pub(crate) mod rehearsals;
pub(crate) mod requests;
pub(crate) mod runs;
pub(crate) mod schedules;
pub(crate) mod sessions;
pub(crate) mod standing_approvals;
pub(crate) mod tokens;
pub(crate) mod tools;
pub(crate) mod users;
pub(crate) mod watches;
pub(crate) mod webhooks;
pub(crate) mod workspaces;
