//! Which calls a standing approval covers. The handoff service and the rehearsal use the same rule.

use holdpoint_contracts::hold::ApprovalItem;
use holdpoint_ids::ToolName;
use serde_json::Value;

use crate::json_schema::value_errors;

/// The calls of one tool that a person has approved in advance.
#[derive(Debug, Clone, Copy)]
pub struct CoveredCalls<'t> {
    pub tool: &'t ToolName,
    /// [`ApprovalItem::version`]: another version may do something else.
    pub version: Option<&'t str>,
    pub args_schema: &'t Value,
}

impl CoveredCalls<'_> {
    /// Whether a call is one of them. The schema comes last, because it costs most.
    #[must_use]
    pub fn cover(self, item: &ApprovalItem) -> bool {
        *self.tool == item.tool
            && self.version == item.version.as_deref()
            && (item.args.is_object() || !item.redaction.is_empty())
            && value_errors(self.args_schema, &item.args).is_empty()
    }
}
