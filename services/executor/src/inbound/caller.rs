//! The sender of a command and its rights.

use std::cell::OnceCell;

use chrono::{DateTime, Utc};
use holdpoint_auth::{AuthError, Right, StepClaims, StepKey, Trust, authorize};
use holdpoint_contracts::message::{Actor, Command, Envelope};
use holdpoint_contracts::permission::is_open_to_programs;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::value_limits::check_message;
use holdpoint_ids::{RunId, UserName, Workspace};
use holdpoint_kernel::DecodedCommand;

use crate::domain::{Input, RunInput};

/// Most steps, results or timers of one message.
pub(super) const ITEMS_MAX: usize = 1_000;

/// The origin of a command, known before its body is read.
pub(super) struct Caller<'c> {
    /// Its subject.
    pub(super) workspace: &'c Workspace,
    pub(super) trust: &'c Trust,
    pub(super) now: DateTime<Utc>,
    /// The user of the assertion that the gateway signed; absent for a program or a service.
    pub(super) user: OnceCell<UserName>,
}

impl Caller<'_> {
    /// Reads a command and checks the right of its sender. The user of the assertion becomes the actor. An
    /// invalid assertion is refused and never treated as absent.
    pub(super) fn read<C: Command>(
        &self,
        body: &[u8],
        right: Option<Right>,
    ) -> Result<Envelope<C>, Problem> {
        self.read_as(body, |_: &C| right)
    }

    /// The same if the required right depends on the body.
    pub(super) fn read_as<C: Command>(
        &self,
        body: &[u8],
        right: impl FnOnce(&C) -> Option<Right>,
    ) -> Result<Envelope<C>, Problem> {
        check_message(C::VERB, body)?;
        let mut envelope: Envelope<C> = serde_json::from_slice(body)
            .map_err(|error| Problem::invalid_body(format!("`{}`: {error}", C::VERB)))?;
        let checked = self.trust.caller(&envelope, body, self.workspace, self.now);
        let claims = checked.map_err(AuthError::problem)?;
        if let Some(right) = right(&envelope.command) {
            authorize(claims.as_ref(), right)?;
        }
        envelope.actor = match &claims {
            Some(claims) => {
                let user = self.user.get_or_init(|| claims.user.clone());
                Actor(user.to_string())
            }
            None => unsigned::<C>(envelope.actor),
        };
        Ok(envelope)
    }

    /// The step and the dispatch that a step token identifies. To it, other runs do not exist.
    pub(super) fn step_claims(
        &self,
        key: &StepKey,
        token: &str,
        run: RunId,
    ) -> Result<StepClaims, Problem> {
        let claims = key.check(token, self.now).map_err(AuthError::problem)?;
        if claims.workspace != *self.workspace || claims.run != run {
            let detail = format!("unknown run `{run}` in this workspace");
            return Err(Problem::not_found(detail));
        }
        Ok(claims)
    }

    pub(super) fn read_one<C: Command>(
        &self,
        body: &[u8],
        right: Right,
        input: impl FnOnce(C, Actor) -> Input,
    ) -> Result<DecodedCommand<Input>, Problem> {
        let it: Envelope<C> = self.read(body, Some(right))?;
        Ok(DecodedCommand::one(input(it.command, it.actor), it.key))
    }

    /// The inputs of a message with several items.
    pub(super) fn inputs<T>(
        items: Vec<T>,
        input: impl Fn(T) -> Input,
    ) -> Result<DecodedCommand<Input>, Problem> {
        if items.is_empty() || items.len() > ITEMS_MAX {
            let detail = format!(
                "{} items in one message; 1 to {ITEMS_MAX} are taken",
                items.len()
            );
            return Err(Problem::invalid_body(detail));
        }
        Ok(DecodedCommand::many(items.into_iter().map(input).collect()))
    }

    /// An input for a run of the caller's workspace.
    pub(super) fn run_input(&self, run: RunId, input: RunInput) -> Input {
        run_input(self.workspace, run, input)
    }

    /// Commands of a user count while the user is active.
    pub(super) fn require_active_user(
        self,
        mut request: DecodedCommand<Input>,
    ) -> DecodedCommand<Input> {
        let Some(user) = self.user.into_inner() else {
            return request;
        };
        let require_active_user = |input| Input::OnBehalfOf {
            workspace: self.workspace.clone(),
            user: user.clone(),
            input: Box::new(input),
        };
        request.inputs = request
            .inputs
            .into_iter()
            .map(require_active_user)
            .collect();
        request
    }
}

pub(super) fn run_input(workspace: &Workspace, run: RunId, input: RunInput) -> Input {
    Input::Run {
        workspace: workspace.clone(),
        run,
        input,
    }
}

/// The name in an unsigned command is not proven, so it is recorded as unsigned. Only a subject that services
/// alone may publish proves that a service sent it.
fn unsigned<C: Command>(actor: Actor) -> Actor {
    let may_be_service = !is_open_to_programs(C::SERVICE, C::VERB);
    if may_be_service && actor.0.starts_with("service:") {
        return actor;
    }
    Actor(format!("unsigned:{}", actor.0))
}
