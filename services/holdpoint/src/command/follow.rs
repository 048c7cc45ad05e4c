//! `follow`, `unfollow` and `following`: of what the caller is told because they want to be.

use holdpoint_contracts::notification::{WatchView, Watched};
use holdpoint_contracts::run::Page;
use serde_json::{Value, json};

use super::short_id::Listed;
use super::{ClientCommand, Session, instant, list, show};
use crate::cli::FollowCommand;
use crate::client::{Body, segment};
use crate::exit::Outcome;

impl ClientCommand for FollowCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<Outcome> {
        match self {
            Self::Follow { kind, id } => {
                let id = match kind.as_str() {
                    "run" => session.whole_id(Listed::Runs, &id).await?,
                    "request" => session.whole_id(Listed::Requests, &id).await?,
                    _agent => id,
                };
                let body = json!({ (kind.as_str()): id });
                let answer: Body<WatchView> = session.client.post("watches", &body).await?;
                show(session, &answer, |watch| {
                    format!("{}  followed since {}", watch.id, instant(watch.since))
                })
            }
            Self::Unfollow { id } => {
                let id = watch_id(session.whole_id(Listed::Watches, &id).await?);
                let path = format!("watches/{}", segment(&id)?);
                let answer: Body<Value> = session.client.delete(&path).await?;
                show(session, &answer, |_| format!("{id}  not followed any more"))
            }
            Self::Following => {
                let answer: Body<Page<WatchView>> = session.client.get("watches", &[]).await?;
                list(session, &answer, &["ID", "SINCE"], |watch| {
                    vec![watch.id.clone(), instant(watch.since)]
                })
            }
        }
    }
}

/// As `following` shows it; of an agent its name will do.
fn watch_id(id: String) -> String {
    match id.parse::<Watched>() {
        Ok(_) => id,
        Err(_no_id) => format!("agent_{id}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_unfollowed_by_its_name() {
        let run = "run_01920000000070008000000000000001";
        assert_eq!(watch_id(run.to_owned()), run);
        assert_eq!(watch_id("agent_outreach".to_owned()), "agent_outreach");
        assert_eq!(watch_id("outreach".to_owned()), "agent_outreach");
    }
}
