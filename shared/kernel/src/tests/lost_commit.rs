//! A commit whose answer never arrives: a relay in front of Postgres takes the answer away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdpoint_bus::StreamUse;
use holdpoint_store::Location;
use holdpoint_testkit::until;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};

use super::{counts, key, replicas, start_on};

/// Shorter than the lease of an outbox row, after which another replica would publish it.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Whether the answer was taken away.
type Lost = Arc<AtomicBool>;

/// A way to a server that breaks once: after the first COMMIT that follows an outbox row, before its answer.
async fn relay(server: String) -> (u16, Lost) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let lost = Lost::default();
    let is_lost = Arc::clone(&lost);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(&server).await.unwrap();
            tokio::spawn(carry(client, server, Arc::clone(&is_lost)));
        }
    });
    (port, lost)
}

async fn carry(client: TcpStream, server: TcpStream, lost: Lost) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let answers = tokio::spawn(async move { copy(&mut from_server, &mut to_client).await });
    let mut has_outbox_row = false;
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
        let text = String::from_utf8_lossy(&buffer[..read]);
        has_outbox_row |= text.contains("INSERT INTO \"outbox\"");
        let ends_here = has_outbox_row && text.contains("COMMIT");
        if ends_here && !lost.swap(true, Ordering::AcqRel) {
            answers.abort();
            assert!(answers.await.is_err(), "the answers ended before");
            // The server commits, and the answer finds nobody.
            to_server.write_all(&buffer[..read]).await.unwrap();
            return;
        }
        to_server.write_all(&buffer[..read]).await.unwrap();
    }
}

/// Mend B-7: what was committed although the answer to the commit was lost is published at once, and once.
#[tokio::test]
async fn a_commit_without_confirmation_is_published_at_once() {
    let Some((world, postgres)) = replicas::world().await else {
        return;
    };
    let bus = &world.deps.bus;
    bus.provide_stream(StreamUse::Steps).await.unwrap();
    let mut url = url::Url::parse(&postgres.url).unwrap();
    let server = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
    let (port, lost) = relay(server).await;
    url.set_host(Some("127.0.0.1")).unwrap();
    url.set_port(Some(port)).unwrap();
    let mut deps = world.deps.clone();
    deps.store = Location::Postgres {
        url: url.into(),
        schema: "counter".into(),
    };
    let kernel = start_on(&deps).await;
    let added = world.add("a", 3, key("k", "three")).await.unwrap();
    assert_eq!(added.value, 3);
    assert!(lost.load(Ordering::Acquire), "the relay has not seen it");
    assert_eq!(world.counts().await, counts(&[("a", 3)]));
    let completed = async || {
        let published = bus.stored(StreamUse::Steps).await.unwrap();
        (published == 1 && world.number_of("outbox").await == 0).then_some(())
    };
    until(AT_ONCE, "one message and an empty outbox", completed)
        .await
        .unwrap();
    kernel.stop().await;
}
