//! The agents of a history, with waits, tools, questions and handoffs.

use chrono::TimeDelta;

use crate::features::Feature;
use crate::world::World;

/// The subject of a mail that is sent only with an approval.
pub(crate) const GATED: &str = "gated";

/// The tool whose result fills the arguments of some of these mails.
pub(crate) const DRAFTS: &str = "drafts";

/// How long an approval permits its call.
pub(crate) const APPROVAL_VALID: TimeDelta = TimeDelta::minutes(10);

/// Inputs that a run asks for before its first step.
const INPUTS: &str = "inputs:
  type: object
  properties: { region: { type: string } }
  required: [region]
";

impl World {
    /// An agent with steps of every kind. Some tools are idempotent and some are not. Some agents need an input
    /// first.
    pub(crate) fn agent(&mut self, number: usize) -> String {
        let mut text = format!("agent: agent-{number}\n");
        if self.chance.one_in(4) {
            text.push_str(INPUTS);
        }
        text.push_str(&self.limits());
        text.push_str("steps:\n");
        for step in 0..1 + self.chance.place(5) {
            let what = self.step(number);
            text.push_str(&format!("  - {what}\n"));
            // Most steps are sequential; some are parallel.
            if step > 0 && self.chance.one_in(4) && !what.contains("needs:") {
                text.push_str("    needs: []\n");
            }
        }
        text
    }

    fn limits(&mut self) -> String {
        if !self.features.has(Feature::Limits) || self.chance.one_in(2) {
            return String::new();
        }
        let (runs, calls) = (1 + self.chance.below(2), 1 + self.chance.below(4));
        let all = [
            format!("concurrency: {{ runs: {runs} }}"),
            format!("budget: {{ steps: {calls} }}"),
            format!("rate: {{ starts: {runs}, per: {calls}m }}"),
        ];
        let first = self.chance.place(all.len());
        let second = self.chance.place(all.len());
        let mut text = format!("limits:\n  {}\n", all[first]);
        if second != first {
            text.push_str(&format!("  {}\n", all[second]));
        }
        text
    }

    fn step(&mut self, number: usize) -> String {
        // The second agent runs no other one, because it would be below itself.
        if number == 0 && self.features.has(Feature::ChildRuns) && self.chance.one_in(3) {
            return self.run();
        }
        if self.features.has(Feature::Signals) && self.chance.one_in(4) {
            let end = ["fail", "skip"][self.chance.place(2)];
            let seconds = 1 + self.chance.below(600);
            return format!("wait_for: {{ signal: go, timeout: {seconds}s, on_timeout: {end} }}");
        }
        let one_in = if self.features.has_reviews() { 2 } else { 3 };
        if self.features.has(Feature::Gates) && self.chance.one_in(one_in) {
            return self.gated_call();
        }
        match self.chance.below(10) {
            0 => "wait: 1s".to_owned(),
            1 => format!("wait: {}m", 1 + self.chance.below(600)),
            2 => "wait: 90 days".to_owned(),
            3 => format!(
                "{}tool: log\n    args: {{ message: hello }}",
                self.for_each()
            ),
            4..=5 => self.ask(),
            6 => self.handoff(),
            _ => {
                let for_each = self.for_each();
                format!(
                    "{for_each}tool: send_email\n    args: {{ to: a@x.example, subject: s, body: b }}"
                )
            }
        }
    }

    /// Some calls have the result of another step in their arguments, so that people may send them back.
    fn gated_call(&mut self) -> String {
        if self.features.has_reviews() && self.chance.one_in(2) {
            let draft = format!("draft-{}", self.chance.below(1_000_000));
            let call = self.call_of("", &format!("${draft}.text"));
            return format!("id: {draft}\n    tool: {DRAFTS}\n  - needs: [{draft}]\n    {call}");
        }
        let for_each = self.for_each();
        self.call_of(&for_each, "b")
    }

    fn call_of(&mut self, for_each: &str, body: &str) -> String {
        let (seconds, minutes) = (30 + self.chance.below(60), APPROVAL_VALID.num_minutes());
        format!(
            "{for_each}tool: send_email\n    args: {{ to: a@x.example, subject: {GATED}, body: {body} }}\n    \
             approval: {{ decide_within: {seconds}s, valid_for: {minutes}m }}"
        )
    }

    /// The fields of a tool that is called for each of several items, in some histories.
    fn for_each(&mut self) -> String {
        if !self.features.has(Feature::FanningOut) || !self.chance.one_in(3) {
            return String::new();
        }
        let items: Vec<_> = (0..self.chance.below(6)).collect();
        let parallel = 1 + self.chance.below(3);
        let ends = ["fail", "continue", "skip_rest"];
        let end = ends[self.chance.place(ends.len())];
        format!("for_each: {items:?}\n    parallel: {parallel}\n    on_error: {end}\n    ")
    }

    fn run(&mut self) -> String {
        let what = [
            "agent: agent-1",
            "first: [agent-1, agent-1]",
            "all: [agent-1, agent-1]",
            // It does not exist.
            "agent: agent-9",
        ];
        let what = what[self.chance.place(what.len())];
        let hours = 1 + self.chance.below(200);
        let end = ["fail", "skip"][self.chance.place(2)];
        format!("run: {{ {what}, timeout: {hours}h, on_timeout: {end} }}\n    on_error: continue")
    }

    fn ask(&mut self) -> String {
        let ends = ["fail", "skip", "escalate", "default, default: \"no\""];
        let end = ends[self.chance.place(ends.len())];
        let seconds = 1 + self.chance.below(60);
        let time = [
            format!("timeout: {seconds}s"),
            format!("timeout: {seconds}s, policy: quick"),
            "policy: [soon, quick]".to_owned(),
        ];
        let time = &time[self.chance.place(time.len())];
        format!(
            "ask: {{ question: Go on?, options: [\"yes\", \"no\"], {time}, on_timeout: {end} }}"
        )
    }

    fn handoff(&mut self) -> String {
        let ends = ["continue", "skip", "escalate"];
        let end = ends[self.chance.place(ends.len())];
        // 0: it never continues without a person.
        let seconds = 30 * self.chance.below(4);
        format!("handoff: {{ timeout: {seconds}s, on_timeout: {end} }}")
    }
}
