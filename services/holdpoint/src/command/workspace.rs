//! `workspace`: making one, and stopping everything in one. A pause of an agent reads the same.

use holdpoint_contracts::executor::ChangedScope;
use serde::Deserialize;
use serde_json::json;

use super::{ClientCommand, Session, show};
use crate::cli::{PauseArgs, WorkspaceCommand};
use crate::client::Body;
use crate::exit::Outcome;

/// A workspace that was made, with the token that opens it.
#[derive(Debug, Deserialize)]
struct Created {
    workspace: String,
    token: String,
}

impl ClientCommand for WorkspaceCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<Outcome> {
        match self {
            Self::Create { name } => {
                let body = json!({ "workspace": name });
                let answer: Body<Created> = session.client.post("/v1/workspaces", &body).await?;
                show(session, &answer, |made| {
                    let Created { workspace, token } = made;
                    format!("workspace  {workspace}\ntoken      {token}   (shown this once)")
                })
            }
            Self::Pause(args) => pause(session, "pause", &args).await,
            Self::Resume { mode } => resume(session, "resume", mode).await,
        }
    }
}

/// Freezes an agent or the workspace.
pub(super) async fn pause(
    session: &Session,
    path: &str,
    args: &PauseArgs,
) -> anyhow::Result<Outcome> {
    let body = json!({ "waiting": args.waiting, "new": args.new });
    let answer: Body<ChangedScope> = session.client.post(path, &body).await?;
    show(session, &answer, sentence)
}

/// Lets an agent or the workspace go on.
pub(super) async fn resume(
    session: &Session,
    path: &str,
    mode: Option<String>,
) -> anyhow::Result<Outcome> {
    let body = mode.map_or_else(|| json!({}), |mode| json!({ "mode": mode }));
    let answer: Body<ChangedScope> = session.client.post(path, &body).await?;
    show(session, &answer, sentence)
}

fn sentence(scope: &ChangedScope) -> String {
    let what = scope
        .agent
        .as_ref()
        .map_or_else(|| "workspace".to_owned(), ToString::to_string);
    let news = if scope.changed {
        ""
    } else {
        "  (it was so already)"
    };
    match &scope.paused_by {
        Some(pause) => format!("{what}  {}  by {}{news}", scope.status, pause.by),
        None => format!("{what}  {}{news}", scope.status),
    }
}
