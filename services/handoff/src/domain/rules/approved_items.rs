//! What a person may change when they approve a gated call (S2-R4).

use holdpoint_contracts::hold::HoldSpec;
use holdpoint_contracts::size::json_bytes;
use holdpoint_contracts::value_limits::{EXACT_INTEGER_MAX, has_inexact_integer};
use holdpoint_holds::json_schema::value_errors;
use holdpoint_holds::limits::APPROVED_ARGS_BYTES_MAX;
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
pub(crate) fn check_edited_args(spec: &HoldSpec, args: &Value) -> Result<(), Refusal> {
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
        let schema = item.args_schema.as_ref();
        let errors = schema.map(|schema| value_errors(schema, args));
        let errors = errors.into_iter().flatten();
        let errors: Vec<_> = errors.map(|error| error.under(POINTER)).collect();
        return if errors.is_empty() {
            Ok(())
        } else {
            Err(Refusal::InvalidAnswer(errors))
        };
    };
    Err(Refusal::invalid_answer(POINTER, message))
}
