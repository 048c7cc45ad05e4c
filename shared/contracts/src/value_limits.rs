//! Limits of values from outside. Every entrance uses them: REST bodies, agent texts, messages on
//! the bus, results of tools, answers, hooks and files.
//!
//! Every later stage must accept what an entrance accepts. Later stages wrap values (an envelope, a context,
//! a list), and a reader of JSON ends at 128 levels, so the limit of an entrance leaves room. Control
//! characters and characters that turn the direction of writing are taken, and whatever shows a text
//! makes them visible. Only U+0000 is refused: Postgres stores no text with it.

use serde_json::Value;

use crate::problem::Problem;

/// Deepest nesting of a value from outside. `[]` has the depth 1, a text has 0.
pub const DEPTH_MAX: usize = 32;

/// Deepest nesting of a message from outside on the bus: a value within its envelope and command.
const OUTSIDE_MESSAGE_DEPTH_MAX: usize = DEPTH_MAX + 8;

/// Deepest nesting of a message between services, which composes values from outside.
const MESSAGE_DEPTH_MAX: usize = 64;

/// Most values of one value from outside, with all that it contains.
pub const VALUES_MAX: usize = 100_000;

/// Commands that services send to each other.
const BETWEEN_SERVICES: [&str; 12] = [
    "set_holds",
    "holds_closed",
    "handoffs_updated",
    "set_timers",
    "timers_fired",
    "start_scheduled",
    "set_child_runs",
    "child_runs_ended",
    "record_request_events",
    "record_run_ends",
    "record_contact_events",
    "watch_run_ends",
];

/// Why a value is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LimitExceeded {
    /// More levels than `max`.
    #[error("it is nested {found} levels deep; at most {max} are allowed")]
    Depth { found: usize, max: usize },
    /// More than [`VALUES_MAX`].
    #[error("it has more than {VALUES_MAX} values")]
    Values,
    /// A text or a key holds U+0000.
    #[error("a text must not contain the character U+0000")]
    Nul,
}

impl LimitExceeded {
    /// 422, with the stable code `value_not_allowed`.
    #[must_use]
    pub fn problem(self) -> Problem {
        Problem::new(422, "value_not_allowed", self.to_string())
    }
}

/// Largest integer that every reader of JSON keeps exactly (RFC 8785, I-JSON): 2^53 - 1.
pub const EXACT_INTEGER_MAX: u64 = (1 << 53) - 1;

/// Whether a value contains an integer that some readers round, so that two values look the same to them.
#[must_use]
pub fn has_inexact_integer(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            let size = number.as_u64();
            let size = size.or_else(|| number.as_i64().map(i64::unsigned_abs));
            size.is_some_and(|size| size > EXACT_INTEGER_MAX)
        }
        Value::Array(items) => items.iter().any(has_inexact_integer),
        Value::Object(fields) => fields.values().any(has_inexact_integer),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// Properties of a JSON text, found in its bytes before it is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Scan {
    depth: usize,
    has_nul: bool,
}

/// Looks at bytes only, so that depth costs no stack. A text that is not JSON is refused by its reader.
fn scan(json: &[u8]) -> Scan {
    let (mut found, mut depth, mut in_text) = (Scan::default(), 0_usize, false);
    let mut rest = json;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (in_text, byte) {
            (true, b'\\') => {
                found.has_nul |= after.starts_with(b"u0000");
                rest = after.get(1..).unwrap_or_default();
            }
            (_, b'"') => in_text = !in_text,
            (false, b'[' | b'{') => {
                depth += 1;
                found.depth = found.depth.max(depth);
            }
            (false, b']' | b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    found
}

/// Checks the bytes of a JSON text from outside before it is read.
///
/// # Errors
/// [`LimitExceeded`]
pub fn check_json(json: &[u8]) -> Result<(), LimitExceeded> {
    within(json, DEPTH_MAX)
}

fn within(json: &[u8], max: usize) -> Result<(), LimitExceeded> {
    let Scan { depth, has_nul } = scan(json);
    if depth > max {
        return Err(LimitExceeded::Depth { found: depth, max });
    }
    if has_nul {
        return Err(LimitExceeded::Nul);
    }
    Ok(())
}

/// Checks a message on the bus before it is read.
///
/// # Errors
/// 422 `value_not_allowed`
pub fn check_message(verb: &str, body: &[u8]) -> Result<(), Problem> {
    if verb == "step_results" {
        // Its items are checked one by one: one that is too deep must not spoil the others.
        return Ok(());
    }
    let max = if BETWEEN_SERVICES.contains(&verb) {
        MESSAGE_DEPTH_MAX
    } else {
        OUTSIDE_MESSAGE_DEPTH_MAX
    };
    within(body, max).map_err(LimitExceeded::problem)
}

/// Checks a value that was read or composed.
///
/// # Errors
/// [`LimitExceeded`]
pub fn check(value: &Value) -> Result<(), LimitExceeded> {
    let (mut values, mut deepest, mut has_nul) = (0_usize, 0_usize, false);
    // A list of what is left, and not recursion: the value may be deeper than the stack.
    let mut left = vec![(value, 0_usize)];
    while let Some((value, above)) = left.pop() {
        values += 1;
        match value {
            Value::Array(items) => {
                deepest = deepest.max(above + 1);
                left.extend(items.iter().map(|item| (item, above + 1)));
            }
            Value::Object(fields) => {
                deepest = deepest.max(above + 1);
                has_nul |= fields.keys().any(|key| key.contains('\0'));
                left.extend(fields.values().map(|field| (field, above + 1)));
            }
            Value::String(text) => has_nul |= text.contains('\0'),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        if values > VALUES_MAX {
            return Err(LimitExceeded::Values);
        }
    }
    if deepest > DEPTH_MAX {
        let (found, max) = (deepest, DEPTH_MAX);
        return Err(LimitExceeded::Depth { found, max });
    }
    if has_nul {
        return Err(LimitExceeded::Nul);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn nested(depth: usize) -> Value {
        (0..depth).fold(json!(1), |inner, _| json!([inner]))
    }

    /// A-H7, B-2: the limit is the same for bytes and for values, and it is exact.
    #[test]
    fn a_value_is_accepted_up_to_the_exact_limit() {
        for (depth, is_taken) in [(0, true), (32, true), (33, false), (500, false)] {
            let value = nested(depth);
            let json = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
            assert_eq!(check(&value).is_ok(), is_taken, "{depth}");
            assert_eq!(check_json(json.as_bytes()).is_ok(), is_taken, "{depth}");
        }
        let far = "[".repeat(1_000_000);
        assert_eq!(
            check_json(far.as_bytes()),
            Err(LimitExceeded::Depth {
                found: 1_000_000,
                max: 32
            })
        );
        assert_eq!(
            check(&json!(vec![0; VALUES_MAX])),
            Err(LimitExceeded::Values)
        );
    }

    #[test]
    fn brackets_in_texts_do_not_count_and_nul_is_found() {
        let text = json!({ "a": "[[[[\"[[[[\\" , "b": "[".repeat(100) });
        assert_eq!(scan(text.to_string().as_bytes()).depth, 1);
        assert_eq!(check_json(br#"["\u0000"]"#), Err(LimitExceeded::Nul));
        assert_eq!(check_json(br#"["\\u0000"]"#), Ok(()));
        assert_eq!(check(&json!({ "a\0": 1 })), Err(LimitExceeded::Nul));
    }

    #[test]
    fn services_may_wrap_accepted_values() {
        let wrapped = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(check_message("put_contact", wrapped(40).as_bytes()).is_ok());
        assert!(check_message("put_contact", wrapped(41).as_bytes()).is_err());
        assert!(check_message("set_holds", wrapped(64).as_bytes()).is_ok());
        assert!(check_message("set_holds", wrapped(65).as_bytes()).is_err());
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<i32>().prop_map(|number| json!(f64::from(number) / 4.0)),
            any::<u64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(40, 200, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// B-2: bytes and value are judged alike, and what is taken can be written, wrapped and read again.
        #[test]
        fn accepted_values_survive_wrapping(value in values()) {
            let json = value.to_string();
            prop_assert_eq!(check_json(json.as_bytes()).is_ok(), check(&value).is_ok());
            if check(&value).is_ok() {
                let mut wrapped = value;
                for _ in 0..MESSAGE_DEPTH_MAX - DEPTH_MAX {
                    wrapped = json!({ "w": wrapped });
                }
                let text = wrapped.to_string();
                prop_assert!(check_message("set_holds", text.as_bytes()).is_ok());
                prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), wrapped);
            }
        }
    }
}
