//! `executor.start_scheduled`: a schedule has fired and starts a run, unless its agent is paused or its last run is open.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::{ScheduledStart, ScheduledStartReply};
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::scheduler::WhenPaused;
use holdpoint_ids::{RunId, Workspace};

use crate::domain::commands::start_run::start_run;
use crate::domain::decision::{Decision, Lookup, LookupFn, Outcome, Undecided};
use crate::domain::effect::Reply;
use crate::domain::input::RunInput;
use crate::domain::need::{Fact, Key, Need};
use crate::domain::rules::scopes::{KINDS, Scopes};

/// Label of the runs of a schedule; its value is the name of the schedule.
const LABEL: &str = "schedule";

/// Starts the run of a fire. Nothing is stored if it is skipped, so a repetition decides again.
pub(crate) fn start_scheduled(
    workspace: &Workspace,
    run: RunId,
    start: &ScheduledStart,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    if let Some(reply) = skip_reason(workspace, start, lookup)? {
        return Ok(Outcome::Unchanged(Reply::ScheduledStart(reply)));
    }
    let labels = BTreeMap::from([(LABEL.to_owned(), start.schedule.to_string())]);
    let input = RunInput::Start {
        agent: start.agent.clone(),
        input: start.input.clone(),
        contact: None,
        labels,
        by: Actor(format!("schedule:{}", start.schedule)),
    };
    Ok(match start_run(workspace, run, &input, lookup, now)? {
        Outcome::Decided(mut decided) => {
            decided.reply = Reply::ScheduledStart(ScheduledStartReply::Started);
            Outcome::Decided(decided)
        }
        // The agent starts once for such a start.
        Outcome::Unchanged(_) => {
            Outcome::Unchanged(Reply::ScheduledStart(ScheduledStartReply::Open))
        }
    })
}

/// Why a fire starts nothing. The scopes and the last run are loaded together, because the kernel allows few rounds. A
/// run that was deleted after its retention is not open.
fn skip_reason(
    workspace: &Workspace,
    start: &ScheduledStart,
    lookup: LookupFn<'_>,
) -> Result<Option<ScheduledStartReply>, Undecided> {
    let last_run = start.unless_open.map(|run| Need::State(Key::Run(run)));
    let mut needs = Scopes::needs(workspace, &start.agent).to_vec();
    needs.extend(last_run.clone());
    needs.retain(|need| matches!(lookup(need), Lookup::NotLoaded));
    if !needs.is_empty() {
        return Err(Undecided::NeedsMore(needs));
    }
    if let Some(last_run) = last_run
        && let Lookup::Found(Fact::Run(fact)) = lookup(&last_run)
        && fact.workspace == *workspace
        && !fact.is_final
    {
        return Ok(Some(ScheduledStartReply::Open));
    }
    let scopes = Scopes::look_up(workspace, &start.agent, lookup)?;
    let mut commanded = KINDS.iter().filter_map(|kind| scopes.of(*kind));
    let is_paused = commanded.any(|scope| scope.paused.is_some());
    let is_skipped = is_paused && start.when_paused == WhenPaused::Skip;
    Ok(is_skipped.then_some(ScheduledStartReply::Paused))
}
