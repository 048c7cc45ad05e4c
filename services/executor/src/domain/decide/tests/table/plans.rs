//! Plans whose step `it` gets into each phase.

pub(super) const IDEMPOTENT: &str = "
  - id: it
    tool: log
    args: { message: hi }
  - wait: 1 day
";
pub(super) const ONCE_ONLY: &str = "
  - id: it
    tool: send_email
    args: { to: x@x.example }
  - wait: 1 day
";
pub(super) const PLANNED: [&str; 2] = [
    "  - wait: 1 day\n  - id: it\n    tool: log\n    args: { message: hi }\n",
    "  - wait: 1 day\n  - id: it\n    tool: send_email\n    args: { to: x@x.example }\n",
];
pub(super) const SKIPPED: &str = "
  - id: it
    when: contact.replied == true
    tool: log
    args: { message: hi }
  - wait: 1 day
";
pub(super) const ASKED: &str = "  - id: it\n    ask: { question: Go on? }\n  - wait: 1 day\n";
pub(super) const HANDED: &str = "  - id: it\n    handoff: { to: \"@user.ada\" }\n  - wait: 1 day\n";
/// An approval covers the call.
pub(super) const GATED: &str = "
  - id: it
    tool: send_email
    args: { to: x@x.example }
    approval: { from: \"@role.manager\" }
  - wait: 1 day
";
pub(super) const SIGNAL: &str = "  - id: it\n    wait_for: paid\n  - wait: 1 day\n";
pub(super) const FANNED_OUT: &str = "
  - id: it
    for_each: [1, 2]
    tool: log
    args: { message: hi }
  - wait: 1 day
";
pub(super) const RUNS: &str = "  - id: it\n    run: helper\n  - wait: 1 day\n";
pub(super) const WAITING: &str = "  - id: it\n    wait: 1 day\n  - wait: 1 day\n";
