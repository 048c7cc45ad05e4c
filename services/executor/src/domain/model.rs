//! The state of the aggregates, and what can be read from it without a decision.

pub mod agent;
pub(crate) mod built_in_schemas;
pub mod contact;
pub mod library;
pub mod node;
pub mod operation;
pub mod plan;
pub mod run;
pub mod scope;
pub mod step_row;
pub mod time;
pub mod tool;

/// Whether a stored field has its default, so that it is left out of the JSON.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
