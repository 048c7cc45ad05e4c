//! What receivers say to the desired states of a service.

use holdpoint_contracts::problem::Problem;
use holdpoint_kernel::{Acknowledged, AfterRefusal, DecodedCommand, RefusedState};
use serde_json::Value;

use super::{Around, DesiredStateKey, SimService};
use crate::tables::Tables;

impl<S: Tables> SimService<S> {
    /// A receiver's word on desired states: what it means is decided, and then the desired state is forgotten.
    pub(crate) fn confirm(&mut self, inbox: &str, reply: &Value, around: &mut Around<'_>) {
        let Some(keys) = self.asked.remove(inbox) else {
            return;
        };
        let answers = reply["ok"].as_array().cloned().unwrap_or_default();
        for ((key, rev), answer) in keys.into_iter().zip(answers) {
            let is_heard = match answer.get("ok") {
                Some(word) => self.hear(&key, rev, word, around),
                None => self.hear_refusal(&key, rev, &answer["problem"], around),
            };
            let newest = self
                .desired_states
                .get(&key)
                .map(|kept| kept.desired_state.rev);
            if is_heard && newest == Some(rev) {
                self.desired_states.remove(&key);
            }
        }
    }

    /// False: it died before it could store what the answer means.
    fn hear(
        &mut self,
        key: &DesiredStateKey,
        rev: u64,
        word: &Value,
        around: &mut Around<'_>,
    ) -> bool {
        let (kind, workspace, id) = key;
        let input = self.core.acknowledged(&Acknowledged {
            kind,
            workspace,
            id,
            rev,
            reply: word,
        });
        let Some(input) = input else { return true };
        self.commit(&DecodedCommand::one(input, None), around)
            .is_some()
    }

    /// What a refusal means is decided before the desired state is forgotten. False: it is sent again.
    fn hear_refusal(
        &mut self,
        key: &DesiredStateKey,
        rev: u64,
        problem: &Value,
        around: &mut Around<'_>,
    ) -> bool {
        let (kind, workspace, id) = key;
        let problem: Problem = serde_json::from_value(problem.clone()).unwrap();
        if problem.status >= 500 {
            return false;
        }
        let refused = RefusedState {
            kind,
            workspace,
            id,
            rev,
            problem: &problem,
        };
        match self.core.refused(&refused) {
            AfterRefusal::Keep => panic!("{key:?} is refused for ever: {problem}"),
            AfterRefusal::Drop => true,
            AfterRefusal::Decide(input) => self
                .commit(&DecodedCommand::one(input, None), around)
                .is_some(),
        }
    }
}
