//! Answers queries about requests, users and policies.

use chrono::DateTime;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_clock::Clock;
use holdpoint_contracts::handoff::{
    GetPolicy, GetRequest, GetStandingApproval, GetUser, ListOrder, ListPolicies, ListRequests,
    ListStandingApprovals, ListUserChanges, ListUsers, PolicyView, RequestView, SERVICE,
    StandingApprovalView, UserChange, UserView,
};
use holdpoint_contracts::message::Query;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::run::Page;
use holdpoint_contracts::subject::{Parts, SYSTEM_WORKSPACE};
use holdpoint_ids::Workspace;
use holdpoint_kernel::{Queries, check_limit, cut_items, cut_page, read_query, write_reply};
use holdpoint_store::StateRow;
use sea_orm::{DatabaseConnection, PrimaryKeyTrait};
use serde_json::Value;

use crate::domain::{CountedStandingApproval, Policy, Refusal, Request, User, built_in_policies};
use crate::store::{
    self, Filter, Order, Policies, RequestCursor, Requests, Snoozed, StandingApprovalFilter,
    StandingApprovals, Users,
};

/// Largest context on a card in a list.
const CARD_CONTEXT_BYTES_MAX: usize = 8 * 1024;

/// Most requests that a list by urgency skips.
const SKIP_MAX: u64 = 10_000;

/// Answers the handoff service's queries.
#[derive(Debug)]
pub(crate) struct HandoffQueries {
    pub(crate) db: DatabaseConnection,
    /// Determines which requests are snoozed.
    pub(crate) clock: Clock,
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
                GetRequest::NAME => write_reply(self.request(workspace, &read_query(body)?).await?),
                ListRequests::NAME => {
                    write_reply(self.requests(workspace, &read_query(body)?).await?)
                }
                GetUser::NAME => write_reply(self.user(workspace, read_query(body)?).await?),
                ListUsers::NAME => write_reply(self.users(workspace, &read_query(body)?).await?),
                GetPolicy::NAME => write_reply(self.policy(workspace, read_query(body)?).await?),
                ListPolicies::NAME => {
                    read_query::<ListPolicies>(body)?;
                    write_reply(self.policies(workspace).await?)
                }
                GetStandingApproval::NAME => {
                    write_reply(self.standing_approval(workspace, read_query(body)?).await?)
                }
                ListStandingApprovals::NAME => write_reply(
                    self.standing_approvals(workspace, &read_query(body)?)
                        .await?,
                ),
                // The changes of all workspaces: only services may query the system workspace.
                ListUserChanges::NAME if workspace.as_str() == SYSTEM_WORKSPACE => {
                    write_reply(self.user_changes(read_query(body)?).await?)
                }
                other => Err(Problem::not_found(format!(
                    "the handoff service has no query `{other}` in workspace `{workspace}`"
                ))),
            }
        }
        .boxed()
    }
}

fn failed(error: impl std::error::Error + 'static) -> Problem {
    tracing::error!(error = &error as &dyn std::error::Error, "query failed");
    Problem::unavailable("the handoff service's tables cannot be read now; try again")
}

fn invalid(detail: impl Into<String>) -> Problem {
    Problem::new(400, "invalid_query", detail)
}

/// The wanted order, and where the page begins.
fn read_order(query: &ListRequests) -> Result<Order, Problem> {
    let cursor = query.cursor.as_deref();
    let wrong = || invalid("`cursor` is not one that a page before gave");
    match query.order {
        ListOrder::Newest => {
            let after = cursor.map(|cursor| read_cursor(cursor).ok_or_else(wrong));
            let after = after.transpose()?;
            Ok(Order::Newest { after })
        }
        ListOrder::Urgency => {
            let skip = cursor.map_or(Some(0), |cursor| cursor.parse().ok());
            let skip = skip.filter(|skip| *skip <= SKIP_MAX).ok_or_else(wrong)?;
            Ok(Order::Urgency { skip })
        }
    }
}

/// Reads `<milliseconds since 1970>_<hold id>`, which a page of the newest requests ends with.
fn read_cursor(cursor: &str) -> Option<RequestCursor> {
    let (at, id) = cursor.split_once('_')?;
    Some(RequestCursor {
        created_at: DateTime::from_timestamp_millis(at.parse().ok()?)?,
        id: id.parse().ok()?,
    })
}

/// The view without a context that is too long for a list of cards.
fn omit_large_context(mut view: RequestView) -> RequestView {
    let text = serde_json::to_string(&view.context);
    if text.is_ok_and(|text| text.len() > CARD_CONTEXT_BYTES_MAX) {
        view.context = serde_json::json!({ "omitted": true });
    }
    view
}

impl HandoffQueries {
    async fn find<E>(
        &self,
        workspace: &Workspace,
        id: &impl ToString,
    ) -> Result<Option<E::State>, Problem>
    where
        E: StateRow<PrimaryKey: PrimaryKeyTrait<ValueType = (String, String)>>,
    {
        let key = (workspace.to_string(), id.to_string());
        let found = E::load_states(&self.db, &[key]).await;
        Ok(found.map_err(failed)?.pop())
    }

    async fn request(
        &self,
        workspace: &Workspace,
        query: &GetRequest,
    ) -> Result<RequestView, Problem> {
        let found = self.find::<Requests>(workspace, &query.id).await?;
        let view = found.as_ref().and_then(Request::view);
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
        let known = store::known_requests(&self.db, workspace, &next).await;
        let known = known.map_err(failed)?;
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
        let limit = check_limit(query.limit)?;
        let order = read_order(query)?;
        let user = match &query.assignee {
            None => None,
            Some(name) => {
                let found = self.find::<Users>(workspace, name).await?;
                Some(found.ok_or_else(|| Refusal::NoUser(name.clone()).problem())?)
            }
        };
        let filter = Filter {
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
        let requests = requests.map_err(failed)?;
        let mut views: Vec<_> = requests.iter().filter_map(Request::view).collect();
        if query.cards {
            views = views.into_iter().map(omit_large_context).collect();
        }
        let mut page = cut_page(views, limit, |view| {
            format!("{}_{}", view.created_at.timestamp_millis(), view.id)
        });
        if let Order::Urgency { skip } = order {
            let so_far = skip + u64::try_from(page.items.len()).unwrap_or(limit);
            page.next_cursor = page.next_cursor.map(|_| so_far.to_string());
        }
        self.hide_ask_again(workspace, &mut page.items).await?;
        Ok(page)
    }

    async fn user(&self, workspace: &Workspace, query: GetUser) -> Result<UserView, Problem> {
        let found = self.find::<Users>(workspace, &query.name).await?;
        let view = found.as_ref().map(User::view);
        view.ok_or_else(|| Refusal::NoUser(query.name).problem())
    }

    async fn users(
        &self,
        workspace: &Workspace,
        query: &ListUsers,
    ) -> Result<Page<UserView>, Problem> {
        let limit = check_limit(query.limit)?;
        let after = query.cursor.as_deref();
        let users = store::list_users(&self.db, workspace, after, limit + 1).await;
        let views = users.map_err(failed)?.iter().map(User::view).collect();
        Ok(cut_page(views, limit, |view: &UserView| {
            view.name.to_string()
        }))
    }

    async fn policy(&self, workspace: &Workspace, query: GetPolicy) -> Result<PolicyView, Problem> {
        let mut built_in = built_in_policies().into_iter();
        if let Some(view) = built_in.find(|view| view.name == query.name) {
            return Ok(view);
        }
        let found = self.find::<Policies>(workspace, &query.name).await?;
        let live = found.filter(|policy| !policy.deleted);
        let view = live.as_ref().map(Policy::view);
        view.ok_or_else(|| Refusal::NoPolicy(query.name).problem())
    }

    /// All of them, because a workspace has few.
    async fn policies(&self, workspace: &Workspace) -> Result<Page<PolicyView>, Problem> {
        let own = store::list_policies(&self.db, workspace).await;
        let mut items = built_in_policies();
        items.extend(own.map_err(failed)?.iter().map(Policy::view));
        Ok(Page {
            items,
            next_cursor: None,
        })
    }

    async fn standing_approval(
        &self,
        workspace: &Workspace,
        query: GetStandingApproval,
    ) -> Result<StandingApprovalView, Problem> {
        let found = self.find::<StandingApprovals>(workspace, &query.id).await?;
        let approval = found.ok_or_else(|| Refusal::NoStandingApproval(query.id).problem())?;
        let uses = store::list_uses(&self.db, workspace, query.id).await;
        let uses = uses.map_err(failed)?;
        let used = uses.first().map_or(0, |newest| newest.number);
        let counted = CountedStandingApproval { approval, used };
        Ok(counted.view(self.clock.now(), uses))
    }

    async fn standing_approvals(
        &self,
        workspace: &Workspace,
        query: &ListStandingApprovals,
    ) -> Result<Page<StandingApprovalView>, Problem> {
        let limit = check_limit(query.limit)?;
        let after = query.cursor.as_deref().map(str::parse).transpose();
        let after =
            after.map_err(|_no_id| invalid("`cursor` is not one that a page before gave"))?;
        let now = self.clock.now();
        let filter = StandingApprovalFilter {
            after,
            agent: query.agent.as_ref(),
            tool: query.tool.as_ref(),
            lasting_at: query.lasting.then_some(now),
        };
        let found = store::list_standing_approvals(&self.db, workspace, &filter, limit + 1).await;
        let found = found.map_err(failed)?;
        let views = found.iter().map(|one| one.view(now, Vec::new())).collect();
        Ok(cut_page(views, limit, |view: &StandingApprovalView| {
            view.id.to_string()
        }))
    }

    async fn user_changes(&self, query: ListUserChanges) -> Result<Vec<UserChange>, Problem> {
        let limit = check_limit(query.limit)?;
        let changes = store::list_user_changes(&self.db, query.after, limit).await;
        let mut changes = changes.map_err(failed)?;
        cut_items(&mut changes, limit);
        Ok(changes)
    }
}
