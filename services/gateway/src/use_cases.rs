//! What routes and pages do alike. A use case knows no HTTP body and no page.

pub(crate) mod await_request;
pub(crate) mod decide_request;
pub(crate) mod decide_steps;
pub(crate) mod erase_contact;
pub(crate) mod plan_warnings;
pub(crate) mod policy_warnings;
pub(crate) mod rehearse;
pub(crate) mod watch;
