//! `notifications`: what the caller was told, also as it comes, and marking it as read.

use holdpoint_contracts::notification::{AllRead, NotificationView};
use holdpoint_contracts::run::Page;
use serde_json::json;

use super::short_id::Listed;
use super::{ClientCommand, Session, instant, list, page_query, show};
use crate::cli::{NotificationsArgs, NotificationsCommand};
use crate::client::{Body, Live, segment};
use crate::exit::Outcome;
use crate::output;
use crate::table::one_line;

impl ClientCommand for NotificationsArgs {
    async fn perform(self, session: &Session) -> anyhow::Result<Outcome> {
        match self.command {
            Some(NotificationsCommand::Read { all: true, .. }) => {
                let body = json!({});
                let answer: Body<AllRead> =
                    session.client.post("notifications/read", &body).await?;
                show(session, &answer, |all| format!("{} read", all.read))
            }
            Some(NotificationsCommand::Read { ids, .. }) => read(session, &ids).await,
            None if self.watch => watch(session, self.unread).await,
            None => {
                let mut query = page_query(&self.page);
                query.extend(self.unread.then(|| ("unread", true.to_string())));
                let answer: Body<Page<NotificationView>> =
                    session.client.get("notifications", &query).await?;
                let heading = ["NOTIFICATION", "AT", "STATE", "TYPE", "TITLE"];
                list(session, &answer, &heading, row)
            }
        }
    }
}

async fn read(session: &Session, ids: &[String]) -> anyhow::Result<Outcome> {
    for id in ids {
        let id = session.whole_id(Listed::Notifications, id).await?;
        let path = format!("notifications/{}/read", segment(&id)?);
        let answer: Body<NotificationView> = session.client.post(&path, &json!({})).await?;
        show(session, &answer, line)?;
    }
    Ok(Outcome::Ok)
}

/// Ends with ctrl-c, or when Holdpoint cannot be reached for some time.
async fn watch(session: &Session, unread: bool) -> anyhow::Result<Outcome> {
    let mut told = session.client.told(unread)?;
    loop {
        match told.next().await? {
            Live::Reset => output::note("earlier ones are no longer kept"),
            Live::Item(_, text) if session.json => output::line(&text)?,
            Live::Item(one, _) => output::line(&line(&one))?,
        }
    }
}

/// What has become of it: `new`, `read`, or how its request ended.
fn state(one: &NotificationView) -> &'static str {
    match (&one.decided, one.read_at) {
        (Some(end), _) => end.outcome.map_or(end.state.as_str(), |it| it.as_str()),
        (None, Some(_)) => "read",
        (None, None) => "new",
    }
}

fn kind(one: &NotificationView) -> String {
    let kind = serde_json::to_value(one.kind).unwrap_or_default();
    kind.as_str().unwrap_or_default().to_owned()
}

fn row(one: &NotificationView) -> Vec<String> {
    vec![
        one.id.to_string(),
        instant(one.at),
        state(one).to_owned(),
        kind(one),
        one.title.clone(),
    ]
}

/// One notification on one line.
fn line(one: &NotificationView) -> String {
    let (at, kind) = (instant(one.at), kind(one));
    let (state, title) = (state(one), one_line(&one.title));
    format!("{at}  {state:<9}  {kind:<18}  {title}  ({})", one.id)
}
