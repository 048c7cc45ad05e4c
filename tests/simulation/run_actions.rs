//! What people and programs do with runs, agents and workspaces.

use holdpoint_contracts::executor::{
    CancelRun, PauseNew, PauseRun, PauseScope, PauseWaiting, ResumeRun, ResumeScope, RetryRun,
    SignalRun,
};
use holdpoint_contracts::operation::{RunAction, RunFilter, StartOperation};
use holdpoint_contracts::run::ResumeMode;
use holdpoint_contracts::suspension::{StepOnResume, SuspendRun};
use holdpoint_ids::{AgentName, OperationId, RunId};
use serde_json::json;

use crate::features::Feature;
use crate::world::World;

impl World {
    /// A person does something with a run, an agent or the workspace.
    pub(crate) fn act_on_runs(&mut self) {
        if self.runs.is_empty() {
            return;
        }
        let run = self.runs[self.chance.place(self.runs.len())];
        let scopes = 2 * u64::from(self.features.has(Feature::Scopes));
        let fails = self.features.has(Feature::Failing) || self.features.has_reviews();
        let retries = u64::from(fails);
        if self.features.has(Feature::Signals) && self.chance.one_in(3) {
            self.send_signal(run);
            return;
        }
        if self.features.has(Feature::Operations) && self.chance.one_in(6) {
            self.start_operation();
            return;
        }
        let suspends = u64::from(self.features.has(Feature::Suspending));
        match self.chance.below(10 + scopes + retries + suspends) {
            action if action == 10 + scopes + retries => {
                let reason = None;
                self.send_command(SuspendRun { run, reason });
            }
            action if action == 10 + scopes => {
                let from_step = None;
                self.send_command(RetryRun { run, from_step });
            }
            0 => self.send_command(CancelRun { run, reason: None }),
            10 => {
                let agent = self.scope();
                let (waiting, new) = (PauseWaiting::Hold, PauseNew::Accept);
                let command = PauseScope {
                    agent,
                    waiting,
                    new,
                };
                self.signed(0, command);
            }
            11 => {
                let agent = self.scope();
                let mode = ResumeMode::Continue;
                self.signed(0, ResumeScope { agent, mode });
            }
            9 => self.take_over_run(run),
            1..=4 => {
                let waiting = PauseWaiting::Hold;
                self.send_command(PauseRun { run, waiting });
                if self.features.has(Feature::Restarting) {
                    let (mode, step) = (ResumeMode::Restart, None);
                    self.send_command(ResumeRun { run, mode, step });
                }
            }
            5..=8 => {
                let modes = [
                    ResumeMode::Continue,
                    ResumeMode::KeepDeadline,
                    ResumeMode::Restart,
                    ResumeMode::Now,
                ];
                let mode = modes[self.chance.place(modes.len())];
                // To redo a step could repeat its effect, as a person may decide.
                let skips = self.features.has(Feature::Suspending) && self.chance.one_in(4);
                let step = skips.then_some(StepOnResume::Skip);
                self.send_command(ResumeRun { run, mode, step });
            }
            _ => unreachable!("below 14"),
        }
    }

    /// One action with all runs of an agent or of the workspace.
    fn start_operation(&mut self) {
        let filter = RunFilter {
            agent: self.scope(),
            ..RunFilter::default()
        };
        let action = match self.chance.below(3) {
            0 => RunAction::Pause {
                waiting: PauseWaiting::Hold,
            },
            1 => RunAction::Cancel { reason: None },
            _ => RunAction::Resume {
                mode: ResumeMode::Continue,
            },
        };
        let id = OperationId::from_uuid(self.fresh_run().uuid());
        let command = StartOperation {
            id,
            action,
            filter,
            matched: 1,
        };
        self.signed(0, command);
    }

    /// An agent, or the workspace.
    fn scope(&mut self) -> Option<AgentName> {
        let number = self.chance.below(3);
        (number < 2).then(|| format!("agent-{number}").parse().unwrap())
    }

    /// A program sends a signal, sometimes under a key that the run has taken.
    fn send_signal(&mut self, run: RunId) {
        let number = self.chance.below(4);
        self.send_command(SignalRun {
            run,
            name: "go".to_owned(),
            data: json!({ "number": number }),
            key: Some(format!("key-{number}")),
        });
    }
}
