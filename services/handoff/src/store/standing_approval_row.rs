//! Table `standing_approvals`: the terms, and the columns that requests find them by.

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, StandingApprovalId, ToolName, Workspace};
use holdpoint_store::{ROWS_PER_STATEMENT, StateRow, StoreError, StoredState};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _};
use sea_orm::{Condition, QueryOrder, QuerySelect as _};

use super::standing_approval_use_row::{self, count_uses};
use crate::domain::{CallKind, CountedStandingApproval, Fact, Need, StandingApproval};

/// Most rows of one call. Two replicas may exceed the limit of the domain.
const LOADED_MAX: u64 = 50;

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "standing_approvals")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub workspace: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    pub version: i64,
    pub prior_version: i64,
    pub agent: String,
    pub tool: String,
    /// `<run>/<step>` of an early approval, else empty.
    pub planned_call: String,
    pub expires_at: DateTimeUtc,
    pub is_revoked: bool,
    pub state: String,
}

impl ActiveModelBehavior for ActiveModel {}

impl StateRow for Entity {
    type State = StandingApproval;

    const CONSTANT: &'static [Column] = &[
        Column::Agent,
        Column::Tool,
        Column::PlannedCall,
        Column::ExpiresAt,
    ];

    fn state(row: &Model) -> &str {
        &row.state
    }

    fn version(approval: &StandingApproval) -> u64 {
        approval.version
    }

    fn row(approval: &StandingApproval, stored: StoredState) -> Result<ActiveModel, StoreError> {
        Ok(ActiveModel {
            workspace: Set(approval.workspace.to_string()),
            id: Set(approval.id.to_string()),
            version: Set(stored.version),
            prior_version: Set(stored.prior_version),
            agent: Set(approval.terms.agent.to_string()),
            tool: Set(approval.terms.tool.to_string()),
            planned_call: Set(approval.call_kind().planned.unwrap_or_default()),
            expires_at: Set(approval.expires_at()),
            is_revoked: Set(approval.revoked.is_some()),
            state: Set(stored.state),
        })
    }
}

/// Those that requests for such calls may use, with the number of their uses.
pub(super) async fn find_for_calls(
    db: &impl ConnectionTrait,
    wanted: &[(&Workspace, &CallKind, DateTime<Utc>)],
) -> Result<Vec<(Need, Fact)>, StoreError> {
    let Some((_, _, now)) = wanted.first() else {
        return Ok(Vec::new());
    };
    let of_call = |(workspace, kind, _): &(&Workspace, &CallKind, DateTime<Utc>)| {
        Condition::all()
            .add(COLUMN.workspace.eq(workspace.as_str()))
            .add(COLUMN.agent.eq(kind.agent.as_str()))
            .add(COLUMN.tool.eq(kind.tool.as_str()))
            .add(
                COLUMN
                    .planned_call
                    .eq(kind.planned.as_deref().unwrap_or_default()),
            )
    };
    let mut found = Vec::new();
    for chunk in wanted.chunks(ROWS_PER_STATEMENT) {
        let calls = chunk.iter().map(of_call);
        let query = Entity::find()
            .filter(calls.fold(Condition::any(), Condition::add))
            .filter(COLUMN.is_revoked.eq(false))
            .filter(COLUMN.expires_at.gt(*now));
        let limit = LOADED_MAX * chunk.len() as u64;
        found.extend(Entity::page(db, query, limit).await?);
    }
    let found = count_all(db, found).await?;
    let facts = wanted.iter().map(|(workspace, kind, now)| {
        let is_wanted = |one: &&CountedStandingApproval| {
            one.approval.workspace == **workspace && one.approval.call_kind() == **kind
        };
        let need = Need::StandingApprovals((*workspace).clone(), (*kind).clone(), *now);
        let of_call = found.iter().filter(is_wanted).cloned().collect();
        (need, Fact::StandingApprovals(of_call))
    });
    Ok(facts.collect())
}

async fn count_all(
    db: &impl ConnectionTrait,
    found: Vec<StandingApproval>,
) -> Result<Vec<CountedStandingApproval>, StoreError> {
    let uses = count_uses(db, &found).await?;
    let counted = found.into_iter().map(|approval| CountedStandingApproval {
        used: uses.get(&approval.id).copied().unwrap_or_default(),
        approval,
    });
    Ok(counted.collect())
}

/// The counts that are wanted ([`Need::StandingApprovalCount`]).
pub(super) async fn count_live(
    db: &impl ConnectionTrait,
    wanted: &[&Need],
) -> Result<Vec<(Need, Fact)>, StoreError> {
    let mut found = Vec::with_capacity(wanted.len());
    // People create standing approvals by hand, so that a batch rarely has more than one workspace.
    for need in wanted {
        let Need::StandingApprovalCount {
            workspace,
            is_early,
            now,
        } = need
        else {
            continue;
        };
        let planned = COLUMN.planned_call;
        let is_of_kind = if *is_early {
            planned.ne("")
        } else {
            planned.eq("")
        };
        let count = Entity::find()
            .filter(COLUMN.workspace.eq(workspace.as_str()))
            .filter(is_of_kind)
            .filter(COLUMN.is_revoked.eq(false))
            .filter(COLUMN.expires_at.gt(*now))
            .count(db)
            .await?;
        found.push(((*need).clone(), Fact::StandingApprovalCount(count)));
    }
    Ok(found)
}

/// Which standing approvals of a workspace are listed.
#[derive(Debug, Default)]
pub(crate) struct StandingApprovalFilter<'f> {
    pub(crate) after: Option<StandingApprovalId>,
    pub(crate) agent: Option<&'f AgentName>,
    pub(crate) tool: Option<&'f ToolName>,
    /// Neither expired then nor revoked, and for more than one call.
    pub(crate) lasting_at: Option<DateTime<Utc>>,
}

/// A page of a workspace's standing approvals, newest first.
pub(crate) async fn list_standing_approvals(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    filter: &StandingApprovalFilter<'_>,
    limit: u64,
) -> Result<Vec<CountedStandingApproval>, StoreError> {
    let StandingApprovalFilter {
        after,
        agent,
        tool,
        lasting_at,
    } = filter;
    let lasting = lasting_at.map(|now| {
        Condition::all()
            .add(COLUMN.planned_call.eq(""))
            .add(COLUMN.is_revoked.eq(false))
            .add(COLUMN.expires_at.gt(now))
    });
    let wanted = Condition::all()
        .add(COLUMN.workspace.eq(workspace.as_str()))
        .add_option(after.map(|after| COLUMN.id.lt(after.to_string())))
        .add_option(agent.map(|agent| COLUMN.agent.eq(agent.as_str())))
        .add_option(tool.map(|tool| COLUMN.tool.eq(tool.as_str())))
        .add_option(lasting);
    let query = Entity::find().filter(wanted).order_by_desc(Column::Id);
    let found = Entity::page(db, query, limit).await?;
    count_all(db, found).await
}

/// Whether one has expired before an instant.
pub(super) async fn has_expired(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<bool, StoreError> {
    Ok(!expired(db, before, 1).await?.is_empty())
}

/// Deletes those that expired first, with their uses. The requests keep the decisions.
pub(super) async fn delete_expired(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
    limit: u64,
) -> Result<(), StoreError> {
    let expired = expired(db, before, limit).await?;
    if expired.is_empty() {
        return Ok(());
    }
    standing_approval_use_row::delete_all(db, &expired).await?;
    let key = Expr::tuple([Expr::col(Column::Workspace), Expr::col(Column::Id)]);
    let delete = Entity::delete_many().filter(key.in_tuples(expired));
    delete.exec(db).await?;
    Ok(())
}

async fn expired(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<(String, String)>, StoreError> {
    let expired = Entity::find()
        .select_only()
        .columns([Column::Workspace, Column::Id])
        .filter(COLUMN.expires_at.lt(before))
        .order_by_asc(Column::ExpiresAt)
        .limit(limit);
    Ok(expired.into_tuple().all(db).await?)
}
