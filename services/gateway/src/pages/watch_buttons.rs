//! Buttons to follow and unfollow a request, a run or an agent.

use std::time::Duration;

use axum::response::Redirect;
use holdpoint_auth::Right;
use holdpoint_contracts::notification::{GetWatchStatus, Unwatch, WatchStatus, Watched};
use holdpoint_ids::RunId;
use maud::{Markup, html};

use super::fragment::Fragment;
use super::session::{
    Fields, PageError, PermittedForm, SignedInUser, Viewer, invalid_form, percent_encode,
};
use crate::auth::may::{InPerson, Look};
use crate::use_cases::watch::watch;

/// Time to wait for a watch status; without a reply the page has no button.
const STATUS_TIMEOUT: Duration = Duration::from_millis(500);

/// One row for each of these subjects whose status is known in time. `back` is the run whose page shows
/// the buttons.
pub(super) async fn watch_buttons(
    viewer: &Viewer,
    subjects: Vec<Watched>,
    back: Option<RunId>,
) -> Fragment {
    let mut found = Vec::new();
    // A narrowed token cannot follow for its user, so the page has no buttons.
    if viewer.may(Right::Look) && viewer.caller.is_whole() {
        for of in subjects {
            let person = viewer.caller.claims.user.clone();
            let query = GetWatchStatus { person, of };
            if let Some(status) = viewer.query_within(STATUS_TIMEOUT, &query).await {
                found.push((query.of, status));
            }
        }
    }
    Fragment::new("following", &found, |key| {
        html! {
            section.following #following data-key=(key) aria-label="Following" {
                @for (of, status) in &found { (button_row(viewer, of, *status, back)) }
            }
        }
    })
}

fn button_row(
    user: &SignedInUser,
    of: &Watched,
    status: WatchStatus,
    back: Option<RunId>,
) -> Markup {
    let (subject, events) = match of {
        Watched::Request(_) => ("this request".to_owned(), "its outcome"),
        Watched::Run(_) => ("this run".to_owned(), "its requests and its end"),
        Watched::Agent(name) => (
            format!("agent {name}"),
            "the requests and the ends of its runs",
        ),
    };
    let (action, verb) = if status.is_watched {
        ("unfollow", "Unfollow")
    } else {
        ("follow", "Follow")
    };
    let (of, back) = (of.to_string(), back.map(|run| run.to_string()));
    let mut hidden = vec![("of", of.as_str()), ("do", action)];
    hidden.extend(back.as_deref().map(|run| ("back", run)));
    let inside = html! {
        button { (verb) " " (subject) }
        span.hint { (followers(status)) " Followers are notified of " (events) "." }
    };
    user.form("/follow", "row", &hidden, &inside)
}

fn followers(status: WatchStatus) -> String {
    let others = status.watchers.saturating_sub(u64::from(status.is_watched));
    match (status.is_watched, others) {
        (true, 0) => "You are the only follower.".to_owned(),
        (true, 1) => "You and 1 other user follow.".to_owned(),
        (true, others) => format!("You and {others} other users follow."),
        (false, 0) => "No followers yet.".to_owned(),
        (false, 1) => "1 follower.".to_owned(),
        (false, others) => format!("{others} followers."),
    }
}

/// Follows or unfollows, and returns to the page of the form.
pub(super) async fn act(
    PermittedForm(viewer, fields, _): PermittedForm<InPerson<Look>>,
) -> Result<Redirect, PageError> {
    let of = fields.get("of").unwrap_or_default().parse::<Watched>();
    let of = of.map_err(|_invalid| {
        invalid_form("invalid `of`; expected the id of a request, a run or an agent")
    })?;
    let path = return_path(&fields, &of);
    match fields.get("do") {
        Some("follow") => drop(watch(&viewer.app, &viewer.caller, None, of).await?),
        Some("unfollow") => match viewer.ask(Unwatch { of }).await {
            Ok(_) => {}
            // Another tab has unfollowed already.
            Err(problem) if problem.status == 404 => {}
            Err(problem) => return Err(problem.into()),
        },
        Some(_) | None => {
            return Err(invalid_form("invalid `do`; expected follow or unfollow").into());
        }
    }
    Ok(Redirect::to(&path))
}

/// The page of the run that showed the form, or the page of the subject.
fn return_path(fields: &Fields, of: &Watched) -> String {
    if let Some(Ok(run)) = fields.get("back").map(str::parse::<RunId>) {
        return format!("/runs/{run}");
    }
    match of {
        Watched::Request(id) => format!("/requests/{id}"),
        Watched::Run(id) => format!("/runs/{id}"),
        Watched::Agent(name) => format!("/runs?agent={}", percent_encode(name.as_str())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_followers_is_shown() {
        let text = |is_watched, watchers| {
            followers(WatchStatus {
                is_watched,
                watchers,
            })
        };
        assert_eq!(text(false, 0), "No followers yet.");
        assert_eq!(text(false, 1), "1 follower.");
        assert_eq!(text(true, 1), "You are the only follower.");
        assert_eq!(text(true, 3), "You and 2 other users follow.");
    }

    #[test]
    fn a_form_returns_only_to_our_own_pages() {
        let run = "run_01920000000070008000000000000001";
        let agent: Watched = "agent_my.agent".parse().unwrap();
        let fields = |back: &str| Fields(vec![("back".to_owned(), back.to_owned())]);
        assert_eq!(return_path(&fields(run), &agent), format!("/runs/{run}"));
        let evil = fields("https://evil.example/");
        assert_eq!(return_path(&evil, &agent), "/runs?agent=my.agent");
        assert_eq!(
            return_path(&evil, &run.parse().unwrap()),
            format!("/runs/{run}")
        );
    }
}
