//! Removes secrets, paths, SQL and stacks from error texts of tools (S0-R5).
//!
//! The original text is stored beside it, bounded, for operators only.

mod secret_value;

use std::sync::LazyLock;

use holdpoint_contracts::run::FAILED_DATA_BYTES_MAX;
use holdpoint_contracts::size::json_bytes;
use regex::{Captures, Regex};
use serde_json::{Value, json};

/// Longest error text that a response or a failure keeps, in characters; the rest is cut.
pub(crate) const ERROR_CHARS_MAX: usize = 2_000;

/// Longest original text that operators see, in characters; the rest is cut.
pub(crate) const RAW_ERROR_CHARS_MAX: usize = 8_000;

/// The text that is shown if nothing of the original may be.
const NOTHING_LEFT: &str = "The tool failed. Operators see what it said.";

/// Shortest word that is taken for a secret: upper and lower case letters and digits, mixed.
const SECRET_LOOK_CHARS: usize = 24;

/// Replaced before named secrets, in this order.
static REPLACED_FIRST: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    built(&[
        (r"Traceback \(most recent call last\):?", ""),
        // Keys and certificates.
        (
            r"-----BEGIN [A-Z ]+-----[\s\S]*?(-----END [A-Z ]+-----|$)",
            "[secret]",
        ),
        // User and password of a URL, then its query: both often carry a key.
        (r"(\w+://)[^\s/@]+@", "${1}[secret]@"),
        (r#"(\w+://[^\s?#"'<>]+)[?#][^\s"'<>]*"#, "${1}?[query]"),
        (r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}", "${1} [secret]"),
        // A cookie header holds several pairs, and an authorization header several words. A quoted value is
        // that of a named secret, and ends with its quote.
        (
            r#"(?i)((?:authorization|cookies?)\s*(?:=>|:=|[=:])\s*)[^\s"'\\][^\n]*"#,
            "${1}[secret]",
        ),
    ])
});

/// The name of a secret, up to its value: `password=`, `"api_key": `, `\"token\":`, `X-Auth-Token: `.
static SECRET_NAME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"(?i)(?:passw(?:or)?d|passphrase|pwd|secret|token|api[_-]?key|credential|private[_-]?key|authorization\b|cookies?\b)[\w-]*\\*["']?\s*(?:=>|:=|[=:])\s*"#,
    )
    .ok()
});

/// Replaced after named secrets, in this order.
static REPLACED_LAST: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    built(&[
        (r"\beyJ[\w-]{8,}(?:\.[\w-]*){1,2}", "[secret]"),
        (
            r"\b(?:sk|pk|rk|ghp|gho|ghs|glpat|xox[a-z]|AKIA|hp|hps)[_-]?[A-Za-z0-9_-]{16,}\b",
            "[secret]",
        ),
        // SQL, up to the end of its line. A bounded repetition would be slow: it is copied so many times
        // into the automaton.
        (
            r#"(?i)\b(?:select\s(?:[^\n]*?\s)?from\s+["`\[\w.\]]+(?:\s*$|\s*[;)"'`]|\s+(?:where|join|limit|order|group|inner|left|union|as)\b)|insert\s+into\s|update\s+\S+\s+set\s|delete\s+from\s|merge\s+into\s|truncate\s+table\s|(?:create|alter|drop)\s+(?:table|index|database|view|schema)\s)[^\n]*"#,
            "[SQL]",
        ),
        // Paths: from the root, from a home directory, of Windows, and a source file with its line.
        (
            r#"(^|[\s"'`(\[=:,<>])(?:~|\.{1,2})?/(?:[\w.@+~%-]+/)+[\w.@+~%-]*(?::\d+)*"#,
            "${1}[path]",
        ),
        (
            r#"\b[A-Za-z]:\\[^\s"'<>|]+|\\\\[\w.-]+\\[^\s"'<>|]+"#,
            "[path]",
        ),
        (
            r"\b[\w.-]+(?:/[\w.-]+)*\.(?:rs|py|js|mjs|ts|tsx|go|java|kt|rb|php|cs|c|cc|cpp|h|sql|pl|sh|ex):\d+(?::\d+)?",
            "[path]",
        ),
    ])
});

fn built(rules: &[(&str, &'static str)]) -> Vec<(Regex, &'static str)> {
    let rules = rules.iter();
    rules
        .filter_map(|(rule, by)| Some((Regex::new(rule).ok()?, *by)))
        .collect()
}

/// The lines of a stack: where it was, and not what went wrong.
static STACK_LINE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"^\s*(?:Traceback \(most recent call|stack backtrace|Stack trace|goroutine \d+|at\s+\S+.*[(:]|File ".*", line \d+|\d+:\s+(?:0x|\S+::)|from \S+:\d+:in|#\d+\s|thread '.*' panicked at|note: run with|\^+\s*$|~+\^*\s*$)"#,
    )
    .ok()
});

/// A word that looks like a key.
static LONG_WORD: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"[A-Za-z0-9+/_-]{24,}={0,2}").ok());

/// The text without what S0-R5 forbids, on one line, at most [`ERROR_CHARS_MAX`] characters.
pub(crate) fn sanitised(raw: &str) -> String {
    let text = without_forbidden_parts(raw);
    if text.is_empty() && !raw.is_empty() {
        NOTHING_LEFT.to_owned()
    } else {
        text
    }
}

/// The same, and empty if nothing may be shown.
fn without_forbidden_parts(raw: &str) -> String {
    let text: String = raw.chars().take(RAW_ERROR_CHARS_MAX).collect();
    let mut text = without_stack(&text);
    for (rule, by) in REPLACED_FIRST.iter() {
        text = rule.replace_all(&text, *by).into_owned();
    }
    text = without_named_secrets(&text);
    for (rule, by) in REPLACED_LAST.iter() {
        text = rule.replace_all(&text, *by).into_owned();
    }
    if let Some(word) = LONG_WORD.as_ref() {
        text = word.replace_all(&text, masked).into_owned();
    }
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    words.join(" ").chars().take(ERROR_CHARS_MAX).collect()
}

/// What a tool got before it failed, without what S0-R5 forbids. Of larger data only the size is kept.
pub(crate) fn sanitised_data(data: &Value) -> Value {
    let omitted = |bytes: usize| json!({ "omitted": true, "bytes": bytes });
    let bytes = json_bytes(data);
    if bytes > FAILED_DATA_BYTES_MAX {
        return omitted(bytes);
    }
    let shown = without_forbidden(data);
    // A mark may be longer than what it replaces.
    if json_bytes(&shown) > FAILED_DATA_BYTES_MAX {
        return omitted(bytes);
    }
    shown
}

/// Its depth is bounded, as that of every value from outside.
fn without_forbidden(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::from(without_forbidden_parts(text)),
        Value::Array(items) => items.iter().map(without_forbidden).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            let shown = fields.map(|(name, value)| {
                let shown = if is_secret_name(name) && !value.is_null() {
                    Value::from("[secret]")
                } else {
                    without_forbidden(value)
                };
                (without_forbidden_parts(name), shown)
            });
            Value::Object(shown.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn is_secret_name(name: &str) -> bool {
    let named = format!("{name}=");
    SECRET_NAME.as_ref().is_some_and(|it| it.is_match(&named))
}

/// The original text, bounded, for operators.
pub(crate) fn raw(text: &str) -> String {
    text.chars().take(RAW_ERROR_CHARS_MAX).collect()
}

/// Leaves the lines of a stack out. Commands' last lines come joined by ` / `. Python writes the line
/// of source under its place, indented deeper than what went wrong.
fn without_stack(text: &str) -> String {
    let Some(stack) = STACK_LINE.as_ref() else {
        return text.to_owned();
    };
    let mut kept = Vec::new();
    let mut is_source_next = false;
    for line in text.split('\n').flat_map(|line| line.split(" / ")) {
        if stack.is_match(line) {
            is_source_next = line.trim_start().starts_with("File \"");
            continue;
        }
        if std::mem::take(&mut is_source_next) && line.starts_with("  ") {
            continue;
        }
        kept.push(line);
    }
    kept.join("\n")
}

/// Replaces the value after the name of each secret.
fn without_named_secrets(text: &str) -> String {
    let Some(name) = SECRET_NAME.as_ref() else {
        return text.to_owned();
    };
    let (mut kept, mut rest) = (String::new(), text);
    while let Some(found) = name.find(rest) {
        let (before, value) = rest.split_at(found.end());
        kept.push_str(before);
        rest = secret_value::skip(value);
        if rest.len() < value.len() {
            kept.push_str("[secret]");
        }
    }
    kept.push_str(rest);
    kept
}

/// Ids are lower-case and stay.
fn masked(word: &Captures<'_>) -> String {
    let word = word.get(0).map_or("", |word| word.as_str());
    let has = |is: fn(&char) -> bool| word.chars().any(|c| is(&c));
    let looks_secret = word.len() >= SECRET_LOOK_CHARS
        && has(char::is_ascii_uppercase)
        && has(char::is_ascii_lowercase)
        && has(char::is_ascii_digit);
    if looks_secret {
        "[secret]".to_owned()
    } else {
        word.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    /// How a secret may be quoted.
    const QUOTES: [(&str, &str); 10] = [
        ("", ""),
        ("\"", "\""),
        ("'", "'"),
        ("\\\"", "\\\""),
        ("\\\\\\\"", "\\\\\\\""),
        ("b'", "'"),
        ("Some(\"", "\")"),
        ("Some(Secret(\"", "\"))"),
        ("SecretStr('", "')"),
        ("[\"a\", \"", "\"]"),
    ];

    /// All rules are there: one that does not build would be passed over silently.
    #[test]
    fn every_rule_builds() {
        assert_eq!((REPLACED_FIRST.len(), REPLACED_LAST.len()), (6, 6));
        assert!(STACK_LINE.is_some() && LONG_WORD.is_some() && SECRET_NAME.is_some());
    }

    /// Gate 3, S0-R5: the response of a failed attempt is kept like its text: bounded, and without what is forbidden.
    #[test]
    fn data_of_a_failure_is_shown_without_what_is_forbidden() {
        let data = json!({
            "status": 401,
            "body": "{\"error\": \"no /etc/holdpoint/keys.toml\", \"api_key\": \"abc def\"}",
            "headers": { "X-Auth-Token": "abc", "cookie": ["a=b"], "secret": null, "pwd": 7 },
            "lines": ["password=hunter2", true],
        });
        assert_eq!(
            sanitised_data(&data),
            json!({
                "status": 401,
                "body": "{\"error\": \"no [path]\", \"api_key\": [secret]}",
                "headers": { "X-Auth-Token": "[secret]", "cookie": "[secret]", "secret": null, "pwd": "[secret]" },
                "lines": ["password=[secret]", true],
            })
        );
        let large = json!(["x".repeat(FAILED_DATA_BYTES_MAX)]);
        let bytes = FAILED_DATA_BYTES_MAX + 4;
        assert_eq!(
            sanitised_data(&large),
            json!({ "omitted": true, "bytes": bytes })
        );
    }

    /// Mend C-2, S0-R5: no secret, path, SQL or stack.
    #[test]
    fn what_is_forbidden_is_taken_out() {
        for (raw, shown) in [
            (
                "open /etc/holdpoint/keys.toml: permission denied",
                "open [path]: permission denied",
            ),
            (r"cannot read C:\Users\ann\key.txt", "cannot read [path]"),
            (
                "login failed: password=hunter2 user=ann",
                "login failed: password=[secret] user=ann",
            ),
            (
                r#"401 {"api_key": "abc def", "user": "ann"}"#,
                r#"401 {"api_key": [secret], "user": "ann"}"#,
            ),
            (
                "sent Authorization: Bearer abc.def-123456",
                "sent Authorization: [secret]",
            ),
            (
                "connect postgres://app:s3cret@db.internal/crm?sslmode=off refused",
                "connect postgres://[secret]@db.internal/crm?[query] refused",
            ),
            (
                "near WHERE: SELECT name, card FROM customers WHERE id = 7",
                "near WHERE: [SQL]",
            ),
            ("syntax: insert into t values (1)", "syntax: [SQL]"),
            (
                "Traceback (most recent call last):\n  File \"/app/tool.py\", line 3, in <module>\n    raise ValueError('x')\nValueError: no such contact",
                "ValueError: no such contact",
            ),
            (
                "pay ended with exit status: 1: Traceback (most recent call last): /   File \"/app/t.py\", line 3, in <module> /     pay() / ValueError: card refused",
                "pay ended with exit status: 1: ValueError: card refused",
            ),
            (
                "Error: boom\n    at pay (/srv/app/pay.js:10:3)\n    at node:internal/main:1:2",
                "Error: boom",
            ),
            ("panicked at src/main.rs:12:5", "panicked at [path]"),
            (
                "key Zm9vYmFyYmF6UXV4MTIzNDU2Nzg5MA== refused",
                "key [secret] refused",
            ),
        ] {
            assert_eq!(sanitised(raw), shown);
        }
    }

    /// Mend C-2: a secret is not shown, however it is quoted and wherever its text was cut off.
    #[test]
    fn every_form_of_a_named_secret_is_taken_out() {
        for (raw, shown) in [
            (r#"{"password": "hunter2"#, r#"{"password": [secret]"#),
            (
                r#"{\"token\":\"hunter2\",\"user\":\"ann\"}"#,
                r#"{\"token\":[secret],\"user\":\"ann\"}"#,
            ),
            (r#""{\"token\":\"ab\\\"cd\"}""#, r#""{\"token\":[secret]}""#),
            (
                r#"password: Some("hunter2"), user: "ann""#,
                r#"password: [secret], user: "ann""#,
            ),
            ("password=b'hunter2' user=ann", "password=[secret] user=ann"),
            ("token=SecretStr('hunter2')", "token=[secret]"),
            (
                r#"{"password": "ab\"cdef", "user": "ann"}"#,
                r#"{"password": [secret], "user": "ann"}"#,
            ),
            ("Cookie: a=1; sid=hunter2", "Cookie: [secret]"),
            (
                "password: can't be blank, email: has already been taken",
                "password: [secret]'t be blank, email: has already been taken",
            ),
            (
                "AuthorizationError: ann may not call crm.search",
                "AuthorizationError: ann may not call crm.search",
            ),
            (
                r#"{"Authorization":"Bearer x","message":"quota exceeded"}"#,
                r#"{"Authorization":[secret],"message":"quota exceeded"}"#,
            ),
            (
                "unexpected token: ( in expression\nline 3",
                "unexpected token: [secret] line 3",
            ),
            ("secrets: [\"a b\", \"c\"] end", "secrets: [secret] end"),
            (
                "password => 'it''s hunter2' end",
                "password => [secret] end",
            ),
            (
                "password: \"\"\"a \"hunter2\"\"\" end",
                "password: [secret] end",
            ),
            (
                "`psql password=hunter2` ended with 1",
                "`psql password=[secret]` ended with 1",
            ),
        ] {
            assert_eq!(sanitised(raw), shown);
        }
    }

    /// Mend C-2: a batch of hostile errors does not hold up the deciding thread. The limit is generous,
    /// because tests are not optimised and share their processors.
    #[test]
    fn a_batch_of_hostile_errors_is_sanitised_in_time() {
        let hostile = [
            "select ".repeat(RAW_ERROR_CHARS_MAX / 7),
            "password=\"".repeat(RAW_ERROR_CHARS_MAX / 10),
            "select a from ".repeat(RAW_ERROR_CHARS_MAX / 14),
            "token\\\\(".repeat(RAW_ERROR_CHARS_MAX / 8),
        ];
        assert_eq!(sanitised("warm up"), "warm up");
        let begin = Instant::now();
        for text in hostile.iter().cycle().take(500) {
            assert!(sanitised(text).chars().count() <= ERROR_CHARS_MAX);
        }
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(10), "it took {took:?}");
    }

    /// Ordinary words stay as they are.
    #[test]
    fn what_is_harmless_stays() {
        for text in [
            "The card was refused: 402 Payment Required.",
            "POST https://crm.example/v1/contacts answered 503.",
            "Please select one from the list and/or ask.",
            "run_0193aaaabbbb7ccc8dddeeeeeeeeeeee is final",
            "10 EUR/month, 24/11/2026, n/a",
            "There is no contact `c-17`.",
        ] {
            assert_eq!(sanitised(text), text);
        }
        assert_eq!(sanitised(""), "");
        assert_eq!(sanitised("stack backtrace:"), NOTHING_LEFT);
    }

    proptest! {
        /// Mend C-2: whatever is around it, a secret that is named is not shown.
        #[test]
        fn a_named_secret_is_never_shown(
            before in "([a-zA-Z0-9 /:=?@\n.-]|/etc/|SELECT a FROM b|at x\\(){0,60}",
            secret in "[a-z0-9]{12,30}",
            after in "[ -~\n]{0,60}",
        ) {
            let shown = sanitised(&format!("{before} password={secret} {after}"));
            prop_assert!(!shown.contains(&secret), "{shown}");
            prop_assert!(shown.chars().count() <= ERROR_CHARS_MAX);
        }

        /// Mend C-2: nor in any style of quoting, nor where the text was cut off within the secret.
        #[test]
        fn a_quoted_secret_is_never_shown(
            before in "([a-zA-Z0-9 /:?@\n.-]|/etc/){0,30}",
            name in "(api_key|password|X-Auth-Token|client_secret|private-key)",
            quotes in 0..QUOTES.len(),
            secret in "[a-z0-9]{12,30}",
            inner in "[ ,;&}\\])]?",
            cut in 0..40_usize,
        ) {
            let (open, close) = QUOTES[quotes];
            // What separates two words ends a secret that is not quoted.
            let inner = if open.is_empty() { "" } else { &inner };
            let value = format!("{secret}{inner}{secret}");
            let name_quote = if open.contains("\\\"") { "\\\"" } else { "\"" };
            let text = format!("{before} {name_quote}{name}{name_quote}: {open}{value}{close}");
            let shown = sanitised(&text[..text.len() - cut.min(value.len() + close.len())]);
            prop_assert!(!shown.contains(&secret), "{text} -> {shown}");
        }

        #[test]
        fn any_text_is_taken(raw in any::<String>()) {
            prop_assert!(sanitised(&raw).chars().count() <= ERROR_CHARS_MAX);
        }
    }
}
