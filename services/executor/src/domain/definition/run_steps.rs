//! `run` as its author writes it.

use serde_json::{Map, Value};

use super::diagnostics::{AgentChecker, is_name, shown};
use super::step::{Draft, StepReader};
use crate::domain::expression::diagnostic;
use crate::domain::model::plan::Action;
use crate::domain::model::plan::run_steps::{AgentRun, RunStep, RunsUntil, STEP_RUNS_MAX};
use crate::domain::model::plan::signal_steps::OnWaitTimeout;

/// How long a step waits for its runs if its author does not say it: 90 days, in milliseconds.
const TIMEOUT_DEFAULT_MS: u64 = 90 * 86_400_000;

const ONE: [&str; 4] = ["agent", "input", "timeout", "on_timeout"];
const ANY: [&str; 6] = ["agent", "input", "first", "all", "timeout", "on_timeout"];
const MANY: [&str; 4] = ["first", "all", "timeout", "on_timeout"];
const ITEM: [&str; 2] = ["agent", "input"];

impl StepReader<'_, '_> {
    /// Reads a `run`: the name of an agent, or an object with one `agent`, with `first` or with `all`.
    pub(super) fn run(&mut self, value: &Value) -> Option<Action> {
        let short = Map::from_iter([("agent".to_owned(), value.clone())]);
        let known: &[&'static str] = match value {
            Value::Object(fields) if fields.contains_key("agent") => &ONE,
            Value::Object(fields) if is_list(fields) => &MANY,
            _ => &ANY,
        };
        let fields = match value {
            Value::String(_) => &short,
            _ => self.object("run", value, known)?,
        };
        let timeout_ms = match fields.get("timeout") {
            None | Some(Value::Null) => Some(TIMEOUT_DEFAULT_MS),
            Some(timeout) => self.duration_within_ms("run", "timeout", timeout),
        };
        let allowed = [("fail", OnWaitTimeout::Fail), ("skip", OnWaitTimeout::Skip)];
        let on_timeout = self.word("run", "on_timeout", fields.get("on_timeout"), &allowed)?;
        let (until, runs) = match (fields.get("first"), fields.get("all")) {
            (None, None) => (RunsUntil::Ended, vec![self.agent_run(fields)?]),
            (Some(list), None) => (RunsUntil::First, self.agent_runs("first", list)?),
            (None, Some(list)) => (RunsUntil::All, self.agent_runs("all", list)?),
            (Some(_), Some(_)) => {
                let message = "`run` has either `first` or `all`.";
                self.report("run", diagnostic("all", message));
                return None;
            }
        };
        Some(Action::Run(Box::new(RunStep {
            until,
            runs,
            timeout_ms: timeout_ms?,
            on_timeout: on_timeout.unwrap_or_default(),
        })))
    }

    fn agent_runs(&mut self, name: &str, list: &Value) -> Option<Vec<AgentRun>> {
        let Some(list) = list
            .as_array()
            .filter(|list| (1..=STEP_RUNS_MAX).contains(&list.len()))
        else {
            let message = format!(
                "`{name}` is a list of 1 to {STEP_RUNS_MAX} runs, such as `- {{ agent: NAME }}`."
            );
            return self.refuse("run", list, message);
        };
        let runs: Vec<_> = list.iter().map(|item| self.listed_run(item)).collect();
        runs.into_iter().collect()
    }

    fn listed_run(&mut self, item: &Value) -> Option<AgentRun> {
        let short = Map::from_iter([("agent".to_owned(), item.clone())]);
        let fields = match item {
            Value::String(_) => &short,
            _ => self.object("run", item, &ITEM)?,
        };
        self.agent_run(fields)
    }

    fn agent_run(&mut self, fields: &Map<String, Value>) -> Option<AgentRun> {
        let name = match fields.get("agent") {
            Some(Value::String(name)) if is_name(name) => name.parse().ok(),
            _ => None,
        };
        let Some(agent) = name else {
            let wrong = fields.get("agent").map(shown).unwrap_or_default();
            let message = "`run` needs `agent: NAME` with 1 to 100 letters, digits, dots, underscores or hyphens; the first is a letter or digit.";
            self.report("run", diagnostic(&wrong, message));
            return None;
        };
        let input = match fields.get("input") {
            None => Value::Null,
            Some(input) => input.clone(),
        };
        Some(AgentRun { agent, input })
    }
}

impl AgentChecker<'_> {
    /// A run below a run of the same agent never starts, so an agent that names itself is wrong.
    pub(super) fn refuse_own_runs(&mut self, agent: Option<&str>, drafts: &[Draft]) {
        for (at, draft) in drafts.iter().enumerate() {
            let Some(Action::Run(run)) = &draft.action else {
                continue;
            };
            let mut named = run.runs.iter().map(|run| run.agent.as_str());
            if let Some(own) = named.find(|name| Some(*name) == agent) {
                let message = format!("`{own}` cannot run itself.");
                self.report_step((at, &draft.id), "run", diagnostic(own, message));
            }
        }
    }
}

fn is_list(fields: &Map<String, Value>) -> bool {
    fields.contains_key("first") || fields.contains_key("all")
}
