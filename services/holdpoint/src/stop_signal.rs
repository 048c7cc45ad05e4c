//! SIGINT and SIGTERM, which stop `up`, `serve` and `worker`.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::ExitKind;

/// Both signals. A signal that arrives while nothing waits for it is kept.
pub(crate) struct StopSignal {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignal {
    /// Listens from now on, so it must be called before anything is started.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for a signal; returns how the process ends then.
    pub(crate) async fn received(&mut self) -> ExitKind {
        tokio::select! {
            _ = self.interrupt.recv() => ExitKind::Interrupted,
            _ = self.terminate.recv() => ExitKind::Ok,
        }
    }
}
