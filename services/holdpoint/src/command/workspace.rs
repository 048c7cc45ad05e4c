//! `workspace`. An agent is paused and resumed in the same way.

use holdpoint_contracts::executor::ChangedScope;
use serde::Deserialize;
use serde_json::json;

use super::{ClientCommand, Session, body_of};
use crate::cli::arguments::{PauseArgs, ResumeArgs};
use crate::cli::workspace::WorkspaceCommand;
use crate::exit::ExitKind;

#[derive(Debug, Deserialize)]
struct CreatedWorkspace {
    workspace: String,
    token: String,
}

impl ClientCommand for WorkspaceCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind> {
        match self {
            Self::Create(workspace) => {
                let body = json!({ "workspace": workspace.name });
                let text = |created: &CreatedWorkspace| {
                    let CreatedWorkspace { workspace, token } = created;
                    format!("workspace  {workspace}\ntoken      {token}   (shown once)")
                };
                session.post("/v1/workspaces", &body, text).await
            }
            Self::Pause(args) => pause(session, "pause", &args).await,
            Self::Resume(args) => resume(session, "resume", args).await,
        }
    }
}

pub(super) async fn pause(
    session: &Session,
    path: &str,
    args: &PauseArgs,
) -> anyhow::Result<ExitKind> {
    let body = json!({ "waiting": args.waiting, "new": args.new });
    session.post(path, &body, scope_text).await
}

pub(super) async fn resume(
    session: &Session,
    path: &str,
    args: ResumeArgs,
) -> anyhow::Result<ExitKind> {
    let body = body_of(json!({ "mode": args.mode }));
    session.post(path, &body, scope_text).await
}

fn scope_text(scope: &ChangedScope) -> String {
    let agent = scope.agent.as_ref().map(ToString::to_string);
    let name = agent.unwrap_or_else(|| "workspace".to_owned());
    let pause = scope.paused_by.as_ref();
    let by = pause.map(|pause| format!("  by {}", pause.by));
    let unchanged = if scope.changed { "" } else { "  (unchanged)" };
    let by = by.unwrap_or_default();
    format!("{name}  {}{by}{unchanged}", scope.status)
}
