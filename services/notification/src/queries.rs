//! Replies to queries. The gateway has checked the caller.

use chrono::{DateTime, Utc};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_contracts::message::Query;
use holdpoint_contracts::notification::{
    CountUnread, DeliveryView, FeedPage, GetNotification, GetNotificationFeed, GetPreferences,
    GetWatchStatus, GetWebhook, ListDeliveries, ListNotifications, ListWatches,
    ListWebhookDeliveries, ListWebhooks, NotificationView, Preferences, SERVICE, Unread,
    WatchStatus, WatchView, WebhookView,
};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::run::Page;
use holdpoint_contracts::subject::Parts;
use holdpoint_ids::{NotificationId, Workspace};
use holdpoint_kernel::{Queries, check_limit, cut_items, cut_page, read_query, write_reply};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;
use serde_json::Value;

use crate::domain::{Delivery, Refusal, Watch, Webhook, WebhookState, masked_preferences};
use crate::store::{self, Last, PageStart};

#[derive(Debug)]
pub(crate) struct NotificationQueries {
    db: DatabaseConnection,
}

impl Queries for NotificationQueries {
    const NAME: &'static str = SERVICE;

    fn answer<'a>(
        &'a self,
        parts: &'a Parts,
        body: &'a [u8],
    ) -> BoxFuture<'a, Result<Value, Problem>> {
        async move {
            let workspace = &parts.workspace;
            match parts.verb.as_str() {
                GetNotification::NAME => {
                    write_reply(self.one(workspace, &read_query(body)?).await?)
                }
                GetWebhook::NAME => write_reply(self.webhook(workspace, &read_query(body)?).await?),
                ListWebhooks::NAME => {
                    write_reply(self.webhooks(workspace, &read_query(body)?).await?)
                }
                ListWebhookDeliveries::NAME => {
                    write_reply(self.to_webhook(workspace, &read_query(body)?).await?)
                }
                ListWatches::NAME => {
                    write_reply(self.watches(workspace, &read_query(body)?).await?)
                }
                GetWatchStatus::NAME => {
                    write_reply(self.watching(workspace, &read_query(body)?).await?)
                }
                GetPreferences::NAME => {
                    write_reply(self.preferences(workspace, &read_query(body)?).await?)
                }
                ListDeliveries::NAME => {
                    write_reply(self.deliveries(workspace, &read_query(body)?).await?)
                }
                GetNotificationFeed::NAME => {
                    write_reply(self.feed(workspace, &read_query(body)?).await?)
                }
                CountUnread::NAME => write_reply(self.unread(workspace, &read_query(body)?).await?),
                ListNotifications::NAME => {
                    write_reply(self.list(workspace, &read_query(body)?).await?)
                }
                other => Err(Problem::not_found(format!(
                    "the notification service has no query `{other}`"
                ))),
            }
        }
        .boxed()
    }
}

#[expect(clippy::needless_pass_by_value, reason = "as map_err gives it")]
fn failed(error: StoreError) -> Problem {
    tracing::error!(
        error = &error as &dyn std::error::Error,
        "query failed; the caller is asked to try again"
    );
    Problem::unavailable("the notification service's tables cannot be read now; try again")
}

/// `<milliseconds since 1970>_<notification id>`.
fn cursor_of(at: DateTime<Utc>, id: NotificationId) -> String {
    format!("{}_{id}", at.timestamp_millis())
}

fn start(cursor: &str) -> Option<PageStart> {
    let (at, id) = cursor.split_once('_')?;
    Some(PageStart {
        at: DateTime::from_timestamp_millis(at.parse().ok()?)?,
        id: id.parse().ok()?,
    })
}

fn read_cursor<T>(
    cursor: Option<&str>,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, Problem> {
    let place = |cursor| {
        let detail = "`cursor` must be the `next_cursor` of an earlier page";
        read(cursor).ok_or_else(|| Problem::new(400, "invalid_query", detail))
    };
    cursor.map(place).transpose()
}

impl NotificationQueries {
    pub(crate) const fn new(db: DatabaseConnection) -> Self {
        Self { db }
    }

    async fn one(
        &self,
        workspace: &Workspace,
        query: &GetNotification,
    ) -> Result<NotificationView, Problem> {
        let found = store::entry(&self.db, workspace, &query.person, query.id).await;
        let found = found.map_err(failed)?;
        found.ok_or_else(|| Refusal::NoNotification(query.id).problem())
    }

    async fn webhook(
        &self,
        workspace: &Workspace,
        query: &GetWebhook,
    ) -> Result<WebhookView, Problem> {
        let found = store::webhook(&self.db, workspace, query.id).await;
        let found = found
            .map_err(failed)?
            .filter(|one| one.state != WebhookState::Removed);
        let missing = || Refusal::NoWebhook(query.id).problem();
        found.map(|one| one.view()).ok_or_else(missing)
    }

    /// The cursor is the id of the last one.
    async fn webhooks(
        &self,
        workspace: &Workspace,
        query: &ListWebhooks,
    ) -> Result<Page<WebhookView>, Problem> {
        let limit = check_limit(query.limit)?;
        let after = read_cursor(query.cursor.as_deref(), |id| id.parse().ok())?;
        let found = store::webhooks(&self.db, workspace, after, limit + 1).await;
        let items = found.map_err(failed)?.iter().map(Webhook::view).collect();
        Ok(cut_page(items, limit, |last: &WebhookView| {
            last.id.to_string()
        }))
    }

    /// The cursor is like that of notifications.
    async fn to_webhook(
        &self,
        workspace: &Workspace,
        query: &ListWebhookDeliveries,
    ) -> Result<Page<DeliveryView>, Problem> {
        let limit = check_limit(query.limit)?;
        let last = read_cursor(query.cursor.as_deref(), start)?;
        let known = store::webhook(&self.db, workspace, query.webhook).await;
        if known.map_err(failed)?.is_none() {
            return Err(Refusal::NoWebhook(query.webhook).problem());
        }
        let to = (workspace, query.webhook);
        let found = store::of_webhook(&self.db, to, last, limit + 1).await;
        let items = found.map_err(failed)?.iter().map(Delivery::view).collect();
        let cursor = |last: &DeliveryView| cursor_of(last.at, last.notification);
        Ok(cut_page(items, limit, cursor))
    }

    /// All are on one page.
    async fn watches(
        &self,
        workspace: &Workspace,
        query: &ListWatches,
    ) -> Result<Page<WatchView>, Problem> {
        let found = store::watches(&self.db, workspace, &query.person).await;
        let found = found.map_err(failed)?;
        let views = found.iter().filter_map(Watch::view);
        Ok(views.collect::<Vec<_>>().into())
    }

    async fn watching(
        &self,
        workspace: &Workspace,
        query: &GetWatchStatus,
    ) -> Result<WatchStatus, Problem> {
        let found = store::watching(&self.db, workspace, &query.person, &query.of).await;
        found.map_err(failed)
    }

    /// A person without preferences gets the default.
    async fn preferences(
        &self,
        workspace: &Workspace,
        query: &GetPreferences,
    ) -> Result<Preferences, Problem> {
        let found = store::preferences(&self.db, workspace, &query.person).await;
        let said = found.map_err(failed)?.unwrap_or_default();
        Ok(masked_preferences(&said))
    }

    /// The cursor is `<revision of the event>_<channel>_<person>` of the last one.
    async fn deliveries(
        &self,
        workspace: &Workspace,
        query: &ListDeliveries,
    ) -> Result<Page<DeliveryView>, Problem> {
        let limit = check_limit(query.limit)?;
        let last = read_cursor(query.cursor.as_deref(), |cursor| {
            let mut parts = cursor.splitn(3, '_');
            Some(Last {
                rev: parts.next()?.parse().ok()?,
                channel: parts.next()?.to_owned(),
                target: parts.next()?.to_owned(),
            })
        })?;
        let of = (workspace, query.request);
        let found = store::of_request(&self.db, of, last, limit + 1).await;
        let items = found.map_err(failed)?.iter().map(Delivery::view).collect();
        let cursor = |last: &DeliveryView| {
            let person = last.person.as_ref().map_or("", |name| name.as_str());
            let rev = last.notification.rev.unwrap_or(0);
            format!("{rev}_{}_{person}", last.channel.as_str())
        };
        Ok(cut_page(items, limit, cursor))
    }

    async fn list(
        &self,
        workspace: &Workspace,
        query: &ListNotifications,
    ) -> Result<Page<NotificationView>, Problem> {
        let limit = check_limit(query.limit)?;
        let last = read_cursor(query.cursor.as_deref(), start)?;
        let filter = store::EntryFilter {
            workspace,
            person: &query.person,
            unread: query.unread,
            of_requests: false,
            last,
            limit: limit + 1,
        };
        let items = store::list(&self.db, &filter).await.map_err(failed)?;
        let cursor = |last: &NotificationView| cursor_of(last.at, last.id);
        Ok(cut_page(items, limit, cursor))
    }

    async fn feed(
        &self,
        workspace: &Workspace,
        query: &GetNotificationFeed,
    ) -> Result<FeedPage, Problem> {
        let limit = check_limit(query.limit)?;
        let filter = store::EntryFilter {
            workspace,
            person: &query.person,
            unread: query.unread,
            of_requests: false,
            last: query.after,
            limit: limit + 1,
        };
        let found = store::feed(&self.db, &filter).await;
        let (mut items, newest) = found.map_err(failed)?;
        Ok(FeedPage {
            more: cut_items(&mut items, limit),
            items,
            newest,
        })
    }

    /// Reads the number first: a change in the meantime gets a higher one.
    async fn unread(&self, workspace: &Workspace, query: &CountUnread) -> Result<Unread, Problem> {
        let newest = store::newest(&self.db, workspace).await.map_err(failed)?;
        let count =
            store::some_unread(&self.db, workspace, &query.person, Unread::COUNTED + 1).await;
        let count = count.map_err(failed)?;
        Ok(Unread {
            count: count.min(Unread::COUNTED),
            more: count > Unread::COUNTED,
            newest,
        })
    }
}
