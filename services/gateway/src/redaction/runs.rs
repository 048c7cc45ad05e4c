//! Runs as one user may see them. A run hides the answers that its requests hide from the same user: in its steps, its
//! input and its history (A-M2). Inputs of later steps stay visible.

use std::collections::BTreeSet;

use holdpoint_auth::{Claims, Right};
use holdpoint_contracts::handoff::{ListRequests, RequestView};
use holdpoint_contracts::history::{EventType, HistoryItem};
use holdpoint_contracts::run::{ActionResult, ApprovalState, HoldKind, Page, RunView, StepView};
use holdpoint_ids::{HoldId, RunId, Workspace};
use serde_json::{Value, json};

use super::is_party;
use crate::app::App;
use crate::auth::run_reader::RunReader;
use crate::auth::token_scope::grants;

/// Most requests of one run that are read. Answers to further ones are hidden.
const REQUESTS_MAX: u64 = 500;
/// Reason of the request for the missing inputs of a run.
pub(crate) const MISSING_INPUT: &str = "missing_input";
/// Fields of the result of a question or handoff that every reader sees.
const RESULT_SHOWN: [&str; 10] = [
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
/// Fields of an answer in the history that every reader sees.
const ANSWER_SHOWN: [&str; 5] = ["hold", "request", "question", "by", "at"];
/// Fields of a rejection in the history that every reader sees.
const REJECTION_SHOWN: [&str; 2] = ["reason", "by"];

/// The parts of a run that are hidden from a user.
#[derive(Debug, Default)]
pub(crate) struct RunRedaction {
    /// Requests that the user sees completely.
    visible: BTreeSet<HoldId>,
    /// Steps with a request that is redacted for the user. An empty name is the run itself.
    steps: BTreeSet<String>,
    /// Steps with a handoff that is redacted, also one that followed a failed tool.
    handed_off: BTreeSet<String>,
    /// Fields of the input that a person supplied.
    inputs: BTreeSet<String>,
    /// Not all requests are known, so everything that may be an answer is hidden.
    is_incomplete: bool,
}

impl App {
    /// The redaction of a run for a user; none for operators and steps. It must be read after the run, so that it
    /// includes all requests of the run.
    pub(crate) async fn redaction_of(
        &self,
        workspace: &Workspace,
        user: Option<&Claims>,
        run: RunId,
    ) -> Option<RunRedaction> {
        // A step sees its whole run, because its tool works with the answers.
        let claims = user.filter(|claims| !grants(&claims.roles, Right::Operate))?;
        let query = ListRequests {
            limit: REQUESTS_MAX,
            run: Some(run),
            ..ListRequests::default()
        };
        let found = self.bus.query(workspace, &query).await;
        if let Err(problem) = &found {
            tracing::info!(%problem, %run, "requests of a run cannot be read; all its answers are hidden");
        }
        Some(RunRedaction::of(claims, found.ok()))
    }
}

fn remove_output(result: &mut Value) {
    if let Some(fields) = result.as_object_mut() {
        fields.remove("output");
    }
}

/// History items as the reader may see them.
pub(crate) async fn redact_items(
    reader: &RunReader,
    run: RunId,
    items: Vec<HistoryItem>,
) -> Vec<HistoryItem> {
    if items.is_empty() {
        return items;
    }
    let redaction = reader
        .app
        .redaction_of(&reader.workspace, reader.user(), run);
    let Some(redaction) = redaction.await else {
        return items;
    };
    let items = items.into_iter();
    items.map(|item| redaction.redact_item(item)).collect()
}

impl RunRedaction {
    fn of(claims: &Claims, requests: Option<Page<RequestView>>) -> Self {
        let Some(requests) = requests else {
            return Self {
                is_incomplete: true,
                ..Self::default()
            };
        };
        let mut redaction = Self {
            is_incomplete: requests.next_cursor.is_some(),
            ..Self::default()
        };
        for request in requests.items {
            if is_party(claims, &request) {
                redaction.visible.insert(request.id);
                continue;
            }
            if request.reason.as_deref() == Some(MISSING_INPUT) {
                let schema = request.schema.as_ref();
                let fields = schema.and_then(|it| it.get("properties")?.as_object());
                redaction
                    .inputs
                    .extend(fields.into_iter().flat_map(|it| it.keys().cloned()));
            }
            let step = request.step.unwrap_or_default();
            // The result of a step with `for_each` has the results of its children.
            let parent = parent_of(&step).map(str::to_owned);
            for step in parent.into_iter().chain([step]) {
                if request.kind == HoldKind::Handoff {
                    redaction.handed_off.insert(step.clone());
                }
                redaction.steps.insert(step);
            }
        }
        redaction
    }

    fn hides(&self, step: &str) -> bool {
        self.is_incomplete || self.steps.contains(step)
    }

    /// Whether the user sees the request that an item names.
    fn is_visible(&self, data: &Value, member: &str) -> bool {
        let id = data.get(member).and_then(Value::as_str);
        let id = id.and_then(|id| id.parse().ok());
        id.is_some_and(|id: HoldId| self.visible.contains(&id))
    }

    /// The run without hidden answers.
    pub(crate) fn redact_run(&self, mut run: RunView) -> RunView {
        if self.is_incomplete {
            run.input = None;
        } else if let Some(input) = run.input.as_mut().and_then(Value::as_object_mut) {
            input.retain(|name, _| !self.inputs.contains(name));
        }
        let hides_any = self.is_incomplete || !self.steps.is_empty();
        if let Some(result) = run.result.as_mut().filter(|_| hides_any) {
            remove_output(result);
        }
        for step in &mut run.steps {
            self.redact_step(step);
            self.redact_output(step);
        }
        run
    }

    /// An output may contain answers. Those of child runs are shown, or hidden, with these runs.
    fn redact_output(&self, step: &mut StepView) {
        let hides = match step.kind.as_str() {
            "run" => true,
            "finish" => self.is_incomplete || !self.steps.is_empty(),
            _ => false,
        };
        let Some(response) = step.response.as_mut().filter(|_| hides) else {
            return;
        };
        if let Some(results) = response.data.as_array_mut() {
            results.iter_mut().for_each(remove_output);
        }
        remove_output(&mut response.data);
    }

    fn redact_step(&self, step: &mut StepView) {
        self.redact_approval(step);
        let is_of_people = ["ask", "handoff"].contains(&step.kind.as_str());
        // After a failed tool, the result may be that of a handoff (`on_error: handoff`).
        let may_be_handed_off = self.is_incomplete || self.handed_off.contains(&step.id);
        // Before its end, the result describes only its start.
        if !(is_of_people || may_be_handed_off) || step.ended_at.is_none() || !self.hides(&step.id)
        {
            return;
        }
        if let Some(ActionResult {
            description,
            error,
            data,
            ..
        }) = &mut step.response
        {
            *description = describe_end(data);
            *error = error.take().map(|_answer| "It did not succeed.".to_owned());
            keep_fields(data, &RESULT_SHOWN);
        }
    }

    /// The approval without the approver's words. The arguments of a call are shown, as those of any step.
    fn redact_approval(&self, step: &mut StepView) {
        if !self.hides(&step.id) {
            return;
        }
        let Some(approval) = &mut step.approval_state else {
            return;
        };
        approval.comment = None;
        approval.original_args = None;
        if approval.state != ApprovalState::Rejected {
            return;
        }
        if let Some(response) = &mut step.response {
            let by = json!({ "by": approval.by });
            response.description = describe_rejection(&by);
            response.error = response.error.take().map(|_| describe_rejection(&by));
        }
    }

    /// An item of the history without hidden answers.
    pub(crate) fn redact_item(&self, mut item: HistoryItem) -> HistoryItem {
        let kind = item.kind;
        if kind == EventType::InputAnswered && !self.is_visible(&item.data, "hold") {
            item.message = describe_end(&item.data);
            keep_fields(&mut item.data, &ANSWER_SHOWN);
        }
        if kind == EventType::RunAwaitingApproval && !self.is_visible(&item.data, "request") {
            item.data.as_object_mut().and_then(|it| it.remove("items"));
        }
        let is_rejected = item.data.get("reason").and_then(Value::as_str) == Some("rejected");
        if kind == EventType::StepSkipped
            && is_rejected
            && self.hides(item.step.as_deref().unwrap_or_default())
        {
            item.message = describe_rejection(&item.data);
            keep_fields(&mut item.data, &REJECTION_SHOWN);
        }
        if kind == EventType::StepRevised {
            self.redact_revision(&mut item);
        }
        if kind == EventType::HandoffCompleted && !self.is_visible(&item.data, "request") {
            keep_fields(&mut item.data, &ANSWER_SHOWN);
        }
        if kind == EventType::RunResumed && self.hides(item.step.as_deref().unwrap_or_default()) {
            match &item.step {
                Some(_) => {
                    item.message = describe_end(&item.data);
                    keep_fields(&mut item.data, &ANSWER_SHOWN);
                }
                // Only a user who has taken over the run leaves notes.
                None => drop(item.data.as_object_mut().and_then(|it| it.remove("notes"))),
            }
        }
        if let Some(values) = item.data.get_mut("values").and_then(Value::as_object_mut) {
            values.retain(|path, _| !self.hides_path(path));
        }
        item
    }

    /// What a person wants changed in the arguments of a gated step is seen by those who see its request.
    fn redact_revision(&self, item: &mut HistoryItem) {
        let text = |name: &str| item.data.get(name).and_then(Value::as_str);
        let gated = text("gated").unwrap_or_default();
        if self.hides(gated) {
            item.message = format!("{} sent {gated} back.", text("by").unwrap_or("A user"));
            keep_fields(&mut item.data, &["by", "gated", "revision"]);
        }
    }

    /// Whether a path of an expression leads to a hidden answer: `$step-03.answer`, `run.intervention.notes`,
    /// `input.amount`.
    fn hides_path(&self, path: &str) -> bool {
        let mut parts = path.trim_start_matches('$').split(['.', '[']);
        let (root, member) = (parts.next().unwrap_or_default(), parts.next());
        match (root, member) {
            ("run", Some("intervention")) => self.hides(""),
            ("input", Some(member)) => {
                let member = member.trim_end_matches(']').trim_matches('"');
                self.is_incomplete || self.inputs.contains(member)
            }
            ("input", None) => self.is_incomplete || !self.inputs.is_empty(),
            ("contact" | "run" | "item", _) => false,
            (step, _) => self.hides(step),
        }
    }
}

/// The step of which this one may be a child: `step-02` of `step-02-0`.
pub(crate) fn parent_of(step: &str) -> Option<&str> {
    let (parent, item) = step.rsplit_once('-')?;
    (!item.is_empty() && item.bytes().all(|digit| digit.is_ascii_digit())).then_some(parent)
}

/// A message without the answer.
fn describe_end(data: &Value) -> String {
    match data.get("by").and_then(Value::as_str) {
        Some("timeout") => "No answer arrived in time.".to_owned(),
        Some(by) => format!("{by} has answered."),
        None => "It has ended.".to_owned(),
    }
}

/// A message without the reason of a rejection.
fn describe_rejection(data: &Value) -> String {
    match data.get("by").and_then(Value::as_str) {
        Some(by) => format!("{by} rejected it."),
        None => "It was rejected.".to_owned(),
    }
}

/// Keeps only these fields of an object, and nothing of another value.
fn keep_fields(data: &mut Value, shown: &[&str]) {
    match data.as_object_mut() {
        Some(fields) => fields.retain(|name, _| shown.contains(&name.as_str())),
        None => *data = Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::request;
    use super::*;
    use crate::testing::claims;
    use holdpoint_contracts::handoff::RequestView;

    fn asked(number: u32, step: Option<&str>, to: &str) -> RequestView {
        let mut asked = request();
        asked.id.number = number;
        asked.step = step.map(str::to_owned);
        asked.to = vec![to.to_owned()];
        (asked.also, asked.assignee, asked.asked_by) = (Vec::new(), None, Vec::new());
        asked
    }

    fn page(items: Vec<RequestView>) -> Option<Page<RequestView>> {
        Some(items.into())
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

    /// History items about one answer, which alone contains `s3cret`.
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
                Some("q"),
                "bob rejected it: s3cret.",
                json!({ "reason": "rejected", "by": "bob", "comment": "s3cret" }),
            ),
            item(
                EventType::StepRevised,
                Some("draft"),
                "bob sent q back: s3cret. draft runs again (revision 1 of 5).",
                json!({ "by": "bob", "instructions": "s3cret", "gated": "q", "revision": 1 }),
            ),
            item(
                EventType::RunAwaitingApproval,
                Some("q"),
                "q needs the approval of bob to call pay.",
                json!({ "request": id, "items": [{ "args": "s3cret" }] }),
            ),
            item(
                EventType::StepSkipped,
                Some("next"),
                "Skipped",
                json!({ "values": { "$q.answer": "s3cret", "contact.replied": true } }),
            ),
        ]
    }

    /// Mend A-M2: the history hides an answer from the same users as its request.
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
            let hidden = RunRedaction::of(&claims(user, roles), requests);
            for before in history() {
                let after = hidden.redact_item(before.clone());
                let text = serde_json::to_string(&after).unwrap();
                assert_eq!(text.contains("s3cret"), !is_hidden, "{user}: {text}");
                assert_eq!(after == before, !is_hidden, "{user}: {text}");
                assert!(
                    after.kind == EventType::StepSkipped || text.contains("bob"),
                    "{text}"
                );
            }
        }
        let hidden = RunRedaction::of(&claims("eva", &["viewer"]), requests());
        let wait = item(
            EventType::RunResumed,
            Some("wait"),
            "Going on.",
            json!({ "by": "time" }),
        );
        assert_eq!(hidden.redact_item(wait.clone()), wait);
        let resumed = item(
            EventType::RunResumed,
            None,
            "Resumed.",
            json!({ "mode": "now" }),
        );
        assert_eq!(hidden.redact_item(resumed.clone()), resumed);
    }

    /// Mend A-M2: what people were asked for before the first step, and what an operator left behind.
    #[test]
    fn paths_to_answers_are_known() {
        let mut first = asked(1, None, "@user.bob");
        first.reason = Some(MISSING_INPUT.to_owned());
        first.schema = Some(json!({ "properties": { "amount": {} } }));
        let hidden = RunRedaction::of(&claims("eva", &["viewer"]), page(vec![first]));
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
            assert_eq!(hidden.hides_path(path), is_hidden, "{path}");
        }
    }

    /// S2-R9: the list of results has the answers that are hidden in a child.
    #[test]
    fn the_results_of_a_fan_out_hide_what_a_child_hides() {
        let mut handed = asked(1, Some("each-1"), "@user.bob");
        handed.kind = HoldKind::Handoff;
        let hidden = RunRedaction::of(&claims("eva", &["viewer"]), page(vec![handed]));
        for (step, is_hidden) in [("each", true), ("each-1", true), ("each-2", false)] {
            assert_eq!(hidden.hides(step), is_hidden, "{step}");
            assert_eq!(hidden.handed_off.contains(step), is_hidden, "{step}");
        }
        assert!(hidden.hides_path("$each[1].notes"));
    }
}
