//! Finds queued steps whose tool no live node has offered for some time. One run of each workspace and tool then asks
//! people.
//!
//! It is a part of the sweep of dispatches, and time is counted in its passes.

use std::collections::{BTreeSet, HashMap};

use holdpoint_contracts::steps::{HTTP_QUEUE, StepDispatch};
use holdpoint_ids::{ToolName, Workspace};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;

use super::queued_calls::{Place, QueuedCall};
use crate::domain::{Input, Node, RunInput};
use crate::store;

/// Passes without a node that offers a tool: 5 minutes. A node that restarts is back by then.
pub(super) const MISSING_PASSES: u32 = 16;

/// Nodes that are looked at, live ones first. If all of them live, more may offer a tool, so none is taken as missing.
const NODES_MAX: u64 = 500;

/// A queue has the name of the tool for which nodes take its steps.
type Queue = ToolName;

#[derive(Debug, Default)]
pub(super) struct MissingTools {
    pass: u32,
    /// The last pass that found a live node for a queue.
    offered_at: HashMap<Queue, u32>,
    /// The queued step whose run asks.
    asking: HashMap<(Workspace, Queue), Place>,
}

impl MissingTools {
    /// Looks at the nodes. Returns what follows for runs that ask about a tool that is back.
    pub(super) async fn begin_pass(
        &mut self,
        db: &DatabaseConnection,
    ) -> Result<Vec<Input>, StoreError> {
        let nodes = store::list_nodes(db, NODES_MAX).await?;
        let is_full = nodes.len() >= usize::try_from(NODES_MAX).unwrap_or(usize::MAX);
        if is_full && nodes.last().is_some_and(Node::is_live) {
            // Counts from here again when all nodes are seen.
            *self = Self::default();
            return Ok(Vec::new());
        }
        let live = nodes.into_iter().filter(Node::is_live);
        Ok(self.count_pass(&live.flat_map(|node| node.tools).collect()))
    }

    fn count_pass(&mut self, offered: &BTreeSet<Queue>) -> Vec<Input> {
        self.pass += 1;
        for queue in offered {
            self.offered_at.insert(queue.clone(), self.pass);
        }
        let back = self
            .asking
            .extract_if(|(_, queue), _| offered.contains(queue));
        back.map(|((workspace, queue), place)| input(workspace, place, queue, true))
            .collect()
    }

    /// What follows for calls that no worker has started for so many passes.
    pub(super) fn check(&mut self, late: &[(&QueuedCall, u32)]) -> Vec<Input> {
        // A run that asks already is found first, also after a restart.
        for (call, _) in late.iter().filter(|(call, _)| call.has_question) {
            let key = (call.out.workspace.clone(), queue_of(&call.out));
            self.asking.entry(key).or_insert_with(|| call.place());
        }
        let inputs = late.iter().filter_map(|(call, passes)| {
            let queue = queue_of(&call.out);
            let last = self.offered_at.get(&queue).copied();
            if last == Some(self.pass) {
                return call.has_question.then(|| call.input(true));
            }
            let is_missing = self.pass - last.unwrap_or(0) >= MISSING_PASSES;
            if call.has_question || !is_missing || *passes < MISSING_PASSES {
                return None;
            }
            let key = (call.out.workspace.clone(), queue);
            let asking = self.asking.entry(key).or_insert_with(|| call.place());
            (*asking == call.place()).then(|| call.input(false))
        });
        inputs.collect()
    }

    /// Forgets the steps that are no longer queued.
    pub(super) fn end_pass(&mut self, is_queued: impl Fn(&Place) -> bool) {
        self.asking.retain(|_, place| is_queued(place));
    }
}

/// The built-in node takes registered HTTP calls from one queue.
fn queue_of(out: &StepDispatch) -> Queue {
    let http = out.http.as_ref().and_then(|_| HTTP_QUEUE.parse().ok());
    http.unwrap_or_else(|| out.tool.clone())
}

impl QueuedCall {
    fn input(&self, is_offered: bool) -> Input {
        let (workspace, tool) = (self.out.workspace.clone(), self.out.tool.clone());
        input(workspace, self.place(), tool, is_offered)
    }
}

fn input(workspace: Workspace, place: Place, tool: ToolName, is_offered: bool) -> Input {
    let (run, step, dispatch) = place;
    Input::Run {
        workspace,
        run,
        input: RunInput::ToolAvailability {
            step,
            dispatch,
            tool,
            is_offered,
        },
    }
}

#[cfg(test)]
mod tests {
    use holdpoint_ids::RunId;

    use super::*;
    use crate::outbound::tests::out;

    fn call(workspace: &str, tool: &str) -> QueuedCall {
        QueuedCall {
            out: StepDispatch {
                workspace: workspace.parse().unwrap(),
                tool: tool.parse().unwrap(),
                run: RunId::fresh(),
                ..out()
            },
            is_idempotent: true,
            has_question: false,
        }
    }

    fn offered(tools: &[&str]) -> BTreeSet<Queue> {
        tools.iter().map(|tool| tool.parse().unwrap()).collect()
    }

    /// The runs of inputs, each with whether its tool is offered.
    fn runs(inputs: Vec<Input>) -> Vec<(RunId, bool)> {
        let runs = inputs.into_iter().map(|input| {
            let Input::Run { run, input, .. } = input else {
                panic!("{input:?}");
            };
            let RunInput::ToolAvailability { is_offered, .. } = input else {
                panic!("{input:?}");
            };
            (run, is_offered)
        });
        runs.collect()
    }

    /// Gate 1: people are asked once about a missing tool, however many runs wait for it.
    #[test]
    fn one_run_of_a_workspace_asks_about_a_tool() {
        let mut tools = MissingTools::default();
        let calls = [
            call("acme", "own.pay"),
            call("acme", "own.pay"),
            call("acme", "own.ship"),
            call("acme", "log"),
            call("other", "own.pay"),
        ];
        let late = |passes| calls.iter().map(|call| (call, passes)).collect::<Vec<_>>();
        for pass in 1..MISSING_PASSES {
            tools.count_pass(&offered(&["log"]));
            assert_eq!(tools.check(&late(pass)).len(), 0);
        }
        tools.count_pass(&offered(&["log"]));
        assert_eq!(tools.check(&late(MISSING_PASSES - 1)).len(), 0);
        let [first, second, ship, _, other] = calls.each_ref().map(|call| call.out.run);
        let asked = runs(tools.check(&late(MISSING_PASSES)));
        assert_eq!(asked, [(first, false), (ship, false), (other, false)]);
        // The first one is no longer queued.
        tools.end_pass(|(run, ..)| *run != first);
        let asked = runs(tools.check(&late(MISSING_PASSES)[1..]));
        assert_eq!(asked, [(second, false), (ship, false), (other, false)]);
    }

    #[test]
    fn a_node_that_restarts_is_not_missing() {
        let mut tools = MissingTools::default();
        let call = call("acme", "own.pay");
        for pass in 1..=3 * MISSING_PASSES {
            // It is away in one pass of ten.
            let offered = offered(if pass % 10 == 0 { &[] } else { &["own.pay"] });
            tools.count_pass(&offered);
            assert_eq!(tools.check(&[(&call, pass)]).len(), 0);
        }
    }

    /// Also after a restart, which forgets who asks.
    #[test]
    fn the_question_of_a_run_is_known_and_withdrawn_when_the_tool_is_back() {
        let mut tools = MissingTools::default();
        let (quiet, mut asks) = (call("acme", "own.pay"), call("acme", "own.pay"));
        asks.has_question = true;
        for _ in 0..MISSING_PASSES {
            tools.count_pass(&offered(&[]));
        }
        let late = [(&quiet, MISSING_PASSES), (&asks, MISSING_PASSES)];
        assert_eq!(tools.check(&late).len(), 0);
        let back = runs(tools.count_pass(&offered(&["own.pay"])));
        assert_eq!(back, [(asks.out.run, true)]);
        assert_eq!(runs(tools.check(&late)), back, "or it is found in its row");
    }

    #[test]
    fn an_http_tool_needs_the_built_in_node() {
        let mut tools = MissingTools::default();
        let mut call = call("acme", "crm.find");
        call.out.http = Some(holdpoint_contracts::tool::HttpCall {
            method: "POST".to_owned(),
            url: "https://x.example".to_owned(),
            headers: std::collections::BTreeMap::new(),
        });
        for _ in 0..MISSING_PASSES {
            tools.count_pass(&offered(&["http-tool"]));
        }
        assert_eq!(tools.check(&[(&call, MISSING_PASSES)]).len(), 0);
        for _ in 0..MISSING_PASSES {
            tools.count_pass(&offered(&["crm.find"]));
        }
        assert_eq!(tools.check(&[(&call, MISSING_PASSES)]).len(), 1);
    }
}
