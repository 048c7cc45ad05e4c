//! People and programs. They answer requests (twice, late, two at once), open and withdraw standalone holds, and take
//! over handoffs and runs. A scripted owner of holds opens, freezes and withdraws them by the protocol of the
//! executor, more often than runs do.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_auth::{Claims, Keys, Secrets, Signer};
use holdpoint_contracts::executor::TakeOverRun;
use holdpoint_contracts::handoff::{
    ActOnRequest, ApprovalRules, Completion, DecideRequest, Decision, Disposition, EscalationRules,
    OpenHold, OutcomeType, PolicyRules, PolicyRung, PutPolicy, PutUser, RequestAction, SetHolds,
    WithdrawHold,
};
use holdpoint_contracts::hold::{DesiredHold, HoldSpec, HoldState, OnTimeout, RungAct};
use holdpoint_contracts::message::{Actor, Command, Envelope};
use holdpoint_contracts::run::HoldKind;
use holdpoint_handoff::domain::{Aggregate, Phase, Request};
use holdpoint_ids::{HoldId, RunId};
use serde_json::json;

use crate::features::Feature;
use crate::world::{World, acme};

pub(crate) const PEOPLE: [&str; 2] = ["ada", "bob"];

/// When the rung of a policy ends the question of a run.
pub(crate) const RUNG_AFTER: TimeDelta = TimeDelta::seconds(30);

const STANDALONE_MAX: usize = 3;
const SCRIPTED_MAX: usize = 3;

/// Until an unanswered command is sent again.
const AGAIN_AFTER: TimeDelta = TimeDelta::seconds(5);

/// The keys of the installation. They are made once, because that takes long.
pub(crate) struct Keyring {
    pub(crate) keys: Keys,
    signer: Signer,
}

impl Keyring {
    pub(crate) fn get() -> &'static Self {
        static KEYRING: OnceLock<Keyring> = OnceLock::new();
        KEYRING.get_or_init(|| {
            let secrets = Secrets::fresh().unwrap();
            let signer = secrets.signer().unwrap();
            Self {
                signer,
                keys: secrets.keys().unwrap(),
            }
        })
    }

    /// Signs an envelope as the gateway does for a person.
    fn vouch<C: Command>(&self, person: usize, envelope: Envelope<C>) -> Envelope<C> {
        let claims = Claims {
            workspace: acme(),
            user: PEOPLE[person].parse().unwrap(),
            roles: vec!["owner".parse().unwrap()],
            expires_at: "2126-01-01T00:00:00Z".parse().unwrap(),
        };
        self.signer.vouch(&claims, envelope).unwrap()
    }
}

/// Unanswered commands, as the gateway keeps them.
#[derive(Default)]
pub(crate) struct PendingCommands {
    count: u64,
    kept: BTreeMap<String, (String, String, DateTime<Utc>)>,
}

impl PendingCommands {
    /// Returns the inbox of the reply.
    pub(crate) fn keep(&mut self, subject: &str, body: &str, now: DateTime<Utc>) -> String {
        self.count += 1;
        let inbox = format!("gateway.{:06}", self.count);
        let kept = (subject.to_owned(), body.to_owned(), now);
        self.kept.insert(inbox.clone(), kept);
        inbox
    }

    pub(crate) fn remove(&mut self, inbox: &str) {
        self.kept.remove(inbox);
    }

    /// Commands that are unanswered for too long: inbox, subject and body.
    pub(crate) fn due(&mut self, now: DateTime<Utc>) -> Vec<(String, String, String)> {
        let mut due = Vec::new();
        for (inbox, (subject, body, sent_at)) in &mut self.kept {
            if *sent_at + AGAIN_AFTER <= now {
                *sent_at = now;
                due.push((inbox.clone(), subject.clone(), body.clone()));
            }
        }
        due
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}

/// A hold of the scripted owner, with its newest desired state.
pub(crate) struct Scripted {
    pub(crate) rev: u64,
    pub(crate) state: HoldState,
}

/// Holds that were opened so far.
#[derive(Default)]
pub(crate) struct People {
    pub(crate) standalone: Vec<HoldId>,
    pub(crate) scripted: BTreeMap<HoldId, Scripted>,
}

pub(crate) fn requests(world: &World) -> Vec<&Request> {
    let states = world.handoff.states.values();
    let mut requests: Vec<_> = states
        .filter_map(Aggregate::try_as_request_ref)
        .map(Box::as_ref)
        .filter(|request| request.spec.is_some())
        .collect();
    requests.sort_by_key(|request| request.id);
    requests
}

pub(crate) const fn is_pending(request: &Request) -> bool {
    matches!(request.phase, Phase::Open { .. } | Phase::Frozen { .. })
}

impl World {
    pub(crate) fn create_users(&mut self) {
        for (place, name) in PEOPLE.iter().enumerate() {
            let command = PutUser {
                name: name.parse().unwrap(),
                email: (place > 0).then(|| format!("{name}@example.com")),
                roles: vec!["owner".parse().unwrap()],
            };
            // A service creates the first user, and the first user creates the next one.
            let envelope = Envelope::of_service("gateway", command);
            if place == 0 {
                self.post(&envelope);
            } else {
                self.post(&Keyring::get().vouch(0, envelope));
            }
        }
    }

    /// A default deadline, and a rung that ends the question of a run.
    pub(crate) fn create_policies(&mut self) {
        let soon = ApprovalRules {
            from: Vec::new(),
            need: 1,
            not_requester: false,
            decide_within: Some(90_000),
            valid_for: None,
        };
        let quick = EscalationRules {
            rungs: vec![PolicyRung {
                after: u64::try_from(RUNG_AFTER.num_milliseconds()).unwrap(),
                act: RungAct::Fail,
                to: Vec::new(),
                repeat: None,
            }],
            stop_on: Vec::new(),
            calendar: None,
            acknowledged_for: None,
        };
        let rules = [
            ("soon", PolicyRules::Approval(soon)),
            ("quick", PolicyRules::Escalation(quick)),
        ];
        for (name, rules) in rules {
            let name = name.parse().unwrap();
            self.signed(0, PutPolicy { name, rules });
        }
    }

    /// A person or program does something with a request.
    pub(crate) fn act_on_requests(&mut self) {
        if self.features.has_reviews() && self.chance.one_in(4) {
            return self.act_on_approvals();
        }
        let webhooks = 2 * u64::from(self.features.has(Feature::Webhooks));
        match self.chance.below(10 + webhooks) {
            11 => self.change_webhook(),
            10 => self.change_receiver(),
            9 => self.watch_run(),
            8 => self.act_on_handoff(),
            0 if self.people.standalone.len() < STANDALONE_MAX => self.open_standalone(),
            1 => self.withdraw(),
            2 if self.people.scripted.len() < SCRIPTED_MAX => self.open_scripted(),
            2..=4 => self.move_scripted(),
            _ => self.answer_request(),
        }
    }

    pub(crate) fn fresh_run(&mut self) -> RunId {
        let bits = u128::from(self.chance.next()) << 64 | u128::from(self.chance.next());
        format!("run_{bits:032x}").parse().unwrap()
    }

    fn open_standalone(&mut self) {
        let id = HoldId {
            run: self.fresh_run(),
            number: 0,
        };
        self.people.standalone.push(id);
        let kind = match self.chance.one_in(2) {
            true => HoldKind::Timer,
            false => HoldKind::Approval,
        };
        let on_timeout = [OnTimeout::Fail, OnTimeout::Escalate][self.chance.place(2)];
        let timeout_ms = 1_000 * (1 + self.chance.below(1_000));
        self.send_command(OpenHold {
            id,
            spec: spec(kind, on_timeout),
            timeout_ms,
        });
    }

    fn withdraw(&mut self) {
        if self.people.standalone.is_empty() {
            return;
        }
        let id = self.people.standalone[self.chance.place(self.people.standalone.len())];
        self.send_command(WithdrawHold { id, version: None });
    }

    fn open_scripted(&mut self) {
        let id = HoldId {
            run: self.fresh_run(),
            number: 1,
        };
        let length = 1 + i64::try_from(self.chance.below(20)).unwrap();
        let state = HoldState::Open {
            spec: Box::new(spec(HoldKind::Approval, OnTimeout::Fail)),
            deadline: Some(self.now + TimeDelta::seconds(length)),
        };
        self.state(id, state);
    }

    /// A pause, a resume with the remaining time, or the end.
    fn move_scripted(&mut self) {
        let ids: Vec<_> = self.people.scripted.keys().copied().collect();
        if ids.is_empty() {
            return;
        }
        let id = ids[self.chance.place(ids.len())];
        let now = self.now;
        let state = match &self.people.scripted[&id].state {
            HoldState::Withdrawn { .. } | HoldState::Erased { .. } => return,
            _ if self.chance.one_in(8) => HoldState::Withdrawn {
                reason: "The run has ended.".to_owned(),
                by: None,
            },
            HoldState::Open { spec, deadline } => {
                let left = (deadline.unwrap() - now).num_milliseconds();
                HoldState::Frozen {
                    spec: spec.clone(),
                    since: now,
                    remaining_ms: Some(u64::try_from(left).unwrap_or(0)),
                }
            }
            HoldState::Frozen {
                spec, remaining_ms, ..
            } => {
                let left = i64::try_from(remaining_ms.unwrap()).unwrap();
                HoldState::Open {
                    spec: spec.clone(),
                    deadline: Some(now + TimeDelta::milliseconds(left)),
                }
            }
        };
        self.state(id, state);
    }

    fn state(&mut self, id: HoldId, state: HoldState) {
        let rev = self.people.scripted.get(&id).map_or(0, |one| one.rev) + 1;
        let wanted = state.clone();
        self.people.scripted.insert(id, Scripted { rev, state });
        let command = SetHolds {
            owner: "executor".to_owned(),
            holds: vec![DesiredHold {
                id,
                rev,
                state: wanted,
            }],
        };
        self.post(&Envelope::of_service("executor", command));
    }

    /// Answers an open request, or one that has ended, or one twice, by one person or two.
    fn answer_request(&mut self) {
        let is_late = self.chance.one_in(4);
        let find_request: Vec<_> = requests(self)
            .into_iter()
            .filter(|request| is_late || is_pending(request))
            .filter_map(|request| Some((request.id, request.spec.clone()?, request.version)))
            .collect();
        if find_request.is_empty() {
            return;
        }
        let (id, spec, version) = &find_request[self.chance.place(find_request.len())];
        let times = 1 + self.chance.place(2);
        for _ in 0..times {
            let person = self.chance.place(PEOPLE.len());
            let decision = self.decision(spec);
            let version = self.chance.one_in(4).then_some(*version);
            self.decide(*id, person, decision, version);
            if self.features.has_reviews() && person > 0 && !self.chance.one_in(4) {
                self.change_rights("viewer");
            }
        }
    }

    /// Answers all open requests. False: there was none.
    pub(crate) fn answer_all(&mut self) -> bool {
        let open: Vec<_> = requests(self)
            .into_iter()
            .filter(|request| is_pending(request) && request.hold_kind() != HoldKind::Timer)
            .filter_map(|request| Some((request.id, request.spec.clone()?)))
            .collect();
        for (id, spec) in &open {
            let decision = self.decision(spec);
            self.decide(*id, 0, decision, None);
        }
        !open.is_empty()
    }

    fn decision(&mut self, spec: &HoldSpec) -> Decision {
        match spec.kind {
            HoldKind::Input if spec.schema.is_some() => Decision::Respond {
                answer: json!({ "region": "north" }),
            },
            HoldKind::Input => {
                let mut words = spec.options.clone();
                // The most frequent answer about an uncertain step.
                words.extend(words.iter().find(|word| *word == "run_again").cloned());
                let word = &words[self.chance.place(words.len())];
                Decision::Respond {
                    answer: json!(word),
                }
            }
            HoldKind::Handoff => Decision::Complete(Completion {
                notes: "called".to_owned(),
                outcome_type: OutcomeType::Resolved,
                disposition: match self.chance.one_in(2) {
                    true => Disposition::Finish,
                    false => Disposition::ReturnToAgent,
                },
            }),
            HoldKind::Approval if self.features.has_reviews() && !spec.items.is_empty() => {
                self.review(spec)
            }
            HoldKind::Approval | HoldKind::Timer | HoldKind::Signal | HoldKind::ChildRun => {
                match self.chance.one_in(2) {
                    true => Decision::approve(None),
                    false => Decision::Reject {
                        reason: "No.".to_owned(),
                    },
                }
            }
        }
    }

    /// A person takes over, accepts or reassigns a handoff, also one that has ended.
    fn act_on_handoff(&mut self) {
        let dispatched: Vec<_> = requests(self)
            .into_iter()
            .filter(|request| request.hold_kind() == HoldKind::Handoff)
            .map(|request| request.id)
            .collect();
        if dispatched.is_empty() {
            return;
        }
        let id = dispatched[self.chance.place(dispatched.len())];
        let to = format!("@user.{}", PEOPLE[self.chance.place(PEOPLE.len())]);
        let actions = [
            RequestAction::TakeOver,
            RequestAction::Accept,
            RequestAction::Reassign { to },
        ];
        let command = ActOnRequest {
            id,
            action: actions[self.chance.place(actions.len())].clone(),
            version: None,
        };
        let person = self.chance.place(PEOPLE.len());
        self.signed(person, command);
    }

    /// A person takes over a run.
    pub(crate) fn take_over_run(&mut self, run: RunId) {
        let person = self.chance.place(PEOPLE.len());
        self.signed(person, TakeOverRun { run });
    }

    fn decide(&mut self, id: HoldId, person: usize, decision: Decision, version: Option<u64>) {
        let command = DecideRequest {
            id,
            decision,
            version,
            silent: false,
        };
        self.signed(person, command);
    }

    pub(crate) fn signed<C: Command>(&mut self, person: usize, command: C) {
        let envelope = Envelope {
            actor: Actor(PEOPLE[person].to_owned()),
            assertion: None,
            key: None,
            command,
        };
        self.post(&Keyring::get().vouch(person, envelope));
    }
}

/// The kind of the hold of a request.
trait Kind {
    fn hold_kind(&self) -> HoldKind;
}

impl Kind for Request {
    fn hold_kind(&self) -> HoldKind {
        self.spec.as_ref().map_or(HoldKind::Timer, |spec| spec.kind)
    }
}

fn spec(kind: HoldKind, on_timeout: OnTimeout) -> HoldSpec {
    HoldSpec {
        on_timeout,
        ..HoldSpec::asking(kind, "May it go on?")
    }
}
