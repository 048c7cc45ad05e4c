//! Drives a run and its child runs through worlds of the tests, which keep effects by themselves.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::executor::{ChildRunState, DesiredChildRun};
use holdpoint_contracts::hold::{HoldOutcome, HoldSpec, HoldState, OnTimeout};
use holdpoint_contracts::run::{HoldKind, RunStatus};
use holdpoint_contracts::steps::{Grant, StepDispatch};
use holdpoint_ids::{HoldId, RunId};
use serde_json::{Value, json};

use super::super::world::{Heard, World, broken, child_end, closing, done, owner, run_id, user};
use super::{APPROVED_TOOL, AskedRequest, Course, Manners, People, ScriptedChange};
use crate::domain::plan::Plan;
use crate::domain::run::Signal;
use crate::domain::{RefusedChildRun, RunInput};

/// A run with what was seen of it.
struct Member {
    world: World,
    /// The step that has started it.
    place: String,
    /// Its dispatches, and the ends that it has reported.
    seen: (usize, usize),
    calls: BTreeMap<String, u32>,
}

/// The first run and its child runs. Each queue has what one service tells another, in order.
pub(super) struct Family {
    manners: Manners,
    start: DateTime<Utc>,
    now: DateTime<Utc>,
    members: BTreeMap<RunId, Member>,
    dispatched: VecDeque<StepDispatch>,
    desired: VecDeque<DesiredChildRun>,
    /// The newest revision of each desired state.
    wanted: BTreeMap<RunId, u64>,
    ends: VecDeque<Box<holdpoint_contracts::executor::ChildRunEnd>>,
    called: Vec<(i64, String, String, Value)>,
    /// Every hold on people so far: a closed one leaves the world.
    requests: BTreeMap<HoldId, AskedRequest>,
    in_advance: BTreeSet<HoldId>,
    runs: Vec<(i64, String)>,
}

impl Family {
    pub(super) fn course(plan: &Plan, manners: Manners) -> Course {
        let world = member_world(plan, run_id());
        let mut family = Self {
            manners,
            start: world.now,
            now: world.now,
            members: BTreeMap::new(),
            dispatched: VecDeque::new(),
            desired: VecDeque::new(),
            wanted: BTreeMap::new(),
            ends: VecDeque::new(),
            called: Vec::new(),
            requests: BTreeMap::new(),
            in_advance: BTreeSet::new(),
            runs: Vec::new(),
        };
        family.add(world, String::new());
        family.member(run_id()).world.start();
        for _ in 0..6_000 {
            family.collect();
            let first = family.members[&run_id()].world.run();
            if first.is_final() || !family.step() {
                break;
            }
            if family.now - family.start > TimeDelta::days(400) {
                break;
            }
        }
        let view = family.members[&run_id()].world.view();
        Course {
            calls: family.called,
            approved: u32::try_from(family.in_advance.len()).unwrap(),
            requests: family.requests.into_values().collect(),
            runs: family.runs,
            status: view.status,
            code: view.failure.map(|it| it.code),
        }
        .sorted()
    }

    fn add(&mut self, world: World, place: String) {
        let member = Member {
            place,
            seen: (0, 0),
            calls: BTreeMap::new(),
            world,
        };
        self.members.insert(member.world.id, member);
    }

    /// A member at the present time.
    fn member(&mut self, run: RunId) -> &mut Member {
        let member = self.members.get_mut(&run).unwrap();
        member.world.now = self.now;
        member
    }

    fn since_start(&self, at: DateTime<Utc>) -> i64 {
        (at - self.start).num_milliseconds()
    }

    fn placed(&self, run: RunId, step: &str) -> String {
        match self.members[&run].place.as_str() {
            "" => step.to_owned(),
            place => format!("{place}/{step}"),
        }
    }

    /// Takes what the last input has caused.
    fn collect(&mut self) {
        let at = self.since_start(self.now);
        let mut runs: Vec<RunId> = self.members.keys().copied().collect();
        // The first run is asked first.
        runs.sort_by_key(|run| *run != run_id());
        for run in runs {
            let member = &self.members[&run];
            let world = &member.world;
            let (handed, ended) = member.seen;
            self.dispatched
                .extend(world.handed[handed..].iter().cloned());
            let ends = world.child_ends[ended..].iter().cloned();
            self.ends.extend(ends.map(Box::new));
            let seen = (world.handed.len(), world.child_ends.len());
            let children: Vec<_> = world.children.values().cloned().collect();
            self.members.get_mut(&run).unwrap().seen = seen;
            for child in children {
                let newest = self.wanted.get(&child.run);
                if newest.is_some_and(|rev| *rev >= child.rev) {
                    continue;
                }
                if newest.is_none() {
                    self.runs.push((at, self.placed(run, &child.step)));
                }
                self.wanted.insert(child.run, child.rev);
                self.desired.push_back(child);
            }
            self.record_requests(run, at);
        }
    }

    fn record_requests(&mut self, run: RunId, at: i64) {
        let holds = self.members[&run].world.holds.clone();
        for (hold, (_, state)) in holds {
            let HoldState::Open { spec, deadline } = state else {
                continue;
            };
            if self.requests.contains_key(&hold) || self.in_advance.contains(&hold) {
                continue;
            }
            if run == run_id() && self.is_approved_in_advance(&spec) {
                self.in_advance.insert(hold);
                continue;
            }
            // The world has an approver with a name.
            let question = spec
                .question
                .replace("approval of ada", "approval of rehearsal");
            let place = &self.members[&run].place;
            let step = match &spec.step {
                Some(step) => Some(self.placed(run, step)),
                None => Some(place.clone()).filter(|place| !place.is_empty()),
            };
            let asked = AskedRequest {
                at,
                step,
                kind: spec.kind.to_string(),
                to: spec.to.clone(),
                question,
                deadline: deadline.map(|deadline| self.since_start(deadline)),
            };
            self.requests.insert(hold, asked);
        }
    }

    /// The rule of the handoff service in the words of this test: one voter, one tool, and so many uses.
    fn is_approved_in_advance(&self, spec: &HoldSpec) -> bool {
        let is_first = spec.kind == HoldKind::Approval && spec.asks_again.is_none();
        let left = self.manners.approved_in_advance as usize > self.in_advance.len();
        let is_covered = spec.items.len() == 1 && spec.items[0].tool.as_str() == APPROVED_TOOL;
        is_first && left && is_covered
    }

    /// Whether something happened.
    fn step(&mut self) -> bool {
        if let Some(dispatch) = self.dispatched.pop_front() {
            self.call(&dispatch);
        } else if let Some(desired) = self.desired.pop_front() {
            self.set_child(desired);
        } else if let Some(end) = self.ends.pop_front() {
            let parent = end.id.run;
            self.member(parent).world.give(RunInput::ChildRunEnded(end));
        } else {
            return self.next_due();
        }
        true
    }

    fn call(&mut self, dispatch: &StepDispatch) {
        let (step, number) = (dispatch.step.as_str(), dispatch.dispatch);
        let world = &mut self.member(dispatch.run).world;
        let grant = world.ask_as("node-a", step, number, 1);
        if !matches!(grant, Grant::Go | Grant::GoWithoutLease) {
            return;
        }
        let at = self.since_start(self.now);
        let placed = self.placed(dispatch.run, step);
        let (tool, args) = (dispatch.tool.to_string(), dispatch.args.clone());
        self.called.push((at, placed, tool, args));
        let fails = self.count(dispatch.run, step) == 1 && self.manners.fails_once;
        let result = if fails {
            broken()
        } else {
            done(json!({ "n": 1 }))
        };
        let world = &mut self.member(dispatch.run).world;
        world.report_as(step, number, result);
    }

    fn count(&mut self, run: RunId, step: &str) -> u32 {
        let calls = &mut self.member(run).calls;
        let calls = calls.entry(step.to_owned()).or_default();
        *calls += 1;
        *calls
    }

    fn set_child(&mut self, desired: DesiredChildRun) {
        let (run, hold, rev) = (desired.run, desired.hold, desired.rev);
        let is_known = self.members.contains_key(&run);
        if !is_known {
            if matches!(desired.state, ChildRunState::Cancelled { .. }) {
                return;
            }
            let Some(helper) = self.manners.helper.clone() else {
                return self.end_scripted(&desired);
            };
            let mut world = member_world(&helper, run);
            world
                .contact
                .clone_from(&self.members[&run_id()].world.contact);
            let place = self.place_of(&desired);
            self.add(world, place);
        }
        let heard = self
            .member(run)
            .world
            .give(RunInput::SetChildRun(Box::new(desired)));
        if let (Heard::Refused(refusal), false) = (heard, is_known) {
            let problem = refusal.problem();
            let place = self.runs_of(hold).iter().position(|child| *child == run);
            let refused = RefusedChildRun {
                hold,
                place: u32::try_from(place.unwrap()).unwrap(),
                rev,
                code: problem.code,
                message: problem.detail,
            };
            self.members.remove(&run);
            let refused = RunInput::ChildRunRefused(Box::new(refused));
            self.member(hold.run).world.give(refused);
        }
    }

    /// The runs of the step that waits with this hold.
    fn runs_of(&self, hold: HoldId) -> Vec<RunId> {
        let steps = &self.members[&hold.run].world.run().steps;
        let mut runs = steps.iter().filter_map(|step| step.child_runs.as_deref());
        let runs = runs.find(|runs| runs.hold == hold).unwrap();
        runs.runs.iter().map(|child| child.run).collect()
    }

    fn place_of(&self, desired: &DesiredChildRun) -> String {
        let step = self.placed(desired.hold.run, &desired.step);
        let runs = self.runs_of(desired.hold);
        let place = runs.iter().position(|child| *child == desired.run).unwrap();
        match runs.len() {
            1 => step,
            _ => format!("{step}.{}", place + 1),
        }
    }

    fn end_scripted(&mut self, desired: &DesiredChildRun) {
        let fails = self.count(desired.hold.run, &desired.step) == 1 && self.manners.fails_once;
        let status = match fails {
            true => RunStatus::Failed,
            false => RunStatus::Completed,
        };
        // A scripted child uses no budget.
        let mut end = child_end(desired.run, desired.hold, status);
        (end.steps, end.cost) = (0, 0.0);
        self.ends.push_back(Box::new(end));
    }

    /// The next change, timer, answer or deadline.
    fn next_due(&mut self) -> bool {
        let members = self.members.values();
        let next = members.filter_map(|member| self.due_of(member)).min();
        if self.change_before(next.map(|(due, ..)| due)) {
            return true;
        }
        let Some((due, what, hold)) = next else {
            return false;
        };
        self.now = self.now.max(due);
        let world = &mut self.member(hold.run).world;
        if what == 0 {
            let (rev, _) = world.timers[&hold];
            world.fire(hold, rev);
        } else {
            self.close(hold);
        }
        true
    }

    fn due_of(&self, member: &Member) -> Option<(DateTime<Utc>, i32, HoldId)> {
        let world = &member.world;
        let run = world.run.as_ref()?;
        let timers = world.timers.iter();
        let timers = timers.filter_map(|(hold, (_, due))| Some(((*due)?, 0, *hold)));
        let people = run.people().filter_map(|(_, on)| {
            if self.in_advance.contains(&on.id) {
                return Some((on.since, 1, on.id));
            }
            let answer = on.since + TimeDelta::hours(1);
            let ends = on
                .deadline()
                .filter(|_| on.on_timeout != OnTimeout::Escalate);
            let is_silent = self.manners.people == People::Silent;
            let due = ends
                .into_iter()
                .chain((!is_silent).then_some(answer))
                .min()?;
            Some((due, 1, on.id))
        });
        timers.chain(people).min()
    }

    /// Applies the next change unless something is due before it.
    fn change_before(&mut self, due: Option<DateTime<Utc>>) -> bool {
        let Some(entry) = self.manners.changes.first_entry() else {
            return false;
        };
        let at = self.start + TimeDelta::hours((*entry.key()).into());
        if due.is_some_and(|due| due < at) {
            return false;
        }
        let (hours, change) = entry.remove_entry();
        self.now = self.now.max(at);
        let below = self.members.keys().copied().filter(|run| *run != run_id());
        let runs: Vec<_> = [run_id()].into_iter().chain(below).collect();
        for member in self.members.values_mut() {
            if let ScriptedChange::Reply(replied) = change {
                member.world.contact.as_mut().unwrap()["replied"] = json!(replied);
            }
        }
        for run in runs {
            let input = match change {
                // Only a reply reaches the runs of a contact.
                ScriptedChange::Reply(false) => continue,
                ScriptedChange::Reply(true) => RunInput::ContactReplied,
                ScriptedChange::Signal => RunInput::Signal {
                    by: owner(),
                    signal: Signal {
                        name: "go".to_owned(),
                        data: json!({ "n": hours }),
                        key: None,
                    },
                },
            };
            let world = &mut self.member(run).world;
            if world.run.is_some() {
                world.give(input);
            }
        }
        true
    }

    fn close(&mut self, hold: HoldId) {
        let (is_approved, people) = (self.in_advance.contains(&hold), self.manners.people);
        let now = self.now;
        let world = &mut self.member(hold.run).world;
        let spec = match &world.holds[&hold].1 {
            HoldState::Open { spec, .. } => spec.clone(),
            other => panic!("{other:?}"),
        };
        if is_approved {
            let mut closing = closing(HoldOutcome::Approved, json!("in advance"), now);
            closing.by = "owner".to_owned();
            world.close_at(hold, closing);
            return;
        }
        let on = world.run().people().find(|(_, on)| on.id == hold);
        let (_, on) = on.unwrap();
        let is_answered = people != People::Silent && on.since + TimeDelta::hours(1) <= now;
        let (outcome, data) = match (is_answered, on.kind) {
            (false, _) => (HoldOutcome::Timeout, Value::Null),
            (true, HoldKind::Approval) if people == People::Reject => {
                (HoldOutcome::Rejected, json!(""))
            }
            (true, HoldKind::Approval) => (HoldOutcome::Approved, json!("")),
            (true, HoldKind::Handoff) => (
                HoldOutcome::Completed,
                json!({ "notes": "", "outcome_type": "resolved", "disposition": "return_to_agent" }),
            ),
            (true, _) => (HoldOutcome::Answered, answer(&spec)),
        };
        world.close_as(hold, outcome, data);
    }
}

/// The owner of a standing approval may decide.
fn member_world(plan: &Plan, run: RunId) -> World {
    let mut world = World::of_plan(plan.clone());
    world.id = run;
    world
        .users
        .insert("owner".to_owned(), user(true, &["owner"]));
    world
}

fn answer(spec: &HoldSpec) -> Value {
    if spec.schema.is_some() {
        return json!({ "region": "text" });
    }
    let option = spec.options.first().map(|option| json!(option));
    spec.default.clone().or(option).unwrap_or(json!("Yes"))
}
