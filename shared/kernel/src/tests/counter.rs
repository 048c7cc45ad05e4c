//! Counts by name; a name can be poison.

use bytes::Bytes;
use chrono::{DateTime, Utc};
use holdpoint_bus::Outgoing;
use holdpoint_contracts::message::{Command, Envelope, Reply};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::subject::{self, Lane, Parts};
use holdpoint_decision::{Decided, Decider, Decision, LookupFn, Outcome, Undecided};
use holdpoint_ids::Workspace;
use holdpoint_store::{StoreError, Transaction};
use sea_orm::{ConnectionTrait, Statement, Value};
use serde::{Deserialize, Serialize};

use crate::{
    AfterRefusal, Changed, DecodedCommand, DesiredState, Outbound, SentState, Service, Store,
};

pub(super) const TABLE: &str =
    "CREATE TABLE counters (name TEXT PRIMARY KEY, version BIGINT NOT NULL, value BIGINT NOT NULL)";

/// The counter whose effects no table takes.
pub(super) const POISON: &str = "poison";

/// The same, and the service wants to hear of it.
pub(super) const POISON_RUN: &str = "poison-run";

/// The counter that is never decided.
pub(super) const NEEDY: &str = "needy";

/// Counts incidents.
pub(super) const INCIDENTS: &str = "incidents";

/// After this counter the database has no room for more.
pub(super) const FULL: &str = "full";

/// With this counter it has again.
pub(super) const ROOMY: &str = "roomy";

/// The counter that is never changed: everything is a repetition.
pub(super) const SAME: &str = "same";

/// Names that begin with it are desired to another service.
pub(super) const EAR: &str = "ear-";

/// Whose count is told in more words than a small server takes.
pub(super) const VERBOSE: &str = "verbose";

/// The desired state that no message can take.
pub(super) const HUGE: &str = "ear-huge";

/// The desired state that cannot be written.
pub(super) const UNWRITABLE: &str = "ear-unwritable";

/// The desired state for which nothing waits when it is refused.
pub(super) const GONE: &str = "ear-gone";

/// The desired state whose refusal is counted.
pub(super) const DECIDED: &str = "ear-decided";

/// The desired state of this counter is acknowledged by an input that may wait.
pub(super) const TOLD: &str = "ear-told";

/// Counts these acknowledgements.
pub(super) const ACKNOWLEDGEMENTS: &str = "acknowledgements";

/// Counts refusals of desired states.
pub(super) const REFUSALS: &str = "refusals";

/// A reply about this counter is complete when its value is even.
pub(super) const PAIRED: &str = "paired";

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
    type Reply = Count;

    fn aggregate(&self) -> String {
        self.name.clone()
    }
}

/// All of them, or none.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct AddAll {
    pub(super) adds: Vec<Add>,
}

impl Command for AddAll {
    const SERVICE: &'static str = "counter";
    const VERB: &'static str = "add_all";
    type Reply = Vec<Reply<Count>>;

    fn aggregate(&self) -> String {
        self.adds[0].name.clone()
    }
}

/// Adding nothing is refused.
#[derive(Debug)]
pub(super) struct Zero;

impl Decider for Counter {
    type Key = String;
    type State = Count;
    type Input = Input;
    type Need = ();
    type Fact = ();
    type Effect = Count;
    type Refusal = Zero;
    type Reply = Count;

    fn key(input: &Input) -> String {
        input.name.clone()
    }

    fn decide(
        state: Option<&Count>,
        input: &Input,
        _: LookupFn<'_, Self>,
        _: DateTime<Utc>,
    ) -> Decision<Self> {
        if input.name == NEEDY {
            return Err(Undecided::NeedsMore(vec![()]));
        }
        if input.by == 0 {
            return Err(Undecided::Refused(Zero));
        }
        if input.name == SAME {
            return Ok(Outcome::Unchanged(Count {
                name: input.name.clone(),
                version: 0,
                value: input.by,
            }));
        }
        let state = Count {
            name: input.name.clone(),
            version: state.map_or(0, |state| state.version) + 1,
            value: state.map_or(0, |state| state.value) + input.by,
        };
        Ok(Outcome::Decided(Box::new(Decided {
            effects: vec![state.clone()],
            facts: Vec::new(),
            reply: state.clone(),
            state,
        })))
    }

    fn aggregate((): &()) -> Option<String> {
        None
    }

    fn fact(_: &Count) -> Option<()> {
        Some(())
    }

    fn version(state: &Count) -> u64 {
        state.version
    }

    fn is_hot(_: &Count) -> bool {
        true
    }

    fn problem(_: &Zero) -> Problem {
        Problem::new(422, "zero", "add something")
    }

    fn is_incomplete(reply: &Count) -> bool {
        reply.name == PAIRED && reply.value % 2 != 0
    }

    fn updated_reply(_: Count, state: &Count) -> Count {
        state.clone()
    }
}

impl Service for Counter {
    const NAME: &'static str = "counter";
    type Domain = Counter;

    fn decode(&self, parts: &Parts, body: &[u8]) -> Result<DecodedCommand<Input>, Problem> {
        let wrong = |error: serde_json::Error| Problem::invalid_body(error.to_string());
        if parts.verb == AddAll::VERB {
            let Envelope { key, command, .. } = serde_json::from_slice(body).map_err(wrong)?;
            let AddAll { adds } = command;
            let inputs = adds.into_iter().map(|Add { name, by }| Input { name, by });
            return Ok(DecodedCommand::atomic(inputs.collect(), key));
        }
        let envelope: Envelope<Add> = serde_json::from_slice(body).map_err(wrong)?;
        let Add { name, by } = envelope.command;
        Ok(DecodedCommand::one(Input { name, by }, envelope.key))
    }

    fn may_wait(&self, input: &Input) -> bool {
        input.name == ACKNOWLEDGEMENTS
    }

    fn incident(&self, _: &str, body: &[u8], reason: &str) -> Vec<Input> {
        let body = String::from_utf8_lossy(body);
        assert!(!reason.is_empty());
        let is_ours = body.contains(POISON_RUN) || body.contains(NEEDY);
        let input = Input {
            name: INCIDENTS.to_owned(),
            by: 1,
        };
        Vec::from_iter(is_ours.then_some(input))
    }
}

impl Store<Counter> for Counter {
    async fn load(
        &self,
        db: &Transaction,
        keys: &[String],
    ) -> Result<Vec<(String, Count)>, StoreError> {
        if keys.iter().any(|key| key == ROOMY) {
            pages_max(db, i64::from(i32::MAX)).await?;
        }
        let sql = "SELECT name, version, value FROM counters";
        let rows = db
            .query_all_raw(Statement::from_string(db.get_database_backend(), sql))
            .await?;
        let mut found = Vec::new();
        let names: Vec<String> = rows
            .iter()
            .map(|row| row.try_get_by_index(0))
            .collect::<Result<_, _>>()?;
        let is_there = |name: &str| keys.iter().chain(&names).any(|one| one == name);
        // The limit is the connection's, and the disk stays full for the next one.
        if names.iter().any(|name| name == FULL) && !is_there(ROOMY) {
            pages_max(db, 1).await?;
        }
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

    async fn find(&self, _: &Transaction, _: &[()]) -> Result<Vec<((), ())>, StoreError> {
        Ok(Vec::new())
    }

    async fn save(
        &self,
        db: &Transaction,
        changed: &[Changed<'_, Counter>],
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
                       SET version = $2, value = $3 WHERE counters.version = $4";
            let statement = Statement::from_sql_and_values(db.get_database_backend(), sql, values);
            if db.execute_raw(statement).await?.rows_affected() == 0 {
                losers.push(one.key.clone());
            }
        }
        Ok(losers)
    }

    async fn record(
        &self,
        db: &Transaction,
        effects: &[Count],
        _: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        if effects.iter().any(|count| count.name == FULL) {
            pages_max(db, 1).await?;
        }
        let is_poison = |count: &Count| [POISON, POISON_RUN].contains(&count.name.as_str());
        match effects.iter().any(is_poison) {
            true => Err(StoreError::broken("counters", POISON)),
            false => Ok(()),
        }
    }
}

impl Outbound<Counter> for Counter {
    fn messages(&self, effects: &[Count]) -> Vec<Outgoing> {
        let subject = subject::steps(&acme(), "count", Lane::Normal);
        let messages = effects.iter().map(|count| match count.name.as_str() {
            VERBOSE => Outgoing::json(subject.clone(), &"9".repeat(100_000)),
            _ => Outgoing::json(subject.clone(), count),
        });
        messages.map(Result::unwrap).collect()
    }

    /// Counts of names that begin with it are desired to the ear.
    fn desired_states(&self, effects: &[Count]) -> Vec<DesiredState> {
        let heard = effects.iter().filter(|count| count.name.starts_with(EAR));
        let desired_states = heard.map(|count| DesiredState {
            kind: "heard",
            workspace: acme(),
            id: count.name.clone(),
            rev: count.version,
            body: match count.name.as_str() {
                HUGE => "9".repeat(2 << 20),
                _ => serde_json::to_string(count).unwrap(),
            },
        });
        desired_states.collect()
    }

    fn desired_state_command(
        &self,
        kind: &str,
        workspace: &Workspace,
        bodies: &[&str],
    ) -> Result<Outgoing, serde_json::Error> {
        assert_eq!(kind, "heard");
        if bodies.iter().any(|body| body.contains(UNWRITABLE)) {
            return Err(serde::ser::Error::custom("unwritable"));
        }
        Ok(Outgoing {
            subject: subject::command(workspace, "ear", 0, "hear"),
            body: format!("[{}]", bodies.join(",")),
            headers: Vec::new(),
        })
    }

    fn acknowledged(&self, desired_state: &SentState<'_>, _: &serde_json::Value) -> Option<Input> {
        (desired_state.id == TOLD).then(|| Input {
            name: ACKNOWLEDGEMENTS.to_owned(),
            by: 1,
        })
    }

    fn refused(&self, desired_state: &SentState<'_>, _: &Problem) -> AfterRefusal<Input> {
        match desired_state.id {
            GONE => AfterRefusal::Drop,
            DECIDED => AfterRefusal::Decide(Input {
                name: REFUSALS.to_owned(),
                by: 1,
            }),
            _ => AfterRefusal::Keep,
        }
    }

    fn nudges(&self, _: &[Count]) -> Vec<(String, Bytes)> {
        Vec::new()
    }
}

/// SQLite takes the number of pages that there are for the least.
async fn pages_max(db: &Transaction, pages: i64) -> Result<(), StoreError> {
    db.execute_unprepared(&format!("PRAGMA max_page_count = {pages}"))
        .await?;
    Ok(())
}
