//! Buttons to follow and unfollow a request, a run or an agent.

use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use holdpoint_auth::Right;
use holdpoint_contracts::notification::{GetWatchStatus, Unwatch, WatchStatus, Watched};
use holdpoint_ids::RunId;
use maud::{Markup, html};

use super::fragment::{Fragment, key_of};
use super::session::{Fields, PageError, PostedForm, SignedInUser, invalid_form, percent_encode};
use crate::app::App;
use crate::use_cases::watch::watch;

/// Time to wait for a watch status; without a reply the page has no button.
const STATUS_TIMEOUT: Duration = Duration::from_millis(500);

/// The subjects of a page that can be followed, and their followers.
pub(super) struct WatchButtons(Vec<(Watched, WatchStatus)>);

impl WatchButtons {
    /// Loads the status of these subjects and leaves out those without a timely reply.
    pub(super) async fn load(app: &App, user: &SignedInUser, subjects: Vec<Watched>) -> Self {
        let workspace = &user.caller.workspace;
        let mut found = Vec::new();
        // A narrowed token cannot follow for its user, so the page has no buttons.
        if user.may(Right::Look) && user.caller.is_whole() {
            for of in subjects {
                let query = GetWatchStatus {
                    person: user.caller.claims.user.clone(),
                    of: of.clone(),
                };
                let reply = app.bus.query(workspace, &query);
                if let Ok(Ok(status)) = tokio::time::timeout(STATUS_TIMEOUT, reply).await {
                    found.push((of, status));
                }
            }
        }
        Self(found)
    }

    pub(super) fn fragment(&self, user: &SignedInUser, back: Option<RunId>) -> Fragment {
        Fragment::new("following", &self.0, self.render(user, back))
    }

    /// One row per subject. `back` is the run whose page shows the buttons.
    pub(super) fn render(&self, user: &SignedInUser, back: Option<RunId>) -> Markup {
        html! {
            section.following #following data-key=(key_of(&self.0)) aria-label="Following" {
                @for (of, status) in &self.0 { (button_row(user, of, *status, back)) }
            }
        }
    }
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
pub(super) async fn act(State(app): State<App>, posted: PostedForm) -> Result<Response, PageError> {
    let PostedForm { user, fields } = posted;
    let caller = &user.caller;
    caller.may(Right::Look)?;
    caller.in_person()?;
    let of = fields.get("of").unwrap_or_default().parse::<Watched>();
    let of = of.map_err(|_invalid| {
        invalid_form("invalid `of`; expected the id of a request, a run or an agent")
    })?;
    let path = return_path(&fields, &of);
    match fields.get("do") {
        Some("follow") => drop(watch(&app, caller, None, of).await?),
        Some("unfollow") => match app.ask(caller, None, Unwatch { of }).await {
            Ok(_) => {}
            // Another tab has unfollowed already.
            Err(problem) if problem.status == 404 => {}
            Err(problem) => return Err(problem.into()),
        },
        Some(_) | None => {
            return Err(invalid_form("invalid `do`; expected follow or unfollow").into());
        }
    }
    Ok(Redirect::to(&path).into_response())
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
