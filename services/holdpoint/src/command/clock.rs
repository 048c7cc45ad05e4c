//! `clock`: the time of Holdpoint.

use super::{ClientCommand, Session, instant};
use crate::cli::workspace::ClockCommand;
use crate::exit::ExitKind;
use crate::output;

impl ClientCommand for ClockCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind> {
        let Self::Advance { by } = self else {
            let clock = session.client.clock().await?;
            return session.show(&clock, |clock| instant(clock.now));
        };
        let body = session.client.advance_clock(&by).await?;
        session.show(&body, |advanced| instant(advanced.now))?;
        if body.value.settled {
            return Ok(ExitKind::Ok);
        }
        // The clock has moved in any case, so this is a timeout and not a failure.
        output::note("The clock has moved, but this work is not finished:");
        for work in &body.value.unsettled {
            output::note(&format!("  {work}"));
        }
        Ok(ExitKind::TimedOut)
    }
}
