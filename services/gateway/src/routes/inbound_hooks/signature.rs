//! A message of an inbound hook. Its signature proves that the sender knows the secret and has sent it just now.

use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::HeaderMap;
use chrono::{DateTime, Utc};
use holdpoint_auth::{Role, WebhookSecret};
use holdpoint_contracts::{IdempotencyKey, Problem};
use holdpoint_ids::{HookName, Workspace};
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::auth::caller::{Caller, claims};
use crate::body;
use crate::problem::{ApiError, ApiResult};
use crate::store::hooks::{self, Hook};
use crate::store::tokens::Holder;

/// Largest difference between the clock of the sender and ours, in seconds (Standard Webhooks).
const TOLERANCE_S: i64 = 5 * 60;
/// Longest `webhook-id`.
const ID_MAX: usize = 255;
/// Most signatures of one message. A sender that rotates its secret sends one for each.
const SIGNATURES_MAX: usize = 10;

/// A message of a hook with a valid signature.
#[derive(Debug)]
pub(super) struct SignedMessage {
    /// The user who made the hook, with the rights of an agent: it asks and never decides.
    pub(super) caller: Caller,
    pub(super) hook: HookName,
    /// One message is handled once.
    pub(super) key: IdempotencyKey,
    /// JSON.
    pub(super) bytes: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
struct Headers<'h> {
    id: &'h str,
    timestamp: i64,
    signatures: &'h str,
}

impl FromRequest<App> for SignedMessage {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let (mut parts, body) = request.into_parts();
        let Path((workspace, name)) = Path::<(String, String)>::from_request_parts(&mut parts, app)
            .await
            .map_err(|error| Problem::not_found(format!("the path cannot be read: {error}")))?;
        let known = find_hook(app, &workspace, &name).await?;
        let bytes = body::arrived(body).await?;
        let headers = read_headers(&parts.headers)?;
        // An invalid signature gets the same answer for an unknown hook, so that names cannot be guessed (A-L4).
        let Some((workspace, hook)) = known else {
            check_signature(&headers, &WebhookSecret::fresh(), &bytes, app.clock.now())?;
            return Err(ApiError(no_valid_signature()));
        };
        check_signature(&headers, &hook.secret, &bytes, app.clock.now())?;
        let key = IdempotencyKey {
            key: body::scoped(&[workspace.as_str(), "hook", hook.name.as_str(), headers.id]),
            digest: format!("{:x}", Sha256::digest(&bytes)),
        };
        let name = hook.name.clone();
        let caller = find_maker(app, workspace, hook).await?;
        Ok(Self {
            caller,
            hook: name,
            key,
            bytes,
        })
    }
}

/// The workspace and the hook, if they exist.
async fn find_hook(app: &App, workspace: &str, name: &str) -> ApiResult<Option<(Workspace, Hook)>> {
    let (Ok(workspace), Ok(name)) = (workspace.parse::<Workspace>(), name.parse::<HookName>())
    else {
        return Ok(None);
    };
    let hook = hooks::find(&app.readers, &workspace, &name).await?;
    Ok(hook.map(|hook| (workspace, hook)))
}

async fn find_maker(app: &App, workspace: Workspace, hook: Hook) -> Result<Caller, ApiError> {
    let holder = Holder {
        workspace,
        user: hook.made_by,
        role: Some(Role::Agent),
    };
    claims(app, holder).await?.ok_or_else(|| {
        let name = hook.name;
        let detail = format!(
            "the user who made the hook `{name}` is disabled; remove the hook and create it again"
        );
        ApiError(Problem::new(403, "forbidden", detail))
    })
}

fn read_headers(headers: &HeaderMap) -> Result<Headers<'_>, Problem> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let id = text("webhook-id")
        .filter(|id| (1..=ID_MAX).contains(&id.len()) && id.chars().all(|c| c.is_ascii_graphic()));
    let timestamp = text("webhook-timestamp").and_then(|text| text.parse().ok());
    match (id, timestamp, text("webhook-signature")) {
        (Some(id), Some(timestamp), Some(signatures)) => Ok(Headers {
            id,
            timestamp,
            signatures,
        }),
        _ => Err(invalid_signature(
            "missing or invalid headers; expected `webhook-id`, `webhook-timestamp` (seconds since 1970) and \
             `webhook-signature` of Standard Webhooks",
        )),
    }
}

fn invalid_signature(detail: &str) -> Problem {
    Problem::new(401, "invalid_signature", detail)
}

fn no_valid_signature() -> Problem {
    invalid_signature(
        "no valid `v1` signature; sign id, timestamp and the body as it is sent with the secret of this hook",
    )
}

fn check_signature(
    headers: &Headers<'_>,
    secret: &WebhookSecret,
    body: &[u8],
    now: DateTime<Utc>,
) -> Result<(), Problem> {
    let body = std::str::from_utf8(body)
        .map_err(|error| Problem::new(400, "invalid_text", format!("not UTF-8: {error}")))?;
    let good = secret
        .sign(headers.id, headers.timestamp, body)
        .map_err(|error| invalid_signature(&error.to_string()))?;
    // Digests are compared, so that the duration reveals nothing about the signature.
    let good = Sha256::digest(good.as_bytes());
    let mut signatures = headers.signatures.split(' ').take(SIGNATURES_MAX);
    if !signatures.any(|one| Sha256::digest(one.as_bytes()) == good) {
        return Err(no_valid_signature());
    }
    let apart = now.timestamp().abs_diff(headers.timestamp);
    if apart > TOLERANCE_S.unsigned_abs() {
        return Err(Problem::new(
            401,
            "stale_timestamp",
            format!(
                "`webhook-timestamp` is {apart} seconds from now; expected at most {TOLERANCE_S}"
            ),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const BODY: &[u8] = br#"{"test": 2432232314}"#;

    /// The example that Standard Webhooks publishes with its libraries.
    fn example() -> Headers<'static> {
        Headers {
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
            timestamp: 1_614_265_330,
            signatures: "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc= v2,x \
                 v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        }
    }

    /// The code of the refusal, some seconds after the signature; empty for a valid message.
    fn refusal(headers: &Headers<'_>, body: &[u8], seconds: i64) -> String {
        let secret = WebhookSecret::read(SECRET).unwrap();
        let now = DateTime::from_timestamp(1_614_265_330 + seconds, 0).unwrap();
        let checked = check_signature(headers, &secret, body, now);
        checked.map_or_else(|problem| problem.code, |()| String::new())
    }

    #[test]
    fn a_good_signature_counts_for_five_minutes_and_for_its_words_alone() {
        for seconds in [0, 300, -300] {
            assert_eq!(refusal(&example(), BODY, seconds), "");
        }
        for seconds in [301, -301] {
            let code = refusal(&example(), BODY, seconds);
            assert_eq!(code, "stale_timestamp");
        }
        let wrong = |headers: Headers<'_>, body: &[u8]| refusal(&headers, body, 0);
        assert_eq!(wrong(example(), b"{}"), "invalid_signature");
        for headers in [
            Headers {
                id: "other",
                ..example()
            },
            Headers {
                timestamp: 1_614_265_331,
                ..example()
            },
            Headers {
                signatures: "",
                ..example()
            },
        ] {
            assert_eq!(wrong(headers, BODY), "invalid_signature");
        }
    }

    #[test]
    fn all_three_headers_are_needed() {
        let three = [
            ("webhook-id", "msg_1"),
            ("webhook-timestamp", "1614265330"),
            ("webhook-signature", "v1,x"),
        ];
        let map = |pairs: &[(&'static str, &str)]| -> HeaderMap {
            let pairs = pairs.iter().map(|(name, value)| {
                let name = axum::http::HeaderName::from_static(name);
                (name, value.parse().unwrap())
            });
            pairs.collect()
        };
        assert_eq!(read_headers(&map(&three)).unwrap().timestamp, 1_614_265_330);
        for without in 0..3 {
            let mut two = three.to_vec();
            two.remove(without);
            assert_eq!(read_headers(&map(&two)).unwrap_err().status, 401);
        }
        let long = "x".repeat(ID_MAX + 1);
        let long = [("webhook-id", long.as_str()), three[1], three[2]];
        assert_eq!(
            read_headers(&map(&long)).unwrap_err().code,
            "invalid_signature"
        );
    }
}
