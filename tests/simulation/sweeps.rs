//! The inputs and messages of the executor's sweeps: expired leases, nodes that do not answer a probe, and
//! dispatches without a worker.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdpoint_contracts::steps::{NodeStatus, StepDispatch};
use holdpoint_contracts::subject::{self, Lane};
use holdpoint_executor::domain::run::{StepPhase, ToolInvocation};
use holdpoint_executor::domain::scope::Cursor;
use holdpoint_executor::domain::{
    Aggregate, Fact, Input, Key, Lease, Need, Node, NodeInput, OperationInput, OperationItem, Run,
    RunInput, ScopeInput, input_of_action, selected_status,
};
use holdpoint_executor::{Executor, LeaseStatus, lease_status};
use holdpoint_ids::NodeName;

use crate::service::SimService;

/// The version of each node that the sweep before has probed.
pub(crate) type ProbedNodes = BTreeMap<NodeName, u64>;

pub(crate) fn nodes(executor: &SimService<Executor>) -> BTreeMap<&NodeName, &Node> {
    let states = executor.states.values();
    states
        .filter_map(|state| match state {
            Aggregate::Node(node) => Some((&node.name, node)),
            _ => None,
        })
        .collect()
}

/// All runs, in the order of their ids.
pub(crate) fn runs(executor: &SimService<Executor>) -> Vec<&Run> {
    let mut runs: Vec<_> = executor
        .states
        .iter()
        .filter_map(|(key, state)| match (key, state) {
            (Key::Run(_), Aggregate::Run(run)) => Some(run),
            _ => None,
        })
        .collect();
    runs.sort_by_key(|run| run.id);
    runs
}

/// `sweeps/leases.rs`. A node has one pass to answer a probe.
pub(crate) fn leases(
    executor: &SimService<Executor>,
    probed: &mut ProbedNodes,
    now: chrono::DateTime<chrono::Utc>,
) -> Vec<Input> {
    let nodes = nodes(executor);
    let before = std::mem::take(probed);
    let mut inputs = Vec::new();
    for node in nodes.values() {
        if node.status != NodeStatus::Suspect {
            continue;
        }
        probed.insert(node.name.clone(), node.version);
        if before.get(&node.name) == Some(&node.version) {
            inputs.push(Input::Node {
                node: node.name.clone(),
                input: NodeInput::ProbeTimedOut { rev: node.version },
            });
        }
    }
    let is_down = |lease: &Lease| {
        let node = nodes.get(&lease.node);
        node.is_some_and(|node| node.status == NodeStatus::Down)
    };
    let mut silent = BTreeSet::new();
    for lease in executor.rows.due(now, is_down) {
        match lease_status(lease, nodes.get(&lease.node).copied(), now) {
            LeaseStatus::Valid => {}
            LeaseStatus::ProbeNode(rev) => {
                silent.insert((lease.node.clone(), rev));
            }
            LeaseStatus::Ended => inputs.push(Input::Run {
                workspace: lease.workspace.clone(),
                run: lease.run,
                input: RunInput::LeaseEnded {
                    step: lease.step.clone(),
                    dispatch: lease.dispatch,
                    node: lease.node.clone(),
                },
            }),
        }
    }
    inputs.extend(silent.into_iter().map(|(node, rev)| Input::Node {
        node,
        input: NodeInput::HeartbeatMissed { rev },
    }));
    inputs
}

/// `sweeps/scope_sync.rs`: two more runs of each paused or resumed scope, and the cursor of the sweep.
pub(crate) fn scope_pages(executor: &SimService<Executor>) -> Vec<Input> {
    let mut scopes: Vec<_> = executor
        .states
        .values()
        .filter_map(|state| match state {
            Aggregate::Agent(it) => Some((&it.workspace, Some(&it.name), &it.scope)),
            Aggregate::Workspace(it) => Some((&it.workspace, None, &it.scope)),
            _ => None,
        })
        .filter(|(.., scope)| !scope.is_followed())
        .collect();
    scopes.sort_by_key(|(_, agent, _)| *agent);
    let mut inputs = Vec::new();
    for (workspace, agent, scope) in scopes {
        let mut places: Vec<_> = runs(executor)
            .into_iter()
            .filter(|run| !run.is_final() && agent.is_none_or(|agent| run.agent == *agent))
            .map(|run| Cursor {
                agent: run.agent.clone(),
                run: run.id,
            })
            .filter(|place| scope.cursor.as_ref().is_none_or(|cursor| place > cursor))
            .collect();
        places.sort();
        places.truncate(2);
        inputs.extend(places.iter().map(|place| Input::Run {
            workspace: workspace.clone(),
            run: place.run,
            input: RunInput::ApplyScopes,
        }));
        inputs.push(Input::Scope {
            workspace: workspace.clone(),
            agent: agent.cloned(),
            input: ScopeInput::Paged {
                epoch: scope.epoch,
                upto: places.last().cloned(),
            },
        });
    }
    inputs
}

/// `sweeps/operations.rs`: two more runs of each operation, and its cursor.
pub(crate) fn operation_pages(executor: &SimService<Executor>) -> Vec<Input> {
    let operations = executor.states.values().filter_map(|state| match state {
        Aggregate::Operation(it) if it.is_running() => Some(it),
        _ => None,
    });
    let mut operations: Vec<_> = operations.collect();
    operations.sort_by_key(|it| it.id);
    let mut inputs = Vec::new();
    for operation in operations {
        let (action, filter) = (&operation.action, &operation.filter);
        let selected = selected_status(action, filter);
        let matching = runs(executor).into_iter().rev().filter(|run| {
            selected.map_or(!run.is_final(), |status| run.status() == status)
                && filter
                    .agent
                    .as_ref()
                    .is_none_or(|agent| run.agent == *agent)
                && run.created_at <= operation.created_at
                && operation.cursor.is_none_or(|cursor| run.id < cursor)
        });
        // One more tells whether the page is the last one.
        let mut page: Vec<_> = matching.take(3).map(|run| run.id).collect();
        let is_last = page.len() <= 2;
        page.truncate(2);
        let input = Arc::new(input_of_action(operation));
        inputs.extend(page.iter().map(|run| {
            Input::OperationItem(OperationItem {
                workspace: operation.workspace.clone(),
                run: *run,
                operation: operation.id,
                input: Arc::clone(&input),
                user: operation.user(),
            })
        }));
        inputs.push(Input::Operation {
            workspace: operation.workspace.clone(),
            id: operation.id,
            input: OperationInput::Paged {
                after: operation.cursor,
                upto: page.last().copied().filter(|_| !is_last),
                runs: page.len() as u64,
            },
        });
    }
    inputs
}

/// `sweeps/queued_runs.rs`: the first run of each queue, if there is a place.
pub(crate) fn queued_runs(executor: &SimService<Executor>) -> Vec<Input> {
    let runs = runs(executor);
    let keys = executor.rows.queued_keys().into_iter();
    let first = keys.filter_map(|key| {
        let places = executor.rows.places(&key);
        let first = places.queue.first()?;
        let run = runs.iter().find(|run| run.id == *first)?;
        let taken = u32::try_from(places.taken.len()).unwrap();
        run.places().filter(|most| taken < *most)?;
        Some(Input::Run {
            workspace: run.workspace.clone(),
            run: run.id,
            input: RunInput::TakePlace,
        })
    });
    first.collect()
}

/// `sweeps/redispatch.rs`: subject and dispatch of each queued step in a run that may proceed.
pub(crate) fn step_dispatches(executor: &SimService<Executor>) -> Vec<(String, StepDispatch)> {
    let mut out = Vec::new();
    for run in runs(executor).into_iter().filter(|run| run.may_call()) {
        for step in &run.steps {
            if !matches!(step.phase, StepPhase::Queued(_)) {
                continue;
            }
            let called = &executor.rows.called[&(run.id, step.id.clone())];
            let (tool, args) = called.clone();
            let subject = subject::steps(&run.workspace, &tool, Lane::Normal);
            let find = |name: &str| match executor.fact(&Need::Value(run.id, name.to_owned())) {
                Some(Fact::Value(value)) => Some(value.clone()),
                _ => None,
            };
            let step_dispatch = run.step_dispatch(
                step,
                ToolInvocation {
                    tool: tool.parse().unwrap(),
                    args,
                    http: None,
                    answers: step.questions.answers(find),
                },
            );
            out.push((subject, step_dispatch.unwrap()));
        }
    }
    out
}
