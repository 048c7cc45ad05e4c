//! One history: executor, handoff, scheduler, workers and people on an unkind bus, by seed.

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_clock::Clock;
use holdpoint_contracts::executor::{ApplyAgent, StartRun};
use holdpoint_contracts::message::{Actor, Command, Envelope};
use holdpoint_contracts::subject;
use holdpoint_egress::EgressPolicy;
use holdpoint_executor::Executor;
use holdpoint_executor::domain::Key;
use holdpoint_handoff::Handoff;
use holdpoint_ids::{RunId, Workspace};
use holdpoint_notification::{Notification, PublicUrl};
use holdpoint_scheduler::Scheduler;
use holdpoint_scheduler::domain::{Input as TimerInput, Phase as TimerPhase};
use serde_json::{Value, json};

use crate::bus::SimBus;
use crate::chance::Chance;
use crate::checks::Checks;
use crate::features::{Feature, Features};
use crate::notification::Outside;
use crate::people::{Keyring, People, Told};
use crate::planted;
use crate::requests::Requests;
use crate::service::{Around, Fault, SimService};
use crate::sweeps;
use crate::worker::{Effects, SimWorker};

/// Turns of a history, before the world is kind.
pub(crate) const TURNS: usize = 120;

/// Turns that a kind world may take to come to rest.
const REST_TURNS: usize = 1_500;

const WORKERS: usize = 2;
/// A clock is set back by fewer seconds than these: less than the rung of a policy.
const SLOW_MAX: i64 = 20;
const RUNS_MAX: usize = 4;

/// What is asked of a history.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Story {
    pub(crate) seed: u64,
    pub(crate) turns: usize,
    pub(crate) fault: Fault,
    /// Whether the bus may also lose what it has stored.
    pub(crate) loses: bool,
}

/// Everything there is.
pub(crate) struct World {
    pub(crate) story: Story,
    pub(crate) now: DateTime<Utc>,
    pub(crate) bus: SimBus,
    pub(crate) executor: SimService<Executor>,
    pub(crate) handoff: SimService<Handoff>,
    pub(crate) scheduler: SimService<Scheduler>,
    pub(crate) notification: SimService<Notification>,
    pub(crate) outside: Outside,
    pub(crate) workers: Vec<SimWorker>,
    pub(crate) effects: Effects,
    pub(crate) runs: Vec<RunId>,
    pub(crate) checks: Checks,
    pub(crate) requests: Requests,
    pub(crate) people: People,
    pub(crate) chance: Chance,
    /// Commands that nobody has answered yet: their senders keep them, and send them again.
    pub(crate) told: Told,
    pub(crate) features: Features,
    asked: sweeps::Asked,
    clock: Clock,
    pub(crate) replies: Vec<(String, Value)>,
    pub(crate) cruel: bool,
}

/// Lends what surrounds a service, beside the services themselves.
macro_rules! around {
    ($world:ident) => {
        Around {
            bus: &mut $world.bus,
            chance: &mut $world.chance,
            replies: &mut $world.replies,
            now: $world.now,
            fault: $world.story.fault,
            cruel: $world.cruel,
            features: $world.features,
        }
    };
}

pub(crate) use around;

pub(crate) fn acme() -> Workspace {
    "acme".parse().unwrap()
}

impl World {
    pub(crate) fn new(story: Story) -> Self {
        let now = "2026-03-02T09:00:00Z".parse().unwrap();
        let clock = Clock::standing_at(now);
        let keys = Keyring::get().keys.clone();
        let mut handoff = SimService::new(Handoff::new(keys.trust.clone(), clock.clone()));
        handoff.rewrite = planted::rewrite(story.fault);
        let trust = keys.trust.clone();
        let (core, _jobs) = Notification::new(
            trust,
            EgressPolicy::PublicOnly,
            clock.clone(),
            PublicUrl::of(None),
        );
        let mut notification = SimService::new(core);
        notification.rewrite = planted::rewrite_notification(story.fault);
        let features = Features::of(story.seed);
        handoff.refuses = features.has(Feature::Refusals).then_some(planted::refuses);
        let slow = if features.has(Feature::Clocks) {
            SLOW_MAX
        } else {
            0
        };
        Self {
            features,
            story,
            now,
            bus: SimBus::default(),
            executor: SimService::new(Executor::new(keys, clock.clone())),
            handoff,
            scheduler: SimService::new(Scheduler::new(clock.clone())),
            notification,
            outside: Outside::default(),
            workers: (0..WORKERS).map(SimWorker::new).collect(),
            effects: Effects::new(),
            runs: Vec::new(),
            checks: Checks::allowing(TimeDelta::seconds(slow)),
            requests: Requests::default(),
            people: People::default(),
            chance: Chance::of(story.seed),
            told: Told::default(),
            asked: sweeps::Asked::new(),
            clock,
            replies: Vec::new(),
            cruel: true,
        }
    }

    /// Plays the history and checks all that must hold, always and at the end.
    pub(crate) fn play(story: Story) {
        let mut world = Self::new(story);
        world.play_on();
    }

    pub(crate) fn play_on(&mut self) {
        self.make_users();
        self.make_policies();
        self.make_agents();
        for _ in 0..self.story.turns {
            self.turn();
            self.check();
        }
        self.rest();
        self.check_rest();
    }

    /// All that came of it, as text.
    pub(crate) fn print(&self) -> String {
        let runs = self.runs.iter();
        let runs = runs.map(|run| self.executor.states.get(&Key::Run(*run)));
        let states: Vec<_> = runs.collect();
        format!("{} {states:#?} {:?}", self.now, self.effects)
    }

    fn check(&mut self) {
        let effects = std::mem::take(&mut self.executor.effects);
        let states = &self.executor.states;
        self.checks.executor(&effects, states, self.now);
        let fired = std::mem::take(&mut self.scheduler.effects);
        self.checks.scheduler(&fired, self.now);
        if !std::mem::take(&mut self.handoff.effects).is_empty() {
            self.requests.follow(&self.handoff.states);
        }
        self.hand_to_post();
        self.checks.outside(&self.effects);
    }

    fn make_agents(&mut self) {
        self.cruel = false;
        for number in 0..2 {
            let agent = format!("agent-{number}").parse().unwrap();
            let text = self.agent(number);
            self.tell(ApplyAgent { agent, text });
        }
        self.watch_from_the_beginning();
        while self.take_all() {
            self.deliver_replies();
        }
        self.cruel = self.story.fault != Fault::None || !self.chance.one_in(20);
    }

    fn take_all(&mut self) -> bool {
        self.notification.take(&mut around!(self))
            || self.executor.take(&mut around!(self))
            || self.handoff.take(&mut around!(self))
            || self.scheduler.take(&mut around!(self))
    }

    fn turn(&mut self) {
        match self.chance.below(48) {
            0..=2 if self.runs.len() < RUNS_MAX => self.start_run(),
            0..=3 => self.person(),
            4..=11 => {
                self.executor.take(&mut around!(self));
            }
            12..=15 => {
                self.scheduler.take(&mut around!(self));
            }
            16..=18 => self.wheel(),
            19..=29 => self.worker(),
            30..=31 => self.deliver_replies(),
            32..=33 => self.sweep(),
            34..=38 => self.pass(),
            39..=42 => {
                self.handoff.take(&mut around!(self));
                self.notification.take(&mut around!(self));
                self.send();
            }
            43..=46 => self.somebody(),
            _ => self.cruelty(),
        }
    }

    fn start_run(&mut self) {
        // Drawn from the seed, as everything is.
        let bits = u128::from(self.chance.next()) << 64 | u128::from(self.chance.next());
        let run: RunId = format!("run_{bits:032x}").parse().unwrap();
        self.runs.push(run);
        let agent = format!("agent-{}", self.chance.below(2)).parse().unwrap();
        self.tell(StartRun {
            run,
            agent,
            input: json!({}),
            contact: None,
            labels: std::collections::BTreeMap::default(),
        });
    }

    /// A command of a person: stored, as the gateway does when nobody answers.
    pub(crate) fn tell<C: Command>(&mut self, command: C) {
        let envelope = Envelope {
            actor: Actor("owner".to_owned()),
            assertion: None,
            key: None,
            command,
        };
        self.post(&envelope);
    }

    /// Kept by its sender until there is an answer.
    pub(crate) fn post<C: Command>(&mut self, envelope: &Envelope<C>) {
        let subject = envelope.command.subject(&acme());
        let body = serde_json::to_string(envelope).unwrap();
        let inbox = self.told.keep(&subject, &body, self.now);
        self.bus.publish(&subject, body, Some(inbox), self.now);
    }

    /// A bucket has come, or a sweep: all that is due and pending fires. Now and then it comes early.
    fn wheel(&mut self) {
        let ack_wait = TimeDelta::seconds(30);
        while let Some(bucket) = self.bus.pull(subject::TIMERS, self.now, ack_wait, None) {
            self.bus.ack(bucket.seq);
        }
        let due: Vec<_> = self
            .scheduler
            .states
            .values()
            .filter_map(|timer| match timer.phase {
                TimerPhase::Pending(due) => Some((due, timer.key.clone(), timer.rev)),
                TimerPhase::Fired | TimerPhase::Cleared => None,
            })
            .filter(|(due, ..)| *due <= self.now + TimeDelta::milliseconds(500))
            .collect();
        let mut due = due;
        due.sort();
        if !due.is_empty() {
            let inputs = due
                .into_iter()
                .map(|(_, key, rev)| TimerInput::Due { key, rev });
            self.scheduler.submit(inputs.collect(), &mut around!(self));
        }
    }

    fn worker(&mut self) {
        let place = self.chance.place(self.workers.len());
        let worker = &mut self.workers[place];
        if self.cruel && self.chance.one_in(15) {
            return match self.chance.one_in(4) {
                true => worker.leave(&mut self.executor, &mut around!(self)),
                false => worker.die(),
            };
        }
        if !self.cruel || self.chance.one_in(8) {
            worker.heartbeat(&mut self.executor, &mut around!(self));
        }
        // One that is held up sends no progress, and another is given its work.
        if !self.cruel || !self.chance.one_in(6) {
            worker.progress(&mut around!(self));
        }
        let does_work = worker.is_idle() || self.chance.one_in(3);
        if !(does_work && worker.pull(&mut around!(self))) {
            worker.work(&mut self.executor, &mut self.effects, &mut around!(self));
        }
    }

    fn deliver_replies(&mut self) {
        for (inbox, reply) in std::mem::take(&mut self.replies) {
            if self.cruel && self.chance.one_in(6) {
                continue;
            }
            self.told.answered(&inbox);
            self.executor.confirm(&inbox, &reply, &mut around!(self));
            self.handoff.confirm(&inbox, &reply, &mut around!(self));
            self.scheduler.confirm(&inbox, &reply, &mut around!(self));
            self.notification
                .confirm(&inbox, &reply, &mut around!(self));
        }
    }

    /// Everything that is sent again by those who keep it, and what sweeps find.
    fn sweep(&mut self) {
        self.executor.send_desired_states(&mut around!(self));
        self.handoff.send_desired_states(&mut around!(self));
        self.scheduler.send_desired_states(&mut around!(self));
        self.notification.send_desired_states(&mut around!(self));
        self.notify();
        for (inbox, subject, body) in self.told.again(self.now) {
            self.bus.publish(&subject, body, Some(inbox), self.now);
        }
        let is_again = self.story.fault != Fault::HandOutOnce;
        if is_again && (!self.cruel || self.chance.one_in(3)) {
            for (subject, step_dispatch) in sweeps::step_dispatches(&self.executor) {
                let body = serde_json::to_string(&step_dispatch).unwrap();
                self.bus.publish(&subject, body, None, self.now);
            }
        }
        let inputs = sweeps::following(&self.executor);
        if !inputs.is_empty() {
            self.executor.submit(inputs, &mut around!(self));
        }
        if self.story.fault != Fault::LeaseForEver {
            let inputs = sweeps::leases(&self.executor, &mut self.asked, self.now);
            if !inputs.is_empty() {
                self.executor.submit(inputs, &mut around!(self));
            }
        }
    }

    fn pass(&mut self) {
        let length = match self.chance.below(10) {
            0..=4 => TimeDelta::milliseconds(1 + i64::try_from(self.chance.below(900)).unwrap()),
            5..=7 => TimeDelta::milliseconds(1 + i64::try_from(self.chance.below(30_000)).unwrap()),
            8 => TimeDelta::minutes(1 + i64::try_from(self.chance.below(600)).unwrap()),
            _ => TimeDelta::days(1 + i64::try_from(self.chance.below(60)).unwrap()),
        };
        self.move_to(self.now + length);
    }

    fn move_to(&mut self, now: DateTime<Utc>) {
        self.now = now;
        self.clock.move_to(now).unwrap();
    }

    fn cruelty(&mut self) {
        if !self.cruel {
            return;
        }
        if self.features.has(Feature::Clocks) && self.chance.one_in(5) {
            return self.set_clocks(SLOW_MAX.unsigned_abs());
        }
        match self.chance.below(if self.story.loses { 6 } else { 4 }) {
            0..=3 => self.bus.crash(&mut self.chance),
            4 => {
                let count = self.chance.place(5);
                self.bus.lose_tail(count);
            }
            _ => self.bus.wipe(),
        }
    }

    /// Clocks of processes are set back, by less than so many seconds, or go right again.
    fn set_clocks(&mut self, seconds: u64) {
        let mut slow = || TimeDelta::seconds(i64::try_from(self.chance.below(seconds)).unwrap());
        self.executor.slow = slow();
        self.handoff.slow = slow();
        self.scheduler.slow = slow();
    }

    /// The world is kind from now on: everything is delivered, nobody dies, and time goes on.
    fn rest(&mut self) {
        self.cruel = false;
        if self.features.has(Feature::Clocks) {
            self.set_clocks(1);
        }
        let answers = self.chance.one_in(2);
        for _ in 0..REST_TURNS {
            let mut moved = false;
            while self.take_all() {
                moved = true;
                self.check();
            }
            moved |= !self.replies.is_empty();
            self.deliver_replies();
            for worker in &mut self.workers {
                worker.progress(&mut around!(self));
                moved |= worker.pull(&mut around!(self));
                moved |= worker.work(&mut self.executor, &mut self.effects, &mut around!(self));
            }
            moved |= self.send();
            self.check();
            if moved {
                continue;
            }
            if let Some(next) = self.next() {
                self.move_to(next);
                self.live();
                self.sweep();
                self.wheel();
                self.check();
            } else if !(answers && self.answer_all()) {
                return;
            }
        }
        panic!(
            "no rest after {REST_TURNS} turns: {} messages, {} leases, unconfirmed {:?} {:?} {:?}",
            self.bus.count(),
            self.executor.rows.leases.len(),
            self.executor.unconfirmed(),
            self.handoff.unconfirmed(),
            self.scheduler.unconfirmed(),
        );
    }

    /// Who lives says so, in time.
    fn live(&mut self) {
        for worker in &mut self.workers {
            worker.heartbeat(&mut self.executor, &mut around!(self));
        }
    }

    /// When something may happen next; none: nothing any more.
    fn next(&self) -> Option<DateTime<Utc>> {
        let is_busy = !self.bus.is_empty()
            || !self.told.is_empty()
            || !self.executor.unconfirmed().is_empty()
            || !self.handoff.unconfirmed().is_empty()
            || !self.scheduler.unconfirmed().is_empty()
            || !self.notification.unconfirmed().is_empty()
            || !self.executor.rows.leases.is_empty()
            || !sweeps::step_dispatches(&self.executor).is_empty()
            || !sweeps::following(&self.executor).is_empty();
        if is_busy {
            return Some(self.now + TimeDelta::seconds(10));
        }
        // Those who live set theirs anew for ever.
        let lives = |id: &str| {
            let names = self.workers.iter().map(|worker| worker.name());
            names
                .map(|name| format!("node_{name}"))
                .any(|one| one == id)
        };
        let timers = self.scheduler.states.values();
        let due = timers.filter_map(|timer| match timer.phase {
            TimerPhase::Pending(due) if !lives(&timer.key.id) => Some(due),
            TimerPhase::Pending(_) | TimerPhase::Fired | TimerPhase::Cleared => None,
        });
        let due = due.chain(self.next_to_notify());
        due.min().map(|due| due.max(self.now))
    }

    fn check_rest(&self) {
        self.checks
            .rest(&self.runs, &self.executor.states, &self.effects);
        self.requests.rest(self);
        self.everybody_is_told();
    }
}
