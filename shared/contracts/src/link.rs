//! Links by which a secret is asked for: the person enters it at its owner's own page (a vault, a log-in,
//! a payment), and tells Holdpoint only that it is done. Nothing that is entered there passes through
//! here. The url mode of MCP elicitation is the same.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::{Host, Url};

use crate::problem::FieldError;

/// Longest address, in bytes.
pub const URL_BYTES_MAX: usize = 2 * 1024;

/// Longest label, in characters.
pub const LABEL_CHARS_MAX: usize = 100;

/// The answer of a user who has entered it.
pub const DONE: &str = "done";

/// The answer of a user who declines.
pub const DECLINED: &str = "declined";

/// The place where a user enters a secret, which does not pass through Holdpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// `https://…`, at most 2,048 bytes; `http://` for this machine only. Without a user or password.
    pub url: String,
    /// The text of the link: 1 to 100 characters; none: its host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

impl Link {
    /// The errors of the link, with pointers into it.
    #[must_use]
    pub fn errors(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let Some(error) = url_error(&self.url) {
            errors.push(FieldError::at("/url", error));
        }
        let is_bad = |label: &String| {
            let length = label.trim().chars().count();
            !(1..=LABEL_CHARS_MAX).contains(&length) || label.chars().any(is_unseen)
        };
        if self.label.as_ref().is_some_and(is_bad) {
            let message = format!(
                "1 to {LABEL_CHARS_MAX} characters, without control characters or line breaks"
            );
            errors.push(FieldError::at("/label", message));
        }
        errors
    }

    /// The address as browsers understand it; none for one that could not have been asked with.
    #[must_use]
    pub fn address(&self) -> Option<String> {
        let is_right = url_error(&self.url).is_none();
        let url = Url::parse(&self.url).ok().filter(|_| is_right)?;
        Some(url.to_string())
    }

    /// Where it leads, in letters that cannot be mistaken for others: `vault.example`, with the port
    /// where one is written.
    #[must_use]
    pub fn host(&self) -> Option<String> {
        let url = Url::parse(&self.url).ok()?;
        let host = url.host_str()?;
        Some(match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        })
    }

    /// The allowed answers.
    #[must_use]
    pub fn answers() -> Vec<String> {
        vec![DONE.to_owned(), DECLINED.to_owned()]
    }
}

/// The errors of a question with a link. Pointers are into the question.
#[must_use]
pub fn link_errors(
    link: Option<&Link>,
    options: &[String],
    schema: Option<&Value>,
    default: Option<&Value>,
) -> Vec<FieldError> {
    let Some(link) = link else {
        return Vec::new();
    };
    let errors = link.errors().into_iter();
    let mut errors: Vec<_> = errors.map(|error| error.under("/link")).collect();
    if !options.is_empty() || schema.is_some() {
        let message = "a question has a `link`, or `options`, or a `schema`: what is entered at a link is \
                       not asked for here, and the answer is `done` or `declined`";
        errors.push(FieldError::at("/link", message));
    }
    if default.is_some_and(|default| default != DECLINED) {
        let message = "without an answer nothing was entered: only `declined` can be the default \
                       of a question with a link";
        errors.push(FieldError::at("/default", message));
    }
    errors
}

/// The errors of an answer to a link. The answer is not repeated, because it may be the secret.
#[must_use]
pub fn answer_errors(answer: &Value) -> Vec<FieldError> {
    if answer == DONE || answer == DECLINED {
        return Vec::new();
    }
    let message =
        "answer `done` or `declined`: what is asked for is entered at the link, and never here";
    vec![FieldError {
        nearest: Link::answers(),
        ..FieldError::at("", message)
    }]
}

fn url_error(text: &str) -> Option<String> {
    if text.len() > URL_BYTES_MAX {
        return Some(format!("an address has at most {URL_BYTES_MAX} bytes"));
    }
    if text.chars().any(|c| is_unseen(c) || c.is_whitespace()) {
        return Some("an address has no control characters and no spaces".to_owned());
    }
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(error) => return Some(format!("no address ({error}): write `https://…`")),
    };
    let Some(host) = url.host() else {
        return Some("no address with a host: write `https://…`".to_owned());
    };
    if !url.username().is_empty() || url.password().is_some() {
        return Some("an address with a user or a password in it is refused".to_owned());
    }
    match url.scheme() {
        "https" => None,
        "http" if is_loopback(&host) => None,
        "http" => Some("`http` is for this machine only: write `https://…`".to_owned()),
        _ => Some("an address begins with `https://`".to_owned()),
    }
}

fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost" || name.ends_with(".localhost"),
        Host::Ipv4(address) => Ipv4Addr::is_loopback(address),
        Host::Ipv6(address) => Ipv6Addr::is_loopback(address),
    }
}

/// Control characters, and those that turn the direction of writing around.
fn is_unseen(c: char) -> bool {
    let turns =
        matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}');
    turns || c.is_control()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn link(url: &str) -> Link {
        Link {
            url: url.to_owned(),
            label: None,
        }
    }

    /// People, deliverable 3: secrets by link, and the link is one that a person may trust.
    #[test]
    fn links_with_a_misleading_address_are_refused() {
        for (url, host) in [
            ("https://vault.example/new?for=crm", "vault.example"),
            ("https://vault.example:8443/", "vault.example:8443"),
            ("http://localhost:8200/ui", "localhost:8200"),
            ("http://127.0.0.1/x", "127.0.0.1"),
            ("http://[::1]:9/x", "[::1]:9"),
            // Cyrillic letters are seen for what they are.
            ("https://v\u{430}ult.example/", "xn--vult-53d.example"),
        ] {
            assert_eq!(link(url).errors(), [], "{url}");
            assert_eq!(link(url).host().as_deref(), Some(host), "{url}");
            assert!(link(url).address().is_some(), "{url}");
        }
        let long = format!("https://vault.example/{}", "x".repeat(URL_BYTES_MAX));
        for url in [
            "http://vault.example/",
            "javascript:alert(1)",
            "data:text/html,x",
            "ftp://vault.example/",
            "vault.example",
            "/inbox",
            "",
            "https://",
            "https://ada:secret@vault.example/",
            "https://good.example@evil.example/",
            "https://vault.example/\r\nBcc: eve",
            "https://vault.example/\u{202e}gpj",
            "https://vault.example/a b",
            long.as_str(),
        ] {
            let errors = link(url).errors();
            assert_eq!(errors.len(), 1, "{url}");
            assert_eq!(errors[0].pointer.as_deref(), Some("/url"), "{url}");
            assert_eq!(link(url).address(), None, "{url}: nobody is led there");
        }
        for label in ["", "  ", "a\nb", "\u{202e}x", &"x".repeat(101)] {
            let link = Link {
                label: Some(label.to_owned()),
                ..link("https://vault.example/")
            };
            assert_eq!(
                link.errors()[0].pointer.as_deref(),
                Some("/label"),
                "{label}"
            );
        }
    }

    #[test]
    fn a_link_excludes_options_and_a_schema() {
        let vault = link("https://vault.example/");
        let schema = json!({"type": "object"});
        let at = |errors: &[FieldError]| errors[0].pointer.clone().unwrap_or_default();
        assert_eq!(link_errors(Some(&vault), &[], None, None), []);
        let declined = json!(DECLINED);
        assert_eq!(link_errors(Some(&vault), &[], None, Some(&declined)), []);
        for (options, schema, default, wanted) in [
            (vec!["yes".to_owned()], None, None, "/link"),
            (Vec::new(), Some(&schema), None, "/link"),
            (Vec::new(), None, Some(json!(DONE)), "/default"),
        ] {
            let found = link_errors(Some(&vault), &options, schema, default.as_ref());
            assert_eq!(at(&found), wanted);
        }
    }

    /// A secret that a user writes where it does not belong is not sent around.
    #[test]
    fn a_link_is_answered_by_done_or_declined() {
        assert_eq!(answer_errors(&json!(DONE)), []);
        assert_eq!(answer_errors(&json!(DECLINED)), []);
        for answer in [json!("hunter2"), json!({"done": "hunter2"}), json!(true)] {
            let json = serde_json::to_string(&answer_errors(&answer)).unwrap_or_default();
            assert!(json.contains("entered at the link"), "{json}");
            assert!(!json.contains("hunter2"), "{json}");
        }
    }
}
