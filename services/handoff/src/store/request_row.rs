//! Table `requests`: control state, and the columns that requests are found by.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use holdpoint_contracts::handoff::RequestStatus;
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::{HoldId, RunId, UserName, Workspace};
use holdpoint_store::{
    BrokenRow as _, ROWS_PER_STATEMENT, StateRow, StoreError, StoredState, is_sqlite,
};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::{Condition, QueryOrder, QuerySelect, Select};

use super::list_columns::{has_token, is_snoozed_by, join_snoozes, join_tokens};
use crate::domain::{Owner, Recipient, Request, User};

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "requests")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub workspace: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    pub version: i64,
    pub prior_version: i64,
    pub status: String,
    pub kind: Option<String>,
    pub run_id: Option<Uuid>,
    pub effect: Option<String>,
    pub deadline_at: Option<DateTimeUtc>,
    pub state: String,
    pub created_at: DateTimeUtc,
    pub updated_at: DateTimeUtc,
    pub stage: Option<String>,
    pub assignee: Option<String>,
    pub audience: String,
    pub priority: String,
    pub snoozed_until: Option<DateTimeUtc>,
    pub additional_deciders: String,
    pub voters: String,
    pub snoozed_by: String,
}

impl ActiveModelBehavior for ActiveModel {}

impl StateRow for Entity {
    type State = Request;

    const CONSTANT: &'static [Column] = &[Column::RunId, Column::CreatedAt];

    fn state(row: &Model) -> &str {
        &row.state
    }

    fn version(request: &Request) -> u64 {
        request.version
    }

    fn row(request: &Request, stored: StoredState) -> Result<ActiveModel, StoreError> {
        let kind = request.spec.as_ref().map(|spec| spec.kind);
        let run = request.owner.map(|Owner::Executor| request.id.run.uuid());
        let status = request.status();
        let mut audience = request.deciders();
        // A request without recipients belongs to the owners, beside the deciders it was delegated to.
        if request.addressed_to().is_empty() {
            audience.push("@role.owner".to_owned());
        }
        // With a quorum each recipient decides, even after another one accepted the request.
        let deciders = if request.needs_votes() {
            &audience
        } else {
            &request.progress.additional_deciders
        };
        let votes = request.progress.votes.iter();
        let voters = votes.filter(|_| request.is_open());
        let (assignee, snoozed) = (
            request.progress.assignee.as_ref(),
            request.progress.snoozed_until,
        );
        Ok(ActiveModel {
            workspace: Set(request.workspace.to_string()),
            id: Set(request.id.to_string()),
            version: Set(stored.version),
            prior_version: Set(stored.prior_version),
            status: Set(status_text(status).to_owned()),
            kind: Set(kind.map(|kind| kind.as_str().to_owned())),
            run_id: Set(run),
            effect: Set(request.effect.map(|effect| effect.as_str().to_owned())),
            deadline_at: Set(request.deadline()),
            state: Set(stored.state),
            created_at: Set(request.created_at),
            updated_at: Set(stored.now),
            stage: Set(stage_text(status).map(str::to_owned)),
            assignee: Set(assignee.map(ToString::to_string)),
            audience: Set(join_tokens(audience.iter().map(String::as_str))),
            priority: Set(request.priority().as_str().to_owned()),
            snoozed_until: Set(snoozed.filter(|_| request.is_open())),
            additional_deciders: Set(join_tokens(deciders.iter().map(String::as_str))),
            snoozed_by: Set(if request.is_open() {
                join_snoozes(&request.progress.snoozed)
            } else {
                String::new()
            }),
            voters: Set(join_tokens(voters.map(|vote| vote.by.as_str()))),
        })
    }
}

/// The last request of a page; the next page follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestCursor {
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) id: HoldId,
}

/// Which requests a list contains.
#[derive(Debug)]
pub(crate) struct Filter<'f> {
    pub(crate) workspace: &'f Workspace,
    pub(crate) status: Option<RequestStatus>,
    pub(crate) kind: Option<HoldKind>,
    pub(crate) run: Option<RunId>,
    pub(crate) priority: Option<Priority>,
    /// Only requests that the user has or may take.
    pub(crate) assignee: Option<&'f User>,
    /// Only snoozed requests, or only others.
    pub(crate) snoozed: Option<Snoozed<'f>>,
    /// Without timers, which ask no person.
    pub(crate) asks: bool,
    pub(crate) order: Order,
    pub(crate) limit: u64,
}

/// Selects requests by whether they are snoozed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Snoozed<'f> {
    pub(crate) is_wanted: bool,
    /// The user who snoozed it; absent: its assignee.
    pub(crate) by: Option<&'f UserName>,
    pub(crate) now: DateTime<Utc>,
}

/// The order of a list, and where the page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Newest first.
    Newest { after: Option<RequestCursor> },
    /// By priority, then by deadline, then oldest first; the first `skip` requests are left out.
    Urgency { skip: u64 },
}

/// Which of these ids are known requests.
pub(crate) async fn known_requests(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    ids: &[HoldId],
) -> Result<BTreeSet<HoldId>, StoreError> {
    let mut known = BTreeSet::new();
    for chunk in ids.chunks(ROWS_PER_STATEMENT) {
        let found = Entity::find()
            .filter(COLUMN.workspace.eq(workspace.as_str()))
            .filter(COLUMN.id.is_in(chunk.iter().map(HoldId::to_string)))
            .select_only()
            .column(Column::Id)
            .into_tuple::<String>()
            .all(db)
            .await?;
        for id in found {
            known.insert(id.parse().map_err(Entity::broken)?);
        }
    }
    Ok(known)
}

/// Requests that a filter selects. Tombstones of holds that were never opened have no kind and are left out.
pub(crate) async fn list_requests(
    db: &impl ConnectionTrait,
    filter: &Filter<'_>,
) -> Result<Vec<Request>, StoreError> {
    let mut query = Entity::find().filter(COLUMN.workspace.eq(filter.workspace.as_str()));
    query = match filter.kind {
        Some(kind) => query.filter(COLUMN.kind.eq(kind.as_str())),
        None => query.filter(COLUMN.kind.is_not_null()),
    };
    let timer = HoldKind::Timer.as_str();
    let conditions = Condition::all()
        .add_option(filter.status.map(with_status))
        .add_option(filter.priority.map(|one| COLUMN.priority.eq(one.as_str())))
        .add_option(filter.assignee.map(is_for))
        .add_option(filter.asks.then(|| COLUMN.kind.ne(timer)))
        .add_option(filter.snoozed.map(|one| is_snoozed(one, is_sqlite(db))))
        .add_option(filter.run.map(|run| COLUMN.run_id.eq(run.uuid())));
    query = query.filter(conditions);
    let query = match filter.order {
        Order::Newest { after } => newest_first(query, after),
        Order::Urgency { skip } => most_urgent_first(query).offset(skip),
    };
    Entity::page(db, query, filter.limit).await
}

fn is_snoozed(snoozed: Snoozed<'_>, is_sqlite: bool) -> Condition {
    let Snoozed { is_wanted, by, now } = snoozed;
    if let Some(by) = by {
        let is_snoozed = is_snoozed_by(Column::SnoozedBy, by, now, is_sqlite);
        let condition = Condition::all().add(is_snoozed);
        return if is_wanted {
            condition
        } else {
            condition.not()
        };
    }
    if is_wanted {
        return Condition::all().add(COLUMN.snoozed_until.gt(now));
    }
    Condition::any()
        .add(COLUMN.snoozed_until.is_null())
        .add(COLUMN.snoozed_until.lte(now))
}

fn newest_first(mut query: Select<Entity>, after: Option<RequestCursor>) -> Select<Entity> {
    if let Some(RequestCursor { created_at, id }) = after {
        let same = Condition::all()
            .add(COLUMN.created_at.eq(created_at))
            .add(COLUMN.id.lt(id.to_string()));
        let before = COLUMN.created_at.lt(created_at);
        query = query.filter(Condition::any().add(before).add(same));
    }
    query
        .order_by_desc(Column::CreatedAt)
        .order_by_desc(Column::Id)
}

fn most_urgent_first(query: Select<Entity>) -> Select<Entity> {
    let ranks = Priority::ALL.into_iter().rev().enumerate();
    let ranks = ranks.map(|(rank, one)| format!("WHEN '{}' THEN {rank}", one.as_str()));
    let rank = format!("CASE priority {} END", ranks.collect::<Vec<_>>().join(" "));
    let is_endless = "CASE WHEN deadline_at IS NULL THEN 1 ELSE 0 END";
    query
        .order_by_asc(Expr::cust(rank))
        .order_by_asc(Expr::cust(is_endless))
        .order_by_asc(Column::DeadlineAt)
        .order_by_asc(Column::CreatedAt)
        .order_by_asc(Column::Id)
}

/// The text in the column `status`, which is the same for all kinds of requests.
const fn status_text(status: RequestStatus) -> &'static str {
    match status {
        RequestStatus::Open
        | RequestStatus::Offered
        | RequestStatus::Accepted
        | RequestStatus::TakenOver
        | RequestStatus::Reassigned => "open",
        RequestStatus::Decided | RequestStatus::Completed => "decided",
        RequestStatus::Expired => "expired",
        RequestStatus::Withdrawn => "withdrawn",
    }
}

/// The text in the column `stage`, which only handoffs have.
const fn stage_text(status: RequestStatus) -> Option<&'static str> {
    match status {
        RequestStatus::Offered
        | RequestStatus::Accepted
        | RequestStatus::TakenOver
        | RequestStatus::Reassigned
        | RequestStatus::Completed => Some(status.as_str()),
        RequestStatus::Open
        | RequestStatus::Decided
        | RequestStatus::Expired
        | RequestStatus::Withdrawn => None,
    }
}

/// `open` selects every request without a decision, whatever its stage.
fn with_status(status: RequestStatus) -> Condition {
    let condition = Condition::all().add(COLUMN.status.eq(status_text(status)));
    match (status, stage_text(status)) {
        (_, Some(stage)) => condition.add(COLUMN.stage.eq(stage)),
        (RequestStatus::Decided, None) => condition.add(COLUMN.stage.is_null()),
        (_, None) => condition,
    }
}

/// Requests that a user has, may take or was delegated, by name or by role. Requests that the user has
/// voted on are left out, because they wait for other votes.
fn is_for(user: &User) -> Condition {
    let is_in = |column: Column| {
        let by_name = has_token(column, &format!("@user.{}", user.name));
        let roles = user.roles.iter();
        roles.fold(Condition::any().add(by_name), |any, role| {
            any.add(has_token(column, &format!("@role.{role}")))
        })
    };
    let free = Condition::all()
        .add(COLUMN.assignee.is_null())
        .add(is_in(Column::Audience));
    let theirs = Condition::any()
        .add(COLUMN.assignee.eq(user.name.as_str()))
        .add(is_in(Column::AdditionalDeciders))
        .add(free);
    let has_voted = Condition::any().add(has_token(Column::Voters, user.name.as_str()));
    Condition::all().add(theirs).add(has_voted.not())
}

/// Open requests that a user has, or that are addressed to the user or the role.
pub(crate) async fn list_requests_of(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    recipient: &Recipient,
    (after, limit): (Option<HoldId>, u64),
) -> Result<Vec<HoldId>, StoreError> {
    let is_addressed = has_token(Column::Audience, &recipient.to_string());
    let is_theirs = match recipient {
        Recipient::User(name) => Condition::any()
            .add(COLUMN.assignee.eq(name.as_str()))
            .add(is_addressed),
        Recipient::Role(_) => Condition::all()
            .add(COLUMN.assignee.is_null())
            .add(is_addressed),
    };
    let after = after.map(|id| id.to_string()).unwrap_or_default();
    let ids = Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.status.eq("open"))
        .filter(is_theirs)
        .filter(COLUMN.id.gt(after))
        .select_only()
        .column(Column::Id)
        .order_by_asc(Column::Id)
        .limit(limit)
        .into_tuple::<String>()
        .all(db)
        .await?;
    ids.iter()
        .map(|id| id.parse().map_err(Entity::broken))
        .collect()
}

/// The number of open requests of each user of workspaces.
pub(crate) async fn count_loads(
    db: &impl ConnectionTrait,
    workspaces: &[&Workspace],
) -> Result<Vec<(Workspace, BTreeMap<UserName, u64>)>, StoreError> {
    if workspaces.is_empty() {
        return Ok(Vec::new());
    }
    let names = workspaces.iter().map(|one| one.as_str());
    let rows = Entity::find()
        .filter(COLUMN.workspace.is_in(names))
        .filter(COLUMN.status.eq("open"))
        .filter(COLUMN.assignee.is_not_null())
        .select_only()
        .column(Column::Workspace)
        .column(Column::Assignee)
        .column_as(Column::Id.count(), "count")
        .group_by(Column::Workspace)
        .group_by(Column::Assignee)
        .into_tuple::<(String, String, i64)>()
        .all(db)
        .await?;
    let with_loads = |workspace: &&Workspace| {
        let loads = rows.iter().filter(|row| row.0 == workspace.as_str());
        let loads = loads.map(|(_, name, count)| {
            let count = u64::try_from(*count).map_err(Entity::broken)?;
            Ok((name.parse().map_err(Entity::broken)?, count))
        });
        let loads = loads.collect::<Result<_, StoreError>>()?;
        Ok(((*workspace).clone(), loads))
    };
    workspaces.iter().map(with_loads).collect()
}
