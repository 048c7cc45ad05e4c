//! Counts by name; a name can be poison.

use bytes::Bytes;
use chrono::{DateTime, Utc};
use holdpoint_bus::Outgoing;
use holdpoint_contracts::message::{Command, Envelope};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::subject::{self, Parts};
use holdpoint_ids::Workspace;
use holdpoint_store::StoreError;
use sea_orm::{ConnectionTrait, DatabaseTransaction, Statement, Value};
use serde::{Deserialize, Serialize};

use crate::{Changed, Decision, Facts, Outcome, Request, Service};

pub(super) const TABLE: &str =
    "CREATE TABLE counters (name TEXT PRIMARY KEY, version BIGINT NOT NULL, value BIGINT NOT NULL)";

/// The counter whose effects no table takes.
pub(super) const POISON: &str = "poison";

pub(super) fn acme() -> Workspace {
    "acme".parse().unwrap()
}

pub(super) struct Counter;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Count {
    pub(super) name: String,
    pub(super) version: u64,
    pub(super) value: i64,
}

#[derive(Debug, Clone)]
pub(super) struct Input {
    pub(super) name: String,
    pub(super) by: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Add {
    pub(super) name: String,
    pub(super) by: i64,
}

impl Command for Add {
    const SERVICE: &'static str = "counter";
    const VERB: &'static str = "add";
    type Answer = Count;

    fn aggregate(&self) -> String {
        self.name.clone()
    }
}

/// Adding nothing is refused.
#[derive(Debug)]
pub(super) struct Zero;

impl Service for Counter {
    const NAME: &'static str = "counter";
    type Key = String;
    type State = Count;
    type Input = Input;
    type Need = ();
    type Fact = ();
    type Effect = Count;
    type Refusal = Zero;
    type Answer = Count;

    fn key(input: &Input) -> String {
        input.name.clone()
    }

    fn decide(
        &self,
        state: Option<&Count>,
        input: &Input,
        _: &Facts<'_, Self>,
        _: DateTime<Utc>,
    ) -> Outcome<Self> {
        if input.by == 0 {
            return Outcome::Refused(Zero);
        }
        let state = Count {
            name: input.name.clone(),
            version: state.map_or(0, |state| state.version) + 1,
            value: state.map_or(0, |state| state.value) + input.by,
        };
        Outcome::Decided(Decision {
            effects: vec![state.clone()],
            facts: Vec::new(),
            answer: state.clone(),
            state,
        })
    }

    fn aggregate((): &()) -> Option<String> {
        None
    }

    fn fact(_: &Count) {}

    fn is_constant((): &()) -> bool {
        false
    }

    fn version(state: &Count) -> u64 {
        state.version
    }

    fn is_hot(_: &Count) -> bool {
        true
    }

    fn problem(&self, _: &Zero) -> Problem {
        Problem::new(422, "zero", "add something")
    }

    fn decode(&self, _: &Parts, body: &[u8]) -> Result<Request<Input>, Problem> {
        let envelope: Envelope<Add> = serde_json::from_slice(body)
            .map_err(|error| Problem::invalid_body(error.to_string()))?;
        let Add { name, by } = envelope.command;
        Ok(Request::one(Input { name, by }, envelope.key))
    }

    async fn load(
        &self,
        db: &DatabaseTransaction,
        keys: &[String],
    ) -> Result<Vec<(String, Count)>, StoreError> {
        let sql = "SELECT name, version, value FROM counters";
        let rows = db
            .query_all_raw(Statement::from_string(db.get_database_backend(), sql))
            .await?;
        let mut found = Vec::new();
        for row in rows {
            let name: String = row.try_get_by_index(0)?;
            let version: i64 = row.try_get_by_index(1)?;
            if keys.contains(&name) {
                let count = Count {
                    name: name.clone(),
                    version: version.unsigned_abs(),
                    value: row.try_get_by_index(2)?,
                };
                found.push((name, count));
            }
        }
        Ok(found)
    }

    async fn find(&self, _: &DatabaseTransaction, _: &[()]) -> Result<Vec<((), ())>, StoreError> {
        Ok(Vec::new())
    }

    async fn save(
        &self,
        db: &DatabaseTransaction,
        changed: &[Changed<'_, Self>],
        _: DateTime<Utc>,
    ) -> Result<Vec<String>, StoreError> {
        let mut losers = Vec::new();
        for one in changed {
            let values: [Value; 4] = [
                one.key.clone().into(),
                one.state.version.cast_signed().into(),
                one.state.value.into(),
                one.read_version.cast_signed().into(),
            ];
            let sql = "INSERT INTO counters VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE \
                       SET version = $2, value = $3 WHERE version = $4";
            let statement = Statement::from_sql_and_values(db.get_database_backend(), sql, values);
            if db.execute_raw(statement).await?.rows_affected() == 0 {
                losers.push(one.key.clone());
            }
        }
        Ok(losers)
    }

    async fn record(
        &self,
        _: &DatabaseTransaction,
        effects: &[Count],
        _: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        match effects.iter().any(|count| count.name == POISON) {
            true => Err(StoreError::broken("counters", POISON)),
            false => Ok(()),
        }
    }

    fn outbound(&self, effects: &[Count]) -> Vec<Outgoing> {
        let subject = subject::steps(&acme(), "count");
        let messages = effects
            .iter()
            .map(|count| Outgoing::json(subject.clone(), count));
        messages.map(Result::unwrap).collect()
    }

    fn nudges(&self, _: &[Count]) -> Vec<(String, Bytes)> {
        Vec::new()
    }
}
