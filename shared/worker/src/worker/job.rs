//! The way of one delivered step: hold, ask where needed, call, report.
//!
//! Owns the order of these. It must never call a tool before its delivery is held, and never ack
//! before the start is granted or the result is safe.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_nats::jetstream::{AckKind, Message};
use holdpoint_bus::Bus;
use holdpoint_clock::Clock;
use holdpoint_contracts::steps::{StartStep, StepDispatch, StepResult};
use tokio::sync::OwnedSemaphorePermit;

use super::asking::{Asker, Word};
use super::held::{Delivery, LeaseTable};
use super::outcome::{self, Outcome};
use super::results::{Kept, Reporter};
use crate::ask::People;
use crate::tool::{Tool, ToolCall};

/// A message older than this may not be wanted any more: ask.
pub(super) const FRESH: Duration = Duration::from_secs(1);

/// A step that started without a lease asks for one when it has run for this long.
const ASK_AFTER: Duration = Duration::from_millis(500);

/// Until a step comes again that nobody could say anything about …
const AGAIN_SOON: Duration = Duration::from_secs(1);

/// … and after this many deliveries more rarely.
const SOON_MAX: u64 = 30;
const AGAIN_LATER: Duration = Duration::from_secs(30);

/// What all jobs of a worker use.
pub(super) struct JobContext {
    pub(super) bus: Bus,
    pub(super) clock: Clock,
    pub(super) result_max: usize,
    pub(super) held: LeaseTable,
    pub(super) asker: Asker,
    pub(super) reporter: Reporter,
}

/// How a message came.
struct Arrival {
    delivery: u64,
    age: Duration,
    reply: String,
}

/// Does one delivered step. The place is free again when the tool is done and its result kept.
pub(super) async fn work(
    bench: Arc<JobContext>,
    tool: Arc<dyn Tool>,
    message: Message,
    place: OwnedSemaphorePermit,
) {
    let Some(arrival) = arrival(&message) else {
        tracing::error!(subject = %message.subject, "a delivery without JetStream's reply subject");
        return;
    };
    let step_dispatch = match serde_json::from_slice::<StepDispatch>(&message.payload) {
        Ok(step_dispatch) => step_dispatch,
        Err(error) => {
            tracing::error!(subject = %message.subject, %error, "a step that cannot be read");
            bench.held.answer(arrival.reply, AckKind::Term).await;
            return;
        }
    };
    drop(message);
    let Some(delivery) = bench.held.take(&step_dispatch, &arrival.reply).await else {
        return;
    };
    bench.start(tool, step_dispatch, arrival, delivery).await;
    drop(place);
}

impl JobContext {
    async fn start(
        &self,
        tool: Arc<dyn Tool>,
        step_dispatch: StepDispatch,
        arrival: Arrival,
        delivery: Delivery,
    ) {
        let start = StartStep {
            run: step_dispatch.run,
            step: step_dispatch.step.clone(),
            dispatch: step_dispatch.dispatch,
            delivery: arrival.delivery,
            without_lease: false,
        };
        let needs_no_lease = step_dispatch.idempotent && arrival.delivery <= 1;
        let mut is_leased = false;
        if !needs_no_lease || arrival.age > FRESH {
            let asked = StartStep {
                without_lease: needs_no_lease,
                ..start.clone()
            };
            let lease = delivery.lease();
            let asked = self
                .asker
                .may_start(&step_dispatch.workspace, &asked, lease);
            match asked.await {
                Word::Start => {
                    delivery.granted().await;
                    is_leased = true;
                }
                Word::StartWithoutLease => {}
                Word::Forget => return delivery.end().await,
                Word::Later => return delivery.give_back(again_after(arrival.delivery)).await,
            }
        }
        let call = ToolCall {
            people: Some(People::of(self.bus.clone(), &step_dispatch)),
            ..ToolCall::of(&step_dispatch, self.clock.now(), delivery.stop().clone())
        };
        let mut calling = pin!(outcome::call(tool, call, self.result_max));
        if !is_leased {
            let done = tokio::select! {
                done = &mut calling => Some(done),
                is_granted = self.ask_late(&step_dispatch, &start, delivery.lease()) => {
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
            delivery.granted().await;
        }
        let stop = delivery.stop().clone();
        match stop.run_until_cancelled(calling).await {
            Some(done) => self.report(step_dispatch, done, delivery).await,
            None => delivery.end().await,
        }
    }

    /// Whether a step that runs without a grant may go on. Nobody to ask is no reason to stop it.
    async fn ask_late(
        &self,
        step_dispatch: &StepDispatch,
        start: &StartStep,
        lease: Duration,
    ) -> bool {
        tokio::time::sleep(ASK_AFTER).await;
        loop {
            let asked = self.asker.may_start(&step_dispatch.workspace, start, lease);
            match asked.await {
                Word::Start | Word::StartWithoutLease => return true,
                Word::Forget => return false,
                Word::Later => tokio::time::sleep(AGAIN_SOON).await,
            }
        }
    }

    async fn report(&self, step_dispatch: StepDispatch, done: Outcome, delivery: Delivery) {
        let result = StepResult {
            run: step_dispatch.run,
            step: step_dispatch.step,
            dispatch: step_dispatch.dispatch,
            result: done.result,
            error_code: done.error_code,
            parks: done.parks,
        };
        let kept = Kept { result, delivery };
        self.reporter.keep(step_dispatch.workspace, kept).await;
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

/// By the worker's own clock: a wrong one costs a request or an early start, never more.
#[expect(
    clippy::disallowed_methods,
    reason = "the age of a message is real time, also where a test clock stands still"
)]
fn age(published: Duration) -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .saturating_sub(published)
}

fn again_after(delivery: u64) -> Duration {
    if delivery <= SOON_MAX {
        AGAIN_SOON
    } else {
        AGAIN_LATER
    }
}
