//! The executor's core: what is true of agents, contacts and runs, and what may become of it.
//!
//! Pure and total: no clock, no database, no bus. `decide` says what an input does; what it lacks
//! it names as a [`Need`] and is asked again.

pub mod agent;
pub mod contact;
pub mod context;
pub mod decide;
pub mod decision;
pub mod definition;
pub mod effect;
mod error_text;
pub mod expression;
pub mod input;
pub mod need;
pub mod node;
pub mod plan;
pub mod refusal;
pub mod run;
pub mod scope;
mod size;
pub mod tool;
pub mod view;

pub use agent::Agent;
pub use contact::Contact;
pub use decide::{Scopes, decide, overlay};
pub use decision::{Decided, Decision, ExecutorDomain, Lookup, LookupFn, Outcome, Undecided};
pub use effect::{Effect, Lease, Reply, StepRow};
pub use input::{Input, NodeInput, RunInput, ToolInput};
pub use need::{Aggregate, Fact, Key, Need, PlanFact, RunFact};
pub use node::Node;
pub use refusal::Refusal;
pub use run::Run;
pub use scope::{ScopeInput, WorkspaceScope};
pub use tool::Tool;
