//! Commands of a caller on their way to the service that handles them. A command that may be done later is
//! stored while its service is down.

use holdpoint_contracts::{Actor, Command, Envelope, IdempotencyKey, Problem};
use holdpoint_ids::CommandId;

use crate::app::App;
use crate::auth::caller::Caller;
use crate::command_outcome::CommandOutcome;
use crate::deferred_commands;

impl App {
    /// Sends a command on behalf of the caller. The reply comes after its commit.
    pub(crate) async fn ask<C: Command + Sync>(
        &self,
        caller: &Caller,
        key: Option<IdempotencyKey>,
        command: C,
    ) -> Result<C::Reply, Problem> {
        let envelope = self.sign(caller, key, command)?;
        self.bus.ask(&caller.workspace, &envelope).await
    }

    /// Sends a command, or stores it while its service is down. A service that did not answer may have done
    /// it, so both ways have one key.
    pub(crate) async fn command<C: Command + Sync>(
        &self,
        caller: &Caller,
        key: Option<IdempotencyKey>,
        command: C,
    ) -> Result<CommandOutcome<C::Reply>, Problem> {
        let key = key.unwrap_or_else(fresh_key);
        self.command_after(caller, Some(key), None, command).await
    }

    /// Sends a decision. The reply waits for its effect, for two seconds at most. Without a key the command must
    /// change nothing when it is repeated, as a decision does.
    pub(crate) async fn command_for_effect<C: Command + Sync>(
        &self,
        caller: &Caller,
        key: Option<IdempotencyKey>,
        command: C,
    ) -> Result<CommandOutcome<C::Reply>, Problem> {
        let envelope = self.sign(caller, key, command)?;
        let reply = self.bus.ask_for_effect(&caller.workspace, &envelope).await;
        self.done_or_stored(caller, envelope, reply).await
    }

    /// Sends a command that must not overtake another one. Without a key the command must change nothing when it
    /// is repeated. A start does so, because it names what it makes, and so does a decision.
    pub(crate) async fn command_after<C: Command + Sync>(
        &self,
        caller: &Caller,
        key: Option<IdempotencyKey>,
        after: Option<CommandId>,
        command: C,
    ) -> Result<CommandOutcome<C::Reply>, Problem> {
        let envelope = self.sign(caller, key, command)?;
        if after.is_none() {
            let reply = self.bus.ask(&caller.workspace, &envelope).await;
            return self.done_or_stored(caller, envelope, reply).await;
        }
        let id = deferred_commands::store(self, caller, envelope, after).await?;
        Ok(CommandOutcome::Accepted(id))
    }

    /// The reply, or the command stored for later because its service did not reply.
    async fn done_or_stored<C: Command + Sync>(
        &self,
        caller: &Caller,
        envelope: Envelope<C>,
        reply: Result<C::Reply, Problem>,
    ) -> Result<CommandOutcome<C::Reply>, Problem> {
        match reply {
            Ok(reply) => Ok(CommandOutcome::Done(reply)),
            Err(problem) if problem.is_transient() => {
                tracing::info!(%problem, verb = C::VERB, "command stored; it will be sent later");
                let id = deferred_commands::store(self, caller, envelope, None).await?;
                Ok(CommandOutcome::Accepted(id))
            }
            Err(problem) => Err(problem),
        }
    }

    fn sign<C: Command>(
        &self,
        caller: &Caller,
        key: Option<IdempotencyKey>,
        command: C,
    ) -> Result<Envelope<C>, Problem> {
        let envelope = Envelope {
            actor: Actor(caller.claims.user.to_string()),
            assertion: None,
            key,
            command,
        };
        self.vouch(&caller.claims, envelope)
    }
}

fn fresh_key() -> IdempotencyKey {
    IdempotencyKey {
        key: CommandId::fresh().to_string(),
        digest: String::new(),
    }
}
