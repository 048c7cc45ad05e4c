//! `/dead`: messages that a service could not handle. Owner and admin see those of their workspace, and
//! replay or drop them. An id names the service, too: `executor-12`.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::future::join_all;
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::dead_letter::{
    DeadLetter, DeadLetterRequest, DeadLetterSummary, SERVICES,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::app::App;
use crate::body::Body;
use crate::caller::{Caller, PathId, quoted};
use crate::params::Params;
use crate::problem::ApiError;
use crate::repetition;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/dead", get(list))
        .route("/dead/{letter}", get(show).delete(remove))
        .route("/dead/{letter}/replay", post(replay))
}

/// A letter of one of the services.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Letter {
    service: &'static str,
    id: i64,
}

impl std::str::FromStr for Letter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || {
            let (services, text) = (SERVICES.join(", "), quoted(text));
            format!(
                "`{text}` is not the id of a dead letter; expected SERVICE-NUMBER with one of the services {services}"
            )
        };
        let (service, id) = text.rsplit_once('-').ok_or_else(unknown)?;
        let service = SERVICES.into_iter().find(|name| *name == service);
        Ok(Self {
            service: service.ok_or_else(unknown)?,
            id: id.parse().map_err(|_error| unknown())?,
        })
    }
}

/// A page over all services, newest first.
#[derive(Serialize)]
struct Letters {
    items: Vec<Value>,
    next_cursor: Option<String>,
    /// Services that did not answer: their letters are not among the items.
    unavailable: Vec<&'static str>,
}

async fn list(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Json<Letters>, ApiError> {
    caller.may(Right::Administer)?;
    let params = params.only(&["limit", "cursor"])?;
    let (limit, cursor) = (params.limit()?, params.read_as::<String>("cursor")?);
    let shown = read_cursor(cursor.as_deref())?;
    let asked = SERVICES.map(|service| {
        let request = DeadLetterRequest::List {
            before: shown.get(service).copied(),
            limit,
        };
        let (app, workspace) = (&app, &caller.workspace);
        async move {
            let answer = app.bus.dead_letters(workspace, service, &request).await;
            (service, answer)
        }
    });
    let mut found: Vec<(&'static str, DeadLetterSummary)> = Vec::new();
    let mut unavailable = Vec::new();
    for (service, answer) in join_all(asked).await {
        match answer {
            Ok(letters) => {
                let letters: Vec<DeadLetterSummary> = letters;
                found.extend(letters.into_iter().map(|letter| (service, letter)));
            }
            Err(problem) => {
                tracing::warn!(service, %problem, "dead letters cannot be listed");
                unavailable.push(service);
            }
        }
    }
    if unavailable.len() == SERVICES.len() {
        return Err(Problem::unavailable("no service answers; try again").into());
    }
    Ok(Json(page(found, shown, limit, unavailable)))
}

fn page(
    mut found: Vec<(&'static str, DeadLetterSummary)>,
    mut shown: BTreeMap<&'static str, i64>,
    limit: u64,
    unavailable: Vec<&'static str>,
) -> Letters {
    found.sort_by_key(|(service, letter)| {
        (std::cmp::Reverse((letter.created_at, letter.id)), *service)
    });
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    // Each service gives as many as are asked for: fewer in all are all there are.
    let is_full = found.len() >= limit;
    found.truncate(limit);
    // Of a service that did not answer nothing was shown, and the next page begins there.
    for (service, letter) in &found {
        shown.insert(service, letter.id);
    }
    Letters {
        items: found
            .iter()
            .map(|(service, letter)| item(service, letter))
            .collect(),
        next_cursor: is_full.then(|| write_cursor(&shown)),
        unavailable,
    }
}

/// A letter with its service, which its id names too.
#[derive(Serialize)]
struct Shown<L> {
    #[serde(flatten)]
    letter: L,
    service: &'static str,
}

/// The body of the API: `id` is that of the API.
fn item(service: &'static str, letter: impl Serialize) -> Value {
    let mut item = json!(Shown { letter, service });
    if let Some(id) = item.get_mut("id") {
        *id = json!(format!("{service}-{id}"));
    }
    item
}

/// The last letter that was shown of each service: `executor-12,handoff-3`.
fn write_cursor(shown: &BTreeMap<&'static str, i64>) -> String {
    let ids: Vec<_> = shown
        .iter()
        .map(|(service, id)| format!("{service}-{id}"))
        .collect();
    ids.join(",")
}

fn read_cursor(cursor: Option<&str>) -> Result<BTreeMap<&'static str, i64>, Problem> {
    let letters = cursor.into_iter().flat_map(|cursor| cursor.split(','));
    letters
        .map(|text| {
            let letter: Letter = text.parse().map_err(|_unknown: String| {
                Problem::new(
                    400,
                    "invalid_cursor",
                    "take `cursor` from `next_cursor` of the page before",
                )
            })?;
            Ok((letter.service, letter.id))
        })
        .collect()
}

async fn show(
    State(app): State<App>,
    caller: Caller,
    PathId(letter): PathId<Letter>,
    params: Params,
) -> Result<Json<Value>, ApiError> {
    params.only(&[])?;
    let request = DeadLetterRequest::Show { id: letter.id };
    let found: DeadLetter = ask(&app, &caller, &letter, request).await?;
    Ok(Json(item(letter.service, found)))
}

/// Answers what the message's sender would have been told.
async fn replay(
    State(app): State<App>,
    caller: Caller,
    PathId(letter): PathId<Letter>,
    params: Params,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    caller.may(Right::Administer)?;
    params.only(&[])?;
    let key = body.key.as_ref();
    if let Some(answer) = repetition::find_answer(&app, key).await? {
        return Ok(Json(answer));
    }
    let request = DeadLetterRequest::Replay { id: letter.id };
    let answer: Value = ask(&app, &caller, &letter, request).await?;
    let id = format!("{}-{}", letter.service, letter.id);
    let answer = json!({ "id": id, "answer": answer });
    repetition::keep_answer(&app, &caller, key, &answer).await;
    Ok(Json(answer))
}

async fn remove(
    State(app): State<App>,
    caller: Caller,
    PathId(letter): PathId<Letter>,
    params: Params,
) -> Result<Json<Value>, ApiError> {
    params.only(&[])?;
    let request = DeadLetterRequest::Drop { id: letter.id };
    let dropped: DeadLetterSummary = ask(&app, &caller, &letter, request).await?;
    Ok(Json(item(letter.service, dropped)))
}

/// Asks the service that keeps a letter. The log says who did, for a letter may hold secrets.
async fn ask<A: DeserializeOwned>(
    app: &App,
    caller: &Caller,
    letter: &Letter,
    request: DeadLetterRequest,
) -> Result<A, ApiError> {
    caller.may(Right::Administer)?;
    let (user, workspace) = (&caller.claims.user, &caller.workspace);
    tracing::info!(%user, %workspace, service = letter.service, ?request, "dead letters");
    let answer = app.bus.dead_letters(workspace, letter.service, &request);
    Ok(answer.await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(id: i64, second: i64) -> DeadLetterSummary {
        DeadLetterSummary {
            id,
            subject: "hp.acme.cmd.executor.3.start_run".to_owned(),
            reason: "the message cannot be read".to_owned(),
            created_at: chrono::DateTime::from_timestamp(second, 0).unwrap(),
            bytes: 2,
            ended_the_process: false,
        }
    }

    fn ids(page: &Letters) -> Vec<&str> {
        let ids = page.items.iter().map(|item| item["id"].as_str().unwrap());
        ids.collect()
    }

    /// Mend 6: pages over all services follow each other without a gap.
    #[test]
    fn pages_over_services_follow_each_other() {
        let all = || {
            vec![
                ("executor", letter(3, 30)),
                ("executor", letter(2, 10)),
                ("handoff", letter(9, 20)),
            ]
        };
        let first = page(all(), BTreeMap::new(), 2, Vec::new());
        assert_eq!(ids(&first), ["executor-3", "handoff-9"]);
        let cursor = first.next_cursor.unwrap();
        let shown = read_cursor(Some(&cursor)).unwrap();
        let left = all()
            .into_iter()
            .filter(|(service, letter)| shown.get(service).is_none_or(|id| letter.id < *id));
        let second = page(left.collect(), shown, 2, vec!["scheduler"]);
        assert_eq!(ids(&second), ["executor-2"]);
        assert_eq!(second.next_cursor, None);
        assert_eq!(second.unavailable, ["scheduler"]);
    }

    #[test]
    fn an_id_names_its_service() {
        for text in [
            "",
            "12",
            "gateway-12",
            "executor-",
            "executor-x",
            "executor",
        ] {
            assert!(text.parse::<Letter>().is_err(), "{text}");
            assert_eq!(read_cursor(Some(text)).unwrap_err().status, 400, "{text}");
        }
        let expected = Letter {
            service: "handoff",
            id: 12,
        };
        assert_eq!("handoff-12".parse::<Letter>().unwrap(), expected);
    }
}
