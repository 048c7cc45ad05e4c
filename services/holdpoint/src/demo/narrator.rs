//! Prints the scenes of the stories, moves the clock and waits for results.

use std::time::Duration;

use anyhow::{Context, ensure};
use holdpoint_contracts::handoff::Decided;
use holdpoint_ids::HoldId;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::client::Client;
use crate::connection::Connection;
use crate::output;

/// Pause before a scene, for the reader.
const SCENE_PAUSE: Duration = Duration::from_millis(900);
/// Longest real time for a result that needs no move of the clock.
const RESULT_WITHIN: Duration = Duration::from_secs(30);
const POLL_EVERY: Duration = Duration::from_millis(20);

pub(super) struct Narrator {
    pub(super) client: Client,
    /// Whether to omit the pauses.
    pub(super) fast: bool,
}

impl Narrator {
    pub(super) async fn announce(&self, text: &str) -> anyhow::Result<()> {
        if !self.fast {
            tokio::time::sleep(SCENE_PAUSE).await;
        }
        Ok(output::line(&format!("\n{text}"))?)
    }

    /// Moves the clock and waits until all work that this triggers is finished.
    pub(super) async fn advance(&self, by: &str) -> anyhow::Result<()> {
        self.announce(&format!("The clock moves forward by {by} …"))
            .await?;
        let advanced = self.client.advance_clock(by).await?.value;
        let unfinished = advanced.unsettled;
        ensure!(
            advanced.settled,
            "after the advance this work did not finish: {unfinished:?}"
        );
        Ok(())
    }
}

/// Polls until there is a result; fails with `missing` if there is none in time.
pub(super) async fn poll<T>(
    missing: &str,
    mut result: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + RESULT_WITHIN;
    loop {
        if let Some(result) = result().await? {
            return Ok(result);
        }
        ensure!(Instant::now() < deadline, "{missing}");
        tokio::time::sleep(POLL_EVERY).await;
    }
}

/// Adds a user and returns a client with a token of that user.
pub(super) async fn add_user(
    owner: &Client,
    connection: &Connection,
    name: &str,
    roles: &[&str],
) -> anyhow::Result<Client> {
    let user = json!({ "name": name, "email": format!("{name}@acme.example"), "roles": roles });
    owner.post::<Value>("users", &user).await?;
    let created: Value = owner.post("tokens", &json!({ "user": name })).await?.value;
    let token = created.get("token").and_then(Value::as_str);
    let connection = Connection {
        token: Some(token.context("the response has no token")?.to_owned()),
        ..connection.clone()
    };
    Ok(Client::new(connection)?)
}

/// Decides a request as a user; fails if the decision is not recorded.
pub(super) async fn decide(
    user: &Client,
    request: HoldId,
    verb: &str,
    body: &Value,
) -> anyhow::Result<()> {
    let path = format!("requests/{request}/{verb}");
    let decided: Decided = user.post(&path, body).await?.value;
    ensure!(decided.recorded, "{verb} of {request} was not recorded");
    Ok(())
}
