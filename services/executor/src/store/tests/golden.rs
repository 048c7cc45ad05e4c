//! Golden files of stored states: each variant that a row can hold is read for ever.

use std::collections::BTreeSet;

use holdpoint_calendar::WorkingDays;
use holdpoint_contracts::steps::NodeStatus;
use holdpoint_testkit::stored_states;
use serde::Serialize;
use serde::de::DeserializeOwned;
use strum::VariantNames;

use crate::domain::operation::OperationPhase;
use crate::domain::plan::{Action, Plan};
use crate::domain::run::person_hold::Deadline;
use crate::domain::run::{Phase, StepPhase, Timer};
use crate::domain::scope::ScopeChange;
use crate::domain::{Agent, Contact, Library, Node, Operation, Run, Tool, WorkspaceScope};

fn golden<T: Serialize + DeserializeOwned>(table: &str) -> Vec<T> {
    stored_states(env!("CARGO_MANIFEST_DIR"), table)
}

/// Asserts that the samples have every variant of an enum.
fn assert_all_variants<'e, E>(samples: impl Iterator<Item = &'e E>)
where
    E: VariantNames + 'e,
    &'static str: From<&'e E>,
{
    let found: BTreeSet<&str> = samples.map(<&'static str>::from).collect();
    let all: BTreeSet<&str> = E::VARIANTS.iter().copied().collect();
    assert_eq!(found, all);
}

#[test]
fn runs_of_every_phase_are_read() {
    let runs: Vec<Run> = golden("runs");
    assert_all_variants::<Phase>(runs.iter().map(|run| &run.phase));
    let steps = || runs.iter().flat_map(|run| &run.steps);
    assert_all_variants::<StepPhase>(steps().map(|step| &step.phase));
    let holds = runs.iter().flat_map(Run::holds);
    assert_all_variants::<Timer>(holds.map(|(_, hold)| &hold.timer));
    let people = || runs.iter().flat_map(Run::people).map(|(_, on)| on);
    assert_all_variants::<Deadline>(people().map(|on| &on.clock));
    assert!(people().any(|on| on.closing.is_some()), "a kept closure");
    assert!(people().any(|on| on.taken.is_some()), "an owner");
    assert!(steps().any(|step| !step.questions.answered.is_empty()));
    assert!(steps().any(|step| step.questions.open.is_some()));
    assert!(runs.iter().any(|run| run.missing_inputs_hold.is_some()));
    assert!(runs.iter().any(|run| run.takeover_hold.is_some()));
    assert!(runs.iter().any(|run| !run.pauses.is_empty()));
    assert!(runs.iter().any(|run| run.suspension.is_some()));
    assert!(runs.iter().any(|run| !run.incidents.is_empty()));
    assert!(runs.iter().any(|run| run.parent.is_some()), "a child run");
    assert!(runs.iter().any(|run| run.has_generated_plan));
    assert!(steps().any(|step| step.awaited_runs().is_some()));
    let answered = runs.iter().flat_map(Run::questions);
    assert!(
        answered
            .map(|(_, asked)| asked)
            .any(|asked| asked.answer.is_some())
    );
}

#[test]
fn agents_of_every_status_are_read() {
    let agents: Vec<Agent> = golden("agents");
    let statuses: BTreeSet<_> = agents.iter().map(Agent::status).collect();
    assert_eq!(statuses, ["active", "deleted", "paused"].into());
    let changes = agents.iter().flat_map(|agent| &agent.scope.changes);
    assert_all_variants::<ScopeChange>(changes.map(|change| &change.what));
    assert!(agents.iter().any(|agent| agent.scope.cursor.is_some()));
    assert!(agents.iter().any(|agent| agent.watch.number() > 0));
}

#[test]
fn scopes_of_workspaces_are_read() {
    let scopes: Vec<WorkspaceScope> = golden("workspace_scopes");
    assert!(scopes.iter().any(|it| it.scope.paused.is_some()));
    assert!(scopes.iter().any(|it| it.scope.paused.is_none()));
}

#[test]
fn plans_with_every_action_are_read() {
    let plans: Vec<Plan> = golden("agent_versions");
    let steps = plans.iter().flat_map(|plan| &plan.steps);
    assert_all_variants::<Action>(steps.map(|step| &step.action));
    assert!(plans.iter().any(|plan| plan.inputs.is_some()));
    assert!(plans.iter().any(|plan| plan.planner.is_some()));
    let in_words = plans.iter().find(|plan| !plan.words.is_empty());
    assert!(in_words.is_some_and(|plan| plan.working_days != WorkingDays::default()));
}

#[test]
fn nodes_of_every_status_are_read() {
    use NodeStatus::{Down, Draining, Suspect, Up};
    let nodes: Vec<Node> = golden("nodes");
    for status in [Up, Suspect, Draining, Down] {
        assert!(nodes.iter().any(|node| node.status == status), "{status:?}");
    }
    assert!(nodes.iter().any(|node| node.forgotten));
}

#[test]
fn operations_of_every_phase_are_read() {
    let operations: Vec<Operation> = golden("operations");
    assert_all_variants::<OperationPhase>(operations.iter().map(|it| &it.phase));
}

#[test]
fn libraries_are_read() {
    let libraries: Vec<Library> = golden("libraries");
    let has_both = |it: &Library| !it.templates.is_empty() && !it.calendars.is_empty();
    assert!(libraries.iter().any(has_both));
}

#[test]
fn contacts_and_tools_are_read_also_if_they_are_deleted() {
    let contacts: Vec<Contact> = golden("contacts");
    let tools: Vec<Tool> = golden("tools");
    for is_deleted in [false, true] {
        assert!(contacts.iter().any(|contact| contact.deleted == is_deleted));
        assert!(tools.iter().any(|tool| tool.deleted == is_deleted));
    }
    assert!(tools.iter().any(|tool| !tool.changes.is_empty()));
    assert!(tools.iter().any(|tool| !tool.offers.is_empty()));
}
