//! Answers questions about requests and users.

use chrono::DateTime;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_clock::Clock;
use holdpoint_contracts::handoff::{
    GetPolicy, GetRequest, GetUser, ListOrder, ListPolicies, ListRequests, ListUserChanges,
    ListUsers, PolicyView, RequestView, SERVICE, UserChange, UserView,
};
use holdpoint_contracts::message::Query;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::run::Page;
use holdpoint_contracts::subject::{Parts, SYSTEM_WORKSPACE};
use holdpoint_ids::Workspace;
use holdpoint_kernel::Queries;
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;
use serde::Serialize;
use serde_json::Value;

use crate::domain::{Policy, Refusal, Request, User, built_in_policies};
use crate::store::{self, Behind, Order, Snoozed};

/// Most items of one page.
const LIMIT_MAX: u64 = 500;

/// Most bytes of JSON in one page: an answer must fit the bus, whatever its items hold.
const PAGE_BYTES_MAX: usize = 512 * 1024;

/// Largest context on a card in a list.
const CARD_CONTEXT_BYTES_MAX: usize = 8 * 1024;

/// As far as the most urgent ones can be paged through.
const SKIP_MAX: u64 = 10_000;

/// Answers the handoff service's queries.
#[derive(Debug)]
pub(crate) struct HandoffQueries {
    db: DatabaseConnection,
    /// Says what is put away until later.
    clock: Clock,
}

impl Queries for HandoffQueries {
    const NAME: &'static str = SERVICE;

    fn answer<'a>(
        &'a self,
        parts: &'a Parts,
        body: &'a [u8],
    ) -> BoxFuture<'a, Result<Value, Problem>> {
        async move {
            let workspace = &parts.workspace;
            match parts.verb.as_str() {
                GetRequest::NAME => self.request(workspace, &read(body)?).await.and_then(json),
                ListRequests::NAME => self.requests(workspace, &read(body)?).await.and_then(json),
                GetUser::NAME => self.user(workspace, read(body)?).await.and_then(json),
                ListUsers::NAME => self.users(workspace, &read(body)?).await.and_then(json),
                GetPolicy::NAME => self.policy(workspace, read(body)?).await.and_then(json),
                ListPolicies::NAME => {
                    read::<ListPolicies>(body)?;
                    self.policies(workspace).await.and_then(json)
                }
                // Of all workspaces: only other services may ask, and only there.
                ListUserChanges::NAME if workspace.as_str() == SYSTEM_WORKSPACE => {
                    self.user_changes(read(body)?).await.and_then(json)
                }
                other => Err(Problem::not_found(format!(
                    "the handoff service has no query `{other}` in workspace `{workspace}`"
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
        tracing::error!(%error, "an answer that cannot be written");
        Problem::internal()
    })
}

fn failed(error: &StoreError) -> Problem {
    tracing::error!(error = error as &dyn std::error::Error, "a query failed");
    Problem::unavailable("the handoff service's tables cannot be read now; try again")
}

fn invalid(detail: impl Into<String>) -> Problem {
    Problem::new(400, "invalid_query", detail)
}

fn limit(asked: u64) -> Result<u64, Problem> {
    if (1..=LIMIT_MAX).contains(&asked) {
        return Ok(asked);
    }
    Err(invalid(format!("`limit` is 1 to {LIMIT_MAX}, not {asked}")))
}

/// One page, bounded by items and by bytes; one item more was asked for, to know whether there are
/// more.
fn page<T: Serialize>(mut items: Vec<T>, limit: u64, cursor: impl Fn(&T) -> String) -> Page<T> {
    let fitting = fitting(&items).min(usize::try_from(limit).unwrap_or(usize::MAX));
    let more = items.len() > fitting;
    items.truncate(fitting);
    let next_cursor = items.last().filter(|_| more).map(cursor);
    Page { items, next_cursor }
}

/// How many items, at least one, are within [`PAGE_BYTES_MAX`].
fn fitting<T: Serialize>(items: &[T]) -> usize {
    let mut bytes = 0;
    let beyond = items.iter().position(|item| {
        bytes += serde_json::to_string(item).map_or(0, |text| text.len());
        bytes > PAGE_BYTES_MAX
    });
    beyond.unwrap_or(items.len()).max(1)
}

/// `<milliseconds since 1970>_<hold id>`.
fn cursor_of(view: &RequestView) -> String {
    format!("{}_{}", view.created_at.timestamp_millis(), view.id)
}

/// The order that is wanted, and from where on.
fn order(query: &ListRequests) -> Result<Order, Problem> {
    let cursor = query.cursor.as_deref();
    let wrong = || invalid("`cursor` is not one that a page before gave");
    match query.order {
        ListOrder::Newest => {
            let behind = cursor.map(|cursor| behind(cursor).ok_or_else(wrong));
            let behind = behind.transpose()?;
            Ok(Order::Newest { behind })
        }
        ListOrder::Urgency => {
            let skip = cursor.map_or(Some(0), |cursor| cursor.parse().ok());
            let skip = skip.filter(|skip| *skip <= SKIP_MAX).ok_or_else(wrong)?;
            Ok(Order::Urgency { skip })
        }
    }
}

/// The same without a context that is too long for a list of cards.
fn shortened(mut view: RequestView) -> RequestView {
    let text = serde_json::to_string(&view.context);
    if text.is_ok_and(|text| text.len() > CARD_CONTEXT_BYTES_MAX) {
        view.context = serde_json::json!({ "omitted": true });
    }
    view
}

fn behind(cursor: &str) -> Option<Behind> {
    let (at, id) = cursor.split_once('_')?;
    Some(Behind {
        created_at: DateTime::from_timestamp_millis(at.parse().ok()?)?,
        id: id.parse().ok()?,
    })
}

impl HandoffQueries {
    pub(crate) const fn new(db: DatabaseConnection, clock: Clock) -> Self {
        Self { db, clock }
    }

    async fn request(
        &self,
        workspace: &Workspace,
        query: &GetRequest,
    ) -> Result<RequestView, Problem> {
        let found = store::requests(&self.db, workspace, &[query.id]).await;
        let found = found.map_err(|error| failed(&error))?;
        let view = found.first().and_then(Request::view);
        let mut view = view.ok_or_else(|| Refusal::NoRequest(query.id).problem())?;
        self.hide_ask_again(workspace, std::slice::from_mut(&mut view))
            .await?;
        Ok(view)
    }

    /// Removes the action `ask_again` from requests that were asked again. The new request has a derived id.
    async fn hide_ask_again(
        &self,
        workspace: &Workspace,
        views: &mut [RequestView],
    ) -> Result<(), Problem> {
        let is_offered = |view: &&RequestView| view.actions.iter().any(|one| one == "ask_again");
        let offered = views.iter().filter(is_offered);
        let next: Vec<_> = offered.map(|view| view.id.asked_again()).collect();
        let known = store::known(&self.db, workspace, &next).await;
        let known = known.map_err(|error| failed(&error))?;
        for view in views {
            if known.contains(&view.id.asked_again()) {
                view.actions.retain(|one| one != "ask_again");
            }
        }
        Ok(())
    }

    async fn requests(
        &self,
        workspace: &Workspace,
        query: &ListRequests,
    ) -> Result<Page<RequestView>, Problem> {
        let limit = limit(query.limit)?;
        let order = order(query)?;
        let user = match &query.assignee {
            None => None,
            Some(name) => {
                let found = store::users(&self.db, workspace, &[name]).await;
                let found = found.map_err(|error| failed(&error))?.into_iter().next();
                Some(found.ok_or_else(|| Refusal::NoUser(name.clone()).problem())?)
            }
        };
        let filter = store::Filter {
            workspace,
            priority: query.priority,
            assignee: user.as_ref(),
            status: query.status,
            kind: query.kind,
            run: query.run,
            snoozed: query.snoozed.map(|is_wanted| Snoozed {
                is_wanted,
                by: query.snoozed_by.as_ref(),
                now: self.clock.now(),
            }),
            asks: query.cards,
            order,
            limit: limit + 1,
        };
        let requests = store::list_requests(&self.db, &filter).await;
        let requests = requests.map_err(|error| failed(&error))?;
        let views = requests.iter().filter_map(Request::view);
        let views = views.map(|view| if query.cards { shortened(view) } else { view });
        let mut page = page(views.collect(), limit, cursor_of);
        if let Order::Urgency { skip } = order {
            let so_far = skip + u64::try_from(page.items.len()).unwrap_or(limit);
            page.next_cursor = page.next_cursor.map(|_| so_far.to_string());
        }
        self.hide_ask_again(workspace, &mut page.items).await?;
        Ok(page)
    }

    async fn user(&self, workspace: &Workspace, query: GetUser) -> Result<UserView, Problem> {
        let found = store::users(&self.db, workspace, &[&query.name]).await;
        let found = found.map_err(|error| failed(&error))?;
        let view = found.first().map(User::view);
        view.ok_or_else(|| Refusal::NoUser(query.name).problem())
    }

    async fn users(
        &self,
        workspace: &Workspace,
        query: &ListUsers,
    ) -> Result<Page<UserView>, Problem> {
        let limit = limit(query.limit)?;
        let after = query.cursor.as_deref();
        let users = store::list_users(&self.db, workspace, after, limit + 1).await;
        let users = users.map_err(|error| failed(&error))?;
        let views = users.iter().map(User::view).collect();
        Ok(page(views, limit, |view: &UserView| view.name.to_string()))
    }

    async fn policy(&self, workspace: &Workspace, query: GetPolicy) -> Result<PolicyView, Problem> {
        let built_in = built_in_policies().into_iter();
        if let Some(view) = built_in.into_iter().find(|view| view.name == query.name) {
            return Ok(view);
        }
        let found = store::policies(&self.db, workspace, &[&query.name]).await;
        let found = found.map_err(|error| failed(&error))?;
        let live = found.iter().find(|policy| !policy.deleted);
        let view = live.map(Policy::view);
        view.ok_or_else(|| Refusal::NoPolicy(query.name).problem())
    }

    /// All of them: a workspace has few.
    async fn policies(&self, workspace: &Workspace) -> Result<Page<PolicyView>, Problem> {
        let own = store::list_policies(&self.db, workspace).await;
        let own = own.map_err(|error| failed(&error))?;
        let mut items = built_in_policies();
        items.extend(own.iter().map(Policy::view));
        Ok(Page {
            items,
            next_cursor: None,
        })
    }

    async fn user_changes(&self, query: ListUserChanges) -> Result<Vec<UserChange>, Problem> {
        let limit = limit(query.limit)?;
        let facts = store::user_facts_after(&self.db, query.after, limit).await;
        let mut facts = facts.map_err(|error| failed(&error))?;
        facts.truncate(fitting(&facts));
        Ok(facts)
    }
}
