//! Limits of concurrent work: in total, for a workspace and for a caller. They apply to live streams with long polls,
//! and to agents that are compiled.

use holdpoint_contracts::Problem;
use holdpoint_ids::Workspace;

use crate::permits::{Permit, Permits};

#[derive(Debug)]
pub(crate) struct Limits {
    /// In total; one more is refused with 503.
    all: usize,
    /// For one workspace; one more is refused with 429.
    workspace: usize,
    /// For one user or step; one more is refused with 429.
    caller: usize,
    /// The stable code of 429.
    code: &'static str,
    what: &'static str,
}

pub(crate) const STREAMS: Limits = Limits {
    all: 2_000,
    workspace: 1_000,
    caller: 50,
    code: "too_many_streams",
    what: "live streams",
};

/// Agents that are planned or applied. Each holds a body in memory and waits for the compiler.
pub(crate) const PLANS: Limits = Limits {
    all: 8,
    workspace: 4,
    caller: 2,
    code: "too_many_plans",
    what: "agents being compiled",
};

/// Agents that are rehearsed. A service rehearses one at a time, and the others wait.
pub(crate) const REHEARSALS: Limits = Limits {
    all: 6,
    workspace: 1,
    caller: 1,
    code: "too_many_rehearsals",
    what: "agents being rehearsed",
};

#[derive(Debug, Clone)]
pub(crate) struct ConcurrencyLimit {
    limits: &'static Limits,
    permits: Permits<Counted>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Counted {
    All,
    Workspace(Workspace),
    Caller(Workspace, String),
}

pub(crate) type ConcurrencyPermit = Permit<Counted>;

impl ConcurrencyLimit {
    pub(crate) fn new(limits: &'static Limits) -> Self {
        let permits = Permits::default();
        Self { limits, permits }
    }

    /// # Errors
    /// 503 or 429 at a limit.
    pub(crate) fn take(
        &self,
        workspace: &Workspace,
        caller: &str,
    ) -> Result<ConcurrencyPermit, Problem> {
        let limits = self.limits;
        let of_caller = Counted::Caller(workspace.clone(), caller.to_owned());
        let counted = [
            (Counted::All, limits.all),
            (of_caller, limits.caller),
            (Counted::Workspace(workspace.clone()), limits.workspace),
        ];
        self.permits.take(counted).map_err(|full| match full {
            0 => {
                let Limits { all, what, .. } = limits;
                Problem::unavailable(format!(
                    "too many {what}; at most {all} are allowed, so try again later"
                ))
            }
            1 => limits.too_many("you have", limits.caller),
            _ => limits.too_many("this workspace has", limits.workspace),
        })
    }
}

impl Limits {
    fn too_many(&self, who: &str, most: usize) -> Problem {
        let what = self.what;
        let detail = format!("{who} {most} {what}, which is the most; wait for one to end");
        Problem::new(429, self.code, detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mend A-M1: one viewer takes no streams of others.
    #[test]
    fn a_caller_and_a_workspace_have_limits_of_their_own() {
        let streams = ConcurrencyLimit::new(&STREAMS);
        let (one, other): (Workspace, Workspace) =
            ("one".parse().unwrap(), "other".parse().unwrap());
        let mut permits: Vec<_> = (0..STREAMS.caller)
            .map(|_| streams.take(&one, "viewer").unwrap())
            .collect();
        let refused = streams.take(&one, "viewer").unwrap_err();
        assert_eq!((refused.status, &*refused.code), (429, "too_many_streams"));
        permits.push(streams.take(&one, "owner").unwrap());
        permits.push(streams.take(&other, "viewer").unwrap());
        for number in 0.. {
            match streams.take(&one, &format!("user-{number}")) {
                Ok(permit) => permits.push(permit),
                Err(refused) => {
                    assert_eq!(refused.status, 429);
                    break;
                }
            }
        }
        assert_eq!(permits.len(), STREAMS.workspace + 1);
        permits.push(streams.take(&other, "owner").unwrap());
        permits.clear();
        assert!(streams.permits.are_unused());
    }

    /// Must of Mend: one caller cannot fill memory and the compiler with agents to plan.
    #[test]
    fn a_caller_plans_two_agents_at_a_time() {
        let plans = ConcurrencyLimit::new(&PLANS);
        let workspace: Workspace = "one".parse().unwrap();
        let first = plans.take(&workspace, "ada").unwrap();
        let second = plans.take(&workspace, "ada").unwrap();
        let refused = plans.take(&workspace, "ada").unwrap_err();
        assert_eq!((refused.status, &*refused.code), (429, "too_many_plans"));
        assert!(plans.take(&workspace, "bob").is_ok());
        drop((first, second));
        assert!(plans.take(&workspace, "ada").is_ok());
    }
}
