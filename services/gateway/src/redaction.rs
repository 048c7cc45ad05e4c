//! Requests as one user may see them. Every route and page reads requests through this module.
//!
//! It hides the answers and the contact data from uninvolved users. It must not decide who may decide a request;
//! that is a rule of the handoff service.

pub(crate) mod runs;
#[cfg(test)]
pub(crate) mod testing;

use holdpoint_auth::{Claims, Right};
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{GetRequest, ListRequests, RequestView};
use holdpoint_contracts::run::Page;
use holdpoint_holds::{InvalidRecipient, Recipient};
use holdpoint_ids::HoldId;
use serde_json::Value;

use crate::app::App;
use crate::auth::caller::Caller;
use crate::auth::token_scope::grants;
use crate::use_cases::plan_warnings::with_plan_warnings;

/// Fields of a context that every user with the right to look sees.
const CONTEXT_SHOWN: [&str; 2] = ["recommended_action", "actions"];

impl App {
    /// A request as the caller may see it, with the warnings of its plan.
    pub(crate) async fn request(
        &self,
        caller: &Caller,
        id: HoldId,
    ) -> Result<RequestView, Problem> {
        let found = self
            .bus
            .query(&caller.workspace, &GetRequest { id })
            .await?;
        let seen = redact_for(&caller.claims, found);
        Ok(with_plan_warnings(self, &caller.workspace, seen).await)
    }

    /// A page of requests as the caller may see them.
    pub(crate) async fn requests(
        &self,
        caller: &Caller,
        query: &ListRequests,
    ) -> Result<Page<RequestView>, Problem> {
        let Page { items, next_cursor } = self.bus.query(&caller.workspace, query).await?;
        let seen = items.into_iter().map(|one| redact_for(&caller.claims, one));
        Ok(Page {
            items: seen.collect(),
            next_cursor,
        })
    }
}

/// The whole request for its parties. Other users see the question, without answers, notes and contact data.
pub(crate) fn redact_for(claims: &Claims, request: RequestView) -> RequestView {
    let request = with_snooze_of(claims, request);
    if is_party(claims, &request) {
        request
    } else {
        redact(request)
    }
}

/// The request with the snooze of one user, as a snooze hides it from that user only.
pub(crate) fn with_snooze_of(claims: &Claims, request: RequestView) -> RequestView {
    let mut own = request.snoozed_by.iter();
    let own = own.find(|one| one.by == claims.user.as_str());
    RequestView {
        snoozed_until: own.map(|one| one.until),
        ..request
    }
}

/// Whether a user sees the whole request: an operator, the assignee, a requester, or a user who may decide it.
fn is_party(claims: &Claims, request: &RequestView) -> bool {
    let name = claims.user.as_str();
    let has_it = request.assignee.as_deref() == Some(name);
    if has_it || request.asked_by.iter().any(|by| by == name) {
        return true;
    }
    let mut asked = request.to.iter().chain(&request.also);
    grants(&claims.roles, Right::Operate)
        || grants(&claims.roles, Right::Decide) && asked.any(|to| is_named(claims, to))
}

/// Whether a recipient is the user or one of its roles.
pub(crate) fn is_named(claims: &Claims, recipient: &str) -> bool {
    match recipient.parse() {
        Ok(Recipient::User(user)) => user == claims.user,
        Ok(Recipient::Role(role)) => claims.roles.contains(&role),
        Err(InvalidRecipient) => false,
    }
}

/// Removes answers, notes and contact data. Programs can put anything into a context, so only known fields stay.
fn redact(mut request: RequestView) -> RequestView {
    if let Some(fields) = request.context.as_object_mut() {
        fields.retain(|name, _| CONTEXT_SHOWN.contains(&name.as_str()));
    } else {
        request.context = Value::Null;
    }
    for entry in &mut request.history {
        entry.note = None;
    }
    RequestView {
        response: None,
        items: Vec::new(),
        late: Vec::new(),
        // The query of a URL often contains a secret (A-M2).
        callback: None,
        redacted: true,
        ..request
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use serde_json::json;

    use super::testing::request;
    use super::*;
    use crate::testing::claims;

    /// Issue 4, Deliver 4: parties see the whole request, and no other user.
    #[test]
    fn only_parties_see_the_whole_request() {
        for (user, roles, sees_all) in [
            ("eva", &["owner"][..], true),
            ("eva", &["admin"], true),
            ("eva", &["operator"], true),
            ("eva", &["member", "sales"], true),
            ("bob", &["member"], true),
            ("nina", &["viewer"], true),
            ("cleo", &["agent"], true),
            ("eva", &["member"], false),
            ("eva", &["viewer"], false),
            ("eva", &["agent"], false),
            // Named, and still may not decide.
            ("eva", &["viewer", "sales"], false),
            ("bob", &["agent"], false),
            ("eva", &["sales"], false),
        ] {
            let seen = redact_for(&claims(user, roles), request());
            assert_eq!(seen == request(), sees_all, "{user} {roles:?}");
            assert_eq!(seen.redacted, !sees_all, "{user} {roles:?}");
        }
    }

    /// Issue 4: a snooze applies to its user only.
    #[test]
    fn a_snooze_applies_to_its_user_only() {
        let mut snoozed = request();
        let until = DateTime::UNIX_EPOCH;
        snoozed.snoozed_until = Some(until);
        snoozed.snoozed_by = vec![holdpoint_contracts::handoff::Snooze {
            by: "nina".to_owned(),
            until,
        }];
        for (user, seen) in [("nina", Some(until)), ("eva", None)] {
            let shown = redact_for(&claims(user, &["owner"]), snoozed.clone());
            assert_eq!(shown.snoozed_until, seen, "{user}");
            assert_eq!(shown.snoozed_by.len(), 1, "the snoozers are shown");
        }
    }

    /// Issue 4, Deliver 4: answers, notes and contact data are removed; the question stays.
    #[test]
    fn answers_and_contact_data_are_removed() {
        let seen = redact_for(&claims("eva", &["viewer"]), request());
        let text = serde_json::to_string(&seen).unwrap();
        for hidden in ["zoe@zoe.example", "said yes", "12000", "s3cret"] {
            assert!(!text.contains(hidden), "{hidden} in {text}");
        }
        assert_eq!(
            seen.context,
            json!({ "recommended_action": "Call", "actions": [{ "step": "step-01" }] })
        );
        assert_eq!(seen.question, request().question);
        assert_eq!(
            (seen.outcome, seen.decided_by),
            (request().outcome, Some("nina".to_owned()))
        );
        let mut free = request();
        free.context = json!("zoe@zoe.example");
        assert_eq!(redact(free).context, Value::Null);
    }
}
