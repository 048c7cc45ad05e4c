//! Rehearsals: the runs of an agent on a clock of their own. Nothing is sent.

mod changes;
mod stored;

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, ContactId, StandingApprovalId, UserName};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::contact::CONTACT_BYTES_MAX;
use crate::handoff::{PolicyView, StandingApprovalView};
use crate::history::EventType;
use crate::hold::RungAct;
use crate::problem::Problem;
use crate::run::{HoldKind, RunStatus};
use crate::size::json_bytes;

pub use changes::{RehearsalChange, RehearsalChanges, RehearsedAct, time_between};
pub use stored::{
    KEPT_DAYS, KEPT_MAX, RehearsalDetail, RehearsalStatus, STORED_BYTES_MAX, STORED_CONTACTS_MAX,
    STORED_SECONDS_MAX, StoredRehearsal,
};

/// Most contacts of one request to an executor. A caller with more sends several.
pub const CONTACTS_MAX: usize = 100;

/// Longest script, in bytes.
pub const SCRIPT_BYTES_MAX: usize = 64 * 1024;

/// Longest time of one request, in seconds. The reply has the number of contacts that are left then.
pub const SECONDS_MAX: u64 = 10;

/// Longest wait for other rehearsals, in seconds.
pub const WAIT_SECONDS_MAX: u64 = 12;

/// Longest time until the reply, in seconds.
pub const REPLY_SECONDS_MAX: u64 = SECONDS_MAX + WAIT_SECONDS_MAX + 3;

/// Longest rehearsed time of a run, in days.
pub const RUN_DAYS_MAX: i64 = 400;

/// Most rounds of a rehearsed run: calls, timers, answers and changes.
pub const RUN_ROUNDS_MAX: usize = 20_000;

/// Most memory that a rehearsed run keeps, in MiB, as an estimate.
pub const RUN_MIB_MAX: usize = 64;

/// Most contacts that a text names.
const NAMED_MAX: usize = 5;

/// The first contacts, and the number of the others: `ada, bob and 36 more`.
pub fn contact_names<'c>(contacts: impl ExactSizeIterator<Item = &'c ContactId>) -> String {
    let more = contacts.len().saturating_sub(NAMED_MAX);
    let named: Vec<_> = contacts.take(NAMED_MAX).map(ToString::to_string).collect();
    let named = named.join(", ");
    match more {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Rehearses an agent with each of some contacts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RehearseAgent {
    /// The agent, YAML or JSON; none: the newest version of `agent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// An agent of the workspace; either this or `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// A version of `agent`; none: the newest one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// 1 to [`CONTACTS_MAX`].
    pub contacts: Vec<RehearsalContact>,
    /// What people, tools and contacts do, YAML or JSON; none: the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// When every run starts; none: at the beginning of this minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(with = "crate::instant::option")]
    pub start_at: Option<DateTime<Utc>>,
    /// Longest time of one reply, 1 to [`SECONDS_MAX`]; none: the longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// Policies of the workspace that the agent may name. The gateway adds them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<PolicyView>,
    /// Active standing approvals of the workspace, with their uses by earlier runs of the rehearsal. The gateway adds them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub standing_approvals: Vec<StandingApprovalView>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RehearsalContact {
    pub id: ContactId,
    /// Everything but the id.
    #[serde(default)]
    pub fields: Map<String, Value>,
}

/// Checks the contacts of a request that takes at most `max`.
///
/// # Errors
/// 422 for a wrong number of contacts, for one that is too large, and for one that is given twice.
pub fn check_contacts(contacts: &[RehearsalContact], max: usize) -> Result<(), Problem> {
    let count = contacts.len();
    if count == 0 || count > max {
        return Err(Problem::invalid_body(format!(
            "`contacts` has {count} entries; expected 1 to {max}"
        )));
    }
    let mut ids = BTreeSet::new();
    for contact in contacts {
        let id = &contact.id;
        if json_bytes(&contact.fields) > CONTACT_BYTES_MAX {
            let detail = format!("the contact {id} has more than {CONTACT_BYTES_MAX} bytes");
            return Err(Problem::invalid_body(detail));
        }
        if !ids.insert(id) {
            let detail = format!("the contact {id} is given twice; expected each contact once");
            return Err(Problem::invalid_body(detail));
        }
    }
    Ok(())
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rehearsal {
    pub agent: AgentName,
    /// None: the agent was given as a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    #[serde(with = "crate::instant")]
    pub started_at: DateTime<Utc>,
    /// The ids of the steps, in the order of the plan.
    pub steps: Vec<String>,
    /// One of each rehearsed contact, in the order of the request.
    pub runs: Vec<RehearsedRun>,
    /// Contacts at the end of the request that were not rehearsed: time or size was used up, or the next one fails.
    pub contacts_left: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RehearsedRun {
    pub contact: ContactId,
    /// At the end of the rehearsal. A run may still wait.
    pub status: RunStatus,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// One sentence: its end, or what it waits for.
    pub message: String,
    #[serde(default, with = "crate::instant::option")]
    pub ended_at: Option<DateTime<Utc>>,
    /// The steps of the plan that did something: they called a tool, waited or asked people.
    pub steps_reached: Vec<String>,
    /// The steps that its planner made, after those of the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub generated_steps: Vec<String>,
    /// How many calls each tool gets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<String, u64>,
    /// How many requests each recipient gets, with the tasks that tools create.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, u64>,
    /// How many requests each active user gets. A user whom several recipients of a request mean gets it once.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub users: BTreeMap<UserName, u64>,
    /// Roles without an active user to whom requests are addressed.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub empty_roles: BTreeSet<String>,
    /// How often the run uses each standing approval.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub standing_approvals: BTreeMap<StandingApprovalId, u32>,
    /// Why the rehearsal stopped before the end of the run, if a limit stopped it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<RehearsalLimit>,
    pub timeline: Vec<RehearsedEvent>,
    /// Entries that the timeline does not have, because it is full.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub events_left: u64,
}

/// A limit that ends the rehearsal of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RehearsalLimit {
    /// [`RUN_DAYS_MAX`]
    Time,
    /// [`RUN_ROUNDS_MAX`]
    Rounds,
    /// [`RUN_MIB_MAX`]
    Memory,
}

impl RehearsalLimit {
    /// The limit in words.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            Self::Time => format!("the run lasts longer than {RUN_DAYS_MAX} days"),
            Self::Rounds => format!("the run takes more than {RUN_ROUNDS_MAX} rounds"),
            Self::Memory => format!("the run keeps more than {RUN_MIB_MAX} MiB"),
        }
    }
}

/// One entry of the timeline of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RehearsedEvent {
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
    #[serde(rename = "type")]
    pub kind: EventType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    pub message: String,
    /// The end of the wait that begins here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(with = "crate::instant::option")]
    pub until: Option<DateTime<Utc>>,
    /// What a real run would have sent here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outgoing: Option<Outgoing>,
}

/// What a real run would send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outgoing {
    /// A call of a tool, such as a mail.
    Call {
        tool: String,
        /// Resolved; a large text is cut.
        args: Value,
    },
    /// A request to people.
    Request {
        request: HoldKind,
        /// `@user.<name>`, `@role.<name>`; empty: the owners of the workspace.
        to: Vec<String>,
        question: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[serde(with = "crate::instant::option")]
        deadline: Option<DateTime<Utc>>,
    },
    /// A standing approval decides the request of a gated call. No recipient is notified of it.
    ApprovedInAdvance {
        approval: StandingApprovalId,
        /// Who has created it.
        by: UserName,
        /// Of this use, from 1.
        number: u32,
        max_uses: u32,
    },
    /// A rung of the ladder of a request, or its deadline: users are notified of the request.
    Escalation {
        request: HoldKind,
        act: RungAct,
        /// Empty: the owners of the workspace.
        to: Vec<String>,
    },
    /// The start of a run of another agent.
    ChildRun { agent: AgentName },
}

impl RehearsedRun {
    /// Whether the run ended, and no person had a request of it.
    #[must_use]
    pub fn ended_unseen(&self) -> bool {
        self.ended_at.is_some() && self.requests.is_empty()
    }

    /// What a real run would send, in order.
    pub fn outgoing(&self) -> impl Iterator<Item = &Outgoing> {
        self.timeline
            .iter()
            .filter_map(|event| event.outgoing.as_ref())
    }
}

/// The owners of a workspace, as recipients of requests that name none.
pub const OWNERS: &str = "@owners";

/// What a rehearsal means over all contacts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RehearsalSummary {
    /// How many calls each tool gets.
    pub calls: BTreeMap<String, u64>,
    /// How many requests each recipient gets.
    pub requests: BTreeMap<String, u64>,
    /// How many requests each active user gets, from all recipients.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub users: BTreeMap<UserName, u64>,
    /// Roles without an active user to whom requests are addressed.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub empty_roles: BTreeSet<String>,
    /// How often each standing approval is used.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub standing_approvals: BTreeMap<StandingApprovalId, u64>,
    /// Steps that no contact reached.
    pub unreached_steps: Vec<String>,
    /// Contacts whose run ends, and no person has a request of it.
    pub ended_unseen: Vec<ContactId>,
    /// Contacts whose run does not end.
    pub unended: Vec<ContactId>,
}

/// A rehearsal with its summary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RehearsalReport {
    #[serde(flatten)]
    pub rehearsal: Rehearsal,
    pub summary: RehearsalSummary,
}

impl From<Rehearsal> for RehearsalReport {
    fn from(rehearsal: Rehearsal) -> Self {
        Self {
            summary: rehearsal.summary(),
            rehearsal,
        }
    }
}

impl RehearsedEvent {
    /// Whether it only says again what its neighbours say.
    #[must_use]
    pub const fn is_minor(&self) -> bool {
        matches!(
            self.kind,
            EventType::RunStarted | EventType::StepSucceeded | EventType::RunResumed
        ) && self.outgoing.is_none()
    }

    /// What it does and when, without the words that differ by contact.
    fn course(&self, start: DateTime<Utc>) -> String {
        let outgoing = self.outgoing.as_ref().map(|outgoing| match outgoing {
            Outgoing::Call { tool, .. } => format!("call {tool}"),
            Outgoing::Request { request, to, .. } => format!("{request} {}", to.join(" ")),
            Outgoing::ApprovedInAdvance { approval, .. } => format!("approval by {approval}"),
            Outgoing::Escalation { act, to, .. } => format!("{act:?} {}", to.join(" ")),
            Outgoing::ChildRun { agent } => format!("run {agent}"),
        });
        let (after, step) = (self.at - start, self.step.as_deref().unwrap_or_default());
        format!("{after} {} {step} {outgoing:?}", self.kind)
    }
}

impl Rehearsal {
    /// The runs by what they do and when, the most frequent course first.
    #[must_use]
    pub fn courses(&self) -> Vec<Vec<&RehearsedRun>> {
        let mut places = BTreeMap::new();
        let mut courses: Vec<Vec<&RehearsedRun>> = Vec::new();
        for run in &self.runs {
            let events = run.timeline.iter();
            let events: Vec<_> = events.map(|event| event.course(self.started_at)).collect();
            let next = courses.len();
            let place = places.entry((run.status, run.code.as_deref(), events));
            let place = *place.or_insert(next);
            match courses.get_mut(place) {
                Some(runs) => runs.push(run),
                None => courses.push(vec![run]),
            }
        }
        courses.sort_by_key(|runs| std::cmp::Reverse(runs.len()));
        courses
    }

    #[must_use]
    pub fn summary(&self) -> RehearsalSummary {
        RehearsalSummary::of(&self.runs, &self.steps)
    }
}

impl RehearsalSummary {
    /// Over runs, which may be without their timelines, and the steps of their agent.
    #[must_use]
    pub fn of(runs: &[RehearsedRun], steps: &[String]) -> Self {
        let mut summary = Self::default();
        for run in runs {
            for (tool, count) in &run.calls {
                *summary.calls.entry(tool.clone()).or_default() += count;
            }
            for (to, count) in &run.requests {
                *summary.requests.entry(to.clone()).or_default() += count;
            }
            for (user, count) in &run.users {
                *summary.users.entry(user.clone()).or_default() += count;
            }
            for (approval, count) in &run.standing_approvals {
                *summary.standing_approvals.entry(*approval).or_default() += u64::from(*count);
            }
            summary.empty_roles.extend(run.empty_roles.iter().cloned());
        }
        let reached = runs.iter().flat_map(|run| &run.steps_reached);
        let reached: BTreeSet<&String> = reached.collect();
        let generated = runs.iter().flat_map(|run| &run.generated_steps);
        let mut seen = BTreeSet::new();
        let all = steps.iter().chain(generated);
        let unreached = all.filter(|step| !reached.contains(step) && seen.insert(*step));
        summary.unreached_steps = unreached.cloned().collect();
        let of = |is: fn(&RehearsedRun) -> bool| {
            let runs = runs.iter().filter(move |run| is(run));
            runs.map(|run| run.contact.clone()).collect()
        };
        summary.ended_unseen = of(RehearsedRun::ended_unseen);
        summary.unended = of(|run| run.ended_at.is_none());
        summary
    }
}
