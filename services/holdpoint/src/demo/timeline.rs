//! The live timeline: watches runs over SSE and prints one line per event.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Utc};
use holdpoint_contracts::history::HistoryItem;
use holdpoint_ids::RunId;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client::{Client, Live};
use crate::command::run::watch::exit_kind;
use crate::output;

pub(super) struct Timeline {
    client: Client,
    began: DateTime<Utc>,
    /// Number of the last printed event, by run.
    seen: watch::Sender<BTreeMap<RunId, u64>>,
    /// Lets one task print at a time.
    printer: Arc<Mutex<()>>,
    watchers: JoinSet<()>,
}

impl Timeline {
    pub(super) fn new(client: Client, began: DateTime<Utc>) -> Self {
        let seen = watch::Sender::new(BTreeMap::new());
        Self {
            client,
            began,
            seen,
            printer: Arc::default(),
            watchers: JoinSet::new(),
        }
    }

    /// Prints the events of a run until its end.
    pub(super) fn watch(&mut self, run: RunId, name: String) -> anyhow::Result<()> {
        let mut events = self.client.run_events(&run.to_string())?;
        let (began, seen, printer) = (self.began, self.seen.clone(), Arc::clone(&self.printer));
        self.watchers.spawn(async move {
            while let Ok(live) = events.next().await {
                let Live::Item(item, _) = live else { continue };
                {
                    let _one = printer.lock().unwrap_or_else(PoisonError::into_inner);
                    // The story itself notices a closed terminal.
                    drop(output::line(&event_line(began, &name, &item)));
                }
                seen.send_modify(|seen| {
                    seen.insert(item.run, item.seq);
                });
                if exit_kind(item.kind).is_some() {
                    return;
                }
            }
        });
        Ok(())
    }

    /// Waits until the events up to these numbers are printed.
    pub(super) async fn wait_until_printed(&self, last_seqs: &BTreeMap<RunId, u64>) {
        let mut seen = self.seen.subscribe();
        let all = |seen: &BTreeMap<RunId, u64>| {
            last_seqs
                .iter()
                .all(|(run, seq)| seen.get(run).is_some_and(|printed| printed >= seq))
        };
        let at_most = std::time::Duration::from_secs(10);
        // A lost line does not stop the story, because the mails decide about success.
        drop(tokio::time::timeout(at_most, seen.wait_for(all)).await);
    }
}

fn event_line(began: DateTime<Utc>, name: &str, item: &HistoryItem) -> String {
    let day = (item.at - began).num_days();
    let time = item.at.format("%H:%M:%S");
    let step = item.step.as_deref().unwrap_or("");
    format!(
        "  day {day} {time}  {name:<10} {step:<8} {:<15} {}",
        item.kind.as_str(),
        item.message
    )
}
