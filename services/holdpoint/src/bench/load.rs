//! The load of `bench`: it starts runs and sets timers, and measures from outside.

mod runs;
mod timers;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use holdpoint_bus::Bus;
use serde_json::{Value, json};

use super::instruction::{Instruction, Instructions, print_result};
use crate::cli::BenchChildArgs;
use crate::exit::ExitKind;

/// Follows instructions until stdin ends.
pub(crate) async fn run(args: BenchChildArgs) -> anyhow::Result<ExitCode> {
    holdpoint_telemetry::start(holdpoint_telemetry::Default::Warn);
    let bus = Bus::connect(&args.nats_url, "bench-load").await?;
    let mut instructions = Instructions::new();
    print_result(&json!({ "ready": true }))?;
    let mut starter = None;
    let mut owner = None;
    while let Some(instruction) = instructions.next().await? {
        let result = match instruction {
            Instruction::WarmUp { runs } => {
                let (new, result) = runs::RunStarter::warm_up(bus.clone(), runs).await?;
                starter = Some(new);
                result
            }
            Instruction::Runs {
                runs,
                window,
                is_closed_loop,
                rate,
            } => {
                let pace = runs::Pace {
                    runs,
                    window,
                    is_closed_loop,
                    rate,
                };
                let starter = starter.as_mut().context("the load is not warmed up")?;
                starter.measure(&pace).await?
            }
            Instruction::FarTimers { timers } => timers::set_far(&bus, timers).await?,
            Instruction::OneTimer => {
                timers::TimerOwner::of(&mut owner, &bus)
                    .await?
                    .one()
                    .await?
            }
            Instruction::NearTimers { timers, over_s } => {
                let owner = timers::TimerOwner::of(&mut owner, &bus).await?;
                owner.near(timers, over_s).await?
            }
        };
        print_result(&result)?;
    }
    Ok(ExitKind::Ok.into())
}

/// Percentiles of measurements in microseconds.
fn percentiles(mut micros: Vec<u64>) -> Value {
    micros.sort_unstable();
    let at = |percent: usize| {
        let index = (micros.len() * percent / 100).min(micros.len().saturating_sub(1));
        micros.get(index).map(|it| ms(*it))
    };
    json!({ "p50_ms": at(50), "p99_ms": at(99), "max_ms": micros.last().map(|it| ms(*it)) })
}

/// Milliseconds with two places.
#[expect(clippy::cast_precision_loss, reason = "shown with two places")]
fn ms(micros: u64) -> f64 {
    (micros as f64 / 10.0).round() / 100.0
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a count of at most some millions"
)]
fn per_second(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds
}
