//! Finds the input that ends the process, after an unclean exit: it would end the next process, too.
//!
//! Each kernel has a row in `kernels` while it runs; a clean stop removes it. A kernel that finds the row
//! of a process that is gone isolates inputs for a while: it decides each one alone, with a row
//! in `suspects` that is committed before and removed with the decision. An input that was alone at
//! [`DEATHS_MAX`] deaths is quarantined: it is not decided any more. In normal running nothing is written.

mod rows;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_store::{HeldName, Location, StoreError, TableWriter};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::Service;
use crate::task::{Raw, Task};
use crate::writer::chain;

pub(crate) use rows::forget;

/// Deaths at which an input was alone until it becomes a dead letter.
const DEATHS_MAX: i32 = 3;

/// How long a kernel isolates inputs after the first death: longer than the bus waits until it delivers again
/// what was in flight. Each further death doubles it.
const ISOLATED_FOR: Duration = Duration::from_secs(20);

/// Doublings at most: ten minutes.
const DOUBLINGS_MAX: u32 = 5;

/// After this time without a death the next one counts as the first.
const FORGIVEN_AFTER: Duration = Duration::from_secs(600);

/// How often a kernel on Postgres looks for others that are gone: more often than the bus delivers again.
const LOOK_EVERY: Duration = Duration::from_secs(3);

/// How long a suspect is remembered whose input never came again.
const SUSPECTED_FOR: TimeDelta = TimeDelta::days(1);

/// Only one input of a process is decided while any kernel of it isolates inputs: `up` runs several, and only
/// an input that was alone in the process can be blamed.
pub(crate) static ISOLATED: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// What intake has to know. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Isolation(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    is_isolated: AtomicBool,
    /// Whether some input must not be decided.
    has_quarantined: AtomicBool,
    /// Digests of inputs that must not be decided, and whether each has its dead letter.
    quarantined: Mutex<HashMap<String, bool>>,
}

impl Isolation {
    /// Whether what comes in now is to be decided alone.
    pub(crate) fn is_isolated(&self) -> bool {
        self.0.is_isolated.load(Ordering::Acquire)
    }

    /// Whether what comes in now is left to the writer to read.
    pub(crate) fn is_on(&self) -> bool {
        self.is_isolated() || self.has_quarantined()
    }

    pub(crate) fn has_quarantined(&self) -> bool {
        self.0.has_quarantined.load(Ordering::Acquire)
    }

    /// Whether an input must not be decided; if so, whether it has its dead letter.
    pub(crate) fn quarantine_of(&self, digest: &str) -> Option<bool> {
        self.quarantined().get(digest).copied()
    }

    /// An input has its dead letter.
    pub(crate) fn buried(&self, digest: &str) {
        self.quarantined().insert(digest.to_owned(), true);
        self.0.has_quarantined.store(true, Ordering::Release);
    }

    /// An input may be decided again.
    pub(crate) fn release(&self, digest: &str) {
        let mut quarantined = self.quarantined();
        quarantined.remove(digest);
        let has_quarantined = !quarantined.is_empty();
        drop(quarantined);
        self.0
            .has_quarantined
            .store(has_quarantined, Ordering::Release);
    }

    fn set(&self, now: HashMap<String, bool>) {
        let mut quarantined = self.quarantined();
        *quarantined = now;
        self.0
            .has_quarantined
            .store(!quarantined.is_empty(), Ordering::Release);
    }

    fn set_isolated(&self, is_isolated: bool) {
        self.0.is_isolated.store(is_isolated, Ordering::Release);
    }

    fn quarantined(&self) -> MutexGuard<'_, HashMap<String, bool>> {
        self.0
            .quarantined
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// What may be done with an input.
pub(crate) enum Begun {
    /// It is noted: it may be decided, alone.
    Alone,
    /// It must not be decided; whether it has its dead letter.
    Quarantined(bool),
}

/// The writer's part: the rows.
pub(crate) struct Suspects {
    name: String,
    isolation: Isolation,
    /// Held on Postgres only.
    held: Option<HeldName>,
    store: Location,
    /// Kernels that are gone and whose rows are still there.
    gone: HashSet<String>,
    /// Until when this kernel isolates inputs.
    until: Option<Instant>,
    /// When its own deaths are forgiven.
    forgiven_at: Option<Instant>,
    look_at: Option<Instant>,
    /// How often inputs that this process has noted were noted before it.
    before: HashMap<String, i32>,
}

impl Suspects {
    /// Notes that this kernel runs. It isolates inputs where another kernel is gone that did not stop.
    pub(crate) async fn enter(
        db: &TableWriter,
        store: &Location,
        (name, isolation): (String, Isolation),
        now: DateTime<Utc>,
    ) -> Result<Self, StoreError> {
        // Before its row is there: nobody may take it for one that is gone.
        let held = HeldName::take(store, &name).await?;
        let gone = rows::enter(db, &name, now).await?;
        let deaths = gone.iter().map(|(_, deaths)| deaths + 1).max().unwrap_or(0);
        rows::set_deaths(db, &name, deaths).await?;
        isolation.set(rows::quarantined(db).await?);
        let mut suspects = Self {
            name,
            isolation,
            look_at: held.is_some().then(|| Instant::now() + LOOK_EVERY),
            held,
            store: store.clone(),
            gone: HashSet::new(),
            until: None,
            forgiven_at: None,
            before: HashMap::new(),
        };
        suspects.isolate(gone, deaths);
        Ok(suspects)
    }

    fn isolate(&mut self, gone: Vec<(String, i32)>, deaths: i32) {
        let is_news = gone.iter().any(|(name, _)| !self.gone.contains(name));
        self.gone.extend(gone.into_iter().map(|(name, _)| name));
        if !is_news {
            return;
        }
        let doublings = u32::try_from(deaths.saturating_sub(1)).unwrap_or(0);
        let isolated_for = ISOLATED_FOR * 2_u32.pow(doublings.min(DOUBLINGS_MAX));
        tracing::warn!(
            deaths,
            seconds = isolated_for.as_secs(),
            "a process of this service ended without a stop; each input is decided alone for a while"
        );
        self.until = Some(Instant::now() + isolated_for);
        self.forgiven_at = Some(Instant::now() + isolated_for + FORGIVEN_AFTER);
        self.isolation.set_isolated(true);
    }

    /// When there is something to do; none: never.
    pub(crate) fn due(&self) -> Option<Instant> {
        [self.until, self.forgiven_at, self.look_at]
            .into_iter()
            .flatten()
            .min()
    }

    /// Does what is due: ends the isolation, forgets deaths that are long past, looks for other kernels that are gone.
    pub(crate) async fn tick(&mut self, db: &TableWriter, now: DateTime<Utc>) {
        if self.due().is_none_or(|due| Instant::now() < due) {
            return;
        }
        if let Err(error) = self.try_tick(db, now).await {
            tracing::warn!(error = %chain(&error), "the rows of running kernels could not be looked at; trying again");
            let later = Instant::now() + LOOK_EVERY;
            for due in [&mut self.until, &mut self.forgiven_at, &mut self.look_at] {
                *due = due.map(|due| due.max(later));
            }
        }
    }

    async fn try_tick(&mut self, db: &TableWriter, now: DateTime<Utc>) -> Result<(), StoreError> {
        let at = Instant::now();
        if self.look_at.is_some_and(|due| due <= at) {
            if let Some(held) = &mut self.held
                && !held.is_held().await
            {
                self.held = HeldName::take(&self.store, &self.name).await?;
            }
            let gone = rows::gone(db, &self.name).await?;
            let deaths = gone.iter().map(|(_, deaths)| deaths + 1).max().unwrap_or(0);
            self.isolate(gone, deaths);
            self.isolation.set(rows::quarantined(db).await?);
            self.look_at = Some(at + LOOK_EVERY);
        }
        if self.until.is_some_and(|due| due <= at) {
            rows::leave(db, self.gone.iter()).await?;
            rows::trim(db, now - SUSPECTED_FOR).await?;
            self.gone.clear();
            self.until = None;
            self.isolation.set_isolated(false);
            tracing::info!("inputs are decided together again");
        }
        if self.forgiven_at.is_some_and(|due| due <= at) {
            rows::set_deaths(db, &self.name, 0).await?;
            self.forgiven_at = None;
        }
        Ok(())
    }

    /// Notes an input before it is decided alone. `instead` is not noted any more: its message was read.
    pub(crate) async fn begin(
        &mut self,
        db: &TableWriter,
        digest: &str,
        instead: Option<&str>,
        now: DateTime<Utc>,
    ) -> Result<Begun, StoreError> {
        if let Some(is_buried) = self.isolation.quarantine_of(digest) {
            return Ok(Begun::Quarantined(is_buried));
        }
        let tx = db.begin().await?;
        let before = match self.before.get(digest) {
            Some(before) => *before,
            None => rows::begun(&tx, digest).await?,
        };
        if before >= DEATHS_MAX {
            tx.rollback().await?;
            return Ok(Begun::Quarantined(false));
        }
        rows::note(&tx, digest, before + 1, now).await?;
        if let Some(instead) = instead {
            forget(&tx, instead).await?;
        }
        tx.commit().await?;
        if let Some(instead) = instead {
            self.before.remove(instead);
        }
        self.before.insert(digest.to_owned(), before);
        Ok(Begun::Alone)
    }

    /// Its row went with a commit.
    pub(crate) fn committed(&mut self, digest: &str) {
        self.before.remove(digest);
    }

    /// It is through, and the process lives. Where its row cannot be removed, this process counts it no
    /// second time.
    pub(crate) async fn end(&mut self, db: &TableWriter, digest: &str) {
        if !self.before.contains_key(digest) {
            return;
        }
        match rows::forget_alone(db, digest).await {
            Ok(()) => self.committed(digest),
            Err(error) => {
                tracing::warn!(error = %chain(&error), "a suspect stays noted for now");
            }
        }
    }

    /// An input starts again without deaths.
    pub(crate) async fn forget(
        &mut self,
        db: &TableWriter,
        digest: &str,
    ) -> Result<(), StoreError> {
        rows::forget_alone(db, digest).await?;
        self.committed(digest);
        Ok(())
    }

    /// The kernel stops cleanly: no other one has to isolate inputs because of it.
    pub(crate) async fn leave(self, db: &TableWriter) -> Result<(), StoreError> {
        rows::leave(db, [&self.name]).await
    }
}

/// Names a message.
pub(crate) fn message_digest(raw: &Raw) -> String {
    digest(&[raw.subject.as_bytes(), &raw.body])
}

/// Names what a task has decided: the same for each delivery, whatever message brings it.
pub(crate) fn inputs_digest<S: Service>(task: &Task<S>) -> String {
    let inputs = format!("{:?}", task.inputs);
    digest(&[S::NAME.as_bytes(), inputs.as_bytes()])
}

fn digest(parts: &[&[u8]]) -> String {
    let mut sha = Sha256::new();
    for part in parts {
        sha.update((part.len() as u64).to_be_bytes());
        sha.update(part);
    }
    sha.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
