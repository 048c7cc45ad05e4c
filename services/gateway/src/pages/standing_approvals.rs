//! `/standing-approvals`: the approvals of calls in advance, their uses, the form that creates one, and the buttons that
//! revoke them (S2-R4). Forms run the same signed commands as the API, and the handoff service checks the terms.

pub(super) mod entry;
pub(super) mod form;

use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{Router, get, post};
use holdpoint_auth::Right;
use holdpoint_contracts::handoff::{
    CreateStandingApproval, GetStandingApproval, ListStandingApprovals, RevokeStandingApproval,
    StandingApprovalView,
};
use holdpoint_contracts::run::Page;
use holdpoint_contracts::{FieldError, Problem};
use holdpoint_ids::StandingApprovalId;
use maud::{Markup, html};

use self::entry::{PATH, path_of};
use super::attempt::Banner;
use super::navigation::{self, Section};
use super::request_actions::STORED;
use super::session::{Fields, PageError, PermittedForm, Viewer, parse_id, percent_encode};
use crate::app::App;
use crate::auth::may::{Decide, InPerson};
use crate::command_outcome::CommandOutcome;
use crate::params::Params;
use crate::problem;

/// Entries of one page, newest first.
const ENTRIES_MAX: u64 = 50;

/// The notice for each `done` of a redirect.
const DONE: [(&str, &str); 3] = [
    ("created", "Standing approval created."),
    ("revoked", "Standing approval revoked."),
    ("stored", STORED),
];

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route(PATH, get(list_page).post(create))
        .route("/standing-approvals/new", get(form_page))
        .route("/standing-approvals/{id}", get(page))
        .route("/standing-approvals/{id}/revoke", post(revoke))
}

/// The notice after a redirect.
fn read_notice(params: &Params) -> Result<Option<Banner>, Problem> {
    let done: Option<String> = params.read_as("done")?;
    let done = done.and_then(|done| DONE.iter().find(|(name, _)| *name == done));
    Ok(done.map(|(_, text)| Banner::success(text)))
}

fn redirect_done(path: &str, done: &str) -> Response {
    Redirect::to(&format!("{path}?done={done}")).into_response()
}

async fn list_page(viewer: Viewer, params: Params) -> Result<Markup, PageError> {
    let params = params.only(&["cursor", "done"])?;
    let notice = read_notice(&params)?;
    viewer.caller.may(Right::Look)?;
    let query = ListStandingApprovals {
        limit: ENTRIES_MAX,
        agent: None,
        tool: None,
        lasting: false,
        cursor: params.read_as("cursor")?,
    };
    let found: Page<StandingApprovalView> = viewer.query(&query).await?;
    let main = html! {
        p.back { a href="/inbox" { "← Inbox" } }
        @if let Some(notice) = &notice { (notice.render()) }
        div.title {
            h1 { "Standing approvals" }
            @if viewer.may_approve_in_advance() {
                a.button.aside href="/standing-approvals/new" { "Create a standing approval" }
            }
        }
        p.muted.intro {
            "A standing approval approves calls of a tool by an agent in advance. Each use counts as an approval by the person who created it."
        }
        @if found.items.is_empty() {
            div.empty {
                h2 { "No standing approvals" }
                p { "People are asked about every gated call. To create a standing approval, open the request of such a call and choose " strong { "Approve such calls in advance" } "." }
            }
        } @else {
            ul.hooks #standing-approvals { @for one in &found.items { li { (entry::render(&viewer, one)) } } }
            @if let Some(cursor) = &found.next_cursor {
                p { a href={ (PATH) "?cursor=" (percent_encode(cursor)) } { "Older standing approvals" } }
            }
        }
    };
    Ok(navigation::page(&viewer, Section::Inbox, "Standing approvals", &main).await)
}

async fn page(Path(id): Path<String>, viewer: Viewer, params: Params) -> Result<Markup, PageError> {
    let notice = read_notice(&params.only(&["done"])?)?;
    let id = parse_id("standing approval", &id)?;
    Ok(render(&viewer, id, notice.as_ref()).await?)
}

/// The page of one standing approval, with a notice about the last action.
async fn render(
    viewer: &Viewer,
    id: StandingApprovalId,
    notice: Option<&Banner>,
) -> Result<Markup, Problem> {
    viewer.caller.may(Right::Look)?;
    let approval: StandingApprovalView = viewer.query(&GetStandingApproval { id }).await?;
    let main = html! {
        p.back { a href=(PATH) { "← Standing approvals" } }
        @if let Some(notice) = notice { (notice.render()) }
        div.title { h1 { "Standing approval of " (approval.tool) } }
        ul.hooks { li { (entry::render(viewer, &approval)) } }
        (entry::uses(viewer, &approval))
    };
    let title = format!("Standing approval of {}", approval.tool);
    Ok(navigation::page(viewer, Section::Inbox, &title, &main).await)
}

/// The form, with the call of the request `like` if there is one.
async fn form_page(viewer: Viewer, params: Params) -> Result<Markup, PageError> {
    let like: Option<String> = params.only(&["like"])?.read_as("like")?;
    viewer.caller.may(Right::Decide)?;
    viewer.caller.in_person()?;
    let Some(like) = like else {
        return Ok(render_form(&viewer, None, &Fields::default(), &[]).await);
    };
    let request = viewer.request(parse_id("request", &like)?).await?;
    let found = form::fields_like(&request);
    let notice = found.is_none().then(|| {
        let text = "This request is not about one call of an agent. Enter the terms yourself.";
        Banner::error(text, Vec::new())
    });
    let fields = found.unwrap_or_default();
    Ok(render_form(&viewer, notice.as_ref(), &fields, &[]).await)
}

async fn render_form(
    viewer: &Viewer,
    notice: Option<&Banner>,
    fields: &Fields,
    errors: &[FieldError],
) -> Markup {
    let main = html! {
        p.back { a href=(PATH) { "← Standing approvals" } }
        @if let Some(notice) = notice { (notice.render()) }
        (form::render(viewer, fields, errors))
    };
    navigation::page(viewer, Section::Inbox, "Create a standing approval", &main).await
}

/// Creates the standing approval of the form and shows it.
async fn create(
    PermittedForm(viewer, fields, _): PermittedForm<InPerson<Decide>>,
) -> Result<Response, PageError> {
    let problem = match send(&viewer, &fields).await {
        Ok(done) => return Ok(done),
        Err(problem) => problem,
    };
    let text = match problem.code.as_str() {
        _ if !problem.errors.is_empty() => "Nothing was created: some fields are invalid.",
        // The form was sent before, with other terms. It is shown with a new id.
        "already_exists" => {
            "This form has already created a standing approval. Submit it again to create another one."
        }
        _ => &problem.detail,
    };
    let notice = Banner::error(text, Vec::new());
    let page = render_form(&viewer, Some(&notice), &fields, &problem.errors).await;
    Ok((problem::status(&problem), page).into_response())
}

async fn send(viewer: &Viewer, fields: &Fields) -> Result<Response, Problem> {
    let terms = form::read(fields).map_err(|errors| {
        Problem::invalid_body("some fields of the form are invalid").with_errors(errors)
    })?;
    // The id is made with the form, so that a second submit creates nothing.
    let id = fields.get("id").and_then(|id| id.parse().ok());
    let id = id.unwrap_or_else(StandingApprovalId::fresh);
    let command = CreateStandingApproval { id, terms };
    Ok(match viewer.command(command).await? {
        CommandOutcome::Done(view) => redirect_done(&path_of(view.id), "created"),
        CommandOutcome::Accepted(_) => redirect_done(PATH, "stored"),
    })
}

/// Revokes a standing approval and shows it.
async fn revoke(
    Path(id): Path<String>,
    PermittedForm(viewer, _fields, _): PermittedForm<InPerson<Decide>>,
) -> Result<Response, PageError> {
    let id = parse_id("standing approval", &id)?;
    match viewer.command(RevokeStandingApproval { id }).await {
        Ok(CommandOutcome::Done(_)) => Ok(redirect_done(&path_of(id), "revoked")),
        Ok(CommandOutcome::Accepted(_)) => Ok(redirect_done(PATH, "stored")),
        Err(problem) => {
            let notice = Banner::error(&problem.detail, Vec::new());
            let page = render(&viewer, id, Some(&notice)).await?;
            Ok((problem::status(&problem), page).into_response())
        }
    }
}
