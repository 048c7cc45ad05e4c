//! Replies of receivers to the desired states of a service.

use holdpoint_contracts::problem::Problem;
use holdpoint_kernel::{AfterRefusal, DecodedCommand, SentState};
use serde_json::Value;

use super::{DesiredStateKey, Env, SimService};
use crate::tables::Tables;

impl<S: Tables> SimService<S> {
    /// Handles a receiver's reply. Its consequences are committed before the desired state is forgotten.
    pub(crate) fn confirm(&mut self, inbox: &str, reply: &Value, env: &mut Env<'_>) {
        let Some(keys) = self.awaited_replies.remove(inbox) else {
            return;
        };
        let answers = reply["ok"].as_array().cloned().unwrap_or_default();
        for ((key, rev), answer) in keys.into_iter().zip(answers) {
            let is_done = match answer.get("ok") {
                Some(reply) => self.acknowledge(&key, rev, reply, env),
                None => self.handle_refusal(&key, rev, &answer["problem"], env),
            };
            let newest = self
                .desired_states
                .get(&key)
                .map(|kept| kept.desired_state.rev);
            if is_done && newest == Some(rev) {
                self.desired_states.remove(&key);
            }
        }
    }

    /// False: the process died before the commit.
    fn acknowledge(
        &mut self,
        key: &DesiredStateKey,
        rev: u64,
        reply: &Value,
        env: &mut Env<'_>,
    ) -> bool {
        let (kind, workspace, id) = key;
        let sent = SentState {
            kind,
            workspace,
            id,
            rev,
        };
        let input = self.core.acknowledged(&sent, reply);
        let Some(input) = input else { return true };
        self.commit(&DecodedCommand::one(input, None), env)
            .is_some()
    }

    /// Commits the consequences of a refusal. False: the desired state is sent again.
    fn handle_refusal(
        &mut self,
        key: &DesiredStateKey,
        rev: u64,
        problem: &Value,
        env: &mut Env<'_>,
    ) -> bool {
        let (kind, workspace, id) = key;
        let problem: Problem = serde_json::from_value(problem.clone()).unwrap();
        if problem.status >= 500 {
            return false;
        }
        let sent = SentState {
            kind,
            workspace,
            id,
            rev,
        };
        match self.core.refused(&sent, &problem) {
            AfterRefusal::Keep => panic!("{key:?} is always refused: {problem}"),
            AfterRefusal::Drop => true,
            AfterRefusal::Decide(input) => self
                .commit(&DecodedCommand::one(input, None), env)
                .is_some(),
        }
    }
}
