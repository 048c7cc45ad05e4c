//! People and programs: they answer what they are asked (twice, late, two at once), open holds that
//! stand alone and take them back, take handoffs and runs over. And a scripted owner of holds: it
//! wants them open, frozen and gone by the protocol of the executor, more often than runs do.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_auth::{Claims, Keys, Secrets, Signer};
use holdpoint_contracts::executor::{
    CancelRun, PauseNew, PauseRun, PauseScope, PauseWaiting, ResumeRun, ResumeScope, TakeOverRun,
};
use holdpoint_contracts::handoff::{
    ActOnRequest, ApprovalRules, Completion, DecideRequest, Decision, Disposition, EscalationRules,
    OpenHold, OutcomeType, PolicyRules, PolicyRung, PutPolicy, PutUser, RequestAction, SetHolds,
    WithdrawHold,
};
use holdpoint_contracts::hold::{DesiredHold, HoldSpec, HoldState, OnTimeout, RungAct};
use holdpoint_contracts::message::{Actor, Command, Envelope};
use holdpoint_contracts::run::{HoldKind, ResumeMode};
use holdpoint_handoff::domain::{Aggregate, Phase, Request};
use holdpoint_ids::{AgentName, HoldId, RunId};
use serde_json::json;

use crate::features::Feature;
use crate::world::{World, acme};

const PEOPLE: [&str; 2] = ["ada", "bob"];

/// When the rung of a policy ends what a run asks.
pub(crate) const RUNG_AFTER: TimeDelta = TimeDelta::seconds(30);

const STANDALONE_MAX: usize = 3;
const SCRIPTED_MAX: usize = 3;

/// Until a command that nobody has answered is sent again.
const AGAIN_AFTER: TimeDelta = TimeDelta::seconds(5);

/// The keys of the installation. Made once: they cost.
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

    /// The envelope as the gateway sends it for a person.
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

/// Commands on their way, as the gateway keeps them.
#[derive(Default)]
pub(crate) struct Told {
    count: u64,
    kept: BTreeMap<String, (String, String, DateTime<Utc>)>,
}

impl Told {
    /// Returns where the answer is to go.
    pub(crate) fn keep(&mut self, subject: &str, body: &str, now: DateTime<Utc>) -> String {
        self.count += 1;
        let inbox = format!("gateway.{:06}", self.count);
        let kept = (subject.to_owned(), body.to_owned(), now);
        self.kept.insert(inbox.clone(), kept);
        inbox
    }

    pub(crate) fn answered(&mut self, inbox: &str) {
        self.kept.remove(inbox);
    }

    /// What nobody has answered for too long.
    pub(crate) fn again(&mut self, now: DateTime<Utc>) -> Vec<(String, String, String)> {
        let mut again = Vec::new();
        for (inbox, (subject, body, sent_at)) in &mut self.kept {
            if *sent_at + AGAIN_AFTER <= now {
                *sent_at = now;
                again.push((inbox.clone(), subject.clone(), body.clone()));
            }
        }
        again
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}

/// A hold of the scripted owner, and what it wants of it now.
pub(crate) struct Scripted {
    pub(crate) rev: u64,
    pub(crate) state: HoldState,
}

/// What was asked for so far.
#[derive(Default)]
pub(crate) struct People {
    pub(crate) standalone: Vec<HoldId>,
    pub(crate) scripted: BTreeMap<HoldId, Scripted>,
}

pub(crate) fn requests(world: &World) -> Vec<&Request> {
    let states = world.handoff.states.values();
    let mut requests: Vec<_> = states
        .filter_map(|state| match state {
            Aggregate::Request(request) => Some(&**request),
            Aggregate::User(_) | Aggregate::Policy(_) => None,
        })
        .filter(|request| request.spec.is_some())
        .collect();
    requests.sort_by_key(|request| request.id);
    requests
}

pub(crate) const fn is_standing(request: &Request) -> bool {
    matches!(request.phase, Phase::Open { .. } | Phase::Frozen { .. })
}

impl World {
    pub(crate) fn make_users(&mut self) {
        for (place, name) in PEOPLE.iter().enumerate() {
            let command = PutUser {
                name: name.parse().unwrap(),
                email: (place > 0).then(|| format!("{name}@example.com")),
                roles: vec!["owner".parse().unwrap()],
            };
            // The first user is made by a service, the next one by the first.
            let envelope = Envelope::of_service("gateway", command);
            if place == 0 {
                self.post(&envelope);
            } else {
                self.post(&Keyring::get().vouch(0, envelope));
            }
        }
    }

    /// A time for what names none, and a rung that ends what a run asks.
    pub(crate) fn make_policies(&mut self) {
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

    /// Somebody does something about requests.
    pub(crate) fn somebody(&mut self) {
        match self.chance.below(10) {
            9 => self.watch_one(),
            8 => self.take_one_over(),
            0 if self.people.standalone.len() < STANDALONE_MAX => self.open_standalone(),
            1 => self.withdraw(),
            2 if self.people.scripted.len() < SCRIPTED_MAX => self.open_scripted(),
            2..=4 => self.move_scripted(),
            _ => self.answer_one(),
        }
    }

    fn fresh_run(&mut self) -> RunId {
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
        self.tell(OpenHold {
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
        self.tell(WithdrawHold { id, version: None });
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

    /// A pause, a resume that moves the deadline by what was left, or the end.
    fn move_scripted(&mut self) {
        let ids: Vec<_> = self.people.scripted.keys().copied().collect();
        if ids.is_empty() {
            return;
        }
        let id = ids[self.chance.place(ids.len())];
        let now = self.now;
        let state = match &self.people.scripted[&id].state {
            HoldState::Withdrawn { .. } => return,
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

    /// Mostly an open request; now and then one that is over, or the same twice, or two people.
    fn answer_one(&mut self) {
        let is_late = self.chance.one_in(4);
        let found: Vec<_> = requests(self)
            .into_iter()
            .filter(|request| is_late || is_standing(request))
            .filter_map(|request| Some((request.id, request.spec.clone()?, request.version)))
            .collect();
        if found.is_empty() {
            return;
        }
        let (id, spec, version) = &found[self.chance.place(found.len())];
        let times = 1 + self.chance.place(2);
        for _ in 0..times {
            let person = self.chance.place(PEOPLE.len());
            let decision = self.decision(spec);
            let version = self.chance.one_in(4).then_some(*version);
            self.decide(*id, person, decision, version);
        }
    }

    /// Everything that is open is answered; false if nothing was.
    pub(crate) fn answer_all(&mut self) -> bool {
        let open: Vec<_> = requests(self)
            .into_iter()
            .filter(|request| is_standing(request) && request.kind_of() != HoldKind::Timer)
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
                // What is most often said of an uncertain step.
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
            HoldKind::Approval | HoldKind::Timer => match self.chance.one_in(2) {
                true => Decision::Approve { comment: None },
                false => Decision::Reject {
                    reason: "No.".to_owned(),
                },
            },
        }
    }

    /// A handoff is somebody's from now on, or is given to another: a run's, or one that is over.
    fn take_one_over(&mut self) {
        let handed: Vec<_> = requests(self)
            .into_iter()
            .filter(|request| request.kind_of() == HoldKind::Handoff)
            .map(|request| request.id)
            .collect();
        if handed.is_empty() {
            return;
        }
        let id = handed[self.chance.place(handed.len())];
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

    /// Somebody does something about runs, or about all of them.
    pub(crate) fn person(&mut self) {
        if self.runs.is_empty() {
            return;
        }
        let run = self.runs[self.chance.place(self.runs.len())];
        let scopes = 2 * u64::from(self.features.has(Feature::Scopes));
        match self.chance.below(10 + scopes) {
            0 => self.tell(CancelRun { run, reason: None }),
            10 => {
                let agent = self.scope();
                let (waiting, new) = (PauseWaiting::Hold, PauseNew::Accept);
                let command = PauseScope {
                    agent,
                    waiting,
                    new,
                };
                self.signed(0, command);
            }
            11 => {
                let agent = self.scope();
                let mode = ResumeMode::Continue;
                self.signed(0, ResumeScope { agent, mode });
            }
            9 => self.take_over_run(run),
            1..=4 => {
                let waiting = PauseWaiting::Hold;
                self.tell(PauseRun { run, waiting });
                if self.features.has(Feature::Restarting) {
                    let mode = ResumeMode::Restart;
                    self.tell(ResumeRun { run, mode });
                }
            }
            5..=8 => {
                let modes = [
                    ResumeMode::Continue,
                    ResumeMode::KeepDeadline,
                    ResumeMode::Restart,
                    ResumeMode::Now,
                ];
                let mode = modes[self.chance.place(modes.len())];
                self.tell(ResumeRun { run, mode });
            }
            _ => unreachable!("below 12"),
        }
    }

    /// An agent, or everything.
    fn scope(&mut self) -> Option<AgentName> {
        let number = self.chance.below(3);
        (number < 2).then(|| format!("agent-{number}").parse().unwrap())
    }

    /// Somebody becomes the owner of a run.
    pub(crate) fn take_over_run(&mut self, run: RunId) {
        let person = self.chance.place(PEOPLE.len());
        self.signed(person, TakeOverRun { run });
    }

    fn decide(&mut self, id: HoldId, person: usize, decision: Decision, version: Option<u64>) {
        let command = DecideRequest {
            id,
            decision,
            version,
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

/// What is asked of people, as far as there is a question.
trait Kind {
    fn kind_of(&self) -> HoldKind;
}

impl Kind for Request {
    fn kind_of(&self) -> HoldKind {
        self.spec.as_ref().map_or(HoldKind::Timer, |spec| spec.kind)
    }
}

fn spec(kind: HoldKind, on_timeout: OnTimeout) -> HoldSpec {
    HoldSpec {
        on_timeout,
        ..HoldSpec::asking(kind, "May it go on?")
    }
}
