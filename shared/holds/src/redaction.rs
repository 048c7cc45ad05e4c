//! Which arguments and results of tools are never shown: the `redaction` of a tool (S2-R2).
//!
//! A path names members from `args` or `result` on, such as `args.card.number`. `*` stands for every member, and a list
//! on the way stands for all its items. A part that is not known to be harmless is hidden.

use holdpoint_contracts::problem::FieldError;
use serde_json::Value;

/// In place of a hidden part.
pub const REDACTED: &str = "[redacted]";

/// The root of the arguments of a call.
pub const ARGS: &str = "args";

/// The root of the result of a call.
pub const RESULT: &str = "result";

/// Most paths of one tool.
pub const PATHS_MAX: usize = 50;

/// Longest path, in bytes.
pub const PATH_BYTES_MAX: usize = 200;

/// Shortest hidden text that is replaced in other texts, in bytes. Shorter ones would hide common words.
const TEXT_BYTES_MIN: usize = 4;

/// Most hidden texts of arguments, and of a result, that are replaced in other texts. All runs wait for that.
const TEXTS_MAX: usize = 25;

/// Why paths are refused, if they are.
#[must_use]
pub fn paths_error(paths: &[String]) -> Option<String> {
    if paths.len() > PATHS_MAX {
        let count = paths.len();
        return Some(format!(
            "`redaction` has {count} paths; at most {PATHS_MAX} are allowed"
        ));
    }
    let wrong = paths.iter().find(|path| !is_path(path))?;
    let shown: String = wrong.chars().take(PATH_BYTES_MAX).collect();
    Some(format!(
        "invalid path `{shown}` in `redaction`; expected `args` or `result` with names after dots, such as `args.card.number`, of at most {PATH_BYTES_MAX} bytes"
    ))
}

fn is_path(path: &str) -> bool {
    let mut names = path.split('.');
    let root = names.next().unwrap_or_default();
    let is_name = |name: &str| !name.is_empty() && !name.chars().any(char::is_control);
    path.len() <= PATH_BYTES_MAX && [ARGS, RESULT].contains(&root) && names.all(is_name)
}

/// The names after the root of each path with this root.
fn paths_of<'p>(root: &str, paths: &'p [String]) -> Vec<Vec<&'p str>> {
    let names = paths.iter().map(|path| path.split('.').collect::<Vec<_>>());
    let of_root = names.filter(|names| names.first().is_some_and(|first| *first == root));
    of_root
        .map(|names| names.into_iter().skip(1).collect())
        .collect()
}

/// Whether a part of the arguments or of the result is hidden.
#[must_use]
pub fn hides_any(root: &str, paths: &[String]) -> bool {
    !paths_of(root, paths).is_empty()
}

/// Hides parts of the arguments or of the result.
pub fn redact(value: &mut Value, root: &str, paths: &[String]) {
    redact_member(value, root, &[], paths);
}

/// Hides parts of a value that is a member of the arguments or of the result. `place` has the names that lead to it.
pub fn redact_member(value: &mut Value, root: &str, place: &[&str], paths: &[String]) {
    for path in paths_of(root, paths) {
        let is_same = |(name, at): (&&str, &&str)| *name == "*" || name == at;
        if path.iter().zip(place).all(is_same) {
            hide(value, path.get(place.len()..).unwrap_or_default());
        }
    }
}

fn hide(value: &mut Value, path: &[&str]) {
    let Some((name, rest)) = path.split_first() else {
        *value = Value::from(REDACTED);
        return;
    };
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, path)),
        Value::Object(fields) => {
            let fields = fields.iter_mut();
            let named = fields.filter(|(field, _)| *name == "*" || name == field);
            named.for_each(|(_, field)| hide(field, rest));
        }
        // The tool uses another form than its definition says.
        Value::String(_) | Value::Number(_) => *value = Value::from(REDACTED),
        Value::Null | Value::Bool(_) => {}
    }
}

/// The arguments that a person has edited without seeing the hidden parts, with the hidden parts of the original. None: a
/// hidden part has another place, or the original does not have it.
#[must_use]
pub fn restore(edited: &Value, original: &Value, paths: &[String]) -> Option<Value> {
    let (mut edited, mut shown) = (edited.clone(), original.clone());
    if !hides_any(ARGS, paths) {
        return Some(edited);
    }
    redact(&mut edited, ARGS, paths);
    redact(&mut shown, ARGS, paths);
    restored(edited, &shown, original)
}

fn restored(edited: Value, shown: &Value, original: &Value) -> Option<Value> {
    if edited == *shown {
        return Some(original.clone());
    }
    match (edited, shown) {
        (Value::Object(fields), Value::Object(_)) => {
            let fields = fields.into_iter().map(|(name, field)| {
                let known = shown.get(&name).zip(original.get(&name));
                let field = match known {
                    Some((shown, original)) => restored(field, shown, original)?,
                    None => without_hidden(field)?,
                };
                Some((name, field))
            });
            fields.collect::<Option<_>>().map(Value::Object)
        }
        (other, _) => without_hidden(other),
    }
}

/// A value of the person. Its place says nothing of what a hidden part in it would be.
fn without_hidden(value: Value) -> Option<Value> {
    (!has_hidden(&value)).then_some(value)
}

fn has_hidden(value: &Value) -> bool {
    match value {
        Value::String(text) => text == REDACTED,
        Value::Array(items) => items.iter().any(has_hidden),
        Value::Object(fields) => fields.values().any(has_hidden),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Errors of a schema without the values that they quote, if parts of the values are hidden.
#[must_use]
pub fn without_values(errors: Vec<FieldError>, root: &str, paths: &[String]) -> Vec<FieldError> {
    if !hides_any(root, paths) {
        return errors;
    }
    let errors = errors.into_iter().map(|error| FieldError {
        message: "it is not valid".to_owned(),
        ..error
    });
    errors.collect()
}

/// The hidden texts and numbers of a value, the longest first. A tool may repeat them in its texts.
#[must_use]
pub fn hidden_texts(value: &Value, root: &str, paths: &[String]) -> Vec<String> {
    let mut shown = value.clone();
    redact(&mut shown, root, paths);
    let mut texts = Vec::new();
    collect_hidden(value, &shown, &mut texts);
    texts.sort_by(|one, next| next.len().cmp(&one.len()).then_with(|| one.cmp(next)));
    texts.dedup();
    texts.truncate(TEXTS_MAX);
    texts
}

fn collect_hidden(value: &Value, shown: &Value, texts: &mut Vec<String>) {
    if value == shown {
        return;
    }
    match (value, shown) {
        (Value::Array(items), _) => {
            let shown = |at: usize| shown.get(at).unwrap_or(&Value::Null);
            let items = items.iter().enumerate();
            items.for_each(|(at, item)| collect_hidden(item, shown(at), texts));
        }
        (Value::Object(fields), _) => {
            let shown = |name: &str| shown.get(name).unwrap_or(&Value::Null);
            let fields = fields.iter();
            fields.for_each(|(name, field)| collect_hidden(field, shown(name), texts));
        }
        (Value::String(text), _) => add_text(text.trim(), texts),
        (Value::Number(number), _) => add_text(&number.to_string(), texts),
        (Value::Null | Value::Bool(_), _) => {}
    }
}

fn add_text(text: &str, texts: &mut Vec<String>) {
    if text.len() >= TEXT_BYTES_MIN {
        texts.push(text.to_owned());
    }
}

/// Replaces hidden texts in another text.
#[must_use]
pub fn hide_texts(text: &str, hidden: &[String]) -> String {
    let hidden = hidden.iter();
    hidden.fold(text.to_owned(), |text, it| {
        if text.contains(it) {
            text.replace(it, REDACTED)
        } else {
            text
        }
    })
}

/// Replaces hidden texts in all texts of a value.
pub fn hide_texts_in(value: &mut Value, hidden: &[String]) {
    match value {
        Value::String(text) => *text = hide_texts(text, hidden),
        Value::Number(number) => {
            if hidden.contains(&number.to_string()) {
                *value = Value::from(REDACTED);
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| hide_texts_in(item, hidden)),
        Value::Object(fields) => {
            let fields = fields.values_mut();
            fields.for_each(|field| hide_texts_in(field, hidden));
        }
        Value::Null | Value::Bool(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(of: &[&str]) -> Vec<String> {
        of.iter().map(|&path| path.to_owned()).collect()
    }

    fn redacted(mut value: Value, root: &str, of: &[&str]) -> Value {
        redact(&mut value, root, &paths(of));
        value
    }

    /// S2-R2: a path hides one member, in all items of a list, and whatever its value is.
    #[test]
    fn a_path_hides_its_part() {
        let args =
            json!({ "card": { "number": 4111, "name": "Ada" }, "n": [{ "t": null }, { "u": 1 }] });
        for (path, expected) in [
            (
                "args.card.number",
                json!({ "card": { "number": REDACTED, "name": "Ada" }, "n": args["n"] }),
            ),
            ("args.card", json!({ "card": REDACTED, "n": args["n"] })),
            (
                "args.card.*",
                json!({ "card": { "number": REDACTED, "name": REDACTED }, "n": args["n"] }),
            ),
            (
                "args.n.t",
                json!({ "card": args["card"], "n": [{ "t": REDACTED }, { "u": 1 }] }),
            ),
            (
                "args.card.name.first",
                json!({ "card": { "number": 4111, "name": REDACTED }, "n": args["n"] }),
            ),
            ("args.other", args.clone()),
            ("result.card", args.clone()),
            ("args", json!(REDACTED)),
        ] {
            assert_eq!(redacted(args.clone(), ARGS, &[path]), expected, "{path}");
        }
    }

    /// S2-R2: a value that an expression has taken out of a result is hidden as in the result.
    #[test]
    fn a_member_is_hidden_as_in_the_whole() {
        for (place, path, expected) in [
            (
                &["card"][..],
                "result.card.number",
                json!({ "number": REDACTED }),
            ),
            (&["card"], "result.card", json!(REDACTED)),
            (&["card"], "result", json!(REDACTED)),
            (&["card"], "result.*.number", json!({ "number": REDACTED })),
            (&["card"], "result.cart.number", json!({ "number": 1 })),
        ] {
            let mut value = json!({ "number": 1 });
            redact_member(&mut value, RESULT, place, &paths(&[path]));
            assert_eq!(value, expected, "{path}");
        }
    }

    /// S2-R4: an approver edits what it sees, and the tool gets what it does not see.
    #[test]
    fn hidden_parts_of_edited_arguments_are_restored() {
        let original = json!({ "n": 1, "key": "k-1", "cards": [{ "no": "4111", "name": "Ada" }, { "no": "4222" }] });
        let hidden = paths(&["args.key", "args.cards.no"]);
        let mut shown = original.clone();
        redact(&mut shown, ARGS, &hidden);
        let edit = |change: fn(&mut Value)| {
            let mut edited = shown.clone();
            change(&mut edited);
            restore(&edited, &original, &hidden)
        };
        assert_eq!(edit(|_| {}), Some(original.clone()));
        let changed = edit(|it| it["n"] = json!(2)).unwrap();
        assert_eq!(
            (&changed["n"], &changed["key"], &changed["cards"]),
            (&json!(2), &json!("k-1"), &original["cards"])
        );
        // The person cannot replace what it does not see.
        assert_eq!(edit(|it| it["key"] = json!("k-2")), Some(original.clone()));
        let removed = edit(|it| drop(it.as_object_mut().unwrap().remove("key"))).unwrap();
        assert_eq!(removed.get("key"), None);
        let wrong: [fn(&mut Value); 4] = [
            |it| drop(it["cards"].as_array_mut().unwrap().remove(0)),
            |it| it["cards"].as_array_mut().unwrap().reverse(),
            |it| it["more"] = json!(REDACTED),
            |it| it["n"] = json!([{ "a": REDACTED }]),
        ];
        for change in wrong {
            assert_eq!(edit(change), None);
        }
        let gone = edit(|it| drop(it.as_object_mut().unwrap().remove("cards"))).unwrap();
        assert_eq!(gone, json!({ "n": 1, "key": "k-1" }));
    }

    /// S0-R5: a tool may repeat a hidden argument in its texts.
    #[test]
    fn hidden_texts_are_replaced_in_other_texts() {
        let args = json!({ "key": "k-1234", "pin": 12345, "a": "xy", "open": "shown" });
        let of = paths(&["args.key", "args.pin", "args.a"]);
        let hidden = hidden_texts(&args, ARGS, &of);
        assert_eq!(
            hide_texts("k-1234 12345 xy shown", &hidden),
            "[redacted] [redacted] xy shown"
        );
        let mut data = json!({ "body": ["bad k-1234"], "n": 12345, "m": 1 });
        hide_texts_in(&mut data, &hidden);
        assert_eq!(
            data,
            json!({ "body": ["bad [redacted]"], "n": REDACTED, "m": 1 })
        );
    }

    #[test]
    fn other_paths_are_refused() {
        assert_eq!(
            paths_error(&paths(&["args", "result.*.a", "args.x-y z"])),
            None
        );
        for wrong in [
            "", "arg", "args.", "args..a", "input.a", "args.a\n", "$args.a",
        ] {
            assert!(paths_error(&paths(&[wrong])).is_some(), "{wrong}");
        }
        let long = format!("args.{}", "a".repeat(PATH_BYTES_MAX));
        assert!(paths_error(&[long]).is_some());
        assert!(paths_error(&vec!["args.a".to_owned(); PATHS_MAX + 1]).is_some());
    }
}
