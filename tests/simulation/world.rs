//! One history by seed: all services, workers and people on a bus that loses, repeats and reorders messages.

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_clock::Clock;
use holdpoint_contracts::executor::{ApplyAgent, StartRun};
use holdpoint_contracts::message::{Command, Envelope};
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

use crate::approvals::Users;
use crate::bus::SimBus;
use crate::chance::Chance;
use crate::checks::Checks;
use crate::features::{Feature, Features};
use crate::mutations;
use crate::notification::DeliveryPool;
use crate::people::{Keyring, PendingCommands, People};
use crate::requests::Requests;
use crate::schedules::ScheduledRuns;
use crate::service::{Env, Mutation, SimService};
use crate::sweeps;
use crate::worker::{Effects, SimWorker};

/// Turns of a history before the chaos ends.
pub(crate) const TURNS: usize = 120;

/// Turns without chaos until the world is quiescent.
const QUIESCENCE_TURNS: usize = 3_000;

const WORKERS: usize = 2;
/// A clock is set back by fewer seconds than this, which is less than a rung of a policy waits.
pub(crate) const CLOCK_LAG_MAX: i64 = 20;
const RUNS_MAX: usize = 4;

/// How a history is played.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HistoryConfig {
    pub(crate) seed: u64,
    pub(crate) turns: usize,
    pub(crate) mutation: Mutation,
    /// Whether the bus may also lose stored messages.
    pub(crate) loses: bool,
}

pub(crate) struct World {
    pub(crate) config: HistoryConfig,
    pub(crate) now: DateTime<Utc>,
    pub(crate) bus: SimBus,
    pub(crate) executor: SimService<Executor>,
    pub(crate) handoff: SimService<Handoff>,
    pub(crate) scheduler: SimService<Scheduler>,
    pub(crate) scheduled_runs: ScheduledRuns,
    pub(crate) notification: SimService<Notification>,
    pub(crate) pool: DeliveryPool,
    pub(crate) workers: Vec<SimWorker>,
    pub(crate) effects: Effects,
    pub(crate) runs: Vec<RunId>,
    pub(crate) checks: Checks,
    pub(crate) requests: Requests,
    pub(crate) people: People,
    pub(crate) chance: Chance,
    /// Commands without an answer. Their senders repeat them.
    pub(crate) pending_commands: PendingCommands,
    pub(crate) features: Features,
    probed_nodes: sweeps::ProbedNodes,
    pub(crate) clock: Clock,
    pub(crate) replies: Vec<(String, Value)>,
    pub(crate) chaos: bool,
}

/// Borrows the surroundings of a service from the world.
macro_rules! env_of {
    ($world:ident) => {
        Env {
            bus: &mut $world.bus,
            chance: &mut $world.chance,
            replies: &mut $world.replies,
            now: $world.now,
            mutation: $world.config.mutation,
            chaos: $world.chaos,
            features: $world.features,
        }
    };
}

pub(crate) use env_of;

pub(crate) fn acme() -> Workspace {
    "acme".parse().unwrap()
}

impl World {
    pub(crate) fn new(config: HistoryConfig) -> Self {
        let now = "2026-03-02T09:00:00Z".parse().unwrap();
        let clock = Clock::standing_at(now);
        let keys = Keyring::get().keys.clone();
        let mut handoff = SimService::new(Handoff::new(keys.trust.clone(), clock.clone()));
        handoff.rewrite = mutations::rewrite(config.mutation);
        handoff.rows.ignores_uses = config.mutation == Mutation::UsesUncounted;
        let trust = keys.trust.clone();
        let (core, _jobs) = Notification::new(
            trust.clone(),
            EgressPolicy::PublicOnly,
            clock.clone(),
            PublicUrl::of(None),
        );
        let mut notification = SimService::new(core);
        notification.rewrite = mutations::rewrite_notification(config.mutation);
        let features = Features::of(config.seed);
        handoff.refuses = features
            .has(Feature::Refusals)
            .then_some(mutations::refuses);
        let clock_lag = if features.has(Feature::Clocks) {
            CLOCK_LAG_MAX
        } else {
            0
        };
        let mut executor = SimService::new(Executor::new(keys, clock.clone()));
        executor.rows.ignores_lost_rights = config.mutation == Mutation::LostRightsCount;
        Self {
            features,
            config,
            now,
            bus: SimBus::default(),
            executor,
            handoff,
            scheduled_runs: ScheduledRuns::default(),
            scheduler: SimService::new(Scheduler::new(trust, clock.clone())),
            notification,
            pool: DeliveryPool::default(),
            workers: (0..WORKERS).map(SimWorker::new).collect(),
            effects: Effects::new(),
            runs: Vec::new(),
            checks: Checks::with_clock_lag(TimeDelta::seconds(clock_lag)),
            requests: Requests::default(),
            people: People::default(),
            chance: Chance::of(config.seed),
            pending_commands: PendingCommands::default(),
            probed_nodes: sweeps::ProbedNodes::new(),
            clock,
            replies: Vec::new(),
            chaos: true,
        }
    }

    /// Plays the history and checks its rules after each turn and at the end.
    pub(crate) fn play(&mut self) {
        self.create_users();
        self.create_policies();
        self.create_agents();
        for _ in 0..self.config.turns {
            self.play_turn();
            self.check();
        }
        self.quiesce();
        self.check_quiescent();
    }

    /// The result of the history as text.
    pub(crate) fn print(&self) -> String {
        let runs = self.runs.iter();
        let runs = runs.map(|run| self.executor.states.get(&Key::Run(*run)));
        let states: Vec<_> = runs.collect();
        format!("{} {states:#?} {:?}", self.now, self.effects)
    }

    fn check(&mut self) {
        let decided = std::mem::take(&mut self.handoff.effects);
        if !decided.is_empty() {
            let states = &self.handoff.states;
            self.requests.follow(states);
            self.checks.approvals.note(states);
            self.checks.approvals.check_uses(&decided, states);
        }
        let effects = std::mem::take(&mut self.executor.effects);
        let now = self.now;
        let users = Users {
            copy: &self.executor.rows.users,
            now,
            clock_lag: self.checks.clock_lag,
        };
        let states = &self.executor.states;
        self.checks.check_executor(&effects, states, users);
        let fired = std::mem::take(&mut self.scheduler.effects);
        self.checks.check_scheduler(&fired, now);
        self.scheduled_runs.follow(&fired);
        self.collect_deliveries();
        self.checks.check_effects(&self.effects);
    }

    fn create_agents(&mut self) {
        self.chaos = false;
        for number in 0..2 {
            let agent = format!("agent-{number}").parse().unwrap();
            let text = self.agent(number);
            self.send_command(ApplyAgent { agent, text });
        }
        self.watch_agent();
        self.add_webhooks();
        if self.features.has_reviews() && self.chance.one_in(2) {
            self.approve_in_advance();
        }
        while self.take_all() {
            self.deliver_replies();
        }
        self.chaos = self.config.mutation != Mutation::None || !self.chance.one_in(20);
    }

    fn take_all(&mut self) -> bool {
        self.notification.take(&mut env_of!(self))
            || self.executor.take(&mut env_of!(self))
            || self.handoff.take(&mut env_of!(self))
            || self.scheduler.take(&mut env_of!(self))
    }

    fn play_turn(&mut self) {
        if self.features.has(Feature::Schedules) && self.chance.one_in(30) {
            self.act_on_schedules();
        }
        if self.features.has_reviews() {
            self.age_users();
        }
        match self.chance.below(48) {
            0..=2 if self.runs.len() < RUNS_MAX => self.start_run(),
            0..=3 => self.act_on_runs(),
            4..=11 => {
                self.executor.take(&mut env_of!(self));
            }
            12..=15 => {
                self.scheduler.take(&mut env_of!(self));
            }
            16..=18 => self.fire_timers(),
            19..=29 => self.worker(),
            30..=31 => self.deliver_replies(),
            32..=33 => self.sweep(),
            34..=38 => self.pass_time(),
            39..=42 => {
                self.handoff.take(&mut env_of!(self));
                self.notification.take(&mut env_of!(self));
                self.send();
            }
            43..=46 => self.act_on_requests(),
            _ => self.inject_chaos(),
        }
    }

    fn start_run(&mut self) {
        // Drawn from the seed, so that the history can be repeated.
        let bits = u128::from(self.chance.next()) << 64 | u128::from(self.chance.next());
        let run: RunId = format!("run_{bits:032x}").parse().unwrap();
        self.runs.push(run);
        let agent = format!("agent-{}", self.chance.below(2)).parse().unwrap();
        self.send_command(StartRun {
            run,
            agent,
            input: json!({}),
            contact: None,
            labels: std::collections::BTreeMap::default(),
        });
    }

    /// Sends a signed command of a person through the stream, as the gateway does when the service does not answer.
    pub(crate) fn send_command<C: Command>(&mut self, command: C) {
        self.signed(0, command);
    }

    /// Sends a command. Its sender repeats it until it is answered.
    pub(crate) fn post<C: Command>(&mut self, envelope: &Envelope<C>) {
        let subject = envelope.command.subject(&acme());
        let body = serde_json::to_string(envelope).unwrap();
        let inbox = self.pending_commands.keep(&subject, &body, self.now);
        self.bus.publish(&subject, body, Some(inbox), self.now);
    }

    /// A bucket or a sweep fires all pending timers that are due, some up to 500 ms early.
    fn fire_timers(&mut self) {
        let ack_wait = TimeDelta::seconds(30);
        while let Some(bucket) = self.bus.pull(subject::TIMERS, self.now, ack_wait, None) {
            self.bus.ack(bucket.seq);
        }
        let mut due: Vec<_> = self
            .scheduler
            .states
            .values()
            .filter_map(|timer| match timer.phase {
                TimerPhase::Pending(due) => Some((due, timer.key.clone(), timer.rev)),
                TimerPhase::Fired | TimerPhase::Cleared => None,
            })
            .filter(|(due, ..)| *due <= self.now + TimeDelta::milliseconds(500))
            .collect();
        due.sort();
        if !due.is_empty() {
            let inputs = due
                .into_iter()
                .map(|(_, key, rev)| TimerInput::Due { key, rev });
            self.scheduler.submit(inputs.collect(), &mut env_of!(self));
        }
    }

    fn worker(&mut self) {
        let place = self.chance.place(self.workers.len());
        let worker = &mut self.workers[place];
        if self.chaos && self.chance.one_in(15) {
            return match self.chance.one_in(4) {
                true => worker.leave(&mut self.executor, &mut env_of!(self)),
                false => worker.die(),
            };
        }
        if !self.chaos || self.chance.one_in(8) {
            worker.heartbeat(&mut self.executor, &mut env_of!(self));
        }
        // A worker that stalls sends no progress, and its delivery goes to another worker.
        if !self.chaos || !self.chance.one_in(6) {
            worker.progress(&mut env_of!(self));
        }
        let does_work = worker.is_idle() || self.chance.one_in(3);
        if !(does_work && worker.pull(&mut env_of!(self))) {
            worker.work(&mut self.executor, &mut self.effects, &mut env_of!(self));
        }
    }

    fn deliver_replies(&mut self) {
        for (inbox, reply) in std::mem::take(&mut self.replies) {
            if self.chaos && self.chance.one_in(6) {
                continue;
            }
            self.pending_commands.remove(&inbox);
            self.executor.confirm(&inbox, &reply, &mut env_of!(self));
            self.handoff.confirm(&inbox, &reply, &mut env_of!(self));
            self.scheduler.confirm(&inbox, &reply, &mut env_of!(self));
            self.notification
                .confirm(&inbox, &reply, &mut env_of!(self));
        }
    }

    /// All senders repeat what is not acknowledged, and all sweeps run.
    fn sweep(&mut self) {
        self.executor.send_desired_states(&mut env_of!(self));
        self.handoff.send_desired_states(&mut env_of!(self));
        self.scheduler.send_desired_states(&mut env_of!(self));
        self.notification.send_desired_states(&mut env_of!(self));
        self.sweep_notification();
        for (inbox, subject, body) in self.pending_commands.due(self.now) {
            self.bus.publish(&subject, body, Some(inbox), self.now);
        }
        let is_repeated = self.config.mutation != Mutation::DispatchOnce;
        if is_repeated && (!self.chaos || self.chance.one_in(3)) {
            for (subject, step_dispatch) in sweeps::step_dispatches(&self.executor) {
                let body = serde_json::to_string(&step_dispatch).unwrap();
                self.bus.publish(&subject, body, None, self.now);
            }
        }
        let inputs = sweeps::scope_pages(&self.executor);
        if !inputs.is_empty() {
            self.executor.submit(inputs, &mut env_of!(self));
        }
        let inputs = sweeps::queued_runs(&self.executor);
        if !inputs.is_empty() {
            self.executor.submit(inputs, &mut env_of!(self));
        }
        let inputs = sweeps::operation_pages(&self.executor);
        if !inputs.is_empty() {
            self.executor.submit(inputs, &mut env_of!(self));
        }
        if self.config.mutation != Mutation::EndlessLease {
            let inputs = sweeps::leases(&self.executor, &mut self.probed_nodes, self.now);
            if !inputs.is_empty() {
                self.executor.submit(inputs, &mut env_of!(self));
            }
        }
    }

    /// Ends the chaos: everything is delivered, no process dies, and time passes until nothing is left to do.
    fn quiesce(&mut self) {
        self.chaos = false;
        if self.features.has(Feature::Clocks) {
            self.set_clocks(1);
        }
        self.recover_receivers();
        let answers = self.chance.one_in(2);
        for _ in 0..QUIESCENCE_TURNS {
            let mut moved = false;
            self.copy_users();
            while self.take_all() {
                moved = true;
                self.check();
            }
            moved |= !self.replies.is_empty();
            self.deliver_replies();
            for worker in &mut self.workers {
                worker.progress(&mut env_of!(self));
                moved |= worker.pull(&mut env_of!(self));
                moved |= worker.work(&mut self.executor, &mut self.effects, &mut env_of!(self));
            }
            while self.send() {
                moved = true;
            }
            self.check();
            if moved {
                continue;
            }
            self.delete_schedules();
            if let Some(next) = self.next_instant() {
                self.move_to(next);
                self.send_heartbeats();
                self.sweep();
                self.fire_timers();
                self.check();
            } else if !(answers && (self.answer_all() || self.retry_failed())) {
                return;
            }
        }
        panic!(
            "not quiescent after {QUIESCENCE_TURNS} turns: queued {:?}, {} steps, {} pages, {} messages, {} leases, unconfirmed {:?} {:?} {:?}",
            sweeps::queued_runs(&self.executor),
            sweeps::step_dispatches(&self.executor).len(),
            sweeps::scope_pages(&self.executor).len(),
            self.bus.count(),
            self.executor.rows.leases.len(),
            self.executor.unconfirmed(),
            self.handoff.unconfirmed(),
            self.scheduler.unconfirmed(),
        );
    }

    /// Every live worker renews its leases in time.
    fn send_heartbeats(&mut self) {
        for worker in &mut self.workers {
            worker.heartbeat(&mut self.executor, &mut env_of!(self));
        }
    }

    /// When something may happen next. `None`: nothing is left to do.
    fn next_instant(&self) -> Option<DateTime<Utc>> {
        let is_busy = !self.bus.is_empty()
            || !self.pending_commands.is_empty()
            || !self.executor.unconfirmed().is_empty()
            || !self.handoff.unconfirmed().is_empty()
            || !self.scheduler.unconfirmed().is_empty()
            || !self.notification.unconfirmed().is_empty()
            || !self.executor.rows.leases.is_empty()
            || !sweeps::step_dispatches(&self.executor).is_empty()
            || !sweeps::scope_pages(&self.executor).is_empty()
            || !sweeps::queued_runs(&self.executor).is_empty()
            || !sweeps::operation_pages(&self.executor).is_empty();
        if is_busy {
            return Some(self.now + TimeDelta::seconds(10));
        }
        // Live workers set their timers again for ever.
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
        let due = due.chain(self.next_notification());
        due.min().map(|due| due.max(self.now))
    }

    fn check_quiescent(&self) {
        let runs = [self.runs.clone(), self.scheduled_runs()].concat();
        self.checks
            .check_quiescent(&runs, &self.executor.states, &self.effects);
        self.requests.check_quiescent(self);
        self.check_notifications();
    }
}
