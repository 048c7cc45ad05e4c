//! How much of a run somebody sees. What a request hides of people's answers from a user, the run hides
//! from the same user, in its steps, its input and its history (A-M2). What later steps were given stays.

use std::collections::BTreeSet;

use holdpoint_auth::{Claims, Right};
use holdpoint_contracts::handoff::{ListRequests, RequestView};
use holdpoint_contracts::history::{EventType, HistoryItem};
use holdpoint_contracts::run::{ActionResult, Page, RunView, StepView};
use holdpoint_ids::{HoldId, RunId, Workspace};
use serde_json::Value;

use super::concerns;
use crate::app::App;
use crate::rights::grants;

/// Requests of one run that are looked at. Answers to further ones are hidden.
const REQUESTS_MAX: u64 = 500;
/// Why a request asks for what a run lacks, as the executor says it.
const MISSING_INPUT: &str = "missing_input";
/// Of the result of a question or a handoff, what is shown to everybody: how it was opened, who ended it.
const SHOWN_OF_RESULTS: [&str; 10] = [
    "scheduled",
    "resume_at",
    "task_id",
    "is_warm_lead",
    "question_id",
    "request",
    "hold",
    "outcome",
    "by",
    "at",
];
/// Of an answer in the history.
const SHOWN_OF_ANSWERS: [&str; 5] = ["hold", "request", "question", "by", "at"];

/// What of a run is hidden from a user.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    /// Requests that the user sees all of.
    seen: BTreeSet<HoldId>,
    /// Steps with a request that the user does not see all of; an empty name is the run itself.
    steps: BTreeSet<String>,
    /// Members of the input that people were asked for.
    inputs: BTreeSet<String>,
    /// Not all requests are known: what might be an answer is hidden.
    is_unsure: bool,
}

impl App {
    /// What of a run is hidden from a user; none: nothing. To be asked for after the run was read, so that
    /// no request comes between.
    pub(crate) async fn hidden(
        &self,
        workspace: &Workspace,
        user: Option<&Claims>,
        run: RunId,
    ) -> Option<Hidden> {
        // A step sees its own run: its tool works with what people said.
        let claims = user.filter(|claims| !grants(&claims.roles, Right::Operate))?;
        let query = ListRequests {
            limit: REQUESTS_MAX,
            run: Some(run),
            ..ListRequests::default()
        };
        let found = self.bus.query(workspace, &query).await;
        if let Err(problem) = &found {
            tracing::info!(%problem, %run, "the requests of a run are not known: all answers are hidden");
        }
        Some(Hidden::of(claims, found.ok()))
    }
}

impl Hidden {
    fn of(claims: &Claims, requests: Option<Page<RequestView>>) -> Self {
        let Some(requests) = requests else {
            return Self {
                is_unsure: true,
                ..Self::default()
            };
        };
        let mut hidden = Self {
            is_unsure: requests.next_cursor.is_some(),
            ..Self::default()
        };
        for request in requests.items {
            if concerns(claims, &request) {
                hidden.seen.insert(request.id);
                continue;
            }
            if request.reason.as_deref() == Some(MISSING_INPUT) {
                let schema = request.schema.as_ref();
                let fields = schema.and_then(|it| it.get("properties")?.as_object());
                hidden
                    .inputs
                    .extend(fields.into_iter().flat_map(|it| it.keys().cloned()));
            }
            hidden.steps.insert(request.step.unwrap_or_default());
        }
        hidden
    }

    fn hides(&self, step: &str) -> bool {
        self.is_unsure || self.steps.contains(step)
    }

    /// Whether what an item says of a request is for the user.
    fn is_seen(&self, data: &Value, member: &str) -> bool {
        let id = data.get(member).and_then(Value::as_str);
        let id = id.and_then(|id| id.parse().ok());
        id.is_some_and(|id: HoldId| self.seen.contains(&id))
    }

    /// The run without what people said.
    pub(crate) fn run(&self, mut run: RunView) -> RunView {
        if self.is_unsure {
            run.input = None;
        } else if let Some(input) = run.input.as_mut().and_then(Value::as_object_mut) {
            input.retain(|name, _| !self.inputs.contains(name));
        }
        for step in &mut run.steps {
            self.step(step);
        }
        run
    }

    fn step(&self, step: &mut StepView) {
        let is_of_people = ["ask", "handoff"].contains(&step.kind.as_str());
        // Until it ends, the result is that of its opening.
        if !is_of_people || step.ended_at.is_none() || !self.hides(&step.id) {
            return;
        }
        if let Some(ActionResult {
            description,
            error,
            data,
            ..
        }) = &mut step.response
        {
            *description = ended(data);
            *error = error.take().map(|_said| "It did not succeed.".to_owned());
            keep(data, &SHOWN_OF_RESULTS);
        }
    }

    /// An item of the history without what people said.
    pub(crate) fn item(&self, mut item: HistoryItem) -> HistoryItem {
        let kind = item.kind;
        if kind == EventType::InputAnswered && !self.is_seen(&item.data, "hold") {
            item.message = ended(&item.data);
            keep(&mut item.data, &SHOWN_OF_ANSWERS);
        }
        if kind == EventType::HandoffCompleted && !self.is_seen(&item.data, "request") {
            keep(&mut item.data, &SHOWN_OF_ANSWERS);
        }
        if kind == EventType::RunResumed && self.hides(item.step.as_deref().unwrap_or_default()) {
            match &item.step {
                Some(_) => {
                    item.message = ended(&item.data);
                    keep(&mut item.data, &SHOWN_OF_ANSWERS);
                }
                // Of a whole run only a person who had taken it over leaves notes.
                None => drop(item.data.as_object_mut().and_then(|it| it.remove("notes"))),
            }
        }
        if let Some(values) = item.data.get_mut("values").and_then(Value::as_object_mut) {
            values.retain(|path, _| !self.names(path));
        }
        item
    }

    /// Whether a path of an expression leads to what people said: `$step-03.answer`, `run.intervention.notes`,
    /// `input.amount`.
    fn names(&self, path: &str) -> bool {
        let mut parts = path.trim_start_matches('$').split(['.', '[']);
        let (root, member) = (parts.next().unwrap_or_default(), parts.next());
        match (root, member) {
            ("run", Some("intervention")) => self.hides(""),
            ("input", Some(member)) => {
                let member = member.trim_end_matches(']').trim_matches('"');
                self.is_unsure || self.inputs.contains(member)
            }
            ("input", None) => self.is_unsure || !self.inputs.is_empty(),
            ("contact" | "run" | "item", _) => false,
            (step, _) => self.hides(step),
        }
    }
}

/// That it ended, without how.
fn ended(data: &Value) -> String {
    match data.get("by").and_then(Value::as_str) {
        Some("timeout") => "Nobody answered in time.".to_owned(),
        Some(by) => format!("{by} has answered."),
        None => "It has ended.".to_owned(),
    }
}

/// Of an object only these members; of anything else nothing.
fn keep(data: &mut Value, shown: &[&str]) {
    match data.as_object_mut() {
        Some(fields) => fields.retain(|name, _| shown.contains(&name.as_str())),
        None => *data = Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use holdpoint_contracts::handoff::RequestView;
    use serde_json::json;

    use super::super::tests::{claims, request};
    use super::*;

    fn asked(number: u32, step: Option<&str>, to: &str) -> RequestView {
        let mut asked = request();
        asked.id.number = number;
        asked.step = step.map(str::to_owned);
        asked.to = vec![to.to_owned()];
        (asked.also, asked.assignee, asked.asked_by) = (Vec::new(), None, Vec::new());
        asked
    }

    fn page(items: Vec<RequestView>) -> Option<Page<RequestView>> {
        Some(Page {
            items,
            next_cursor: None,
        })
    }

    fn item(kind: EventType, step: Option<&str>, message: &str, data: Value) -> HistoryItem {
        HistoryItem {
            seq: 1,
            kind,
            at: chrono::DateTime::UNIX_EPOCH,
            run: request().run.unwrap(),
            step: step.map(str::to_owned),
            message: message.to_owned(),
            data,
        }
    }

    /// All that a history says of an answer, with a word that only the answer has.
    fn history() -> Vec<HistoryItem> {
        let id = asked(1, None, "").id;
        vec![
            item(
                EventType::InputAnswered,
                Some("q"),
                "bob answered: s3cret.",
                json!({ "hold": id, "question": "?", "answer": "s3cret", "by": "bob" }),
            ),
            item(
                EventType::RunResumed,
                Some("q"),
                "bob answered: s3cret.",
                json!({ "by": "bob" }),
            ),
            item(
                EventType::HandoffCompleted,
                Some("q"),
                "Handoff completed by bob at noon",
                json!({ "request": id, "by": "bob", "notes": "s3cret" }),
            ),
            item(
                EventType::StepSkipped,
                Some("next"),
                "Skipped",
                json!({ "values": { "$q.answer": "s3cret", "contact.replied": true } }),
            ),
        ]
    }

    /// Mend A-M2: to whom the request hides an answer the history hides it, too, and to nobody else.
    #[test]
    fn an_answer_is_hidden_in_the_history_as_in_its_request() {
        let requests = || {
            page(vec![
                asked(1, Some("q"), "@user.bob"),
                asked(2, Some("r"), "@user.eva"),
            ])
        };
        for (user, roles, requests, is_hidden) in [
            ("eva", &["viewer"][..], requests(), true),
            ("eva", &["member"], requests(), true),
            ("bob", &["member"], requests(), false),
            ("bob", &["member"], None, true),
        ] {
            let hidden = Hidden::of(&claims(user, roles), requests);
            for before in history() {
                let after = hidden.item(before.clone());
                let text = serde_json::to_string(&after).unwrap();
                assert_eq!(text.contains("s3cret"), !is_hidden, "{user}: {text}");
                assert_eq!(after == before, !is_hidden, "{user}: {text}");
                assert!(
                    after.kind == EventType::StepSkipped || text.contains("bob"),
                    "{text}"
                );
            }
        }
        let hidden = Hidden::of(&claims("eva", &["viewer"]), requests());
        let wait = item(
            EventType::RunResumed,
            Some("wait"),
            "Going on.",
            json!({ "by": "time" }),
        );
        assert_eq!(hidden.item(wait.clone()), wait);
        let resumed = item(
            EventType::RunResumed,
            None,
            "Resumed.",
            json!({ "mode": "now" }),
        );
        assert_eq!(hidden.item(resumed.clone()), resumed);
    }

    /// Mend A-M2: what people were asked for before the first step, and what an operator left behind.
    #[test]
    fn paths_to_answers_are_known() {
        let mut first = asked(1, None, "@user.bob");
        first.reason = Some(MISSING_INPUT.to_owned());
        first.schema = Some(json!({ "properties": { "amount": {} } }));
        let hidden = Hidden::of(&claims("eva", &["viewer"]), page(vec![first]));
        for (path, is_hidden) in [
            ("input.amount", true),
            ("input[\"amount\"]", true),
            ("input", true),
            ("input.order", false),
            ("run.intervention.notes", true),
            ("run.id", false),
            ("contact.replied", false),
            ("$q.answer", false),
        ] {
            assert_eq!(hidden.names(path), is_hidden, "{path}");
        }
    }
}
