//! Two tiny pages for whoever watches a process: `/livez` and `/readyz`.

use std::net::SocketAddr;

use anyhow::Context;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use holdpoint_bus::Bus;
use holdpoint_kernel::KernelStatus;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What a process needs to be ready.
#[derive(Clone)]
pub(super) struct Watched {
    pub(super) bus: Bus,
    /// Of its kernel; none: it has none.
    pub(super) activity: Option<KernelStatus>,
}

impl Watched {
    fn not_ready(&self) -> Option<&'static str> {
        if !self.bus.is_connected() {
            return Some("the bus is away");
        }
        self.activity.as_ref().and_then(KernelStatus::not_ready)
    }

    /// What `/readyz` answers while it is ready: that, and what an operator should know.
    fn ready(&self) -> String {
        let warning = self.activity.as_ref().and_then(KernelStatus::warning);
        warning.map_or_else(
            || "ready\n".to_owned(),
            |warning| format!("ready\nwarning: {warning}\n"),
        )
    }
}

/// Answers until `stop`; returns where. Ready means that the bus is there and takes what is published,
/// and that the tables are.
pub(super) async fn start(
    address: SocketAddr,
    watched: Watched,
    stop: CancellationToken,
    tracker: &TaskTracker,
) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}: give another --health"))?;
    let address = listener.local_addr()?;
    let readyz = move || {
        let (lacks, ready) = (watched.not_ready(), watched.ready());
        async move {
            match lacks {
                None => (StatusCode::OK, ready),
                Some(lacks) => (StatusCode::SERVICE_UNAVAILABLE, format!("{lacks}\n")),
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
