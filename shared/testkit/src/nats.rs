//! A NATS server for one test: a container, or else a process of this machine.

use anyhow::{Context as _, bail};
use holdpoint_bus::server::{self, Provided, Settings};
use testcontainers::{
    ContainerAsync, ContainerRequest, GenericImage, ImageExt as _,
    core::{IntoContainerPort as _, Mount, WaitFor},
    runners::AsyncRunner as _,
};
use tokio::time::timeout;

use crate::{NatsProcess, TestFolder, docker};

/// A NATS server with JetStream and an empty store. It ends at drop.
#[derive(Debug)]
pub struct TestNats {
    /// The address for clients, with the key of the server if it has one.
    pub url: String,
    _server: Server,
}

#[derive(Debug)]
#[expect(dead_code, reason = "held for their drop")]
enum Server {
    Container(Box<ContainerAsync<GenericImage>>),
    Process(Box<Provided>, TestFolder),
    Configured(Box<NatsProcess>),
}

/// Starts a NATS server: the image `HOLDPOINT_TEST_NATS_IMAGE` in a container, else a process.
/// Prints which and why.
///
/// # Errors
/// When neither comes up, or `HOLDPOINT_TEST_REQUIRE_DOCKER=1` and there is no container.
pub async fn nats() -> anyhow::Result<TestNats> {
    let (name, tag) = docker::image("HOLDPOINT_TEST_NATS_IMAGE", "nats:2.15");
    let why = match container(&name, &tag).await {
        Ok(started) => {
            println!("nats: container of {name}:{tag} at {}", started.url);
            return Ok(started);
        }
        Err(why) => why,
    };
    if docker::required() {
        bail!("Docker is required here, but no container of {name}:{tag} came up: {why:#}");
    }
    let started = process().await?;
    println!(
        "nats: local process at {}, because no container started: {why:#}",
        started.url
    );
    Ok(started)
}

/// Starts a NATS server with this configuration, which must listen on 0.0.0.0:4222 and store in `/data`. Without a
/// container it is a process, for which both are replaced.
///
/// # Errors
/// When the server refuses the configuration, or `HOLDPOINT_TEST_REQUIRE_DOCKER=1` and there is no
/// container.
pub async fn nats_with_config(config: &str) -> anyhow::Result<TestNats> {
    let (name, tag) = docker::image("HOLDPOINT_TEST_NATS_IMAGE", "nats:2.15");
    match docker::ping().await {
        Ok(()) => {}
        Err(why) if docker::required() => {
            return Err(why.context("Docker is required here"));
        }
        Err(why) => {
            println!("nats: local process, because no container started: {why:#}");
            let process = NatsProcess::with_config(config).await?;
            return Ok(TestNats {
                url: process.url.clone(),
                _server: Server::Configured(Box::new(process)),
            });
        }
    }
    let image = image(&name, &tag)
        .with_copy_to("/etc/nats.conf", config.as_bytes().to_vec())
        .with_cmd(["-c", "/etc/nats.conf"]);
    started(image).await
}

async fn container(name: &str, tag: &str) -> anyhow::Result<TestNats> {
    docker::ping().await?;
    let started = started(image(name, tag).with_cmd(["-js", "-sd", "/data"])).await?;
    server::check(&started.url).await?;
    Ok(started)
}

fn image(name: &str, tag: &str) -> ContainerRequest<GenericImage> {
    GenericImage::new(name, tag)
        .with_exposed_port(4222.tcp())
        .with_wait_for(WaitFor::message_on_stderr("Server is ready"))
        .with_mount(Mount::tmpfs_mount("/data"))
}

async fn started(image: ContainerRequest<GenericImage>) -> anyhow::Result<TestNats> {
    let container = timeout(docker::START_WAIT, image.start())
        .await
        .context("start of the container")??;
    let port = container.get_host_port_ipv4(4222).await?;
    // Not `localhost`, which may first be tried as ::1, where another server can listen.
    let url = format!("nats://127.0.0.1:{port}");
    Ok(TestNats {
        url,
        _server: Server::Container(Box::new(container)),
    })
}

async fn process() -> anyhow::Result<TestNats> {
    let folder = TestFolder::create()?;
    let settings = Settings {
        data_dir: folder.path().to_owned(),
        url: None,
    };
    let provided = server::provide(settings).await?;
    Ok(TestNats {
        url: provided.url.clone(),
        _server: Server::Process(Box::new(provided), folder),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn stores_a_message(url: &str) -> anyhow::Result<u64> {
        let bus = holdpoint_bus::Bus::connect(url, "test").await?;
        let jetstream = async_nats::jetstream::new(bus.client().clone());
        let name = "T".to_owned();
        let config = async_nats::jetstream::stream::Config {
            name,
            ..Default::default()
        };
        jetstream.create_stream(config).await?;
        Ok(jetstream.publish("T", "x".into()).await?.await?.sequence)
    }

    #[tokio::test]
    async fn a_nats_server_stores_messages() {
        let nats = nats().await.unwrap();
        assert_eq!(stores_a_message(&nats.url).await.unwrap(), 1);
    }

    /// Mend D-18: a machine whose Docker engine does not run has a server with permissions, too.
    #[tokio::test]
    async fn a_configuration_needs_no_container() {
        let config = "listen: \"0.0.0.0:4222\"\njetstream { store_dir: \"/data\" }\n\
            authorization { token: \"t\" }\n";
        let nats = NatsProcess::with_config(config).await.unwrap();
        assert!(stores_a_message(&nats.url).await.is_err());
        let url = nats.url.replace("//", "//t@");
        assert_eq!(stores_a_message(&url).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn a_local_process_stores_messages_and_ends_at_drop() {
        let nats = process().await.unwrap();
        assert_eq!(stores_a_message(&nats.url).await.unwrap(), 1);
        let url = nats.url.clone();
        drop(nats);
        let gone = async || server::check(&url).await.err();
        crate::until(
            std::time::Duration::from_secs(5),
            "the server to be gone",
            gone,
        )
        .await
        .unwrap();
    }
}
