//! One signed POST, and the report that its response means.

use holdpoint_auth::WebhookSecret;
use holdpoint_egress::refusal;
use reqwest::StatusCode;
use reqwest::header::CONTENT_TYPE;
use url::Url;

use super::{Pool, later, never};
use crate::domain::AttemptReport;

pub(super) struct SignedRequest<'l> {
    /// `callback`, `webhook` or `chat`, for error messages.
    pub(super) what: &'static str,
    /// The same for every attempt.
    pub(super) id: String,
    pub(super) address: &'l str,
    pub(super) secret: &'l WebhookSecret,
    pub(super) body: String,
}

impl Pool {
    /// Sends it. Redirects are not followed, and only the status of the response is read.
    pub(super) async fn post(&self, request: &SignedRequest<'_>) -> AttemptReport {
        let what = request.what;
        let Ok(url) = Url::parse(request.address) else {
            return never(&format!("The {what} has an invalid address."));
        };
        if let Err(refused) = self.outside.targets.check(&url) {
            return never(&format!("The {what} is not called: {refused}."));
        }
        let timestamp = self.clock.now().timestamp();
        let Ok(signature) = request.secret.sign(&request.id, timestamp, &request.body) else {
            return never(&format!("The {what} could not be signed."));
        };
        let call = self
            .client
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", &request.id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", signature)
            .body(request.body.clone());
        match call.send().await {
            Ok(answer) => report_of(what, answer.status()),
            Err(error) => match refusal(&error) {
                Some(refused) => never(&format!("The {what} is not called: {refused}.")),
                None if error.is_timeout() => later(&format!("The {what} did not answer in time.")),
                None => later(&format!("The {what} could not be reached.")),
            },
        }
    }
}

fn report_of(what: &str, status: StatusCode) -> AttemptReport {
    let code = status.as_u16();
    if status.is_success() {
        return AttemptReport::Sent {
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
