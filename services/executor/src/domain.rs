//! The executor's core: the state of agents, contacts and runs, and how it may change.
//!
//! Pure and total: no clock, no database, no bus. `decide` says what an input does. It names the data that
//! it lacks as a [`Need`] and is called again. Imports point only downward: `rehearsal`, `decide`, `commands`, `rules`,
//! then the types of a decision, `views`, and `model`.

mod commands;
pub mod decide;
pub mod decision;
pub mod definition;
pub mod effect;
mod error_text;
pub mod expression;
pub mod input;
pub mod model;
pub mod need;
pub mod refusal;
pub mod rehearsal;
mod rules;
mod step_response;
mod text;
mod transition;
pub mod views;

pub use decide::decide;
pub use decision::{Decided, Decision, ExecutorDomain, Lookup, LookupFn, Outcome, Undecided};
pub use effect::{BlobChange, Effect, Reply};
pub use input::{
    BlobUpload, ContactInput, ContinuedCall, DeliveredStep, Input, LibraryChange, LibraryInput,
    NodeInput, OperationInput, OperationItem, RefusedChildRun, RunInput, ScopeInput, StepReport,
    SuspensionReport, ToolInput, ToolPut,
};
pub use model::agent::Agent;
pub use model::contact::Contact;
pub use model::library::Library;
pub use model::node::{Lease, Node};
pub use model::operation::{Operation, OperationResult, selected_status};
pub use model::run::Run;
pub use model::scope::WorkspaceScope;
pub use model::step_row::{CalledTool, StepRow};
pub use model::tool::{Tool, ToolEntry};
pub use model::{agent, contact, operation, plan, run, scope, time, tool};
pub use need::{Aggregate, Fact, Key, KnownUser, Need, PlanFact, RunFact};
pub use refusal::Refusal;
pub(crate) use rules::approval_gate::call_digest;
pub(crate) use rules::contact_patch::merge_patch;
pub use rules::contact_search::{check_search, is_found};
pub use rules::lease_expiry::{LeaseStatus, lease_status};
pub use rules::operation_items::{check_action, input_of_action};
pub use rules::revisions::REVISIONS_MAX;
pub use rules::scope_sync::overlay;
pub use rules::scopes::Scopes;
pub use rules::signals::awaited_reply;
pub use rules::suspension::snapshot::{TOOL_CALLS_MAX, bounded_calls, calls_of_row};
pub use views::run as view;
pub use views::stored_steps;
