//! Where a run's time went: three clocks, which the script lets go on. Without it they show the state at
//! the instant the page was made.

use chrono::{DateTime, Utc};
use holdpoint_contracts::run::{HoldKind, RunView, StepStatus};
use maud::{Markup, html};
use serde::Serialize;

use super::super::live::key_of;
use super::super::words;

/// One clock: what was counted, and since when it counts, once for each thing that goes on.
#[derive(Debug, Serialize)]
struct Clock {
    name: &'static str,
    counted_ms: u64,
    since: Vec<DateTime<Utc>>,
}

impl Clock {
    /// What it shows at an instant.
    fn at(&self, now: DateTime<Utc>) -> u64 {
        let running = self
            .since
            .iter()
            .map(|since| (now - since).num_milliseconds());
        let running = running.map(|ms| u64::try_from(ms).unwrap_or(0));
        self.counted_ms.saturating_add(running.sum())
    }
}

/// The three of a run. What goes on is counted when it has ended: until then it is what its steps and
/// holds say. While the run is paused they stand.
fn three(run: &RunView) -> [Clock; 3] {
    let goes_on = run.ended_at.is_none() && run.paused_by.is_empty();
    let steps = || run.steps.iter().filter(|_| goes_on);
    let holds = run.waiting_on.iter().filter(|_| goes_on);
    let is_people = |kind: HoldKind| kind != HoldKind::Timer;
    let at =
        |status: StepStatus,
         instant: fn(&holdpoint_contracts::run::StepView) -> Option<DateTime<Utc>>| {
            let some = steps().filter(move |step| step.status == status);
            some.filter_map(instant)
        };
    let clocks = &run.clocks;
    [
        Clock {
            name: "Working",
            counted_ms: clocks.active_ms,
            since: at(StepStatus::InProgress, |step| step.claimed_at).collect(),
        },
        Clock {
            name: "In the queue",
            counted_ms: clocks.queued_ms,
            since: at(StepStatus::Queued, |step| step.started_at).collect(),
        },
        Clock {
            name: "Waiting for people",
            counted_ms: clocks.human_ms,
            since: holds
                .filter(|on| is_people(on.kind))
                .map(|on| on.since)
                .collect(),
        },
    ]
}

/// Changes with what goes on, and not while it does.
pub(super) fn key(run: &RunView) -> String {
    key_of(&three(run))
}

pub(super) fn clocks(run: &RunView, now: DateTime<Utc>) -> Markup {
    html! {
        dl.clocks #clocks data-key=(key(run)) {
            @for clock in three(run) {
                @let ms = clock.at(now);
                div {
                    dt { (clock.name) }
                    dd data-counts=[(!clock.since.is_empty()).then_some(clock.since.len())]
                        data-ms=(ms) data-at=(now.timestamp_millis()) { (words::millis(ms)) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn run(changes: &Value) -> RunView {
        let mut run = json!({
            "id": "run_0193aaaabbbb7ccc8dddeeeeeeeeeeee", "agent": "outreach", "version": 1,
            "status": "awaiting_input", "resume_at": null, "message": "", "contact": null, "labels": {},
            "waiting_on": [
                { "id": "hold_0193aaaabbbb7ccc8dddeeeeeeeeeeee-1", "kind": "input", "step": "a",
                  "since": "2026-01-01T00:00:00Z", "until": null, "remaining_ms": null, "then": "" },
                { "id": "hold_0193aaaabbbb7ccc8dddeeeeeeeeeeee-2", "kind": "timer", "step": "b",
                  "since": "2026-01-01T00:00:00Z", "until": null, "remaining_ms": null, "then": "" },
            ],
            "paused_by": [], "result": null, "failure": null,
            "clocks": { "active_ms": 5_000, "queued_ms": 0, "human_ms": 60_000 },
            "created_at": "2026-01-01T00:00:00Z", "ended_at": null,
        });
        for (name, value) in changes.as_object().unwrap() {
            run[name] = value.clone();
        }
        serde_json::from_value(run).unwrap()
    }

    /// A person who is waited for is counted while it lasts; a timer is nobody.
    #[test]
    fn a_clock_shows_what_goes_on_and_stands_when_nothing_does() {
        let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
        let (now, later) = (at("2026-01-01T00:01:30Z"), at("2026-01-01T01:00:00Z"));
        let asked = run(&json!({}));
        let html = clocks(&asked, now).0;
        assert!(html.contains("2 minutes 30 seconds"), "{html}");
        assert_eq!(html.matches("data-counts=\"1\"").count(), 1, "{html}");
        assert!(clocks(&asked, later).0.contains("1 hour 1 minute"));
        assert_eq!(
            key(&asked),
            key(&run(&json!({}))),
            "it is not sent again as it goes on"
        );
        let pause =
            json!([{ "scope": "run", "by": "ada", "at": "2026-01-01T00:00:00Z", "in_flight": [] }]);
        for still in [
            json!({ "paused_by": pause }),
            json!({ "ended_at": "2026-01-01T00:00:00Z" }),
        ] {
            let html = clocks(&run(&still), later).0;
            assert!(
                html.contains("1 minute") && !html.contains("data-counts"),
                "{html}"
            );
        }
    }
}
