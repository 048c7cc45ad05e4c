//! The aggregates, and what a decision may need from them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use holdpoint_contracts::steps::StepRef;
use holdpoint_contracts::subject::SYSTEM_WORKSPACE;
use holdpoint_contracts::suspension::{SnapshotView, ToolCallView};
use holdpoint_ids::{
    AgentName, ContactId, NodeName, OperationId, RoleName, RunId, ToolName, UserName, Workspace,
};
use serde_json::Value;
use strum::EnumTryAs;

use crate::domain::expression::Reference;
use crate::domain::model::agent::Agent;
use crate::domain::model::contact::Contact;
use crate::domain::model::library::Library;
use crate::domain::model::node::Node;
use crate::domain::model::operation::Operation;
use crate::domain::model::plan::{Plan, StepPart};
use crate::domain::model::run::{Run, StepGrant, Suspension};
use crate::domain::model::scope::{EndsWatch, Scope, WorkspaceScope};
use crate::domain::model::tool::Tool;

impl Fact {
    #[must_use]
    pub fn of_contact(contact: &Contact) -> Self {
        let mut fields = contact.fields.clone();
        fields.insert("id".to_owned(), Value::String(contact.id.to_string()));
        Self::Contact(Arc::new(Value::Object(fields)))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, EnumTryAs)]
pub enum Key {
    Agent(Workspace, AgentName),
    Contact(Workspace, ContactId),
    Run(RunId),
    Workspace(Workspace),
    Node(NodeName),
    Tool(Workspace, ToolName),
    Library(Workspace),
    Operation(OperationId),
    /// The user directory as a whole. It has no state here.
    Users,
    /// All runs that are past their retention.
    ExpiredRuns,
    /// Named by a timer that the executor never sets. It never exists.
    Unknown(String),
}

impl Key {
    /// The keys of both registry entries of a tool: that of the operators of a workspace, and that of the nodes.
    pub fn of_tool(workspace: &Workspace, name: &ToolName) -> impl Iterator<Item = Self> + use<> {
        let of = |workspace| Self::Tool(workspace, name.clone());
        let nodes = SYSTEM_WORKSPACE.parse().ok().map(of);
        [Some(of(workspace.clone())), nodes].into_iter().flatten()
    }
}

#[derive(Debug, Clone, EnumTryAs)]
pub enum Aggregate {
    Agent(Agent),
    Contact(Contact),
    Run(Run),
    Workspace(WorkspaceScope),
    Node(Node),
    Tool(Tool),
    Library(Library),
    Operation(Operation),
    /// Only effects write its rows.
    Stateless,
}

impl Aggregate {
    /// Version, commands and subscription of an agent or workspace; none: it is not a scope.
    pub(crate) const fn scope_mut(&mut self) -> Option<(&mut u64, &mut Scope, &mut EndsWatch)> {
        match self {
            Self::Agent(it) => Some((&mut it.version, &mut it.scope, &mut it.watch)),
            Self::Workspace(it) => Some((&mut it.version, &mut it.scope, &mut it.watch)),
            Self::Contact(_)
            | Self::Run(_)
            | Self::Node(_)
            | Self::Tool(_)
            | Self::Library(_)
            | Self::Operation(_)
            | Self::Stateless => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Need {
    /// An aggregate as it is now. A run is loaded as [`RunFact`].
    State(Key),
    /// One version of an agent; never changes.
    Plan(Workspace, AgentName, u32),
    /// The plan that the planner of a run made ([`GENERATED_PLAN`]); never changes.
    GeneratedPlan(RunId),
    /// The input of a run ([`INPUT`]), or the result of one of its steps.
    Value(RunId, String),
    /// The resolved arguments of a step's newest dispatch.
    Request(RunId, String),
    /// The failed attempts of a step that its row keeps.
    FailedAttempts(RunId, String),
    /// The last activities of a contact, oldest first.
    Activities(Workspace, ContactId),
    /// The newest calls of a run's tools, oldest first.
    ToolCalls(RunId),
    /// The newest snapshot of a run.
    Snapshot(RunId),
    /// What an operation did with a run.
    OperationResult(OperationId, RunId),
    /// How many operations of a workspace are not finished.
    RunningOperations(Workspace),
    /// The number of registered tools in a workspace.
    ToolCount(Workspace),
    /// A user in the user directory.
    User(Workspace, UserName),
    /// How old the copy of the user directory can be.
    DirectoryAge,
    /// The runs that hold or want a place, by the digest of agent and key.
    Places(String),
    /// The newest starts of an agent with `rate`, by the digest of agent and key.
    Starts(String),
    /// The run that an agent has started for the same contact or key, by digest.
    StartedOnce(String),
}

/// Name of the value with the input of a run. No step can have this name.
pub const INPUT: &str = "$input";

/// Name of the value with the plan that the planner of a run made. No step can have this name.
pub const GENERATED_PLAN: &str = "$plan";

#[derive(Debug, Clone)]
pub enum Fact {
    Agent(Arc<Agent>),
    Workspace(Arc<WorkspaceScope>),
    /// Its fields and its id.
    Contact(Arc<Value>),
    Plan(Arc<PlanFact>),
    /// For [`Need::Value`], [`Need::Request`], [`Need::FailedAttempts`] and [`Need::Activities`].
    Value(Arc<Value>),
    ToolCalls(Arc<Vec<ToolCallView>>),
    Snapshot(Arc<SnapshotView>),
    Run(Arc<RunFact>),
    /// Also if it was deleted; without its records.
    Tool(Arc<Tool>),
    Library(Arc<Library>),
    Operation(Arc<Operation>),
    /// For [`Need::RunningOperations`] and [`Need::ToolCount`]; for [`Need::OperationResult`], whose result is not read.
    Count(u64),
    /// For [`Need::User`].
    User(Arc<KnownUser>),
    /// For [`Need::DirectoryAge`]. Missing: this process has never had a reply of the handoff service.
    DirectoryAge(Duration),
    Places(Arc<Places>),
    /// For [`Need::Starts`]: number and due time, newest first, at most [`STARTS_SEEN_MAX`].
    Starts(Arc<Vec<(u64, DateTime<Utc>)>>),
    /// For [`Need::StartedOnce`].
    StartedRun(Arc<Run>),
}

/// Most queued runs that [`Places`] has. A later run takes no place before they have.
pub const QUEUE_SEEN_MAX: usize = 100;

/// Most earlier starts that a start looks at: the largest rate.
pub const STARTS_SEEN_MAX: usize = 1_000;

/// Who holds the places of an agent or key, and who waits for one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    pub taken: BTreeMap<u32, RunId>,
    /// The first ones, in order.
    pub queue: Vec<RunId>,
    /// Whether others wait behind them.
    pub has_more: bool,
}

impl Run {
    /// What loads its plan.
    #[must_use]
    pub fn plan_need(&self) -> Need {
        if self.has_generated_plan {
            Need::GeneratedPlan(self.id)
        } else {
            Need::Plan(self.workspace.clone(), self.agent.clone(), self.plan)
        }
    }
}

/// Oldest copy of the user directory on which a gated step starts. The copy is confirmed each minute.
pub const DIRECTORY_AGE_MAX: Duration = Duration::from_mins(2);

/// A user, as the user directory knows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownUser {
    pub is_active: bool,
    pub roles: Vec<RoleName>,
}

/// Who works on what in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFact {
    pub workspace: Workspace,
    pub is_final: bool,
    /// The steps that are dispatched or granted.
    pub out: Vec<OutFact>,
}

/// A step that is dispatched or granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutFact {
    pub step: String,
    pub dispatch: u64,
    /// The node that it was granted to, if any.
    pub node: Option<NodeName>,
    /// When the node loses it, although its heartbeats arrive.
    pub ends_at: Option<DateTime<Utc>>,
    /// Until when its worker may add its part to the snapshot of the run; none: there is nothing to add.
    pub supplement_until: Option<DateTime<Utc>>,
}

impl RunFact {
    /// The dispatched steps of a run.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        let suspension = run.suspension.as_deref();
        let out = run.steps.iter().filter_map(|step| {
            let grant = step.phase.grant();
            let node = grant.map(|grant| grant.node.clone());
            if node.is_none() {
                step.phase.try_as_queued_ref()?;
            }
            Some(OutFact {
                step: step.id.clone(),
                dispatch: step.dispatch,
                node,
                ends_at: grant.and_then(StepGrant::ends_at),
                supplement_until: suspension
                    .filter(|it| it.awaits(step))
                    .map(Suspension::supplement_until),
            })
        });
        Self {
            workspace: run.workspace.clone(),
            is_final: run.is_final(),
            out: out.collect(),
        }
    }

    /// Whether a node may continue a step: it has the grant, or nobody has (it started early). Long after its
    /// timeout it may not.
    #[must_use]
    pub fn may_continue(&self, node: &NodeName, claimed: &StepRef, now: DateTime<Utc>) -> bool {
        self.workspace == claimed.workspace
            && self.out.iter().any(|out| {
                out.step == claimed.step
                    && out.dispatch == claimed.dispatch
                    && out.node.as_ref().is_none_or(|granted| granted == node)
                    && out.ends_at.is_none_or(|end| now < end)
            })
    }

    /// Whether a node that has this step should report it, because the run is suspended.
    #[must_use]
    pub fn wants_supplement(&self, claimed: &StepRef, now: DateTime<Utc>) -> bool {
        let mut out = self.out.iter();
        out.any(|out| {
            out.step == claimed.step
                && out.dispatch == claimed.dispatch
                && out.supplement_until.is_some_and(|until| now <= until)
        })
    }
}

/// A plan, and the references of each of its steps.
#[derive(Debug)]
pub struct PlanFact {
    pub plan: Plan,
    pub references: Vec<BTreeSet<Reference>>,
    /// Of the children of each step with `for_each`, by the index of that step.
    pub child_references: BTreeMap<usize, BTreeSet<Reference>>,
}

impl PlanFact {
    /// Collects the references once, for every run of the plan.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        let references = (0..plan.steps.len())
            .map(|index| plan.references(StepPart::Step(index)))
            .collect();
        let fanned_out = plan.steps.iter().enumerate();
        let fanned_out = fanned_out.filter(|(_, step)| step.for_each.is_some());
        let child_references = fanned_out
            .map(|(index, _)| (index, plan.references(StepPart::Child(index))))
            .collect();
        Self {
            plan,
            references,
            child_references,
        }
    }

    /// Whether a step uses the result of this one.
    #[must_use]
    pub fn uses_result(&self, index: usize) -> bool {
        let all = self.references.iter().chain(self.child_references.values());
        all.into_iter()
            .any(|one| one.contains(&Reference::Step(index)))
    }

    /// The steps that a step names, or that the children of one name.
    #[must_use]
    pub fn ids_for(&self, part: StepPart) -> BTreeSet<String> {
        let references = self.references_of(part).into_iter().flatten();
        self.plan.ids_of(references.copied())
    }

    /// The references of a step, or of the children of one.
    #[must_use]
    pub fn references_of(&self, part: StepPart) -> Option<&BTreeSet<Reference>> {
        match part {
            StepPart::Step(index) => self.references.get(index),
            StepPart::Child(index) => self.child_references.get(&index),
        }
    }
}
