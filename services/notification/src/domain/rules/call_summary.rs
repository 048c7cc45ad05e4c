//! The gated call of an approval in messages: its tool and its arguments, at a bounded length.

use holdpoint_contracts::hold::ApprovalItem;
use holdpoint_contracts::size::json_bytes;
use serde_json::json;

use super::context_summary::context_summary;
use super::plain_text::line;

/// Largest arguments that an event keeps, in bytes of JSON. Larger ones are only at the request.
const ARGS_BYTES_MAX: usize = 4 * 1024;

/// Name of the field that replaces large arguments.
const OMITTED: &str = "omitted";

/// Replaces large arguments by `{"omitted": true, "bytes": N}`.
pub(crate) fn omit_large_args(item: &mut ApprovalItem) {
    let bytes = json_bytes(&item.args);
    if bytes > ARGS_BYTES_MAX {
        item.args = json!({ OMITTED: true, "bytes": bytes });
    }
}

/// A headline, and one line for each argument.
pub(crate) fn call_summary(item: &ApprovalItem) -> (String, Vec<String>) {
    let tool = line(item.tool.as_str());
    let is_omitted = item.args.get(OMITTED).is_some() && item.args.get("bytes").is_some();
    let lines = if is_omitted {
        Vec::new()
    } else {
        context_summary(&item.args)
    };
    let lines: Vec<_> = lines.iter().map(|one| line(one)).collect();
    // The summary leaves out nested values, so a message never says that it shows all arguments.
    let head = if item.args == json!({}) {
        format!("It calls {tool} without arguments.")
    } else if lines.is_empty() {
        format!("It calls {tool}. The request shows the arguments.")
    } else {
        format!("It calls {tool} with these arguments; the request shows all of them:")
    };
    (head, lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(args: &serde_json::Value) -> ApprovalItem {
        let item = json!({ "id": "step-02", "tool": "payments.refund", "args": args,
            "digest": "8f43" });
        serde_json::from_value(item).unwrap()
    }

    /// S2-R3: a message shows the call, and no argument makes it long.
    #[test]
    fn a_call_becomes_a_few_lines() {
        let small = item(&json!({ "order_no": "o-17\r\nBcc: eve", "amount": 250 }));
        let mut kept = small.clone();
        omit_large_args(&mut kept);
        assert_eq!(kept, small);
        let (head, lines) = call_summary(&small);
        assert_eq!(
            head,
            "It calls payments.refund with these arguments; the request shows all of them:"
        );
        assert_eq!(lines, ["Order no: o-17 Bcc: eve", "Amount: 250"]);
        assert!(
            call_summary(&item(&json!({})))
                .0
                .ends_with("without arguments.")
        );
        let nested = call_summary(&item(&json!({ "a": { "b": { "c": { "d": 1 } } } })));
        assert!(nested.0.ends_with("shows the arguments."), "{nested:?}");
        let mut large = item(&json!({ "text": "x".repeat(ARGS_BYTES_MAX) }));
        omit_large_args(&mut large);
        assert_eq!(large.args["omitted"], true);
        assert!(call_summary(&large).0.ends_with("shows the arguments."));
    }
}
