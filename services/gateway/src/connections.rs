//! TCP connections: their number, and how long one may be silent.
//!
//! All connections share one router. `axum::serve` copies the whole router for each (0.38 MB, A-M13), and limits
//! neither the number of connections nor the time for a header.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::process::{Resource, getrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::permits::{Permit, Permits};

/// Most open connections, if the limit of open files allows them.
const CONNECTIONS_MAX: usize = 8_192;
/// The limit is never below this.
const CONNECTIONS_MIN: usize = 64;
/// One address gets at most this fraction of all connections. A proxy needs many, and others need the rest.
const ADDRESS_PART: usize = 2;
/// Connections get this fraction of the files that the process may open. Tables, bus and tools need the rest.
const FILES_PART: u64 = 2;
/// How long a client may take for the head of a request, and be idle between two requests.
const HEAD_MAX: Duration = Duration::from_secs(15);
/// Most unread bytes of a connection. The head of a request must fit in.
const BUFFER_MAX: usize = 32 * 1_024;
/// Pause after an accept that failed because files or memory are exhausted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The answer to a connection above the limit.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// The limit of open connections, in total and by address.
#[derive(Debug)]
pub(crate) struct Connections {
    most: usize,
    /// `None` counts all connections.
    permits: Permits<Option<IpAddr>>,
}

impl Connections {
    /// Limited by the open files of the process.
    pub(crate) fn of_process() -> Self {
        // Without a limit of files only `CONNECTIONS_MAX` applies.
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let half = usize::try_from(files / FILES_PART).unwrap_or(usize::MAX);
        Self::at_most(half.clamp(CONNECTIONS_MIN, CONNECTIONS_MAX))
    }

    fn at_most(most: usize) -> Self {
        let permits = Permits::default();
        Self { most, permits }
    }

    /// None if there are too many connections in total or from this address.
    fn take(&self, peer: IpAddr) -> Option<Permit<Option<IpAddr>>> {
        let of_address = (Some(network(peer)), self.most / ADDRESS_PART);
        self.permits.take([(None, self.most), of_address]).ok()
    }
}

/// The address for which a connection counts. A host with one IPv6 address has its whole /64.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// Accepts connections until `closing`, then lets requests finish.
pub(crate) async fn serve(listener: TcpListener, router: Router, closing: CancellationToken) {
    let connections = Connections::of_process();
    let tasks = TaskTracker::new();
    while let Some(accepted) = closing.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, peer)) => match connections.take(peer.ip()) {
                Some(permit) => {
                    tasks.spawn(serve_connection(
                        stream,
                        router.clone(),
                        closing.clone(),
                        permit,
                    ));
                }
                None => refuse(&stream, peer),
            },
            Err(error) => pause_after(&error).await,
        }
    }
    tasks.close();
    tasks.wait().await;
}

async fn serve_connection(
    stream: TcpStream,
    router: Router,
    closing: CancellationToken,
    permit: Permit<Option<IpAddr>>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY cannot be set; answers may be delayed");
    }
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .max_buf_size(BUFFER_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut serving = std::pin::pin!(serving);
    let served = tokio::select! {
        served = serving.as_mut() => served,
        () = closing.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "connection ended early");
    }
    drop(permit);
}

/// Answers 503, if the client reads it, and closes the connection.
fn refuse(stream: &TcpStream, peer: SocketAddr) {
    let is_answered = stream.try_write(FULL).is_ok();
    tracing::debug!(%peer, is_answered, "too many connections; this one is closed");
}

/// Pauses if files or memory are exhausted. A connection that broke off before its accept needs no pause.
async fn pause_after(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    ) {
        return;
    }
    tracing::warn!(%error, "no connection can be accepted; trying again");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mend A-H8: one address cannot take the places of all others.
    #[test]
    fn an_address_gets_half_of_all_connections() {
        let connections = Connections::at_most(4);
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let one = address("192.0.2.1");
        let mut places = vec![
            connections.take(one).unwrap(),
            connections.take(one).unwrap(),
        ];
        assert!(connections.take(one).is_none());
        // The same host, as a listener for both families sees it.
        assert!(connections.take(address("::ffff:192.0.2.1")).is_none());
        places.push(connections.take(address("2001:db8::1")).unwrap());
        places.push(connections.take(address("2001:db8::2")).unwrap());
        assert!(
            connections.take(address("192.0.2.9")).is_none(),
            "all are taken"
        );
        places.clear();
        for host in ["2001:db8::1", "2001:db8::2"] {
            places.push(connections.take(address(host)).unwrap());
        }
        assert!(
            connections.take(address("2001:db8::3")).is_none(),
            "one /64"
        );
        places.clear();
        assert!(connections.permits.are_unused());
    }
}
