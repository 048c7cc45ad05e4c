//! Table `requests`: control state, and the columns that requests are found by.
#![expect(
    clippy::disallowed_methods,
    reason = "the entity macro generates a nested save that begins"
)]
#![expect(unreachable_pub, reason = "the entity macro wants a public model")]

use std::collections::{BTreeMap, BTreeSet, HashSet};

use chrono::{DateTime, Utc};
use holdpoint_contracts::handoff::{Effect as DecisionEffect, RequestStatus};
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::{HoldId, RunId, UserName, Workspace};
use holdpoint_store::{ROWS_PER_STATEMENT, SPARE_ROWS, StoreError, guarded, readable};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::{Condition, DbBackend, QueryOrder, QuerySelect, Select};

use super::away;
use super::words::{has_word, words};
use crate::domain::{Key, Owner, Recipient, Request, User};

const TABLE: &str = "requests";

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
    pub also: String,
    pub voted: String,
    pub away: String,
}

impl ActiveModelBehavior for ActiveModel {}

/// The last one of a page: the next page is behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Behind {
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) id: HoldId,
}

/// Which requests a list is to have.
#[derive(Debug)]
pub(crate) struct Filter<'f> {
    pub(crate) workspace: &'f Workspace,
    pub(crate) status: Option<RequestStatus>,
    pub(crate) kind: Option<HoldKind>,
    pub(crate) run: Option<RunId>,
    pub(crate) priority: Option<Priority>,
    /// Only what they have, or may take.
    pub(crate) assignee: Option<&'f User>,
    /// Only what is put away, or only what is not.
    pub(crate) snoozed: Option<Snoozed<'f>>,
    /// Without what asks nobody.
    pub(crate) asks: bool,
    pub(crate) order: Order,
    pub(crate) limit: u64,
}

/// Whether somebody has put something away.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Snoozed<'f> {
    pub(crate) is_wanted: bool,
    /// Who; none: whoever has it.
    pub(crate) by: Option<&'f UserName>,
    pub(crate) now: DateTime<Utc>,
}

/// In which order, and from where on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Newest first.
    Newest { behind: Option<Behind> },
    /// By priority, then by deadline, then the oldest; so many are skipped.
    Urgency { skip: u64 },
}

fn broken(error: impl std::fmt::Display) -> StoreError {
    StoreError::broken(TABLE, error)
}

fn read(row: &Model) -> Result<Request, StoreError> {
    serde_json::from_str(&row.state).map_err(broken)
}

pub(crate) async fn load(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    ids: &[HoldId],
) -> Result<Vec<Request>, StoreError> {
    let mut requests = Vec::with_capacity(ids.len());
    for chunk in ids.chunks(ROWS_PER_STATEMENT) {
        let rows = Entity::find()
            .filter(COLUMN.workspace.eq(workspace.as_str()))
            .filter(COLUMN.id.is_in(chunk.iter().map(HoldId::to_string)))
            .all(db)
            .await?;
        for row in &rows {
            requests.push(read(row)?);
        }
    }
    Ok(requests)
}

/// Which of these ids there is a request of.
pub(crate) async fn known(
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
            known.insert(id.parse().map_err(broken)?);
        }
    }
    Ok(known)
}

/// Requests, newest first; tombstones of what was never known are not among them.
pub(crate) async fn list(
    db: &impl ConnectionTrait,
    filter: &Filter<'_>,
) -> Result<Vec<Request>, StoreError> {
    let mut query = Entity::find().filter(COLUMN.workspace.eq(filter.workspace.as_str()));
    query = match filter.kind {
        Some(kind) => query.filter(COLUMN.kind.eq(kind.as_str())),
        None => query.filter(COLUMN.kind.is_not_null()),
    };
    if let Some(status) = filter.status {
        query = query.filter(with_status(status));
    }
    if let Some(priority) = filter.priority {
        query = query.filter(COLUMN.priority.eq(priority.as_str()));
    }
    if let Some(user) = filter.assignee {
        query = query.filter(is_for(user));
    }
    if filter.asks {
        query = query.filter(COLUMN.kind.ne(HoldKind::Timer.as_str()));
    }
    if let Some(snoozed) = filter.snoozed {
        let is_sqlite = db.get_database_backend() == DbBackend::Sqlite;
        query = query.filter(put_away(snoozed, is_sqlite));
    }
    if let Some(run) = filter.run {
        query = query.filter(COLUMN.run_id.eq(run.uuid()));
    }
    let query = match filter.order {
        Order::Newest { behind } => newest_first(query, behind),
        Order::Urgency { skip } => most_urgent_first(query).offset(skip),
    };
    let rows = query
        .limit(filter.limit.saturating_add(SPARE_ROWS))
        .all(db)
        .await?;
    Ok(readable(
        rows,
        filter.limit,
        |row| row.id.clone(),
        |row| read(&row),
    ))
}

fn put_away(snoozed: Snoozed<'_>, is_sqlite: bool) -> Condition {
    let Snoozed { is_wanted, by, now } = snoozed;
    match (by, is_wanted) {
        (Some(by), true) => Condition::all().add(away::is_away(Column::Away, (by, now), is_sqlite)),
        (Some(by), false) => Condition::all()
            .add(away::is_away(Column::Away, (by, now), is_sqlite))
            .not(),
        (None, true) => Condition::all().add(COLUMN.snoozed_until.gt(now)),
        (None, false) => Condition::any()
            .add(COLUMN.snoozed_until.is_null())
            .add(COLUMN.snoozed_until.lte(now)),
    }
}

fn newest_first(mut query: Select<Entity>, behind: Option<Behind>) -> Select<Entity> {
    if let Some(Behind { created_at, id }) = behind {
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

/// The word in the column `status`: how it stands, whatever its kind.
const fn coarse(status: RequestStatus) -> &'static str {
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

/// The word in the column `stage`: how far a handoff is.
const fn stage(status: RequestStatus) -> Option<&'static str> {
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

/// `open` finds everything that nobody has decided.
fn with_status(status: RequestStatus) -> Condition {
    let condition = Condition::all().add(COLUMN.status.eq(coarse(status)));
    match (status, stage(status)) {
        (_, Some(stage)) => condition.add(COLUMN.stage.eq(stage)),
        (RequestStatus::Decided, None) => condition.add(COLUMN.stage.is_null()),
        (_, None) => condition,
    }
}

/// What a user has, or may take, or was delegated: by name, or by one of their roles; not what waits for
/// the votes of others only.
fn is_for(user: &User) -> Condition {
    let is_in = |column: Column| {
        let by_name = has_word(column, &format!("@user.{}", user.name));
        let roles = user.roles.iter();
        roles.fold(Condition::any().add(by_name), |any, role| {
            any.add(has_word(column, &format!("@role.{role}")))
        })
    };
    let free = Condition::all()
        .add(COLUMN.assignee.is_null())
        .add(is_in(Column::Audience));
    let theirs = Condition::any()
        .add(COLUMN.assignee.eq(user.name.as_str()))
        .add(is_in(Column::Also))
        .add(free);
    let has_voted = Condition::any().add(has_word(Column::Voted, user.name.as_str()));
    Condition::all().add(theirs).add(has_voted.not())
}

/// Open requests of those who are gone: that a user has, or that are put to the user or the role.
pub(crate) async fn of_party(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    gone: &Recipient,
    (after, limit): (Option<HoldId>, u64),
) -> Result<Vec<HoldId>, StoreError> {
    let is_put_to = has_word(Column::Audience, &gone.to_string());
    let is_theirs = match gone {
        Recipient::User(name) => Condition::any()
            .add(COLUMN.assignee.eq(name.as_str()))
            .add(is_put_to),
        Recipient::Role(_) => Condition::all()
            .add(COLUMN.assignee.is_null())
            .add(is_put_to),
    };
    let ids = Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.status.eq("open"))
        .filter(is_theirs)
        .filter(
            COLUMN
                .id
                .gt(after.map(|id| id.to_string()).unwrap_or_default()),
        )
        .select_only()
        .column(Column::Id)
        .order_by_asc(Column::Id)
        .limit(limit)
        .into_tuple::<String>()
        .all(db)
        .await?;
    ids.iter().map(|id| id.parse().map_err(broken)).collect()
}

/// How many open requests each user of workspaces has.
pub(crate) async fn loads(
    db: &impl ConnectionTrait,
    workspaces: &[&Workspace],
) -> Result<Vec<(Workspace, BTreeMap<UserName, u64>)>, StoreError> {
    if workspaces.is_empty() {
        return Ok(Vec::new());
    }
    let rows = Entity::find()
        .filter(
            COLUMN
                .workspace
                .is_in(workspaces.iter().map(|one| one.as_str())),
        )
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
    let of = |workspace: &&Workspace| {
        let loads = rows.iter().filter(|row| row.0 == workspace.as_str());
        let loads = loads.map(|(_, name, count)| {
            let count = u64::try_from(*count).map_err(broken)?;
            Ok((name.parse().map_err(broken)?, count))
        });
        let loads = loads.collect::<Result<_, StoreError>>()?;
        Ok(((*workspace).clone(), loads))
    };
    workspaces.iter().map(of).collect()
}

pub(crate) async fn save(
    db: &impl ConnectionTrait,
    requests: &[(&Request, u64)],
    now: DateTime<Utc>,
) -> Result<Vec<Key>, StoreError> {
    let columns = [
        "status",
        "kind",
        "effect",
        "deadline_at",
        "state",
        "updated_at",
        "stage",
        "assignee",
        "audience",
        "priority",
        "snoozed_until",
        "also",
        "voted",
        "away",
    ];
    let mut losers = Vec::new();
    for chunk in requests.chunks(ROWS_PER_STATEMENT) {
        let rows = chunk
            .iter()
            .map(|(request, read)| active(request, *read, now));
        let won: HashSet<(String, String)> =
            Entity::insert_many(rows.collect::<Result<Vec<_>, _>>()?)
                .on_conflict(guarded(TABLE, &["workspace", "id"], &columns))
                .exec_with_returning_keys(db)
                .await?
                .into_iter()
                .collect();
        let has_lost = |request: &Request| {
            !won.contains(&(request.workspace.to_string(), request.id.to_string()))
        };
        let lost = chunk.iter().filter(|(request, _)| has_lost(request));
        losers.extend(lost.map(|(one, _)| Key::Request(one.workspace.clone(), one.id)));
    }
    Ok(losers)
}

fn active(request: &Request, read: u64, now: DateTime<Utc>) -> Result<ActiveModel, StoreError> {
    let kind = request.spec.as_ref().map(|spec| spec.kind);
    let run = request.owner.map(|Owner::Executor| request.id.run.uuid());
    let status = request.status();
    let mut audience = request.deciders();
    // The owners keep what others were given too.
    if request.addressed_to().is_empty() {
        audience.push("@role.owner".to_owned());
    }
    // Whoever accepts what several must agree on takes it from nobody.
    let also = match request.needs_votes() {
        true => &audience,
        false => &request.progress.additional_deciders,
    };
    let votes = request.progress.votes.iter();
    let voted = votes.filter(|_| request.is_open());
    let (assignee, snoozed) = (
        request.progress.assignee.as_ref(),
        request.progress.snoozed_until,
    );
    Ok(ActiveModel {
        workspace: Set(request.workspace.to_string()),
        id: Set(request.id.to_string()),
        version: Set(i64::try_from(request.version).map_err(broken)?),
        prior_version: Set(i64::try_from(read).map_err(broken)?),
        status: Set(coarse(status).to_owned()),
        kind: Set(kind.map(|kind| kind.as_str().to_owned())),
        run_id: Set(run),
        effect: Set(request.effect.map(|effect| word(effect).to_owned())),
        deadline_at: Set(request.deadline()),
        state: Set(serde_json::to_string(request).map_err(broken)?),
        created_at: Set(request.created_at),
        updated_at: Set(now),
        stage: Set(stage(status).map(str::to_owned)),
        assignee: Set(assignee.map(ToString::to_string)),
        audience: Set(words(audience.iter().map(String::as_str))),
        priority: Set(request.priority().as_str().to_owned()),
        snoozed_until: Set(snoozed.filter(|_| request.is_open())),
        also: Set(words(also.iter().map(String::as_str))),
        away: Set(match request.is_open() {
            true => away::written(&request.progress.snoozed),
            false => String::new(),
        }),
        voted: Set(words(voted.map(|vote| vote.by.as_str()))),
    })
}

const fn word(effect: DecisionEffect) -> &'static str {
    match effect {
        DecisionEffect::Applied => "applied",
        DecisionEffect::OnResume => "on_resume",
        DecisionEffect::RunEnded => "run_ended",
        DecisionEffect::Pending => "pending",
    }
}
