//! Runs as one user may see them. A run hides the answers that its requests hide from the same user: in its steps, its
//! input and its history (A-M2). Inputs of later steps stay visible.

use std::collections::BTreeSet;

use holdpoint_auth::{Claims, Right};
use holdpoint_contracts::executor::GetRun;
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
/// Fields of the result of a child run that every reader sees.
const RUN_RESULT_SHOWN: [&str; 4] = ["run", "agent", "status", "summary"];
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
    /// Steps that start runs. The outputs of these runs may contain answers that the runs hide.
    run_steps: BTreeSet<String>,
    /// Not all requests are known, so everything that may be an answer is hidden.
    is_incomplete: bool,
}

impl App {
    /// The redaction of a run for a user; none for operators and steps. It must be read after the run, so that it
    /// includes all requests of the run. Without its steps, the outputs of child runs are known only to
    /// [`RunRedaction::redact_run`].
    pub(crate) async fn redaction_of(
        &self,
        workspace: &Workspace,
        user: Option<&Claims>,
        run: RunId,
        steps: &[StepView],
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
        Some(RunRedaction::of(claims, found.ok(), steps))
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
        .redaction_of(&reader.workspace, reader.user(), run, &[]);
    let Some(mut redaction) = redaction.await else {
        return items;
    };
    // Only the values of a condition have paths.
    if items.iter().any(|item| item.data.get("values").is_some()) {
        match reader.query(GetRun::of(run)).await {
            Ok(view) => redaction.run_steps = run_steps(&view.steps),
            Err(_unreadable) => redaction.is_incomplete = true,
        }
    }
    let items = items.into_iter();
    items.map(|item| redaction.redact_item(item)).collect()
}

impl RunRedaction {
    fn of(claims: &Claims, requests: Option<Page<RequestView>>, steps: &[StepView]) -> Self {
        let Some(requests) = requests else {
            return Self {
                is_incomplete: true,
                ..Self::default()
            };
        };
        let mut redaction = Self {
            is_incomplete: requests.next_cursor.is_some(),
            run_steps: run_steps(steps),
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
        let has_child_runs = run.steps.iter().any(starts_runs);
        let hides_any = self.is_incomplete || !self.steps.is_empty() || has_child_runs;
        if let Some(result) = run.result.as_mut().filter(|_| hides_any) {
            remove_output(result);
        }
        for step in &mut run.steps {
            self.redact_step(step);
            // Outputs of child runs are shown, or hidden, with these runs.
            if starts_runs(step) || (step.kind == "finish" && hides_any) {
                Self::redact_output(step);
            }
        }
        run
    }

    /// An output may contain answers.
    fn redact_output(step: &mut StepView) {
        let Some(response) = &mut step.response else {
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
            (step, _) if self.hides(step) => true,
            (step, member) => {
                self.run_steps.contains(step) && !is_shown_of_run(member.into_iter().chain(parts))
            }
        }
    }
}

/// After a migration, the step may be of another kind.
fn starts_runs(step: &StepView) -> bool {
    step.kind == "run" || !step.child_runs.is_empty()
}

fn run_steps(steps: &[StepView]) -> BTreeSet<String> {
    let steps = steps.iter().filter(|step| starts_runs(step));
    steps.map(|step| step.id.clone()).collect()
}

/// Whether every reader sees this part of the result of a child run: `.status`, or `[2].status` of a list.
fn is_shown_of_run<'p>(members: impl Iterator<Item = &'p str>) -> bool {
    let mut members = members.map(|part| part.trim_end_matches(']').trim_matches('"'));
    let first = members.next();
    let is_place = first.is_some_and(|part| part.bytes().all(|digit| digit.is_ascii_digit()));
    let member = if is_place { members.next() } else { first };
    member.is_some_and(|member| RUN_RESULT_SHOWN.contains(&member))
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
mod tests;
