//! Why the executor refuses an input. Codes are stable; texts may change.

use holdpoint_contracts::message::Actor;
use holdpoint_contracts::problem::{FieldError, Problem};
use holdpoint_contracts::run::RunStatus;
use holdpoint_ids::{AgentName, ContactId, HoldId, RunId, ToolName, UserName};

use crate::domain::definition::AgentDiagnostic;
use crate::domain::model::contact::CONTACT_BYTES_MAX;
use crate::domain::model::run::QUESTIONS_MAX;
use crate::domain::model::scope::CHANGES_MAX;

/// Longest reason of a cancellation, in characters.
pub const REASON_CHARS_MAX: usize = 2_000;

/// Why an input changes nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum Refusal {
    /// The agent's text is wrong; every error that was found.
    InvalidAgent(Vec<AgentDiagnostic>),
    /// The text names another agent than the command.
    OtherAgent { asked: AgentName, said: String },
    /// The user of the command was disabled before it was decided.
    Disabled(UserName),
    /// The agent does not exist.
    AgentNotFound(AgentName),
    /// The agent, or the workspace, is paused and takes no new runs.
    AgentPaused {
        /// Which; none: the whole workspace.
        agent: Option<AgentName>,
        by: Actor,
    },
    /// An agent or workspace has too many changes that its runs have not applied.
    ScopeBusy,
    /// The contact does not exist.
    ContactNotFound(ContactId),
    /// The contact of a new run does not exist.
    UnknownContact(ContactId),
    /// A contact would be too large.
    ContactTooLarge {
        id: ContactId,
        /// How much it would be.
        bytes: usize,
    },
    /// A text of an activity, by its name, is longer than so many characters.
    ActivityTooLong(&'static str, usize),
    /// The run does not exist in this workspace.
    RunNotFound(RunId),
    /// The run's id is taken, by another workspace.
    RunIdTaken(RunId),
    /// The run has ended.
    RunFinal(RunId, RunStatus),
    /// The labels break a limit.
    Labels(String),
    /// The reason of a cancellation is longer than [`REASON_CHARS_MAX`].
    ReasonTooLong,
    /// A worker speaks of a step that the run does not have.
    StepNotFound(RunId, String),
    /// A timer has fired that the executor never sets.
    UnknownTimer(String),
    /// A request was named instead of a run.
    RequestWatched(HoldId),
    /// A hold was closed with an answer that is not one of its options.
    UnknownAnswer(HoldId),
    /// The specification of a hold is missing: a broken invariant.
    SpecMissing(HoldId),
    /// A run lacks inputs, and its agent does not ask for them.
    MissingInput(Vec<String>),
    /// No running tool could ask, with the reason.
    NoStepRunning(RunId, String),
    /// Several steps are in progress, and the caller named none.
    WhichStep(Vec<String>),
    /// An invalid question. Pointers are into it.
    InvalidQuestion(Vec<FieldError>),
    /// The tool of a step asks one question at a time, and this one is open.
    QuestionOpen(HoldId, String),
    /// The tool of the step has asked [`QUESTIONS_MAX`] questions.
    TooManyQuestions(String),
    /// Invalid inputs. Pointers are into them.
    InvalidInput(Vec<FieldError>),
    /// Another person owns the run.
    AlreadyTaken(RunId, String),
    /// Only a user can own a run, and this actor is not one.
    NoPerson(Actor),
    /// The specification of a tool is invalid.
    InvalidTool(String),
    /// The name is a built-in tool's.
    ToolReserved(ToolName),
    /// The registered tool does not exist.
    ToolNotFound(ToolName),
    /// The plan of a run is missing: a broken invariant.
    PlanMissing(AgentName, u32),
}

impl Refusal {
    /// The problem for the caller.
    #[must_use]
    pub fn problem(&self) -> Problem {
        match self {
            Self::InvalidAgent(errors) => invalid_agent(errors),
            Self::OtherAgent { asked, said } => Problem::invalid_body(format!(
                "the text defines agent `{said}`, and the command names agent `{asked}`"
            )),
            Self::AgentNotFound(agent) => {
                Problem::not_found(format!("there is no agent `{agent}` in this workspace"))
            }
            Self::AgentPaused { agent, by } => paused(agent.as_ref(), by),
            Self::ScopeBusy => busy(),
            Self::ContactNotFound(contact) => {
                Problem::not_found(format!("there is no contact `{contact}` in this workspace"))
            }
            Self::UnknownContact(contact) => unknown_contact(contact),
            Self::ContactTooLarge { id, bytes } => contact_too_large(id, *bytes),
            Self::ActivityTooLong(name, most) => activity_too_long(name, *most),
            Self::RunNotFound(run) => {
                Problem::not_found(format!("there is no run `{run}` in this workspace"))
            }
            Self::RunIdTaken(run) => Problem::new(
                409,
                "id_taken",
                format!("the id `{run}` is taken; make a fresh one"),
            ),
            Self::RunFinal(run, status) => Problem::new(
                409,
                "run_final",
                format!("run `{run}` is {status} and cannot change any more"),
            ),
            Self::Labels(what) => Problem::invalid_body(what.clone()),
            Self::ReasonTooLong => Problem::invalid_body(format!(
                "`reason` has more than {REASON_CHARS_MAX} characters"
            )),
            Self::StepNotFound(run, step) => {
                Problem::not_found(format!("run `{run}` has no step `{step}`"))
            }
            Self::UnknownTimer(id) => {
                Problem::invalid_body(format!("`{id}` is not a timer of the executor"))
            }
            Self::RequestWatched(id) => {
                Problem::invalid_body(format!("`{id}` is a request; expected the id of a run"))
            }
            Self::UnknownAnswer(hold) => unknown_answer(*hold),
            Self::SpecMissing(hold) => spec_missing(*hold),
            Self::MissingInput(names) => missing_input(names),
            Self::NoStepRunning(run, why) => no_step_running(*run, why),
            Self::WhichStep(steps) => which_step(steps),
            Self::InvalidQuestion(errors) => invalid_question(errors),
            Self::QuestionOpen(hold, key) => question_open(*hold, key),
            Self::TooManyQuestions(step) => too_many_questions(step),
            Self::InvalidInput(errors) => invalid_input(errors),
            Self::Disabled(user) => disabled(user),
            Self::AlreadyTaken(run, by) => already_taken(*run, by),
            Self::NoPerson(actor) => no_person(actor),
            Self::InvalidTool(what) => Problem::invalid_body(what.clone()),
            Self::ToolReserved(name) => reserved(name),
            Self::ToolNotFound(name) => {
                Problem::not_found(format!("there is no tool `{name}` in this workspace"))
            }
            Self::PlanMissing(agent, version) => Problem::new(
                500,
                "plan_missing",
                format!("version {version} of `{agent}` is missing"),
            ),
        }
    }
}

fn disabled(user: &UserName) -> Problem {
    Problem::new(
        403,
        "forbidden",
        format!("`{user}` was disabled before the command was decided; nothing was changed"),
    )
}

fn paused(agent: Option<&AgentName>, by: &Actor) -> Problem {
    let what = agent.map_or_else(|| "the workspace".to_owned(), |agent| format!("`{agent}`"));
    Problem::new(
        409,
        "agent_paused",
        format!("{what} was paused by {by} and takes no new runs until it is resumed"),
    )
}

fn busy() -> Problem {
    Problem::new(
        409,
        "scope_busy",
        format!("{CHANGES_MAX} changes have not reached all its runs yet; try again in a moment"),
    )
}

fn reserved(name: &ToolName) -> Problem {
    Problem::new(
        409,
        "tool_reserved",
        format!("`{name}` is a built-in tool; give yours another name"),
    )
}

fn unknown_contact(contact: &ContactId) -> Problem {
    Problem::new(
        422,
        "unknown_contact",
        format!(
            "there is no contact `{contact}`: put it first, or start the run with the contact as \
             an object with its `id`"
        ),
    )
}

fn activity_too_long(name: &str, most: usize) -> Problem {
    Problem::new(
        413,
        "too_large",
        format!("`{name}` has more than {most} characters"),
    )
}

fn spec_missing(hold: HoldId) -> Problem {
    Problem::new(
        500,
        "hold_missing",
        format!("the specification of `{hold}` is missing"),
    )
}

fn no_step_running(run: RunId, why: &str) -> Problem {
    Problem::new(
        409,
        "no_step_running",
        format!("run `{run}` has no step in progress that could ask: {why}"),
    )
}

fn which_step(steps: &[String]) -> Problem {
    Problem::invalid_body(format!(
        "`step` is required, because several steps are in progress: {}",
        steps.join(", ")
    ))
    .with_errors(vec![field_error("step", "say which step asks")])
}

fn invalid_question(errors: &[FieldError]) -> Problem {
    let said = errors.iter().map(|error| {
        let pointer = error.pointer.as_deref().unwrap_or_default();
        format!("{pointer}: {}", error.message)
    });
    let said: Vec<_> = said.collect();
    Problem::invalid_body(said.join("; ")).with_errors(errors.to_vec())
}

fn question_open(hold: HoldId, key: &str) -> Problem {
    Problem::new(
        409,
        "question_open",
        format!(
            "a tool asks one question at a time, and `{hold}` (key `{key}`) is open: wait for it, \
             or ask for all you need in one form"
        ),
    )
}

fn too_many_questions(step: &str) -> Problem {
    Problem::new(
        409,
        "too_many_questions",
        format!("the tool of `{step}` has asked {QUESTIONS_MAX} questions, which is the most"),
    )
}

fn already_taken(run: RunId, by: &str) -> Problem {
    Problem::new(
        409,
        "already_taken",
        format!("run `{run}` was taken over by {by}; only that user can hand it back"),
    )
}

fn no_person(actor: &Actor) -> Problem {
    Problem::new(
        403,
        "forbidden",
        format!("only a user can take a run over, and `{actor}` is not a user"),
    )
}

fn unknown_answer(hold: HoldId) -> Problem {
    Problem::new(
        422,
        "invalid_answer",
        format!("the answer to `{hold}` is not one of its options"),
    )
}

fn missing_input(names: &[String]) -> Problem {
    let said = |name: &String| field_error(name, "this input is required");
    Problem::new(
        422,
        "missing_input",
        format!("these inputs are missing: {}", names.join(", ")),
    )
    .with_errors(names.iter().map(said).collect())
}

fn invalid_input(errors: &[FieldError]) -> Problem {
    let errors = errors.iter().map(|error| error.clone().under("/input"));
    Problem::new(
        422,
        "invalid_input",
        "the inputs do not match the agent's `inputs`",
    )
    .with_errors(errors.collect())
}

fn field_error(name: &str, message: &str) -> FieldError {
    FieldError {
        text: name.to_owned(),
        ..FieldError::at(&format!("/{name}"), message)
    }
}

fn contact_too_large(id: &ContactId, bytes: usize) -> Problem {
    Problem::new(
        413,
        "too_large",
        format!(
            "contact `{id}` would be {bytes} bytes of JSON; at most {CONTACT_BYTES_MAX} are allowed"
        ),
    )
}

/// 422 `invalid_agent`: says what, where and what was perhaps meant, for each error.
#[must_use]
pub fn invalid_agent(errors: &[AgentDiagnostic]) -> Problem {
    let detail = match errors {
        [only] => only.message.clone(),
        _ => format!("the agent has {} errors", errors.len()),
    };
    let errors = errors
        .iter()
        .map(|error| FieldError {
            line: error.line,
            step: error.step.clone(),
            pointer: None,
            text: error.text.clone(),
            message: error.message.clone(),
            nearest: error.nearest.clone(),
        })
        .collect();
    Problem::new(422, "invalid_agent", detail).with_errors(errors)
}
