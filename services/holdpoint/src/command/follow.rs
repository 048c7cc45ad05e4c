//! `follow`, `unfollow` and `following`: watches of requests, runs and agents.

use holdpoint_contracts::notification::{WatchView, Watched};
use serde_json::json;

use super::short_id::Listed;
use super::{ClientCommand, Session, cells, instant};
use crate::cli::notifications::FollowCommand;
use crate::exit::ExitKind;

impl ClientCommand for FollowCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind> {
        match self {
            Self::Follow { kind, id } => {
                let id = match kind.as_str() {
                    "run" => session.whole_id(Listed::Runs, &id).await?,
                    "request" => session.whole_id(Listed::Requests, &id).await?,
                    _agent => id,
                };
                let body = json!({ (kind.as_str()): id });
                let text = |watch: &WatchView| {
                    format!("{}  followed since {}", watch.id, instant(watch.since))
                };
                session.post("watches", &body, text).await
            }
            Self::Unfollow { id } => {
                let id = watch_id(session.whole_id(Listed::Watches, &id).await?);
                session.delete("watches", &id, "no longer followed").await
            }
            Self::Following => {
                let row = |it: &WatchView| cells![it.id, instant(it.since)];
                session.list("watches", &[], ["ID", "SINCE"], row).await
            }
        }
    }
}

/// The id as `following` shows it. A text that is not an id is the name of an agent.
fn watch_id(id: String) -> String {
    match id.parse::<Watched>() {
        Ok(_) => id,
        Err(_not_an_id) => format!("agent_{id}"),
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
