//! Effects to nudges and desired states: translation only.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use holdpoint_bus::Outgoing;
use holdpoint_contracts::executor::{RunEndWatched, WatchRunEnds};
use holdpoint_contracts::notification::{NotificationNudge, SERVICE};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::subject;
use holdpoint_ids::{UserName, Workspace};
use holdpoint_kernel::{
    AfterRefusal, DesiredState, Outbound, SentState, read_first, rows_as_command,
};
use serde_json::Value;

use crate::Notification;
use crate::domain::{ChangedInboxes, Effect, Input, NotificationDomain};

/// People that a nudge names. For more people it names nobody, and every reader looks.
const NAMES_MAX: usize = 100;

/// The desired state that the executor reports run ends.
const WATCH_RUN_ENDS: &str = "watch_run_ends";

impl Outbound<NotificationDomain> for Notification {
    fn desired_states(&self, effects: &[Effect]) -> Vec<DesiredState> {
        effects.iter().filter_map(desired_state).collect()
    }

    fn desired_state_command(
        &self,
        kind: &str,
        workspace: &Workspace,
        bodies: &[&str],
    ) -> Result<Outgoing, serde_json::Error> {
        if kind != WATCH_RUN_ENDS {
            let unknown = format!("unknown kind of desired state: `{kind}`");
            return Err(serde::ser::Error::custom(unknown));
        }
        let first = WatchRunEnds {
            of: read_first(bodies)?,
        };
        rows_as_command(SERVICE, workspace, &first, ("of", bodies))
    }

    /// The run had ended before the person began to watch it. A webhook gets later ends only.
    fn acknowledged(&self, sent: &SentState<'_>, reply: &Value) -> Option<Input> {
        let (person, _of) = sent.id.split_once('/')?;
        let reply: RunEndWatched = serde_json::from_value(reply.clone()).ok()?;
        Some(Input::RunEndedBefore {
            workspace: sent.workspace.clone(),
            person: person.parse().ok()?,
            end: reply.ended?,
        })
    }

    /// A run or agent that does not exist never ends. Every other desired state stays until the executor
    /// accepts it.
    fn refused(&self, _: &SentState<'_>, problem: &Problem) -> AfterRefusal<Input> {
        if problem.status == 404 {
            AfterRefusal::Drop
        } else {
            AfterRefusal::Keep
        }
    }

    /// The kernel calls this after the commit, so it also wakes the sweeps and sends claimed deliveries.
    fn nudges(&self, effects: &[Effect]) -> Vec<(String, Bytes)> {
        if effects.contains(&Effect::ContinueFanOut) {
            self.fan_out_wake.begin();
        }
        for effect in effects {
            if let Effect::Send { key, attempt } = effect {
                self.post.send(key, *attempt);
            }
        }
        if effects.iter().any(Effect::has_due_deliveries) {
            self.delivery_wake.begin();
        }
        inbox_nudges(effects)
    }
}

/// One nudge a workspace: whose inboxes have changed.
fn inbox_nudges(effects: &[Effect]) -> Vec<(String, Bytes)> {
    // `None`: any inbox may have changed.
    let mut changed: BTreeMap<&Workspace, Option<BTreeSet<&UserName>>> = BTreeMap::new();
    for (workspace, inboxes) in effects.iter().filter_map(Effect::changed_inboxes) {
        let names = changed
            .entry(workspace)
            .or_insert_with(|| Some(BTreeSet::new()));
        match inboxes {
            ChangedInboxes::Of(people) => {
                if let Some(names) = names {
                    names.extend(people);
                }
            }
            ChangedInboxes::Any => *names = None,
        }
    }
    changed.into_iter().filter_map(nudge).collect()
}

fn nudge((workspace, names): (&Workspace, Option<BTreeSet<&UserName>>)) -> Option<(String, Bytes)> {
    let named = names.filter(|names| names.len() <= NAMES_MAX);
    let nudge = NotificationNudge {
        people: named.into_iter().flatten().cloned().collect(),
    };
    let body = serde_json::to_vec(&nudge)
        .inspect_err(
            |error| tracing::error!(%error, "a nudge cannot be serialized; it is not sent"),
        )
        .ok()?;
    Some((subject::live(workspace, SERVICE), body.into()))
}

fn desired_state(effect: &Effect) -> Option<DesiredState> {
    let Effect::WatchRunEnds {
        workspace,
        by,
        of,
        rev,
    } = effect
    else {
        return None;
    };
    let body = serde_json::to_string(of)
        .inspect_err(
            |error| tracing::error!(%error, "a desired state cannot be serialized; it is not sent"),
        )
        .ok()?;
    Some(DesiredState {
        kind: WATCH_RUN_ENDS,
        workspace: workspace.clone(),
        id: format!("{by}/{of}"),
        rev: *rev,
        body,
    })
}
