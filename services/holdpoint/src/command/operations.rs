//! `operation`: actions on many runs, their progress and their results.

use holdpoint_contracts::operation::{OperationView, RunResultView};

use super::short_id::Listed;
use super::{ClientCommand, Session, cells, instant, page_query};
use crate::cli::runs::OperationCommand;
use crate::client::Body;
use crate::exit::ExitKind;

impl ClientCommand for OperationCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind> {
        match self {
            Self::List(page) => {
                let heading = ["OPERATION", "ACTION", "STATE", "RUNS", "BY", "CREATED"];
                let row = |it: &OperationView| {
                    let created_at = instant(it.created_at);
                    cells![
                        it.id,
                        it.action,
                        it.state,
                        it.matched,
                        it.created_by,
                        created_at
                    ]
                };
                let query = page_query(&page);
                session.list("operations", &query, heading, row).await
            }
            Self::Show(operation) => {
                let path = session.path(Listed::Operations, &operation.id).await?;
                let shown: Body<OperationView> = session.client.get(&path, &[]).await?;
                session.show(&shown, facts)
            }
            Self::Results {
                operation,
                result,
                page,
            } => {
                let path = session.path(Listed::Operations, &operation.id).await?;
                let mut query = page_query(&page);
                query.extend(result.map(|result| ("result", result)));
                let heading = ["RUN", "RESULT", "CODE", "AT"];
                let row = |it: &RunResultView| cells![it.run, it.result, it.code, instant(it.at)];
                session
                    .list(&format!("{path}/results"), &query, heading, row)
                    .await
            }
            Self::Cancel(operation) => {
                let path = session.path(Listed::Operations, &operation.id).await?;
                let ended: Body<OperationView> = session.client.delete(&path).await?;
                session.show(&ended, |it| format!("{}  {}", it.id, it.state))
            }
        }
    }
}

fn facts(it: &OperationView) -> String {
    let counts = it.counts.unwrap_or_default();
    let limit = if it.limit_reached {
        "\nlimit      it ended at 100,000 runs, and more match"
    } else {
        ""
    };
    format!(
        "operation  {}\naction     {}\nstate      {}\nruns       {} matched\nresults    {} changed, {} unchanged, {} refused\n\
         created    {} by {}{limit}",
        it.id,
        it.action,
        it.state,
        it.matched,
        counts.changed,
        counts.unchanged,
        counts.refused,
        instant(it.created_at),
        it.created_by,
    )
}
