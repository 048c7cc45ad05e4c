//! `policies`: who approves, and who is told when nobody acts.

use holdpoint_contracts::handoff::{PolicyRules, PolicyView};
use holdpoint_contracts::run::Page;
use serde_json::Value;

use super::{ClientCommand, Session, list, show};
use crate::cli::PoliciesCommand;
use crate::client::{Body, segment};
use crate::exit::Outcome;

impl ClientCommand for PoliciesCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<Outcome> {
        match self {
            Self::List => {
                let answer: Body<Page<PolicyView>> = session.client.get("policies", &[]).await?;
                list(session, &answer, &["POLICY", "KIND", "VERSION"], |policy| {
                    vec![
                        policy.name.to_string(),
                        kind(policy).to_owned(),
                        version(policy),
                    ]
                })
            }
            Self::Show { name } => {
                let path = format!("policies/{}", segment(&name)?);
                let answer: Body<Value> = session.client.get(&path, &[]).await?;
                show(session, &answer, |policy| format!("{policy:#}"))
            }
            Self::Put { policy } => {
                let answer: Body<PolicyView> = session.client.post("policies", &policy).await?;
                show(session, &answer, |policy| {
                    format!("{}  {}  {}", policy.name, kind(policy), version(policy))
                })
            }
            Self::Remove { name } => {
                let path = format!("policies/{}", segment(&name)?);
                let answer: Body<Value> = session.client.delete(&path).await?;
                show(session, &answer, |_| format!("{name}  removed"))
            }
        }
    }
}

const fn kind(policy: &PolicyView) -> &'static str {
    match policy.rules {
        PolicyRules::Approval(_) => "approval",
        PolicyRules::Escalation(_) => "escalation",
    }
}

fn version(policy: &PolicyView) -> String {
    if policy.built_in {
        "built in".to_owned()
    } else {
        format!("version {}", policy.version)
    }
}
