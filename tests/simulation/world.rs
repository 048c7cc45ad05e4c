//! One history: an executor, a scheduler, workers and people on an unkind bus, by seed.

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_auth::Secrets;
use holdpoint_clock::Clock;
use holdpoint_contracts::executor::{ApplyAgent, CancelRun, PauseRun, ResumeRun, StartRun};
use holdpoint_contracts::message::{Actor, Command, Envelope};
use holdpoint_contracts::run::ResumeMode;
use holdpoint_contracts::subject;
use holdpoint_executor::Executor;
use holdpoint_executor::domain::Key;
use holdpoint_ids::{RunId, Workspace};
use holdpoint_scheduler::Scheduler;
use holdpoint_scheduler::domain::{Input as AlarmInput, Phase as AlarmPhase};
use serde_json::{Value, json};

use crate::bus::SimBus;
use crate::chance::Chance;
use crate::checks::Checks;
use crate::service::{Around, Fault, SimService};
use crate::worker::{Effects, SimWorker};

/// Turns of a history, before the world is kind.
pub(crate) const TURNS: usize = 120;

/// Turns that a kind world may take to come to rest.
const REST_TURNS: usize = 3_000;

const WORKERS: usize = 2;
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
    pub(crate) scheduler: SimService<Scheduler>,
    pub(crate) workers: Vec<SimWorker>,
    pub(crate) effects: Effects,
    pub(crate) runs: Vec<RunId>,
    pub(crate) checks: Checks,
    chance: Chance,
    clock: Clock,
    replies: Vec<(String, Value)>,
    cruel: bool,
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
        }
    };
}

pub(crate) fn acme() -> Workspace {
    "acme".parse().unwrap()
}

impl World {
    pub(crate) fn new(story: Story) -> Self {
        let now = "2026-03-02T09:00:00Z".parse().unwrap();
        let clock = Clock::standing_at(now);
        let keys = Secrets::fresh().unwrap().keys().unwrap();
        Self {
            story,
            now,
            bus: SimBus::default(),
            executor: SimService::new(Executor::new(keys, clock.clone())),
            scheduler: SimService::new(Scheduler::new(clock.clone())),
            workers: (0..WORKERS).map(SimWorker::new).collect(),
            effects: Effects::new(),
            runs: Vec::new(),
            checks: Checks::default(),
            chance: Chance::of(story.seed),
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
        self.checks.executor(&effects, &self.executor.states);
        let fired = std::mem::take(&mut self.scheduler.effects);
        self.checks.scheduler(&fired, self.now);
        self.checks.outside(&self.effects);
    }

    fn make_agents(&mut self) {
        self.cruel = false;
        for number in 0..2 {
            let agent = format!("agent-{number}").parse().unwrap();
            let text = self.agent(number);
            self.tell(ApplyAgent { agent, text });
        }
        while self.executor.take(&mut around!(self)) {}
        self.cruel = self.story.fault != Fault::None || !self.chance.one_in(20);
    }

    /// An agent of waits and tools, some of which may be done twice and some of which must not.
    fn agent(&mut self, number: usize) -> String {
        let mut text = format!("agent: agent-{number}\nsteps:\n");
        for step in 0..1 + self.chance.place(5) {
            let what = match self.chance.below(6) {
                0 => "wait: 1s".to_owned(),
                1 => format!("wait: {}m", 1 + self.chance.below(600)),
                2 => "wait: 90 days".to_owned(),
                3 => "tool: log\n    args: { message: hello }".to_owned(),
                _ => "tool: send_email\n    args: { to: a@x.example, subject: s, body: b }"
                    .to_owned(),
            };
            text.push_str(&format!("  - {what}\n"));
            // Most steps follow each other; now and then two go side by side.
            if step > 0 && self.chance.one_in(4) {
                text.push_str("    needs: []\n");
            }
        }
        text
    }

    fn turn(&mut self) {
        match self.chance.below(40) {
            0..=2 if self.runs.len() < RUNS_MAX => self.start_run(),
            0..=3 => self.person(),
            4..=11 => {
                self.executor.take(&mut around!(self));
            }
            12..=16 => {
                self.scheduler.take(&mut around!(self));
            }
            17..=20 => self.wheel(),
            21..=30 => self.worker(),
            31..=32 => self.deliver_replies(),
            33 => self.sweep(),
            34..=38 => self.pass(),
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

    fn person(&mut self) {
        if self.runs.is_empty() {
            return;
        }
        let run = self.runs[self.chance.place(self.runs.len())];
        match self.chance.below(9) {
            0 => self.tell(CancelRun { run, reason: None }),
            1..=4 => self.tell(PauseRun { run }),
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
            _ => unreachable!("below 9"),
        }
    }

    /// A command of a person: stored, as the gateway does when nobody answers.
    fn tell<C: Command>(&mut self, command: C) {
        let subject = command.subject(&acme());
        let envelope = Envelope {
            actor: Actor("owner".to_owned()),
            assertion: None,
            key: None,
            command,
        };
        let body = serde_json::to_string(&envelope).unwrap();
        self.bus.publish(&subject, body, None, self.now);
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
            .filter_map(|alarm| match alarm.phase {
                AlarmPhase::Pending(due) => Some((due, alarm.key.clone(), alarm.rev)),
                AlarmPhase::Fired | AlarmPhase::Cleared => None,
            })
            .filter(|(due, ..)| *due <= self.now + TimeDelta::milliseconds(500))
            .collect();
        let mut due = due;
        due.sort_by(|one, other| one.cmp(other));
        if !due.is_empty() {
            let inputs = due
                .into_iter()
                .map(|(_, key, rev)| AlarmInput::Due { key, rev });
            self.scheduler.submit(inputs.collect(), &mut around!(self));
        }
    }

    fn worker(&mut self) {
        let place = self.chance.place(self.workers.len());
        let worker = &mut self.workers[place];
        if self.cruel && self.chance.one_in(15) {
            return worker.die();
        }
        // One that is held up sends no progress, and another is given its work.
        if !self.cruel || !self.chance.one_in(6) {
            worker.beat(&mut around!(self));
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
            self.executor.confirm(&inbox, &reply);
            self.scheduler.confirm(&inbox, &reply);
        }
    }

    fn sweep(&mut self) {
        self.executor.send_wishes(&mut around!(self));
        self.scheduler.send_wishes(&mut around!(self));
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
        match self.chance.below(if self.story.loses { 6 } else { 4 }) {
            0..=3 => self.bus.crash(&mut self.chance),
            4 => {
                let count = self.chance.place(5);
                self.bus.lose_tail(count);
            }
            _ => self.bus.wipe(),
        }
    }

    /// The world is kind from now on: everything is delivered, nobody dies, and time goes on.
    fn rest(&mut self) {
        self.cruel = false;
        for _ in 0..REST_TURNS {
            let mut moved = false;
            while self.executor.take(&mut around!(self)) || self.scheduler.take(&mut around!(self))
            {
                moved = true;
                self.check();
            }
            moved |= !self.replies.is_empty();
            self.deliver_replies();
            for worker in &mut self.workers {
                worker.beat(&mut around!(self));
                moved |= worker.pull(&mut around!(self));
                moved |= worker.work(&mut self.executor, &mut self.effects, &mut around!(self));
            }
            self.check();
            if moved {
                continue;
            }
            let Some(next) = self.next() else { return };
            self.move_to(next);
            self.sweep();
            self.wheel();
            self.check();
        }
        panic!("no rest after {REST_TURNS} turns");
    }

    /// When something may happen next; none: nothing any more.
    fn next(&self) -> Option<DateTime<Utc>> {
        let is_busy = !self.bus.is_empty()
            || !self.executor.unconfirmed().is_empty()
            || !self.scheduler.unconfirmed().is_empty();
        if is_busy {
            return Some(self.now + TimeDelta::seconds(10));
        }
        let alarms = self.scheduler.states.values();
        let due = alarms.filter_map(|alarm| match alarm.phase {
            AlarmPhase::Pending(due) => Some(due),
            AlarmPhase::Fired | AlarmPhase::Cleared => None,
        });
        due.min().map(|due| due.max(self.now))
    }

    fn check_rest(&self) {
        self.checks
            .rest(&self.runs, &self.executor.states, &self.effects);
    }
}
