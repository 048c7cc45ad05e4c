//! Translates commands into inputs.

use chrono::{DateTime, Datelike, SubsecRound, TimeDelta, Utc};
use holdpoint_auth::{AuthError, Right, Trust, authorize};
use holdpoint_contracts::message::{Actor, Command, Envelope};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::scheduler::{DeleteSchedule, PutSchedule, SetTimer, SetTimers};
use holdpoint_contracts::subject::Parts;
use holdpoint_contracts::value_limits::check_message;
use holdpoint_ids::{ScheduleName, Workspace};
use holdpoint_kernel::DecodedCommand;

use crate::domain::{Input, Key, Owner, SchedulePut};

/// Timers of one message at most. A message with more is refused.
const TIMERS_MAX: usize = 1_000;

/// Longest id of a timer, in bytes.
const ID_BYTES_MAX: usize = 200;

/// What reading a command needs.
pub(crate) struct Reader<'a> {
    pub(crate) parts: &'a Parts,
    pub(crate) trust: &'a Trust,
    /// When the command came.
    pub(crate) now: DateTime<Utc>,
}

impl Reader<'_> {
    pub(crate) fn decode(&self, body: &[u8]) -> Result<DecodedCommand<Input>, Problem> {
        match self.parts.verb.as_str() {
            SetTimers::VERB => self.timers(body),
            PutSchedule::VERB => self.schedule(body, |it: PutSchedule, by| {
                Input::PutSchedule(Box::new(SchedulePut {
                    key: key_of_schedule(&self.parts.workspace, &it.schedule.name),
                    spec: it.schedule,
                    by,
                }))
            }),
            DeleteSchedule::VERB => {
                self.schedule(body, |it: DeleteSchedule, _| Input::DeleteSchedule {
                    key: key_of_schedule(&self.parts.workspace, &it.name),
                    name: it.name,
                })
            }
            other => {
                let detail = format!("the scheduler has no command `{other}`");
                Err(Problem::not_found(detail))
            }
        }
    }

    /// Reads a command of an operator. The user of the assertion becomes the actor. An invalid assertion is refused
    /// and never treated as absent.
    fn schedule<C: Command>(
        &self,
        body: &[u8],
        input: impl FnOnce(C, Actor) -> Input,
    ) -> Result<DecodedCommand<Input>, Problem> {
        let envelope: Envelope<C> = read(body)?;
        let claims = self
            .trust
            .caller(&envelope, body, &self.parts.workspace, self.now)
            .map_err(AuthError::problem)?;
        authorize(claims.as_ref(), Right::Operate)?;
        let by = claims.map_or(envelope.actor, |claims| Actor(claims.user.to_string()));
        Ok(DecodedCommand::one(
            input(envelope.command, by),
            envelope.key,
        ))
    }

    fn timers(&self, body: &[u8]) -> Result<DecodedCommand<Input>, Problem> {
        let SetTimers { owner, timers } = read::<SetTimers>(body)?.command;
        // The timers of schedules are set by schedules only.
        let parsed = owner.parse::<Owner>().ok();
        let Some(owner) = parsed.filter(|owner| *owner != Owner::Scheduler) else {
            let detail = format!("invalid owner `{owner}`; expected executor or handoff");
            return Err(Problem::invalid_body(detail));
        };
        if timers.is_empty() || timers.len() > TIMERS_MAX {
            let count = timers.len();
            let detail = format!("timers: {count} in one message; expected 1 to {TIMERS_MAX}");
            return Err(Problem::invalid_body(detail));
        }
        let inputs = timers.into_iter().map(|timer| self.timer(owner, timer));
        Ok(DecodedCommand::many(inputs.collect::<Result<_, _>>()?))
    }

    fn timer(&self, owner: Owner, timer: SetTimer) -> Result<Input, Problem> {
        let SetTimer { id, rev, due } = timer;
        if id.is_empty() || id.len() > ID_BYTES_MAX || id.contains('\0') {
            let detail = format!("id: must have 1 to {ID_BYTES_MAX} bytes without NUL");
            return Err(Problem::invalid_body(detail));
        }
        if i64::try_from(rev).is_err() {
            return Err(Problem::invalid_body("rev: must fit into 63 bits"));
        }
        Ok(Input::Set {
            key: Key {
                workspace: self.parts.workspace.clone(),
                owner,
                id,
            },
            rev,
            due: due.map(round_up).transpose()?,
        })
    }
}

fn read<C: Command>(body: &[u8]) -> Result<Envelope<C>, Problem> {
    check_message(C::VERB, body)?;
    serde_json::from_slice(body)
        .map_err(|error| Problem::invalid_body(format!("`{}`: {error}", C::VERB)))
}

/// The timer of a schedule, which contains the schedule.
fn key_of_schedule(workspace: &Workspace, name: &ScheduleName) -> Key {
    Key {
        workspace: workspace.clone(),
        owner: Owner::Scheduler,
        id: name.to_string(),
    }
}

/// Rounds up to whole milliseconds, the resolution of the clock.
fn round_up(due: DateTime<Utc>) -> Result<DateTime<Utc>, Problem> {
    if !(1970..=9999).contains(&due.year()) {
        let detail = format!("due: `{due}` must be within the years 1970 to 9999");
        return Err(Problem::invalid_body(detail));
    }
    let cut = due.trunc_subsecs(3);
    Ok(if cut < due {
        cut + TimeDelta::milliseconds(1)
    } else {
        cut
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &serde_json::Value) -> Result<DecodedCommand<Input>, Problem> {
        let reader = Reader {
            parts: &parts(),
            trust: &Trust::default(),
            now: DateTime::UNIX_EPOCH,
        };
        reader.decode(body.to_string().as_bytes())
    }

    fn parts() -> Parts {
        Parts {
            workspace: "acme".parse().unwrap(),
            service: "scheduler".into(),
            verb: SetTimers::VERB.into(),
        }
    }

    fn body(owner: &str, due: &str) -> serde_json::Value {
        serde_json::json!({
            "actor": "service:executor",
            "command": {"owner": owner, "timers": [{"id": "a", "rev": 1, "due": due}]},
        })
    }

    #[test]
    fn a_due_time_is_rounded_up_to_milliseconds() {
        let inputs = read(&body("executor", "2026-01-01T00:00:00.0001Z"))
            .unwrap()
            .inputs;
        let [Input::Set { due: Some(due), .. }] = inputs.as_slice() else {
            panic!("{inputs:?}")
        };
        assert_eq!(due.to_rfc3339(), "2026-01-01T00:00:00.001+00:00");
    }

    #[test]
    fn a_timer_that_could_never_fire_is_refused() {
        for (owner, due) in [
            ("executor.x", "2026-01-01T00:00:00Z"),
            ("nobody", "2026-01-01T00:00:00Z"),
            ("scheduler", "2026-01-01T00:00:00Z"),
            ("executor", "+10000-01-01T00:00:00Z"),
            ("executor", "tomorrow"),
        ] {
            let problem = read(&body(owner, due)).unwrap_err();
            assert_eq!(problem.status, 422, "{owner} {due}");
        }
    }
}
