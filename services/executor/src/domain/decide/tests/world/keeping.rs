//! What becomes of the effects: as tables, scheduler and handoff service keep them.

use holdpoint_contracts::hold::DesiredHold;

use super::World;
use crate::domain::{Effect, Run, StepRow};

impl World {
    pub(super) fn keep(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::AgentVersion { .. } => panic!("a run makes no agents"),
                Effect::Value { name, value, .. } => {
                    self.values.insert(name, value);
                }
                Effect::Step(row) => self.keep_row(*row),
                Effect::Activity { id, activity, .. } => {
                    self.said.entry(id).or_insert(activity);
                }
                Effect::ForgetActivities { .. }
                | Effect::EraseContactTraces { .. }
                | Effect::ErasurePending
                | Effect::DeleteRun { .. } => panic!("a run erases no contact"),
                Effect::Hold { desired_state, .. } => self.take_desired_state(*desired_state),
                Effect::Lease(lease) => {
                    self.leases.insert(lease.step.clone(), *lease);
                }
                Effect::LeaseEnded { step, .. } => {
                    let lease = self.leases.remove(&step);
                    assert!(lease.is_some(), "{step} had no lease to end");
                }
                Effect::LeaseEvent { step, entry, .. } => self.claims.push((step, entry)),
                Effect::NodeTimer { .. }
                | Effect::LeasesRenewed { .. }
                | Effect::Users(_)
                | Effect::DeleteExpiredRuns { .. }
                | Effect::DeleteExpiredBlobs { .. }
                | Effect::OperationResult(_)
                | Effect::OperationPending
                | Effect::ScopeSyncPending => {
                    panic!("a run knows no nodes, no users and no pages")
                }
                Effect::ProbeNode { node } => self.probed.push(node.to_string()),
                Effect::Snapshot(view) => self.snapshot = Some((*view).clone()),
                Effect::Blob {
                    step,
                    sha256,
                    change,
                    ..
                } => {
                    self.blobs.change((step, sha256), change);
                }
                Effect::StepDispatch(step_dispatch) => self.handed.push(*step_dispatch),
                Effect::Timer { hold, rev, due, .. } => {
                    let newest = self.timers.get(&hold).is_none_or(|(known, _)| rev > *known);
                    assert!(newest, "the scheduler would ignore rev {rev} of {hold}");
                    self.timers.insert(hold, (rev, due));
                }
                Effect::ChildRun { desired_state, .. } => {
                    let known = self.children.get(&desired_state.run);
                    assert!(known.is_none_or(|known| desired_state.rev > known.rev));
                    self.children.insert(desired_state.run, *desired_state);
                }
                Effect::ChildRunEnded { end, .. } => self.child_ends.push(*end),
                Effect::Limits { row, .. } => self.limits = Some(*row),
                Effect::PlacesChanged { key } => self.freed.push(key),
                Effect::ReplyPending { .. }
                | Effect::ContactEvent { .. }
                | Effect::ContactFields { .. } => {}
                Effect::RunEnded { end, .. } => self.ended.push(*end),
                Effect::History { items, .. } => self.history.extend(items),
            }
        }
    }

    /// The table keeps what is not said again.
    fn keep_row(&mut self, mut row: StepRow) {
        let old = self.rows.get(&row.step).filter(|_| !row.is_reset);
        row.tool = row.tool.or_else(|| old.and_then(|it| it.tool.clone()));
        row.called = row.called.or_else(|| old.and_then(|it| it.called.clone()));
        row.request = row
            .request
            .or_else(|| old.and_then(|it| it.request.clone()));
        row.response = row
            .response
            .or_else(|| old.and_then(|it| it.response.clone()));
        if row.failed_attempts.is_empty()
            && let Some(old) = self.rows.get(&row.step)
        {
            row.failed_attempts = old.failed_attempts.clone();
        }
        self.rows.insert(row.step.clone(), row);
    }

    pub(super) fn record_child_ends(&mut self, next: &Run) {
        let runs = next.steps.iter().flat_map(|step| &step.child_runs);
        let ended = runs.flat_map(|runs| &runs.runs);
        let ended = ended.filter(|run| run.end.is_some());
        self.ended_children.extend(ended.map(|run| run.run));
    }

    /// As the handoff service keeps it: lower or equal changes nothing, so none may be.
    fn take_desired_state(&mut self, desired_state: DesiredHold) {
        let known = self.holds.get(&desired_state.id);
        let newest = known.is_none_or(|(rev, _)| desired_state.rev > *rev);
        assert!(
            newest,
            "handoff would ignore rev {} of {}",
            desired_state.rev, desired_state.id
        );
        self.holds
            .insert(desired_state.id, (desired_state.rev, desired_state.state));
    }
}
