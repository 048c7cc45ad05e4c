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
use holdpoint_kernel::Queries;
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;
use serde::Serialize;
use serde_json::Value;

use crate::domain::{Delivery, Refusal, Watch, Webhook, WebhookState, masked_preferences};
use crate::store::{self, Last, PageStart};

/// Most items of one page.
const LIMIT_MAX: u64 = 500;

/// Most bytes of JSON in one page: a reply must fit the bus, however large its items are.
const PAGE_BYTES_MAX: usize = 512 * 1024;

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
                GetNotification::NAME => json(self.one(workspace, &read(body)?).await?),
                GetWebhook::NAME => json(self.webhook(workspace, &read(body)?).await?),
                ListWebhooks::NAME => json(self.webhooks(workspace, &read(body)?).await?),
                ListWebhookDeliveries::NAME => {
                    json(self.to_webhook(workspace, &read(body)?).await?)
                }
                ListWatches::NAME => json(self.watches(workspace, &read(body)?).await?),
                GetWatchStatus::NAME => json(self.watching(workspace, &read(body)?).await?),
                GetPreferences::NAME => json(self.preferences(workspace, &read(body)?).await?),
                ListDeliveries::NAME => json(self.deliveries(workspace, &read(body)?).await?),
                GetNotificationFeed::NAME => json(self.feed(workspace, &read(body)?).await?),
                CountUnread::NAME => json(self.unread(workspace, &read(body)?).await?),
                ListNotifications::NAME => json(self.list(workspace, &read(body)?).await?),
                other => Err(Problem::not_found(format!(
                    "the notification service has no query `{other}`"
                ))),
            }
        }
        .boxed()
    }
}

fn read<Q: Query>(body: &[u8]) -> Result<Q, Problem> {
    serde_json::from_slice(body)
        .map_err(|error| Problem::invalid_body(format!("`{}`: {error}", Q::NAME)))
}

fn json(answer: impl Serialize) -> Result<Value, Problem> {
    serde_json::to_value(answer).map_err(|error| {
        tracing::error!(%error, "a reply cannot be serialized");
        Problem::internal()
    })
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

fn limited(limit: u64) -> Result<u64, Problem> {
    if (1..=LIMIT_MAX).contains(&limit) {
        return Ok(limit);
    }
    let detail = format!("`limit` must be 1 to {LIMIT_MAX}, not {limit}");
    Err(Problem::new(400, "invalid_query", detail))
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

/// Keeps the items that fit one page, by count and bytes; at least one. Returns whether more exist: one extra
/// item was queried.
fn cut<T: Serialize>(items: &mut Vec<T>, limit: u64) -> bool {
    let mut bytes = 0;
    let beyond = items.iter().position(|item| {
        bytes += serde_json::to_string(item).map_or(0, |text| text.len());
        bytes > PAGE_BYTES_MAX
    });
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let fitting = beyond.unwrap_or(items.len()).max(1).min(limit);
    let more = items.len() > fitting;
    items.truncate(fitting);
    more
}

/// One page, whose cursor names its last item.
fn page<T: Serialize>(mut items: Vec<T>, limit: u64, cursor: impl Fn(&T) -> String) -> Page<T> {
    let more = cut(&mut items, limit);
    let next_cursor = items.last().filter(|_| more).map(cursor);
    Page { items, next_cursor }
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
        let limit = limited(query.limit)?;
        let after = read_cursor(query.cursor.as_deref(), |id| id.parse().ok())?;
        let found = store::webhooks(&self.db, workspace, after, limit + 1).await;
        let items = found.map_err(failed)?.iter().map(Webhook::view).collect();
        Ok(page(items, limit, |last: &WebhookView| last.id.to_string()))
    }

    /// The cursor is like that of notifications.
    async fn to_webhook(
        &self,
        workspace: &Workspace,
        query: &ListWebhookDeliveries,
    ) -> Result<Page<DeliveryView>, Problem> {
        let limit = limited(query.limit)?;
        let last = read_cursor(query.cursor.as_deref(), start)?;
        let known = store::webhook(&self.db, workspace, query.webhook).await;
        if known.map_err(failed)?.is_none() {
            return Err(Refusal::NoWebhook(query.webhook).problem());
        }
        let to = (workspace, query.webhook);
        let found = store::of_webhook(&self.db, to, last, limit + 1).await;
        let items = found.map_err(failed)?.iter().map(Delivery::view).collect();
        let cursor = |last: &DeliveryView| cursor_of(last.at, last.notification);
        Ok(page(items, limit, cursor))
    }

    /// All are on one page.
    async fn watches(
        &self,
        workspace: &Workspace,
        query: &ListWatches,
    ) -> Result<Page<WatchView>, Problem> {
        let found = store::watches(&self.db, workspace, &query.person).await;
        let found = found.map_err(failed)?;
        Ok(Page {
            items: found.iter().filter_map(Watch::view).collect(),
            next_cursor: None,
        })
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
        let limit = limited(query.limit)?;
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
        Ok(page(items, limit, cursor))
    }

    async fn list(
        &self,
        workspace: &Workspace,
        query: &ListNotifications,
    ) -> Result<Page<NotificationView>, Problem> {
        let limit = limited(query.limit)?;
        let last = read_cursor(query.cursor.as_deref(), start)?;
        let filter = store::EntryFilter {
            workspace,
            person: &query.person,
            unread: query.unread,
            last,
            limit: limit + 1,
        };
        let items = store::list(&self.db, &filter).await.map_err(failed)?;
        let cursor = |last: &NotificationView| cursor_of(last.at, last.id);
        Ok(page(items, limit, cursor))
    }

    async fn feed(
        &self,
        workspace: &Workspace,
        query: &GetNotificationFeed,
    ) -> Result<FeedPage, Problem> {
        let limit = limited(query.limit)?;
        let filter = store::EntryFilter {
            workspace,
            person: &query.person,
            unread: query.unread,
            last: query.after,
            limit: limit + 1,
        };
        let found = store::feed(&self.db, &filter).await;
        let (mut items, newest) = found.map_err(failed)?;
        Ok(FeedPage {
            more: cut(&mut items, limit),
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
