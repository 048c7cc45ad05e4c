//! Whether a gated step may be dispatched (S2-R3): what was approved is what runs, else it is asked again.
//!
//! A step is gated if its tool has the risk `high`, or if its author wrote `approval`. No setting opens the
//! gate.

use std::sync::Arc;

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{ApprovalItem, HoldSpec, OnTimeout};
use holdpoint_contracts::instant;
use holdpoint_contracts::run::{ApprovalState, HoldKind};
use holdpoint_contracts::size::json_bytes;
use holdpoint_contracts::tool::{Risk, built_in_risk};
use holdpoint_contracts::value_limits::{EXACT_INTEGER_MAX, has_inexact_integer};
use holdpoint_holds::limits::APPROVED_ARGS_BYTES_MAX;
use holdpoint_holds::redaction::{ARGS, hides_any, redact, restore};
use holdpoint_ids::{HoldId, ToolName};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::domain::decision::Lookup;
use crate::domain::model::plan::PlannedStep;
use crate::domain::model::plan::person_steps::{ApprovalRule, whom};
use crate::domain::model::run::{
    ApprovalDecision, ChildOf, Run, Step, StepApproval, StepPhase, edited_args_name,
    original_args_name,
};
use crate::domain::model::step_row::CalledTool;
use crate::domain::model::tool::{ToolEntry, is_built_in};
use crate::domain::need::{Fact, Need};
use crate::domain::rules::approver_rights::{LostVote, find_lost_vote, voter_needs};
use crate::domain::rules::fail_step::fail_step;
use crate::domain::rules::open_hold::{next_hold_id, open_hold, steps_left};
use crate::domain::rules::revisions::revised_step;
use crate::domain::rules::run_plan::{INVALID_PLAN, PlanApproval, plan_approval};
use crate::domain::step_response::{question_data, success};
use crate::domain::text::cut;
use crate::domain::transition::{RowData, RunTransition};

/// Longest error of an edited plan in a question, in characters.
const PLAN_ERROR_CHARS_MAX: usize = 1_000;

/// A call that is about to be dispatched.
#[derive(Debug, Clone)]
pub(crate) struct ToolCall<'a> {
    pub(crate) tool: &'a ToolName,
    pub(crate) entry: &'a ToolEntry,
    pub(crate) args: Value,
}

/// What the gate says of a call.
#[derive(Debug, PartialEq)]
pub(crate) enum Gate {
    /// The step needs no approval.
    Ungated(Value),
    /// It was approved with these arguments.
    Approved(Value),
    /// People are asked, or the step has failed.
    Closed,
}

impl ToolCall<'_> {
    /// What counts for the call, for the row of its step.
    pub(crate) fn called(&self, planned: &PlannedStep, step: &Step) -> CalledTool {
        let name = self.tool.as_str();
        let risk = if step.is_high_risk {
            Risk::High
        } else if is_built_in(name) {
            built_in_risk(name)
        } else {
            self.entry.risk()
        };
        CalledTool {
            risk,
            waiting_confirm: self.rule(planned, step).is_some(),
            app: self.entry.app(self.tool),
            credential_id: self.entry.credentials().join(","),
            redaction: self.entry.redaction(),
        }
    }

    fn digest(&self, args: &Value) -> Option<String> {
        call_digest(self.tool, self.entry.version().as_deref(), args)
    }

    /// Who approves it; none: it needs no approval.
    fn rule(&self, planned: &PlannedStep, step: &Step) -> Option<ApprovalRule> {
        let is_risky = step.is_high_risk || self.entry.risk() == Risk::High;
        let of_author = planned.approval.as_deref().cloned();
        of_author.or_else(|| is_risky.then(ApprovalRule::default))
    }
}

/// SHA-256, as hex, of the RFC 8785 form of a call; none: the form does not keep a number of it exactly.
pub(crate) fn call_digest(tool: &ToolName, version: Option<&str>, args: &Value) -> Option<String> {
    if has_inexact_integer(args) {
        return None;
    }
    let call = json!({ "tool": tool, "version": version, "args": args });
    let canonical = serde_json_canonicalizer::to_vec(&call).ok()?;
    Some(format!("{:x}", Sha256::digest(&canonical)))
}

/// Lets an approved call pass, and asks people about any other gated one.
pub(crate) fn pass_gate(
    transition: &mut RunTransition<'_>,
    index: usize,
    planned: &PlannedStep,
    call: ToolCall<'_>,
) -> Gate {
    let step = transition.step(index);
    let rule = step.and_then(|step| Some((step.id.clone(), call.rule(planned, step)?)));
    let Some((id, rule)) = rule else {
        return Gate::Ungated(call.args);
    };
    let Some(digest) = call.digest(&call.args) else {
        let message = format!(
            "the arguments have an integer beyond {EXACT_INTEGER_MAX}, which cannot be approved exactly; write it as a text"
        );
        fail_step(transition, index, "inexact_integer", &message, None);
        return Gate::Closed;
    };
    if let Some(approved) = approved_args(transition, index, &digest, &call) {
        return Gate::Approved(approved);
    }
    let bytes = json_bytes(&call.args);
    if bytes > APPROVED_ARGS_BYTES_MAX {
        let message = format!(
            "the arguments are {bytes} bytes of JSON; at most {APPROVED_ARGS_BYTES_MAX} can be approved"
        );
        fail_step(transition, index, "arguments_too_large", &message, None);
        return Gate::Closed;
    }
    let plan = match plan_approval(transition, call.tool, &call.args) {
        Ok(plan) => plan,
        Err(message) => {
            fail_step(transition, index, INVALID_PLAN, &message, None);
            return Gate::Closed;
        }
    };
    let called = (transition.step(index)).map(|step| Box::new(call.called(planned, step)));
    let mut shown = call.args.clone();
    redact(&mut shown, ARGS, &call.entry.redaction());
    // Also if the call has no hidden argument now: an approver must not add one.
    let mut hidden = call.entry.redaction();
    if !hides_any(ARGS, &hidden) {
        hidden.clear();
    }
    let item = ApprovalItem {
        id,
        parent: parent_id(transition, index),
        notified_with: open_sibling(transition, index),
        tool: call.tool.clone(),
        version: call.entry.version(),
        args_schema: match &plan {
            Some(plan) => Some(plan.args_schema.clone()),
            None => call.entry.args_schema().cloned(),
        },
        args: shown,
        redaction: hidden,
        digest,
    };
    let asked = AskedCall {
        item,
        plan,
        args: call.args,
        called,
    };
    ask_approval(transition, index, &rule, asked);
    Gate::Closed
}

/// Whether a call with the arguments of an earlier dispatch may be dispatched again.
pub(crate) fn may_repeat(
    transition: &RunTransition<'_>,
    index: usize,
    planned: &PlannedStep,
    call: &ToolCall<'_>,
) -> bool {
    let Some(step) = transition.step(index) else {
        return false;
    };
    if call.rule(planned, step).is_none() {
        return true;
    }
    let approval = step.approval.as_deref();
    let valid =
        approval.and_then(|approval| Some((approval, approval.valid_decision(transition.now)?)));
    valid.is_some_and(|(approval, decision)| {
        let approved = decision.edited_digest.as_ref().unwrap_or(&approval.digest);
        find_lost_vote(transition, decision).is_none()
            && call.digest(&call.args).as_ref() == Some(approved)
    })
}

/// The arguments with which an approval permits this call.
fn approved_args(
    transition: &mut RunTransition<'_>,
    index: usize,
    digest: &str,
    call: &ToolCall<'_>,
) -> Option<Value> {
    let step = transition.step(index)?;
    let id = step.id.clone();
    let approval = step.approval.as_deref()?;
    let decision = approval.valid_decision(transition.now)?.clone();
    if find_lost_vote(transition, &decision).is_some() {
        return None;
    }
    // A later dispatch has the edited arguments already.
    if decision.edited_digest.as_deref() == Some(digest) {
        return Some(call.args.clone());
    }
    if approval.digest != digest {
        return None;
    }
    if !decision.is_edited {
        return Some(call.args.clone());
    }
    let hidden = call.entry.redaction();
    let edited = edited_args(transition, &id)?;
    let edited = restore(&edited, &call.args, &hidden)?;
    if plan_approval(transition, call.tool, &edited).is_err() {
        return None;
    }
    let edited_digest = call.digest(&edited)?;
    transition.value(original_args_name(&id), call.args.clone());
    let approval = transition.step_mut(index)?.approval.as_mut()?;
    approval.decision.as_mut()?.edited_digest = Some(edited_digest);
    Some(edited)
}

/// The arguments that a person has edited.
fn edited_args(transition: &RunTransition<'_>, step: &str) -> Option<Arc<Value>> {
    let need = Need::Value(transition.run.id, edited_args_name(step));
    match transition.lookup(&need) {
        Lookup::Found(Fact::Value(edited)) => Some(edited),
        Lookup::Found(_) | Lookup::Missing | Lookup::NotLoaded => None,
    }
}

/// What the gate of a step looks up.
pub(crate) fn gate_needs(run: &Run, step: &Step) -> Vec<Need> {
    let decision = step.approval.as_deref().and_then(StepApproval::approval);
    let Some(decision) = decision else {
        return Vec::new();
    };
    let is_edited = decision.is_edited;
    let edited = is_edited.then(|| Need::Value(run.id, edited_args_name(&step.id)));
    let voters = voter_needs(run, decision);
    voters.into_iter().chain(edited).collect()
}

/// Whether a dispatched gated step may start at this instant. `input_needs` loads its voters.
pub(crate) fn may_start_gated(transition: &RunTransition<'_>, step: &Step) -> bool {
    let approval = step.approval.as_deref();
    let decision = approval.and_then(|approval| approval.valid_decision(transition.now));
    decision.is_some_and(|decision| find_lost_vote(transition, decision).is_none())
}

fn parent_id(transition: &RunTransition<'_>, index: usize) -> Option<String> {
    let of = transition.step(index)?.child_of?;
    transition.step(of.parent).map(|parent| parent.id.clone())
}

/// The open request of another child of the same step, whose own notification covers a further child. A call that is
/// asked again has a notification of its own.
fn open_sibling(transition: &RunTransition<'_>, index: usize) -> Option<HoldId> {
    let step = transition.step(index)?;
    let parent = step.child_of.filter(|_| step.approval.is_none())?.parent;
    let is_sibling = |of: Option<ChildOf>| of.is_some_and(|of| of.parent == parent);
    let steps = transition.run.steps.iter();
    let mut siblings = steps.filter(|step| is_sibling(step.child_of));
    siblings.find_map(|step| {
        let on = step.phase.try_as_awaiting_person_ref()?;
        step.approval.as_ref().filter(|asked| !asked.is_covered)?;
        (on.kind == HoldKind::Approval && on.closing.is_none()).then_some(on.id)
    })
}

/// A call that people are asked about.
struct AskedCall {
    item: ApprovalItem,
    /// Of a call that starts a plan.
    plan: Option<PlanApproval>,
    /// With the hidden parts.
    args: Value,
    called: Option<Box<CalledTool>>,
}

/// What its tool saved for a call with other arguments is not for the new call.
fn drop_part_of_other_call(step: &mut Step, digest: &str) {
    let asked = step.approval.as_deref();
    if asked.is_some_and(|asked| asked.digest != digest) {
        step.saved_part = None;
    }
}

/// Opens the request for an approval. An earlier approval is void from here on.
fn ask_approval(
    transition: &mut RunTransition<'_>,
    index: usize,
    rule: &ApprovalRule,
    asked: AskedCall,
) {
    let id = next_hold_id(&mut transition.run);
    let void = void_reason(transition, index, &asked);
    let AskedCall {
        item,
        plan,
        args,
        called,
    } = asked;
    let earlier = earlier_request(transition, index);
    let agent = &transition.run.agent;
    let (step, tool) = (item.id.clone(), item.tool.clone());
    let (title, wish) = match &plan {
        Some(plan) => (plan.title.clone(), plan.wish.clone()),
        None => (tool.to_string(), format!("call {tool}")),
    };
    let left = plan.as_ref().map(|plan| plan.length);
    let left = left.unwrap_or_else(|| steps_left(transition, index));
    let (again, list) = (text_of_void(void.as_deref()), text_of_list(&item));
    let spec = HoldSpec {
        step: Some(step.clone()),
        agent: Some(agent.clone()),
        title: Some(format!("Approve {title}")),
        to: rule.from.clone(),
        on_timeout: OnTimeout::Escalate,
        requester: Some(transition.run.started_by.0.clone()),
        policy: rule.votes,
        policies: rule.policies.clone(),
        time_by_policy: rule.time_by_policy,
        steps_left: Some(left),
        context: plan.map(|plan| plan.context).unwrap_or_default(),
        items: vec![item.clone()],
        revises: source_of(transition, index),
        asks_again: earlier,
        ..HoldSpec::asking(
            HoldKind::Approval,
            format!("Agent {agent} wants to {wish} ({step}).{again}{list}"),
        )
    };
    let on = open_hold(transition, id, &spec, Some(rule.decide_within_ms));
    let to = whom(&rule.from);
    let description = format!("{step} needs the approval of {to} to {wish}.{again}");
    let data = json!({
        "request": id, "deadline": on.deadline().map(instant::write), "to": rule.from, "items": [item],
    });
    let row = RowData {
        tool: Some(tool.to_string()),
        called,
        request: Some(args),
        ..RowData::response(success(description.clone(), question_data(&on), 0))
    };
    if let Some(step) = transition.step_mut(index) {
        drop_part_of_other_call(step, &item.digest);
        step.approval = Some(Box::new(StepApproval {
            hold: id,
            digest: item.digest,
            valid_ms: rule.valid_ms,
            valid_by_policy: rule.valid_by_policy,
            state: ApprovalState::Requested,
            decision: None,
            is_covered: item.notified_with.is_some(),
        }));
    }
    transition.set_phase(index, StepPhase::AwaitingPerson(Box::new(on)), row);
    transition.event(
        EventType::RunAwaitingApproval,
        Some(&step),
        description,
        data,
    );
}

/// The last request about the call.
fn earlier_request(transition: &RunTransition<'_>, index: usize) -> Option<HoldId> {
    let step = transition.step(index)?;
    step.approval.as_deref().map(|approval| approval.hold)
}

/// Why people are asked once more; empty: they are asked for the first time.
fn text_of_void(void: Option<&str>) -> String {
    void.map(|why| format!(" {why}")).unwrap_or_default()
}

/// Where the other calls of a list are.
fn text_of_list(item: &ApprovalItem) -> String {
    let parent = item.parent.as_ref();
    let list = parent.map(|parent| format!(" The page of the run lists the calls of {parent}."));
    list.unwrap_or_default()
}

/// The step that runs again if a person sends the arguments back.
fn source_of(transition: &RunTransition<'_>, index: usize) -> Option<String> {
    let plan = transition.plan().ok()?;
    let source = revised_step(&plan.plan, &transition.run, index)?;
    transition.step(source).map(|step| step.id.clone())
}

/// Why a plan that a person edited cannot start, cut for the question.
fn edited_plan_error(
    transition: &RunTransition<'_>,
    decision: &ApprovalDecision,
    item: &ApprovalItem,
) -> Option<String> {
    if !decision.is_edited {
        return None;
    }
    let edited = edited_args(transition, &item.id)?;
    let error = plan_approval(transition, &item.tool, &edited).err()?;
    Some(cut(&error, PLAN_ERROR_CHARS_MAX))
}

/// Whether a person has edited the arguments so that their hidden parts are not known.
fn has_lost_hidden_part(
    transition: &RunTransition<'_>,
    decision: &ApprovalDecision,
    item: &ApprovalItem,
    args: &Value,
) -> bool {
    let edited = edited_args(transition, &item.id).filter(|_| decision.is_edited);
    edited.is_some_and(|edited| restore(&edited, args, &item.redaction).is_none())
}

/// Why the earlier approval of a step does not permit the call.
fn void_reason(
    transition: &RunTransition<'_>,
    index: usize,
    AskedCall { item, args, .. }: &AskedCall,
) -> Option<String> {
    let approval = transition.step(index)?.approval.as_deref()?;
    if approval.state == ApprovalState::Revised {
        // The instructions are seen by those who see the earlier request.
        let by = &approval.decision.as_ref()?.by;
        return Some(format!("{by} sent the earlier call back."));
    }
    let decision = approval.approval()?;
    let by = &decision.by;
    let digest = item.digest.as_str();
    let is_same = approval.digest == digest || decision.edited_digest.as_deref() == Some(digest);
    Some(if !is_same {
        format!("The approval of {by} is void, because the call has changed.")
    } else if approval.valid_decision(transition.now).is_none() {
        let edited = if decision.is_edited {
            ", with edited arguments,"
        } else {
            ""
        };
        format!("The approval of {by}{edited} has expired.")
    } else if has_lost_hidden_part(transition, decision, item, args) {
        format!("The approval of {by} is void, because the edited arguments move a hidden part.")
    } else if let Some(error) = edited_plan_error(transition, decision, item) {
        format!("The plan was not started as {by} edited it, because {error}")
    } else {
        let lost = find_lost_vote(transition, decision)?;
        let LostVote { by: voter, reason } = lost;
        format!("The approval of {by} is void, because {voter} {reason}.")
    })
}
