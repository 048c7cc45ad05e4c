//! Commands to inputs: translation only. Assertions are checked here, and the domain decides what follows: an
//! invalid assertion is refused and never becomes a dead letter.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use holdpoint_auth::Trust;
use holdpoint_contracts::executor;
use holdpoint_contracts::handoff::{
    ActOnRequest, AskAgain, CreateStandingApproval, DecideRequest, DecideRequests, DeletePolicy,
    DisableUser, OpenHold, PutPolicy, PutUser, RequestTimersFired, RevokeStandingApproval,
    SetHolds, WithdrawHold,
};
use holdpoint_contracts::message::{Actor, Command, Envelope};
use holdpoint_contracts::permission::is_open_to_programs;
use holdpoint_contracts::problem::{FieldError, Problem};
use holdpoint_contracts::subject::Parts;
use holdpoint_contracts::value_limits::check_message;
use holdpoint_ids::{HoldId, IdError, PolicyName, StandingApprovalId, Workspace};
use holdpoint_kernel::DecodedCommand;

use crate::domain::{
    Caller, Input, PolicyInput, Proof, RequestInput, StandingApprovalInput, UserInput,
};

/// Most desired states or timers in one message; a larger message is refused.
const ITEMS_MAX: usize = 1_000;

/// What reading a command needs.
pub(crate) struct Reader<'a> {
    pub(crate) parts: &'a Parts,
    pub(crate) trust: &'a Trust,
    /// When the command came.
    pub(crate) now: DateTime<Utc>,
}

impl Reader<'_> {
    /// Reads one command.
    pub(crate) fn decode(&self, body: &[u8]) -> Result<DecodedCommand<Input>, Problem> {
        match self.parts.verb.as_str() {
            SetHolds::VERB => self.desired_states(read(body)?),
            RequestTimersFired::VERB => self.timers(read(body)?),
            OpenHold::VERB => self.one(body, |it: OpenHold, caller| {
                self.request(it.id, RequestInput::Open(caller, Box::new(it)))
            }),
            AskAgain::VERB => self.one(body, |it: AskAgain, caller| {
                self.request(it.again.asked_again(), RequestInput::AskAgain(caller, it))
            }),
            WithdrawHold::VERB => self.one(body, |it: WithdrawHold, caller| {
                self.request(it.id, RequestInput::Withdraw(caller, it))
            }),
            DecideRequest::VERB => self.one(body, |it: DecideRequest, caller| {
                self.request(it.id, RequestInput::Decide(caller, it))
            }),
            DecideRequests::VERB => self.decide_requests(body),
            ActOnRequest::VERB => self.one(body, |it: ActOnRequest, caller| {
                self.request(it.id, RequestInput::Act(caller, it))
            }),
            PutUser::VERB => self.one(body, |it: PutUser, caller| Input::User {
                workspace: self.workspace(),
                name: it.name,
                caller,
                input: UserInput::Put {
                    email: it.email,
                    roles: it.roles.into_iter().collect::<BTreeSet<_>>(),
                },
            }),
            DisableUser::VERB => self.one(body, |it: DisableUser, caller| Input::User {
                workspace: self.workspace(),
                name: it.name,
                caller,
                input: UserInput::Disable,
            }),
            PutPolicy::VERB => self.one(body, |it: PutPolicy, caller| {
                self.policy(it.name, caller, PolicyInput::Put(it.rules))
            }),
            DeletePolicy::VERB => self.one(body, |it: DeletePolicy, caller| {
                self.policy(it.name, caller, PolicyInput::Delete)
            }),
            CreateStandingApproval::VERB => self.one(body, |it: CreateStandingApproval, caller| {
                let id = it.id;
                let input = StandingApprovalInput::Create(Box::new(it));
                self.standing_approval(id, caller, input)
            }),
            RevokeStandingApproval::VERB => self.one(body, |it: RevokeStandingApproval, caller| {
                self.standing_approval(it.id, caller, StandingApprovalInput::Revoke)
            }),
            other => Err(Problem::not_found(format!(
                "unknown command `{other}` of the handoff service"
            ))),
        }
    }

    fn workspace(&self) -> Workspace {
        self.parts.workspace.clone()
    }

    fn request(&self, id: HoldId, input: RequestInput) -> Input {
        Input::Request {
            workspace: self.workspace(),
            id,
            input,
        }
    }

    fn policy(&self, name: PolicyName, caller: Caller, input: PolicyInput) -> Input {
        Input::Policy {
            workspace: self.workspace(),
            name,
            caller,
            input,
        }
    }

    fn standing_approval(
        &self,
        id: StandingApprovalId,
        caller: Caller,
        input: StandingApprovalInput,
    ) -> Input {
        Input::StandingApproval {
            workspace: self.workspace(),
            id,
            caller,
            input,
        }
    }

    fn one<C: Command>(
        &self,
        body: &[u8],
        input: impl FnOnce(C, Caller) -> Input,
    ) -> Result<DecodedCommand<Input>, Problem> {
        let envelope = read::<C>(body)?;
        let caller = self.caller(&envelope, body);
        Ok(DecodedCommand::one(
            input(envelope.command, caller),
            envelope.key,
        ))
    }

    fn caller<C: Command>(&self, envelope: &Envelope<C>, body: &[u8]) -> Caller {
        let checked = self
            .trust
            .caller(envelope, body, &self.parts.workspace, self.now);
        let proof = match checked {
            Ok(None) => Proof::Absent,
            Ok(Some(claims)) => Proof::Good(claims),
            Err(error) => Proof::Bad(error),
        };
        let name = &envelope.actor.0;
        // The name of an unsigned command is not proven, unless only services may publish the command.
        let may_be_service = !is_open_to_programs(C::SERVICE, C::VERB);
        let is_service = may_be_service && name.starts_with("service:");
        let actor = if proof == Proof::Absent && !is_service {
            Actor(format!("unsigned:{name}"))
        } else {
            envelope.actor.clone()
        };
        Caller { actor, proof }
    }

    /// The requests may belong to any partition, because the version of each row guards it.
    fn decide_requests(&self, body: &[u8]) -> Result<DecodedCommand<Input>, Problem> {
        let envelope = read::<DecideRequests>(body)?;
        let caller = self.caller(&envelope, body);
        let Envelope { key, command, .. } = envelope;
        let DecideRequests {
            ids,
            decision,
            versions,
        } = command;
        let unique: BTreeSet<_> = ids.iter().collect();
        if unique.len() != ids.len() || !(1..=DecideRequests::IDS_MAX).contains(&ids.len()) {
            let most = DecideRequests::IDS_MAX;
            let detail = format!("ids: expected 1 to {most} requests, each once");
            return Err(Problem::invalid_body(detail));
        }
        if let Some(other) = versions.keys().find(|id| !unique.contains(id)) {
            let error = FieldError::at(&format!("/versions/{other}"), "not one of `ids`");
            let detail = format!("versions: `{other}` is not one of `ids`");
            return Err(Problem::invalid_body(detail).with_errors(vec![error]));
        }
        let inputs = ids.into_iter().map(|id| {
            let (decision, version) = (decision.clone(), versions.get(&id).copied());
            let one = DecideRequest {
                id,
                decision,
                version,
                silent: true,
            };
            self.request(id, RequestInput::DecideRequests(caller.clone(), one))
        });
        Ok(DecodedCommand::atomic(inputs.collect(), key))
    }

    fn desired_states(
        &self,
        envelope: Envelope<SetHolds>,
    ) -> Result<DecodedCommand<Input>, Problem> {
        let SetHolds { owner, holds } = envelope.command;
        if owner != executor::SERVICE {
            let detail = format!("owner: expected `executor`, not `{owner}`");
            return Err(Problem::invalid_body(detail));
        }
        if holds
            .iter()
            .any(|desired_state| i64::try_from(desired_state.rev).is_err())
        {
            return Err(Problem::invalid_body("rev: 63 bits at most"));
        }
        bounded(holds.len())?;
        let inputs = holds.into_iter().map(|desired_state| {
            let (rev, state) = (desired_state.rev, desired_state.state);
            self.request(desired_state.id, RequestInput::SetDesired { rev, state })
        });
        Ok(DecodedCommand::many(inputs.collect()))
    }

    fn timers(
        &self,
        envelope: Envelope<RequestTimersFired>,
    ) -> Result<DecodedCommand<Input>, Problem> {
        let fired = envelope.command.fired;
        bounded(fired.len())?;
        let inputs = fired.into_iter().map(|it| {
            let (rev, due) = (it.rev, it.due);
            let id = it.id.parse()?;
            Ok(self.request(id, RequestInput::TimerFired { rev, due }))
        });
        let inputs = inputs.collect::<Result<_, IdError>>();
        Ok(DecodedCommand::many(inputs.map_err(|error| {
            Problem::invalid_body(error.to_string())
        })?))
    }
}

fn bounded(count: usize) -> Result<(), Problem> {
    if (1..=ITEMS_MAX).contains(&count) {
        return Ok(());
    }
    Err(Problem::invalid_body(format!(
        "{count} items in one message; 1 to {ITEMS_MAX} are taken"
    )))
}

fn read<C: Command>(body: &[u8]) -> Result<Envelope<C>, Problem> {
    check_message(C::VERB, body)?;
    serde_json::from_slice(body)
        .map_err(|error| Problem::invalid_body(format!("`{}`: {error}", C::VERB)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name that a command's caller is written down with.
    fn name_of<C: Command>(command: C, actor: &str) -> String {
        let parts = Parts {
            workspace: "acme".parse().unwrap(),
            service: C::SERVICE.to_owned(),
            verb: C::VERB.to_owned(),
        };
        let trust = Trust::default();
        let reader = Reader {
            parts: &parts,
            trust: &trust,
            now: DateTime::UNIX_EPOCH,
        };
        let envelope = Envelope {
            actor: Actor(actor.to_owned()),
            assertion: None,
            key: None,
            command,
        };
        let body = serde_json::to_vec(&envelope).unwrap();
        reader.caller(&envelope, &body).name()
    }

    /// Mend A-M4: nobody vouches for the name in an unsigned command, and no program becomes a service by it.
    #[test]
    fn an_unsigned_command_is_on_record_as_such() {
        let withdraw = || WithdrawHold {
            id: HoldId::standalone(),
            version: None,
        };
        assert_eq!(name_of(withdraw(), "owner"), "unsigned:owner");
        assert_eq!(
            name_of(withdraw(), "service:gateway"),
            "unsigned:service:gateway"
        );
        let put = || PutUser {
            name: "ada".parse().unwrap(),
            email: None,
            roles: Vec::new(),
        };
        assert_eq!(name_of(put(), "service:gateway"), "service:gateway");
        assert_eq!(name_of(put(), "gateway"), "unsigned:gateway");
    }
}
