//! Runs that the steps of a rehearsed run start. They are rehearsed with the plans of their agents, on the same clock and
//! within the same limits, unless a rule of the script says how they end.

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::{ChildRunEnd, ChildRunState, DesiredChildRun};
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::rehearsal::Outgoing;
use holdpoint_contracts::run::RunStatus;
use holdpoint_contracts::size::json_bytes;
use serde_json::Value;

use super::call_results::code_of;
use super::in_memory_run::{DesiredChild, InMemoryRun, OneRun};
use super::recorder::Sent;
use super::script::{Called, ToolRule};
use crate::domain::input::{RefusedChildRun, RunInput};

impl InMemoryRun<'_> {
    /// Keeps what a run wants of a child run. Returns what starts.
    pub(super) fn keep_child(&mut self, place: u32, desired: DesiredChildRun) -> Option<Sent> {
        let mut queued = self.desired_children.iter();
        let is_queued = queued.any(|it| it.desired.run == desired.run);
        let is_known = self.runs.contains_key(&desired.run);
        let sent = match &desired.state {
            ChildRunState::Cancelled { .. } if !is_known => {
                let run = desired.run;
                self.desired_children.retain(|it| it.desired.run != run);
                return None;
            }
            ChildRunState::Open { .. } | ChildRunState::Frozen { .. }
                if !is_known && !is_queued =>
            {
                Some(Sent {
                    step: Some(desired.step.clone()),
                    kind: EventType::StepCalled,
                    outgoing: Outgoing::ChildRun {
                        agent: desired.agent.clone(),
                    },
                })
            }
            ChildRunState::Open { .. }
            | ChildRunState::Frozen { .. }
            | ChildRunState::Cancelled { .. } => None,
        };
        self.desired_children
            .push_back(DesiredChild { place, desired });
        sent
    }

    /// Brings a child run into its desired state, which starts it at first.
    pub(super) fn set_child(&mut self, DesiredChild { place, desired }: DesiredChild) {
        let is_known = self.runs.contains_key(&desired.run);
        if !is_known {
            let number = self.count_call(desired.hold.run, &desired.step);
            let rule = self.child_rule(&desired, number);
            if rule.is_some() || !self.setup.knows_child(&desired.agent) {
                let end = scripted_end(&desired, rule.as_ref(), self.now);
                self.child_ends.push_back(end);
                return;
            }
            let child = OneRun::at(self.place_of(place, &desired));
            self.runs.insert(desired.run, child);
        }
        let (run, hold, rev) = (desired.run, desired.hold, desired.rev);
        let refused = self.give(run, RunInput::SetChildRun(Box::new(desired)));
        if is_known {
            return;
        }
        if let Err(problem) = refused {
            let refused = RefusedChildRun {
                hold,
                place,
                rev,
                code: problem.code,
                message: problem.detail,
            };
            drop(self.give(hold.run, RunInput::ChildRunRefused(Box::new(refused))));
        }
        let child = self.runs.get(&run).and_then(|child| child.run.as_ref());
        let bytes = child.map_or(0, json_bytes);
        self.count_memory(bytes);
    }

    /// Tells the parent that a child run has ended. Nothing more is wanted of that run.
    pub(super) fn end_child(&mut self, end: ChildRunEnd) {
        if let Some(child) = self.runs.get_mut(&end.child) {
            *child = OneRun::at(std::mem::take(&mut child.place));
        }
        drop(self.give(end.id.run, RunInput::ChildRunEnded(Box::new(end))));
    }

    /// How the script ends the run.
    fn child_rule(&self, desired: &DesiredChildRun, number: u32) -> Option<ToolRule> {
        let step = self.placed(desired.hold.run, Some(&desired.step));
        let called = Called {
            step: step.as_deref().unwrap_or_default(),
            tool: None,
            agent: Some(desired.agent.as_str()),
            number,
        };
        let rule = self.setup.script.tool(&called, self.contact_id());
        rule.cloned()
    }

    /// The step that starts the run. A number tells the runs of one step apart.
    fn place_of(&self, place: u32, desired: &DesiredChildRun) -> String {
        let step = self.placed(desired.hold.run, Some(&desired.step));
        let step = step.unwrap_or_default();
        let parent = self.runs.get(&desired.hold.run);
        let steps = parent.and_then(|parent| Some(&parent.run.as_ref()?.steps));
        let mut runs = steps.into_iter().flatten();
        let runs = runs.find_map(|step| {
            let runs = step.child_runs.as_deref()?;
            (runs.hold == desired.hold).then_some(runs.runs.len())
        });
        match runs {
            Some(2..) => format!("{step}.{}", place.saturating_add(1)),
            Some(0 | 1) | None => step,
        }
    }
}

/// A run that no plan is rehearsed for completes, unless its rule says otherwise.
fn scripted_end(
    desired: &DesiredChildRun,
    rule: Option<&ToolRule>,
    at: DateTime<Utc>,
) -> ChildRunEnd {
    let error = rule.and_then(|rule| rule.fail.clone());
    let result = rule.and_then(|rule| rule.result.clone());
    let is_failed = error.is_some();
    ChildRunEnd {
        id: desired.hold,
        child: desired.run,
        rev: 1,
        status: if is_failed {
            RunStatus::Failed
        } else {
            RunStatus::Completed
        },
        code: is_failed.then(|| code_of(rule)),
        output: match error {
            Some(_) => Value::Null,
            None => result.unwrap_or_default(),
        },
        message: error.unwrap_or_else(|| "Rehearsed.".to_owned()),
        steps: 0,
        cost: 0.0,
        at,
    }
}
