//! Effects to messages, and desired states: translation only.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use holdpoint_bus::Outgoing;
use holdpoint_contracts::executor::{RunEndWatched, WatchRunEnds};
use holdpoint_contracts::notification::{NotificationNudge, SERVICE};
use holdpoint_contracts::subject;
use holdpoint_ids::{UserName, Workspace};
use holdpoint_kernel::{
    Acknowledged, AfterRefusal, DesiredState, RefusedState, read_first, rows_as_command,
};

use crate::domain::{Effect, Input};

/// People that a nudge names; where more are concerned it names nobody, and all look.
const NAMES_MAX: usize = 100;

/// One nudge a workspace: whose notifications have changed.
pub(crate) fn nudges(effects: &[Effect]) -> Vec<(String, Bytes)> {
    let mut changed: BTreeMap<&Workspace, Option<BTreeSet<&UserName>>> = BTreeMap::new();
    for effect in effects {
        match effect {
            // It is only kept, for what leaves the application.
            Effect::Notice { people, .. } if people.is_empty() => {}
            Effect::Copies {
                workspace, people, ..
            }
            | Effect::Notice {
                workspace, people, ..
            } => {
                let names = changed
                    .entry(workspace)
                    .or_insert_with(|| Some(BTreeSet::new()));
                if let Some(names) = names {
                    names.extend(people);
                }
            }
            Effect::Read {
                workspace, person, ..
            }
            | Effect::ReadAll {
                workspace, person, ..
            } => {
                let names = changed
                    .entry(workspace)
                    .or_insert_with(|| Some(BTreeSet::new()));
                if let Some(names) = names {
                    names.insert(person);
                }
            }
            Effect::Settle { workspace, .. } => {
                changed.insert(workspace, None);
            }
            Effect::More
            | Effect::WatchRunEnds { .. }
            | Effect::Users(_)
            | Effect::Deliver { .. }
            | Effect::FollowUp { .. }
            | Effect::Reconsider { .. }
            | Effect::Forget { .. }
            | Effect::Send { .. } => {}
        }
    }
    changed.into_iter().filter_map(nudge).collect()
}

fn nudge((workspace, names): (&Workspace, Option<BTreeSet<&UserName>>)) -> Option<(String, Bytes)> {
    let few = names.filter(|names| names.len() <= NAMES_MAX);
    let nudge = NotificationNudge {
        people: few.into_iter().flatten().cloned().collect(),
    };
    let body = serde_json::to_vec(&nudge)
        .inspect_err(|error| tracing::error!(%error, "a nudge that cannot be written"))
        .ok()?;
    Some((subject::live(workspace, SERVICE), body.into()))
}

/// Which ends the executor is to tell of.
const WATCH_ENDS: &str = "watch_run_ends";

/// What is wanted of the executor.
pub(crate) fn desired_states(effects: &[Effect]) -> Vec<DesiredState> {
    let desired_state = |effect: &Effect| {
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
            .inspect_err(|error| tracing::error!(%error, "a desired state that cannot be written"))
            .ok()?;
        Some(DesiredState {
            kind: WATCH_ENDS,
            workspace: workspace.clone(),
            id: format!("{by}/{of}"),
            rev: *rev,
            body,
        })
    };
    effects.iter().filter_map(desired_state).collect()
}

/// The command that carries desired states.
pub(crate) fn desired_state_command(
    kind: &str,
    workspace: &Workspace,
    bodies: &[&str],
) -> Result<Outgoing, serde_json::Error> {
    if kind != WATCH_ENDS {
        let unknown = format!("no desired state is of kind `{kind}`");
        return Err(serde::ser::Error::custom(unknown));
    }
    let first = WatchRunEnds {
        of: read_first(bodies)?,
    };
    rows_as_command(SERVICE, workspace, &first, ("of", bodies))
}

/// What does not exist never ends: nobody has to be told. Everything else stays until the executor
/// takes it.
pub(crate) fn refused(desired_state: &RefusedState<'_>) -> AfterRefusal<Input> {
    match desired_state.is_target_missing() {
        true => AfterRefusal::Drop,
        false => AfterRefusal::Keep,
    }
}

/// What the answer means: the run had ended before somebody began to watch it. A webhook wants all ends from
/// now on, and none of before.
pub(crate) fn confirmed(desired_state: &Acknowledged<'_>) -> Option<Input> {
    let (person, _of) = desired_state.id.split_once('/')?;
    let answer: RunEndWatched = serde_json::from_value(desired_state.reply.clone()).ok()?;
    Some(Input::EndedBefore {
        workspace: desired_state.workspace.clone(),
        person: person.parse().ok()?,
        end: answer.ended?,
    })
}
