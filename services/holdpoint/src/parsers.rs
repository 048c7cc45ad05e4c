//! Parsers of single values on the command line and in the cells of a CSV file.
//!
//! A number that JSON would change (a leading zero, too many digits) stays a text, so that postcodes
//! and phone numbers survive.

use std::convert::Infallible;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use chrono::TimeDelta;
use holdpoint_contracts::duration as durations;
use holdpoint_ids::ContactId;
use serde_json::Value;

use crate::file_privacy;
use crate::serve::tables::Tables;

/// Largest integer that every JSON reader keeps exactly.
const WHOLE_MAX: u64 = 1 << 53;
/// Largest file or standard input, in bytes; the API accepts no larger body.
const FILE_MAX: u64 = 1024 * 1024;

/// Longer than a delivery is tried and a command without a reply is repeated. A run that is started again after its
/// deletion would act twice.
const RETENTION_MIN: TimeDelta = TimeDelta::days(7);
const RETENTION_MAX: TimeDelta = TimeDelta::days(3_650);

/// `true`, `false` and numbers keep their type; anything else is a text.
pub(crate) fn typed(text: &str) -> Value {
    if text.eq_ignore_ascii_case("true") {
        return Value::Bool(true);
    }
    if text.eq_ignore_ascii_case("false") {
        return Value::Bool(false);
    }
    number(text).unwrap_or_else(|| Value::from(text))
}

fn number(text: &str) -> Option<Value> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let split = digits.split_once('.');
    let (whole, fraction) = split.map_or((digits, None), |(whole, rest)| (whole, Some(rest)));
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(whole) || whole.len() > 1 && whole.starts_with('0') {
        return None;
    }
    let integer = whole.parse::<u64>().ok();
    integer.filter(|integer| *integer <= WHOLE_MAX)?;
    match fraction {
        None => text.parse::<i64>().ok().map(Value::from),
        Some(fraction) if all_digits(fraction) && fraction.len() <= 15 => {
            text.parse::<f64>().ok().map(Value::from)
        }
        Some(_) => None,
    }
}

/// A JSON object answers a form; anything else is a text.
pub(crate) fn answer(text: &str) -> Result<Value, Infallible> {
    Ok(match serde_json::from_str(text) {
        Ok(form @ Value::Object(_)) => form,
        Ok(_) | Err(_) => Value::from(text),
    })
}

/// `key=value` of a contact. An empty value removes the field; a value in `{}`, `[]` or `""` is JSON.
pub(crate) fn field(text: &str) -> Result<(String, Value), String> {
    let (name, value) = pair(text)?;
    let value = match value.trim() {
        "" | "null" => Value::Null,
        json if json.starts_with(['{', '[', '"']) => serde_json::from_str(json)
            .map_err(|error| format!("the value of `{name}` is not valid JSON: {error}"))?,
        plain => typed(plain),
    };
    if name == "id" {
        return Err("`id` cannot be changed".to_owned());
    }
    Ok((name, value))
}

pub(crate) fn label(text: &str) -> Result<(String, String), String> {
    pair(text).map(|(name, value)| (name, value.to_owned()))
}

fn pair(text: &str) -> Result<(String, &str), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value)),
        Some(_) | None => Err("expected NAME=VALUE".to_owned()),
    }
}

/// A secret, or `@FILE`, because command lines are visible in the process list.
pub(crate) fn secret(text: &str) -> anyhow::Result<String> {
    match text.strip_prefix('@') {
        Some(file) => Ok(file_privacy::read_secret(Path::new(file))?
            .trim()
            .to_owned()),
        None => Ok(text.to_owned()),
    }
}

/// A database address, or `@FILE`, because the address contains a password.
pub(crate) fn tables(text: &str) -> anyhow::Result<Tables> {
    secret(text)?.parse().map_err(|why: String| anyhow!(why))
}

/// A valid duration, which is sent unchanged.
pub(crate) fn duration(text: &str) -> Result<String, durations::DurationError> {
    durations::parse(text).map(|_| text.to_owned())
}

/// How long what has ended is kept.
pub(crate) fn retention(text: &str) -> Result<TimeDelta, String> {
    let duration = durations::parse(text).map_err(|error| error.to_string())?;
    let kept_for = TimeDelta::from_std(duration).map_err(|error| error.to_string())?;
    if kept_for < RETENTION_MIN || kept_for > RETENTION_MAX {
        return Err(format!(
            "invalid retention `{text}`; expected 7 to 3650 days"
        ));
    }
    Ok(kept_for)
}

pub(crate) fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" | "true" => Ok(true),
        "no" | "false" => Ok(false),
        other => Err(format!("invalid value `{other}`; expected yes or no")),
    }
}

/// Quiet hours, `22:00-07:00`, as in request bodies; `none` is null.
pub(crate) fn hours(text: &str) -> Result<Value, String> {
    if text == "none" {
        return Ok(Value::Null);
    }
    let (from, to) = text
        .split_once('-')
        .ok_or_else(|| "expected FROM-TO such as 22:00-07:00, or none".to_owned())?;
    Ok(serde_json::json!({ "from": from, "to": to }))
}

/// JSON, or the name of a file that holds it.
pub(crate) fn json_or_file(text: &str) -> anyhow::Result<Value> {
    let start = text.trim_start();
    let json = serde_json::from_str(text);
    if json.is_ok() || start.starts_with(['{', '[', '"']) {
        return json.map_err(|error| anyhow!("invalid JSON: {error}"));
    }
    let path = Path::new(text);
    let content = read_text(path)?;
    serde_json::from_str(&content)
        .map_err(|error| anyhow!("{} is not valid JSON: {error}", path.display()))
}

/// A JSON object with an `id`, or the name of a file that holds it.
pub(crate) fn contact_object(text: &str) -> anyhow::Result<Value> {
    let value = json_or_file(text)?;
    contact_id(&value)?;
    Ok(value)
}

/// A contact's id, or a JSON object with one.
pub(crate) fn contact(text: &str) -> anyhow::Result<Value> {
    if text.trim_start().starts_with('{') {
        return contact_object(text);
    }
    Ok(Value::from(text.parse::<ContactId>()?.as_str()))
}

pub(crate) fn contact_id(contact: &Value) -> anyhow::Result<ContactId> {
    let fields = contact
        .as_object()
        .context("a contact must be a JSON object")?;
    match fields.get("id") {
        Some(Value::String(id)) => Ok(id.parse()?),
        Some(_) => bail!("the `id` of a contact must be a text"),
        None => bail!("a contact needs an `id`"),
    }
}

/// Reads a text file, or standard input for `-`.
pub(crate) fn read_text(path: &Path) -> anyhow::Result<String> {
    let mut content = String::new();
    let source: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        let file = std::fs::File::open(path);
        Box::new(file.map_err(|error| anyhow!("cannot read {}: {error}", path.display()))?)
    };
    source
        .take(FILE_MAX + 1)
        .read_to_string(&mut content)
        .with_context(|| format!("cannot read {}", path.display()))?;
    if content.len() as u64 > FILE_MAX {
        bail!("{} is larger than 1 MiB", path.display());
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// B-11
    #[test]
    fn a_retention_is_7_to_3650_days() {
        assert_eq!(retention("7 days").unwrap(), RETENTION_MIN);
        assert_eq!(retention("3650 days").unwrap(), RETENTION_MAX);
        for wrong in ["6 days", "3651 days", "0s", "", "soon", "-8 days"] {
            assert!(retention(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_cell_keeps_its_type_and_never_changes_its_text() {
        let cases = [
            ("true", json!(true)),
            ("FALSE", json!(false)),
            ("7", json!(7)),
            ("-3", json!(-3)),
            ("0", json!(0)),
            ("1.5", json!(1.5)),
            ("-0.25", json!(-0.25)),
        ];
        for (text, value) in cases {
            assert_eq!(typed(text), value, "{text}");
        }
        let texts = [
            "01234",
            "+49 30 1",
            "1e5",
            "1.",
            ".5",
            "1.2.3",
            "-",
            "--1",
            "NaN",
            "yes",
            "1_000",
            "9007199254740993",
            "0x10",
            "2026-01-01",
        ];
        for text in texts {
            assert_eq!(typed(text), json!(text), "{text}");
        }
    }

    #[test]
    fn a_field_is_typed_quoted_or_removed() {
        assert_eq!(
            field("replied=true").unwrap(),
            ("replied".to_owned(), json!(true))
        );
        assert_eq!(field("zip=\"7\"").unwrap().1, json!("7"));
        assert_eq!(field("deals=[{\"a\":1}]").unwrap().1, json!([{"a": 1}]));
        assert_eq!(field("note=").unwrap().1, Value::Null);
        assert_eq!(field("eq=a=b").unwrap().1, json!("a=b"));
        for bad in ["replied", "=x", "deals=[1", "id=c2"] {
            assert!(field(bad).is_err(), "{bad}");
        }
    }

    /// Mend A-L5: a secret need not appear in the process list.
    #[test]
    fn a_secret_is_an_argument_or_in_a_file() {
        use std::os::unix::fs::PermissionsExt as _;

        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secret");
        let set = |text: &str, mode| {
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let at = format!("@{}", file.display());
        set("hp_abc\n", 0o600);
        assert_eq!(secret(&at).unwrap(), "hp_abc");
        assert_eq!(secret("hp_typed").unwrap(), "hp_typed");
        assert!(tables(&at).is_err(), "hp_abc is not a database address");
        set("postgres://u:p@db/h\n", 0o600);
        let kept = Tables::Postgres("postgres://u:p@db/h".to_owned());
        assert_eq!(tables(&at).unwrap(), kept);
        set("hp_abc", 0o644);
        let error = format!("{:#}", secret(&at).unwrap_err());
        assert!(
            error.contains("chmod 600") && !error.contains("hp_abc"),
            "{error}"
        );
        assert!(secret("@/nonexistent").is_err());
    }

    #[test]
    fn a_contact_is_an_id_or_an_object_with_one() {
        assert_eq!(contact("c-1").unwrap(), json!("c-1"));
        assert_eq!(
            contact(r#"{"id":"c-1","vip":true}"#).unwrap()["vip"],
            json!(true)
        );
        for bad in ["c 1", r#"{"name":"x"}"#, r#"{"id":7}"#, r#"{"id":"c1""#] {
            assert!(contact(bad).is_err(), "{bad}");
        }
    }
}
