//! Where a run's time went: three clocks, which the script lets go on. Without it they show the state at
//! the instant the page was made.

use chrono::{DateTime, Utc};
use holdpoint_contracts::run::{HoldKind, RunView, StepStatus, StepView};
use maud::{Markup, html};
use serde::Serialize;

use super::super::labels;
use super::super::live::key_of;

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
        let running = self.since.iter().map(|since| between(*since, now));
        self.counted_ms.saturating_add(running.sum())
    }
}

fn between(since: DateTime<Utc>, until: DateTime<Utc>) -> u64 {
    u64::try_from((until - since).num_milliseconds()).unwrap_or(0)
}

/// From when on something counts, and until when; none: it goes on.
type Span = (DateTime<Utc>, Option<DateTime<Utc>>);

/// The three of a run. What goes on is counted when it has ended: until then it is what its steps and
/// holds say. While the run is paused they stand where they stood at its first pause.
fn three(run: &RunView) -> [Clock; 3] {
    let is_live = run.ended_at.is_none();
    let steps = |status: StepStatus| {
        let is_so = move |step: &&StepView| is_live && step.status == status;
        run.steps.iter().filter(is_so)
    };
    // A tool that waits for an answer works no more: it is its person who is waited for.
    let working = |step: &StepView| -> Option<Span> {
        let asks = run.waiting_on.iter().filter(|on| on.step == step.id);
        Some((step.claimed_at?, asks.map(|on| on.since).min()))
    };
    let queued = |step: &StepView| -> Option<Span> { Some((step.started_at?, None)) };
    let people = run.waiting_on.iter().filter(|_| is_live);
    let people = people.filter(|on| on.kind != HoldKind::Timer);
    let clocks = &run.clocks;
    [
        clock(
            run,
            ("Working", clocks.active_ms),
            steps(StepStatus::InProgress).filter_map(working),
        ),
        clock(
            run,
            ("In the queue", clocks.queued_ms),
            steps(StepStatus::Queued).filter_map(queued),
        ),
        clock(
            run,
            ("Waiting for people", clocks.human_ms),
            people.map(|on| (on.since, None)),
        ),
    ]
}

/// What was counted, and what is to be: what has stopped is added, and what goes on counts on.
fn clock(
    run: &RunView,
    (name, mut counted_ms): (&'static str, u64),
    spans: impl Iterator<Item = Span>,
) -> Clock {
    let paused_at = run.paused_by.iter().map(|pause| pause.at).min();
    let mut since = Vec::new();
    for (from, until) in spans {
        match until.into_iter().chain(paused_at).min() {
            Some(end) => counted_ms = counted_ms.saturating_add(between(from, end)),
            None => since.push(from),
        }
    }
    Clock {
        name,
        counted_ms,
        since,
    }
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
                        data-ms=(ms) data-at=(now.timestamp_millis()) { (labels::millis(ms)) }
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
        let ended = run(&json!({ "ended_at": "2026-01-01T00:00:00Z" }));
        let html = clocks(&ended, later).0;
        assert!(
            html.contains("1 minute") && !html.contains("data-counts"),
            "{html}"
        );
    }

    fn milliseconds(run: &RunView) -> [u64; 3] {
        let later = "2026-01-01T01:00:00Z".parse().unwrap();
        three(run).map(|clock| clock.at(later))
    }

    /// S0-AC4: it stands as it stood when the run was paused, and does not fall back.
    #[test]
    fn a_clock_stands_while_the_run_is_paused() {
        let pause = |at: &str| json!({ "scope": "run", "by": "ada", "at": at, "in_flight": [] });
        let paused = run(&json!({
            "paused_by": [pause("2026-01-01T00:00:40Z"), pause("2026-01-01T00:00:30Z")],
        }));
        assert_eq!(milliseconds(&paused), [5_000, 0, 90_000]);
        assert!(!clocks(&paused, paused.created_at).0.contains("data-counts"));
    }

    /// A tool that waits for an answer works until it asks: then one clock goes on, and not two.
    #[test]
    fn a_tool_that_waits_for_an_answer_is_not_at_work() {
        let asking = run(&json!({ "steps": [{
            "id": "a", "kind": "tool", "status": "in_progress", "tool": "lookup", "action": "",
            "request": null, "response": null, "error_code": null, "dispatch": 1, "attempts": 1,
            "claimed_by": "node-1", "claimed_at": "2025-12-31T23:59:50Z",
        }] }));
        assert_eq!(milliseconds(&asking), [15_000, 0, 3_660_000]);
        let html = clocks(&asking, asking.created_at).0;
        assert_eq!(html.matches("data-counts").count(), 1, "{html}");
    }
}
