//! What the kernel finds for a decision.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Batch, World};
use crate::domain::decision::Lookup;
use crate::domain::need::GENERATED_PLAN;
use crate::domain::run::Run;
use crate::domain::{Agent, Fact, Key, Need, PlanFact, bounded_calls, calls_of_row};

impl World {
    /// The next inputs are decided in one batch of the kernel: their rows are not stored yet.
    pub(in crate::domain::decide::tests) fn begin_batch(&mut self) {
        self.batch = Some(Batch {
            rows: self.rows.clone(),
            facts: Vec::new(),
        });
    }

    pub(in crate::domain::decide::tests) fn find(&self, need: &Need) -> Lookup {
        let fact = self.fact_of_batch(need).or_else(|| self.stored_fact(need));
        fact.map_or(Lookup::Missing, Lookup::Found)
    }

    /// The plan of the agent becomes a plan of the run.
    pub(in crate::domain::decide::tests) fn use_generated_plan(&mut self) {
        let plan = json!(self.plan.plan);
        self.values
            .insert(GENERATED_PLAN.to_owned(), Arc::new(plan));
        self.run.as_mut().unwrap().has_generated_plan = true;
    }

    /// The plan that the planner of the run made.
    fn generated_plan(&self) -> Option<Fact> {
        let plan = Value::clone(self.values.get(GENERATED_PLAN)?);
        let plan = PlanFact::new(serde_json::from_value(plan).unwrap());
        Some(Fact::Plan(Arc::new(plan)))
    }

    pub(in crate::domain::decide::tests) fn plan_of(&self, run: &Run) -> Arc<PlanFact> {
        match self.stored_fact(&run.plan_need()) {
            Some(Fact::Plan(plan)) => plan,
            other => panic!("{other:?}"),
        }
    }

    /// The newest fact of an earlier decision of the batch.
    fn fact_of_batch(&self, need: &Need) -> Option<Fact> {
        let facts = &self.batch.as_ref()?.facts;
        let mut facts = facts.iter().rev();
        facts.find_map(|(known, fact)| (known == need).then(|| fact.clone()))
    }

    fn stored_fact(&self, need: &Need) -> Option<Fact> {
        match need {
            Need::State(Key::Agent(workspace, name)) => self.has_agent.then(|| {
                Fact::Agent(Arc::new(Agent {
                    workspace: workspace.clone(),
                    name: name.clone(),
                    version: 3,
                    newest: if self.next_plan.is_some() { 4 } else { 3 },
                    digest: String::new(),
                    description: None,
                    updated_at: self.now,
                    scope: self.agent_scope.clone(),
                    watch: self.agent_watch,
                }))
            }),
            Need::State(Key::Workspace(_)) => self
                .workspace_scope
                .clone()
                .map(|scope| Fact::Workspace(Arc::new(scope))),
            Need::State(Key::Contact(..)) => {
                let contact = self.contact.clone();
                contact.map(|contact| Fact::Contact(Arc::new(contact)))
            }
            Need::Plan(_, _, 3) => Some(Fact::Plan(self.plan.clone())),
            Need::Plan(_, _, 4) => self.next_plan.clone().map(Fact::Plan),
            Need::Plan(..) => None,
            Need::GeneratedPlan(_) => self.generated_plan(),
            Need::Value(_, name) => self.values.get(name).cloned().map(Fact::Value),
            Need::Request(_, step) => {
                let stored = self.batch.as_ref().map(|batch| &batch.rows);
                let row = stored.unwrap_or(&self.rows).get(step);
                let request = row.and_then(|row| row.request.clone());
                request.map(|request| Fact::Value(Arc::new(request)))
            }
            Need::FailedAttempts(_, step) => {
                let row = self.rows.get(step);
                row.map(|row| Fact::Value(Arc::new(json!(row.failed_attempts))))
            }
            Need::State(Key::Tool(workspace, name)) => {
                let mut tools = self.tools.iter();
                let tool =
                    tools.find(|tool| tool.spec.name == *name && tool.workspace == *workspace);
                tool.map(|tool| Fact::Tool(Arc::new(tool.clone())))
            }
            Need::Activities(..) => {
                let said = json!({ "newest": self.activities, "older": self.older });
                Some(Fact::Value(Arc::new(said)))
            }
            Need::ToolCount(_) => None,
            Need::DirectoryAge => self.directory_age.map(Fact::DirectoryAge),
            Need::User(_, user) => self.users.get(user.as_str()).cloned().map(Fact::User),
            Need::ToolCalls(_) => {
                let rows = self.rows.values().cloned();
                let calls = bounded_calls(rows.flat_map(calls_of_row).collect());
                Some(Fact::ToolCalls(Arc::new(calls)))
            }
            Need::Snapshot(_) => {
                let snapshot = self.snapshot.clone();
                snapshot.map(|snapshot| Fact::Snapshot(Arc::new(snapshot)))
            }
            Need::Places(_) => {
                let own = self.limits.as_ref().and_then(|row| row.place.as_ref());
                Some(Fact::Places(Arc::new(self.places.with_row(self.id, own))))
            }
            Need::StartedOnce(_) => self.started_once.clone().map(Fact::StartedRun),
            Need::Starts(_) => Some(Fact::Starts(Arc::new(self.starts.clone()))),
            Need::OperationResult(..) | Need::RunningOperations(_) => None,
            Need::State(Key::Run(_)) => self.other_run.clone().map(|it| Fact::Run(Arc::new(it))),
            Need::State(_) => None,
        }
    }
}
