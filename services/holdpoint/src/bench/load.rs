//! The load of `bench`: what starts runs and sets timers, and measures from outside.

mod runs;
mod timers;

use std::process::ExitCode;

use holdpoint_bus::Bus;
use serde_json::{Value, json};

use super::instruction::{Order, Orders, answer};
use crate::cli::BenchPartArgs;
use crate::exit::Outcome;

/// Does what it is told until nobody tells it anything more.
pub(crate) async fn run(args: BenchPartArgs) -> anyhow::Result<ExitCode> {
    holdpoint_telemetry::start(holdpoint_telemetry::Default::Warn);
    let bus = Bus::connect(&args.nats_url, "bench-load").await?;
    let mut orders = Orders::new();
    answer(&json!({ "ready": true }))?;
    let mut starter = None;
    let mut owner = None;
    while let Some(order) = orders.next().await? {
        let result = match order {
            Order::Warm { runs } => {
                let (fresh, result) = runs::Starter::warm(bus.clone(), runs).await?;
                starter = Some(fresh);
                result
            }
            Order::Runs {
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
                let starter = starter
                    .as_mut()
                    .ok_or_else(|| anyhow::anyhow!("not warm"))?;
                starter.run(&pace).await?
            }
            Order::Far { timers } => timers::far(&bus, timers).await?,
            Order::One => timers::Owner::of(&mut owner, &bus).await?.one().await?,
            Order::Near { timers, over_s } => {
                timers::Owner::of(&mut owner, &bus)
                    .await?
                    .near(timers, over_s)
                    .await?
            }
        };
        answer(&result)?;
    }
    Ok(Outcome::Ok.into())
}

/// What so many measurements in microseconds come to, in milliseconds.
fn spread(mut micros: Vec<u64>) -> Value {
    micros.sort_unstable();
    let at = |percent: usize| {
        let place = (micros.len() * percent / 100).min(micros.len().saturating_sub(1));
        micros.get(place).map(|it| ms(*it))
    };
    json!({ "p50_ms": at(50), "p99_ms": at(99), "max_ms": micros.last().map(|it| ms(*it)) })
}

/// Milliseconds with two places.
#[expect(clippy::cast_precision_loss, reason = "shown with two places")]
fn ms(micros: u64) -> f64 {
    (micros as f64 / 10.0).round() / 100.0
}
