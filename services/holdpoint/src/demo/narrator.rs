//! What both stories stand on: scenes, and time that is moved between them.

use std::time::Duration;

use anyhow::ensure;

use crate::client::Client;
use crate::output;

/// Pause between scenes, for whoever reads along.
const SCENE: Duration = Duration::from_millis(900);

/// The owner's client, and how fast the story is told.
pub(super) struct Stage {
    pub(super) client: Client,
    pub(super) fast: bool,
}

impl Stage {
    /// Says what comes.
    pub(super) async fn scene(&self, text: &str) -> anyhow::Result<()> {
        if !self.fast {
            tokio::time::sleep(SCENE).await;
        }
        output::line(&format!("\n{text}"))?;
        Ok(())
    }

    /// Moves the clock; returns when all that it woke has settled.
    pub(super) async fn advance(&self, by: &str) -> anyhow::Result<()> {
        self.scene(&format!("Moving the clock by {by} …")).await?;
        let moved = self.client.advance_clock(by).await?.value;
        ensure!(
            moved.settled,
            "the clock was moved, and this has not settled: {:?}",
            moved.unsettled
        );
        Ok(())
    }
}
