//! The callers of the gateway: their tokens and their rights. It owns no session, and no rule of who may
//! decide a request.

pub(crate) mod assertions;
pub(crate) mod blob_caller;
pub(crate) mod bootstrap_owner;
pub(crate) mod caller;
pub(crate) mod may;
pub(crate) mod run_reader;
pub(crate) mod token_lookups;
pub(crate) mod token_scope;
