//! `/livez` and `/readyz` for the supervisor of a process.

use std::net::SocketAddr;

use anyhow::Context;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use holdpoint_bus::Bus;
use holdpoint_kernel::KernelStatus;
use tokio::net::TcpListener;

use crate::service_group::ServiceGroup;

#[derive(Clone)]
pub(super) struct Health {
    pub(super) bus: Bus,
    /// Absent in the gateway, which does not run on the kernel.
    pub(super) status: Option<KernelStatus>,
}

impl Health {
    fn not_ready(&self) -> Option<&'static str> {
        if !self.bus.is_connected() {
            return Some("the bus is not connected");
        }
        self.status.as_ref().and_then(KernelStatus::not_ready)
    }

    /// Body of `/readyz` when ready, including a warning for the operator.
    fn ready_text(&self) -> String {
        let warning = self.status.as_ref().and_then(KernelStatus::warning);
        warning.map_or_else(
            || "ready\n".to_owned(),
            |warning| format!("ready\nwarning: {warning}\n"),
        )
    }
}

/// Serves until `stop`; returns the address. Ready means that the bus accepts messages and that the
/// database accepts commits.
pub(super) async fn start(
    address: SocketAddr,
    health: Health,
    group: &ServiceGroup,
) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}; give another --health address"))?;
    let address = listener.local_addr()?;
    let readyz = move || {
        let (reason, text) = (health.not_ready(), health.ready_text());
        async move {
            match reason {
                None => (StatusCode::OK, text),
                Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
            }
        }
    };
    let router = Router::new()
        .route("/livez", get(async || "alive\n"))
        .route("/readyz", get(readyz));
    let stop = group.stop.clone();
    group.tracker.spawn(async move {
        let serving = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned());
        if let Err(error) = serving.await {
            tracing::error!(%error, "health server ended; supervisors will see this process as dead");
        }
    });
    Ok(address)
}
