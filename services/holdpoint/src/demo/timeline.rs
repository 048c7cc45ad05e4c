//! The live timeline: follows runs over SSE and prints a line for each thing that happens.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Utc};
use holdpoint_contracts::history::{EventType, HistoryItem};
use holdpoint_ids::RunId;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client::{Client, Live};
use crate::output;

/// Follows runs and prints what happens to them.
pub(super) struct Timeline {
    client: Client,
    began: DateTime<Utc>,
    /// Newest item that was printed, for each run.
    seen: watch::Sender<BTreeMap<RunId, u64>>,
    /// One printer at a time.
    printer: Arc<Mutex<()>>,
    followers: JoinSet<()>,
}

impl Timeline {
    pub(super) fn new(client: Client, began: DateTime<Utc>) -> Self {
        let seen = watch::Sender::new(BTreeMap::new());
        Self {
            client,
            began,
            seen,
            printer: Arc::default(),
            followers: JoinSet::new(),
        }
    }

    /// Follows a run to its end.
    pub(super) fn follow(&mut self, run: RunId, name: String) -> anyhow::Result<()> {
        let mut events = self.client.events(&run.to_string(), 0)?;
        let (began, seen, printer) = (self.began, self.seen.clone(), Arc::clone(&self.printer));
        self.followers.spawn(async move {
            while let Ok(live) = events.next().await {
                let Live::Item(item, _) = live else { continue };
                {
                    let _one = printer.lock().unwrap_or_else(PoisonError::into_inner);
                    // A closed terminal is noticed where the story goes on.
                    drop(output::line(&line(began, &name, &item)));
                }
                seen.send_modify(|seen| {
                    seen.insert(item.run, item.seq);
                });
                if is_last(item.kind) {
                    return;
                }
            }
        });
        Ok(())
    }

    /// Waits until everything up to these numbers was printed.
    pub(super) async fn printed(&self, upto: &BTreeMap<RunId, u64>) {
        let mut seen = self.seen.subscribe();
        let all = |seen: &BTreeMap<RunId, u64>| {
            upto.iter()
                .all(|(run, seq)| seen.get(run).is_some_and(|printed| printed >= seq))
        };
        let patience = std::time::Duration::from_secs(10);
        // A lost line is no reason to stop the story: the mails decide.
        drop(tokio::time::timeout(patience, seen.wait_for(all)).await);
    }
}

const fn is_last(kind: EventType) -> bool {
    matches!(
        kind,
        EventType::RunCompleted | EventType::RunFailed | EventType::RunCancelled
    )
}

fn line(began: DateTime<Utc>, name: &str, item: &HistoryItem) -> String {
    let day = (item.at - began).num_days();
    let time = item.at.format("%H:%M:%S");
    let step = item.step.as_deref().unwrap_or("");
    format!(
        "  day {day} {time}  {name:<10} {step:<8} {:<15} {}",
        item.kind.as_str(),
        item.message
    )
}
