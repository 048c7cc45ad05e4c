//! The load of `bench`: it starts runs, answers requests and sets timers, and measures from outside.

mod answers;
mod http;
mod runs;
mod timers;

use std::process::ExitCode;

use anyhow::Context;
use holdpoint_bus::Bus;
use serde_json::json;

use super::instruction::{BenchAgent, Instruction, Instructions, print_result};
use crate::cli::processes::BenchChildArgs;
use crate::exit::ExitKind;

/// Follows instructions until stdin ends.
pub(crate) async fn run(args: BenchChildArgs) -> anyhow::Result<ExitCode> {
    holdpoint_telemetry::start(holdpoint_telemetry::Default::Warn);
    let bus = Bus::connect(&args.nats_url, "bench-load").await?;
    let mut instructions = Instructions::new();
    print_result(&json!({ "ready": true }))?;
    let mut starter = None;
    let mut owner = None;
    let mut answerer = None;
    while let Some(instruction) = instructions.next().await? {
        let result = match instruction {
            Instruction::WarmUp { runs, agent } => {
                let (new, result) = runs::RunStarter::warm_up(bus.clone(), agent, runs).await?;
                starter = Some(new);
                result
            }
            Instruction::Runs(pace) => {
                let starter = starter.as_mut().context("the load is not warmed up")?;
                starter.measure(&pace).await?
            }
            Instruction::FarTimers { timers } => timers::set_far(&bus, timers).await?,
            Instruction::OneTimer => {
                let owner = timers::owner(&mut owner, &bus).await?;
                owner.measure_one().await?
            }
            Instruction::NearTimers { timers, over_s } => {
                let owner = timers::owner(&mut owner, &bus).await?;
                owner.measure_many(timers, over_s).await?
            }
            Instruction::WarmUpAnswers { runs, api } => {
                let warm = answers::Answerer::warm_up(bus.clone(), &api, runs).await?;
                answerer = Some(warm);
                json!({ "answers": runs })
            }
            Instruction::Block { runs } => {
                let answerer = answerer.as_mut().context("the load is not warmed up")?;
                answerer.block(runs).await?
            }
            Instruction::Answer(pace) => {
                let answerer = answerer.as_mut().context("no runs are blocked")?;
                answerer.answer(&pace).await?
            }
            Instruction::Inbox { runs, calls, api } => {
                let answerer = answers::Answerer::new(bus.clone(), &api, BenchAgent::Approval);
                answerer.await?.measure_inbox(runs, calls).await?
            }
            Instruction::HttpStarts { pace, lines, api } => {
                http::start_runs(&bus, &api, &pace, lines).await?
            }
        };
        print_result(&result)?;
    }
    Ok(ExitKind::Ok.into())
}
