//! Table `runs`: control state, and the columns that runs are found by.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use holdpoint_contracts::operation::{RunAction, RunFilter};
use holdpoint_contracts::run::{HoldKind, RunStatus};
use holdpoint_ids::{AgentName, ContactId, RunId, Workspace};
use holdpoint_store::{BrokenRow as _, StateRow as _, StoreError, contains_text, is_sqlite};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{Condition, QueryOrder, QuerySelect, QueryTrait as _, Select};

use crate::domain::scope::Cursor;
use crate::domain::{Run, awaited_reply, selected_status};

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "runs")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub workspace: String,
    pub agent: String,
    pub status: String,
    pub version: i64,
    pub prior_version: i64,
    pub state: String,
    pub labels: String,
    pub created_at: DateTimeUtc,
    pub resume_at: Option<DateTimeUtc>,
    pub ended_at: Option<DateTimeUtc>,
    /// The contact whose reply a step waits for.
    pub reply_of: Option<String>,
}

/// Columns that keep what the first writer gave them.
const CONSTANT: &[Column] = &[
    Column::Workspace,
    Column::Agent,
    Column::Labels,
    Column::CreatedAt,
];

state_row!(
    Run,
    |run, stored| ActiveModel {
        id: Set(run.id.uuid()),
        workspace: Set(run.workspace.to_string()),
        agent: Set(run.agent.to_string()),
        status: Set(run.status().as_str().to_owned()),
        version: Set(stored.version),
        prior_version: Set(stored.prior_version),
        state: Set(stored.state),
        labels: Set(serde_json::to_string(&run.labels).map_err(Entity::broken)?),
        created_at: Set(run.created_at),
        resume_at: Set(run.resume_at()),
        ended_at: Set(run.ended_at()),
        reply_of: Set(awaited_reply(run).map(ToString::to_string)),
    },
    CONSTANT
);

#[derive(Debug)]
pub(crate) struct Filter<'f> {
    pub(crate) workspace: &'f Workspace,
    pub(crate) status: Option<RunStatus>,
    /// With `status`, every open run too: a scope may apply to it that its row does not show yet.
    pub(crate) or_open: bool,
    /// Only open runs; the caller selects those that wait on a hold of this kind.
    pub(crate) hold: Option<HoldKind>,
    pub(crate) agent: Option<&'f AgentName>,
    pub(crate) label: Option<(&'f str, &'f str)>,
    pub(crate) created_after: Option<DateTime<Utc>>,
    /// Not later than this.
    pub(crate) created_until: Option<DateTime<Utc>>,
    /// Only runs that have not ended.
    pub(crate) is_open: bool,
    /// Only runs with a smaller id.
    pub(crate) before: Option<RunId>,
    pub(crate) limit: u64,
}

impl<'f> Filter<'f> {
    /// The runs that an operation acts on.
    pub(crate) fn of_operation(
        workspace: &'f Workspace,
        action: &RunAction,
        filter: &'f RunFilter,
        limit: u64,
    ) -> Self {
        let status = selected_status(action, filter);
        let label = filter.label.as_deref();
        Self {
            workspace,
            status,
            or_open: false,
            hold: filter.hold,
            agent: filter.agent.as_ref(),
            label: label.and_then(|label| label.split_once('=')),
            created_after: filter.created_after,
            created_until: None,
            is_open: status.is_none(),
            before: None,
            limit,
        }
    }
}

pub(crate) async fn with_ids(
    db: &impl ConnectionTrait,
    ids: &[RunId],
) -> Result<Vec<Run>, StoreError> {
    let ids: Vec<_> = ids.iter().map(|id| id.uuid()).collect();
    Entity::load_states(db, &ids).await
}

/// The statuses of the runs that exist. Their states are not read.
pub(crate) async fn statuses(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    ids: &[RunId],
) -> Result<HashMap<RunId, RunStatus>, StoreError> {
    let ids = ids.iter().map(|id| id.uuid());
    let rows: Vec<(Uuid, String)> = Entity::find()
        .select_only()
        .column(Column::Id)
        .column(Column::Status)
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.id.is_in(ids))
        .into_tuple()
        .all(db)
        .await?;
    let read = |(id, status): (Uuid, String)| {
        let status = status.parse().map_err(Entity::broken)?;
        Ok((RunId::from_uuid(id), status))
    };
    rows.into_iter().map(read).collect()
}

pub(crate) async fn one(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    id: RunId,
) -> Result<Option<Run>, StoreError> {
    let query = Entity::find_by_id(id.uuid()).filter(COLUMN.workspace.eq(workspace.as_str()));
    Entity::first(db, query).await
}

/// Runs, newest first.
pub(crate) async fn list(
    db: &impl ConnectionTrait,
    filter: &Filter<'_>,
) -> Result<Vec<Run>, StoreError> {
    let query = matching(db, filter)?.order_by_desc(Column::Id);
    Entity::page(db, query, filter.limit).await
}

/// How many runs match, at most the limit. The kind of hold is not in a column, so the count has each open run.
pub(crate) async fn count(
    db: &impl ConnectionTrait,
    filter: &Filter<'_>,
) -> Result<u64, StoreError> {
    let ids = matching(db, filter)?.select_only().column(Column::Id);
    let count = Query::select()
        .expr(Expr::col(Column::Id).count())
        .from_subquery(ids.limit(filter.limit).into_query(), "matching")
        .to_owned();
    let row = db.query_one(&count).await?;
    let count: i64 = row.map_or(Ok(0), |row| row.try_get_by_index(0))?;
    u64::try_from(count).map_err(Entity::broken)
}

fn matching(db: &impl ConnectionTrait, filter: &Filter<'_>) -> Result<Select<Entity>, StoreError> {
    let mut query = Entity::find().filter(COLUMN.workspace.eq(filter.workspace.as_str()));
    if let Some(status) = filter.status {
        // The database selects a partial index only if it sees its condition.
        let has_ended = if status.is_final() {
            COLUMN.ended_at.is_not_null()
        } else {
            COLUMN.ended_at.is_null()
        };
        let has_status = COLUMN.status.eq(status.as_str());
        let mut any = Condition::any().add(has_status.and(has_ended));
        if filter.or_open {
            any = any.add(COLUMN.ended_at.is_null());
        }
        query = query.filter(any);
    }
    if filter.hold.is_some() || filter.is_open {
        query = query.filter(COLUMN.ended_at.is_null());
    }
    if let Some(agent) = filter.agent {
        query = query.filter(COLUMN.agent.eq(agent.as_str()));
    }
    if let Some((name, value)) = filter.label {
        query = query.filter(has_label(db, name, value)?);
    }
    if let Some(after) = filter.created_after {
        query = query.filter(COLUMN.created_at.gt(after));
    }
    if let Some(until) = filter.created_until {
        query = query.filter(COLUMN.created_at.lte(until));
    }
    if let Some(before) = filter.before {
        query = query.filter(COLUMN.id.lt(before.uuid()));
    }
    Ok(query)
}

/// Runs of a workspace, or of one of its agents, that have not ended. They are in the order of agent
/// and id, after the given one.
pub(crate) async fn open(
    db: &impl ConnectionTrait,
    (workspace, agent): (&Workspace, Option<&AgentName>),
    after: Option<&Cursor>,
    limit: u64,
) -> Result<Vec<Cursor>, StoreError> {
    let mut query = Entity::find()
        .select_only()
        .column(Column::Agent)
        .column(Column::Id)
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.ended_at.is_null());
    if let Some(agent) = agent {
        query = query.filter(COLUMN.agent.eq(agent.as_str()));
    }
    if let Some(Cursor { agent, run }) = after {
        let place = Expr::tuple([Expr::col(Column::Agent), Expr::col(Column::Id)]);
        let last = Expr::tuple([Expr::val(agent.as_str()), Expr::val(run.uuid())]);
        query = query.filter(place.gt(last));
    }
    let rows: Vec<(String, Uuid)> = query
        .order_by_asc(Column::Agent)
        .order_by_asc(Column::Id)
        .limit(limit)
        .into_tuple()
        .all(db)
        .await?;
    let places = rows.into_iter().map(|(agent, id)| {
        Ok(Cursor {
            agent: agent.parse().map_err(Entity::broken)?,
            run: RunId::from_uuid(id),
        })
    });
    places.collect()
}

/// The runs of a contact.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OfContact<'c> {
    pub(crate) workspace: &'c Workspace,
    pub(crate) contact: &'c ContactId,
    /// Not later than this.
    pub(crate) created_until: Option<DateTime<Utc>>,
    /// Only runs with a greater id.
    pub(crate) after: Option<RunId>,
    pub(crate) limit: u64,
}

/// The runs of a contact in the order of their ids. No column has the contact: a column would cost every run, and only
/// an erasure asks.
pub(crate) async fn of_contact(
    db: &impl ConnectionTrait,
    of: OfContact<'_>,
) -> Result<Vec<Run>, StoreError> {
    let id = serde_json::to_string(of.contact).map_err(Entity::broken)?;
    // Only states that name the contact somewhere are parsed.
    let contact = if is_sqlite(db) {
        "json_extract(state, '$.contact')"
    } else {
        "state::json ->> 'contact'"
    };
    let mut query = Entity::find()
        .filter(COLUMN.workspace.eq(of.workspace.as_str()))
        .filter(contains_text(
            db,
            Column::State,
            format!("\"contact\":{id}"),
        ))
        .filter(Expr::cust(contact).eq(of.contact.as_str()));
    if let Some(until) = of.created_until {
        query = query.filter(COLUMN.created_at.lte(until));
    }
    if let Some(after) = of.after {
        query = query.filter(COLUMN.id.gt(after.uuid()));
    }
    Entity::page(db, query.order_by_asc(Column::Id), of.limit).await
}

/// A contact of a workspace.
pub(crate) type ContactKey = (Workspace, ContactId);

/// A run that waits for the reply of its contact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AwaitedReply {
    pub(crate) run: RunId,
    pub(crate) contact: ContactKey,
}

/// Runs that wait for a reply of one of these contacts.
pub(crate) async fn awaiting_reply_of(
    db: &impl ConnectionTrait,
    contacts: &[ContactKey],
    limit: u64,
) -> Result<Vec<AwaitedReply>, StoreError> {
    let mut any = Condition::any();
    for (workspace, contact) in contacts {
        let workspace = COLUMN.workspace.eq(workspace.as_str());
        any = any.add(workspace.and(COLUMN.reply_of.eq(contact.as_str())));
    }
    read_awaited(db, Entity::find().filter(any).limit(limit)).await
}

/// Runs that wait for a reply, in the order of their ids, after the given id.
pub(crate) async fn awaiting_reply(
    db: &impl ConnectionTrait,
    after: Option<RunId>,
    limit: u64,
) -> Result<Vec<AwaitedReply>, StoreError> {
    let mut query = Entity::find();
    if let Some(after) = after {
        query = query.filter(COLUMN.id.gt(after.uuid()));
    }
    read_awaited(db, query.order_by_asc(Column::Id).limit(limit)).await
}

async fn read_awaited(
    db: &impl ConnectionTrait,
    query: Select<Entity>,
) -> Result<Vec<AwaitedReply>, StoreError> {
    let rows: Vec<(Uuid, String, String)> = query
        .filter(COLUMN.reply_of.is_not_null())
        .select_only()
        .column(Column::Id)
        .column(Column::Workspace)
        .column(Column::ReplyOf)
        .into_tuple()
        .all(db)
        .await?;
    let awaited = rows.into_iter().map(|(run, workspace, contact)| {
        Ok(AwaitedReply {
            run: RunId::from_uuid(run),
            contact: (
                workspace.parse().map_err(Entity::broken)?,
                contact.parse().map_err(Entity::broken)?,
            ),
        })
    });
    awaited.collect()
}

/// Whether the column's JSON contains `"name":"value"`, first or after another label.
fn has_label(db: &impl ConnectionTrait, name: &str, value: &str) -> Result<Condition, StoreError> {
    let json = |text: &str| serde_json::to_string(text).map_err(Entity::broken);
    let pair = format!("{}:{}", json(name)?, json(value)?);
    let contains = |before: char| contains_text(db, Column::Labels, format!("{before}{pair}"));
    Ok(Condition::any().add(contains('{')).add(contains(',')))
}
