//! `clock`: what time it is for Holdpoint.

use super::{ClientCommand, Session, instant};
use crate::cli::ClockCommand;
use crate::exit::Outcome;
use crate::output;

impl ClientCommand for ClockCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<Outcome> {
        match self {
            Self::Show => {
                let answer = session.client.clock().await?;
                let plain = instant(answer.value.now);
                output::line(if session.json { &answer.text } else { &plain })?;
                Ok(Outcome::Ok)
            }
            Self::Advance { by } => advance(session, &by).await,
        }
    }
}

/// Time has moved in any case; what it woke may need longer, which is told by the exit code.
async fn advance(session: &Session, by: &str) -> anyhow::Result<Outcome> {
    let answer = session.client.advance_clock(by).await?;
    let advanced = &answer.value;
    let plain = instant(advanced.now);
    output::line(if session.json { &answer.text } else { &plain })?;
    if advanced.settled {
        return Ok(Outcome::Ok);
    }
    output::note("not everything that this woke has come to rest:");
    for what in &advanced.unsettled {
        output::note(&format!("  {what}"));
    }
    Ok(Outcome::TimedOut)
}
