//! The three clocks of a run, which show where its time went. The script moves them; without it they
//! show the state at the instant of rendering.

use chrono::{DateTime, Utc};
use holdpoint_contracts::run::{HoldKind, RunView, StepStatus, StepView};
use maud::html;
use serde::Serialize;

use super::super::fragment::Fragment;
use super::super::labels;

/// The counted time of a clock, and the start of each step or hold that still counts.
#[derive(Debug, Serialize)]
struct Clock {
    name: &'static str,
    counted_ms: u64,
    since: Vec<DateTime<Utc>>,
}

/// The start and, if it is over, the end of what a clock counts.
type Span = (DateTime<Utc>, Option<DateTime<Utc>>);

impl Clock {
    /// Adds the spans that are over, and lets the others count on.
    fn new(name: &'static str, counted_ms: u64, spans: impl Iterator<Item = Span>) -> Self {
        let mut clock = Self {
            name,
            counted_ms,
            since: Vec::new(),
        };
        for (from, end) in spans {
            match end {
                Some(end) => clock.counted_ms = clock.counted_ms.saturating_add(between(from, end)),
                None => clock.since.push(from),
            }
        }
        clock
    }

    fn value_at(&self, now: DateTime<Utc>) -> u64 {
        let running = self.since.iter().map(|since| between(*since, now));
        self.counted_ms.saturating_add(running.sum())
    }
}

fn between(since: DateTime<Utc>, until: DateTime<Utc>) -> u64 {
    u64::try_from((until - since).num_milliseconds()).unwrap_or(0)
}

/// The executor adds a step or hold to its counters when it ends. Until then its time is computed from
/// the steps and holds. While the run is paused, the clocks stand at the first pause.
fn clocks_of(run: &RunView) -> [Clock; 3] {
    let is_live = run.ended_at.is_none();
    let paused_at = run.paused_by.iter().map(|pause| pause.at).min();
    let steps = |status: StepStatus| {
        let matches = move |step: &&StepView| is_live && step.status == status;
        run.steps.iter().filter(matches)
    };
    // A tool that waits for an answer does not work: its person is waited for.
    let working = steps(StepStatus::InProgress).filter_map(|step| {
        let asks = run.waiting_on.iter().filter(|hold| hold.step == step.id);
        let end = asks.map(|hold| hold.since).chain(paused_at).min();
        Some((step.claimed_at?, end))
    });
    let queued = steps(StepStatus::Queued).filter_map(|step| Some((step.started_at?, paused_at)));
    let holds = run.waiting_on.iter().filter(|_| is_live);
    let people = holds.filter(|hold| hold.kind != HoldKind::Timer);
    let people = people.map(|hold| (hold.since, paused_at));
    let counted = &run.clocks;
    [
        Clock::new("Working", counted.active_ms, working),
        Clock::new("Queued", counted.queued_ms, queued),
        Clock::new("Waiting for people", counted.human_ms, people),
    ]
}

/// Changes with what the clocks count, and not while they count.
pub(super) fn render(run: &RunView, now: DateTime<Utc>) -> Fragment {
    let clocks = clocks_of(run);
    Fragment::new("clocks", &clocks, |key| {
        html! {
            dl.clocks #clocks data-key=(key) {
                @for clock in &clocks {
                    @let ms = clock.value_at(now);
                    div {
                        dt { (clock.name) }
                        dd data-counts=[(!clock.since.is_empty()).then_some(clock.since.len())]
                            data-ms=(ms) data-at=(now.timestamp_millis()) { (labels::duration(ms)) }
                    }
                }
            }
        }
    })
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

    /// An open hold on a person counts, and a timer does not.
    #[test]
    fn a_clock_counts_open_holds_until_the_run_ends() {
        let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
        let (now, later) = (at("2026-01-01T00:01:30Z"), at("2026-01-01T01:00:00Z"));
        let asked = run(&json!({}));
        let html = render(&asked, now).html.0;
        assert!(html.contains("2 minutes 30 seconds"), "{html}");
        assert_eq!(html.matches("data-counts=\"1\"").count(), 1, "{html}");
        assert!(render(&asked, later).html.0.contains("1 hour 1 minute"));
        let key = |now| render(&asked, now).key;
        assert_eq!(key(now), key(later), "a counting clock is not sent again");
        let ended = run(&json!({ "ended_at": "2026-01-01T00:00:00Z" }));
        let html = render(&ended, later).html.0;
        assert!(
            html.contains("1 minute") && !html.contains("data-counts"),
            "{html}"
        );
    }

    fn milliseconds(run: &RunView) -> [u64; 3] {
        let later = "2026-01-01T01:00:00Z".parse().unwrap();
        clocks_of(run).map(|clock| clock.value_at(later))
    }

    /// S0-AC4: a clock stops at the instant of the first pause.
    #[test]
    fn a_clock_stops_while_the_run_is_paused() {
        let pause = |at: &str| json!({ "scope": "run", "by": "ada", "at": at, "in_flight": [] });
        let paused = run(&json!({
            "paused_by": [pause("2026-01-01T00:00:40Z"), pause("2026-01-01T00:00:30Z")],
        }));
        assert_eq!(milliseconds(&paused), [5_000, 0, 90_000]);
        let html = render(&paused, paused.created_at).html.0;
        assert!(!html.contains("data-counts"), "{html}");
    }

    /// A tool works until it asks; afterwards only the clock of people counts.
    #[test]
    fn a_tool_that_waits_for_an_answer_does_not_work() {
        let asking = run(&json!({ "steps": [{
            "id": "a", "kind": "tool", "status": "in_progress", "tool": "lookup", "action": "",
            "request": null, "response": null, "error_code": null, "dispatch": 1, "attempts": 1,
            "claimed_by": "node-1", "claimed_at": "2025-12-31T23:59:50Z",
        }] }));
        assert_eq!(milliseconds(&asking), [15_000, 0, 3_660_000]);
        let html = render(&asking, asking.created_at).html.0;
        assert_eq!(html.matches("data-counts").count(), 1, "{html}");
    }
}
