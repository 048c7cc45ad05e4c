//! A mail provider that posts replies to an inbound hook.

use chrono::{DateTime, Utc};
use holdpoint_auth::WebhookSecret;
use reqwest::Method;
use serde_json::{Value, json};

use crate::world::World;

/// A mail provider that posts replies.
pub(crate) struct Provider {
    url: String,
    secret: WebhookSecret,
    client: reqwest::Client,
}

impl Provider {
    pub(crate) async fn joins(world: &World, name: &str) -> Self {
        Self::joins_workspace(world, &world.up.workspace, &world.up.token, name).await
    }

    /// A hook of the workspace, made with a token of it.
    pub(crate) async fn joins_workspace(
        world: &World,
        workspace: &str,
        token: &str,
        name: &str,
    ) -> Self {
        let path = format!("/v1/workspaces/{workspace}/hooks/inbound");
        let body = json!({ "name": name });
        let made = world
            .up
            .call_with(token, Method::POST, &path, Some(&body))
            .await;
        let (status, made) = made.unwrap();
        assert_eq!(status, 201, "{made}");
        Self::of(&world.up.url, &made)
    }

    /// The hook that a gateway has made.
    pub(crate) fn of(url: &str, made: &Value) -> Self {
        let secret = made["secret"].as_str().unwrap();
        assert!(secret.starts_with("whsec_"));
        Self {
            url: format!("{url}{}", made["path"].as_str().unwrap()),
            secret: WebhookSecret::read(secret).unwrap(),
            client: reqwest::Client::new(),
        }
    }

    pub(crate) async fn posts(&self, id: &str, at: DateTime<Utc>, body: &Value) -> (u16, Value) {
        let body = body.to_string();
        let signature = self.secret.sign(id, at.timestamp(), &body).unwrap();
        self.sends(id, at, (body, signature)).await
    }

    pub(crate) async fn sends(
        &self,
        id: &str,
        at: DateTime<Utc>,
        what: (String, String),
    ) -> (u16, Value) {
        let (body, signature) = what;
        let request = self.client.post(&self.url).body(body);
        let request = request
            .header("webhook-id", id)
            .header("webhook-timestamp", at.timestamp())
            .header("webhook-signature", signature);
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }
}

/// Status and code of an error.
pub(crate) fn code((status, body): (u16, Value)) -> (u16, String) {
    (status, body["code"].as_str().unwrap_or_default().to_owned())
}
