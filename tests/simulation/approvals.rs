//! Approvals of gated calls (S2-R4). People edit them, send them back, give them in advance and lose the right to give
//! them. What ran is compared with what was approved.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::executor::RetryRun;
use holdpoint_contracts::handoff::{
    CreateStandingApproval, Decision, PutUser, RevokeStandingApproval, StandingApprovalTerms,
};
use holdpoint_contracts::history::{EventType, HistoryItem};
use holdpoint_contracts::hold::{HoldOutcome, HoldSpec};
use holdpoint_executor::domain::need::{DIRECTORY_AGE_MAX, KnownUser};
use holdpoint_executor::domain::run::{Phase as RunPhase, Run, StepPhase};
use holdpoint_handoff::domain::{Aggregate, Effect, Key, Phase, Request};
use holdpoint_ids::{HoldId, RunId, StandingApprovalId};
use serde_json::{Value, json};

use crate::people::PEOPLE;
use crate::plans::{APPROVAL_VALID, GATED};
use crate::sweeps;
use crate::tables::UserCopy;
use crate::worker::Effects;
use crate::world::{World, acme};

/// How often people may send the arguments of a call back.
const REVISIONS_MAX: u32 = 5;

/// Outcomes that the histories must cover together.
pub(crate) const OUTCOMES: [&str; 9] = [
    "a gated call, sent back",
    "a gated call, sent back five times",
    "a gated call, made with edited arguments",
    "a gated call, approved by a standing approval",
    "a standing approval, used up",
    "an approval, void because its approver lost the right",
    "an approval, too old for its call",
    "a gated call, asked again after a retry of its run",
    "a gated call, stopped at its start because the users are not known",
];

type StepKey = (RunId, String);

/// A call that people have approved.
struct ApprovedCall {
    key: StepKey,
    /// As it was asked about, or edited.
    args: Value,
    is_edited: bool,
    at: DateTime<Utc>,
    voters: Vec<String>,
}

/// What people approved in the history so far.
#[derive(Default)]
pub(crate) struct Approvals {
    approved: BTreeMap<HoldId, ApprovedCall>,
    /// The newest request about each gated step.
    newest: BTreeMap<StepKey, HoldId>,
    /// Requests before a retry of their run.
    retried: BTreeSet<HoldId>,
    /// How often people had an uncertain step run again.
    run_again: BTreeMap<StepKey, u32>,
    revisions: BTreeMap<StepKey, u32>,
    uses: BTreeSet<(StandingApprovalId, u32)>,
    /// The ones of [`OUTCOMES`] in this history.
    pub(crate) covered: BTreeSet<&'static str>,
}

/// The executor's copy of the users at an instant.
#[derive(Clone, Copy)]
pub(crate) struct Users<'a> {
    pub(crate) copy: &'a UserCopy,
    pub(crate) now: DateTime<Utc>,
    pub(crate) clock_lag: TimeDelta,
}

impl Users<'_> {
    fn may_all_decide(self, voters: &[String]) -> bool {
        voters.iter().all(|voter| {
            let user = self.copy.users.get(voter.as_str());
            user.is_some_and(|user| user.roles.iter().any(|role| role.as_str() == "owner"))
        })
    }

    fn is_too_old(self, call: &ApprovedCall) -> bool {
        call.at < self.now - APPROVAL_VALID - self.clock_lag
    }
}

impl Approvals {
    /// Notes what the handoff service has stored.
    pub(crate) fn note(&mut self, states: &HashMap<Key, Aggregate>) {
        let requests = states.values().filter_map(Aggregate::try_as_request_ref);
        for request in requests {
            let (
                Phase::Decided {
                    outcome, at, data, ..
                },
                Some(spec),
            ) = (&request.phase, &request.spec)
            else {
                continue;
            };
            let ([item], HoldOutcome::Approved) = (spec.items.as_slice(), outcome) else {
                continue;
            };
            let edited = data.get("edited_args");
            let votes = request.progress.votes.iter();
            let call = ApprovedCall {
                key: (request.id.run, item.id.clone()),
                args: edited.unwrap_or(&item.args).clone(),
                is_edited: edited.is_some(),
                at: *at,
                voters: votes.map(|vote| vote.by.clone()).collect(),
            };
            self.approved.insert(request.id, call);
        }
    }

    /// Checks the uses of standing approvals: never more than permitted, and each is a vote of its creator.
    pub(crate) fn check_uses(&mut self, effects: &[Effect], states: &HashMap<Key, Aggregate>) {
        for effect in effects {
            let Effect::StandingApprovalUsed {
                id,
                number,
                request,
                ..
            } = effect
            else {
                continue;
            };
            let approval = states.get(&Key::StandingApproval(acme(), *id));
            let approval = approval.and_then(Aggregate::try_as_standing_approval_ref);
            let approval = approval.unwrap_or_else(|| panic!("{id} does not exist"));
            let max_uses = approval.terms.max_uses;
            assert!(*number <= max_uses, "use {number} of {max_uses}");
            let is_first = self.uses.insert((*id, *number));
            assert!(is_first, "two requests have use {number} of {id}");
            let request = states.get(&Key::Request(acme(), *request));
            let request = request.and_then(Aggregate::try_as_request_ref).unwrap();
            let by = approval.created_by.as_str();
            let vote = request.progress.votes.iter().find(|vote| vote.by == by);
            let vote = vote.unwrap_or_else(|| panic!("{by} has no vote: {request:#?}"));
            let is_ended = approval.revoked.as_ref().is_some_and(|it| it.at < vote.at);
            assert!(
                !is_ended && vote.at < approval.expires_at(),
                "{approval:#?}"
            );
            check_covered(&approval.terms, request);
            self.covered.insert(OUTCOMES[3]);
            if *number == max_uses {
                self.covered.insert(OUTCOMES[4]);
            }
        }
    }

    /// A gated call is dispatched only as its newest request was approved, while the approval counts.
    pub(crate) fn check_dispatch(&self, key: &StepKey, args: &Value, users: Users<'_>) {
        if args["subject"] == GATED {
            let call = self.permitted(key, users);
            assert_eq!(
                call.args, *args,
                "{key:?} has other arguments than approved"
            );
        }
    }

    /// The same is checked once more when a worker starts the step.
    pub(crate) fn check_start(&self, before: &Run, after: &Run, users: Users<'_>) {
        for step in &after.steps {
            let StepPhase::Granted(grant) = &step.phase else {
                continue;
            };
            let mut earlier = before.steps.iter().filter(|old| old.id == step.id);
            let is_new = !earlier.any(|old| old.phase == step.phase);
            if is_new && grant.handed.is_gated {
                self.permitted(&(after.id, step.id.clone()), users);
                let is_known = users.copy.age <= DIRECTORY_AGE_MAX;
                assert!(is_known, "{} started without known users", step.id);
            }
        }
    }

    fn permitted(&self, key: &StepKey, users: Users<'_>) -> &ApprovedCall {
        let hold = self.newest.get(key);
        let hold = hold.unwrap_or_else(|| panic!("{key:?} was never asked"));
        let call = self.approved.get(hold);
        let call = call.unwrap_or_else(|| panic!("{key:?} runs without an approval of {hold}"));
        assert!(
            !users.is_too_old(call),
            "{key:?}: {hold} is not valid any more"
        );
        assert!(!self.retried.contains(hold), "{key:?} was not asked again");
        let may = users.may_all_decide(&call.voters);
        assert!(may, "{key:?}: {:?} lost the right", call.voters);
        call
    }

    pub(crate) fn record(&mut self, run: RunId, item: &HistoryItem, users: Users<'_>) {
        let key = (run, item.step.clone().unwrap_or_default());
        if item.kind == EventType::RunAwaitingApproval {
            let hold = serde_json::from_value(item.data["request"].clone()).unwrap();
            self.ask(key, hold, users);
        } else if item.kind == EventType::InputAnswered && item.data["answer"] == "run_again" {
            *self.run_again.entry(key).or_default() += 1;
        } else if item.kind == EventType::RunRetried {
            let newest = self.newest.iter().filter(|((of, _), _)| *of == run);
            self.retried.extend(newest.map(|(_, hold)| *hold));
        } else if item.kind == EventType::StepRevised {
            let times = self.revisions.entry(key).or_default();
            *times += 1;
            assert!(*times <= REVISIONS_MAX, "sent back {times} times: {item:?}");
            self.covered.insert(OUTCOMES[0]);
            if *times == REVISIONS_MAX {
                self.covered.insert(OUTCOMES[1]);
            }
        }
    }

    /// Notes that people are asked about a call, and why its earlier approval does not count.
    fn ask(&mut self, key: StepKey, hold: HoldId, users: Users<'_>) {
        let Some(earlier) = self.newest.insert(key, hold) else {
            return;
        };
        let Some(call) = self.approved.get(&earlier) else {
            return;
        };
        let place = if self.retried.contains(&earlier) {
            7
        } else if users.is_too_old(call) {
            6
        } else if users.may_all_decide(&call.voters) {
            return;
        } else {
            5
        };
        self.covered.insert(OUTCOMES[place]);
    }

    /// S2-R4: each approved call has its effect at most once, and once more for each time that people had an uncertain one
    /// run again.
    pub(crate) fn check_effects(&mut self, effects: &Effects) {
        for (key, done) in effects {
            for args in done.iter().filter(|args| args["subject"] == GATED) {
                let approved = self.approved.values();
                let approved = approved.filter(|call| call.key == *key && call.args == *args);
                let approved: Vec<_> = approved.collect();
                let again = self.run_again.get(key).copied().unwrap_or(0);
                let allowed = approved.len() + usize::try_from(again).unwrap();
                let times = done.iter().filter(|other| *other == args).count();
                assert!(
                    !approved.is_empty() && times <= allowed,
                    "{key:?} was done {times} times with {args}, approved {allowed} times"
                );
                if approved.iter().any(|call| call.is_edited) {
                    self.covered.insert(OUTCOMES[2]);
                }
            }
        }
    }

    /// How often people had the step run again by sending a call back.
    pub(crate) fn revisions_of(&self, key: &StepKey) -> u32 {
        self.revisions.get(key).copied().unwrap_or(0)
    }

    /// Whether a call that people have approved was made.
    pub(crate) fn is_made(&self, is_done: impl Fn(&StepKey) -> bool) -> bool {
        self.approved.values().any(|call| is_done(&call.key))
    }
}

fn check_covered(terms: &StandingApprovalTerms, request: &Request) {
    let spec = request.spec.as_ref().unwrap();
    let [item] = spec.items.as_slice() else {
        panic!("not one call: {request:#?}");
    };
    assert_eq!(
        (&terms.agent, &terms.tool),
        (spec.agent.as_ref().unwrap(), &item.tool)
    );
    let limit = &terms.args_schema["properties"]["body"]["const"];
    assert!(
        limit.is_null() || *limit == item.args["body"],
        "{request:#?}"
    );
    assert!(
        spec.asks_again.is_none(),
        "asked again, and not of a person"
    );
}

impl World {
    /// What a person does with a gated call.
    pub(crate) fn review(&mut self, spec: &HoldSpec) -> Decision {
        let item = &spec.items[0];
        match self.chance.below(10) {
            // Without a step that made the arguments, the service refuses it.
            0..=5 if spec.revises.is_some() || self.chance.one_in(6) => Decision::Revise {
                instructions: "Shorter.".to_owned(),
            },
            6..=7 => {
                let mut edited = item.args.clone();
                edited["body"] = json!(format!("edited {}", self.chance.below(2)));
                Decision::Approve {
                    comment: None,
                    edited_args: Some(edited),
                    digest: Some(item.digest.clone()),
                }
            }
            8 => Decision::Reject {
                reason: "No.".to_owned(),
            },
            _ => Decision::approve(None),
        }
    }

    /// A person approves calls in advance or ends that, or Bob loses or gets his role.
    pub(crate) fn act_on_approvals(&mut self) {
        match self.chance.below(6) {
            0..=1 => self.approve_in_advance(),
            2 => self.revoke_standing_approval(),
            _ => {
                let role = ["owner", "owner", "viewer"][self.chance.place(3)];
                self.change_rights(role);
            }
        }
    }

    /// Bob loses or gets his role. Ada keeps hers, so that somebody may always decide.
    pub(crate) fn change_rights(&mut self, role: &str) {
        let bob = PutUser {
            name: PEOPLE[1].parse().unwrap(),
            email: Some(format!("{}@example.com", PEOPLE[1])),
            roles: vec![role.parse().unwrap()],
        };
        self.signed(0, bob);
    }

    /// Retries failed runs, each at most twice, after the chaos. False: there was none.
    pub(crate) fn retry_failed(&mut self) -> bool {
        if !self.features.has_reviews() {
            return false;
        }
        let is_failed =
            |run: &&Run| matches!(run.phase, RunPhase::Failed { .. }) && run.retries < 2;
        let runs = sweeps::runs(&self.executor);
        let failed: Vec<_> = runs
            .into_iter()
            .filter(is_failed)
            .map(|run| run.id)
            .collect();
        for run in &failed {
            let (run, from_step) = (*run, None);
            self.send_command(RetryRun { run, from_step });
        }
        !failed.is_empty()
    }

    pub(crate) fn approve_in_advance(&mut self) {
        let id = StandingApprovalId::from_uuid(self.fresh_run().uuid());
        let limits = [
            json!({}),
            json!({ "properties": { "body": { "const": "b" } } }),
        ];
        let minutes = Duration::from_mins(1 + self.chance.below(600));
        let terms = StandingApprovalTerms {
            agent: format!("agent-{}", self.chance.below(2)).parse().unwrap(),
            tool: "send_email".parse().unwrap(),
            version: None,
            args_schema: limits[self.chance.place(2)].clone(),
            max_uses: 1 + u32::try_from(self.chance.below(3)).unwrap(),
            expires_in: u64::try_from(minutes.as_millis()).unwrap(),
            reason: None,
            call: None,
        };
        let person = self.chance.place(PEOPLE.len());
        self.signed(person, CreateStandingApproval { id, terms });
    }

    fn revoke_standing_approval(&mut self) {
        let states = self.handoff.states.values();
        let all = states.filter_map(Aggregate::try_as_standing_approval_ref);
        let mut ids: Vec<_> = all.map(|approval| approval.id).collect();
        ids.sort_unstable();
        if !ids.is_empty() {
            let id = ids[self.chance.place(ids.len())];
            self.signed(0, RevokeStandingApproval { id });
        }
    }

    /// The executor's copy of the users lags, and for some time it may not be confirmed at all.
    pub(crate) fn age_users(&mut self) {
        match self.chance.below(12) {
            0..=4 => self.copy_users(),
            5 => self.executor.rows.users.age = DIRECTORY_AGE_MAX + Duration::from_secs(1),
            _ => {}
        }
    }

    pub(crate) fn copy_users(&mut self) {
        let copy = &mut self.executor.rows.users;
        copy.age = Duration::ZERO;
        let states = self.handoff.states.values();
        for user in states.filter_map(Aggregate::try_as_user_ref) {
            let known = KnownUser {
                is_active: user.active,
                roles: user.roles.iter().cloned().collect(),
            };
            copy.users.insert(user.name.to_string(), known);
        }
    }
}
