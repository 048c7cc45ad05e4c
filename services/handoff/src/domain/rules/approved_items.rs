//! What a person may change when they approve a gated call (S2-R4).

use holdpoint_contracts::hold::{ApprovalItem, HoldSpec};
use holdpoint_contracts::size::json_bytes;
use holdpoint_contracts::value_limits::{EXACT_INTEGER_MAX, has_inexact_integer};
use holdpoint_holds::json_schema::{literal_errors, value_errors};
use holdpoint_holds::limits::APPROVED_ARGS_BYTES_MAX;
use holdpoint_holds::redaction::{REDACTED, restore};
use holdpoint_ids::HoldId;
use serde_json::Value;

use crate::domain::refusal::Refusal;

const POINTER: &str = "/decision/approve/edited_args";

/// A person who has seen other arguments decides nothing.
pub(crate) fn check_digest(id: HoldId, spec: &HoldSpec, seen: Option<&str>) -> Result<(), Refusal> {
    let digest = spec.items.first().map_or("", |item| item.digest.as_str());
    match seen {
        Some(seen) if seen != digest => Err(Refusal::DigestMismatch {
            id,
            digest: digest.to_owned(),
        }),
        Some(_) | None => Ok(()),
    }
}

/// Edited arguments replace those of one gated call. With several voters they would be arguments that only one
/// of them has seen.
///
/// Returns them without what the person wrote for hidden parts: the executor puts the hidden values there.
pub(crate) fn check_edited_args(spec: &HoldSpec, args: &Value) -> Result<Value, Refusal> {
    let Some(item) = spec.items.first() else {
        let message = "this approval has no arguments to edit; approve it without `edited_args`";
        return Err(Refusal::invalid_answer(POINTER, message));
    };
    let message = if spec.policy.need > 1 {
        let need = spec.policy.need;
        format!(
            "{need} people must approve the same arguments, so the arguments cannot be edited; reject the request instead"
        )
    } else if !args.is_object() {
        "expected an object with a field for each argument".to_owned()
    } else if has_inexact_integer(args) {
        format!("expected integers of at most {EXACT_INTEGER_MAX}; write larger ones as texts")
    } else if json_bytes(args) > APPROVED_ARGS_BYTES_MAX {
        format!("expected at most {APPROVED_ARGS_BYTES_MAX} bytes of JSON")
    } else {
        return check_visible_args(item, args);
    };
    Err(Refusal::invalid_answer(POINTER, message))
}

/// The schema decides about what the person sees. The executor checks the whole.
fn check_visible_args(item: &ApprovalItem, args: &Value) -> Result<Value, Refusal> {
    let Some(args) = restore(args, &item.args, &item.redaction) else {
        let message = format!(
            "hidden parts must stay where they are: leave `{REDACTED}` in its place, and lists with hidden parts unchanged"
        );
        return Err(Refusal::invalid_answer(POINTER, message));
    };
    let is_hidden = |text: &str| !item.redaction.is_empty() && text == REDACTED;
    let errors = item.args_schema.as_ref().map(|schema| {
        if item.redaction.is_empty() {
            value_errors(schema, &args)
        } else {
            literal_errors(schema, &args, &is_hidden)
        }
    });
    let errors = errors.into_iter().flatten();
    let errors: Vec<_> = errors.map(|error| error.under(POINTER)).collect();
    if errors.is_empty() {
        Ok(args)
    } else {
        Err(Refusal::InvalidAnswer(errors))
    }
}
