//! Finds an input that ends the process, because it would end the next process, too.
//!
//! - Each kernel has a row in `kernels` while it runs. A clean stop removes it.
//! - A kernel that finds the row of a dead process isolates inputs for a while: it decides each one alone. Before
//!   that it commits a row in `suspects`, and the decision removes the row.
//! - An input that was alone at [`DEATHS_MAX`] deaths is quarantined: it is no longer decided.
//!
//! In normal operation nothing is written.

mod rows;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_store::{HeldName, Location, StoreError, TableWriter};
use tokio::time::Instant;

use crate::error_chain::error_chain;
use crate::isolation::Isolation;

use rows::DEATHS_MAX;
pub(crate) use rows::forget;

/// How long a kernel isolates inputs after the first death: longer than the bus waits before it redelivers.
/// Each further death doubles it.
const ISOLATED_FOR: Duration = Duration::from_secs(20);

/// Doublings at most: ten minutes.
const DOUBLINGS_MAX: u32 = 5;

/// After this time without a death the next one is the first again.
const FORGIVEN_AFTER: Duration = Duration::from_secs(600);

/// How often a kernel on Postgres looks for dead kernels: more often than the bus redelivers.
const SEARCH_EVERY: Duration = Duration::from_secs(3);

/// How long a suspect is kept if its input is not delivered again.
const SUSPECTED_FOR: TimeDelta = TimeDelta::days(1);

/// Whether an input may be decided.
pub(crate) enum Begun {
    /// It is noted and may be decided, alone.
    Alone,
    /// It must not be decided.
    Quarantined { has_dead_letter: bool },
}

/// Maintains the rows, for the writer.
pub(crate) struct Suspects {
    name: String,
    isolation: Isolation,
    /// An advisory lock on the name, on Postgres only.
    held: Option<HeldName>,
    store: Location,
    /// Dead kernels whose rows still exist.
    dead: HashSet<String>,
    /// Until when this kernel isolates inputs.
    until: Option<Instant>,
    /// When its own deaths are forgiven.
    forgiven_at: Option<Instant>,
    search_at: Option<Instant>,
    /// How often earlier processes noted the inputs that this one has noted.
    before: HashMap<String, i32>,
}

impl Suspects {
    /// Adds this kernel's row. The kernel isolates inputs if another one has died.
    pub(crate) async fn enter(
        db: &TableWriter,
        store: &Location,
        name: String,
        isolation: Isolation,
        now: DateTime<Utc>,
    ) -> Result<Self, StoreError> {
        // Before its row exists, so that no other kernel takes this one for dead.
        let held = HeldName::take(store, &name).await?;
        let dead = rows::enter(db, &name, now).await?;
        let deaths = dead.iter().map(|(_, deaths)| deaths + 1).max().unwrap_or(0);
        rows::set_deaths(db, &name, deaths).await?;
        isolation.set_quarantined(rows::quarantined(db).await?);
        let mut suspects = Self {
            name,
            isolation,
            search_at: held.is_some().then(|| Instant::now() + SEARCH_EVERY),
            held,
            store: store.clone(),
            dead: HashSet::new(),
            until: None,
            forgiven_at: None,
            before: HashMap::new(),
        };
        suspects.isolate(dead, deaths);
        Ok(suspects)
    }

    fn isolate(&mut self, dead: Vec<(String, i32)>, deaths: i32) {
        let any_new = dead.iter().any(|(name, _)| !self.dead.contains(name));
        self.dead.extend(dead.into_iter().map(|(name, _)| name));
        if !any_new {
            return;
        }
        let doublings = u32::try_from(deaths.saturating_sub(1)).unwrap_or(0);
        let isolated_for = ISOLATED_FOR * 2_u32.pow(doublings.min(DOUBLINGS_MAX));
        tracing::warn!(
            deaths,
            seconds = isolated_for.as_secs(),
            "a process of this service died; each input is decided alone for a while"
        );
        self.until = Some(Instant::now() + isolated_for);
        self.forgiven_at = Some(Instant::now() + isolated_for + FORGIVEN_AFTER);
        self.isolation.set_isolated(true);
    }

    /// When [`Self::tick`] has something to do; `None`: never.
    pub(crate) fn due(&self) -> Option<Instant> {
        [self.until, self.forgiven_at, self.search_at]
            .into_iter()
            .flatten()
            .min()
    }

    /// Does what is due: ends the isolation, forgives old deaths, and looks for dead kernels.
    pub(crate) async fn tick(&mut self, db: &TableWriter, now: DateTime<Utc>) {
        if self.due().is_none_or(|due| Instant::now() < due) {
            return;
        }
        if let Err(error) = self.try_tick(db, now).await {
            tracing::warn!(error = %error_chain(&error), "rows of kernels not read; trying again");
            let later = Instant::now() + SEARCH_EVERY;
            for due in [&mut self.until, &mut self.forgiven_at, &mut self.search_at] {
                *due = due.map(|due| due.max(later));
            }
        }
    }

    async fn try_tick(&mut self, db: &TableWriter, now: DateTime<Utc>) -> Result<(), StoreError> {
        let at = Instant::now();
        if self.search_at.is_some_and(|due| due <= at) {
            if let Some(held) = &mut self.held
                && !held.is_held().await
            {
                self.held = HeldName::take(&self.store, &self.name).await?;
            }
            let dead = rows::dead_kernels(db, &self.name).await?;
            let deaths = dead.iter().map(|(_, deaths)| deaths + 1).max().unwrap_or(0);
            self.isolate(dead, deaths);
            self.isolation.set_quarantined(rows::quarantined(db).await?);
            self.search_at = Some(at + SEARCH_EVERY);
        }
        if self.until.is_some_and(|due| due <= at) {
            rows::remove_kernels(db, self.dead.iter()).await?;
            rows::trim(db, now - SUSPECTED_FOR).await?;
            self.dead.clear();
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

    /// Notes an input before it is decided alone, in place of `instead`, the message that contained it.
    pub(crate) async fn begin(
        &mut self,
        db: &TableWriter,
        digest: &str,
        instead: Option<&str>,
        now: DateTime<Utc>,
    ) -> Result<Begun, StoreError> {
        if let Some(has_dead_letter) = self.isolation.quarantine_of(digest) {
            return Ok(Begun::Quarantined { has_dead_letter });
        }
        let tx = db.begin().await?;
        let before = match self.before.get(digest) {
            Some(before) => *before,
            None => rows::begun(&tx, digest).await?,
        };
        if before >= DEATHS_MAX {
            tx.rollback().await?;
            return Ok(Begun::Quarantined {
                has_dead_letter: false,
            });
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

    /// A commit has deleted the row of the input.
    pub(crate) fn committed(&mut self, digest: &str) {
        self.before.remove(digest);
    }

    /// The input is finished and the process lives. If its row cannot be deleted, this process does not count
    /// it a second time.
    pub(crate) async fn end(&mut self, db: &TableWriter, digest: &str) {
        if !self.before.contains_key(digest) {
            return;
        }
        match rows::forget_alone(db, digest).await {
            Ok(()) => self.committed(digest),
            Err(error) => {
                tracing::warn!(error = %error_chain(&error), "row of a suspect not deleted; it is deleted later");
            }
        }
    }

    /// Resets the deaths of an input.
    pub(crate) async fn forget(
        &mut self,
        db: &TableWriter,
        digest: &str,
    ) -> Result<(), StoreError> {
        rows::forget_alone(db, digest).await?;
        self.committed(digest);
        Ok(())
    }

    /// Deletes this kernel's row at a clean stop, so that no other kernel isolates inputs because of it.
    pub(crate) async fn leave(self, db: &TableWriter) -> Result<(), StoreError> {
        rows::remove_kernels(db, [&self.name]).await
    }
}
