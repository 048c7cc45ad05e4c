//! Why the executor refuses an input. Codes are stable; texts may change.

use holdpoint_contracts::contact::CONTACT_BYTES_MAX;
use holdpoint_contracts::executor::LibraryKind;
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::operation::{HOLD_FILTER_RUNS_MAX, OPERATION_RUNS_MAX, OPERATIONS_MAX};
use holdpoint_contracts::problem::{FieldError, Problem};
use holdpoint_contracts::run::RunStatus;
use holdpoint_contracts::suspension::{BLOB_CHUNK_MAX, BLOBS_MAX, SNAPSHOT_BLOB_MAX, SNAPSHOT_MAX};
use holdpoint_ids::{
    AgentName, ContactId, HoldId, NAME_CHARS_MAX, OperationId, RunId, ToolName, UserName,
};

use crate::domain::decision::Undecided;
use crate::domain::model::library::{ENTRIES_MAX, LIBRARY_BYTES_MAX};
use crate::domain::model::run::{
    CONTEXT_BYTES_MAX, KEPT_SIGNALS_MAX, LABEL_CHARS_MAX, QUESTIONS_MAX, RETRIES_MAX,
    SIGNAL_BYTES_MAX, SIGNAL_KEY_CHARS_MAX,
};
use crate::domain::model::scope::CHANGES_MAX;
use crate::domain::model::tool::OFFERED_TOOLS_MAX;
use crate::domain::need::DIRECTORY_AGE_MAX;

/// Longest reason of a cancellation, in characters.
pub const REASON_CHARS_MAX: usize = 2_000;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The agent's text is wrong; every error that was found.
    #[error("{}", agent_message(.0))]
    InvalidAgent(Vec<FieldError>),
    /// A person has edited the plan that a planner made.
    #[error("the edited plan is not valid")]
    InvalidPlan(Vec<FieldError>),
    #[error("the text defines agent `{defined}`, and the command names agent `{named}`")]
    OtherAgent { named: AgentName, defined: String },
    /// The user was disabled while the command was queued.
    #[error("`{0}` was disabled before the command was decided; nothing was changed")]
    Disabled(UserName),
    /// A gated step does not start on an old copy of the users. Its worker asks again.
    #[error(
        "the handoff service has not confirmed the users within the last {} seconds; try again",
        DIRECTORY_AGE_MAX.as_secs()
    )]
    DirectoryUnconfirmed,
    #[error("agent `{0}` not found in this workspace")]
    AgentNotFound(AgentName),
    #[error("{} was paused by {by} and takes no new runs until it is resumed", scope_name(.agent.as_ref()))]
    AgentPaused {
        /// Absent: the whole workspace.
        agent: Option<AgentName>,
        by: Actor,
    },
    #[error("{CHANGES_MAX} changes have not reached all its runs yet; try again in a moment")]
    ScopeBusy,
    #[error("contact `{0}` not found in this workspace")]
    ContactNotFound(ContactId),
    #[error("contact `{0}` was never erased in this workspace")]
    NotErased(ContactId),
    /// The contact of a new run does not exist.
    #[error(
        "contact `{0}` not found; create it first, or start the run with the contact as an object with its `id`"
    )]
    UnknownContact(ContactId),
    #[error(
        "contact `{id}` would be {bytes} bytes of JSON; at most {CONTACT_BYTES_MAX} are allowed"
    )]
    ContactTooLarge { id: ContactId, bytes: usize },
    /// A text of an activity, by its name, and its limit.
    #[error("`{0}` has more than {1} characters")]
    ActivityTooLong(&'static str, usize),
    /// Tags that a contact cannot get or lose, with the reason.
    #[error("{0}")]
    InvalidTags(String),
    /// A search for contacts that is out of its limits, with the reason.
    #[error("{0}")]
    InvalidSearch(String),
    #[error("run `{0}` not found in this workspace")]
    RunNotFound(RunId),
    /// Another workspace has a run with this id.
    #[error("the id `{0}` is taken; make a fresh one")]
    RunIdTaken(RunId),
    #[error("run `{0}` is {1} and cannot change any more")]
    RunFinal(RunId, RunStatus),
    #[error("run `{0}` is {1}; only a failed run can be retried")]
    RunNotFailed(RunId, RunStatus),
    #[error(
        "run `{0}` has been retried {RETRIES_MAX} times, and no more are allowed; start a new run"
    )]
    TooManyRetries(RunId),
    /// The step that has begun.
    #[error(
        "in version {version}, {step} has another definition or another place; the run has begun it and keeps version {kept}"
    )]
    PlanDiffers {
        step: String,
        version: u32,
        kept: u32,
    },
    #[error("the plan of the run has started after {0}; retry from a step of the plan")]
    PlanStarted(String),
    #[error("{0} has begun a plan that its planner made, so it keeps that plan")]
    HasGeneratedPlan(RunId),
    /// The input of the run does not satisfy `inputs` of the new version, with the reason.
    #[error("the run keeps version {kept}: {reason}")]
    InputsDiffer { reason: String, kept: u32 },
    #[error("invalid `version` {version}; expected a newer one than {kept}, at most {newest}")]
    InvalidVersion {
        version: u32,
        kept: u32,
        newest: u32,
    },
    /// The first step, which needs the second one.
    #[error(
        "{0} cannot start before {1}, which has not completed; retry from {1} or from a step before it"
    )]
    RetryTooLate(String, String),
    /// With the nearest names.
    #[error("no step of run `{run}` waits for a signal `{name}`{}", near_text(.near))]
    UnknownSignal {
        run: RunId,
        name: String,
        near: Vec<String>,
    },
    #[error("`key` has 1 to {SIGNAL_KEY_CHARS_MAX} characters")]
    InvalidSignalKey,
    /// A repetition has the same name and data.
    #[error(
        "run `{run}` has taken another signal with the key `{key}`; use a new key for a new signal"
    )]
    SignalKeyReused { run: RunId, key: String },
    #[error("the context would have {0} bytes of JSON; at most {CONTEXT_BYTES_MAX} are allowed")]
    ContextTooLarge(usize),
    #[error("`data` has {0} bytes of JSON; at most {SIGNAL_BYTES_MAX} are allowed")]
    SignalTooLarge(usize),
    #[error("run `{0}` keeps {KEPT_SIGNALS_MAX} signals that no step has used, which is the most")]
    TooManySignals(RunId),
    #[error("run `{0}` is not suspended, so `step` has no effect; resume it without `step`")]
    RunNotSuspended(RunId),
    /// The number of steps.
    #[error("`complete_with` needs exactly one step in progress, and run `{0}` has {1}")]
    NotOneStep(RunId, usize),
    #[error("invalid `result`: {0}")]
    InvalidResult(String),
    #[error("a value of a snapshot has {0} bytes; at most {SNAPSHOT_BLOB_MAX} are allowed")]
    SnapshotValueTooLarge(u64),
    #[error("the values of the snapshot have {0} bytes; at most {SNAPSHOT_MAX} are allowed")]
    SnapshotTooLarge(u64),
    /// A step that has ended, or was dispatched again, has a void token.
    #[error("the step of this token has ended or was dispatched again")]
    StepTokenVoid,
    #[error("invalid blob: {0}")]
    InvalidBlob(String),
    #[error("the blob would have {0} bytes; at most {SNAPSHOT_BLOB_MAX} are allowed")]
    BlobTooLarge(u64),
    #[error("the chunk has {0} bytes; at most {BLOB_CHUNK_MAX} are allowed")]
    BlobChunkTooLarge(usize),
    #[error("the blobs of the run would have {0} bytes; at most {SNAPSHOT_MAX} are allowed")]
    BlobsTooLarge(u64),
    #[error("the run has {BLOBS_MAX} blobs, and no more are allowed")]
    TooManyBlobs,
    #[error("the blob was announced with {0} bytes; each chunk states the same `size`")]
    BlobSizeDiffers(u64),
    /// The bytes so far.
    #[error("{0} bytes of the blob have arrived; the next chunk has `offset` {0}")]
    BlobOffset(u64),
    #[error("the bytes do not have the hash `{0}`; the upload was deleted")]
    BlobHashDiffers(String),
    #[error("invalid part of a snapshot: {0}")]
    InvalidSupplement(String),
    /// A broken invariant.
    #[error("the snapshot of `{0}` is missing")]
    SnapshotMissing(RunId),
    #[error("{0}")]
    Labels(String),
    #[error("`reason` has more than {REASON_CHARS_MAX} characters")]
    ReasonTooLong,
    /// A worker names a step that the run does not have.
    #[error("run `{0}` has no step `{1}`")]
    StepNotFound(RunId, String),
    /// The scheduler names a timer that the executor never sets.
    #[error("`{0}` is not a timer of the executor")]
    UnknownTimer(String),
    #[error("`{0}` is a request; expected the id of a run")]
    RequestWatched(HoldId),
    #[error("the answer to `{0}` is not one of its options")]
    UnknownAnswer(HoldId),
    /// A broken invariant.
    #[error("the specification of `{0}` is missing")]
    SpecMissing(HoldId),
    /// The agent does not ask for missing inputs.
    #[error("these inputs are missing: {}", .0.join(", "))]
    MissingInput(Vec<String>),
    /// The tool that asks is not running, with the reason.
    #[error("run `{0}` has no step in progress that could ask: {1}")]
    NoStepRunning(RunId, String),
    #[error("`step` is required, because several steps are in progress: {}", .0.join(", "))]
    WhichStep(Vec<String>),
    /// Pointers are into the question.
    #[error("{}", question_message(.0))]
    InvalidQuestion(Vec<FieldError>),
    #[error(
        "a tool asks one question at a time, and `{0}` (key `{1}`) is open: wait for it, or ask for all you need in one form"
    )]
    QuestionOpen(HoldId, String),
    #[error("the tool of `{0}` has asked {QUESTIONS_MAX} questions, which is the most")]
    TooManyQuestions(String),
    /// The field of `limits`, and why its key has no value.
    #[error("the `key` of `{0}` has no value for this start: {1}")]
    NoLimitKey(&'static str, String),
    #[error("agent `{0}` starts once for each contact; name the `contact` of the run")]
    ContactRequired(AgentName),
    #[error(
        "the starts that the `rate` of agent `{0}` allows are reserved for 366 days, which is the most; start the run later"
    )]
    TooManyStarts(AgentName),
    #[error(
        "agent `{0}` has started a run for the same contact or key before, so it starts no other one"
    )]
    StartedBefore(AgentName),
    /// Pointers are into the inputs.
    #[error("the inputs do not match the agent's `inputs`")]
    InvalidInput(Vec<FieldError>),
    #[error("run `{0}` was taken over by {1}; only that user can hand it back")]
    AlreadyTaken(RunId, String),
    #[error("only a user can take a run over, and `{0}` is not a user")]
    NoPerson(Actor),
    #[error("{0}")]
    InvalidTool(String),
    #[error("`{0}` is a built-in tool; give yours another name")]
    ToolReserved(ToolName),
    #[error("nodes have registered {OFFERED_TOOLS_MAX} tools, and no more are allowed")]
    TooManyTools,
    /// Nodes have registered a definition that the operator has not looked at.
    #[error(
        "a lower risk or `idempotent: true` for `{0}` counts only with the `seen` that the tool shows now; look at it again"
    )]
    ToolChanged(ToolName),
    #[error("tool `{0}` not found in this workspace")]
    ToolNotFound(ToolName),
    #[error("operation `{0}` not found in this workspace")]
    OperationNotFound(OperationId),
    #[error("{0} `{1}` not found in this workspace")]
    LibraryEntryNotFound(LibraryKind, String),
    #[error("{}", entry_message(*.0, .1))]
    InvalidLibraryEntry(LibraryKind, Vec<FieldError>),
    #[error("the workspace has {ENTRIES_MAX} {0}s, and no more are allowed; delete one first")]
    TooManyLibraryEntries(LibraryKind),
    #[error(
        "all templates and calendars of a workspace together have at most {LIBRARY_BYTES_MAX} bytes of JSON; delete one first"
    )]
    LibraryTooLarge,
    /// Another workspace has an operation with this id.
    #[error("the id `{0}` is taken; make a fresh one")]
    OperationIdTaken(OperationId),
    #[error(
        "the filter matches more than {OPERATION_RUNS_MAX} runs, which is the most of an operation; use a narrower filter"
    )]
    TooManyRuns,
    /// The kind of hold is in the states of runs only, and each of them is read.
    #[error(
        "more than {HOLD_FILTER_RUNS_MAX} runs match the filter without `hold`, which is the most that are read for it; add `status`, `agent`, `label` or `created_after`"
    )]
    HoldFilterTooWide,
    #[error(
        "this workspace has {OPERATIONS_MAX} running operations, and no more are allowed; cancel one or wait for its end"
    )]
    TooManyOperations,
    #[error(
        "invalid `label` of the filter; expected `name=value` with at most {LABEL_CHARS_MAX} characters on each side"
    )]
    InvalidFilter,
    /// A field of an action that names something.
    #[error("`{0}` has more than {NAME_CHARS_MAX} characters")]
    NameTooLong(&'static str),
    /// A broken invariant.
    #[error("version {1} of `{0}` is missing")]
    PlanMissing(AgentName, u32),
}

impl From<Refusal> for Undecided {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Refusal {
    #[must_use]
    pub fn problem(&self) -> Problem {
        let (status, code) = self.status_and_code();
        Problem::new(status, code, self.to_string()).with_errors(self.errors())
    }

    #[expect(clippy::too_many_lines, reason = "one line for each variant")]
    const fn status_and_code(&self) -> (u16, &'static str) {
        match self {
            Self::Disabled(_) | Self::NoPerson(_) => (403, "forbidden"),
            Self::AgentNotFound(_)
            | Self::ContactNotFound(_)
            | Self::NotErased(_)
            | Self::RunNotFound(_)
            | Self::StepNotFound(..)
            | Self::OperationNotFound(_)
            | Self::LibraryEntryNotFound(..)
            | Self::ToolNotFound(_) => (404, "not_found"),
            Self::AgentPaused { .. } => (409, "agent_paused"),
            Self::AlreadyTaken(..) => (409, "already_taken"),
            Self::RunIdTaken(_) | Self::OperationIdTaken(_) => (409, "id_taken"),
            Self::BlobOffset(_) => (409, "blob_offset"),
            Self::BlobSizeDiffers(_) => (409, "blob_size_differs"),
            Self::BlobHashDiffers(_) => (422, "blob_hash_differs"),
            Self::StepTokenVoid => (401, "unauthorized"),
            Self::NoStepRunning(..) => (409, "no_step_running"),
            Self::QuestionOpen(..) => (409, "question_open"),
            Self::RunFinal(..) => (409, "run_final"),
            Self::RunNotSuspended(_) => (409, "run_not_suspended"),
            Self::NotOneStep(..) => (409, "not_one_step"),
            Self::RunNotFailed(..) => (409, "run_not_failed"),
            Self::PlanDiffers { .. } | Self::InputsDiffer { .. } | Self::HasGeneratedPlan(_) => {
                (409, "plan_differs")
            }
            Self::RetryTooLate(..) => (409, "step_not_reached"),
            Self::PlanStarted(_) => (409, "plan_started"),
            Self::ScopeBusy => (409, "scope_busy"),
            Self::TooManyOperations => (409, "too_many_operations"),
            Self::TooManyStarts(_) => (409, "too_many_starts"),
            Self::StartedBefore(_) => (409, "started_before"),
            Self::TooManyQuestions(_) => (409, "too_many_questions"),
            Self::TooManyRetries(_) => (409, "too_many_retries"),
            Self::SignalKeyReused { .. } => (409, "signal_key_reused"),
            Self::TooManySignals(_) => (409, "too_many_signals"),
            Self::TooManyTools => (409, "too_many_tools"),
            Self::TooManyLibraryEntries(_) | Self::LibraryTooLarge => (409, "library_full"),
            Self::ToolChanged(_) => (409, "tool_changed"),
            Self::ToolReserved(_) => (409, "tool_reserved"),
            Self::ContactTooLarge { .. }
            | Self::ActivityTooLong(..)
            | Self::SnapshotValueTooLarge(_)
            | Self::BlobTooLarge(_)
            | Self::BlobChunkTooLarge(_)
            | Self::BlobsTooLarge(_)
            | Self::TooManyBlobs
            | Self::ContextTooLarge(_)
            | Self::SignalTooLarge(_)
            | Self::SnapshotTooLarge(_) => (413, "too_large"),
            Self::TooManyRuns | Self::HoldFilterTooWide => (422, "too_many_runs"),
            Self::UnknownSignal { .. } => (422, "unknown_signal"),
            Self::InvalidAgent(_) => (422, "invalid_agent"),
            Self::InvalidPlan(_) => (422, "invalid_plan"),
            Self::InvalidLibraryEntry(kind, _) => (422, entry_code(*kind)),
            Self::UnknownAnswer(_) => (422, "invalid_answer"),
            Self::OtherAgent { .. }
            | Self::Labels(_)
            | Self::ReasonTooLong
            | Self::InvalidSignalKey
            | Self::InvalidVersion { .. }
            | Self::InvalidFilter
            | Self::NameTooLong(_)
            | Self::InvalidResult(_)
            | Self::InvalidSupplement(_)
            | Self::InvalidBlob(_)
            | Self::UnknownTimer(_)
            | Self::RequestWatched(_)
            | Self::WhichStep(_)
            | Self::InvalidQuestion(_)
            | Self::InvalidTags(_)
            | Self::InvalidSearch(_)
            | Self::InvalidTool(_) => (422, "invalid_body"),
            Self::InvalidInput(_) | Self::NoLimitKey(..) => (422, "invalid_input"),
            Self::ContactRequired(_) => (422, "contact_required"),
            Self::MissingInput(_) => (422, "missing_input"),
            Self::UnknownContact(_) => (422, "unknown_contact"),
            Self::SpecMissing(_) => (500, "hold_missing"),
            Self::DirectoryUnconfirmed => (503, "unavailable"),
            Self::SnapshotMissing(_) => (500, "snapshot_missing"),
            Self::PlanMissing(..) => (500, "plan_missing"),
        }
    }

    fn errors(&self) -> Vec<FieldError> {
        if let Self::InvalidAgent(errors)
        | Self::InvalidPlan(errors)
        | Self::InvalidLibraryEntry(_, errors)
        | Self::InvalidQuestion(errors) = self
        {
            errors.clone()
        } else if let Self::InvalidInput(errors) = self {
            let errors = errors.iter().cloned();
            errors.map(|error| error.under("/input")).collect()
        } else if let Self::MissingInput(names) = self {
            let error = |name: &String| field_error(name, "this input is required");
            names.iter().map(error).collect()
        } else if let Self::WhichStep(_) = self {
            vec![field_error("step", "say which step asks")]
        } else {
            Vec::new()
        }
    }
}

fn near_text(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [first, ..] => format!("; did you mean `{first}`?"),
    }
}

fn scope_name(agent: Option<&AgentName>) -> String {
    agent.map_or_else(|| "the workspace".to_owned(), |agent| format!("`{agent}`"))
}

fn field_error(name: &str, message: &str) -> FieldError {
    FieldError {
        text: name.to_owned(),
        ..FieldError::at(&format!("/{name}"), message)
    }
}

fn agent_message(errors: &[FieldError]) -> String {
    match errors {
        [only] => only.message.clone(),
        _ => format!("the agent has {} errors", errors.len()),
    }
}

const fn entry_code(kind: LibraryKind) -> &'static str {
    match kind {
        LibraryKind::Template => "invalid_template",
        LibraryKind::Calendar => "invalid_calendar",
    }
}

fn entry_message(kind: LibraryKind, errors: &[FieldError]) -> String {
    match errors {
        [only] => only.message.clone(),
        _ => format!("the {kind} has {} errors", errors.len()),
    }
}

fn question_message(errors: &[FieldError]) -> String {
    let messages = errors.iter().map(|error| {
        let pointer = error.pointer.as_deref().unwrap_or_default();
        format!("{pointer}: {}", error.message)
    });
    messages.collect::<Vec<_>>().join("; ")
}
