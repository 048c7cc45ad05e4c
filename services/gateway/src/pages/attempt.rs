//! The result of a form on a request: the notice above the card, and the input for another try.

use holdpoint_auth::Choice;
use holdpoint_contracts::executor::PlannedAgent;
use maud::{Markup, html};

use super::sanitize::{clean, one_line};
use super::schema::InvalidField;
use super::session::Fields;

/// A user's last action on a card. By default there was none.
#[derive(Debug, Default)]
pub(super) struct RequestAttempt {
    pub(super) notice: Option<Banner>,
    /// The submitted fields, kept for another try.
    pub(super) fields: Fields,
    pub(super) errors: Vec<InvalidField>,
    /// The answer that was chosen in an email; it is not decided until the user submits it.
    pub(super) chosen: Option<Choice>,
    /// The edited plan that the user has checked; it is not started until they approve it.
    pub(super) planned: Option<PlannedAgent>,
}

impl RequestAttempt {
    pub(super) fn with_notice(notice: Option<Banner>) -> Self {
        Self {
            notice,
            ..Self::default()
        }
    }
}

/// One sentence about an action, with details.
#[derive(Debug)]
pub(super) struct Banner {
    is_good: bool,
    text: String,
    details: Vec<String>,
}

impl Banner {
    pub(super) fn success(text: &str) -> Self {
        Self {
            is_good: true,
            ..Self::error(text, Vec::new())
        }
    }

    pub(super) fn error(text: &str, details: Vec<String>) -> Self {
        Self {
            is_good: false,
            text: text.to_owned(),
            details,
        }
    }

    pub(super) fn render(&self) -> Markup {
        html! {
            div class=(if self.is_good { "notice good" } else { "notice bad" }) role="alert" {
                p { (clean(&self.text)) }
                @if !self.details.is_empty() {
                    ul { @for detail in &self.details { li { (one_line(detail, 400)) } } }
                }
            }
        }
    }
}
