//! A server as a Docker container, for machines with Docker only. It uses the `docker` program, so that the user's
//! contexts and rootless installation apply. Docker writes the id to a file, by which a later process finds the
//! container.

use std::{env, fs, os::unix::fs::MetadataExt as _, time::Duration};

use tokio::{
    process::Command,
    time::{Instant, sleep},
};

use super::{
    binary::run, child::takes_our_key, config::Config, data_dir::DataDir, info::check,
    process::CHECK_EVERY, version::ServerVersion,
};

/// The path of the configuration in the container.
const CONFIG: &str = "/holdpoint-nats.conf";
const DEFAULT_IMAGE: &str = "nats:2.15";
/// Contains the data directory, for readers of `docker ps`.
const LABEL: &str = "holdpoint.data";
/// An image may have to be pulled.
const RUN_WAIT: Duration = Duration::from_secs(300);
const ASK_WAIT: Duration = Duration::from_secs(10);
/// Docker kills the container after 5 s.
const STOP_WAIT: Duration = Duration::from_secs(30);
const START_WAIT: Duration = Duration::from_secs(60);

/// Adopts a running container of this data directory.
pub(super) async fn adopt(data_dir: &DataDir) -> Option<(String, String, ServerVersion)> {
    let id = fs::read_to_string(data_dir.container_file())
        .ok()?
        .trim()
        .to_owned();
    let port = port_of(&id).await.ok()?;
    let config = data_dir.config().filter(|config| config.port == port)?;
    let version = check(&config.url()).await.ok()?;
    if takes_our_key(&config).await {
        return Some((id, config.url(), version));
    }
    tracing::warn!(id, "the NATS container has another key; ending it");
    stop(&id).await.ok();
    None
}

/// Starts one on this data directory's store and waits until it answers. The default image is that of
/// `HOLDPOINT_NATS_IMAGE`.
pub(super) async fn start(
    data_dir: &DataDir,
    config: &Config,
    image: Option<&str>,
) -> Result<(String, String, ServerVersion), String> {
    let image = image.map(str::to_owned);
    let image = image.or_else(|| env::var("HOLDPOINT_NATS_IMAGE").ok());
    let image = image.unwrap_or_else(|| DEFAULT_IMAGE.to_owned());
    let what = format!("docker image {image}");
    let store = data_dir.store();
    let owner = fs::metadata(&store).map_err(|error| format!("{what}: {error}"))?;
    // Docker does not overwrite the file of an earlier container.
    fs::remove_file(data_dir.container_file()).ok();
    let mut docker = Command::new("docker");
    docker
        .args(["run", "-d", "--rm", "-p"])
        .arg(format!("127.0.0.1:{}:4222", config.port))
        .arg("--user")
        .arg(format!("{}:{}", owner.uid(), owner.gid()))
        .arg("--cidfile")
        .arg(data_dir.container_file())
        .arg("--label")
        .arg(format!("{LABEL}={}", data_dir.root().display()))
        .arg("-v")
        .arg(format!("{}:/data", store.display()))
        .arg("-v")
        .arg(format!("{}:{CONFIG}:ro", data_dir.config_file().display()))
        .arg(&image)
        .args(["-c", CONFIG, "-p", "4222", "-js", "-sd", "/data"]);
    let id = run(&mut docker, RUN_WAIT)
        .await
        .map_err(|why| format!("{what}: {why}; start Docker, or set HOLDPOINT_NATS_IMAGE"))?
        .trim()
        .to_owned();
    match answer(config).await {
        Ok(version) => Ok((id, config.url(), version)),
        Err(why) => {
            let stopped = stop(&id).await.err().unwrap_or_default();
            Err(format!("{what}: {why} {stopped}"))
        }
    }
}

/// Stops a container; `--rm` removes it.
pub(super) async fn stop(id: &str) -> Result<(), String> {
    run(
        Command::new("docker").args(["stop", "-t", "5", id]),
        STOP_WAIT,
    )
    .await
    .map(drop)
}

async fn answer(config: &Config) -> Result<ServerVersion, String> {
    let until = Instant::now() + START_WAIT;
    loop {
        match check(&config.url()).await {
            Ok(version) => return Ok(version),
            Err(error) if Instant::now() > until => return Err(error.to_string()),
            Err(_not_yet) => sleep(CHECK_EVERY).await,
        }
    }
}

async fn port_of(id: &str) -> Result<u16, String> {
    let ports = run(
        Command::new("docker").args(["port", id, "4222/tcp"]),
        ASK_WAIT,
    )
    .await?;
    let port = ports.lines().next().and_then(|at| at.rsplit(':').next());
    let port = port.ok_or("the container has no port")?;
    port.trim()
        .parse()
        .map_err(|error| format!("`{port}`: {error}"))
}
