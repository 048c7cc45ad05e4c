//! `notifications`: list them, watch them live, and mark them as read.

use holdpoint_contracts::notification::{AllRead, NotificationView};
use serde_json::json;

use super::short_id::Listed;
use super::{ClientCommand, Session, cells, instant, page_query};
use crate::cli::notifications::{NotificationsArgs, NotificationsCommand};
use crate::client::Live;
use crate::exit::ExitKind;
use crate::output;
use crate::table::one_line;

impl ClientCommand for NotificationsArgs {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind> {
        let unread = self.unread.then(|| ("unread", true.to_string()));
        match self.command {
            Some(NotificationsCommand::Read { all: true, .. }) => {
                let text = |all: &AllRead| format!("{} read", all.read);
                session.post("notifications/read", &json!({}), text).await
            }
            Some(NotificationsCommand::Read { ids, .. }) => mark_as_read(session, &ids).await,
            None if self.watch => {
                let query: Vec<_> = unread.into_iter().collect();
                watch(session, &query).await
            }
            None => {
                let mut query = page_query(&self.page);
                query.extend(unread);
                let heading = ["NOTIFICATION", "AT", "STATE", "TYPE", "TITLE"];
                session.list("notifications", &query, heading, row).await
            }
        }
    }
}

async fn mark_as_read(session: &Session, ids: &[String]) -> anyhow::Result<ExitKind> {
    for id in ids {
        let path = session.path(Listed::Notifications, id).await?;
        session
            .post(&format!("{path}/read"), &json!({}), line)
            .await?;
    }
    Ok(ExitKind::Ok)
}

/// Ends with ctrl-c, or when Holdpoint is unreachable for some time.
async fn watch(session: &Session, query: &[(&'static str, String)]) -> anyhow::Result<ExitKind> {
    let mut events = session
        .client
        .events::<NotificationView>("notifications", query)?;
    loop {
        match events.next().await? {
            Live::Reset => output::note("Earlier notifications are no longer kept."),
            Live::Item(_, text) if session.json => output::line(&text)?,
            Live::Item(notification, _) => output::line(&line(&notification))?,
        }
    }
}

/// `new`, `read`, or the outcome of its request.
fn state(notification: &NotificationView) -> &'static str {
    match (&notification.decided, notification.read_at) {
        (Some(end), _) => end.outcome.map_or(end.state.as_str(), |it| it.as_str()),
        (None, Some(_)) => "read",
        (None, None) => "new",
    }
}

fn row(it: &NotificationView) -> [String; 5] {
    cells![it.id, instant(it.at), state(it), it.kind, it.title]
}

fn line(notification: &NotificationView) -> String {
    let [id, at, state, kind, title] = row(notification);
    let title = one_line(&title);
    format!("{at}  {state:<9}  {kind:<18}  {title}  ({id})")
}
