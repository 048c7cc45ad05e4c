//! Translates commands into inputs.

use chrono::{DateTime, Datelike, SubsecRound, TimeDelta, Utc};
use holdpoint_contracts::message::{Command, Envelope};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::scheduler::{SetTimer, SetTimers};
use holdpoint_contracts::subject::Parts;
use holdpoint_contracts::value_limits::check_message;
use holdpoint_kernel::DecodedCommand;

use crate::domain::{Input, Key, Owner};

/// Timers of one message at most. A message with more is refused.
const TIMERS_MAX: usize = 1_000;

/// Longest id of a timer, in bytes.
const ID_BYTES_MAX: usize = 200;

pub(crate) fn decode(parts: &Parts, body: &[u8]) -> Result<DecodedCommand<Input>, Problem> {
    if parts.verb != SetTimers::VERB {
        let detail = format!("the scheduler has no command `{}`", parts.verb);
        return Err(Problem::not_found(detail));
    }
    check_message(SetTimers::VERB, body)?;
    let Envelope { command, .. } = serde_json::from_slice::<Envelope<SetTimers>>(body)
        .map_err(|error| Problem::invalid_body(format!("`{}`: {error}", SetTimers::VERB)))?;
    let SetTimers { owner, timers } = command;
    let Ok(owner) = owner.parse::<Owner>() else {
        let detail = format!("invalid owner `{owner}`; expected executor or handoff");
        return Err(Problem::invalid_body(detail));
    };
    if timers.is_empty() || timers.len() > TIMERS_MAX {
        let count = timers.len();
        let detail = format!("timers: {count} in one message; expected 1 to {TIMERS_MAX}");
        return Err(Problem::invalid_body(detail));
    }
    let inputs = timers.into_iter().map(|timer| {
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
                workspace: parts.workspace.clone(),
                owner,
                id,
            },
            rev,
            due: due.map(round_up).transpose()?,
        })
    });
    Ok(DecodedCommand::many(inputs.collect::<Result<_, _>>()?))
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
        decode(&parts(), body.to_string().as_bytes())
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
            ("executor", "+10000-01-01T00:00:00Z"),
            ("executor", "tomorrow"),
        ] {
            let problem = read(&body(owner, due)).unwrap_err();
            assert_eq!(problem.status, 422, "{owner} {due}");
        }
    }
}
