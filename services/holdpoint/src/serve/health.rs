//! Two tiny pages for whoever watches a process: `/livez` and `/readyz`.

use std::net::SocketAddr;

use anyhow::Context;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use holdpoint_bus::Bus;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Answers until `stop`; returns where. Ready means that the bus is there: the tables were when it
/// started, and a service that loses them says so to whoever asks it something.
pub(super) async fn start(
    address: SocketAddr,
    bus: Bus,
    stop: CancellationToken,
    tracker: &TaskTracker,
) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}: give another --health"))?;
    let address = listener.local_addr()?;
    let readyz = move || {
        let ready = bus.is_connected();
        async move {
            if ready {
                (StatusCode::OK, "ready\n")
            } else {
                (StatusCode::SERVICE_UNAVAILABLE, "the bus is away\n")
            }
        }
    };
    let router = Router::new()
        .route("/livez", get(async || "alive\n"))
        .route("/readyz", get(readyz));
    tracker.spawn(async move {
        let serving = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned());
        if let Err(error) = serving.await {
            tracing::error!(%error, "health is not answered any more");
        }
    });
    Ok(address)
}
