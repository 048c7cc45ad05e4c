//! Whether somebody follows a request, a run or an agent, and the form that changes it.

use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::notification::{GetWatchStatus, Unwatch, WatchStatus, Watched};
use holdpoint_ids::RunId;
use maud::{Markup, html};

use super::live::{Fragment, key_of};
use super::session::{Fields, PageError, Posted, SignedInUser, encoded};
use crate::app::App;
use crate::routes::watches::follow;

/// How long a page waits to know who follows; without that it shows no button.
const ASKED_WITHIN: Duration = Duration::from_millis(500);

/// What can be followed on a page, and who does.
pub(super) struct Followed(Vec<(Watched, WatchStatus)>);

/// Looks who follows these; what is not known at once is left out.
pub(super) async fn find(app: &App, person: &SignedInUser, all: Vec<Watched>) -> Followed {
    let workspace = &person.caller.workspace;
    let mut found = Vec::new();
    // A narrowed token follows nothing for its user, so there is no button either.
    if person.may(Right::Look) && person.caller.is_whole() {
        for of in all {
            let query = GetWatchStatus {
                person: person.caller.claims.user.clone(),
                of: of.clone(),
            };
            let asked = app.bus.query(workspace, &query);
            if let Ok(Ok(watching)) = tokio::time::timeout(ASKED_WITHIN, asked).await {
                found.push((of, watching));
            }
        }
    }
    Followed(found)
}

impl Followed {
    /// As it is replaced by its id.
    pub(super) fn fragment(&self, person: &SignedInUser, back: Option<RunId>) -> Fragment {
        Fragment::of("following", &self.0, self.shown(person, back))
    }

    /// A row each; `back` is the run whose page it stands on.
    pub(super) fn shown(&self, person: &SignedInUser, back: Option<RunId>) -> Markup {
        html! {
            section.following #following data-key=(key_of(&self.0)) aria-label="Following" {
                @for (of, watching) in &self.0 { (row(person, (of, *watching), back)) }
            }
        }
    }
}

fn row(
    person: &SignedInUser,
    (of, watching): (&Watched, WatchStatus),
    back: Option<RunId>,
) -> Markup {
    let (what, told) = match of {
        Watched::Request(_) => ("this request".to_owned(), "what becomes of it"),
        Watched::Run(_) => ("this run".to_owned(), "what it asks, and how it ends"),
        Watched::Agent(name) => (
            format!("agent {name}"),
            "what its runs ask, and how they end",
        ),
    };
    let (desired_state, verb) = match watching.is_watched {
        true => ("unfollow", "Unfollow"),
        false => ("follow", "Follow"),
    };
    html! {
        form.row method="post" action="/follow" {
            input type="hidden" name="csrf" value=(person.csrf());
            input type="hidden" name="of" value=(of);
            @if let Some(run) = back { input type="hidden" name="back" value=(run); }
            input type="hidden" name="do" value=(desired_state);
            button { (verb) " " (what) }
            span.hint { (who(watching)) " Whoever follows is told " (told) "." }
        }
    }
}

/// `You and 2 others follow.`
fn who(watching: WatchStatus) -> String {
    let own = u64::from(watching.is_watched);
    let others = watching.watchers.saturating_sub(own);
    match (watching.is_watched, others) {
        (true, 0) => "You follow.".to_owned(),
        (true, 1) => "You and 1 other follow.".to_owned(),
        (true, others) => format!("You and {others} others follow."),
        (false, 0) => "Nobody follows yet.".to_owned(),
        (false, 1) => "1 person follows.".to_owned(),
        (false, others) => format!("{others} people follow."),
    }
}

/// Does what the form says, and goes back to where it stood.
pub(super) async fn act(State(app): State<App>, posted: Posted) -> Result<Response, PageError> {
    let Posted { person, fields } = posted;
    let caller = &person.caller;
    caller.may(Right::Look)?;
    caller.in_person()?;
    let wrong = |_no_id| Problem::new(422, "invalid_form", "`of` says what is followed");
    let of: Watched = fields
        .get("of")
        .unwrap_or_default()
        .parse()
        .map_err(wrong)?;
    let back = back(&fields, &of);
    match fields.get("do") {
        Some("follow") => drop(follow(&app, caller, None, of).await?),
        Some("unfollow") => match app.ask(caller, None, Unwatch { of }).await {
            Ok(_) => {}
            // Another tab was faster.
            Err(problem) if problem.status == 404 => {}
            Err(problem) => return Err(problem.into()),
        },
        Some(_) | None => {
            let detail = "`do` is follow or unfollow";
            return Err(Problem::new(422, "invalid_form", detail).into());
        }
    }
    Ok(Redirect::to(&back).into_response())
}

/// The page of the run that the form stood on, or of what it is about.
fn back(fields: &Fields, of: &Watched) -> String {
    if let Some(Ok(run)) = fields.get("back").map(str::parse::<RunId>) {
        return format!("/runs/{run}");
    }
    match of {
        Watched::Request(id) => format!("/requests/{id}"),
        Watched::Run(id) => format!("/runs/{id}"),
        Watched::Agent(name) => format!("/runs?agent={}", encoded(name.as_str())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_who_follows() {
        let said = |is_watched, watchers| {
            who(WatchStatus {
                is_watched,
                watchers,
            })
        };
        assert_eq!(said(false, 0), "Nobody follows yet.");
        assert_eq!(said(false, 1), "1 person follows.");
        assert_eq!(said(true, 1), "You follow.");
        assert_eq!(said(true, 3), "You and 2 others follow.");
    }

    /// Back to a page of ours, whatever the form says.
    #[test]
    fn a_form_leads_back_to_its_page() {
        let run = "run_01920000000070008000000000000001";
        let agent: Watched = "agent_my.agent".parse().unwrap();
        let fields = |back: &str| Fields(vec![("back".to_owned(), back.to_owned())]);
        assert_eq!(back(&fields(run), &agent), format!("/runs/{run}"));
        let evil = fields("https://evil.example/");
        assert_eq!(back(&evil, &agent), "/runs?agent=my.agent");
        assert_eq!(back(&evil, &run.parse().unwrap()), format!("/runs/{run}"));
    }
}
