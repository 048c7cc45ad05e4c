//! Scripted users, who answer after three hours, never, twice, late, with an invalid answer, or two at once. They use
//! only the API.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use reqwest::Method;
use serde_json::{Value, json};

use crate::up::{Answer, Up};

/// A user with a name, roles and a token.
#[derive(Debug, Clone)]
pub struct Person {
    /// `@user.<name>`.
    pub name: String,
    token: String,
}

/// One thing that a person does with a request.
#[derive(Debug, Clone)]
pub struct Act {
    /// Virtual time since the script began.
    pub after: Duration,
    pub who: Person,
    /// `respond`, `approve`, `take-over`, …: the last part of the path.
    pub verb: String,
    pub body: Value,
}

#[derive(Debug, Clone)]
pub struct Said {
    pub act: Act,
    pub status: u16,
    pub body: Value,
}

/// A call fails if there is no response. A refusal is a response.
impl Person {
    /// Makes a user with a mail address and a token of their own.
    ///
    /// # Errors
    /// When either is refused.
    pub async fn join(up: &Up, name: &str, roles: &[&str]) -> anyhow::Result<Self> {
        let user = json!({ "name": name, "email": format!("{name}@acme.example"), "roles": roles });
        let (status, body) = up.post("/users", &user).await?;
        ensure!(status == 201, "user {name}: {status} {body}");
        let (status, body) = up.post("/tokens", &json!({ "user": name })).await?;
        ensure!(status == 201, "token of {name}: {status} {body}");
        let token = body
            .get("token")
            .and_then(Value::as_str)
            .context("no token")?
            .to_owned();
        let name = name.to_owned();
        Ok(Self { name, token })
    }

    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// GET of `path` below the workspace, as this person.
    pub async fn get(&self, up: &Up, path: &str) -> anyhow::Result<Answer> {
        self.call(up, Method::GET, path, None).await
    }

    /// POST of `body`, as this person.
    pub async fn post(&self, up: &Up, path: &str, body: &Value) -> anyhow::Result<Answer> {
        self.call(up, Method::POST, path, Some(body)).await
    }

    /// PUT of `body`, as this person.
    pub async fn put(&self, up: &Up, path: &str, body: &Value) -> anyhow::Result<Answer> {
        self.call(up, Method::PUT, path, Some(body)).await
    }

    async fn call(
        &self,
        up: &Up,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Answer> {
        up.call_with(&self.token, method, &up.in_workspace(path), body)
            .await
    }

    #[must_use]
    pub fn does(&self, after: Duration, verb: &str, body: Value) -> Act {
        Act {
            after,
            who: self.clone(),
            verb: verb.to_owned(),
            body,
        }
    }
}

/// Plays a script on one request under the test clock: moves the clock to each act, and performs acts of the same
/// instant concurrently. Returns the responses in the order of the script.
///
/// # Errors
/// When the clock does not move or an act gets no response.
pub async fn play(up: &Up, request: &str, mut script: Vec<Act>) -> anyhow::Result<Vec<Said>> {
    script.sort_by_key(|act| act.after);
    let mut said = Vec::with_capacity(script.len());
    let mut now = Duration::ZERO;
    let mut rest = script.into_iter().peekable();
    while let Some(first) = rest.next() {
        let at = first.after;
        let mut together = vec![first];
        while let Some(next) = rest.next_if(|act| act.after == at) {
            together.push(next);
        }
        let by = at.saturating_sub(now);
        if !by.is_zero() {
            up.clock_advance(&format!("{}ms", by.as_millis())).await?;
            now += by;
        }
        let acts = together.into_iter().map(|act| perform(up, request, act));
        for result in futures_util::future::join_all(acts).await {
            said.push(result?);
        }
    }
    Ok(said)
}

async fn perform(up: &Up, request: &str, act: Act) -> anyhow::Result<Said> {
    let path = format!("/requests/{request}/{}", act.verb);
    let (status, body) = act.who.post(up, &path, &act.body).await?;
    Ok(Said { act, status, body })
}
