//! The gated calls of a run that people decide together: those of a step with `for_each`, and those that may be approved
//! before their steps are reached (S2-R4).

use std::collections::BTreeMap;

use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{Decision, RequestView};
use holdpoint_contracts::run::RunView;
use holdpoint_ids::{HoldId, RunId};
use maud::{Markup, html};
use serde::Serialize;
use serde_json::Value;

use super::super::approval_items;
use super::super::fragment::Fragment;
use super::super::sanitize::one_line;
use super::super::session::{Fields, SignedInUser, Viewer, invalid_form};
use crate::use_cases::decide_steps::{StepDecision, decide_steps};

/// Prefix of the check box of a call. Its value is the digest that the person sees.
const BOX: &str = "call:";

/// A call with its arguments.
#[derive(Serialize)]
struct ListedCall<'r> {
    step: &'r str,
    args: &'r Value,
    digest: &'r str,
    /// None: its step has not been reached.
    request: Option<HoldId>,
}

/// A list for each step with several open calls, and one of the early calls.
pub(super) fn render(user: &SignedInUser, run: &RunView, requests: &[RequestView]) -> Fragment {
    let mut lists = open_calls(user, requests);
    lists.retain(|_, calls| calls.len() > 1);
    for calls in lists.values_mut() {
        calls.sort_by_key(|call| call.request.map(|id| id.number));
    }
    let early = early_calls(user, run);
    Fragment::new("calls", &(&lists, &early), |key| {
        html! {
            section #calls data-key=(key) {
                @for (parent, calls) in &lists {
                    h2 { "Calls of " (one_line(parent, 100)) " that wait: " (calls.len()) }
                    (form(user, run.id, parent, calls))
                }
                @if !early.is_empty() {
                    h2 { "Calls that may be approved early" }
                    (form(user, run.id, "early", &early))
                }
            }
        }
    })
}

fn open_calls<'r>(
    user: &SignedInUser,
    requests: &'r [RequestView],
) -> BTreeMap<&'r str, Vec<ListedCall<'r>>> {
    let may_approve = |request: &&RequestView| {
        let is_offered = request.actions.iter().any(|action| action == "approve");
        request.status.is_open() && is_offered && user.may(Right::Decide)
    };
    let mut lists: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for request in requests.iter().filter(may_approve) {
        let item = request.items.first();
        if let Some((item, parent)) = item.and_then(|item| Some((item, item.parent.as_deref()?))) {
            lists.entry(parent).or_default().push(ListedCall {
                step: &item.id,
                args: &item.args,
                digest: &item.digest,
                request: Some(request.id),
            });
        }
    }
    lists
}

fn early_calls<'r>(user: &SignedInUser, run: &'r RunView) -> Vec<ListedCall<'r>> {
    let steps = run.steps.iter().filter(|_| user.may(Right::Decide));
    let calls = steps.filter_map(|step| {
        let call = step.early_call.as_ref()?;
        Some(ListedCall {
            step: &step.id,
            args: &call.args,
            digest: &call.digest,
            request: None,
        })
    });
    calls.collect()
}

fn form(user: &SignedInUser, run: RunId, name: &str, calls: &[ListedCall<'_>]) -> Markup {
    let is_early = calls.iter().all(|call| call.request.is_none());
    let inside = html! {
        ul.calls {
            @for call in calls {
                li {
                    label {
                        input type="checkbox" name={ (BOX) (call.step) } value=(call.digest);
                        " " code { (one_line(call.step, 100)) }
                    }
                    (approval_items::arguments(call.args, call.digest))
                    @if let Some(request) = call.request {
                        a href={ "/requests/" (request) } { "Show the request" }
                    }
                }
            }
        }
        label for={ "calls-" (name) } { (if is_early { "Comment" } else { "Comment, or the reason of a rejection" }) }
        input id={ "calls-" (name) } name="reason" maxlength="10000";
        div.row {
            button name="do" value="approve_calls" { "Approve the checked calls" }
            @if !is_early {
                button.danger name="do" value="reject_calls" { "Reject the checked calls" }
            }
        }
        @if is_early {
            p.hint { "People are asked as usual if a call has changed when its step is reached." }
        } @else {
            p.hint { "Calls that are not checked stay undecided." }
        }
    };
    user.form(&format!("/runs/{run}/act"), "", &[], &inside)
}

/// Decides the checked calls.
pub(in crate::pages) async fn decide(
    viewer: &Viewer,
    run: RunId,
    fields: &Fields,
) -> Result<(), Problem> {
    viewer.caller.may(Right::Decide)?;
    let decisions = checked_calls(fields)?;
    let Viewer { app, user } = viewer;
    let count = decisions.len();
    let results = decide_steps(app, &user.caller, None, run, decisions).await?;
    let refused = results
        .into_iter()
        .filter_map(|(step, result)| Some((step, result.err()?)));
    let refused: Vec<_> = refused.collect();
    match refused.first() {
        None => Ok(()),
        Some((step, problem)) => {
            let detail = format!(
                "{} of {count} calls were not decided. {step}: {}",
                refused.len(),
                problem.detail
            );
            Err(Problem::new(problem.status, &problem.code, detail))
        }
    }
}

fn checked_calls(fields: &Fields) -> Result<Vec<StepDecision>, Problem> {
    let comment = fields.get_text("reason").map(str::to_owned);
    let is_rejection = fields.get("do") == Some("reject_calls");
    if is_rejection && comment.is_none() {
        return Err(invalid_form("Enter a reason for the rejection."));
    }
    let decision = |digest: &str| match &comment {
        Some(reason) if is_rejection => Decision::Reject {
            reason: reason.clone(),
        },
        Some(_) | None => Decision::Approve {
            comment: comment.clone(),
            edited_args: None,
            digest: Some(digest.to_owned()),
        },
    };
    let checked = fields.0.iter().filter_map(|(name, digest)| {
        Some(StepDecision {
            step: name.strip_prefix(BOX)?.to_owned(),
            decision: decision(digest),
            seen: BTreeMap::new(),
        })
    });
    let checked: Vec<_> = checked.collect();
    if checked.is_empty() {
        return Err(invalid_form("Check the calls that you want to decide."));
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(all: &[(&str, &str)]) -> Fields {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Fields(all.iter().map(own).collect())
    }

    /// Gate: only checked calls are decided, with the digest that the page has shown.
    #[test]
    fn only_checked_calls_are_decided() {
        let form = fields(&[
            ("do", "approve_calls"),
            ("call:pay-0", "8f43"),
            ("call:pay-2", "77aa"),
        ]);
        let decided = checked_calls(&form).unwrap();
        let ids: Vec<_> = decided.iter().map(|one| &*one.step).collect();
        assert_eq!(ids, ["pay-0", "pay-2"]);
        let expected = Decision::Approve {
            comment: None,
            edited_args: None,
            digest: Some("77aa".to_owned()),
        };
        assert_eq!(decided[1].decision, expected);
        let nothing = fields(&[("do", "approve_calls"), ("reason", "x")]);
        assert_eq!(checked_calls(&nothing).unwrap_err().code, "invalid_form");
        let without = fields(&[("do", "reject_calls"), ("call:pay-0", "8f43")]);
        assert_eq!(checked_calls(&without).unwrap_err().code, "invalid_form");
    }
}
