//! Whether there is a Docker engine, and whether it must be there.

use std::{env, time::Duration};

use anyhow::Context as _;
use testcontainers::core::client::docker_client_instance;
use tokio::time::timeout;

/// A live engine answers within milliseconds. One that starts many containers on a busy machine takes longer, so
/// that a test which requires it waits for [`START_WAIT`].
const PING_WAIT: Duration = Duration::from_secs(3);
/// Start of a container, a pull included.
pub(crate) const START_WAIT: Duration = Duration::from_secs(180);

/// CI sets it: a test that cannot use a container fails.
pub(crate) fn required() -> bool {
    env::var("HOLDPOINT_TEST_REQUIRE_DOCKER").is_ok_and(|value| value == "1")
}

pub(crate) async fn ping() -> anyhow::Result<()> {
    let docker = docker_client_instance().await.context("no Docker")?;
    let wait = if required() { START_WAIT } else { PING_WAIT };
    timeout(wait, docker.ping())
        .await
        .context("Docker does not answer")??;
    Ok(())
}

/// Name and tag of the image in `variable`.
pub(crate) fn image(variable: &str, default: &str) -> (String, String) {
    let image = env::var(variable).unwrap_or_else(|_| default.to_owned());
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name.to_owned(), tag.to_owned()),
        Some(_) | None => (image, "latest".to_owned()),
    }
}
