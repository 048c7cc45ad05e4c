//! Carries out one delivered step: hold it, ask for a grant if needed, call the tool, report the result.
//!
//! Owns this order. It must never call a tool before its delivery is held, and never ack before the start is
//! granted or the result is safe.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_nats::jetstream::{AckKind, Message};
use holdpoint_bus::Bus;
use holdpoint_clock::Clock;
use holdpoint_contracts::steps::{StartStep, StepDispatch, StepResult};
use tokio_util::sync::CancellationToken;

use super::continued::continue_call;
use super::lease_table::{Delivery, LeaseTable};
use super::outcome::{self, Outcome};
use super::results::{PendingResult, Reporter};
use super::slots::TakenSlots;
use super::start_requests::{StartDecision, StartRequester};
use super::suspension::Suspender;
use crate::run_changes::RunChanges;
use crate::suspension::CallSuspension;
use crate::suspension::sandbox::Sandboxes;
use crate::tool::{CallCost, Risk, Tool, ToolCall};

/// A step in an older message may be withdrawn, so the worker asks first.
pub(super) const FRESH: Duration = Duration::from_secs(1);

/// A step that started without a lease asks for one after this time.
const ASK_AFTER: Duration = Duration::from_millis(500);

/// Delay before a step without a decision is redelivered …
const RETRY_SOON: Duration = Duration::from_secs(1);

/// … and after this many deliveries.
const SOON_MAX: u64 = 30;
const RETRY_RARELY: Duration = Duration::from_secs(30);

/// Shared by all jobs of a worker.
pub(super) struct JobContext {
    pub(super) bus: Bus,
    pub(super) run_changes: RunChanges,
    pub(super) clock: Clock,
    pub(super) result_max: usize,
    pub(super) leases: LeaseTable,
    pub(super) start_requester: StartRequester,
    pub(super) reporter: Reporter,
    pub(super) suspender: Suspender,
    pub(super) sandboxes: Sandboxes,
}

struct Arrival {
    delivery: u64,
    age: Duration,
    reply: String,
}

/// Carries out one delivered step. The slot is free again when the tool has ended and its result is kept.
pub(super) async fn run_step(
    context: Arc<JobContext>,
    tool: Arc<dyn Tool>,
    message: Message,
    slot: TakenSlots,
) {
    let Some(arrival) = arrival(&message) else {
        tracing::error!(subject = %message.subject, "step dropped because its delivery has no JetStream reply subject");
        return;
    };
    let step_dispatch = match serde_json::from_slice::<StepDispatch>(&message.payload) {
        Ok(step_dispatch) => step_dispatch,
        Err(error) => {
            tracing::error!(subject = %message.subject, %error, "step cannot be read; it is terminated");
            context.leases.answer(arrival.reply, AckKind::Term).await;
            return;
        }
    };
    drop(message);
    let suspension = if tool.has_sandbox() {
        CallSuspension::in_sandbox(context.sandboxes.of(&step_dispatch))
    } else {
        CallSuspension::default()
    };
    let taken = context
        .leases
        .take(&step_dispatch, &arrival.reply, &suspension);
    let Some(delivery) = taken.await else {
        return;
    };
    if context.suspender.stopping.is_cancelled() {
        suspension.request();
    }
    let held = HeldDelivery {
        delivery,
        suspension,
    };
    context.start(tool, step_dispatch, arrival, held).await;
    drop(slot);
}

struct HeldDelivery {
    delivery: Delivery,
    suspension: CallSuspension,
}

impl JobContext {
    async fn start(
        &self,
        tool: Arc<dyn Tool>,
        step_dispatch: StepDispatch,
        arrival: Arrival,
        held: HeldDelivery,
    ) {
        let HeldDelivery {
            delivery,
            suspension,
        } = held;
        let start = StartStep {
            run: step_dispatch.run,
            step: step_dispatch.step.clone(),
            dispatch: step_dispatch.dispatch,
            delivery: arrival.delivery,
            without_lease: false,
            high_risk: tool.risk() == Risk::High,
            idempotent: tool.is_idempotent(),
        };
        // A step that may need an approval never starts before the executor permits it.
        let is_harmless = step_dispatch.idempotent && !start.high_risk;
        // Only a grant says which node may continue a suspended step.
        let needs_no_lease = is_harmless && arrival.delivery <= 1 && !step_dispatch.resumed;
        let mut is_leased = false;
        if !needs_no_lease || arrival.age > FRESH {
            let asked = StartStep {
                without_lease: needs_no_lease,
                ..start.clone()
            };
            let lease = delivery.lease();
            let asked = self
                .start_requester
                .request_start(&step_dispatch.workspace, &asked, lease);
            match asked.await {
                StartDecision::Start => {
                    is_leased = true;
                    self.continue_call(&step_dispatch, &delivery, &suspension)
                        .await;
                }
                StartDecision::StartWithoutLease => {}
                StartDecision::Discard => return delivery.end().await,
                StartDecision::RetryLater => {
                    return delivery.give_back(redelivery_delay(arrival.delivery)).await;
                }
            }
        }
        let call = self.tool_call(&step_dispatch, delivery.stop(), suspension);
        let mut calling = pin!(outcome::call(tool, call, self.result_max));
        if !is_leased {
            let done = tokio::select! {
                done = &mut calling => Some(done),
                is_granted = self.ask_while_running(&step_dispatch, &start, delivery.lease()) => {
                    if !is_granted {
                        delivery.stop().cancel();
                        return delivery.end().await;
                    }
                    None
                }
            };
            if let Some(done) = done {
                return self.report(step_dispatch, done, delivery).await;
            }
            delivery.set_granted().await;
        }
        let stop = delivery.stop().clone();
        match stop.run_until_cancelled(calling).await {
            Some(done) => self.report(step_dispatch, done, delivery).await,
            None => delivery.end().await,
        }
    }

    fn tool_call(
        &self,
        step_dispatch: &StepDispatch,
        stop: &CancellationToken,
        suspension: CallSuspension,
    ) -> ToolCall {
        ToolCall {
            dispatch: step_dispatch.clone(),
            bus: Some(self.bus.clone()),
            run_changes: self.run_changes.clone(),
            now: self.clock.now(),
            stop: stop.clone(),
            suspension,
            cost: CallCost::default(),
        }
    }

    /// The step is granted: its call gets what an earlier one saved.
    async fn continue_call(
        &self,
        step_dispatch: &StepDispatch,
        delivery: &Delivery,
        suspension: &CallSuspension,
    ) {
        delivery.set_granted().await;
        if step_dispatch.resumed {
            let node = self.suspender.node();
            let continued = continue_call(&self.bus, node, step_dispatch, suspension);
            delivery.stop().run_until_cancelled(continued).await;
        }
    }

    /// Whether a step that runs without a grant may continue. An unavailable executor does not stop it.
    async fn ask_while_running(
        &self,
        step_dispatch: &StepDispatch,
        start: &StartStep,
        lease: Duration,
    ) -> bool {
        tokio::time::sleep(ASK_AFTER).await;
        loop {
            let asked = self
                .start_requester
                .request_start(&step_dispatch.workspace, start, lease);
            match asked.await {
                StartDecision::Start | StartDecision::StartWithoutLease => return true,
                StartDecision::Discard => return false,
                StartDecision::RetryLater => tokio::time::sleep(RETRY_SOON).await,
            }
        }
    }

    async fn report(&self, step_dispatch: StepDispatch, done: Outcome, delivery: Delivery) {
        if done.is_suspended {
            return self.report_stopped(delivery).await;
        }
        delivery.set_ended();
        let result = StepResult {
            run: step_dispatch.run,
            step: step_dispatch.step,
            dispatch: step_dispatch.dispatch,
            result: done.result,
            error_code: done.error_code,
            parks: done.parks,
            cost: done.cost,
        };
        let pending = PendingResult { result, delivery };
        self.reporter.keep(step_dispatch.workspace, pending).await;
    }

    /// The tool has stopped without a result. A step without a lease is redelivered.
    async fn report_stopped(&self, delivery: Delivery) {
        let Some(step) = delivery.suspendable().filter(|_| delivery.is_granted()) else {
            return delivery.give_back(RETRY_SOON).await;
        };
        if !self.suspender.report_stopped(&step).await {
            tracing::warn!(step = %step.claimed.step, "a stopped step is not reported; its lease ends");
        }
        delivery.end().await;
    }
}

fn arrival(message: &Message) -> Option<Arrival> {
    let info = message.info().ok()?;
    let published = u64::try_from(info.published.unix_timestamp_nanos()).unwrap_or(0);
    Some(Arrival {
        delivery: u64::try_from(info.delivered).unwrap_or(u64::MAX),
        age: age(Duration::from_nanos(published)),
        reply: message.reply.as_ref()?.to_string(),
    })
}

/// By the worker's clock. A wrong clock costs a request or an early start, never more.
#[expect(
    clippy::disallowed_methods,
    reason = "the age of a message is real time, also with a test clock"
)]
fn age(published: Duration) -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .saturating_sub(published)
}

fn redelivery_delay(delivery: u64) -> Duration {
    if delivery <= SOON_MAX {
        RETRY_SOON
    } else {
        RETRY_RARELY
    }
}
