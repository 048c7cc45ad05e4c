//! One signed POST, and what its answer means.

use holdpoint_auth::WebhookSecret;
use holdpoint_egress::refusal;
use reqwest::StatusCode;
use reqwest::header::CONTENT_TYPE;
use url::Url;

use super::{Pool, later, never};
use crate::domain::Report;

/// What is posted.
pub(super) struct Letter<'l> {
    /// For sentences: `callback`, `webhook`.
    pub(super) what: &'static str,
    /// The same for every try.
    pub(super) id: String,
    pub(super) address: &'l str,
    pub(super) secret: &'l WebhookSecret,
    pub(super) body: String,
}

impl Pool {
    /// Redirects are not followed, and nothing of the answer is read but its status.
    pub(super) async fn post(&self, letter: &Letter<'_>) -> Report {
        let what = letter.what;
        let Ok(url) = Url::parse(letter.address) else {
            return never(&format!("The {what} is no address."));
        };
        if let Err(refused) = self.outside.targets.check(&url) {
            return never(&format!("The {what} is not called: {refused}."));
        }
        let timestamp = self.clock.now().timestamp();
        let Ok(signature) = letter.secret.sign(&letter.id, timestamp, &letter.body) else {
            return never(&format!("The {what} could not be signed."));
        };
        let request = self
            .client
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", &letter.id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", signature)
            .body(letter.body.clone());
        match request.send().await {
            Ok(answer) => verdict(what, answer.status()),
            Err(error) => match refusal(&error) {
                Some(refused) => never(&format!("The {what} is not called: {refused}.")),
                None if error.is_timeout() => later(&format!("The {what} did not answer in time.")),
                None => later(&format!("The {what} could not be reached.")),
            },
        }
    }
}

fn verdict(what: &str, status: StatusCode) -> Report {
    let code = status.as_u16();
    if status.is_success() {
        return Report::Sent {
            receipt: format!("HTTP {code}"),
        };
    }
    let error = format!("The {what} answered {code}.");
    if status == StatusCode::GONE {
        never(&error)
    } else {
        later(&error)
    }
}
