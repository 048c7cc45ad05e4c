//! `/v1/clock`: reading the time, and advancing a test clock.

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use chrono::SecondsFormat;
use holdpoint_contracts::scheduler::{AdvanceClock, AdvancedClock};
use holdpoint_contracts::{IdempotencyKey, Problem};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::auth::may::{Administer, Installation};
use crate::body::{invalid_field, parse_duration_ms};
use crate::call::{Call, OptionalJson};
use crate::params::NoParams;
use crate::path::NoId;
use crate::problem::{ApiError, JsonResult};

const BY_MS_MAX: u64 = 400 * 24 * 3_600_000;
/// How long an advance waits, in real time, until the work that it triggered is finished.
const SETTLE_MS_DEFAULT: u64 = 10_000;
const SETTLE_MS_MAX: u64 = 60_000;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/v1/clock", get(now))
        .route("/v1/clock/advance", post(advance))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AdvanceBody {
    by: String,
    settle_ms: Option<u64>,
}

/// Always with milliseconds.
async fn now(State(app): State<App>, _: NoParams) -> Json<Value> {
    let now = app.clock.now().to_rfc3339_opts(SecondsFormat::Millis, true);
    Json(json!({ "now": now }))
}

/// Owner and admin of the first workspace only, because all workspaces share the time. Concurrent advances run one
/// after the other.
async fn advance(
    call: Call<Installation<Administer>, NoId, OptionalJson<AdvanceBody>>,
) -> JsonResult<AdvancedClock> {
    let (app, key) = (call.caller.app, call.key);
    if !app.clock.is_test() {
        let detail = "the clock cannot be advanced; start with `--test-clock`";
        return Err(ApiError(Problem::not_found(detail)));
    }
    let advance = read_advance(&call.body)?;
    // In a separate task, so that a caller whose connection breaks finds the answer under its key.
    let tasks = app.tasks.clone();
    let moving = tasks.spawn(async move {
        let mut last = app.advances.lock().await;
        if let Some(known) = find_repeated(last.as_ref(), key.as_ref())? {
            return Ok(known);
        }
        let advanced = app.bus.advance_clock(&advance).await?;
        *last = key.map(|key| (key, advanced.clone()));
        Ok::<_, Problem>(advanced)
    });
    let advanced = moving.await.map_err(|error| {
        tracing::error!(%error, "advance of the clock failed; the request is answered with 500");
        Problem::internal()
    })?;
    Ok(Json(advanced?))
}

fn read_advance(body: &AdvanceBody) -> Result<AdvanceClock, Problem> {
    let by_ms = parse_duration_ms("/by", &body.by)?;
    if by_ms == 0 || by_ms > BY_MS_MAX {
        return Err(invalid_field(
            "/by",
            "must be more than 0 and at most 400 days",
        ));
    }
    let settle_ms = body.settle_ms.unwrap_or(SETTLE_MS_DEFAULT);
    if settle_ms > SETTLE_MS_MAX {
        return Err(invalid_field(
            "/settle_ms",
            &format!("must be at most {SETTLE_MS_MAX}"),
        ));
    }
    Ok(AdvanceClock { by_ms, settle_ms })
}

/// The answer to the last advance if this request repeats it.
fn find_repeated(
    last: Option<&(IdempotencyKey, AdvancedClock)>,
    key: Option<&IdempotencyKey>,
) -> Result<Option<AdvancedClock>, Problem> {
    match (last, key) {
        (Some((known, answer)), Some(key)) if known.key == key.key => {
            if known.digest == key.digest {
                return Ok(Some(answer.clone()));
            }
            let detail = "this Idempotency-Key was used for another advance; use a new key";
            Err(Problem::new(422, "idempotency_key_reused", detail))
        }
        (Some(_) | None, Some(_) | None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(text: &str) -> Result<AdvanceClock, Problem> {
        read_advance(&AdvanceBody {
            by: text.to_owned(),
            settle_ms: None,
        })
    }

    #[test]
    fn an_advance_is_more_than_nothing_and_at_most_400_days() {
        let five_days = AdvanceClock {
            by_ms: 432_000_000,
            settle_ms: 10_000,
        };
        assert_eq!(by("5d").unwrap(), five_days);
        assert!(by("400d").is_ok());
        for text in ["0s", "400d1ms", "5", "", "-1d"] {
            let problem = by(text).unwrap_err();
            assert_eq!(problem.errors[0].pointer.as_deref(), Some("/by"), "{text}");
        }
    }

    #[test]
    fn the_same_key_moves_time_once() {
        let key = |key: &str, digest: &str| IdempotencyKey {
            key: key.to_owned(),
            digest: digest.to_owned(),
        };
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let answer = AdvancedClock {
            now,
            settled: true,
            unsettled: Vec::new(),
        };
        let last = (key("a", "1"), answer.clone());
        let again = |asked: &IdempotencyKey| find_repeated(Some(&last), Some(asked));
        assert_eq!(again(&key("a", "1")).unwrap(), Some(answer));
        assert_eq!(again(&key("b", "1")).unwrap(), None);
        assert_eq!(
            again(&key("a", "2")).unwrap_err().code,
            "idempotency_key_reused"
        );
        assert_eq!(find_repeated(Some(&last), None).unwrap(), None);
    }
}
