//! `schedule`: cron expressions that start runs.

use holdpoint_contracts::scheduler::{FireOutcome, ScheduleView};
use serde_json::json;

use super::{ClientCommand, Session, cells, instant, page_query};
use crate::cli::schedules::{AddSchedule, ScheduleCommand};
use crate::client::item_path;
use crate::exit::ExitKind;

impl ClientCommand for ScheduleCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind> {
        match self {
            Self::Add(schedule) => add(session, *schedule).await,
            Self::List(page) => {
                let heading = [
                    "SCHEDULE",
                    "AGENT",
                    "CRON",
                    "TIME ZONE",
                    "LAST FIRE",
                    "NEXT FIRE",
                ];
                session
                    .list("schedules", &page_query(&page), heading, row)
                    .await
            }
            Self::Show(schedule) => {
                let path = item_path("schedules", &schedule.name)?;
                session.show_json(&path).await
            }
            Self::Remove(schedule) => session.delete("schedules", &schedule.name, "removed").await,
        }
    }
}

async fn add(session: &Session, schedule: AddSchedule) -> anyhow::Result<ExitKind> {
    let body = json!({
        "name": schedule.name,
        "agent": schedule.agent,
        "cron": schedule.cron,
        "time_zone": schedule.time_zone,
        "input": schedule.input,
        "when_paused": schedule.when_paused,
        "overlap": schedule.overlap,
    });
    let text = |view: &ScheduleView| {
        let next = view.next_fire.map(instant).unwrap_or_default();
        format!("{}  fires next at {next}", view.spec.name)
    };
    session.post("schedules", &body, text).await
}

fn row(view: &ScheduleView) -> [String; 6] {
    let spec = &view.spec;
    let last = view.last_fire.zip(view.last_outcome).map(|(at, outcome)| {
        let outcome = match outcome {
            FireOutcome::Starting => "starting",
            FireOutcome::Started => "started",
            FireOutcome::Skipped => "skipped",
            FireOutcome::Refused => "refused",
        };
        let error = view.last_error.as_ref();
        let error = error.map(|error| format!(": {error}")).unwrap_or_default();
        format!("{} {outcome}{error}", instant(at))
    });
    let next = view.next_fire.map(instant);
    cells![spec.name, spec.agent, spec.cron, spec.time_zone, last, next]
}
