//! `standing-approval`: approvals of calls in advance.

use anyhow::Context as _;
use holdpoint_contracts::handoff::{RequestView, StandingApprovalView};
use serde_json::{Value, json};

use super::short_id::Listed;
use super::{ClientCommand, Session, cells, instant, page_query};
use crate::cli::standing_approvals::{CreateStandingApproval, StandingApprovalCommand};
use crate::exit::ExitKind;

const LIST: &str = "standing-approvals";

impl ClientCommand for StandingApprovalCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind> {
        match self {
            Self::Create(terms) => create(session, *terms).await,
            Self::List { agent, tool, page } => {
                let mut query = page_query(&page);
                query.extend(agent.map(|agent| ("agent", agent)));
                query.extend(tool.map(|tool| ("tool", tool)));
                let heading = [
                    "STANDING APPROVAL",
                    "STATUS",
                    "AGENT",
                    "TOOL",
                    "USED",
                    "EXPIRES",
                ];
                session.list(LIST, &query, heading, row).await
            }
            Self::Show(one) => {
                let path = session.path(Listed::StandingApprovals, &one.id).await?;
                session.show_json(&path).await
            }
            Self::Revoke(one) => {
                let id = session.whole_id(Listed::StandingApprovals, &one.id).await?;
                session.delete(LIST, &id, "revoked").await
            }
        }
    }
}

async fn create(session: &Session, terms: CreateStandingApproval) -> anyhow::Result<ExitKind> {
    let mut body = json!({
        "agent": terms.agent,
        "tool": terms.tool,
        "version": terms.tool_version,
        "args_schema": terms.args_schema,
        "max_uses": terms.uses,
        "expires_in": terms.expires_in,
        "reason": terms.reason,
    });
    if let Some(id) = &terms.like {
        let path = session.path(Listed::Requests, id).await?;
        let request = session.client.get::<RequestView>(&path, &[]).await?.value;
        copy_call(&mut body, &request)?;
    }
    let text = |view: &StandingApprovalView| {
        let until = instant(view.expires_at);
        format!("{}  {} uses until {until}", view.id, view.max_uses)
    };
    session.post(LIST, &body, text).await
}

/// Takes agent, tool and version from an approval request.
fn copy_call(body: &mut Value, request: &RequestView) -> anyhow::Result<()> {
    let item = request.items.first();
    let (item, agent) = item
        .zip(request.agent.as_ref())
        .with_context(|| format!("`{}` is not an approval of a step; name one", request.id))?;
    body["agent"] = json!(agent);
    body["tool"] = json!(item.tool);
    body["version"] = json!(item.version);
    Ok(())
}

fn row(view: &StandingApprovalView) -> [String; 6] {
    let used = format!("{} of {}", view.used, view.max_uses);
    let expires = instant(view.expires_at);
    cells![
        view.id,
        view.status.as_str(),
        view.agent,
        view.tool,
        used,
        expires
    ]
}
