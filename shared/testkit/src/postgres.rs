//! A Postgres database for one test: on a given server, in a container, or none with the reason.

use std::{env, process, time::SystemTime};

use anyhow::{Context as _, bail};
use sea_orm::{ConnectOptions, ConnectionTrait as _, Database};
use testcontainers::{
    ContainerAsync, GenericImage, ImageExt as _,
    core::{IntoContainerPort as _, WaitFor, wait::LogWaitStrategy},
    runners::AsyncRunner as _,
};
use tokio::time::timeout;

use crate::{docker, skip};

const READY: &str = "database system is ready to accept connections";
/// Images that `cargo xtask images` makes: initialised already, so they say [`READY`] once.
const LOCAL: &str = "holdpoint-test/";
/// Settings of the server. A crash table runs some thirty processes on one server. No test cuts the power of the
/// machine, so no commit waits for the disk.
const SETTINGS: [&str; 6] = [
    "-c",
    "max_connections=400",
    "-c",
    "fsync=off",
    "-c",
    "full_page_writes=off",
];

/// An empty Postgres database. Its container ends at drop.
#[derive(Debug)]
pub struct TestPostgres {
    /// `postgres://user:password@host:port/database`.
    pub url: String,
    _container: Option<Box<ContainerAsync<GenericImage>>>,
}

/// An empty database on the server at `HOLDPOINT_TEST_POSTGRES_URL` (named `holdpoint_test_*`, not dropped), else in a
/// container of `HOLDPOINT_TEST_POSTGRES_IMAGE`. `None`: there is neither, and the reason is printed.
///
/// # Errors
/// When the named server refuses, or when `HOLDPOINT_TEST_REQUIRE_DOCKER=1` and there is neither.
pub async fn postgres() -> anyhow::Result<Option<TestPostgres>> {
    if let Ok(server) = env::var("HOLDPOINT_TEST_POSTGRES_URL") {
        let url = fresh_database(&server).await?;
        println!("postgres: the given server, {url}");
        return Ok(Some(TestPostgres {
            url,
            _container: None,
        }));
    }
    let (name, tag) = docker::image("HOLDPOINT_TEST_POSTGRES_IMAGE", "postgres:17");
    match container(&name, &tag).await {
        Ok(started) => {
            println!("postgres: container of {name}:{tag} at {}", started.url);
            Ok(Some(started))
        }
        Err(why) if docker::required() => {
            bail!("Docker is required here, but no container of {name}:{tag} came up: {why:#}")
        }
        Err(why) => {
            skip(&format!(
                "no Postgres: {why:#} (or give HOLDPOINT_TEST_POSTGRES_URL)"
            ))?;
            Ok(None)
        }
    }
}

/// The same with a database whose texts are ordered as words and not as bytes (ICU, `en-US`), as in most
/// managed servers.
///
/// # Errors
/// As [`postgres`], and when the server has no ICU.
pub async fn postgres_ordered_by_words() -> anyhow::Result<Option<TestPostgres>> {
    let Some(server) = postgres().await? else {
        return Ok(None);
    };
    let words = "TEMPLATE template0 ENCODING 'UTF8' LOCALE_PROVIDER icu ICU_LOCALE 'en-US'";
    let url = fresh_database_with(&server.url, words).await?;
    Ok(Some(TestPostgres { url, ..server }))
}

impl TestPostgres {
    /// One more empty database on its server; this value must live as long.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn another(&self) -> anyhow::Result<String> {
        fresh_database(&self.url).await
    }

    /// A copy of one of its databases, to which nothing may be connected.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn copy_of(&self, database: &str) -> anyhow::Result<String> {
        let (base, _) = database.split_once('?').unwrap_or((database, ""));
        let (_, name) = base.rsplit_once('/').context("no path")?;
        fresh_database_with(&self.url, &format!("TEMPLATE {name}")).await
    }
}

async fn container(name: &str, tag: &str) -> anyhow::Result<TestPostgres> {
    docker::ping().await?;
    // The official image also prints it in its first phase, before its restart.
    let times = if name.starts_with(LOCAL) { 1 } else { 2 };
    let ready = LogWaitStrategy::stderr(READY).with_times(times);
    let start = GenericImage::new(name, tag)
        .with_exposed_port(5432.tcp())
        .with_wait_for(WaitFor::Log(ready))
        .with_env_var("POSTGRES_PASSWORD", "postgres")
        .with_cmd(SETTINGS)
        .start();
    let container = timeout(docker::START_WAIT, start)
        .await
        .context("start of the container")??;
    let port = container.get_host_port_ipv4(5432).await?;
    let url = format!("postgres://postgres:postgres@127.0.0.1:{port}/postgres");
    Ok(TestPostgres {
        url,
        _container: Some(Box::new(container)),
    })
}

/// Tests share a given server, never a database.
async fn fresh_database(server: &str) -> anyhow::Result<String> {
    fresh_database_with(server, "").await
}

async fn fresh_database_with(server: &str, options: &str) -> anyhow::Result<String> {
    let (base, parameters) = server.split_once('?').unwrap_or((server, ""));
    let (root, _) = base
        .rsplit_once('/')
        .context("HOLDPOINT_TEST_POSTGRES_URL has no path")?;
    let name = format!("holdpoint_test_{}_{}", process::id(), nanos()?);
    // As in the pools of the services: the search for old connections may never end.
    let mut pool = ConnectOptions::new(server);
    pool.idle_timeout(None).max_lifetime(None);
    let connection = Database::connect(pool)
        .await
        .context("HOLDPOINT_TEST_POSTGRES_URL")?;
    connection
        .execute_unprepared(&format!("CREATE DATABASE {name} {options}"))
        .await?;
    connection.close().await?;
    let mark = if parameters.is_empty() { "" } else { "?" };
    Ok(format!("{root}/{name}{mark}{parameters}"))
}

#[expect(
    clippy::disallowed_methods,
    reason = "a name that no other test has, not a time"
)]
fn nanos() -> anyhow::Result<u128> {
    Ok(SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)?
        .as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_postgres_answers_or_the_reason_is_printed() {
        let Some(postgres) = postgres().await.unwrap() else {
            return;
        };
        let connection = Database::connect(&postgres.url).await.unwrap();
        connection
            .execute_unprepared("CREATE TABLE t (id int)")
            .await
            .unwrap();
        let fresh = fresh_database(&postgres.url).await.unwrap();
        let other = Database::connect(fresh).await.unwrap();
        other
            .execute_unprepared("CREATE TABLE t (id int)")
            .await
            .unwrap();
    }
}
