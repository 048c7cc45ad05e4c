//! One file a resource; each gives its routes. A handler translates, calls and answers.

pub(crate) mod agents;
pub(crate) mod clock;
pub(crate) mod contacts;
pub(crate) mod health;
pub(crate) mod mails;
pub(crate) mod runs;
