//! `policies`: rules for approvals and escalations.

use holdpoint_contracts::handoff::{PolicyRules, PolicyView};

use super::{ClientCommand, Session};
use crate::cli::workspace::PoliciesCommand;
use crate::client::item_path;
use crate::exit::ExitKind;

impl ClientCommand for PoliciesCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind> {
        match self {
            Self::List => {
                let heading = ["POLICY", "KIND", "VERSION"];
                session.list("policies", &[], heading, row).await
            }
            Self::Show(policy) => {
                let path = item_path("policies", &policy.name)?;
                session.show_json(&path).await
            }
            Self::Put { policy } => {
                let text = |policy: &PolicyView| row(policy).join("  ");
                session.post("policies", &policy, text).await
            }
            Self::Remove(policy) => session.delete("policies", &policy.name, "removed").await,
        }
    }
}

fn row(policy: &PolicyView) -> [String; 3] {
    let kind = match policy.rules {
        PolicyRules::Approval(_) => "approval",
        PolicyRules::Escalation(_) => "escalation",
    };
    let version = if policy.built_in {
        "built in".to_owned()
    } else {
        format!("version {}", policy.version)
    };
    [policy.name.to_string(), kind.to_owned(), version]
}
