//! Table `steps`: the request and the response of each step (S2-R15).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use holdpoint_contracts::run::StepStatus;
use holdpoint_ids::RunId;
use holdpoint_store::{BrokenRow as _, ROWS_PER_STATEMENT, StoreError, Transaction, insert_rows};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Alias, Expr, Func, OnConflict};
use sea_orm::{Condition, QueryOrder, QuerySelect};

use super::run_value_row::find_pairs;
use crate::domain::{CalledTool, Fact, Need, StepRow};

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "steps")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub run_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub step_id: String,
    pub status: String,
    pub tool: Option<String>,
    pub request: Option<String>,
    pub response: Option<String>,
    pub error_code: Option<String>,
    pub raw_error: Option<String>,
    pub claimed_by: Option<String>,
    pub claimed_at: Option<DateTimeUtc>,
    pub started_at: Option<DateTimeUtc>,
    pub ended_at: Option<DateTimeUtc>,
    pub attempts: i32,
    pub dispatch: i64,
    pub failed_attempts: Option<String>,
    pub risk: Option<String>,
    pub waiting_confirm: Option<bool>,
    pub app: Option<String>,
    pub credential_id: Option<String>,
    pub redaction: Option<String>,
}

impl ActiveModelBehavior for ActiveModel {}

fn place_of(row: &Model) -> (Uuid, &str) {
    (row.run_id, &row.step_id)
}

/// The rows that the decisions of one batch give one step. The last value of each field counts.
#[derive(Debug, Default)]
pub(crate) struct Merged<'r>(Vec<&'r StepRow>);

impl<'r> Merged<'r> {
    pub(crate) fn add(&mut self, row: &'r StepRow) {
        self.0.push(row);
    }

    fn reset(&self) -> Option<&'r StepRow> {
        self.0.iter().copied().find(|row| row.is_reset)
    }

    /// The newest value of a field since the step was reset.
    fn last<T>(&self, field: impl Fn(&'r StepRow) -> Option<T>) -> Option<T> {
        let reset = self.0.iter().rposition(|row| row.is_reset);
        let rows = self.0.iter().skip(reset.unwrap_or_default()).rev();
        rows.copied().find_map(field)
    }

    fn into_active(self) -> Result<Option<ActiveModel>, StoreError> {
        let Some(newest) = self.0.last() else {
            return Ok(None);
        };
        let json = |value: Result<String, serde_json::Error>| value.map_err(Entity::broken);
        let request = self.last(|row| row.request.as_ref());
        let response = self.last(|row| row.response.as_ref());
        let called = self.last(|row| row.called.as_deref());
        let hidden = called.map(|called| serde_json::to_string(&called.redaction));
        let mut failed = self.0.iter().rev().map(|row| &row.failed_attempts);
        let failed = failed.find(|it| !it.is_empty());
        Ok(Some(ActiveModel {
            run_id: Set(newest.run.uuid()),
            step_id: Set(newest.step.clone()),
            status: Set(newest.status.as_str().to_owned()),
            tool: Set(self.last(|row| row.tool.clone())),
            request: Set(request.map(serde_json::to_string).map(json).transpose()?),
            response: Set(response.map(serde_json::to_string).map(json).transpose()?),
            error_code: Set(self.last(|row| row.error_code.clone())),
            raw_error: Set(self.last(|row| row.raw_error.clone())),
            claimed_by: Set(self.last(|row| row.claimed_by.as_ref().map(ToString::to_string))),
            claimed_at: Set(self.last(|row| row.claimed_at)),
            started_at: Set(self.last(|row| row.started_at)),
            ended_at: Set(self.last(|row| row.ended_at)),
            attempts: Set(i32::try_from(newest.attempts).map_err(Entity::broken)?),
            dispatch: Set(i64::try_from(newest.dispatch).map_err(Entity::broken)?),
            failed_attempts: Set(failed.map(serde_json::to_string).map(json).transpose()?),
            risk: Set(called.map(|called| called.risk.to_string())),
            waiting_confirm: Set(called.map(|called| called.waiting_confirm)),
            app: Set(called.map(|called| called.app.clone())),
            credential_id: Set(called.map(|called| called.credential_id.clone())),
            redaction: Set(hidden.map(json).transpose()?),
        }))
    }
}

pub(crate) async fn of_run(
    db: &impl ConnectionTrait,
    run: RunId,
) -> Result<Vec<StepRow>, StoreError> {
    let rows = Entity::find()
        .filter(COLUMN.run_id.eq(run.uuid()))
        .all(db)
        .await?;
    rows.into_iter().map(read).collect()
}

/// The rows of some steps of a run.
pub(crate) async fn named(
    db: &impl ConnectionTrait,
    run: RunId,
    steps: &[&str],
) -> Result<Vec<StepRow>, StoreError> {
    let wanted: Vec<_> = steps.iter().map(|step| (run, *step)).collect();
    let rows = find_pairs::<Entity>(db, Column::RunId, Column::StepId, &wanted, place_of).await?;
    rows.into_iter().map(read).collect()
}

/// How many steps each of some runs has.
pub(crate) async fn counts(
    db: &impl ConnectionTrait,
    runs: &[Uuid],
) -> Result<HashMap<Uuid, u64>, StoreError> {
    let counted = Entity::find()
        .select_only()
        .column(Column::RunId)
        .column_as(Column::StepId.count(), "steps")
        .filter(Column::RunId.is_in(runs.iter().copied()))
        .group_by(Column::RunId);
    let rows: Vec<(Uuid, i64)> = counted.into_tuple().all(db).await?;
    let counts = rows.into_iter();
    Ok(counts
        .map(|(run, steps)| (run, u64::try_from(steps).unwrap_or(0)))
        .collect())
}

/// The steps of some runs that called a tool.
pub(crate) async fn with_tool(
    db: &impl ConnectionTrait,
    runs: &[RunId],
    tool: &str,
) -> Result<Vec<(RunId, String)>, StoreError> {
    let called = Entity::find()
        .select_only()
        .columns([Column::RunId, Column::StepId])
        .filter(Column::RunId.is_in(runs.iter().map(|run| run.uuid())))
        .filter(COLUMN.tool.eq(tool));
    let rows: Vec<(Uuid, String)> = called.into_tuple().all(db).await?;
    let rows = rows.into_iter();
    Ok(rows
        .map(|(run, step)| (RunId::from_uuid(run), step))
        .collect())
}

pub(super) fn read(row: Model) -> Result<StepRow, StoreError> {
    let request = row.request.as_deref().map(serde_json::from_str);
    let response = row.response.as_deref().map(serde_json::from_str);
    let failed = row.failed_attempts.as_deref().map(serde_json::from_str);
    let node = row.claimed_by.as_deref().map(str::parse);
    let called = read_called(&row)?;
    Ok(StepRow {
        run: RunId::from_uuid(row.run_id),
        step: row.step_id,
        status: Entity::word(row.status)?,
        tool: row.tool,
        called: called.map(Box::new),
        request: request.transpose().map_err(Entity::broken)?,
        response: response.transpose().map_err(Entity::broken)?,
        error_code: row.error_code,
        raw_error: row.raw_error,
        claimed_by: node.transpose().map_err(Entity::broken)?,
        claimed_at: row.claimed_at,
        started_at: row.started_at,
        ended_at: row.ended_at,
        attempts: u32::try_from(row.attempts).map_err(Entity::broken)?,
        dispatch: u64::try_from(row.dispatch).map_err(Entity::broken)?,
        failed_attempts: failed
            .transpose()
            .map_err(Entity::broken)?
            .unwrap_or_default(),
        is_reset: false,
    })
}

fn read_called(row: &Model) -> Result<Option<CalledTool>, StoreError> {
    let Some(risk) = row.risk.clone() else {
        return Ok(None);
    };
    let redaction = row.redaction.as_deref().map(serde_json::from_str);
    Ok(Some(CalledTool {
        risk: Entity::word(risk)?,
        waiting_confirm: row.waiting_confirm.unwrap_or_default(),
        app: row.app.clone().unwrap_or_default(),
        credential_id: row.credential_id.clone().unwrap_or_default(),
        redaction: redaction
            .transpose()
            .map_err(Entity::broken)?
            .unwrap_or_default(),
    }))
}

/// The requests of steps, for the wanted pairs of run and step.
pub(crate) async fn requests(
    db: &impl ConnectionTrait,
    wanted: &[(RunId, &str)],
) -> Result<Vec<(Need, Fact)>, StoreError> {
    let rows = find_pairs::<Entity>(db, Column::RunId, Column::StepId, wanted, place_of).await?;
    let found = rows.into_iter().filter_map(|row| {
        let value = serde_json::from_str(&row.request?).map_err(Entity::broken);
        let need = Need::Request(RunId::from_uuid(row.run_id), row.step_id);
        Some(value.map(|value| (need, Fact::Value(Arc::new(value)))))
    });
    found.collect()
}

/// The failed attempts of steps, for the wanted pairs of run and step.
pub(crate) async fn failed_attempts(
    db: &impl ConnectionTrait,
    wanted: &[(RunId, &str)],
) -> Result<Vec<(Need, Fact)>, StoreError> {
    let rows = find_pairs::<Entity>(db, Column::RunId, Column::StepId, wanted, place_of).await?;
    let found = rows.into_iter().filter_map(|row| {
        let value = serde_json::from_str(&row.failed_attempts?).map_err(Entity::broken);
        let need = Need::FailedAttempts(RunId::from_uuid(row.run_id), row.step_id);
        Some(value.map(|value| (need, Fact::Value(Arc::new(value)))))
    });
    found.collect()
}

/// Steps that are dispatched and not granted, in the order of run and step, after the given one. An
/// empty list of tools selects all.
///
/// A row that cannot be read is passed over and logged. The page is then filled from the rows after
/// it, so that a short page still means the end.
pub(crate) async fn queued(
    db: &impl ConnectionTrait,
    after: Option<(RunId, &str)>,
    tools: &[&str],
    limit: u64,
) -> Result<Vec<StepRow>, StoreError> {
    let mut place = after.map(|(run, step)| (run.uuid(), step.to_owned()));
    let mut steps = Vec::new();
    let mut left = limit;
    while left > 0 {
        let rows = queued_rows(db, place.as_ref(), tools, left).await?;
        let is_full = u64::try_from(rows.len()).is_ok_and(|found| found >= left);
        place = rows.last().map(|row| (row.run_id, row.step_id.clone()));
        for row in rows {
            let (run, step) = (row.run_id, row.step_id.clone());
            match read(row) {
                Ok(row) => {
                    steps.push(row);
                    left -= 1;
                }
                Err(error) => {
                    tracing::error!(%run, %step, %error, "queued step cannot be read; it is passed over");
                }
            }
        }
        if !is_full {
            break;
        }
    }
    Ok(steps)
}

async fn queued_rows(
    db: &impl ConnectionTrait,
    after: Option<&(Uuid, String)>,
    tools: &[&str],
    limit: u64,
) -> Result<Vec<Model>, StoreError> {
    let mut query = Entity::find().filter(COLUMN.status.eq(StepStatus::Queued.as_str()));
    if !tools.is_empty() {
        query = query.filter(COLUMN.tool.is_in(tools.iter().copied()));
    }
    if let Some((run, step)) = after {
        let later = Condition::any().add(COLUMN.run_id.gt(*run)).add(
            Condition::all()
                .add(COLUMN.run_id.eq(*run))
                .add(COLUMN.step_id.gt(step.as_str())),
        );
        query = query.filter(later);
    }
    let query = query
        .order_by_asc(Column::RunId)
        .order_by_asc(Column::StepId)
        .limit(limit);
    Ok(query.all(db).await?)
}

/// The columns that a retry of the run begins anew.
const OF_ATTEMPT: [Column; 14] = [
    Column::Tool,
    Column::Risk,
    Column::WaitingConfirm,
    Column::App,
    Column::CredentialId,
    Column::Redaction,
    Column::Request,
    Column::Response,
    Column::ErrorCode,
    Column::RawError,
    Column::ClaimedBy,
    Column::ClaimedAt,
    Column::StartedAt,
    Column::EndedAt,
];

/// Writes rows. A field without a value keeps the value of the row, unless the step was reset.
pub(crate) async fn upsert(
    db: &Transaction,
    merged: impl Iterator<Item = Merged<'_>>,
) -> Result<(), StoreError> {
    let merged: Vec<_> = merged.collect();
    clear_reset(db, &merged).await?;
    let rows = merged.into_iter().map(Merged::into_active);
    let rows = rows.filter_map(Result::transpose);
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    insert_rows(db, rows, Some(&keep_absent_fields())).await
}

async fn clear_reset(db: &Transaction, merged: &[Merged<'_>]) -> Result<(), StoreError> {
    let mut steps: BTreeMap<RunId, Vec<&str>> = BTreeMap::new();
    for row in merged.iter().filter_map(Merged::reset) {
        steps.entry(row.run).or_default().push(&row.step);
    }
    let chunks = steps.iter().flat_map(|(run, steps)| {
        let chunks = steps.chunks(ROWS_PER_STATEMENT);
        chunks.map(move |steps| (run, steps))
    });
    for (run, steps) in chunks {
        let mut clear = Entity::update_many()
            .filter(Column::RunId.eq(run.uuid()))
            .filter(Column::StepId.is_in(steps.iter().copied()));
        for column in OF_ATTEMPT {
            clear = clear.col_expr(column, Expr::null());
        }
        clear.exec(db).await?;
    }
    Ok(())
}

fn keep_absent_fields() -> OnConflict {
    let mut conflict = OnConflict::columns([Column::RunId, Column::StepId]);
    conflict.update_columns([Column::Status, Column::Attempts, Column::Dispatch]);
    for column in OF_ATTEMPT.into_iter().chain([Column::FailedAttempts]) {
        let fresh = Expr::col((Alias::new("excluded"), column));
        let old = Expr::col((Alias::new("steps"), column));
        conflict.value(column, Func::coalesce([fresh, old]));
    }
    conflict
}
