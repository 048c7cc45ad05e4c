//! A server as a Docker container, for machines with Docker but without the rest. Drives the
//! `docker` program, so that contexts and rootless set-ups of the user hold here too. The id lies
//! in a file that docker itself writes, so that a later process finds the container again.

use std::{env, fs, os::unix::fs::MetadataExt as _, time::Duration};

use tokio::{
    process::Command,
    time::{Instant, sleep},
};

use super::{ServerVersion, binary::run, check, place::Place, process::LOOK_EVERY};

const DEFAULT_IMAGE: &str = "nats:2.15";
/// Carries the data directory, for people who look at `docker ps`.
const LABEL: &str = "holdpoint.data";
/// An image may have to be pulled.
const RUN_WAIT: Duration = Duration::from_secs(300);
const ASK_WAIT: Duration = Duration::from_secs(10);
/// Docker gives it 5 s of these before it kills.
const STOP_WAIT: Duration = Duration::from_secs(30);
const START_WAIT: Duration = Duration::from_secs(60);

/// Takes back a running container of this place.
pub(super) async fn adopt(place: &Place) -> Option<(String, String, ServerVersion)> {
    let id = fs::read_to_string(place.container_file())
        .ok()?
        .trim()
        .to_owned();
    let url = url_of(&id).await.ok()?;
    let version = check(&url).await.ok()?;
    Some((id, url, version))
}

/// Starts one on this place's store and waits until it answers.
pub(super) async fn start(place: &Place) -> Result<(String, String, ServerVersion), String> {
    let image = env::var("HOLDPOINT_NATS_IMAGE").unwrap_or_else(|_| DEFAULT_IMAGE.to_owned());
    let mend = format!("docker image {image}");
    let store = place.store();
    let owner = fs::metadata(&store).map_err(|error| format!("{mend}: {error}"))?;
    // A file of a container that is gone; docker does not overwrite it.
    fs::remove_file(place.container_file()).ok();
    let mut docker = Command::new("docker");
    docker
        .args(["run", "-d", "--rm", "-p", "127.0.0.1::4222", "--user"])
        .arg(format!("{}:{}", owner.uid(), owner.gid()))
        .arg("--cidfile")
        .arg(place.container_file())
        .arg("--label")
        .arg(format!("{LABEL}={}", place.root().display()))
        .arg("-v")
        .arg(format!("{}:/data", store.display()))
        .arg(&image)
        .args(["-js", "-sd", "/data"]);
    let id = run(&mut docker, RUN_WAIT)
        .await
        .map_err(|why| format!("{mend}: {why}; start Docker, or name HOLDPOINT_NATS_IMAGE"))?
        .trim()
        .to_owned();
    match answer(&id).await {
        Ok((url, version)) => Ok((id, url, version)),
        Err(why) => {
            let stopped = stop(&id).await.err().unwrap_or_default();
            Err(format!("{mend}: {why} {stopped}"))
        }
    }
}

/// Ends a container; `--rm` takes it away.
pub(super) async fn stop(id: &str) -> Result<(), String> {
    run(
        Command::new("docker").args(["stop", "-t", "5", id]),
        STOP_WAIT,
    )
    .await
    .map(drop)
}

async fn answer(id: &str) -> Result<(String, ServerVersion), String> {
    let until = Instant::now() + START_WAIT;
    loop {
        let last = match url_of(id).await {
            Ok(url) => match check(&url).await {
                Ok(version) => return Ok((url, version)),
                Err(error) => error.to_string(),
            },
            Err(why) => why,
        };
        if Instant::now() > until {
            return Err(last);
        }
        sleep(LOOK_EVERY).await;
    }
}

async fn url_of(id: &str) -> Result<String, String> {
    let ports = run(
        Command::new("docker").args(["port", id, "4222/tcp"]),
        ASK_WAIT,
    )
    .await?;
    let at = ports
        .lines()
        .next()
        .ok_or("the container has no port")?
        .trim();
    Ok(format!("nats://{at}"))
}
