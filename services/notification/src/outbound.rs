//! Effects to messages: translation only.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use holdpoint_contracts::notification::{NotificationNudge, SERVICE};
use holdpoint_contracts::subject;
use holdpoint_ids::{UserName, Workspace};

use crate::domain::Effect;

/// People that a nudge names; where more are concerned it names nobody, and all look.
const NAMES_MAX: usize = 100;

/// One nudge a workspace: whose notifications have changed.
pub(crate) fn nudges(effects: &[Effect]) -> Vec<(String, Bytes)> {
    let mut changed: BTreeMap<&Workspace, Option<BTreeSet<&UserName>>> = BTreeMap::new();
    for effect in effects {
        match effect {
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
