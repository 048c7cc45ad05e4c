//! `/dead`: messages that a service could not handle. Owners and admins read, replay and drop those of their
//! workspace. An id contains the service: `executor-12`.

use std::collections::BTreeMap;

use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::future::join_all;
use holdpoint_contracts::Problem;
use holdpoint_contracts::dead_letter::{
    DeadLetter, DeadLetterRequest, DeadLetterSummary, SERVICES,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::app::App;
use crate::auth::may::{Administer, May};
use crate::body::Body;
use crate::call::Call;
use crate::idempotency;
use crate::params::PageParams;
use crate::problem::{ApiResult, JsonResult, excerpt};

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/dead", get(list))
        .route("/dead/{letter}", get(show).delete(remove))
        .route("/dead/{letter}/replay", post(replay))
}

/// A dead letter of one of the services.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LetterId {
    service: &'static str,
    id: i64,
}

impl std::str::FromStr for LetterId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || {
            let (services, text) = (SERVICES.join(", "), excerpt(text));
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
    /// Services that did not answer. Their letters are missing from the items.
    unavailable: Vec<&'static str>,
}

async fn list(caller: May<Administer>, page: PageParams) -> JsonResult<Letters> {
    let PageParams { limit, cursor } = page;
    let shown = read_cursor(cursor.as_deref())?;
    let asked = SERVICES.map(|service| {
        let request = DeadLetterRequest::List {
            before: shown.get(service).copied(),
            limit,
        };
        let (bus, workspace) = (&caller.app.bus, &caller.workspace);
        async move {
            let answer = bus.dead_letters(workspace, service, &request).await;
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
                tracing::warn!(service, %problem, "dead letters of a service cannot be listed; the page is incomplete");
                unavailable.push(service);
            }
        }
    }
    if unavailable.len() == SERVICES.len() {
        return Err(Problem::unavailable("no service answers; try again").into());
    }
    Ok(Json(merge_pages(found, shown, limit, unavailable)))
}

fn merge_pages(
    mut found: Vec<(&'static str, DeadLetterSummary)>,
    mut shown: BTreeMap<&'static str, i64>,
    limit: u64,
    unavailable: Vec<&'static str>,
) -> Letters {
    found.sort_by_key(|(service, letter)| {
        (std::cmp::Reverse((letter.created_at, letter.id)), *service)
    });
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    // Each service sends up to `limit` letters, so fewer in total are all.
    let is_full = found.len() >= limit;
    found.truncate(limit);
    // A service that did not answer keeps its position for the next page.
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

/// A letter as the API shows it, with the service in its id.
fn item(service: &'static str, letter: impl Serialize) -> Value {
    let mut item = json!(letter);
    if let Some(fields) = item.as_object_mut() {
        let id = fields.get("id").map(|id| format!("{service}-{id}"));
        fields.insert("id".to_owned(), json!(id));
        fields.insert("service".to_owned(), json!(service));
    }
    item
}

/// The last shown letter of each service: `executor-12,handoff-3`.
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
            let letter: LetterId = text.parse().map_err(|_unknown: String| {
                Problem::new(
                    400,
                    "invalid_cursor",
                    "invalid `cursor`; expected `next_cursor` of the page before",
                )
            })?;
            Ok((letter.service, letter.id))
        })
        .collect()
}

async fn show(call: Call<Administer, LetterId>) -> JsonResult<Value> {
    let (caller, letter) = (call.caller, call.id);
    let request = DeadLetterRequest::Show { id: letter.id };
    let found: DeadLetter = ask_service(&caller, &letter, request).await?;
    Ok(Json(item(letter.service, found)))
}

/// Answers with the reply that the sender of the message would have got. A repetition gets it with masked secrets.
async fn replay(call: Call<Administer, LetterId, Body>) -> JsonResult<Value> {
    let (caller, letter, key) = (call.caller, call.id, call.key.as_ref());
    if let Some(answer) = idempotency::find_answer(&caller.app, key).await? {
        return Ok(Json(answer));
    }
    let request = DeadLetterRequest::Replay { id: letter.id };
    let reply: Value = ask_service(&caller, &letter, request).await?;
    let id = format!("{}-{}", letter.service, letter.id);
    let answer = json!({ "id": id, "answer": reply });
    idempotency::keep_answer(&caller.app, &caller, key, answer.clone()).await;
    Ok(Json(answer))
}

async fn remove(call: Call<Administer, LetterId>) -> JsonResult<Value> {
    let (caller, letter) = (call.caller, call.id);
    let request = DeadLetterRequest::Drop { id: letter.id };
    let dropped: DeadLetterSummary = ask_service(&caller, &letter, request).await?;
    Ok(Json(item(letter.service, dropped)))
}

/// Asks the service that stores a letter. The log names the user, as a letter may contain secrets.
async fn ask_service<A: DeserializeOwned>(
    caller: &May<Administer>,
    letter: &LetterId,
    request: DeadLetterRequest,
) -> ApiResult<A> {
    let (user, workspace) = (&caller.claims.user, &caller.workspace);
    tracing::info!(%user, %workspace, service = letter.service, ?request, "access to a dead letter");
    let bus = &caller.app.bus;
    Ok(bus
        .dead_letters(workspace, letter.service, &request)
        .await?)
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
        let first = merge_pages(all(), BTreeMap::new(), 2, Vec::new());
        assert_eq!(ids(&first), ["executor-3", "handoff-9"]);
        let cursor = first.next_cursor.unwrap();
        let shown = read_cursor(Some(&cursor)).unwrap();
        let left = all()
            .into_iter()
            .filter(|(service, letter)| shown.get(service).is_none_or(|id| letter.id < *id));
        let second = merge_pages(left.collect(), shown, 2, vec!["scheduler"]);
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
            assert!(text.parse::<LetterId>().is_err(), "{text}");
            assert_eq!(read_cursor(Some(text)).unwrap_err().status, 400, "{text}");
        }
        let expected = LetterId {
            service: "handoff",
            id: 12,
        };
        assert_eq!("handoff-12".parse::<LetterId>().unwrap(), expected);
    }
}
